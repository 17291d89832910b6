//! Egress of a sandbox. The internet is a test server with names.

use std::collections::HashMap;
use std::fmt::Write as _;

use koze_core::sandbox::Status;
use koze_core::{Code, Provider, Sandbox};
use koze_local::{Local, LocalSandbox, Weakness};

use crate::Test;
use crate::server;
use crate::stage::{Stage, command, id, out, settings, sh, until, within};

pub(crate) const TESTS: &[Test] = &[
    ("egress_is_off_by_default", egress_is_off_by_default),
    ("egress_by_policy", egress_by_policy),
    ("egress_to_nearby_addresses_is_denied", egress_to_nearby_addresses_is_denied),
    ("egress_to_ports", egress_to_ports),
    ("egress_to_denied_addresses", egress_to_denied_addresses),
    ("egress_tunnels", egress_tunnels),
    ("egress_to_another_name_in_a_tunnel", egress_to_another_name_in_a_tunnel),
    ("egress_is_in_the_journal", egress_is_in_the_journal),
    ("egress_forwards_requests", egress_forwards_requests),
    ("egress_checks_each_request", egress_checks_each_request),
    ("egress_of_misbehaving_programs", egress_of_misbehaving_programs),
    ("egress_for_common_programs", egress_for_common_programs),
    ("egress_ends_with_the_sandbox", egress_ends_with_the_sandbox),
    ("egress_a_thousand_times", egress_a_thousand_times),
];

/// Creates a stage on which some names lead to a server in this process.
fn stage() -> Stage {
    let server = server::here();
    let names = ["origin.example", "api.origin.example", "other.example"];
    Stage::with_names(names.into_iter().map(|name| (name.to_owned(), server)).collect::<HashMap<_, _>>())
}

/// Sends bytes to the proxy, in `printf` notation, and returns its response until it closes.
async fn say(sandbox: &koze_local::LocalSandbox, bytes: &str) -> String {
    let script = "exec 3<>/dev/tcp/127.0.0.1/3128; printf \"$1\" >&3; cat <&3";
    let output = sandbox.exec(command(&["bash", "-c", script, "bash", bytes])).await.unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

async fn get(sandbox: &koze_local::LocalSandbox, url: &str) -> String {
    say(sandbox, &format!("GET {url} HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n")).await
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

fn egress_is_off_by_default() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = stage();
        let off = stage.open("off").await;
        assert_ne!(sh(&off, "grep -q :0C38 /proc/net/tcp").await.exit_code, 0);
        assert_eq!(out(&off, "env | grep -ci proxy || true").await, "0");
        let on = stage.online("on", &[], &[]).await;
        assert_eq!(sh(&on, "grep -q :0C38 /proc/net/tcp").await.exit_code, 0);
        let env = out(&on, "env | grep -i proxy | sort -f | tr '\\n' ' '").await;
        let proxy = "http://127.0.0.1:3128";
        for line in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"] {
            assert!(env.contains(&format!("{line}={proxy} ")), "{env}");
        }
        assert!(
            env.contains("NODE_USE_ENV_PROXY=1") && env.contains("NO_PROXY=localhost,127.0.0.1,::1 "),
            "{env}"
        );
        // There is no other way out: no route, and no DNS.
        assert_eq!(out(&on, "grep -c : /proc/net/dev").await, "1");
        let direct = on.exec(command(&["bash", "-c", "exec 3<>/dev/tcp/203.0.113.80/80"])).await.unwrap();
        assert_ne!(direct.exit_code, 0);
        assert_ne!(sh(&on, "getent hosts origin.example").await.exit_code, 0);
    })
}

