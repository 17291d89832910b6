//! `glob` and `grep`.

use serde_json::{Value, json};

use super::super::session::Session;
use super::WORKSPACE;

fn fill(session: &Session) {
    for (path, content) in [
        ("app/main.py", "import os\nprint('Hello')\n"),
        ("app/lib/util.py", "def hello():\r\n    return 1\r\n"),
        ("app/lib/data.txt", "hello there\n"),
        ("README.md", "# Title\n\nhello\n"),
        ("node_modules/x/hello.py", "hello\n"),
        ("binary", "hello\0"),
    ] {
        session.put(path, content);
    }
}

fn input(more: Value) -> Value {
    let (mut input, Value::Object(more)) = (json!({ "path": WORKSPACE }), more) else { panic!("an object") };
    input.as_object_mut().expect("an object").extend(more);
    input
}

pub(super) fn glob(session: &Session) {
    fill(session);
    let glob = |more: Value| session.says("glob", input(more));
    let list = |names: &[&str]| {
        let lines =
            names.iter().enumerate().map(|(index, name)| format!("{}. {WORKSPACE}/{name}", index + 1));
        let lines = lines.collect::<Vec<_>>().join("\n");
        format!("Found {} paths under {WORKSPACE}\n{lines}", names.len())
    };
    for (pattern, names) in [
        ("**/*.py", &["app/lib/util.py", "app/main.py"][..]),
        ("*.py", &["app/lib/util.py", "app/main.py"]),
        ("app/*.py", &["app/main.py"]),
        ("app/**/*.py", &["app/lib/util.py", "app/main.py"]),
        ("*.{md,txt}", &["README.md", "app/lib/data.txt"]),
        ("**", &["README.md", "app/lib/data.txt", "app/lib/util.py", "app/main.py", "binary"]),
    ] {
        assert_eq!(glob(json!({ "pattern": pattern })), list(names), "{pattern}");
    }
    assert_eq!(glob(json!({ "pattern": "*.rs" })), format!("No files matched under {WORKSPACE}"));
    let with = glob(json!({ "pattern": "*a*", "include_dirs": true }));
    assert_eq!(with, list(&["app", "app/lib/data.txt", "app/main.py", "binary"]));
    let first = glob(json!({ "pattern": "**/*", "max_results": 2 }));
    let text = "Found 2 paths under /mnt/user-data/workspace (showing first 2)\n1. /mnt/user-data/workspace/README.md\n2. \
                /mnt/user-data/workspace/app/lib/data.txt\nResults truncated. Narrow the path or pattern to see fewer matches.";
    assert_eq!(first, text);
}

pub(super) fn glob_errors(session: &Session) {
    session.put("file", "");
    let at = |path: &str| json!({ "path": path, "pattern": "*" });
    session.refuses("glob", at("/mnt/user-data/none"), "Error: Directory not found: /mnt/user-data/none");
    let file = "/mnt/user-data/workspace/file";
    session.refuses("glob", at(file), "Error: Path is not a directory: /mnt/user-data/workspace/file");
    for (pattern, text) in [
        ("/a", "Error: Invalid glob pattern: `/a` must be relative to the root path, without `..`"),
        ("a/../b", "Error: Invalid glob pattern: `a/../b` must be relative to the root path, without `..`"),
        ("[", "Error: Invalid glob pattern: `[` has an unclosed `[`"),
        ("", "Error: Invalid glob pattern: it must have 1 to 1024 bytes and no NUL"),
    ] {
        session.refuses("glob", json!({ "path": WORKSPACE, "pattern": pattern }), text);
    }
}

