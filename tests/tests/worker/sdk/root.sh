# Sets up the root of a stand-in container in $root, an empty directory. It contains this machine's system programs,
# read-only. The mounts end with the namespaces of the script that sources this.

mount --make-rprivate /
mount -t tmpfs -o mode=755,size=160m tmpfs "$root"
cd "$root"
mkdir etc proc dev tmp root run workspace home opt opt/node_modules opt/door usr var
bind() { # FROM TO: read-only
  if [[ -d $1 ]]; then mkdir -p "./$2"; else touch "./$2"; fi
  mount --rbind "$1" "./$2"
  mount -o remount,bind,ro "./$2" 2>/dev/null || true
}
bind /usr usr
for name in bin sbin lib lib32 lib64; do
  if [[ -L /$name ]]; then cp -P "/$name" .; elif [[ -d /$name ]]; then bind "/$name" "$name"; fi
done
for name in alternatives ld.so.cache nsswitch.conf; do
  [[ ! -e /etc/$name ]] || bind "/etc/$name" "etc/$name"
done
# Root may change these.
cp /etc/passwd /etc/group etc
echo '127.0.0.1 localhost' >etc/hosts
echo 'root:*:20000:0:99999:7:::' >etc/shadow
chmod 640 etc/shadow
mount -t tmpfs -o mode=755 tmpfs dev
for name in null zero full random urandom tty; do touch "dev/$name" && mount --bind "/dev/$name" "dev/$name"; done
ln -s /proc/self/fd dev/fd
ln -s /proc/self/fd/0 dev/stdin
ln -s /proc/self/fd/1 dev/stdout
ln -s /proc/self/fd/2 dev/stderr
mkdir dev/pts && mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts dev/pts
ln -s pts/ptmx dev/ptmx
mkdir dev/shm && mount -t tmpfs tmpfs dev/shm
# A small disk that can be filled.
mkdir small && mount -t tmpfs -o size=1m tmpfs small
mkdir var/tmp
chmod 1777 tmp var/tmp
# Bring up the loopback device of the new network: SIOCSIFFLAGS with IFF_UP and IFF_RUNNING.
perl -MSocket -e 'socket(S, AF_INET, SOCK_DGRAM, 0) or die; my $lo = pack("a16 s x22", "lo", 0x41); ioctl(S, 0x8914, $lo) or die "$!"'
