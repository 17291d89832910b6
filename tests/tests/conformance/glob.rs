//! `glob`.

use koze::provider::Provider;
use koze::sandbox::Place;
use koze::{Sandbox, pool::Pool};
use serde_json::{Value, json};

use crate::{Session, session};

fn filled() -> Session<koze::provider::memory::Memory> {
    let session = session();
    for path in ["a.rs", "b.txt", "src/c.rs", "src/deep/d.rs", "src/deep/e[1].rs", ".hidden/f.rs", "-x.rs"] {
        session.write(path, "");
    }
    session
}

fn files<P: Provider>(session: &Session<P>, pattern: &str) -> Value {
    session.ok("glob", json!({ "pattern": pattern }))["files"].clone()
}

#[test]
fn patterns() {
    let session = filled();
    assert_eq!(files(&session, "*.rs"), json!(["-x.rs", "a.rs"]));
    assert_eq!(files(&session, "./a.rs"), json!(["a.rs"]));
    assert_eq!(
        files(&session, "**/*.rs"),
        json!(["-x.rs", ".hidden/f.rs", "a.rs", "src/c.rs", "src/deep/d.rs", "src/deep/e[1].rs"])
    );
    assert_eq!(files(&session, "{a,b}.*"), json!(["a.rs", "b.txt"]));
    assert_eq!(files(&session, "src/[cd]*.rs"), json!(["src/c.rs"]));
    assert_eq!(files(&session, "src/*/[a-d].rs"), json!(["src/deep/d.rs"]));
    assert_eq!(files(&session, "src/**/e[[]1].rs"), json!(["src/deep/e[1].rs"]));
    assert_eq!(files(&session, "src"), json!([]), "a directory is no file");
    assert_eq!(files(&session, "nothing*"), json!([]));
}

#[test]
fn a_directory_of_ones_own() {
    let session = filled();
    let found = session.ok("glob", json!({ "pattern": "*", "cwd": "src/deep" }));
    assert_eq!(found, json!({ "files": ["d.rs", "e[1].rs"] }));
    assert!(session.err("glob", json!({ "pattern": "*", "cwd": "no" })).starts_with("not_found: "));
    assert!(session.err("glob", json!({ "pattern": "*", "cwd": "a.rs" })).starts_with("not_a_directory: "));
}

#[test]
fn what_is_no_pattern() {
    let session = filled();
    for pattern in ["/etc/*", "../*", "a/../b", "[", "{a", "a\0"] {
        assert!(
            session.err("glob", json!({ "pattern": pattern })).starts_with("invalid_input: "),
            "{pattern:?}"
        );
    }
}

#[test]
fn a_thousand_at_most() {
    let session = session();
    for number in 0..1001 {
        session.write(&format!("d/{number:04}"), "");
    }
    let found = session.ok("glob", json!({ "pattern": "d/*" }));
    assert_eq!(found["truncated"], true);
    let files = found["files"].as_array().expect("a list");
    assert_eq!((files.len(), &files[0], &files[999]), (1000, &json!("d/0000"), &json!("d/0999")));
}

/// A link to a file is a file; one to a directory is not gone into, for it may lead in a circle.
#[test]
fn links() {
    let session = filled();
    link(&session.pool, "/home/user/l.rs", "a.rs");
    link(&session.pool, "/home/user/dangling.rs", "nowhere");
    link(&session.pool, "/home/user/src/up", "..");
    assert_eq!(files(&session, "*.rs"), json!(["-x.rs", "a.rs", "l.rs"]));
    assert_eq!(files(&session, "src/**"), json!(["src/c.rs", "src/deep/d.rs", "src/deep/e[1].rs"]));
}

fn link<P: Provider>(pool: &Pool<P>, path: &str, target: &str) {
    let made = async { pool.sandbox("default").await?.make_link(Place { root: "/", path }, target).await };
    pollster::block_on(made).expect("a link");
}