pub(super) fn grep(session: &Session) {
    fill(session);
    let grep = |more: Value| session.says("grep", input(more));
    let list = |lines: &[&str]| {
        let whole = lines.iter().map(|line| format!("{WORKSPACE}/{line}")).collect::<Vec<_>>().join("\n");
        format!("Found {} matches under {WORKSPACE}\n{whole}", lines.len())
    };
    let all = [
        "README.md:3: hello",
        "app/lib/data.txt:1: hello there",
        "app/lib/util.py:1: def hello():",
        "app/main.py:2: print('Hello')",
    ];
    assert_eq!(grep(json!({ "pattern": "hello" })), list(&all));
    assert_eq!(grep(json!({ "pattern": "hello", "case_sensitive": true })), list(&all[..3]));
    assert_eq!(grep(json!({ "pattern": "HELLO", "glob": "*.py" })), list(&all[2..]));
    assert_eq!(grep(json!({ "pattern": "hello", "glob": "**/lib/*" })), list(&all[1..3]));
    assert_eq!(grep(json!({ "pattern": "hello()", "literal": true })), list(&all[2..3]));
    assert_eq!(grep(json!({ "pattern": "^def\\s+\\w+" })), list(&all[2..3]));
    assert_eq!(grep(json!({ "pattern": "goodbye" })), format!("No matches found under {WORKSPACE}"));
    let file = "/mnt/user-data/workspace/app/main.py";
    let found = session.says("grep", json!({ "path": file, "pattern": "os" }));
    assert_eq!(found, format!("Found 1 matches under {file}\n{file}:1: import os"));
    let first = grep(json!({ "pattern": "hello", "max_results": 1 }));
    let text = "Found 1 matches under /mnt/user-data/workspace (showing first 1)\n/mnt/user-data/workspace/README.md:3: \
                hello\nResults truncated. Narrow the path or add a glob filter.";
    assert_eq!(first, text);
    // Lines as long as those of minified code are left out, and long ones are cut.
    session.put("long", &format!("{}needle\n{}needle\n", "x".repeat(2000), "y".repeat(250)));
    session.put("large", &format!("needle\n{}", "z".repeat(1_000_000)));
    let found = grep(json!({ "pattern": "y+needle|needle" }));
    assert_eq!(found, list(&[&format!("long:2: {}...", "y".repeat(197))]));
}

pub(super) fn grep_errors(session: &Session) {
    let at = |path: &str, pattern: &str| json!({ "path": path, "pattern": pattern });
    session.refuses(
        "grep",
        at("/mnt/user-data/none", "a"),
        "Error: Directory not found: /mnt/user-data/none",
    );
    for pattern in ["(", "[a", "a{9999}{9999}", "(?<=a)b"] {
        let (text, is_error) = session.thread("grep", at(WORKSPACE, pattern));
        assert!(is_error && text.starts_with("Error: Invalid regex pattern: "), "{pattern}: {text}");
    }
    let input = json!({ "path": WORKSPACE, "pattern": "a", "glob": "[" });
    session.refuses("grep", input, "Error: Invalid glob pattern: `[` has an unclosed `[`");
}

pub(super) fn links(session: &Session) {
    session.bash("mkdir d; echo root: > d/f; ln -s /etc out; ln -s /etc/passwd secret; ln -s d/f inside; ln -s d dir; ln -s . self");
    let found = session.says("grep", json!({ "path": WORKSPACE, "pattern": "root:" }));
    assert_eq!(
        found,
        format!("Found 1 matches under {WORKSPACE}\n{WORKSPACE}/d/f:1: root:"),
        "links are not followed"
    );
    let refused =
        |path: &str| format!("Error: Permission denied: only paths under /mnt/user-data are allowed: {path}");
    let secret = "/mnt/user-data/workspace/secret";
    session.refuses("grep", json!({ "path": secret, "pattern": "root:" }), &refused(secret));
    let found = session.says("glob", json!({ "path": WORKSPACE, "pattern": "**" }));
    assert_eq!(found, format!("Found 2 paths under {WORKSPACE}\n1. {WORKSPACE}/d/f\n2. {WORKSPACE}/inside"));
    let found = session.says("glob", json!({ "path": WORKSPACE, "pattern": "**", "include_dirs": true }));
    assert_eq!(found.lines().next(), Some("Found 5 paths under /mnt/user-data/workspace"), "{found}");
}
