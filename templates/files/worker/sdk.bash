# What koze runs in the container of a sandbox: one operation of its contract, in one command.
#
# What it works on comes in variables, never in its text: the operation, a number nobody else has, and base64 of texts
# that each end in a NUL byte, or the path of a file that holds them. It answers on its standard output, since the
# container takes that for UTF-8 and drops its last newline: a line of words, lines of base64, and a dot.
#
# It takes bash 5.1 and the GNU programs of Debian and Ubuntu: coreutils, findutils, grep and util-linux.

op=$KOZE_OP id=$KOZE_ID texts=$KOZE_TEXTS texts_file=$KOZE_TEXTS_FILE data=$KOZE_DATA data_file=$KOZE_DATA_FILE
# None of it is for the programs that are run.
unset KOZE_SCRIPT KOZE_OP KOZE_ID KOZE_TEXTS KOZE_TEXTS_FILE KOZE_DATA KOZE_DATA_FILE CDPATH
if ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] < 501)); then
  printf 'fault OLD_BASH 0\n.'
  exit
fi
if [[ $texts_file ]]; then
  mapfile -d '' -t text <"$texts_file"
else
  mapfile -d '' -t text < <(base64 -d <<<"$texts")
fi
trap 'rm -f -- ${texts_file:+"$texts_file"} ${data_file:+"$data_file"}' EXIT
# Where tools start; the image has no such directory.
[[ -d /home/user ]] || mkdir -p /home/user

# Ends with what went wrong: one word, and which of the paths it is about.
fault() {
  printf 'fault %s %s\n.' "$1" "$about"
  exit
}

# The same, for what a program said of what the kernel answered.
said() {
  case $1 in
    *': No such file or directory') fault ENOENT ;;
    *': File exists' | *': Directory not empty') fault EEXIST ;;
    *': Is a directory' | *': cannot overwrite directory '*) fault EISDIR ;;
    *': Not a directory' | *': cannot overwrite non-directory '*) fault ENOTDIR ;;
    *': Permission denied' | *': Operation not permitted') fault EACCES ;;
    *': Read-only file system' | *': Device or resource busy') fault EROFS ;;
    *': Too many levels of symbolic links') fault ELOOP ;;
    *': File name too long') fault ENAMETOOLONG ;;
    *': Invalid argument' | *' to a subdirectory of itself'*) fault EINVAL ;;
    *': No space left on device' | *': Disk quota exceeded' | *': File too large') fault ENOSPC ;;
    *': Cannot allocate memory' | *': Resource temporarily unavailable' | *': Too many open files'*) fault ENOMEM ;;
    *': command not found' | *'unrecognized option'* | *'invalid option'* | *'unknown predicate'*) fault LACKING ;;
    *) fault OTHER ;;
  esac
}

# Whether a path without links lies in the root.
inside() {
  [[ $root == / || $1 == "$root" || $1 == "$root"/* ]]
}

# Goes into a directory, links followed.
enter() {
  cd -P -- "$1" 2>/dev/null || said "$(cd -P -- "$1" 2>&1)"
}

# Goes where the last name of a path lies; it is in $name then, not followed where it is a link.
place() {
  name=${1##*/}
  case $name in
    '' | . | ..) enter "$1" && name=. && inside "$PWD" || fault ESCAPE ;;
    *) enter "${1%/*}/" && inside "${PWD%/}/$name" || fault ESCAPE ;;
  esac
}

