//! Connections of programs that do not use the proxy: they are redirected to it.

use koze_local::Local;

use super::stage;
use crate::Test;
use crate::server;
use crate::stage::{Stage, out, sh, within};

pub(crate) const TESTS: &[Test] = &[
    ("redirected_connections_need_no_proxy", redirected_connections_need_no_proxy),
    ("redirected_connections_obey_the_policy", redirected_connections_obey_the_policy),
];

/// Removes the variables of the proxy.
const NO_PROXY: &str =
    "unset HTTP_PROXY HTTPS_PROXY http_proxy https_proxy NO_PROXY no_proxy NODE_USE_ENV_PROXY;";

/// Programs that fetch `http://origin.example/echo`, with what they print on success.
const PROGRAMS: &[(&str, &str)] = &[
    (
        "node",
        "node -e 'fetch(\"http://origin.example/echo\").then(r => r.text()).then(t => console.log(t), e => { console.log(e.cause); process.exit(1) })'",
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

fn redirected_connections_need_no_proxy() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = stage();
        let (listed, all) =
            (stage.online("listed", &["origin.example"], &[]).await, stage.online("all", &[], &[]).await);
        for sandbox in [&listed, &all] {
            for (program, script) in PROGRAMS {
                if sh(sandbox, &format!("command -v {program}")).await.exit_code != 0 {
                    continue;
                }
                let output = out(sandbox, &format!("{NO_PROXY} {script}")).await;
                assert!(output.contains("GET /echo HTTP/1."), "{program}: {output}");
            }
            let found = out(sandbox, "getent ahosts origin.example | head -n 1").await;
            assert!(found.starts_with("198.1"), "{found}");
            let again = out(sandbox, "getent ahosts origin.example | head -n 1").await;
            assert_eq!(found, again);
        }
        let journal = Local::egress(stage.state.path()).unwrap();
        assert!(
            journal.iter().all(|entry| entry.allowed && entry.host == "origin.example" && entry.port == 80),
            "{journal:?}"
        );
    })
}

fn redirected_connections_obey_the_policy() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let _ = server::here();
        let stage: Stage = stage();
        let sandbox = stage.online("a", &["origin.example"], &[]).await;
        let refused = sh(&sandbox, &format!("{NO_PROXY} getent ahosts other.example")).await;
        assert_ne!(refused.exit_code, 0);
    })
}