fn egress_by_policy() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = stage();
        let all = stage.online("all", &[], &[]).await;
        assert_eq!(status(&get(&all, "http://origin.example/echo").await), 200);
        let some = stage
            .online("some", &["*.origin.example", "*.origin.example:81", "other.example"], &["other.example"])
            .await;
        for (url, wanted) in [
            ("http://api.origin.example/echo", 200),
            ("http://API.Origin.EXAMPLE.:81/echo", 200),
            ("http://api.origin.example:82/echo", 403),
            ("http://origin.example/echo", 403),
            ("http://other.example/echo", 403),
            ("http://203.0.113.80/echo", 403),
        ] {
            let answer = get(&some, url).await;
            assert_eq!(status(&answer), wanted, "{url}: {answer}");
        }
        assert!(get(&some, "http://other.example/").await.contains("`denied_hosts`"));
        assert!(get(&some, "http://origin.example/").await.contains("`allowed_hosts`"));
        let refused =
            say(&some, "CONNECT origin.example:443 HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n")
                .await;
        assert_eq!(status(&refused), 403, "{refused}");
        // As in a Worker, allowed hosts can be reached even if internet access is off.
        let mut settings = settings();
        settings.profile.allowed_hosts = vec!["origin.example".into()];
        let named = stage.local.open(&id("named"), &settings).await.unwrap().sandbox;
        assert_eq!(status(&get(&named, "http://origin.example/echo").await), 200);
        assert_eq!(status(&get(&named, "http://other.example/echo").await), 403);
        settings.profile.denied_hosts = vec!["https://a".into()];
        let error = stage.local.open(&id("bad"), &settings).await.unwrap_err();
        assert_eq!(error.code, Code::InvalidInput);
        assert!(
            stage
                .local
                .list(&id("bad").session)
                .await
                .unwrap()
                .iter()
                .all(|info| info.name.as_str() != "bad")
        );
    })
}

fn egress_to_nearby_addresses_is_denied() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = stage();
        let sandbox = stage.online("a", &[], &[]).await;
        let port = server::here().port();
        assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_ok(), "the control");
        for (host, wanted) in [
            ("127.0.0.1", 403),
            ("localhost", 403),
            ("0.0.0.0", 403),
            ("[::1]", 403),
            ("[::]", 403),
            ("[::ffff:127.0.0.1]", 403),
            ("[64:ff9b::7f00:1]", 403),
            ("10.0.0.1", 403),
            ("169.254.169.254", 403),
            ("127.1", 400),
            ("0x7f.1", 400),
            ("0177.0.0.1", 400),
            ("2130706433", 400),
            ("127.0.0.1.", 400),
            ("user@127.0.0.1", 403),
        ] {
            let answer = get(&sandbox, &format!("http://{host}:{port}/echo")).await;
            assert_eq!(status(&answer), wanted, "{host}: {answer}");
            let tunnel =
                format!("CONNECT {host}:{port} HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n");
            let answer = say(&sandbox, &tunnel).await;
            assert!([400, 403].contains(&status(&answer)), "{host}: {answer}");
        }
    })
}

/// Tests both kinds of requests, and as the control a stage without the rules.
async fn both(
    allowed: &[&str],
    denied: &[&str],
    requests: &[(&str, u16)],
    check: impl AsyncFn(&LocalSandbox, &str, u16, bool),
) {
    let names = HashMap::from([("origin.example".to_owned(), server::here())]);
    let strong = Stage::with_names(names.clone());
    let weak = Stage::weakened_with_names(names, vec![Weakness::Egress]);
    for (stage, is_weak) in [(&strong, false), (&weak, true)] {
        let sandbox = stage.online("a", allowed, denied).await;
        for (host, wanted) in requests {
            check(&sandbox, host, if is_weak { 200 } else { *wanted }, is_weak).await;
        }
    }
}

/// Sends both kinds of requests to a host and checks the results.
async fn reaches(sandbox: &LocalSandbox, host: &str, wanted: u16, is_weak: bool) {
    let answer = get(sandbox, &format!("http://{host}/echo")).await;
    assert_eq!(status(&answer), wanted, "{host}, weak: {is_weak}: {answer}");
    let target = if host.ends_with(".example") { format!("{host}:443") } else { host.to_owned() };
    // Data after a rejected request would discard the response.
    let inner = "GET /echo HTTP/1.1\\r\\nHost: inner\\r\\nConnection: close\\r\\n\\r\\n";
    let request = if wanted == 200 { inner } else { "" };
    let answer = say(
        sandbox,
        &format!("CONNECT {target} HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n{request}"),
    )
    .await;
    assert_eq!(status(&answer), wanted, "a tunnel to {target}, weak: {is_weak}: {answer}");
}

