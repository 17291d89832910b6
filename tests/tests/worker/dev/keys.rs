//! Sandboxes by key, and sleeping ones, on this machine: as a user's own code in the Rust Worker uses them.

use koze_tests::eventually;
use serde_json::{Value, json};

use super::run::Dev;
use crate::served::{rust_worker, told};

const TOKEN: &str = "a token of these tests";

/// Calls the user's own code. See `served/own.rs`.
fn own(dev: &Dev, what: &str, query: &str, body: &str) -> Result<String, String> {
    let script = "const response = await fetch(`${url}/own/${data.what}?${data.query}`, { method: 'POST', body: data.body });
        return response.json();";
    told(&dev.ask(script, &json!({ "what": what, "query": query, "body": body })))
}

/// Calls a tool of the session `s`, which must succeed.
fn call(dev: &Dev, tool: &str, input: &Value) -> String {
    let script = "const headers = { authorization: `Bearer ${data.token}` };
        const body = JSON.stringify(data.input);
        const response = await fetch(`${url}/sessions/s/tools/${data.tool}`, { method: 'POST', headers, body });
        return response.json();";
    let answer = dev.ask(script, &json!({ "token": TOKEN, "tool": tool, "input": input }));
    assert_eq!(answer["isError"], false, "{answer}");
    answer["content"].as_str().expect("a text").to_owned()
}

#[test]
fn a_program_uses_sandboxes_by_key_and_lists_sleeping_ones() {
    let worker = rust_worker();
    worker.project.write(".dev.vars", format!("KOZE_TOKEN=\"{TOKEN}\"\n"));
    let dev = Dev::start(&worker);
    let exec = |dev: &Dev, query: &str, command: &str| own(dev, "exec", query, command);
    let hibernated = |dev: &Dev| own(dev, "hibernated", "session=s", "");

    // The same key returns the same sandbox; other keys and classes return others.
    assert_eq!(exec(&dev, "key=a", "echo kept > file; ls"), Ok("0 file\n".into()));
    assert_eq!(exec(&dev, "key=a", "cat file"), Ok("0 kept\n".into()));
    for other in ["key=b", "key=a&class=python"] {
        assert_eq!(exec(&dev, other, "ls -A; exit 7"), Ok("7 ".into()), "{other}");
    }
    assert_eq!(own(&dev, "healthy", "key=a", ""), Ok("true".into()));
    let missing = own(&dev, "read", "key=a&path=none", "");
    assert!(missing.as_ref().is_err_and(|error| error.starts_with("not_found: ")), "{missing:?}");
    let directory = own(&dev, "read", "key=a&path=/home", "");
    assert!(directory.as_ref().is_err_and(|error| error.starts_with("is_directory: ")), "{directory:?}");
    // After it is destroyed, it is empty again, and others are not affected.
    assert_eq!(exec(&dev, "key=b", "echo of b > file"), Ok("0 ".into()));
    assert_eq!(own(&dev, "destroy", "key=b", ""), Ok(String::new()));
    assert_eq!(own(&dev, "status", "key=b", ""), Ok("Destroyed".into()));
    assert_eq!(exec(&dev, "key=b", "ls -A"), Ok("0 ".into()));

    assert_eq!(own(&dev, "operations", "session=edits", ""), Ok("14 cases".into()));

    call(&dev, "shell", &json!({ "command": "true" }));
    call(&dev, "sandbox_create", &json!({ "sandbox": "tired", "image": "python", "sleep_after_ms": 1000 }));
    call(&dev, "write_file", &json!({ "sandbox": "tired", "path": "f", "content": "kept" }));
    eventually("it sleeps", || hibernated(&dev) == Ok("tired python true".into()));
    let read = call(&dev, "read_file", &json!({ "sandbox": "tired", "path": "f" }));
    assert!(read.contains("kept"), "{read}");
    eventually("it sleeps again", || hibernated(&dev) == Ok("tired python true".into()));
    dev.end();

    let dev = Dev::start(&worker);
    assert_eq!(hibernated(&dev), Ok("default shell true, tired python true".into()));
    call(&dev, "shell", &json!({ "command": "true" }));
    assert_eq!(hibernated(&dev), Ok("tired python true".into()));
    assert_eq!(own(&dev, "status", "key=a", ""), Ok("Sleeping".into()));
    assert_eq!(exec(&dev, "key=a", "cat file"), Ok("0 kept\n".into()));
    assert_eq!(own(&dev, "status", "key=a", ""), Ok("Running".into()));
}
