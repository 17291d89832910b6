//! Sandboxes by key, and the sleeping ones of a session, as a user's own code uses them.

use serde_json::json;
use tempfile::TempDir;

use super::host::Host;

#[test]
fn a_key_identifies_a_sandbox() {
    let host = Host::start();
    let at = |key: &str| format!("key={key}&path=f");
    // Any text is a valid key, whatever it would mean elsewhere.
    let keys = ["user-42", "user-43", "User-42", "a%2Fb", "a", "%C3%A4%20%22%00", "..", &"k".repeat(2000)];
    for (index, key) in keys.iter().enumerate() {
        assert_eq!(host.own("status", &at(key), ""), Ok("Destroyed".into()), "{key} was never used");
        assert_eq!(host.own("write", &at(key), &format!("of {index}")), Ok(String::new()), "{key}");
    }
    for (index, key) in keys.iter().enumerate() {
        assert_eq!(host.own("read", &at(key), ""), Ok(format!("of {index}")), "{key}");
        assert_eq!(host.own("status", &at(key), ""), Ok("Running".into()));
        assert_eq!(host.own("exec", &at(key), "class"), Ok("0 ShellSandbox".into()));
    }
    // The same key of another class, and the same name in a session, are other sandboxes.
    let other = format!("class=python&{}", at("user-42"));
    assert_eq!(host.own("exec", &other, "class"), Ok("0 PythonSandbox".into()));
    let missing = "not_found: /home/user/f does not exist";
    assert_eq!(host.own("read", &other, ""), Err(missing.into()));
    assert_eq!(host.call("user-42", "read_file", &json!({ "path": "f" })), (true, json!(missing)));
}

#[test]
fn commands_run_by_key() {
    let host = Host::start();
    let exec = |command: &str| host.own("exec", "key=a", command);
    assert_eq!(exec("echo hello"), Ok("0 hello\n".into()));
    assert_eq!(exec("exit 3"), Ok("3 ".into()));
    assert_eq!(host.own("state", "key=a", "exit 4"), Ok("Running: exit 4 4".into()));
    // A call is retried while the object starts.
    assert_eq!(exec("busy 3"), Ok("0 at last".into()));
    // Errors are those of the sandbox, and reveal nothing of the host.
    assert_eq!(exec("refuse"), Err("unavailable: no container is free".into()));
    let thrown = "internal: the sandbox's class failed: see the Worker's log";
    assert_eq!(exec("throw"), Err(thrown.into()));
    assert!(exec("nothing").is_err_and(|error| error.starts_with("internal: `exec` of the sandbox's class")));
    let no_url = host.own("expose", "key=a", "");
    assert!(no_url.as_ref().is_err_and(|error| error.starts_with("unsupported: ")), "{no_url:?}");

    assert_eq!(host.own("healthy", "key=a", ""), Ok("true".into()));
    exec("sicken").expect("a sick sandbox");
    assert_eq!(host.own("healthy", "key=a", ""), Ok("false".into()));
    assert_eq!(host.own("healthy", "key=b", ""), Ok("true".into()));
}

#[test]
fn a_destroyed_sandbox_is_created_again() {
    let host = Host::start();
    let at = "key=a&path=f";
    host.own("write", at, "kept").expect("a file");
    host.own("write", "key=b&path=f", "of b").expect("a file");
    assert_eq!(host.own("destroy", at, ""), Ok(String::new()));
    assert_eq!(host.own("status", at, ""), Ok("Destroyed".into()));
    assert_eq!(host.own("destroy", at, ""), Ok(String::new()), "what is not there is as good");
    assert_eq!(host.own("read", at, ""), Err("not_found: /home/user/f does not exist".into()));
    assert_eq!(host.own("exec", at, "echo anew"), Ok("0 anew\n".into()));
    assert_eq!(host.own("read", "key=b&path=f", ""), Ok("of b".into()));
}

/// Lists the sleeping sandboxes, also after a restart and in every isolate.
#[test]
fn sleeping_sandboxes_are_listed() {
    let hibernated = |host: &Host, session: &str| host.own("hibernated", &format!("session={session}"), "");
    let persist = TempDir::new().expect("a temporary directory");
    let host = Host::with_registry(&persist);
    assert_eq!(hibernated(&host, "s"), Ok(String::new()));
    for (sandbox, image) in [("py", "python"), ("b", "shell")] {
        assert!(!host.call("s", "sandbox_create", &json!({ "sandbox": sandbox, "image": image })).0);
    }
    host.shell("s", "echo");
    // A sandbox without a call since it was created counts as asleep here. Sandboxes by key belong to no session.
    assert_eq!(hibernated(&host, "s"), Ok("b shell true, py python true".into()));
    host.own("exec", "key=a", "echo").expect("a sandbox by a key");
    assert_eq!(hibernated(&host, "other"), Ok(String::new()));
    assert_eq!(host.own("status", "key=a", ""), Ok("Running".into()));
    drop(host);

    let host = Host::with_registry(&persist);
    assert_eq!(hibernated(&host, "s"), Ok("b shell true, default shell true, py python true".into()));
    assert!(!host.call("s", "shell", &json!({ "sandbox": "py", "command": "echo" })).0);
    assert_eq!(hibernated(&host, "s"), Ok("b shell true, default shell true".into()));
    // Sandboxes by key are not affected.
    assert_eq!(host.own("status", "key=a", ""), Ok("Sleeping".into()));
    assert_eq!(host.own("exec", "key=a", "echo"), Ok("0 \n".into()));
    assert_eq!(host.own("status", "key=a", ""), Ok("Running".into()));
    // Destroyed sandboxes are not listed.
    let answer = host.ask("DELETE", "/sessions/s/sandboxes/b", b"");
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(hibernated(&host, "s"), Ok("default shell true".into()));
    drop(host);

    let without = Host::start();
    let error = hibernated(&without, "s").expect_err("no registry");
    assert!(error.starts_with("unsupported: this Worker does not record its sandboxes"), "{error}");
}
