//! The cases of the tools `workspace`. A host serves three workspaces: `box` with files only, and, if it runs programs,
//! `open` with a shell and `strict` with a shell that allows `echo`, `cat` and `/usr/bin/id`.

use serde_json::{Value, json};

use super::session::{Session, text};
use super::{Capability, Case, case};

pub(super) const CASES: &[Case] = &[
    case("workspace_files", files),
    case("workspace_bytes", bytes),
    case("workspace_edit", edit),
    case("workspace_concurrent_edits", concurrent_edits).needs(&[Capability::AtOnce, Capability::ManyCalls]),
    case("workspace_paths_outside", outside),
    case("workspace_ls", ls),
    case("workspace_stat", stat),
    case("workspace_mkdir_and_rm", mkdir_and_rm),
    case("workspace_glob", glob),
    case("workspace_grep", grep),
    case("workspace_input", input),
    case("workspace_sessions", sessions),
    case("workspace_without_programs", without_programs).lacks(&[Capability::Exec]),
    case("workspace_run", run).needs(&[Capability::Exec]),
    case("workspace_run_bounds", run_bounds).needs(&[Capability::Exec]),
    case("workspace_run_long_commands", run_long).needs(&[Capability::Exec, Capability::LongInput]),
    case("workspace_allowlist", allowlist).needs(&[Capability::Exec]),
    case("workspace_clean_path", clean_path).needs(&[Capability::Exec, Capability::PlainUser]),
    case("workspace_links", links).needs(&[Capability::Exec]),
    case("workspace_restart", restart).needs(&[Capability::Restart]),
];

fn ok(session: &Session, operation: &str, input: Value) -> Value {
    session.ok(&format!("workspace__box__{operation}"), input)
}

fn err(session: &Session, operation: &str, input: Value) -> String {
    session.err(&format!("workspace__box__{operation}"), input)
}

fn write(session: &Session, path: &str, content: &str) {
    ok(session, "write_file", json!({ "path": path, "content": content }));
}

fn files(session: &Session) {
    assert_eq!(
        ok(session, "write_file", json!({ "path": "a/b.txt", "content": "hé" })),
        json!({ "ok": true, "size": 3 })
    );
    let appended = json!({ "path": "/workspace/a/b.txt", "content": "\n", "append": true });
    assert_eq!(ok(session, "write_file", appended), json!({ "ok": true, "size": 4 }));
    assert_eq!(
        ok(session, "read_file", json!({ "path": "a/b.txt" })),
        json!({ "content": "hé\n", "size": 4 })
    );
    let part = ok(session, "read_file", json!({ "path": "./a/../a/b.txt", "limit": 2 }));
    assert_eq!(part, json!({ "content": "h", "size": 4, "truncated": true, "next_offset": 1 }));
    assert_eq!(
        ok(session, "read_file", json!({ "path": "a/b.txt", "offset": 3 })),
        json!({ "content": "\n", "size": 4 })
    );
    for (path, code) in [("missing", "not_found"), ("a", "is_directory"), ("a/b.txt/c", "not_a_directory")] {
        let error = err(session, "read_file", json!({ "path": path }));
        assert!(error.starts_with(code), "{path}: {error}");
    }
}

fn bytes(session: &Session) {
    let binary = json!({ "path": "b", "content": "/wD+", "encoding": "base64" });
    assert_eq!(ok(session, "write_file", binary), json!({ "ok": true, "size": 3 }));
    let read = json!({ "content": "/wD+", "size": 3, "encoding": "base64" });
    assert_eq!(ok(session, "read_file", json!({ "path": "b" })), read);
}

