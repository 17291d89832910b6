//! How the proxy forwards, and what it does to connections that misbehave.

use std::collections::HashMap;

use koze_core::sandbox::Status;
use koze_core::{Provider, Sandbox};
use koze_local::Local;

use super::{get, say, stage, status};
use crate::Test;
use crate::stage::{Stage, command, id, out, settings, sh, until, within};

pub(crate) const TESTS: &[Test] = &[
    ("egress_tunnels", egress_tunnels),
    ("egress_is_in_the_journal", egress_is_in_the_journal),
    ("egress_forwards_requests", egress_forwards_requests),
    ("egress_checks_each_request", egress_checks_each_request),
    ("egress_of_misbehaving_programs", egress_of_misbehaving_programs),
    ("egress_for_common_programs", egress_for_common_programs),
    ("egress_ends_with_the_sandbox", egress_ends_with_the_sandbox),
    ("egress_a_thousand_times", egress_a_thousand_times),
];

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
