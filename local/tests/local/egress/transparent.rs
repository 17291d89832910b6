//! Connections of programs that do not use the proxy: they are redirected to it.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use koze_core::sandbox::Output;
use koze_core::{Provider, Sandbox};
use koze_local::{Internet, Local, LocalSandbox, Weakness};

use super::{get, stage, status, tunnel};
use crate::Test;
use crate::server;
use crate::stage::{Stage, command, id, out, settings, sh, within};

pub(crate) const TESTS: &[Test] = &[
    ("redirected_connections_need_no_proxy", redirected_connections_need_no_proxy),
    ("redirected_connections_carry_other_protocols", redirected_connections_carry_other_protocols),
    ("redirected_connections_to_addresses", redirected_connections_to_addresses),
    ("redirected_connections_that_are_refused", redirected_connections_that_are_refused),
    ("redirected_connections_stay_on_the_internet", redirected_connections_stay_on_the_internet),
    ("redirected_connections_leave_loopback_alone", redirected_connections_leave_loopback_alone),
    ("redirected_connections_are_limited", redirected_connections_are_limited),
    ("redirection_cannot_be_changed", redirection_cannot_be_changed),
    ("without_redirection_the_proxy_is_left", without_redirection_the_proxy_is_left),
    ("lookups_that_are_hostile", lookups_that_are_hostile),
];

/// Removes the variables of the proxy.
const NO_PROXY: &str =
    "unset HTTP_PROXY HTTPS_PROXY http_proxy https_proxy NO_PROXY no_proxy NODE_USE_ENV_PROXY;";

/// Programs that fetch `http://origin.example/echo`, and how.
const PROGRAMS: &[(&str, &str)] = &[
    (
        "node",
        "node -e 'fetch(\"http://origin.example/echo\").then(r => r.text()).then(console.log, e => { console.log(e.cause); process.exit(1) })'",
    ),
    (
        "python3",
        "python3 -c 'import urllib.request as r; print(r.urlopen(\"http://origin.example/echo\").read().decode())'",
    ),
    ("curl", "curl -sS http://origin.example/echo"),
    (
        "bash",
        "bash -c 'exec 3<>/dev/tcp/origin.example/80; printf \"GET /echo HTTP/1.0\\r\\n\\r\\n\" >&3; cat <&3'",
    ),
];

/// Runs a Python script without the variables of the proxy. Returns its output, and fails if it does.
async fn python(sandbox: &LocalSandbox, script: &str) -> String {
    let argv = ["bash", "-c", &format!("{NO_PROXY} exec python3 -c \"$1\""), "bash", script];
    let output = sandbox.exec(command(&argv)).await.unwrap();
    assert_eq!(output.exit_code, 0, "{script}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns what the journal has: the target, whether it was reached, and the rule.
fn journal(stage: &Stage) -> Vec<(String, bool, String)> {
    let entries = Local::egress(stage.state.path()).unwrap();
    entries.iter().map(|entry| (entry.target(), entry.allowed, entry.rule.clone())).collect()
}

fn redirected_connections_need_no_proxy() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = stage();
        let listed = stage.online("listed", &["origin.example"], &[]).await;
        let all = stage.online("all", &[], &[]).await;
        for (sandbox, rule) in [(&listed, "allowed_hosts: origin.example"), (&all, "internet")] {
            for (program, script) in PROGRAMS {
                if sh(sandbox, &format!("command -v {program}")).await.exit_code != 0 {
                    continue;
                }
                let output = out(sandbox, &format!("{NO_PROXY} {script}")).await;
                assert!(output.contains("GET /echo HTTP/1."), "{program}: {output}");
                let (target, allowed, decided) = journal(&stage).pop().unwrap();
                assert_eq!(
                    (&target[..], allowed, &decided[..]),
                    ("origin.example:80", true, rule),
                    "{program}"
                );
            }
            let address = |name: &str| format!("getent ahosts {name} | cut -d ' ' -f 1 | head -n 1");
            let found = out(sandbox, &address("origin.example")).await;
            assert!(found.starts_with("198.18.") || found.starts_with("198.19."), "{found}");
            assert_eq!(found, out(sandbox, &address("ORIGIN.example")).await);
            let usable = "getent ahostsv4 origin.example | cut -d ' ' -f 1 | head -n 1";
            assert_eq!(found, out(sandbox, usable).await, "what the machine can use");
            // Also when it wakes again.
            stage.local.sleep().await.unwrap();
            assert_eq!(found, out(sandbox, &address("origin.example")).await);
        }
    })
}

