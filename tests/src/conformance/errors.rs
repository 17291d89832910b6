//! Errors have a code and a message, and no side effects.

use serde_json::{Value, json};

use super::Capability::{List, ManyCalls};
use super::session::Session;
use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case("paths_that_cannot_be", paths),
    case("what_is_not_there_and_what_is_something_else", not_there),
    case("inputs_that_lack_something", lacking),
    case("inputs_with_more_than_there_is", unknown).needs(&[ManyCalls]),
    case("inputs_of_another_type", types).needs(&[ManyCalls]),
    case("inputs_out_of_their_range", ranges),
    case("inputs_that_are_no_object", no_object),
    case("inputs_with_a_key_twice", twice),
    case("tools_that_there_are_not", no_tool),
    case("errors_say_what_would_be_right", sentences),
];

/// Returns a valid input for each tool, which uses the files `a` and `b`.
pub(super) fn good() -> Vec<(&'static str, Value)> {
    vec![
        (
            "shell",
            json!({ "sandbox": "default", "command": "true", "timeout_ms": 30_000, "working_dir": "/home/user" }),
        ),
        ("read_file", json!({ "sandbox": "default", "path": "f", "offset": 0, "limit": 10 })),
        (
            "write_file",
            json!({ "sandbox": "default", "path": "f", "content": "x", "append": false, "encoding": "utf-8" }),
        ),
        ("glob", json!({ "sandbox": "default", "pattern": "*", "cwd": "/home/user" })),
        ("browse", json!({ "sandbox": "default", "port": 8080 })),
        ("sandbox_create", json!({ "sandbox": "a", "image": "shell", "sleep_after_ms": 600_000 })),
        ("sandbox_list", json!({})),
        (
            "transfer",
            json!({ "from_sandbox": "a", "from_path": "f", "to_sandbox": "b", "to_path": "f", "recursive": false }),
        ),
    ]
}

const REQUIRED: &[(&str, &[&str])] = &[
    ("shell", &["command"]),
    ("read_file", &["path"]),
    ("write_file", &["path", "content"]),
    ("glob", &["pattern"]),
    ("browse", &["port"]),
    ("sandbox_create", &["sandbox"]),
    ("transfer", &["from_sandbox", "from_path", "to_sandbox", "to_path"]),
];

fn required(tool: &str) -> &'static [&'static str] {
    REQUIRED.iter().find(|(name, _)| *name == tool).map_or(&[], |(_, fields)| *fields)
}

/// Checks that calls which only failed have created no sandbox.
#[track_caller]
fn nothing_happened(session: &Session) {
    if session.can(List) {
        assert_eq!(session.sandboxes(), [""; 0], "none of these made a sandbox");
    }
}

fn paths(session: &Session) {
    let (long, longer) = ("a".repeat(4097), format!("/{}", "a/".repeat(3000)));
    for path in ["", "\0", "a\0b", &long, &longer] {
        for (tool, input) in [
            ("read_file", json!({ "path": path })),
            ("write_file", json!({ "path": path, "content": "x" })),
            ("glob", json!({ "pattern": "*", "cwd": path })),
            ("shell", json!({ "command": "true", "working_dir": path })),
            (
                "transfer",
                json!({ "from_sandbox": "a", "from_path": path, "to_sandbox": "b", "to_path": "x" }),
            ),
            (
                "transfer",
                json!({ "from_sandbox": "a", "from_path": "x", "to_sandbox": "b", "to_path": path }),
            ),
        ] {
            session.fails(tool, input, "invalid_input");
        }
    }
    nothing_happened(session);
}

fn not_there(session: &Session) {
    session.write("d/f", "1");
    for (path, code) in [
        ("no", "not_found"),
        ("no/no", "not_found"),
        ("/no", "not_found"),
        ("d", "is_directory"),
        ("/", "is_directory"),
        (".", "is_directory"),
        ("d/f/x", "not_a_directory"),
        ("d/f/", "not_a_directory"),
    ] {
        session.fails("read_file", json!({ "path": path }), code);
    }
    for (path, code) in
        [("d", "is_directory"), ("/", "is_directory"), ("..", "is_directory"), ("d/f/x", "not_a_directory")]
    {
        for append in [false, true] {
            session.fails("write_file", json!({ "path": path, "content": "x", "append": append }), code);
        }
    }
    assert_eq!(session.read("d/f"), "1");
}

fn lacking(session: &Session) {
    for (tool, required) in REQUIRED {
        let (_, whole) = good().into_iter().find(|(name, _)| name == tool).expect("a tool");
        for field in *required {
            let mut input = whole.clone();
            input.as_object_mut().expect("an object").remove(*field);
            let error = session.err(tool, input);
            assert!(error.starts_with("invalid_input: ") && error.contains(field), "{tool} {field}: {error}");
        }
    }
    nothing_happened(session);
}

fn unknown(session: &Session) {
    for (tool, whole) in good() {
        for field in
            ["x", "", "Sandbox", "timeoutMs", "__proto__", "constructor", "session", "tenant", "root"]
        {
            let mut input = whole.clone();
            input[field] = json!("x");
            session.fails(tool, input, "invalid_input");
        }
    }
    nothing_happened(session);
}