fn edit(session: &Session) {
    write(session, "f", "one two\r\ntwo\n");
    let replace = |old: &str, new: &str, all: bool| json!({ "path": "f", "old_string": old, "new_string": new, "replace_all": all });
    assert_eq!(
        ok(session, "edit_file", replace("one", "$1", false)),
        json!({ "ok": true, "size": 12, "replaced": 1 })
    );
    let several = err(session, "edit_file", replace("two", "2", false));
    let expected = "edit_conflict: the text to replace occurs 2 times in `/workspace/f` (lines 1, 2): add context to make it \
                    unique, or replace all occurrences";
    assert_eq!(several, expected);
    let missing = err(session, "edit_file", replace("three", "3", false));
    assert_eq!(missing, "edit_conflict: the text to replace does not occur in `/workspace/f`");
    assert_eq!(
        ok(session, "edit_file", replace("two", "2", true)),
        json!({ "ok": true, "size": 8, "replaced": 2 })
    );
    assert_eq!(ok(session, "read_file", json!({ "path": "f" }))["content"], "$1 2\r\n2\n");
    assert!(err(session, "edit_file", replace("", "x", false)).starts_with("invalid_input: "));
    let outside = json!({ "path": "/etc/passwd", "old_string": "root", "new_string": "x" });
    assert!(!err(session, "edit_file", outside).contains("edit_conflict"), "it is outside");
}

/// Of many edits at the same time, none is lost.
fn concurrent_edits(session: &Session) {
    let lines: Vec<String> = (0..100).map(|number| format!("<{number}>")).collect();
    write(session, "f", &(lines.join("\n") + "\n"));
    std::thread::scope(|scope| {
        for number in 0..100 {
            let edit = json!({ "path": "f", "old_string": format!("<{number}>"), "new_string": "done" });
            scope.spawn(move || ok(session, "edit_file", edit));
        }
    });
    assert_eq!(ok(session, "read_file", json!({ "path": "f" }))["content"], "done\n".repeat(100));
}

/// No operation leaves the directory, and the message says which path and which directory.
fn outside(session: &Session) {
    write(session, "inside", "1");
    for (operation, more) in [
        ("read_file", json!({})),
        ("write_file", json!({ "content": "x" })),
        ("ls", json!({})),
        ("glob", json!({ "pattern": "*" })),
        ("grep", json!({ "pattern": "x" })),
        ("stat", json!({})),
        ("mkdir", json!({})),
        ("mkdir", json!({ "recursive": true })),
        ("rm", json!({})),
        ("rm", json!({ "recursive": true })),
    ] {
        for path in ["/tmp", "../tmp", "/workspace/../tmp", "a/../../tmp", "/workspacex"] {
            let absolute = if path.starts_with('/') { path.to_owned() } else { format!("/workspace/{path}") };
            let mut input = more.clone();
            input["path"] = path.into();
            let error = err(session, operation, input);
            // What does not exist cannot be resolved.
            if error.starts_with("not_found: ") && path.contains("a/") {
                continue;
            }
            let expected = format!("path_escape: path {absolute} is outside workspace root /workspace");
            let new = path == "/workspacex" && error.starts_with("not_found: ");
            assert!(error == expected || new, "{operation} {path}: {error}");
        }
    }
    for path in ["", "a\0", &"a".repeat(5000)] {
        let error = err(session, "stat", json!({ "path": path }));
        assert!(error.starts_with("invalid_input: "), "{error}");
    }
}

fn ls(session: &Session) {
    assert_eq!(ok(session, "ls", json!({})), json!({ "entries": [] }));
    write(session, "b", "12");
    write(session, "a/c", "");
    let entries = ok(session, "ls", json!({}))["entries"].clone();
    let of = |entry: &Value| {
        [&entry["name"], &entry["path"], &entry["type"]].map(|text| text.as_str().unwrap().to_owned())
    };
    assert_eq!(of(&entries[0]), ["a", "/workspace/a", "directory"]);
    assert_eq!(entries[1], json!({ "name": "b", "path": "/workspace/b", "type": "file", "size": 2 }));
    assert_eq!(entries.as_array().unwrap().len(), 2);
    let deep = json!({ "entries": [{ "name": "c", "path": "/workspace/a/c", "type": "file", "size": 0 }] });
    for path in ["a", "a/", "./a", "/workspace/a"] {
        let mut listed = ok(session, "ls", json!({ "path": path }));
        let shown = listed["entries"][0]["path"].take();
        assert!(shown.as_str().unwrap().ends_with("a/c"), "{shown}");
        listed["entries"][0]["path"] = "/workspace/a/c".into();
        assert_eq!(listed, deep);
    }
    assert!(err(session, "ls", json!({ "path": "b" })).starts_with("not_a_directory: "));
    assert!(err(session, "ls", json!({ "path": "missing" })).starts_with("not_found: "));
}