fn egress_to_ports() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let requests = [
            ("origin.example", 200),
            ("origin.example:443", 200),
            ("origin.example:22", 403),
            ("origin.example:25", 403),
        ];
        both(&["origin.example"], &[], &requests, reaches).await;
        let requests = [("origin.example:22", 200), ("origin.example:80", 403), ("origin.example:8080", 403)];
        both(&["origin.example:22"], &[], &requests, reaches).await;
        let stage = stage();
        let sandbox = stage.online("a", &["origin.example"], &[]).await;
        let answer = get(&sandbox, "http://origin.example:22/").await;
        assert!(answer.contains("to allow this one, add `origin.example:22`"), "{answer}");
    })
}

/// A name that resolves to a denied address. (Other notations are covered by the policy's own tests, because no server
/// here has such an address.)
fn egress_to_denied_addresses() -> Result<(), libtest_mimic::Failed> {
    within(async {
        for denied in ["127.0.0.1", "[::ffff:127.0.0.1]", "[64:ff9b::127.0.0.1]", "[2002:7f00:1::]"] {
            both(&[], &[denied], &[("origin.example", 403)], reaches).await;
        }
        both(&["origin.example"], &["127.0.0.1"], &[("origin.example", 403)], reaches).await;
        both(&[], &["127.0.0.1:81"], &[("origin.example", 200), ("origin.example:81", 403)], reaches).await;
        let stage = stage();
        let sandbox = stage.online("a", &[], &["127.0.0.1"]).await;
        let answer = get(&sandbox, "http://origin.example/").await;
        let text = "this sandbox may not reach origin.example: `denied_hosts` lists its address 127.0.0.1";
        assert!(answer.contains(text), "{answer}");
    })
}

/// Returns a `ClientHello` with a name, in `printf` notation.
fn hello(name: &str) -> String {
    let sized = |bytes: &[u8], prefix: usize| [&bytes.len().to_be_bytes()[8 - prefix..], bytes].concat();
    let server =
        [&[0, 0][..], &sized(&sized(&[&[0][..], &sized(name.as_bytes(), 2)].concat(), 2), 2)].concat();
    let head = [&[3, 3][..], &[7; 32], &[0], &[0, 2, 0x13, 1], &[1, 0], &sized(&server, 2)].concat();
    let record = [&[22, 3, 1][..], &sized(&[&[1][..], &sized(&head, 3)].concat(), 2)].concat();
    let mut text = String::new();
    for byte in record {
        write!(text, "\\x{byte:02x}").expect("a text takes all");
    }
    text
}