fn redirected_connections_carry_other_protocols() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let names = HashMap::from([("db.example".to_owned(), tunnel::greeting())]);
        let stage = Stage::with_names(names);
        let sandbox = stage.online("a", &["db.example:5432"], &[]).await;
        // The server speaks first.
        let script = "import socket\ns = socket.create_connection(('db.example', 5432))\nf = s.makefile('rwb', 0)\n\
                      print(f.readline().decode().strip()); f.write(b'user\\n'); print(f.read().decode())";
        assert_eq!(python(&sandbox, script).await, "220 hello\nUSER\n\n");
        // Another port of the same host.
        let script = "import socket\ns = socket.create_connection(('db.example', 5433))\n\
                      try: print(s.recv(9))\nexcept ConnectionResetError: print('reset')";
        assert_eq!(python(&sandbox, script).await, "reset\n");
        let found = journal(&stage);
        let refused = ("db.example:5433".to_owned(), false, "not in allowed_hosts".to_owned());
        assert!(found[0].1 && found[0].0 == "db.example:5432" && found[1] == refused, "{found:?}");
    })
}

/// Connects to `host` and `port`, sends a request, and prints `answered` if there is a response, else the error.
const CONNECT: &str = r"
import socket, sys
for at in sys.argv[1:]:
    host, port = at.rsplit(' ', 1)
    try:
        s = socket.create_connection((host, int(port)), timeout=60)
        s.sendall(b'GET /echo HTTP/1.0\r\n\r\n')
        print('answered' if s.recv(9) else 'closed')
    except OSError as error: print(type(error).__name__)
";

async fn connect(sandbox: &LocalSandbox, targets: &[&str]) -> Vec<String> {
    let argv = [&["python3", "-c", CONNECT], targets].concat();
    let output = sandbox.exec(command(&argv)).await.unwrap();
    assert_eq!(output.exit_code, 0, "{}", stderr(&output));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Creates a stage where addresses lead to a server, and names to addresses.
fn with_addresses(answers: &[(&str, &str)], servers: &[&str]) -> Stage {
    let at = server::here();
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    let internet = Internet {
        answers: answers
            .iter()
            .map(|(name, found)| ((*name).to_owned(), vec![vec![address(found)]]))
            .collect::<HashMap<_, _>>(),
        servers: servers.iter().map(|text| (address(text), at)).collect::<HashMap<_, SocketAddr>>(),
        ..Internet::default()
    };
    let state = tempfile::tempdir().unwrap();
    Stage { local: Local::with_internet(state.path(), internet).unwrap(), state }
}

fn redirected_connections_to_addresses() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = with_addresses(&[("far.example", "203.0.113.80")], &["203.0.113.80", "2001:db8::80"]);
        let all = stage.online("all", &[], &["203.0.113.81"]).await;
        let found =
            connect(&all, &["203.0.113.80 80", "203.0.113.80 8080", "far.example 80", "203.0.113.81 80"]);
        assert_eq!(found.await, ["answered", "answered", "answered", "ConnectionResetError"]);
        let listed = stage.online("listed", &["203.0.113.80:8080"], &[]).await;
        let found = connect(&listed, &["203.0.113.80 8080", "203.0.113.80 80"]).await;
        assert_eq!(found, ["answered", "ConnectionResetError"]);
        // Kernels without IPv6 have no address of the loopback interface here.
        if sh(&all, "grep -q . /proc/net/if_inet6").await.exit_code == 0 {
            assert_eq!(connect(&all, &["2001:db8::80 80", "2001:db8::81 80"]).await[0], "answered");
        }
    })
}

fn redirected_connections_that_are_refused() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = stage();
        let sandbox = stage.online("a", &["origin.example"], &[]).await;
        let note = "egress_refused: the network policy of the sandbox refused";
        for (script, target, rule) in [
            ("getent ahosts other.example", "other.example", "name lookup: not in allowed_hosts"),
            (
                "bash -c 'exec 3<>/dev/tcp/other.example/80'",
                "other.example",
                "name lookup: not in allowed_hosts",
            ),
            (
                "bash -c 'exec 3<>/dev/tcp/203.0.113.80/80; read -r line <&3'",
                "203.0.113.80:80",
                "not in allowed_hosts",
            ),
            (
                "bash -c 'exec 3<>/dev/tcp/origin.example/81; read -r line <&3'",
                "origin.example:81",
                "not in allowed_hosts",
            ),
        ] {
            let output = sh(&sandbox, script).await;
            assert_ne!(output.exit_code, 0, "{script}");
            assert!(stderr(&output).contains(&format!("{note} {target}")), "{script}: {}", stderr(&output));
            let found = journal(&stage);
            assert!(found.contains(&(target.to_owned(), false, rule.to_owned())), "{script}: {found:?}");
        }
        if sh(&sandbox, "command -v node").await.exit_code == 0 {
            let fetch = "fetch(\"https://other.example/\").catch(e => { console.log(e.cause.code); process.exit(1) })";
            let output = sh(&sandbox, &format!("{NO_PROXY} node -e '{fetch}'")).await;
            assert_eq!((output.exit_code, &output.stdout[..]), (1, &b"ENOTFOUND\n"[..]));
        }
        // A request for another host of the same server.
        let script = "import socket\nfor host in ('origin.example', 'other.example'):\n s = socket.create_connection(('origin.example', 80))\n \
                      s.sendall(b'GET /echo HTTP/1.1\\r\\nHost: ' + host.encode() + b'\\r\\nConnection: close\\r\\n\\r\\n')\n \
                      print(s.makefile('rb').readline().decode().strip())";
        assert_eq!(python(&sandbox, script).await, "HTTP/1.1 200 OK\nHTTP/1.1 403 Forbidden\n");
        // Without a network, everything fails at once, and nothing answers.
        let off = stage.open("off").await;
        let found = connect(&off, &["203.0.113.80 80", "198.18.0.1 80", "origin.example 80"]).await;
        assert_eq!(found, ["OSError", "OSError", "gaierror"]);
    })
}

