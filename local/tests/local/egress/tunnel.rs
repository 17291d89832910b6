//! What is checked within a tunnel without TLS.

use std::collections::HashMap;
use std::io::{BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use koze_core::Sandbox;
use koze_local::{Local, LocalSandbox, Weakness};

use super::{say, stage, status};
use crate::Test;
use crate::server;
use crate::stage::{Stage, command, out, sh, within};

pub(crate) const TESTS: &[Test] = &[
    ("egress_to_another_host_in_a_plain_tunnel", egress_to_another_host_in_a_plain_tunnel),
    ("egress_checks_each_request_in_a_tunnel", egress_checks_each_request_in_a_tunnel),
    ("egress_keeps_the_connection_of_a_tunnel", egress_keeps_the_connection_of_a_tunnel),
    ("egress_forwards_http_in_a_tunnel", egress_forwards_http_in_a_tunnel),
    ("egress_of_other_protocols_in_tunnels", egress_of_other_protocols_in_tunnels),
];

/// Creates a stage where one name leads to a server.
fn leading_to(server: SocketAddr, weak: bool) -> Stage {
    let names = HashMap::from([("origin.example".to_owned(), server)]);
    let weak = if weak { vec![Weakness::Egress] } else { Vec::new() };
    Stage::weakened_with_names(names, weak)
}

/// Opens a tunnel, sends bytes in `printf` notation, and returns what comes back after the response to `CONNECT`.
async fn through(sandbox: &LocalSandbox, port: u16, bytes: &str) -> String {
    let connect = format!("CONNECT origin.example:{port} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n");
    let answer = say(sandbox, &format!("{connect}{bytes}")).await;
    let (head, rest) = answer.split_once("\r\n\r\n").unwrap();
    assert_eq!(status(head), 200, "{answer}");
    rest.to_owned()
}

/// The statuses of several responses, in which echoed requests contain the version, too.
fn statuses(answer: &str) -> Vec<u16> {
    let found = answer.match_indices("HTTP/1.1 ").filter_map(|(at, _)| answer.get(at + 9..at + 12));
    found.filter_map(|status| status.parse().ok()).collect()
}

fn egress_to_another_host_in_a_plain_tunnel() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let (strong, weak) = (leading_to(server::here(), false), leading_to(server::here(), true));
        let listed = ["origin.example", "api.example"];
        let (strong, weak) = (strong.online("a", &listed, &[]).await, weak.online("a", &listed, &[]).await);
        let end = "Connection: close\\r\\n\\r\\n";
        for (request, wanted) in [
            ("GET /echo HTTP/1.1\\r\\nHost: origin.example\\r\\n", 200),
            ("GET /echo HTTP/1.1\\r\\nHost: ORIGIN.example.:80\\r\\n", 200),
            ("GET /echo HTTP/1.1\\r\\nHost: api.example\\r\\n", 200),
            ("GET http://api.example/echo HTTP/1.1\\r\\nHost: other.example\\r\\n", 200),
            ("GET /echo HTTP/1.0\\r\\n", 200),
            ("GET /echo HTTP/1.1\\r\\nHost:\\r\\n", 200),
            ("GET /echo HTTP/1.1\\r\\nHost: other.example\\r\\n", 403),
            ("GET /echo HTTP/1.0\\r\\nhOST:other.example:80\\r\\n", 403),
            ("\\r\\nGET /echo HTTP/1.1\\r\\nHost: other.example\\r\\n", 403),
            ("GET /echo HTTP/1.1\\r\\nHost: 203.0.113.80\\r\\n", 403),
            ("GET http://other.example/echo HTTP/1.1\\r\\nHost: origin.example\\r\\n", 403),
            ("GET /echo HTTP/1.1\\r\\nHost: origin.example\\r\\nHost: other.example\\r\\n", 400),
            ("GET /echo HTTP/1.1\\r\\nHost: origin.example, other.example\\r\\n", 400),
            ("GET /echo HTTP/1.1\\r\\nHost: origin.example@other.example\\r\\n", 400),
            ("GET /echo HTTP/1.1\\r\\nHost : other.example\\r\\n", 400),
            ("GET /echo HTTP/1.1\\r\\nHost: origin.example\\r\\n other.example\\r\\n", 400),
            (" GET /echo HTTP/1.1\\r\\nHost: other.example\\r\\n", 400),
            ("GET\\t/echo\\tHTTP/1.1\\r\\nHost: other.example\\r\\n", 400),
            ("CONNECT other.example:80 HTTP/1.1\\r\\nHost: origin.example\\r\\n", 400),
        ] {
            let answer = through(&strong, 80, &format!("{request}{end}")).await;
            assert_eq!(status(&answer), wanted, "{request}: {answer}");
            assert_eq!(answer.contains("GET "), wanted == 200, "what the server echoes: {request}: {answer}");
            assert!(!answer.contains("other.example\r\n"), "{request}: {answer}");
        }
        // The control: the same reaches the server as it is.
        for host in ["other.example", "origin.example\\r\\nHost: other.example"] {
            let request = format!("GET /echo HTTP/1.1\\r\\nHost: {host}\\r\\n{end}");
            let answer = through(&weak, 80, &request).await;
            assert!(answer.contains("\r\nHost: other.example\r\n"), "{answer}");
        }
    })
}