/// A tunnel to one host in which another is requested is closed before any byte reaches the server.
fn egress_to_another_name_in_a_tunnel() -> Result<(), libtest_mimic::Failed> {
    within(async {
        for (weak, allowed, denied, inner, wanted) in [
            (false, &["origin.example", "api.example"][..], &[][..], "origin.example", true),
            (false, &["origin.example", "api.example"], &[], "api.example", true),
            (false, &["origin.example"], &[], "other.example", false),
            (true, &["origin.example"], &[], "other.example", true),
            (false, &[], &["other.example"], "other.example", false),
            (true, &[], &["other.example"], "other.example", true),
            (false, &[], &[], "other.example", true),
        ] {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let names = HashMap::from([("origin.example".to_owned(), listener.local_addr().unwrap())]);
            let weak = if weak { vec![Weakness::Egress] } else { Vec::new() };
            let stage = Stage::weakened_with_names(names, weak);
            let sandbox = stage.online("a", allowed, denied).await;
            let hello = hello(inner);
            // In two pieces, neither of which contains the whole name.
            let (first, rest) = hello.split_at(hello.len() / 8 * 4);
            let script = format!(
                "exec 3<>/dev/tcp/127.0.0.1/3128; printf 'CONNECT origin.example:443 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' >&3; \
                 read -r line <&3; printf '{first}' >&3; sleep 0.2; printf '{rest}' >&3; cat <&3 > /dev/null"
            );
            let saying = tokio::spawn(async move { sandbox.exec(command(&["bash", "-c", &script])).await });
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut came = Vec::new();
            loop {
                stream.readable().await.unwrap();
                match stream.try_read_buf(&mut came) {
                    Ok(0) => break,
                    Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => break,
                    Ok(_) if came.len() == hello.len() / 4 => break,
                    Ok(_) | Err(_) => {}
                }
            }
            let heard = came.len();
            tokio::io::AsyncWriteExt::shutdown(&mut stream).await.unwrap();
            drop(stream);
            saying.await.unwrap().unwrap();
            assert_eq!(heard, if wanted { hello.len() / 4 } else { 0 }, "{allowed:?} {denied:?} {inner}");
            let journal = Local::egress(stage.state.path()).unwrap();
            let [entry] = &journal[..] else { panic!("{journal:?}") };
            assert_eq!((entry.sni.as_deref(), entry.allowed), (Some(inner), wanted), "{entry:?}");
            assert_eq!(entry.is_fronted(), inner != "origin.example");
        }
    })
}

fn egress_is_in_the_journal() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = stage();
        let sandbox = stage.online("a", &["*.origin.example", "localhost"], &[]).await;
        for url in [
            "http://user:secret@api.origin.example/secret?secret=secret",
            "http://other.example/secret",
            "http://api.origin.example:81/secret",
            "http://localhost/secret",
        ] {
            get(&sandbox, url).await;
        }
        let told: Vec<_> = Local::egress(stage.state.path())
            .unwrap()
            .into_iter()
            .map(|entry| {
                assert!(
                    entry.time > 1_700_000_000_000
                        && entry.session == "local"
                        && entry.sandbox == "a"
                        && entry.sni.is_none()
                );
                let address = entry.address.map(|address| address.to_string());
                (entry.host, entry.port, address, entry.allowed, entry.rule)
            })
            .collect();
        let near = Some("127.0.0.1".to_owned());
        let entry = |host: &str, port, address: &Option<String>, allowed, rule: &str| {
            (host.to_owned(), port, address.clone(), allowed, rule.to_owned())
        };
        let wanted = vec![
            entry("api.origin.example", 80, &near, true, "allowed_hosts: *.origin.example"),
            entry("other.example", 80, &None, false, "not in allowed_hosts"),
            entry("api.origin.example", 81, &None, false, "not in allowed_hosts"),
            entry("localhost", 80, &None, false, "not on the internet"),
        ];
        assert_eq!(told, wanted);
        for entry in std::fs::read_dir(stage.state.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|end| end == "jsonl") {
                assert!(!std::fs::read_to_string(path).unwrap().contains("secret"));
            }
        }
        // The journal outlives the sandbox.
        sandbox.destroy().await.unwrap();
        assert_eq!(Local::egress(stage.state.path()).unwrap().len(), wanted.len());
    })
}

fn egress_tunnels() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = stage();
        let sandbox = stage.online("a", &[], &[]).await;
        let request = "GET /echo HTTP/1.1\\r\\nHost: inner\\r\\n\\r\\n";
        let answer =
            say(&sandbox, &format!("CONNECT origin.example:443 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n{request}"))
                .await;
        let (head, rest) = answer.split_once("\r\n\r\n").unwrap();
        assert!(
            head.starts_with("HTTP/1.1 200")
                && rest.contains("\r\n\r\nGET /echo HTTP/1.1\r\nHost: inner\r\n"),
            "{answer}"
        );
        for bad in ["CONNECT origin.example HTTP/1.1", "CONNECT / HTTP/1.1"] {
            let answer =
                say(&sandbox, &format!("{bad}\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n")).await;
            assert_eq!(status(&answer), 400, "{bad}: {answer}");
        }
    })
}