fn redirected_connections_stay_on_the_internet() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let near = server::here();
        assert!(std::net::TcpStream::connect(near).is_ok(), "the control");
        let answers = [("near.example", "127.0.0.1"), ("metadata.example", "169.254.169.254")];
        let stage = with_addresses(&answers, &[]);
        let sandbox = stage.online("a", &[], &[]).await;
        let port = near.port();
        let targets = [
            // What is not listening in the sandbox is not on the host either.
            (format!("127.0.0.1 {port}"), "ConnectionRefusedError"),
            (format!("127.0.0.53 {port}"), "ConnectionRefusedError"),
            (format!("0.0.0.0 {port}"), "ConnectionRefusedError"),
            (format!("localhost {port}"), "ConnectionRefusedError"),
            // The transparent proxy itself, the port of the resolver over TCP, and an address that stands for no name.
            ("127.0.0.1 3129".into(), "ConnectionResetError"),
            ("127.0.0.53 53".into(), "ConnectionRefusedError"),
            ("198.18.7.7 80".into(), "ConnectionResetError"),
            (format!("198.18.0.0 {port}"), "ConnectionRefusedError"),
            (format!("169.254.169.254 {port}"), "ConnectionResetError"),
            (format!("10.0.0.1 {port}"), "ConnectionResetError"),
            (format!("192.168.0.1 {port}"), "ConnectionResetError"),
            (format!("::ffff:169.254.169.254 {port}"), "ConnectionResetError"),
            (format!("near.example {port}"), "ConnectionResetError"),
            (format!("metadata.example {port}"), "ConnectionResetError"),
            (format!("a.localhost {port}"), "gaierror"),
        ];
        let all: Vec<_> = targets.iter().map(|(target, _)| &target[..]).collect();
        let found = connect(&sandbox, &all).await;
        for ((target, wanted), found) in targets.iter().zip(found) {
            assert_eq!(found, *wanted, "{target}");
        }
    })
}

fn redirected_connections_leave_loopback_alone() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = stage();
        let sandbox = stage.online("a", &[], &[]).await;
        server::inside(&sandbox, "0.0.0.0:8080").await;
        let found =
            connect(&sandbox, &["127.0.0.1 8080", "127.0.0.2 8080", "localhost 8080", "198.18.0.0 8080"])
                .await;
        assert_eq!(found, ["answered"; 4]);
        // Over UDP, too, and from the port of the transparent proxy.
        let script = "import socket\na = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); a.bind(('127.0.0.1', 0))\n\
                      b = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); b.bind(('127.0.0.2', 3129))\n\
                      b.sendto(b'hello', a.getsockname()); print(a.recv(9).decode())";
        assert_eq!(python(&sandbox, script).await, "hello\n");
        assert_eq!(journal(&stage), []);
    })
}

fn redirected_connections_are_limited() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = stage();
        let sandbox = stage.online("a", &["origin.example"], &[]).await;
        // What the proxy does not accept yet counts, too.
        let script = r"
import errno, select, socket
at = socket.getaddrinfo('origin.example', 80)[0][4]
all = [socket.socket() for _ in range(1500)]
for s in all:
    s.setblocking(False)
    assert s.connect_ex(at) == errno.EINPROGRESS
last = select.poll(); last.register(all[-1], select.POLLOUT); last.poll()
refused = [s for s in all if s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED]
print(len(all) - len(refused))
";
        assert_eq!(python(&sandbox, script).await, "1024\n");
        assert_eq!(connect(&sandbox, &["origin.example 80"]).await, ["answered"]);
    })
}

