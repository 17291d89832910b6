//! What is wrong is said by a code and a sentence, and nothing happens.

use serde_json::{Value, json};

use crate::session;

#[test]
fn paths_that_cannot_be() {
    let session = session();
    let long = "a".repeat(4097);
    for path in ["", "a\0b", &long] {
        for (tool, input) in [
            ("read_file", json!({ "path": path })),
            ("write_file", json!({ "path": path, "content": "x" })),
            ("glob", json!({ "pattern": "*", "cwd": path })),
            ("shell", json!({ "command": "true", "working_dir": path })),
            (
                "transfer",
                json!({ "from_sandbox": "a", "from_path": path, "to_sandbox": "b", "to_path": "x" }),
            ),
        ] {
            assert!(session.err(tool, input).starts_with("invalid_input: "), "{tool} {path:?}");
        }
    }
}

#[test]
fn what_is_not_there_and_what_is_something_else() {
    let session = session();
    session.write("d/f", "1");
    let read = |path: &str| session.err("read_file", json!({ "path": path }));
    assert_eq!(read("no"), "not_found: there is no `/home/user/no`");
    assert_eq!(read("d"), "is_directory: `/home/user/d` is a directory, not a file");
    assert!(read("d/f/x").starts_with("not_a_directory: "));
    let write = |path: &str| session.err("write_file", json!({ "path": path, "content": "x" }));
    assert!(write("d").starts_with("is_directory: "));
    assert!(write("d/f/x").starts_with("not_a_directory: "));
    assert_eq!(session.read("d/f"), "1");
}

#[test]
fn inputs_that_the_schema_does_not_know() {
    let session = session();
    for (tool, input) in [
        ("read_file", json!({})),
        ("read_file", json!({ "path": 1 })),
        ("read_file", json!({ "path": "f", "limit": 0 })),
        ("read_file", json!({ "path": "f", "limit": -1 })),
        ("read_file", json!({ "path": "f", "offset": 1.5 })),
        ("read_file", json!({ "path": "f", "file": "f" })),
        ("read_file", json!("f")),
        ("read_file", Value::Null),
        ("write_file", json!({ "path": "f", "content": "%", "encoding": "base64" })),
        ("write_file", json!({ "path": "f", "content": "x", "encoding": "latin-1" })),
        ("shell", json!({ "command": "true", "timeout_ms": 0 })),
        ("shell", json!({ "command": "true", "timeout_ms": 600_001 })),
        ("shell", json!({ "command": "a\u{0}b" })),
        ("browse", json!({ "port": 80 })),
        ("browse", json!({ "port": 3000 })),
        ("browse", json!({ "port": 65536 })),
        ("sandbox_create", json!({ "sandbox": "a", "sleep_after_ms": 1 })),
        ("sandbox_list", json!({ "all": true })),
        ("glob", json!({ "pattern": "" })),
    ] {
        let shown = input.to_string();
        assert!(session.err(tool, input).starts_with("invalid_input: "), "{tool} {shown}");
    }
    assert_eq!(
        session.ok("sandbox_list", json!({})),
        json!({ "sandboxes": [] }),
        "none of these made a sandbox"
    );
}

#[test]
fn tools_that_there_are_not() {
    let session = session();
    for tool in ["", "toString", "Shell", "shell ", "__proto__", "bash"] {
        assert!(session.err(tool, json!({})).starts_with("unknown_tool: "), "{tool}");
    }
}

#[test]
fn what_a_provider_cannot_do_it_says() {
    let session = session();
    assert!(session.err("shell", json!({ "command": "true" })).starts_with("unsupported: "));
    assert!(session.err("browse", json!({ "port": 8080 })).starts_with("unsupported: "));
}