fn egress_forwards_requests() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = stage();
        let sandbox = stage.online("a", &[], &[]).await;
        let answer = say(
            &sandbox,
            "POST http://user:word@origin.example:8000/echo HTTP/1.1\\r\\nHost: elsewhere\\r\\nProxy-Connection: keep-alive\\r\\n\
             Proxy-Authorization: secret\\r\\nConnection: close, X-Mine\\r\\nX-Mine: 1\\r\\nX-Other: 2\\r\\nTE: trailers\\r\\n\
             Transfer-Encoding: chunked\\r\\n\\r\\n4\\r\\nbody\\r\\n0\\r\\n\\r\\n",
        )
        .await;
        let echoed = answer.split_once("\r\n\r\n").unwrap().1;
        assert!(
            echoed.starts_with("POST /echo HTTP/1.1\r\n") && echoed.ends_with("\r\n\r\nbody"),
            "{answer}"
        );
        let lower = echoed.to_ascii_lowercase();
        assert!(
            lower.contains("\r\nhost: origin.example:8000\r\n") && lower.contains("\r\nx-other: 2\r\n"),
            "{echoed}"
        );
        for gone in ["elsewhere", "proxy", "secret", "x-mine", "te: ", "user", "word"] {
            assert!(
                !lower.lines().any(|line| line.starts_with(gone) || line.ends_with(gone)),
                "{gone}: {echoed}"
            );
        }
        // One body, whatever the headers say about its length, and nothing after it.
        let answer = say(
            &sandbox,
            "POST http://origin.example/echo HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: 6\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n\
             4\\r\\nbody\\r\\n0\\r\\n\\r\\n",
        )
        .await
        .to_ascii_lowercase();
        assert!(answer.ends_with("\r\n\r\nbody") && answer.contains("connection: close"), "{answer}");
        assert!(!answer.contains("content-length: 6"), "{answer}");
        for path in ["/garbage", "/long-head", "/closes"] {
            assert_eq!(status(&get(&sandbox, &format!("http://origin.example{path}")).await), 502, "{path}");
        }
        let answer = get(&sandbox, "http://no-such-name.invalid/").await;
        assert!(status(&answer) == 502 && answer.contains("the name does not exist"), "{answer}");
    })
}

fn egress_checks_each_request() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = stage();
        let sandbox = stage.online("a", &["origin.example"], &[]).await;
        let ask = |host: &str, close: &str| {
            format!("GET http://{host}/echo HTTP/1.1\\r\\nHost: x\\r\\n{close}\\r\\n")
        };
        let both = ask("origin.example", "")
            + &ask("other.example", "")
            + &ask("origin.example", "Connection: close\\r\\n");
        let answer = say(&sandbox, &both).await;
        let found: Vec<_> =
            answer.match_indices("HTTP/1.1 ").map(|(at, _)| &answer[at + 9..at + 12]).collect();
        // The head of the request ends in the same characters.
        let found: Vec<_> = found.into_iter().filter(|status| status.parse::<u16>().is_ok()).collect();
        assert_eq!(found, ["200", "403", "200"], "{answer}");
    })
}