fn stat(session: &Session) {
    write(session, "f", "123");
    let mut told = ok(session, "stat", json!({ "path": "f" }));
    let mtime = told.as_object_mut().and_then(|told| told.remove("mtime"));
    assert_eq!(told, json!({ "path": "/workspace/f", "type": "file", "size": 3 }));
    // In milliseconds: between 2020 and 2200.
    let mtime = mtime.and_then(|mtime| mtime.as_i64()).unwrap();
    assert!((1_577_836_800_000..7_258_118_400_000).contains(&mtime), "{mtime}");
    assert_eq!(ok(session, "stat", json!({ "path": "." }))["type"], "directory");
    assert!(err(session, "stat", json!({ "path": "missing" })).starts_with("not_found: "));
}

fn mkdir_and_rm(session: &Session) {
    assert_eq!(ok(session, "mkdir", json!({ "path": "a" })), json!({ "ok": true }));
    assert!(err(session, "mkdir", json!({ "path": "a" })).starts_with("already_exists: "));
    let missing = err(session, "mkdir", json!({ "path": "b/c" }));
    assert_eq!(
        missing,
        "not_found: the parent of `/workspace/b/c` does not exist: set `recursive` to create it"
    );
    ok(session, "mkdir", json!({ "path": "b/c", "recursive": true }));
    ok(session, "mkdir", json!({ "path": "b/c", "recursive": true }));
    write(session, "b/c/f", "1");
    let refused = err(session, "rm", json!({ "path": "b" }));
    assert_eq!(
        refused,
        "is_directory: `/workspace/b` is a directory: set `recursive` to remove it with its contents"
    );
    ok(session, "rm", json!({ "path": "b/c/f" }));
    write(session, "b/c/f", "1");
    ok(session, "rm", json!({ "path": "b", "recursive": true }));
    assert!(err(session, "rm", json!({ "path": "b", "recursive": true })).starts_with("not_found: "));
    for path in [".", "/workspace", "a/..", "./", "/workspace/."] {
        let error = err(session, "rm", json!({ "path": path, "recursive": true }));
        assert!(error.starts_with("invalid_input: "), "{path}: {error}");
    }
    assert_eq!(ok(session, "stat", json!({ "path": "." }))["type"], "directory");
}

fn glob(session: &Session) {
    for path in ["a.rs", "src/b.rs", "src/c.txt", ".hidden/d.rs"] {
        write(session, path, "");
    }
    let all = json!({ "paths": ["/workspace/.hidden/d.rs", "/workspace/a.rs", "/workspace/src/b.rs"] });
    assert_eq!(ok(session, "glob", json!({ "pattern": "**/*.rs" })), all);
    let below = json!({ "pattern": "*", "path": "src" });
    assert_eq!(
        ok(session, "glob", below),
        json!({ "paths": ["/workspace/src/b.rs", "/workspace/src/c.txt"] })
    );
    assert_eq!(ok(session, "glob", json!({ "pattern": "*.go" })), json!({ "paths": [] }));
    assert!(err(session, "glob", json!({ "pattern": "*", "path": "missing" })).starts_with("not_found: "));
    let up = err(session, "glob", json!({ "pattern": "../*" }));
    assert_eq!(
        up,
        "invalid_input: `pattern` must be relative to `path`, without `..`: pass another directory as `path`"
    );
    assert!(err(session, "glob", json!({ "pattern": "[" })).starts_with("invalid_input: "));
}

