//! Concurrent calls.

use std::collections::BTreeSet;

use serde_json::json;

use super::Capability::{Exec, List, ManyCalls};
use super::session::{Session, at_once, text};
use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case("appends_at_once_are_all_there", appends).needs(&[ManyCalls]),
    case("writes_at_once_leave_one_of_them", writes),
    case("writes_at_once_to_two_names_of_one_file", two_names).needs(&[Exec]),
    case("readers_see_a_whole_file", readers),
    case("first_uses_at_once_make_one_sandbox", first_uses),
    case("creates_at_once_create_once", creates),
    case("creates_at_once_keep_to_the_limit", limit).needs(&[List]),
];

fn appends(session: &Session) {
    at_once(8, |thread| {
        for number in 0..10 {
            let line = format!("{thread}-{number}-{}\n", "x".repeat(5000));
            session.ok("write_file", json!({ "path": "log", "content": line, "append": true }));
        }
    });
    let read = session.ok("read_file", json!({ "path": "log", "limit": 16_777_216 }));
    let content = text(&read["content"]);
    let lines: BTreeSet<&str> = content.lines().collect();
    assert_eq!((lines.len(), content.lines().count()), (80, 80));
    assert!(
        lines.iter().all(|line| line.ends_with(&"x".repeat(5000)) && line.len() == 5004),
        "each in one piece"
    );
}

fn writes(session: &Session) {
    let content = |thread: usize| thread.to_string().repeat(50_000 + thread);
    at_once(6, |thread| {
        for _ in 0..5 {
            session.write("own/f", &content(thread));
        }
    });
    let left = session.read("own/f");
    assert!((0..6).any(|thread| content(thread) == left), "{} bytes", left.len());
    let found = session.ok("glob", json!({ "pattern": "**", "cwd": "own" }));
    assert_eq!(found["files"], json!(["f"]), "nothing is left beside it");
}

fn two_names(session: &Session) {
    session.out("echo -n > f; ln -s f link; mkdir d; ln -s .. d/up");
    at_once(6, |thread| {
        let path =
            ["f", "link", "d/up/f", "/home/user/./f", "d/../link", "/proc/1/cwd/../home/user/f"][thread % 5];
        for number in 0..10 {
            let line = format!("{thread}-{number}-{}\n", "x".repeat(2000));
            session.ok("write_file", json!({ "path": path, "content": line, "append": true }));
        }
    });
    assert_eq!(session.out("wc -l < f; awk '{ print length }' f | sort -u; readlink link"), "60\n2004\nf");
}

fn readers(session: &Session) {
    session.write("f", &"0".repeat(100_000));
    at_once(4, |thread| {
        for turn in 0..10 {
            if thread < 2 {
                session.write("f", &turn.to_string().repeat(100_000));
            } else {
                let read = session.read("f");
                let first = read.as_bytes()[0];
                assert!(
                    read.len() == 100_000 && read.bytes().all(|byte| byte == first),
                    "half a write was seen"
                );
            }
        }
    });
}

fn first_uses(session: &Session) {
    at_once(8, |thread| session.write(&format!("own/f{thread}"), "x"));
    if session.can(List) {
        assert_eq!(session.sandboxes(), ["default"]);
    }
    let found = session.ok("glob", json!({ "pattern": "f*", "cwd": "own" }));
    assert_eq!(found["files"].as_array().map(Vec::len), Some(8), "and all of them used the same");
}

fn creates(session: &Session) {
    let made = at_once(8, |_| session.ok("sandbox_create", json!({ "sandbox": "a" }))["created"].clone());
    assert_eq!(made.iter().filter(|created| **created == true).count(), 1, "{made:?}");
}

fn limit(session: &Session) {
    let made =
        at_once(30, |number| session.call("sandbox_create", json!({ "sandbox": format!("s{number}") })));
    let refused: Vec<_> = made.iter().filter(|result| result.is_error).collect();
    assert!(refused.iter().all(|result| result.content.starts_with("unavailable: ")), "{refused:?}");
    assert_eq!(session.sandboxes().len(), made.len() - refused.len());
    assert!(session.sandboxes().len() <= 20, "{}", session.sandboxes().len());
}