fn egress_checks_each_request_in_a_tunnel() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let ask = |host: &str, end: &str| format!("GET /echo HTTP/1.1\\r\\nHost: {host}\\r\\n{end}\\r\\n");
        let requests = ask("origin.example", "")
            + &ask("other.example", "")
            + &ask("origin.example", "Connection: close\\r\\n");
        for (allowed, denied) in [(&["origin.example"][..], &[][..]), (&[], &["other.example"])] {
            // This server closes the connection after each response.
            let stage = leading_to(server::here(), false);
            let sandbox = stage.online("a", allowed, denied).await;
            let answer = through(&sandbox, 80, &requests).await;
            assert_eq!(statuses(&answer), [200, 403, 200], "{answer}");
            assert!(answer.contains("this sandbox may not reach other.example: "), "{answer}");
            let journal = Local::egress(stage.state.path()).unwrap();
            let refused: Vec<_> = journal.iter().filter(|entry| !entry.allowed).collect();
            let [entry] = &refused[..] else { panic!("{journal:?}") };
            assert!(entry.rule.starts_with("HTTP host: ") && entry.is_fronted(), "{entry:?}");
            assert_eq!(
                (entry.host.as_str(), entry.sni.as_deref()),
                ("origin.example", Some("other.example"))
            );
            assert!(journal.iter().any(|entry| entry.allowed && entry.sni.is_none()), "{journal:?}");
        }
        // A first request that is refused makes the tunnel a refused one.
        let stage = leading_to(server::here(), false);
        let sandbox = stage.online("a", &["origin.example"], &[]).await;
        through(&sandbox, 80, &ask("other.example", "Connection: close\\r\\n")).await;
        let journal = Local::egress(stage.state.path()).unwrap();
        assert!(matches!(&journal[..], [entry] if !entry.allowed), "{journal:?}");
    })
}

/// Answers requests on connections that stay open, and counts the connections.
fn persistent(connections: Arc<AtomicUsize>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            connections.fetch_add(1, Ordering::SeqCst);
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            while server::head(&mut reader).is_ok() {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
            }
        }
    });
    address
}

fn egress_keeps_the_connection_of_a_tunnel() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let connections = Arc::new(AtomicUsize::new(0));
        let stage = leading_to(persistent(Arc::clone(&connections)), false);
        let sandbox = stage.online("a", &["origin.example"], &[]).await;
        let request = "GET / HTTP/1.1\\r\\nHost: origin.example\\r\\n";
        let requests = format!("{request}\\r\\n").repeat(3) + request + "Connection: close\\r\\n\\r\\n";
        let answer = through(&sandbox, 80, &requests).await;
        assert_eq!(statuses(&answer), [200; 4], "{answer}");
        assert_eq!(connections.load(Ordering::SeqCst), 1);
    })
}

