//! `glob`: patterns.

use serde_json::{Value, json};

use super::session::Session;
use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case("glob_patterns", patterns),
    case("glob_in_a_directory", directory),
    case("glob_what_is_no_pattern", no_pattern),
    case("glob_is_sorted", sorted),
    case("glob_matches_characters", characters),
];

fn fill(session: &Session) {
    for path in ["a.rs", "b.txt", "src/c.rs", "src/deep/d.rs", "src/deep/e[1].rs", ".hidden/f.rs", "-x.rs"] {
        session.write(&format!("own/{path}"), "");
    }
}

fn files(session: &Session, pattern: &str) -> Value {
    session.ok("glob", json!({ "pattern": pattern, "cwd": "own" }))["files"].clone()
}

fn patterns(session: &Session) {
    fill(session);
    let all = json!(["-x.rs", ".hidden/f.rs", "a.rs", "src/c.rs", "src/deep/d.rs", "src/deep/e[1].rs"]);
    for (pattern, found) in [
        ("*.rs", json!(["-x.rs", "a.rs"])),
        ("./a.rs", json!(["a.rs"])),
        ("a.rs", json!(["a.rs"])),
        ("**/*.rs", all),
        ("src/**", json!(["src/c.rs", "src/deep/d.rs", "src/deep/e[1].rs"])),
        ("src/**/d.rs", json!(["src/deep/d.rs"])),
        ("**/deep/*", json!(["src/deep/d.rs", "src/deep/e[1].rs"])),
        ("{a,b}.*", json!(["a.rs", "b.txt"])),
        ("{a,src/c}.rs", json!(["a.rs", "src/c.rs"])),
        ("src/[cd]*.rs", json!(["src/c.rs"])),
        ("src/*/[a-d].rs", json!(["src/deep/d.rs"])),
        ("src/*/[!d]*", json!(["src/deep/e[1].rs"])),
        ("src/**/e[[]1].rs", json!(["src/deep/e[1].rs"])),
        ("?.rs", json!(["a.rs"])),
        (".*/*", json!([".hidden/f.rs"])),
        ("-*", json!(["-x.rs"])),
        ("A.rs", json!([])),
        ("src", json!([])),
        ("src/", json!([])),
        ("nothing*", json!([])),
    ] {
        assert_eq!(files(session, pattern), found, "{pattern}");
    }
    assert_eq!(
        session.ok("glob", json!({ "pattern": "nothing" })),
        json!({ "files": [] }),
        "no match is no error"
    );
}

fn directory(session: &Session) {
    fill(session);
    for cwd in ["own/src/deep", "/home/user/own/src/deep", "own/src/../src/deep/", "./own/src//deep"] {
        let found = session.ok("glob", json!({ "pattern": "*", "cwd": cwd }));
        assert_eq!(found, json!({ "files": ["d.rs", "e[1].rs"] }), "{cwd}");
    }
    session.fails("glob", json!({ "pattern": "*", "cwd": "no" }), "not_found");
    session.fails("glob", json!({ "pattern": "*", "cwd": "no/where" }), "not_found");
    session.fails("glob", json!({ "pattern": "*", "cwd": "own/a.rs" }), "not_a_directory");
}

fn no_pattern(session: &Session) {
    fill(session);
    let long = "*".repeat(5000);
    for pattern in
        ["", "/etc/*", "/", "../*", "a/../b", "..", "[", "[a", "[b-a]", "{a", "a}", "a\\", "a\0", &long]
    {
        session.fails("glob", json!({ "pattern": pattern }), "invalid_input");
    }
}

fn sorted(session: &Session) {
    let names = ["b", "B", "a/z", "a.x", "a-b", "a0", "é", "z", "日", "a/b/c", "10", "9"];
    for name in names {
        session.write(&format!("s/{name}"), "");
    }
    let mut expected = names;
    expected.sort_unstable();
    assert_eq!(session.ok("glob", json!({ "pattern": "**", "cwd": "s" }))["files"], json!(expected));
}

fn characters(session: &Session) {
    for name in ["a", "é", "日", "ab", "*", "{a}", "x/y"] {
        session.write(&format!("c/{name}"), "");
    }
    for (pattern, found) in [
        ("?", json!(["*", "a", "é", "日"])),
        ("[à-ï]", json!(["é"])),
        ("[!a*]", json!(["é", "日"])),
        ("[^a*]", json!(["é", "日"])),
        ("{é,日,{a,b}?}", json!(["ab", "é", "日"])),
        ("\\*", json!(["*"])),
        ("\\{?\\}", json!(["{a}"])),
        ("x[!a]y", json!([])),
        ("{**/y,a}", json!(["a", "x/y"])),
    ] {
        let given = session.ok("glob", json!({ "pattern": pattern, "cwd": "c" }));
        assert_eq!(given["files"], found, "{pattern}");
    }
}