fn egress_of_misbehaving_programs() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = stage();
        let sandbox = stage.online("a", &[], &[]).await;
        // Idle clients that hold as many connections as they can.
        let hold = "for i in $(seq 10 60); do eval \"exec $i<>/dev/tcp/127.0.0.1/3128\"; done; sleep 9";
        sandbox.exec(command(&["bash", "-c", &format!("({hold}) > /dev/null 2>&1 &")])).await.unwrap();
        for (bytes, wanted) in [
            ("GET / HTTP/1.1\\r\\nHost: origin.example\\r\\nConnection: close\\r\\n\\r\\n", 400),
            ("GET https://origin.example/ HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n", 400),
            ("GET ftp://origin.example/ HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n", 400),
            ("nonsense\\r\\n\\r\\n", 400),
            (
                "GET http://origin.example:99999/ HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n",
                400,
            ),
        ] {
            let answer = say(&sandbox, bytes).await;
            assert_eq!(status(&answer), wanted, "{bytes}: {answer}");
        }
        let long = "exec 3<>/dev/tcp/127.0.0.1/3128; (printf 'GET http://origin.example/echo HTTP/1.1\\r\\nX: '; \
                    head -c 1000000 /dev/zero | tr '\\0' x; printf '\\r\\n\\r\\n') >&3 2> /dev/null; cat <&3 2> /dev/null";
        let answer = sandbox.exec(command(&["bash", "-c", long])).await.unwrap();
        let answer = String::from_utf8_lossy(&answer.stdout).into_owned();
        assert!([0, 431].contains(&status(&answer)), "{answer}");
        assert_eq!(status(&get(&sandbox, "http://origin.example/echo").await), 200);
    })
}

fn egress_for_common_programs() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = stage();
        let sandbox = stage.online("a", &["origin.example"], &[]).await;
        for (program, script) in [
            ("curl", "curl -sS http://origin.example/echo"),
            (
                "python3",
                "python3 -c 'import urllib.request as r; print(r.urlopen(\"http://origin.example/echo\").read().decode())'",
            ),
        ] {
            if sh(&sandbox, &format!("command -v {program}")).await.exit_code == 0 {
                let answer = out(&sandbox, script).await;
                assert!(answer.to_ascii_lowercase().contains("host: origin.example"), "{program}: {answer}");
            }
        }
        if sh(&sandbox, "command -v curl").await.exit_code == 0 {
            let refused = sh(&sandbox, "curl -sS -o /dev/null https://other.example/").await;
            let text = String::from_utf8_lossy(&refused.stderr).into_owned();
            assert!(refused.exit_code == 56 && text.contains("403"), "{text}");
        }
    })
}

fn egress_ends_with_the_sandbox() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = listener.local_addr().unwrap();
        let stage = Stage::with_names(HashMap::from([("origin.example".to_owned(), server)]));
        let mut settings = settings();
        settings.profile.internet = true;
        settings.sleep_after = std::time::Duration::from_millis(500);
        let sandbox = stage.local.open(&id("a"), &settings).await.unwrap().sandbox;
        let tunnel = "(exec 3<>/dev/tcp/127.0.0.1/3128; printf 'CONNECT origin.example:1 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' >&3; \
                      sleep 98765) > /dev/null 2>&1 &";
        for asleep in [true, false] {
            sandbox.exec(command(&["bash", "-c", tunnel])).await.unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            if asleep {
                until("it sleeps", async || sandbox.status().await.unwrap() == Status::Sleeping).await;
            } else {
                sandbox.destroy().await.unwrap();
            }
            // The server notices its end.
            stream.readable().await.unwrap();
            assert_eq!(stream.try_read(&mut [0]).unwrap_or(0), 0);
        }
    })
}

fn egress_a_thousand_times() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = stage();
        let sandbox = stage.online("a", &[], &[]).await;
        let script = "for i in $(seq 500); do exec 3<>/dev/tcp/127.0.0.1/3128; \
            printf 'GET http://origin.example/closes HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n' >&3; \
            read -r line <&3; exec 3>&-; case $line in *' 502 '*) ;; *) echo \"$i $line\";; esac; done; echo done";
        let twice = [0, 1].map(|_| {
            let sandbox = sandbox.clone();
            tokio::spawn(async move { sandbox.exec(command(&["bash", "-c", script])).await.unwrap() })
        });
        for done in twice {
            let output = done.await.unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n");
        }
        until("the connections are closed", async || {
            std::fs::read_dir("/proc/self/fd").unwrap().count() < 900
        })
        .await;
    })
}
