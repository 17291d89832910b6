//! What a sandbox reaches of the internet, which here is a server of the test under a name.

use std::collections::HashMap;

use koze::sandbox::Status;
use koze::{Code, Provider, Sandbox};

use crate::Test;
use crate::server;
use crate::stage::{Stage, command, id, out, sh, template, until, within};

pub(crate) const TESTS: &[Test] = &[
    ("egress_is_off_unless_asked_for", egress_is_off_unless_asked_for),
    ("egress_by_policy", egress_by_policy),
    ("egress_keeps_off_what_is_near", egress_keeps_off_what_is_near),
    ("egress_tunnels", egress_tunnels),
    ("egress_passes_on_what_it_should", egress_passes_on_what_it_should),
    ("egress_checks_each_request", egress_checks_each_request),
    ("egress_of_odd_programs", egress_of_odd_programs),
    ("egress_for_common_programs", egress_for_common_programs),
    ("egress_ends_with_the_sandbox", egress_ends_with_the_sandbox),
    ("egress_a_thousand_times", egress_a_thousand_times),
];

/// A stage on which some names lead to a server of this process.
fn stage() -> Stage {
    let server = server::here();
    let names = ["origin.example", "api.origin.example", "other.example"];
    Stage::with_names(names.into_iter().map(|name| (name.to_owned(), server)).collect::<HashMap<_, _>>())
}

/// Says these bytes to the proxy, as `printf` writes them, and gives what it answers until it closes.
async fn say(sandbox: &koze::provider::local::LocalSandbox, bytes: &str) -> String {
    let script = "exec 3<>/dev/tcp/127.0.0.1/3128; printf \"$1\" >&3; cat <&3";
    let output = sandbox.exec(command(&["bash", "-c", script, "bash", bytes])).await.unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

async fn get(sandbox: &koze::provider::local::LocalSandbox, url: &str) -> String {
    say(sandbox, &format!("GET {url} HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n")).await
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

fn egress_is_off_unless_asked_for() -> Result<(), libtest_mimic::Failed> {
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
        // There is no other way: no route, and no names.
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
        let some = stage.online("some", &["*.origin.example", "other.example"], &["other.example"]).await;
        for (url, wanted) in [
            ("http://api.origin.example/echo", 200),
            ("http://API.Origin.EXAMPLE.:81/echo", 200),
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
        // As in a Worker, what is allowed is reached also where the internet is off.
        let mut template = template();
        template.image.allowed_hosts = vec!["origin.example".into()];
        let named = stage.local.open(&id("named"), &template).await.unwrap().sandbox;
        assert_eq!(status(&get(&named, "http://origin.example/echo").await), 200);
        assert_eq!(status(&get(&named, "http://other.example/echo").await), 403);
        template.image.denied_hosts = vec!["https://a".into()];
        let error = stage.local.open(&id("bad"), &template).await.unwrap_err();
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

fn egress_keeps_off_what_is_near() -> Result<(), libtest_mimic::Failed> {
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

fn egress_passes_on_what_it_should() -> Result<(), libtest_mimic::Failed> {
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
        // One body, whatever is said of its length, and nothing after it.
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
        assert!(status(&answer) == 502 && answer.contains("the name is not known"), "{answer}");
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
        // The head of a request ends in the same letters.
        let found: Vec<_> = found.into_iter().filter(|status| status.parse::<u16>().is_ok()).collect();
        assert_eq!(found, ["200", "403", "200"], "{answer}");
    })
}

fn egress_of_odd_programs() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = stage();
        let sandbox = stage.online("a", &[], &[]).await;
        // Those that say nothing, and hold what they can.
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
        let mut template = template();
        template.image.internet = true;
        template.sleep_after = std::time::Duration::from_millis(500);
        let sandbox = stage.local.open(&id("a"), &template).await.unwrap().sandbox;
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
            // Its end reaches the server.
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
