//! The thread as a whole: its directories, and what it keeps to itself.

use serde_json::json;

use super::super::session::{Session, at_once as together};
use super::{THREAD, WORKSPACE};

pub(super) fn directories(session: &Session) {
    let three = "/mnt/user-data/outputs/\n/mnt/user-data/uploads/\n/mnt/user-data/workspace/";
    assert_eq!(session.ls("/mnt/user-data"), three);
    for name in ["workspace", "uploads", "outputs"] {
        assert_eq!(session.ls(&format!("/mnt/user-data/{name}")), "(empty)");
    }
    session.put("/mnt/user-data/outputs/report.md", "# Report\n");
    assert_eq!(session.ls("/mnt/user-data/outputs"), "/mnt/user-data/outputs/report.md");
}

/// Another thread has the same paths, and other files.
pub(super) fn own(session: &Session) {
    let other = session.other(&format!("{}-2", session.name()));
    session.put("mine", "1");
    assert_eq!(other.ls(WORKSPACE), "(empty)");
    other.put("theirs", "2");
    assert_eq!(session.ls(WORKSPACE), format!("{WORKSPACE}/mine"));
    assert_eq!(other.ls(WORKSPACE), format!("{WORKSPACE}/theirs"));
}

/// They create one sandbox: each finds what the others have written.
pub(super) fn at_once(session: &Session) {
    const CALLS: usize = 12;
    together(CALLS, |number| session.put(&format!("{number:02}"), ""));
    let all: Vec<String> = (0..CALLS).map(|number| format!("{WORKSPACE}/{number:02}")).collect();
    assert_eq!(session.ls(WORKSPACE), all.join("\n"));
    if session.can(super::super::Capability::List) {
        assert_eq!(session.sandboxes(), ["default"]);
    }
}

pub(super) fn inputs(session: &Session) {
    for (tool, input, text) in [
        ("ls", json!({ "path": WORKSPACE }), "Error: missing field `description`"),
        ("ls", json!({ "description": "d" }), "Error: missing field `path`"),
        ("bash", json!({ "description": "d" }), "Error: missing field `command`"),
        (
            "bash",
            json!({ "description": "d", "command": "a\0b" }),
            "Error: `command` must not contain a NUL character",
        ),
        ("write_file", json!({ "description": "d", "path": "/x" }), "Error: missing field `content`"),
        ("ls", json!([]), "Error: the input of a tool must be a JSON object"),
        ("ls", json!({ "description": "d", "path": "" }), "Error: a path must not be empty"),
        ("ls", json!({ "description": "d", "path": "a\0" }), "Error: a path must not contain NUL"),
        (
            "ls",
            json!({ "description": "d", "path": format!("/mnt/user-data/{}", "a".repeat(4096)) }),
            "Error: a path must have at most 4096 bytes",
        ),
    ] {
        let result = session.call_of(THREAD, tool, &input);
        assert_eq!((result.content.as_str(), result.is_error), (text, true), "{tool} {input}");
    }
    for (tool, input) in [
        ("ls", json!({ "description": "d", "path": WORKSPACE, "sandbox": "x" })),
        ("ls", json!({ "description": 1, "path": WORKSPACE })),
        ("write_file", json!({ "description": "d", "path": WORKSPACE, "content": "", "append": "yes" })),
    ] {
        let result = session.call_of(THREAD, tool, &input);
        assert!(
            result.is_error && result.content.starts_with("Error: "),
            "{tool} {input}: {}",
            result.content
        );
    }
}

pub(super) fn outside(session: &Session) {
    let refused =
        |path: &str| format!("Error: Permission denied: only paths under /mnt/user-data are allowed: {path}");
    for path in [
        "/etc/passwd",
        "/",
        "relative",
        "~/x",
        "/mnt",
        "/mnt/user-data2/x",
        "/mnt/user-data/../../etc/passwd",
        "/mnt/user-data/workspace/../../..",
    ] {
        session.refuses("ls", json!({ "path": path }), &refused(path));
        session.refuses("write_file", json!({ "path": path, "content": "" }), &refused(path));
        session.refuses("read_file", json!({ "path": path }), &refused(path));
        session.refuses(
            "str_replace",
            json!({ "path": path, "old_str": "a", "new_str": "b" }),
            &refused(path),
        );
        session.refuses("glob", json!({ "path": path, "pattern": "*" }), &refused(path));
        session.refuses("grep", json!({ "path": path, "pattern": "a" }), &refused(path));
    }
    // A path may leave a directory and come back.
    session.put("/mnt/user-data/workspace/../uploads/a", "");
    assert_eq!(session.ls("/mnt/user-data/../user-data/uploads/"), "/mnt/user-data/../user-data/uploads/a");
    assert_eq!(session.ls("/mnt/user-data/uploads"), "/mnt/user-data/uploads/a");
}

/// `Session` checks every result for paths of the host. The kernel's list of mounts with their sources
/// (`/proc/self/mountinfo`) is not printed: it names the directory of a local sandbox.
pub(super) fn host(session: &Session) {
    session.put("a.py", "import os\nprint(os.getcwd(), os.environ)\n");
    session.bash(
        "env; pwd; mount; cat /proc/self/mounts /proc/self/cmdline /proc/1/cmdline /proc/self/cgroup; true",
    );
    session.bash(
        "python a.py; df -a; ls -la / /mnt /mnt/user-data; cat /etc/passwd /etc/hosts; id; hostname; true",
    );
    session.thread("bash", json!({ "command": "cat /mnt/user-data/nothing; cd /nowhere; \"" }));
    session.thread("ls", json!({ "path": "/mnt/user-data/nothing" }));
    session.thread("grep", json!({ "path": "/mnt/user-data/nothing", "pattern": "(" }));
    session.thread("write_file", json!({ "path": WORKSPACE, "content": "" }));
    assert_eq!(session.bash("pwd -P"), format!("{WORKSPACE}\n"));
}
