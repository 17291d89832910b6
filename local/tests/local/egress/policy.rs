//! What a sandbox can reach under its policy.

use std::collections::HashMap;
use std::fmt::Write as _;

use koze_core::{Code, Provider, Sandbox};
use koze_local::{Local, LocalSandbox, Weakness};

use super::{get, say, stage, status};
use crate::Test;
use crate::server;
use crate::stage::{Stage, command, id, out, settings, sh, within};

pub(crate) const TESTS: &[Test] = &[
    ("egress_is_off_by_default", egress_is_off_by_default),
    ("egress_by_policy", egress_by_policy),
    ("egress_to_nearby_addresses_is_denied", egress_to_nearby_addresses_is_denied),
    ("egress_to_ports", egress_to_ports),
    ("egress_to_denied_addresses", egress_to_denied_addresses),
    ("egress_to_another_name_in_a_tunnel", egress_to_another_name_in_a_tunnel),
    ("egress_refused_is_in_the_result", egress_refused_is_in_the_result),
];

fn egress_is_off_by_default() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = stage();
        let off = stage.open("off").await;
        assert_ne!(sh(&off, "grep -q :0C38 /proc/net/tcp").await.exit_code, 0);
        assert_eq!(out(&off, "env | grep -ci proxy || true").await, "0");
        // Package managers do not try again what cannot work.
        assert_eq!(out(&off, "echo $PIP_RETRIES $npm_config_fetch_retries").await, "0 0");
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
        // There is no interface that leads out, and without a network there is no route and no DNS either.
        for sandbox in [&off, &on] {
            assert_eq!(out(sandbox, "grep -c : /proc/net/dev").await, "1");
        }
        assert_eq!(out(&off, "tail -n +2 /proc/net/route").await, "");
        let direct = command(&["bash", "-c", "exec 3<>/dev/tcp/203.0.113.80/80"]);
        let direct = off.exec(direct).await.unwrap();
        let stderr = String::from_utf8_lossy(&direct.stderr).into_owned();
        assert!(direct.exit_code != 0 && stderr.contains("Network is unreachable"), "{stderr}");
        assert_ne!(sh(&off, "getent hosts origin.example").await.exit_code, 0);
    })
}

fn egress_refused_is_in_the_result() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = stage();
        let some = stage.online("some", &["origin.example"], &[]).await;
        // As a program that does not say why its proxy failed.
        let silent = |host: &str, code: u8| {
            format!(
                "exec 3<>/dev/tcp/127.0.0.1/3128; printf 'CONNECT {host}:443 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' >&3; read -r line <&3; \
                 exit {code}"
            )
        };
        let note = "egress_refused: the network policy of the sandbox refused refused.example:443";
        let bash = async |script: &str| some.exec(command(&["bash", "-c", script])).await.unwrap();
        let failed = bash(&silent("refused.example", 7)).await;
        let stderr = String::from_utf8_lossy(&failed.stderr).into_owned();
        assert!(failed.exit_code == 7 && stderr.contains(note), "{stderr}");
        // Neither a program that coped with it, nor a later one that failed for another reason.
        for script in [silent("refused.example", 0), "exit 7".to_owned()] {
            assert_eq!(bash(&script).await.stderr, b"", "{script}");
        }
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
    let inner = "GET /echo HTTP/1.1\\r\\nHost: origin.example\\r\\nConnection: close\\r\\n\\r\\n";
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
