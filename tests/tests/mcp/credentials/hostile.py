# Collects everything that a program in a sandbox can reach, without an idea of what a credential's value looks like: in files of `dump`, and
# on standard output. The test searches both.
import ctypes, glob, os, socket, ssl, subprocess, sys, time, urllib.error, urllib.request

KEY = os.environ["API_KEY"]
os.makedirs("dump", exist_ok=True)


def save(name, content):
    with open(f"dump/{name}", "ab") as file:
        file.write(content)


def fetch(url, headers):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=20) as response:
            return str(response.headers).encode() + response.read()
    except urllib.error.HTTPError as error:
        return str(error).encode() + str(error.headers).encode() + error.read()
    except OSError as error:
        return str(error).encode()


# A program like any other uses the credential, and keeps running with all that it has received.
PROGRAM = """
import os, time, urllib.request
request = urllib.request.Request('https://api.example/program', headers={'Authorization': 'Bearer ' + os.environ['API_KEY']})
answer = urllib.request.urlopen(request).read()
print('ready', flush=True)
time.sleep(600)
"""
program = subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE)
print("program:", program.stdout.readline().decode().strip())

# The keys of TLS: they decrypt what programs exchange with koze's proxy.
context = ssl.create_default_context()
context.keylog_filename = "dump/keys"
opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context))
request = urllib.request.Request("https://api.example/keys", headers={"Authorization": "Bearer " + KEY})
save("echo", opener.open(request).read())
save("echo", fetch("https://api.example/echo", {"Authorization": "Bearer " + KEY}))
print("keys:", os.path.getsize("dump/keys") > 0)

# Error texts: of requests that koze refuses, and of other hosts.
for url, headers in [
    ("https://api.example/", {"X-Meta": KEY}),
    (f"https://api.example/?key={KEY}", {}),
    (f"https://api.example/{KEY}", {"Authorization": "Bearer " + KEY}),
    ("http://api.example/", {"Authorization": "Bearer " + KEY}),
    (f"https://{KEY}.example/", {}),
    ("https://other.example/", {"Authorization": "Bearer " + KEY}),
]:
    text = fetch(url, headers)
    save("errors", text)
    print("error:", text.decode()[:300].replace("\n", " "))

# Names that carry the placeholder, and the resolver.
for name in (f"{KEY[:40]}.example", "api.example"):
    try:
        print("name:", socket.getaddrinfo(name, 443))
    except OSError as error:
        print("name:", error)

# Environments, command lines and memory of all processes, by /proc and by ptrace.
libc = ctypes.CDLL(None, use_errno=True)
for process in glob.glob("/proc/[0-9]*"):
    pid = int(process.split("/")[2])
    for name in ("environ", "cmdline", "status", "maps", "auxv", "mountinfo", "io", "stack", "syscall"):
        try:
            save(f"proc.{name}", open(f"{process}/{name}", "rb").read())
        except OSError:
            pass
    if pid == os.getpid():
        continue
    attached = libc.ptrace(16, pid, 0, 0) == 0
    if attached:
        os.waitpid(pid, 0x40000000)
    try:
        memory = open(f"{process}/mem", "rb", 0)
        for line in open(f"{process}/maps"):
            start, end = (int(part, 16) for part in line.split()[0].split("-"))
            # What a program has written: its files are on the disk anyway.
            if "w" not in line.split()[1] or end - start > 1 << 26:
                continue
            try:
                memory.seek(start)
                save(f"memory.{pid}", memory.read(end - start))
            except (OSError, ValueError, OverflowError):
                pass
    except OSError as error:
        print(f"memory of {pid}:", error)
    if attached:
        libc.ptrace(17, pid, 0, 0)

# A core file.
subprocess.run(["sh", "-c", "ulimit -c unlimited; cd dump; kill -ABRT $$"], check=False)
# The disk, as far as koze or programs wrote it.
places = ["/etc", "/home", "/tmp", "/dev/shm", "/var", "/run", "/mnt", "/root", "/opt", "/srv"]
disk = ["tar", "--ignore-failed-read", "--one-file-system", "-cf", "dump/disk.tar"]
subprocess.run(disk + [place for place in places if os.path.isdir(place)], stderr=subprocess.DEVNULL, check=False)
print("dumped:", sorted(os.listdir("dump")))
print("environment:", dict(os.environ))
program.kill()