fn egress_forwards_http_in_a_tunnel() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = stage();
        let sandbox = stage.online("a", &["origin.example", "*.origin.example:8080"], &[]).await;
        // After the switch, the bytes belong to no request.
        let upgrade = "GET /upgrade HTTP/1.1\\r\\nHost: origin.example\\r\\nConnection: keep-alive, Upgrade\\r\\n\
                       Upgrade: shout\\r\\n\\r\\nget http://other.example/ http/1.1\\r\\n\\r\\n";
        let script = "exec 3<>/dev/tcp/127.0.0.1/3128; \
                      printf 'CONNECT origin.example:80 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' >&3; printf \"$1\" >&3; \
                      until [ \"$line\" = \"GET HTTP://OTHER.EXAMPLE/ HTTP/1.1\" ]; do \
                      IFS= read -r line <&3 || exit 1; line=${line%$'\\r'}; echo \"$line\"; done";
        let switched = command(&["bash", "-c", script, "bash", upgrade]);
        let switched = sandbox.exec(switched).await.unwrap();
        let answer = String::from_utf8_lossy(&switched.stdout).to_ascii_lowercase();
        assert!(switched.exit_code == 0 && answer.contains("http/1.1 101 "), "{answer}");
        assert!(answer.contains("\nupgrade: shout\n"), "{answer}");
        // HTTP/2 and TLS would come with other hosts.
        let h2c = "GET /echo HTTP/1.1\\r\\nHost: origin.example\\r\\nConnection: Upgrade, HTTP2-Settings\\r\\n\
                   Upgrade: h2c\\r\\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\\r\\n\\r\\n";
        let h2c = h2c.replacen(
            "\\r\\n\\r\\n",
            "\\r\\n\\r\\nGET /closes HTTP/1.1\\r\\nHost: origin.example\\r\\nConnection: close\\r\\n\\r\\n",
            1,
        );
        let answer = through(&sandbox, 80, &h2c).await.to_ascii_lowercase();
        assert!(
            answer.contains("get /echo") && !answer.contains("h2c") && !answer.contains("http2"),
            "{answer}"
        );
        let post = "POST /echo HTTP/1.1\\r\\nHost: origin.example\\r\\nExpect: 100-continue\\r\\nConnection: close\\r\\n\
                    Transfer-Encoding: chunked\\r\\n\\r\\n4\\r\\nbody\\r\\n0\\r\\n\\r\\n";
        let answer = through(&sandbox, 80, post).await;
        assert!(statuses(&answer).contains(&200) && answer.ends_with("\r\n\r\nbody"), "{answer}");
        if sh(&sandbox, "command -v curl").await.exit_code == 0 {
            let curl = "curl -sS --proxytunnel -o /dev/null -w '%{http_code} %{size_download} ' \
                        http://origin.example/large http://origin.example/large http://origin.example/echo \
                        http://api.origin.example:8080/echo";
            let told = out(&sandbox, curl).await;
            assert!(told.starts_with("200 30000000 "), "{told}");
            let refused =
                out(&sandbox, "curl -sS -p -H 'Host: other.example' http://origin.example/echo").await;
            assert!(refused.contains("`allowed_hosts` does not list it"), "{refused}");
        }
    })
}

/// Opens a tunnel to a server that begins, waits for its greeting, and sends bytes. Returns the rest of the answer.
async fn after_greeting(sandbox: &LocalSandbox, port: u16, bytes: &str) -> String {
    // The proxy may close the tunnel while bash, which writes line by line, is still writing.
    let script = "trap '' PIPE; exec 3<>/dev/tcp/127.0.0.1/3128; \
                  printf \"CONNECT origin.example:$1 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n\" >&3; \
                  until [ \"$line\" = \"220 hello\" ]; do \
                  IFS= read -r line <&3 || exit 1; line=${line%$'\\r'}; done; printf \"$2\" >&3; cat <&3; true";
    let port = port.to_string();
    let argv = ["bash", "-c", script, "bash", &port, bytes];
    let output = sandbox.exec(command(&argv)).await.unwrap();
    assert_eq!(output.exit_code, 0, "{port} {bytes}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Greets each client, then sends its first bytes back in upper case.
pub(super) fn greeting() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut bytes = [0; 1024];
                stream.write_all(b"220 hello\r\n").unwrap();
                let length = stream.read(&mut bytes).unwrap_or(0);
                let _ = stream.write_all(&bytes[..length].to_ascii_uppercase());
            });
        }
    });
    address
}

fn egress_of_other_protocols_in_tunnels() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = leading_to(greeting(), false);
        let listed = ["origin.example", "origin.example:5432"];
        let listed = stage.online("listed", &listed, &[]).await;
        let without = stage.online("without", &[], &["other.example"]).await;
        let all = stage.online("all", &[], &[]).await;
        let http2 = "PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n";
        for (sandbox, port, bytes, wanted) in [
            (&listed, 80, "ehlo x\\r\\n", false),
            (&listed, 80, "get http://other.example/\\r\\n", false),
            (&listed, 80, http2, false),
            (&listed, 443, http2, false),
            (&listed, 443, "ssh-2.0-x y\\r\\n", true),
            (&listed, 5432, "\\x00\\x00\\x00\\x08\\x04\\xd2\\x16\\x2fuser", true),
            (&listed, 5432, "*1\\r\\n$4\\r\\nping\\r\\n", true),
            (&listed, 5432, http2, true),
            (&without, 80, "ehlo x\\r\\n", true),
            (&without, 80, http2, false),
            (&all, 80, http2, true),
            (&all, 80, "get / http/1.1\\r\\n", true),
        ] {
            let answer = after_greeting(sandbox, port, bytes).await;
            assert_eq!(!answer.is_empty(), wanted, "{port} {bytes}: {answer}");
        }
    })
}