# The same for what is made, moved or taken away there: a slash at the end says nothing, and the name is never a dot.
entry() {
  local path=$1
  while [[ $path == */ && $path != / ]]; do path=${path%/}; done
  case ${path##*/} in
    '' | . | ..)
      enter "$path"
      path=$PWD
      [[ $path != / ]] || fault ROOT
      ;;
  esac
  name=${path##*/}
  enter "${path%/*}/"
  inside "$PWD" || fault ESCAPE
}

# Goes into a directory that is made where it is missing, and so those above it.
walk() {
  local rest=$1/ part why
  cd -P /
  while [[ $rest ]]; do
    part=${rest%%/*} rest=${rest#*/}
    if [[ ! $part ]] || cd -P -- "./$part" 2>/dev/null; then continue; fi
    if [[ ! -e ./$part && ! -L ./$part ]]; then
      inside "${PWD%/}/$part" || fault ESCAPE
      # Somebody else may make it at the same time.
      why=$(umask 022 && mkdir -- "./$part" 2>&1) || [[ -d ./$part ]] || said "$why"
    fi
    enter "./$part"
  done
  inside "$PWD" || fault ESCAPE
}

# What is written, as it comes.
bytes() {
  if [[ $data_file ]]; then cat -- "$data_file"; else base64 -d <<<"$data"; fi
}

read_piece() {
  local offset=${text[2]} limit=${text[3]} file size lies
  [[ ! -d $1 ]] || fault EISDIR
  [[ -f $1 ]] || { [[ ! -e $1 ]] || fault SPECIAL; said "$(stat -L -- "$1" 2>&1)"; }
  # bash itself would make connections of names like /dev/tcp; with a dot in them it does not.
  { exec {file}<"/.$1"; } 2>/dev/null || said "$({ : <"/.$1"; } 2>&1)"
  if [[ $root != / ]]; then
    lies=$(readlink -- "/proc/$$/fd/$file"; printf x)
    inside "${lies%$'\n'x}" || fault ESCAPE
  fi
  size=$(stat -c %s - <&"$file") || fault OTHER
  printf 'ok %s\n' "$size"
  # What has no size may hold something yet, in /proc.
  if ((size == 0 || offset < size)); then
    dd bs=256K iflag=fullblock,skip_bytes,count_bytes skip="$offset" count="$limit" status=none <&"$file" 2>/dev/null | base64 -w0
  fi
  printf '\n.'
}

write_file() {
  local path=$1 how=${text[2]} turns=0 mode=644 before why temporary
  while :; do
    [[ $path != */ ]] || fault EISDIR
    case ${path##*/} in . | ..) fault EISDIR ;; esac
    walk "${path%/*}/"
    name=${path##*/}
    [[ -L ./$name ]] || break
    # A link is followed, also to where nothing is yet.
    ((++turns <= 40)) || fault ELOOP
    path=$(readlink -- "./$name"; printf x) path=${path%$'\n'x}
    [[ $path == /* ]] || path=$PWD/$path
  done
  if [[ -e ./$name ]]; then
    [[ ! -d ./$name ]] || fault EISDIR
    [[ -f ./$name ]] || fault SPECIAL
    # A file that its owner made read-only is meant to stay.
    [[ -w ./$name ]] || fault EACCES
    read -r mode before <<<"$(stat -c '%a %s' -- "./$name")"
  fi
  umask 022
  if [[ $how == append ]]; then
    # All of it in one write, behind all that others write.
    if ! why=$(bytes | dd bs=8M iflag=fullblock oflag=append conv=notrunc of="./$name" status=none 2>&1); then
      if [[ $before ]]; then truncate -s "$before" -- "./$name"; else rm -f -- "./$name"; fi
      said "$why"
    fi
    stat --printf 'ok %s\n.' -- "./$name"
    return
  fi
  temporary=./.koze-$id
  if why=$({ bytes >"$temporary"; } 2>&1) && why=$(chmod "$mode" -- "$temporary" 2>&1) &&
    why=$(mv -fT -- "$temporary" "./$name" 2>&1); then
    printf 'ok\n.'
  else
    rm -f -- "$temporary"
    said "$why"
  fi
}

list() {
  enter "$1"
  inside "$PWD" || fault ESCAPE
  [[ -r . ]] || fault EACCES
  printf 'ok\n'
  # What goes away meanwhile is left out.
  find . -mindepth 1 -maxdepth 1 -printf '%y %m %s\0%f\0%l\0' | base64 -w0
  printf '\n.'
}

describe() {
  local found
  place "$1"
  found=$(find "./$name" -maxdepth 0 -printf '%y %m %s' 2>&1) || said "$found"
  printf 'ok %s\n' "$found"
  if [[ -L ./$name ]]; then readlink -n -- "./$name" | base64 -w0; fi
  printf '\n.'
}

make_dir() {
  walk "$1"
  printf 'ok\n.'
}

make_link() {
  local why
  entry "$1"
  why=$(ln -sT -- "${text[2]}" "./$name" 2>&1) || said "$why"
  printf 'ok\n.'
}

set_mode() {
  local why path=$1
  if [[ $root != / ]]; then
    path=$(realpath -e -- "$1"; printf x) path=${path%$'\n'x}
    [[ $path == x ]] || inside "$path" || fault ESCAPE
    [[ $path != x ]] || path=$1
  fi
  why=$(chmod -- "${text[2]}" "$path" 2>&1) || said "$why"
  printf 'ok\n.'
}

remove() {
  local why
  entry "$1"
  [[ -e ./$name || -L ./$name ]] || fault ENOENT
  why=$(rm -rf -- "./$name" 2>&1) || said "$why"
  printf 'ok\n.'
}

rename() {
  local why from
  entry "$1"
  [[ -e ./$name || -L ./$name ]] || fault ENOENT
  from=${PWD%/}/$name
  about=1 root=${text[2]}
  confine
  entry "${text[3]}"
  if [[ $from == "${PWD%/}/$name" ]]; then
    printf 'ok\n.'
    return
  fi
  if [[ $(stat -c %d -- "${from%/*}/" | uniq) != $(stat -c %d -- .) ]]; then
    # From another file system: beside the target first, so that half of it is never there.
    why=$(cp -aT -- "$from" "./.koze-$id" 2>&1) && why=$(mv -fT -- "./.koze-$id" "./$name" 2>&1) || {
      rm -rf -- "./.koze-$id"
      said "$why"
    }
    rm -rf -- "$from"
  else
    why=$(mv -fT -- "$from" "./$name" 2>&1) || said "$why"
  fi
  printf 'ok\n.'
}

# The root as the kernel knows it.
confine() {
  [[ $root == / ]] && return
  enter "$root"
  root=$PWD
}

#
# Programs
#

# Copies a stream into files, each named by where it begins in the stream: those that begin within $limit bytes, and as
# many of the last as hold so much. When nobody wants them any more, it lets the stream run dry, for what still writes
# would die of its end.
keep() {
  local at=0 count=8 start file said size late=()
  while [[ -d $dir ]]; do
    start=$at
    printf -v file '%s/%s.%015d' "$dir" "$1" "$at"
    # Each read is written at once; so many at most stand in one file, few in the first.
    LC_ALL=C dd bs=64K count="$count" of="$file" 2>"$dir/$1-records" || break
    mapfile -d '' -t said <"$dir/$1-records" && [[ $said =~ ([0-9]+)\+([0-9]+)' records in' ]] || break
    # Where there were fewer, the stream has ended.
    ((BASH_REMATCH[1] + BASH_REMATCH[2] == count)) || return
    count=256
    size=$(stat -c %s -- "$file") || break
    ((at += size))
    ((start < limit)) || late+=("$file" "$at")
    while ((${#late[@]} > 2 && at - late[1] > limit + ${#mark})); do
      rm -f -- "${late[0]}"
      late=("${late[@]:2}")
    done
  done
  exec cat
}

# Prints how long a stream was up to the mark, and its first and last bytes; more of them than it was long do no harm.
show() {
  local LC_ALL=C files last parts text at total tail turn
  for ((turn = 0; turn < 200; turn++)); do
    files=("$dir/$1".*)
    # A short text is looked through without another program.
    parts=()
    if ((${#files[@]} == 1)) && [[ -e $files ]]; then mapfile -d '' -t parts <"$files"; fi
    if ((${#parts[@]} == 1)) && [[ ${parts: -${#mark}} == "$mark" ]]; then
      text=${parts::-${#mark}}
      if ((${#text} <= limit)); then
        printf '%s\n' "${#text}"
        base64 -w0 <<<"$text"
        printf '\n\n'
        return
      fi
    fi
    # The programs that write them may not even have begun.
    last=("${files[@]:${#files[@]} > 1 ? ${#files[@]} - 2 : 0}")
    at=$([[ ! -e $last ]] || cat -- "${last[@]}" | grep -abom1 -F -- "$mark")
    [[ ! $at ]] || break
    sleep 0.005
  done
  # Where others print too much to find it, all that is there counts.
  at=${at%%:*} total=$((10#${last[0]##*.} + ${at:-$(cat -- "${last[@]}" | wc -c)}))
  printf '%s\n' "$total"
  if ((total <= limit)); then
    cat -- "${files[@]}" | head -c "$total" | base64 -w0
    printf '\n\n'
    return
  fi
  tail=$((limit / 2))
  cat -- "${files[@]}" | head -c $((limit - tail)) | base64 -w0
  printf '\n'
  # Only what comes from there on is all there, and stays.
  while [[ ${files[1]} ]] && ((10#${files[1]##*.} <= total - tail)); do files=("${files[@]:1}"); done
  cat -- "${files[@]}" | head -c $((total - 10#${files[0]##*.})) | tail -c "$tail" | base64 -w0
  printf '\n'
}

# Kills a program and all that came of it, groups and sessions of their own included. Each is stopped first: while the
# program lives, what it leaves behind is found below it.
kill_all() {
  local file stat pid fresh round line=()
  local -A hit=(["$1"]=1)
  kill -STOP "$1" 2>/dev/null
  for ((round = 0; round < 64; round++)); do
    fresh=
    # What has left both its parent and its session still has the variable.
    while read -r -d '' file; do
      file=${file#/proc/} pid=${file%/*}
      [[ ! ${hit[$pid]} ]] || continue
      kill -STOP "$pid" 2>/dev/null
      hit[$pid]=1 fresh=1
    done < <(grep -lzxsF -Z -- "KOZE_RUN=$id" /proc/[0-9]*/environ)
    for file in /proc/[0-9]*/stat; do
      { read -r stat <"$file"; } 2>/dev/null || continue
      # The name in brackets may hold anything, brackets included.
      pid=${stat%% *} line=(${stat##*) })
      # Its state, its parent, its group, its session.
      if [[ ! ${hit[$pid]} && (${hit[${line[1]}]} || ${line[3]} == "$1") ]]; then
        kill -STOP "$pid" 2>/dev/null
        hit[$pid]=1 fresh=1
      fi
    done
    [[ $fresh ]] || break
  done
  kill -KILL "${!hit[@]}" 2>/dev/null
}

# Becomes the program; says why it could not.
become() {
  # A PATH of the program's own is not this script's.
  local setsid=$(type -P setsid) env=$(type -P env) nice=$(type -P nice)
  local variables=("${text[@]:4:$((2 * count))}") argv=("${text[@]:$((4 + 2 * count))}") assigned=() found n
  cd -- "${text[2]}" || exit
  for ((n = 0; n < ${#variables[@]}; n += 2)); do
    assigned+=("${variables[n]}=${variables[n + 1]}")
    [[ ${variables[n]} != PATH ]] || PATH=${variables[n + 1]}
  done
  case ${argv[0]} in */*) found=${argv[0]} ;; *) found=$(type -P -- "${argv[0]}") ;; esac
  if [[ ! -e $found ]]; then
    echo NO_PROGRAM >"$dir/fault"
  elif [[ -d $found || ! -x $found ]]; then
    echo NO_EXECUTABLE >"$dir/fault"
  else
    # env takes what holds a sign of equality for a variable; nice takes it for a program.
    [[ $count == 0 || ${argv[0]} != *=* ]] || argv=("$nice" -n 0 -- "${argv[@]}")
    ((count == 0)) || argv=("$env" -- "${assigned[@]}" "${argv[@]}")
    export KOZE_RUN=$id
    exec "$setsid" -- "${argv[@]}"
  fi
  exit 127
}

run() {
  local ms=${text[0]} limit=${text[1]} count=${text[3]} dir=/tmp/.koze-$id mark=koze-$id-end
  local out err timer pid ended code until left killed=0 late=0
  [[ -d ${text[2]} && -x ${text[2]} ]] || LC_ALL=C enter "${text[2]}"
  mkdir -m 700 -- "$dir" 2>/dev/null || fault NO_TMP
  # The container waits until nobody holds this script's own outputs.
  exec {out}> >(exec >/dev/null 2>&1 && keep out)
  exec {err}> >(exec >/dev/null 2>&1 {out}>&- && keep err)
  # In microseconds.
  until=$((${EPOCHREALTIME//[!0-9]/} + 1000 * ms))
  become >&"$out" 2>&"$err" {out}>&- {err}>&- &
  pid=$!
  # In one step, for whoever is to stop it.
  printf '%s\n' "$pid" >"$dir/pid.new" && mv -f -- "$dir/pid.new" "$dir/pid"
  # Where the container ends this script, the program ends as well.
  trap 'kill_all "$pid"; rm -rf -- "$dir"; exit 143' TERM
  while :; do
    left=$((until - ${EPOCHREALTIME//[!0-9]/}))
    ((left > 0)) || left=0
    printf -v left '%d.%06d' $((left / 1000000)) $((left % 1000000))
    sleep "$left" >/dev/null 2>&1 {out}>&- {err}>&- &
    timer=$!
    # Of one that ended while another command ran, `wait -n` knows nothing any more: it would wait for the timer.
    if [[ -e /proc/$pid ]]; then
      wait -n -p ended "$pid" "$timer" 2>/dev/null
      code=$?
    else
      wait "$pid" 2>/dev/null
      code=$? ended=$pid
    fi
    [[ $ended == "$timer" ]] || break
    # One that did not come to its end, something in the sandbox has killed; again and again, it would have its way.
    ((code == 0 || ++killed == 100 || ${EPOCHREALTIME//[!0-9]/} >= until)) && late=1 && break
  done
  if ((late)); then
    kill_all "$pid"
    wait "$pid" 2>/dev/null
    code=124
  else
    kill "$timer" 2>/dev/null
  fi
  # Behind all that the program printed, and between what others print by now.
  printf %s "$mark" >&"$out"
  printf %s "$mark" >&"$err"
  exec {out}>&- {err}>&-
  if [[ -s $dir/fault ]]; then
    read -r code <"$dir/fault"
    rm -rf -- "$dir"
    fault "$code"
  fi
  printf 'ok %s %s\n' "$code" "$late"
  show out
  show err
  rm -rf -- "$dir"
  printf .
}

# Kills the program of another call, which may not have begun yet.
stop() {
  local pid turn
  id=$1
  for ((turn = 0; turn < 100; turn++)); do
    if { read -r pid <"/tmp/.koze-$id/pid"; } 2>/dev/null; then
      kill_all "$pid"
      break
    fi
    sleep 0.05
  done
  printf 'ok\n.'
}

about=0 root=${text[0]}
if [[ $op == run ]]; then
  root=/ about=2
  run
else
  # The words above are those of this language.
  export LC_ALL=C
  confine
  "$op" "${text[1]}"
fi
