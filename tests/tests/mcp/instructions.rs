//! The instructions for a model: each claim is tried.

use koze_tests::{Sandboxes, eventually};
use serde_json::{Value, json};

use crate::clients::play;
use crate::server::{project, stdio};

/// Returns the instructions, and the results of calls of `shell`.
fn ask(server: &Value, calls: &[Value]) -> (String, Vec<Value>) {
    let calls: Vec<Value> = calls.iter().map(|input| json!(["shell", input])).collect();
    let seen = play("task", "1", server, &[&json!(calls).to_string()]);
    let results = seen["results"].as_array().expect("a list");
    let results = results.iter().map(|result| result["structuredContent"].clone()).collect();
    (seen["instructions"].as_str().expect("a text").to_owned(), results)
}

/// Returns the part of a text between two others.
fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let rest = text.split_once(start).unwrap_or_else(|| panic!("{start} is not in {text}")).1;
    rest.split_once(end).unwrap_or_else(|| panic!("{end} is not in {text}")).0
}

fn with_attribute(host: &Sandboxes, keys: &str) {
    let source = format!("use koze::prelude::*;\n\n#[sandbox({keys})]\npub struct ShellSandbox;\n");
    host.write("src/server/shell.sandbox.rs", &source);
}

#[test]
fn a_sandbox_without_a_network_is_what_the_instructions_say() {
    let host = project();
    with_attribute(&host, "sleep_after = \"2s\", instance_type = \"lite\"");
    let (text, _) = ask(&stdio(&host), &[]);
    assert!(text.chars().count() <= 1500, "{text}");

    let versions = between(&text, "read-only (", ")");
    let [python, node] = versions.split(", ").collect::<Vec<_>>()[..] else { panic!("{versions}") };
    let shows = |claim: &str, name: &str, program: &str| match claim.strip_prefix(name) {
        Some(version) => format!("{program} --version | grep -qF '{version}'"),
        None => format!("! command -v {program}"),
    };
    let memory: u64 = between(&text, "Limits: ", " MiB").parse().expect("a number");
    let disk: u64 = between(&text, "of memory, ", " MB").parse().expect("a number");
    assert!(text.contains("Network: off."), "{text}");
    assert!(text.contains("not root") && text.contains("its files are kept"), "{text}");
    assert!(text.contains("10 minutes for a command"), "{text}");
    let dirs = between(&text, "You can write to ", ".").replace("and ", "").replace([',', '`'], "");

    let limits = format!("grep -c ' {} kB' /proc/meminfo", memory * 1024);
    let written = format!(
        "for dir in {dirs}; do echo a > $dir/claim && rm $dir/claim || exit 1; done; ! touch /usr/claim"
    );
    let too_large = format!("truncate -s {}M large && ! truncate -s {}M large; rm large", disk / 2, disk * 2);
    let claims = [
        shows(python, "Python ", "python3"),
        shows(node, "Node ", "node"),
        "! curl -sS --max-time 5 https://pypi.org && ! timeout 20 pip download --no-deps six".to_owned(),
        "test \"$(id -un)\" = user && test \"$(id -u)\" != 0 && ! command -v sudo".to_owned(),
        written,
        limits,
        too_large,
        "echo kept > kept; sleep 99 &".to_owned(),
    ];
    let calls: Vec<Value> = claims.iter().map(|command| json!({ "command": command })).collect();
    let (_, results) = ask(&stdio(&host), &calls);
    for (claim, result) in claims.iter().zip(&results) {
        assert_eq!(result["exit_code"], 0, "{claim}: {result}\n{text}");
    }
    let asleep = || host.koze(&["sandboxes"]).stdout.contains("sleeping");
    eventually("the sandbox sleeps", asleep);
    let after = json!({ "command": "cat kept; ! pgrep sleep" });
    let (_, results) = ask(&stdio(&host), &[after, json!({ "command": "true", "timeout_ms": 600_001 })]);
    assert_eq!(results[0]["stdout"], "kept\n");
    assert_eq!(results[1], Value::Null, "a longer timeout is an error");
}

#[test]
fn the_package_indexes_of_an_allowlist_are_what_the_instructions_say() {
    let host = project();
    with_attribute(&host, "allowed_hosts = [\"pypi.org\", \"*.pythonhosted.org\", \"a.example\"]");
    let (text, _) = ask(&stdio(&host), &[]);
    let network = between(&text, "Network: ", " You are");
    let expected = "only `pypi.org`, `*.pythonhosted.org`, `a.example`. `pip install` works. `npm install` does not work.";
    assert_eq!(network, expected);
    // Of the three, `a.example` leads to a server of this test, and the registry of npm is refused whatever its address.
    let server = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = server.local_addr().expect("its address");
    let answering = std::thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        let (mut stream, _) = server.accept().expect("a connection");
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok");
    });
    let mut server = stdio(&host);
    server["env"]["KOZE_TESTING_NAMES"] = json!(format!("a.example={address},registry.npmjs.org={address}"));
    let calls = ["curl -sS http://a.example/", "curl -sS http://registry.npmjs.org/"];
    let calls: Vec<Value> = calls.iter().map(|command| json!({ "command": command })).collect();
    let (_, results) = ask(&server, &calls);
    assert_eq!(results[0]["stdout"], "ok", "{results:?}");
    assert!(
        results[1]["stdout"].as_str().is_some_and(|text| text.contains("may not reach registry.npmjs.org")),
        "{results:?}"
    );
    answering.join().expect("the server has answered");
}