fn grep(session: &Session) {
    write(session, "b.txt", "one\nTwo two\r\nthree");
    write(session, "a/c.rs", "let two = 2;\n");
    ok(session, "write_file", json!({ "path": "bin", "content": "dHdvAA==", "encoding": "base64" }));
    let found = |input: Value| ok(session, "grep", input);
    let line =
        |path: &str, number: u64, line: &str| json!({ "path": path, "line_number": number, "line": line });
    let first = line("/workspace/a/c.rs", 1, "let two = 2;");
    let second = line("/workspace/b.txt", 2, "Two two");
    let skipped = ["/workspace/bin"];
    let result =
        |matches: Value| json!({ "matches": matches, "skipped_paths": [], "skipped_binary_paths": skipped });
    assert_eq!(found(json!({ "pattern": "two" })), result(json!([first, second])));
    assert_eq!(found(json!({ "pattern": "^two" })), result(json!([])));
    assert_eq!(found(json!({ "pattern": "^two", "ignore_case": true })), result(json!([second])));
    let only =
        |matches: Value| json!({ "matches": matches, "skipped_paths": [], "skipped_binary_paths": [] });
    assert_eq!(found(json!({ "pattern": "two", "include": "*.rs" })), only(json!([first])));
    assert_eq!(found(json!({ "pattern": "two", "include": "a/*" })), only(json!([first])));
    assert_eq!(found(json!({ "pattern": "two", "path": "b.txt" })), only(json!([second])));
    assert_eq!(found(json!({ "pattern": "two", "path": "a" })), only(json!([first])));
    let cut = found(json!({ "pattern": "two", "max_results": 1 }));
    assert_eq!((&cut["matches"], &cut["truncated"]), (&json!([first]), &json!(true)));
    write(session, "a/big", &"x\n".repeat(600_000));
    let big = found(json!({ "pattern": "two", "path": "a", "max_file_size_mb": 1 }));
    assert_eq!((&big["matches"], &big["skipped_paths"]), (&json!([first]), &json!(["/workspace/a/big"])));
    for input in
        [json!({ "pattern": "(" }), json!({ "pattern": "" }), json!({ "pattern": "a", "max_results": 0 })]
    {
        assert!(err(session, "grep", input).starts_with("invalid_input: "));
    }
    assert!(err(session, "grep", json!({ "pattern": "a", "path": "missing" })).starts_with("not_found: "));
}

fn input(session: &Session) {
    for (operation, input) in [
        ("read_file", json!({})),
        ("read_file", json!({ "path": "a", "sandbox": "b" })),
        ("read_file", json!({ "path": 1 })),
        ("ls", json!([])),
        ("stat", json!("a")),
        ("rm", json!({ "path": "a", "recursive": "yes" })),
    ] {
        assert!(err(session, operation, input).starts_with("invalid_input: "), "{operation}");
    }
    for tool in [
        "workspace__box__run",
        "workspace__box__exec",
        "workspace__none__ls",
        "workspace__box",
        "workspace__",
        "ls",
        "shell",
    ] {
        let error = session.err(tool, json!({ "path": "." }));
        assert!(
            error.starts_with("unknown_tool: ") && error.contains("workspace__box__read_file"),
            "{tool}: {error}"
        );
    }
}

fn sessions(session: &Session) {
    write(session, "f", "1");
    let other = session.other("another");
    assert!(err(&other, "read_file", json!({ "path": "f" })).starts_with("not_found: "));
}

fn without_programs(session: &Session) {
    let error = session.err("workspace__open__ls", json!({}));
    let expected = "unsupported: the workspace `open` failed: it declares the capability `shell`, but this provider cannot run \
                    programs: use another provider, or remove `shell` from `workspace(..)`";
    assert_eq!(error, expected);
}

fn run(session: &Session) {
    let ran = session.ok("workspace__open__run", json!({ "command": "pwd; echo err >&2" }));
    assert_eq!(
        (&ran["stdout"], &ran["stderr"], &ran["exit_code"]),
        (&json!("/workspace\n"), &json!("err\n"), &json!(0))
    );
    assert!(ran["duration_ms"].is_u64(), "{ran}");
    let failed = session.call("workspace__open__run", json!({ "command": "exit 3" }));
    let told: Value = serde_json::from_str(&failed.content).expect("JSON");
    assert!(failed.is_error && told["exit_code"] == 3, "{told}");
    session.ok("workspace__open__run", json!({ "command": "echo 1 > f; touch -d @1000000000.5 f" }));
    let told = session.ok("workspace__open__stat", json!({ "path": "f" }));
    assert_eq!(told["mtime"], 1_000_000_000_500_i64);
    assert_eq!(session.ok("workspace__open__read_file", json!({ "path": "f" }))["content"], "1\n");
    let elsewhere = err(session, "read_file", json!({ "path": "f" }));
    assert!(elsewhere.starts_with("not_found: "), "each workspace has its own sandbox: {elsewhere}");
}

