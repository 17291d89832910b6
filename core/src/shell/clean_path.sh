set -f
clean=
IFS=:
for directory in $PATH; do
  case $directory in
    /*) [ -d "$directory" ] && [ ! -w "$directory" ] && [ ! -O "$directory" ] && clean=$clean${clean:+:}$directory ;;
  esac
done
unset IFS
[ -z "$clean" ] || PATH=$clean
export PATH
unset clean directory
# bash sets the variable BASH, sh does not.
[ -z "${BASH-}" ] || exec "$BASH" --noprofile --norc -c -- "$@"
exec /bin/sh -c -- "$@"
