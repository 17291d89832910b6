//! `write_file`.

use serde_json::json;

use super::super::session::{Session, at_once};
use super::WORKSPACE;

const FILE: &str = "/mnt/user-data/workspace/f";

pub(super) fn write(session: &Session) {
    let write = |append: bool, content: &str| {
        session.says("write_file", json!({ "path": FILE, "content": content, "append": append }))
    };
    assert_eq!(write(true, "a"), "OK", "an append creates the file");
    assert_eq!(write(true, "b\r\nü"), "OK");
    assert_eq!(session.says("read_file", json!({ "path": FILE })), "ab\r\n\u{fc}");
    assert_eq!(write(false, ""), "OK");
    assert_eq!(session.says("read_file", json!({ "path": FILE })), "(empty)");
    session.put("deep/er/than/before", "x");
    assert_eq!(
        session.ls("/mnt/user-data/workspace/deep/er/than"),
        format!("{WORKSPACE}/deep/er/than/before")
    );
}

pub(super) fn write_errors(session: &Session) {
    session.put("file", "kept");
    for (path, text) in [
        (WORKSPACE, "Error: Path is a directory, not a file: /mnt/user-data/workspace"),
        (
            "/mnt/user-data/workspace/file/x",
            "Error: Failed to write file '/mnt/user-data/workspace/file/x': not_a_directory: the path, or a part of it, is \
             not a directory",
        ),
    ] {
        for append in [false, true] {
            session.refuses("write_file", json!({ "path": path, "content": "x", "append": append }), text);
        }
    }
    let long = format!("{WORKSPACE}/{}", "a/".repeat(1900) + &"b".repeat(260));
    let (text, is_error) = session.thread("write_file", json!({ "path": long, "content": "" }));
    assert!(
        is_error && text.starts_with("Error: Failed to write file '/mnt/user-data/workspace/a/a/"),
        "{text}"
    );
    assert!(text.chars().count() <= 2000 && text.contains("chars skipped] ...\n"), "{text}");
}

pub(super) fn closed(session: &Session) {
    session.bash("mkdir shut; echo 1 > shut/f; chmod 000 shut; echo 2 > locked; chmod 400 locked");
    let text = "Error: Permission denied: /mnt/user-data/workspace/shut";
    session.refuses("ls", json!({ "path": "/mnt/user-data/workspace/shut" }), text);
    session.refuses("glob", json!({ "path": "/mnt/user-data/workspace/shut", "pattern": "*" }), text);
    session.refuses("grep", json!({ "path": "/mnt/user-data/workspace/shut", "pattern": "1" }), text);
    let text = "Error: Permission denied reading file: /mnt/user-data/workspace/shut/f";
    session.refuses("read_file", json!({ "path": "/mnt/user-data/workspace/shut/f" }), text);
    let text = "Error: Permission denied accessing file: /mnt/user-data/workspace/shut/f";
    let edit = json!({ "path": "/mnt/user-data/workspace/shut/f", "old_str": "1", "new_str": "2" });
    session.refuses("str_replace", edit, text);
    let text = "Error: Permission denied writing to file: /mnt/user-data/workspace/shut/f";
    session.refuses("write_file", json!({ "path": "/mnt/user-data/workspace/shut/f", "content": "" }), text);
    // What is closed is left out of what lies above.
    assert_eq!(session.ls(WORKSPACE), format!("{WORKSPACE}/locked\n{WORKSPACE}/shut/"));
    let found = session.says("grep", json!({ "path": WORKSPACE, "pattern": "[12]" }));
    assert_eq!(found, format!("Found 1 matches under {WORKSPACE}\n{WORKSPACE}/locked:1: 2"));
}

pub(super) fn appends(session: &Session) {
    at_once(10, |number| {
        for turn in 0..10 {
            let line = format!("{number}-{turn}\n");
            let input = json!({ "path": FILE, "content": line, "append": true });
            assert_eq!(session.says("write_file", input), "OK");
        }
    });
    let all = session.says("read_file", json!({ "path": FILE }));
    let mut lines: Vec<&str> = all.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!((lines.len(), all.len()), (100, 400), "each line is there once, and whole: {all}");
}