fn run_bounds(session: &Session) {
    let slow =
        session.call("workspace__open__run", json!({ "command": "echo a; sleep 60", "timeout_ms": 300 }));
    let told: Value = serde_json::from_str(&slow.content).expect("JSON");
    assert!(slow.is_error && told["exit_code"] == 124 && told["timed_out"] == true, "{told}");
    assert_eq!(told["stdout"], "a\n");
    let ran = session.ok(
        "workspace__open__run",
        json!({ "argv": ["sh", "-c", "pwd; cat; echo $A"], "working_dir": "..", "stdin": "in\n", "env": { "A": "b" } }),
    );
    let above = session.ok("workspace__open__run", json!({ "command": "cd ..; pwd" }));
    assert_eq!(text(&ran["stdout"]), format!("{}in\nb\n", text(&above["stdout"])));
    let ran = session.ok("workspace__open__run", json!({ "command": "seq 10000" }));
    assert!(text(&ran["stdout"]).len() <= 30_000 && ran["stdout_file"].is_string(), "{ran}");
    // They would run other programs than those that are allowed.
    for more in [json!({ "argv": ["echo"] }), json!({ "command": "echo", "env": { "PATH": "/tmp" } })] {
        session.fails("workspace__strict__run", more, "permission_denied");
    }
    let long = session.err("workspace__strict__run", json!({ "command": "echo", "timeout_ms": 5001 }));
    assert_eq!(
        long,
        "invalid_input: the timeout must be at most 5000 ms, the longest that this workspace allows"
    );
    session.fails("workspace__open__run", json!({ "command": "a\0" }), "invalid_input");
}

fn run_long(session: &Session) {
    let text = "é日😀".repeat(20_000);
    let command = format!("echo \"$0 $#\" '{text}'");
    let input = json!({ "command": command, "max_output_chars": 1_048_576 });
    let ran = session.ok("workspace__open__run", input);
    assert!(ran["stdout"] == format!("bash 0 {text}\n"), "the text comes back");
    let too_long = json!({ "command": format!(": {}", "x".repeat((1 << 20) - 1)) });
    let error = session.err("workspace__open__run", too_long);
    assert!(error.starts_with("too_large: `command` has 1048577 bytes: "), "{error}");
    // A list of programs needs a command that is parsed before it runs.
    let error = session.err("workspace__strict__run", json!({ "command": format!("echo {text}") }));
    let expected =
        "too_large: with an allowlist, `command` must have at most 65536 bytes: write a file and run it";
    assert_eq!(error, expected);
}

fn allowlist(session: &Session) {
    let run = |command: &str| session.call("workspace__strict__run", json!({ "command": command }));
    for (command, stdout) in [
        ("echo a b", "a b\n"),
        ("echo \"$(echo it\\'s)\" | cat", "it's\n"),
        ("echo a > f && cat f", "a\n"),
        ("echo '$(id)' \"\\$x\" '#'", "$(id) $x #\n"),
    ] {
        let ran = run(command);
        let told: Value =
            serde_json::from_str(&ran.content).unwrap_or_else(|_| panic!("{command}: {}", ran.content));
        assert_eq!((ran.is_error, &told["stdout"]), (false, &json!(stdout)), "{command}: {told}");
    }
    assert!(!run("/usr/bin/id").is_error);
    for command in
        ["id", "ls", "echo a; ls", "echo $(ls)", "cat <(ls)", "PATH=/tmp echo", "eval echo", "$0", "ec\\ho"]
    {
        let ran = run(command);
        let refused =
            ran.content.starts_with("permission_denied: ") || ran.content.starts_with("invalid_input: ");
        assert!(ran.is_error && refused, "{command}: {}", ran.content);
    }
    let named = run("ls").content;
    assert_eq!(
        named,
        "permission_denied: the program `ls` is not allowed: this workspace allows echo, cat, /usr/bin/id"
    );
}

