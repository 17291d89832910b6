//! `ls`.

use serde_json::json;

use super::super::session::Session;
use super::WORKSPACE;

fn lines(names: &[&str]) -> String {
    names.iter().map(|name| format!("{WORKSPACE}/{name}")).collect::<Vec<_>>().join("\n")
}

pub(super) fn levels(session: &Session) {
    for path in ["b/c/d/e", "b.txt", "b/f", "a b/ü", "-x", "B"] {
        session.put(path, "");
    }
    // Sorted as texts, with the slash.
    let names = ["-x", "B", "a b/", "a b/ü", "b.txt", "b/", "b/c/", "b/f"];
    assert_eq!(session.ls(WORKSPACE), lines(&names));
    for path in ["/mnt/user-data/workspace/", "/mnt/user-data//workspace/.", "/mnt/user-data/./workspace"] {
        assert_eq!(session.ls(path), lines(&names), "{path}");
    }
    assert_eq!(session.ls("/mnt/user-data/workspace/b"), lines(&["b/c/", "b/c/d/", "b/f"]));
    assert_eq!(session.ls("/mnt/user-data/workspace/b/c/d"), lines(&["b/c/d/e"]));
}

pub(super) fn ignored(session: &Session) {
    for path in [
        ".git/config",
        "node_modules/a",
        "src/__pycache__/a.pyc",
        ".venv/bin/python",
        "dist/a",
        "build/a",
        "target/a",
        "a.log",
        "a.tmp",
        "a.swp",
        "a~",
        ".DS_Store",
        "a.egg-info/x",
        ".upload-1.part",
    ] {
        session.put(path, "");
    }
    for path in [".gitignore", "builds/a", "log", "src/a.py", "a.logs"] {
        session.put(path, "");
    }
    let names = [".gitignore", "a.logs", "builds/", "builds/a", "log", "src/", "src/a.py"];
    assert_eq!(session.ls(WORKSPACE), lines(&names));
    // What is asked for by name is listed.
    assert_eq!(session.ls("/mnt/user-data/workspace/.git"), lines(&[".git/config"]));
}

pub(super) fn errors(session: &Session) {
    session.put("file", "");
    for (path, text) in [
        ("/mnt/user-data/none", "Error: Directory not found: /mnt/user-data/none"),
        ("/mnt/user-data/none/", "Error: Directory not found: /mnt/user-data/none/"),
        (
            "/mnt/user-data/workspace/file",
            "Error: Unexpected error listing directory: not_a_directory: the path, or a part of it, is not a directory",
        ),
        (
            "/mnt/user-data/workspace/file/x",
            "Error: Unexpected error listing directory: not_a_directory: the path, or a part of it, is not a directory",
        ),
    ] {
        session.refuses("ls", json!({ "path": path }), text);
    }
    let long = format!("/mnt/user-data/{}", "a".repeat(300));
    let text = "Error: Unexpected error listing directory: invalid_input: the path is a pipe, socket or device, or has too many \
                symbolic links, or a name of more than 255 bytes";
    session.refuses("ls", json!({ "path": long }), text);
}

pub(super) fn links(session: &Session) {
    session.bash(
        "mkdir d; echo 1 > d/f; ln -s d to-dir; ln -s d/f to-file; ln -s ../uploads up; ln -s nothing dangling; \
         ln -s /etc out; ln -s /etc/passwd out-file; ln -s ../../../etc up-out; ln -s loop loop; mkfifo pipe",
    );
    let names = ["d/", "d/f", "dangling", "loop", "pipe", "to-dir/", "to-file", "up/"];
    assert_eq!(session.ls(WORKSPACE), lines(&names));
    assert_eq!(session.ls("/mnt/user-data/workspace/to-dir"), lines(&["to-dir/f"]));
    let text =
        "Error: Permission denied: only paths under /mnt/user-data are allowed: /mnt/user-data/workspace/out";
    session.refuses("ls", json!({ "path": "/mnt/user-data/workspace/out" }), text);
    let text = "Error: Unexpected error listing directory: invalid_input: the path is a pipe, socket or device, or has too many \
                symbolic links, or a name of more than 255 bytes";
    session.refuses("ls", json!({ "path": "/mnt/user-data/workspace/loop" }), text);
    let text = "Error: Unexpected error reading file: invalid_input: the path is a pipe, socket or device, or has too many \
                symbolic links, or a name of more than 255 bytes";
    session.refuses("read_file", json!({ "path": "/mnt/user-data/workspace/pipe" }), text);
}

pub(super) fn cut(session: &Session) {
    let name = |number: usize| format!("{number:03}{}", "n".repeat(197));
    for number in 0..100 {
        session.put(&name(number), "");
    }
    let whole = lines(&(0..100).map(name).collect::<Vec<_>>().iter().map(String::as_str).collect::<Vec<_>>());
    let text = session.ls(WORKSPACE);
    let total = whole.len();
    let hint = "Use a more specific path to see fewer results";
    let shown =
        20_000 - format!("\n... [truncated: showing first {total} of {total} chars. {hint}] ...").len();
    let mark = format!("\n... [truncated: showing first {shown} of {total} chars. {hint}] ...");
    assert_eq!(text, format!("{}{mark}", &whole[..shown]));
}
