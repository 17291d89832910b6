//! The cases of snapshots of workspaces. A host serves the workspace `saved`, which archives `/workspace/src` and keeps three
//! snapshots.

use serde_json::{Value, json};

use super::session::Session;
use super::{Capability, Case, case};

pub(super) const CASES: &[Case] = &[
    case("workspace_snapshots", snapshots),
    case("workspace_snapshots_of_restored", of_restored),
    case("workspace_snapshots_limit", limit),
    case("workspace_snapshots_input", input),
    case("workspace_snapshots_sessions", sessions),
    case("workspace_snapshots_restart", restart).needs(&[Capability::Restart]),
];

fn ok(session: &Session, operation: &str, input: Value) -> Value {
    session.ok(&format!("workspace__saved__{operation}"), input)
}

fn err(session: &Session, operation: &str, input: Value) -> String {
    session.err(&format!("workspace__saved__{operation}"), input)
}

fn write(session: &Session, path: &str, content: &str) {
    ok(session, "write_file", json!({ "path": path, "content": content }));
}

fn take(session: &Session) -> Value {
    ok(session, "snapshot", json!({}))["snapshot"].clone()
}

/// Reads a file of the workspace, or of a restored one.
fn read(session: &Session, path: &str, workspace: Option<&Value>) -> Value {
    let mut input = json!({ "path": path });
    if let Some(workspace) = workspace {
        input["workspace"] = workspace.clone();
    }
    ok(session, "read_file", input)["content"].clone()
}

fn snapshots(session: &Session) {
    assert!(err(session, "snapshot", json!({})).starts_with("not_found: "), "there is no directory yet");
    let large = "0123456789abcdef\n".repeat(100_000);
    for (path, content) in [
        ("src/a.txt", "one"),
        ("src/日本/\u{1f980} crab.txt", "crab"),
        ("src/large", &large),
        ("src/empty", ""),
        ("outside.txt", "not archived"),
    ] {
        write(session, path, content);
    }
    ok(session, "mkdir", json!({ "path": "src/dir/empty", "recursive": true }));
    let taken = ok(session, "snapshot", json!({}));
    let id = taken["snapshot"].as_str().expect("an ID");
    assert!(id.starts_with("snap_") && id.len() == 37, "{id}");
    assert_eq!((&taken["entries"], &taken["bytes"]), (&json!(7), &json!(1_700_007)));
    // An archive is compressed, and a layer as large as the files.
    assert!(taken["archive_bytes"].as_u64() <= Some(1_700_007), "{taken}");
    write(session, "src/a.txt", "two");

    let restored = ok(session, "restore", json!({ "snapshot": id }));
    assert_eq!((&restored["entries"], &restored["bytes"]), (&json!(7), &json!(1_700_007)));
    let workspace = &restored["workspace"];
    assert!(workspace.as_str().is_some_and(|name| name.starts_with("saved-restored-")), "{restored}");
    let branch = &ok(session, "branch", json!({ "snapshot": id }))["workspace"];
    assert!(branch.as_str().is_some_and(|name| name.starts_with("saved-branch-")), "{branch}");
    for workspace in [workspace, branch] {
        assert_eq!(read(session, "src/a.txt", Some(workspace)), "one");
        assert_eq!(read(session, "src/日本/\u{1f980} crab.txt", Some(workspace)), "crab");
        let stat = ok(session, "stat", json!({ "path": "src/large", "workspace": workspace }));
        assert_eq!(stat["size"], 1_700_000);
        let stat = ok(session, "stat", json!({ "path": "src/dir/empty", "workspace": workspace }));
        assert_eq!(stat["type"], "directory");
        let outside = err(session, "read_file", json!({ "path": "outside.txt", "workspace": workspace }));
        assert!(outside.starts_with("not_found: "), "{outside}");
        ok(session, "write_file", json!({ "path": "src/a.txt", "content": "three", "workspace": workspace }));
    }
    // What is written in one place changes no other, and not the archive.
    assert_eq!(read(session, "src/a.txt", None), "two");
    let again = ok(session, "restore", json!({ "snapshot": id }));
    assert_eq!(read(session, "src/a.txt", Some(&again["workspace"])), "one");
}

fn of_restored(session: &Session) {
    write(session, "src/a", "1");
    let first = take(session);
    let restored = &ok(session, "restore", json!({ "snapshot": first }))["workspace"];
    ok(session, "write_file", json!({ "path": "src/a", "content": "2", "workspace": restored }));
    let second = ok(session, "snapshot", json!({ "workspace": restored }));
    let branch = ok(session, "branch", json!({ "snapshot": second["snapshot"], "workspace": restored }));
    assert_eq!(read(session, "src/a", Some(&branch["workspace"])), "2");
    assert_eq!(read(session, "src/a", None), "1");
}

fn limit(session: &Session) {
    write(session, "src/a", "1");
    let first = take(session);
    take(session);
    take(session);
    assert_eq!(
        err(session, "snapshot", json!({})),
        "unavailable: this session has 3 snapshots, and its limit is 3 (`max_count`): remove one with `koze snapshot rm`"
    );
    // None was deleted to make room.
    ok(session, "restore", json!({ "snapshot": first }));
}

fn input(session: &Session) {
    write(session, "src/a", "1");
    let unknown = format!("snap_{}", "0".repeat(32));
    for (operation, input, expected) in [
        ("snapshot", json!({ "name": "x" }), "invalid_input: "),
        ("restore", json!({}), "invalid_input: "),
        ("restore", json!({ "snapshot": "../../etc" }), "invalid_input: a snapshot's ID must be `snap_`"),
        ("restore", json!({ "snapshot": unknown }), "not_found: there is no snapshot `snap_000"),
        ("branch", json!({ "snapshot": unknown }), "not_found: there is no snapshot `snap_000"),
        ("restore", json!({ "snapshot": unknown, "session": "other" }), "permission_denied: "),
        (
            "ls",
            json!({ "workspace": "saved" }),
            "not_found: the workspace `saved` failed: it was not restored as",
        ),
        ("ls", json!({ "workspace": "../x" }), "invalid_input: "),
        ("ls", json!({ "workspace": 1 }), "invalid_input: `workspace` must be a text"),
    ] {
        let error = err(session, operation, input.clone());
        assert!(error.starts_with(expected), "{operation} {input}: {error}");
    }
    // A workspace without the capability has neither the tools nor the key.
    let tool = session.err("workspace__box__snapshot", json!({}));
    assert!(tool.starts_with("unknown_tool: "), "{tool}");
    let key = session.err("workspace__box__ls", json!({ "workspace": "x" }));
    assert!(key.starts_with("invalid_input: "), "{key}");
}

fn sessions(session: &Session) {
    write(session, "src/a", "1");
    let taken = take(session);
    let other = session.other("another");
    let error = other.err("workspace__saved__restore", json!({ "snapshot": taken }));
    assert!(error.starts_with("not_found: "), "{error}");
}

fn restart(session: &Session) {
    write(session, "src/a", "1");
    let taken = take(session);
    session.restart();
    let restored = &ok(session, "restore", json!({ "snapshot": taken }))["workspace"];
    session.restart();
    assert_eq!(read(session, "src/a", Some(restored)), "1");
}