/// A program that the sandbox's user has put on the path does not stand in for an allowed one.
fn clean_path(session: &Session) {
    let made = "for dir in $(echo $PATH | tr : ' '); do [ -w \"$dir\" ] && echo \"$dir\"; done; true";
    let ran = session.ok("workspace__open__run", json!({ "command": made }));
    assert_eq!(ran["exit_code"], 0);
    // `strict` has its own sandbox, into which only its tools write; a list without a writable directory is what it runs on.
    let path = session.ok("workspace__strict__run", json!({ "command": "echo $PATH" }));
    let path = path["stdout"].as_str().expect("text").trim().to_owned();
    assert!(!path.is_empty() && path.split(':').all(|dir| dir.starts_with('/')), "{path}");
    for writable in ran["stdout"].as_str().expect("text").lines() {
        assert!(!path.split(':').any(|dir| dir == writable), "{writable} is in {path}");
    }
}

/// Links are resolved before the check; those that stay inside are followed.
fn links(session: &Session) {
    let run = |command: &str| session.ok("workspace__open__run", json!({ "command": command }));
    run(
        "echo 1 > f; mkdir d; echo 2 > d/g; ln -s f in; ln -s d dir; ln -s /etc out; ln -s /etc/passwd file; ln -s . self; ln -s nowhere dangling",
    );
    let ok = |operation: &str, input: Value| session.ok(&format!("workspace__open__{operation}"), input);
    let err = |operation: &str, input: Value| session.err(&format!("workspace__open__{operation}"), input);
    assert_eq!(ok("read_file", json!({ "path": "in" }))["content"], "1\n");
    assert_eq!(ok("read_file", json!({ "path": "dir/g" }))["content"], "2\n");
    let escaped =
        |path: &str| format!("path_escape: path /workspace/{path} is outside workspace root /workspace");
    assert_eq!(err("read_file", json!({ "path": "file" })), escaped("file"));
    assert_eq!(err("read_file", json!({ "path": "out/passwd" })), escaped("out/passwd"));
    assert_eq!(err("write_file", json!({ "path": "out/x", "content": "" })), escaped("out/x"));
    assert_eq!(err("ls", json!({ "path": "out" })), escaped("out"));
    assert_eq!(err("grep", json!({ "pattern": "root", "path": "out" })), escaped("out"));
    assert_eq!(err("glob", json!({ "pattern": "*", "path": "out" })), escaped("out"));
    assert_eq!(err("stat", json!({ "path": "out/passwd" })), escaped("out/passwd"));
    assert_eq!(err("mkdir", json!({ "path": "out/x" })), escaped("out/x"));
    assert_eq!(err("rm", json!({ "path": "out/passwd" })), escaped("out/passwd"));
    assert_eq!(ok("stat", json!({ "path": "out" }))["type"], "symlink");
    let found = ok("grep", json!({ "pattern": "root|1|2" }));
    let paths: Vec<&str> =
        found["matches"].as_array().unwrap().iter().filter_map(|one| one["path"].as_str()).collect();
    assert_eq!(paths, ["/workspace/d/g", "/workspace/f"], "links are not followed");
    let files = ok("glob", json!({ "pattern": "**" }));
    assert_eq!(files["paths"], json!(["/workspace/d/g", "/workspace/f", "/workspace/in"]));
    ok("mkdir", json!({ "path": "dir/new" }));
    ok("rm", json!({ "path": "out" }));
    ok("rm", json!({ "path": "self" }));
    assert_eq!(ok("read_file", json!({ "path": "f" }))["content"], "1\n");
    assert_eq!(run("test -e /etc/passwd && echo there")["stdout"], "there\n");
}

fn restart(session: &Session) {
    write(session, "f", "1");
    session.restart();
    assert_eq!(ok(session, "read_file", json!({ "path": "f" }))["content"], "1");
}