fn types(session: &Session) {
    for (tool, whole) in good() {
        for (field, right) in whole.as_object().expect("an object") {
            for wrong in [
                json!(null),
                json!("1"),
                json!(1),
                json!(1.5),
                json!(true),
                json!([]),
                json!({}),
                json!(["x"]),
            ] {
                let same = wrong.is_string() && right.is_string()
                    || wrong.is_u64() && right.is_u64()
                    || wrong.is_boolean() && right.is_boolean();
                // Null counts as absent.
                if same || wrong.is_null() && !required(tool).contains(&field.as_str()) {
                    continue;
                }
                let mut input = whole.clone();
                input[field] = wrong;
                session.fails(tool, input, "invalid_input");
            }
        }
    }
    nothing_happened(session);
}

fn ranges(session: &Session) {
    for (tool, field, wrong) in [
        ("shell", "timeout_ms", vec![json!(0), json!(-1), json!(600_001), json!(u64::MAX), json!(1e300)]),
        ("read_file", "limit", vec![json!(0), json!(-1), json!(16_777_217), json!(u64::MAX)]),
        ("read_file", "offset", vec![json!(-1), json!(0.5), json!(1e300)]),
        ("browse", "port", vec![json!(0), json!(80), json!(1023), json!(65_536), json!(u64::MAX)]),
        ("sandbox_create", "sleep_after_ms", vec![json!(0), json!(999), json!(86_400_001), json!(u64::MAX)]),
        ("write_file", "encoding", vec![json!("latin-1"), json!("UTF-8"), json!(""), json!("hex")]),
    ] {
        let (_, whole) = good().into_iter().find(|(name, _)| *name == tool).expect("a tool");
        for value in wrong {
            let mut input = whole.clone();
            input[field] = value;
            session.fails(tool, input, "invalid_input");
        }
    }
    session.fails("shell", json!({ "command": "a\u{0}b" }), "invalid_input");
    nothing_happened(session);
    // Every offset is past the end.
    session.write("f", "x");
    let far = session.call("read_file", json!({ "path": "f", "offset": u64::MAX }));
    assert!(!far.is_error || far.content.starts_with("invalid_input: "), "{}", far.content);
}

fn no_object(session: &Session) {
    for (tool, _) in good() {
        for input in [json!(null), json!("f"), json!(1), json!(true), json!([]), json!(["f"])] {
            session.fails(tool, input, "invalid_input");
        }
    }
    nothing_happened(session);
}

/// Using one of the two values silently would hide a mistake.
fn twice(session: &Session) {
    for (tool, input, key) in [
        ("shell", r#"{"command":"echo 1 >f","command":"echo 2 >f"}"#, "command"),
        ("shell", r#"{"command":"echo 1 >f","sandbox":"a","\u0073andbox":"a"}"#, "sandbox"),
        ("write_file", r#"{"path":"f","content":"x","path":"f"}"#, "path"),
        ("sandbox_create", r#"{"sandbox":"a","image":{"x":1,"x":1}}"#, "x"),
        ("sandbox_list", r#"{"none":1,"none":1}"#, "none"),
    ] {
        let error = session.fails_as_written(tool, input, "invalid_input");
        assert!(error.contains(&format!("`{key}`")), "{tool} {input}: {error}");
    }
    nothing_happened(session);
}

/// Some of these names are properties of every JavaScript object.
fn no_tool(session: &Session) {
    for tool in [
        "toString",
        "Shell",
        "shell ",
        "__proto__",
        "constructor",
        "hasOwnProperty",
        "bash",
        "shell\n",
        "../shell",
    ] {
        let error = session.err(tool, json!({}));
        assert!(error.starts_with("unknown_tool: "), "{tool}: {error}");
        assert!(error.contains("sandbox_list"), "it names those there are: {error}");
    }
    nothing_happened(session);
}

fn sentences(session: &Session) {
    session.write("d/f", "1");
    for (tool, input, says) in [
        ("read_file", json!({ "path": "no" }), "/home/user/no"),
        ("read_file", json!({ "path": "d" }), "/home/user/d"),
        ("read_file", json!({ "path": "f", "limit": 0 }), "16777216"),
        ("shell", json!({ "command": "true", "timeout_ms": 0 }), "600000"),
        ("browse", json!({ "port": 1 }), "65535"),
        ("glob", json!({ "pattern": "../x" }), "cwd"),
        ("sandbox_create", json!({ "sandbox": "A" }), "lowercase"),
        ("sandbox_create", json!({ "sandbox": "a", "image": "x" }), "python"),
        (
            "transfer",
            json!({ "from_sandbox": "default", "from_path": "d", "to_sandbox": "b", "to_path": "d" }),
            "recursive",
        ),
        ("write_file", json!({ "path": "f", "content": "x", "encoding": "hex" }), "base64"),
        ("read_file", json!({ "path": "f", "file": "f" }), "file"),
    ] {
        let error = session.err(tool, input);
        assert!(error.contains(says), "{error}: no `{says}`");
        assert!(error.len() < 1000 && !error.contains('\n'), "one sentence: {error}");
    }
}
