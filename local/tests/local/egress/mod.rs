//! Egress of a sandbox. The internet is a test server with names.

mod aws;
pub(crate) mod credentials;
mod git;
pub(crate) mod limits;
pub(crate) mod policy;
pub(crate) mod programs;
pub(crate) mod proxy;
mod scene;
pub(crate) mod scripts;
pub(crate) mod transparent;
pub(crate) mod tunnel;

use std::collections::HashMap;

use koze_core::Sandbox;

use crate::server;
use crate::stage::{Stage, command};

/// Creates a stage on which some names lead to a server in this process.
fn stage() -> Stage {
    let server = server::here();
    let names = ["origin.example", "api.origin.example", "other.example"];
    Stage::with_names(names.into_iter().map(|name| (name.to_owned(), server)).collect::<HashMap<_, _>>())
}

/// Sends bytes to the proxy, in `printf` notation, and returns its response until it closes.
async fn say(sandbox: &koze_local::LocalSandbox, bytes: &str) -> String {
    // bash writes line by line. The proxy may refuse the first one, and close the connection.
    let script = "trap '' PIPE; exec 3<>/dev/tcp/127.0.0.1/3128; printf \"$1\" >&3 2> /dev/null; cat <&3";
    let output = sandbox.exec(command(&["bash", "-c", script, "bash", bytes])).await.unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

async fn get(sandbox: &koze_local::LocalSandbox, url: &str) -> String {
    say(sandbox, &format!("GET {url} HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n")).await
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}