/// On a kernel without nftables, sandboxes start, and programs reach hosts by the proxy in their environment.
fn without_redirection_the_proxy_is_left() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let names = HashMap::from([("origin.example".to_owned(), server::here())]);
        let stage = Stage::weakened_with_names(names, vec![Weakness::Redirection]);
        let sandbox = stage.online("a", &["origin.example"], &[]).await;
        assert_eq!(status(&get(&sandbox, "http://origin.example/echo").await), 200);
        let found = connect(&sandbox, &["203.0.113.80 80", "origin.example 80"]).await;
        assert_eq!(found, ["OSError", "gaierror"]);
    })
}

fn redirection_cannot_be_changed() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = stage();
        let sandbox = stage.online("a", &[], &[]).await;
        let script = r"
import errno, socket, struct
def tried(what, *args):
    try: what(*args); print('done')
    except OSError as error: print(errno.errorcode[error.errno])
# nftables, and raw packets.
tried(socket.socket, socket.AF_NETLINK, socket.SOCK_RAW, 12)
tried(socket.socket, socket.AF_INET, socket.SOCK_RAW, 255)
tried(socket.socket, socket.AF_PACKET, socket.SOCK_RAW)
# The default route.
route = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
body = struct.pack('=BBBBBBBBI', socket.AF_INET, 0, 0, 0, 254, 0, 255, 0, 0)
route.send(struct.pack('=IHHII', 16 + len(body), 25, 5, 1, 0) + body)
print(errno.errorcode[-struct.unpack('=i', route.recv(4096)[16:20])[0]])
# The address of the interface, and a mark that rules could see.
s = socket.socket()
tried(s.setsockopt, socket.SOL_SOCKET, 36, 1)
tried(s.setsockopt, socket.IPPROTO_IP, 19, 1)
";
        assert_eq!(python(&sandbox, script).await, "EPROTONOSUPPORT\nEPERM\nEPERM\nEPERM\nEPERM\nEPERM\n");
        assert_eq!(connect(&sandbox, &["origin.example 80"]).await, ["answered"]);
        assert_ne!(sh(&sandbox, "echo 1 > /proc/sys/net/ipv4/conf/all/route_localnet").await.exit_code, 0);
    })
}

fn lookups_that_are_hostile() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let mut settings = settings();
        settings.profile.internet = true;
        let names = HashMap::from([("origin.example".to_owned(), server::here())]);
        let stage = Stage::with_names(names);
        let sandbox = stage.local.open(&id("a"), &settings).await.unwrap().sandbox;
        let first = out(&sandbox, "getent ahosts origin.example | head -n 1").await;
        let script = r"
import os, socket, struct
def query(name, number=0):
    labels = b''.join(bytes([len(part)]) + part for part in name)
    return struct.pack('>HHHHHH', number, 0x100, 1, 0, 0, 0) + labels + b'\0' + struct.pack('>HH', 1, 1)
def asking():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.connect(('127.0.0.53', 53)); s.settimeout(1)
    return s
asked = 0
def code(s, bytes):
    global asked
    asked += 1
    number = struct.pack('>H', asked)
    # As every resolver, it asks again: the kernel drops what comes faster than it is answered.
    for _ in range(50):
        try:
            s.send(number + bytes[2:])
            while True:
                answer = s.recv(4096)
                if answer[:2] == number: return answer[3] & 15
        except socket.timeout: pass
s = asking()
print('name of 255 bytes', code(s, query([b'a' * 63] * 3 + [b'a' * 61])))
print('odd bytes', code(s, query([b'a b', b'\xff\0'])))
# Nobody reads these answers.
mute = [asking() for _ in range(50)]
for number in range(20000): mute[number % 50].send(os.urandom(40) if number % 2 else query([b'origin', b'example']))
print('after a flood', code(s, query([b'origin', b'example'])))
codes = [code(s, query([b'%d' % number, b'example'])) for number in range(17000)]
print('many names', codes.index(2), set(codes[16382:]), set(codes[:16382]))
print('a known name', code(s, query([b'origin', b'example'])))
# Nothing else answers lookups, or takes datagrams.
for at in [('8.8.8.8', 53), ('198.18.0.1', 53), ('203.0.113.80', 5000), ('169.254.169.254', 123)]:
    u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try: u.sendto(query([b'origin', b'example']), at); print('sent')
    except OSError as error: print(type(error).__name__)
";
        let expected =
            "name of 255 bytes 0\nodd bytes 3\nafter a flood 0\nmany names 16382 {2} {0}\na known name 0\n";
        let refused = "PermissionError\n".repeat(4);
        assert_eq!(python(&sandbox, script).await, format!("{expected}{refused}"));
        // The addresses that were given out still lead to the same hosts.
        assert_eq!(out(&sandbox, "getent ahosts origin.example | head -n 1").await, first);
        assert_eq!(connect(&sandbox, &["origin.example 80"]).await, ["answered"]);
    })
}
