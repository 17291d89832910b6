//! `glob`: the files that it finds.

use serde_json::json;

use super::Capability::{Exec, LongInput};
use super::session::Session;
use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case("glob_gives_a_thousand_at_most", a_thousand),
    case("glob_links_and_directories", links).needs(&[Exec]),
    case("glob_what_may_not_be_read", shut).needs(&[Exec]),
    case("glob_a_large_tree", large).needs(&[Exec, LongInput]),
];

fn a_thousand(session: &Session) {
    if session.can(Exec) {
        session.out("mkdir d; cd d; for n in $(seq -w 0 999); do : > 0$n; done");
    } else {
        for number in 0..1000 {
            session.write(&format!("d/{number:04}"), "");
        }
    }
    let found = session.ok("glob", json!({ "pattern": "d/*" }));
    assert_eq!(found["files"].as_array().map(Vec::len), Some(1000));
    assert!(found.get("truncated").is_none(), "that was all");
    session.write("d/1000", "");
    let found = session.ok("glob", json!({ "pattern": "d/*" }));
    assert_eq!(found["truncated"], true);
    let files = found["files"].as_array().expect("a list");
    assert_eq!((files.len(), &files[0], &files[999]), (1000, &json!("d/0000"), &json!("d/0999")));
}

/// Links to files count as files. Links to directories are not followed, because they may form a cycle.
fn links(session: &Session) {
    session.out(
        "mkdir -p own; cd own; mkdir -p src/deep empty; touch a.rs src/c.rs; ln -s a.rs l.rs; ln -s nowhere dangling.rs; \
                 ln -s .. src/up; ln -s . src/deep/self; ln -s src dir.rs; mkfifo pipe.rs",
    );
    for (pattern, found) in [("*.rs", json!(["a.rs", "l.rs"])), ("**", json!(["a.rs", "l.rs", "src/c.rs"]))] {
        assert_eq!(
            session.ok("glob", json!({ "pattern": pattern, "cwd": "own" }))["files"],
            found,
            "{pattern}"
        );
    }
    let through = session.ok("glob", json!({ "pattern": "*", "cwd": "own/dir.rs" }));
    assert_eq!(through["files"], json!(["c.rs"]), "cwd may be a link");
}

fn shut(session: &Session) {
    session.out("mkdir -p own; cd own; mkdir -p open shut; touch open/f shut/f; chmod 0 shut");
    let seen = if session.is_plain() { json!(["open/f"]) } else { json!(["open/f", "shut/f"]) };
    assert_eq!(session.ok("glob", json!({ "pattern": "*/*", "cwd": "own" })), json!({ "files": seen }));
    session.bound("glob", json!({ "pattern": "*", "cwd": "own/shut" }));
}

fn large(session: &Session) {
    session.out("mkdir t; cd t; for d in $(seq 100); do mkdir $d; (cd $d; touch $(seq 100)); done");
    let all = session.ok("glob", json!({ "pattern": "t/**" }));
    assert_eq!((all["files"].as_array().map(Vec::len), &all["truncated"]), (Some(1000), &json!(true)));
    let one = session.ok("glob", json!({ "pattern": "t/*/77" }));
    assert_eq!(one["files"].as_array().map(Vec::len), Some(100));
}
