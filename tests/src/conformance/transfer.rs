//! `transfer`: files and errors.

use serde_json::{Value, json};

use super::Capability::{Exec, LongInput, ManyCalls};
use super::session::{Session, at_once};
use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case("transfer_lands_at_its_path", lands),
    case("transfer_of_a_large_file", large).needs(&[LongInput]),
    case("transfer_of_a_tree_takes_its_new_name", tree_name),
    case("transfer_loses_nothing_that_is_there", not_lost),
    case("transfer_within_one_sandbox", within_one),
    case("transfer_where_nothing_fits", nothing_fits).lacks(&[Exec]),
    case("transfer_that_fails_leaves_nothing", fails_whole).needs(&[Exec]),
    case("transfers_at_once", several),
    case("transfers_at_once_to_one_place", one_place).needs(&[ManyCalls]),
];

pub(super) fn input(from: &str, to: &str, recursive: bool) -> Value {
    json!({ "from_sandbox": "default", "from_path": from, "to_sandbox": "b", "to_path": to, "recursive": recursive })
}

#[track_caller]
fn read_b(session: &Session, path: &str) -> Value {
    session.ok("read_file", json!({ "sandbox": "b", "path": path }))["content"].clone()
}

/// Returns the files in the sandbox `b`.
#[track_caller]
fn files_b(session: &Session, dir: &str) -> Value {
    session.ok("glob", json!({ "sandbox": "b", "pattern": "**", "cwd": dir }))["files"].clone()
}

fn lands(session: &Session) {
    session.write("f", "12ü");
    let first = input("f", "/tmp/new/g", false);
    assert_eq!(
        session.ok("transfer", first.clone()),
        json!({ "ok": true, "bytes": 4 }),
        "bytes, not characters"
    );
    assert_eq!(read_b(session, "/tmp/new/g"), "12ü");
    assert_eq!(files_b(session, "/tmp/new"), json!(["g"]), "nothing is left beside it");
    session.write("f", "");
    assert_eq!(session.ok("transfer", first)["bytes"], 0);
    assert_eq!(read_b(session, "/tmp/new/g"), "", "a file there is replaced");
    session.write("f", "home");
    session.ok("transfer", input("f", "g", false));
    assert_eq!(read_b(session, "/home/user/g"), "home", "both paths start at home");
    session.ok("transfer", input("f", "h", true));
    assert_eq!(read_b(session, "h"), "home", "recursive does not make a directory of it");
}

fn large(session: &Session) {
    let text = "0123456789abcdef".repeat(3 * 65536);
    session.write("f", &text);
    assert_eq!(session.ok("transfer", input("f", "f", false))["bytes"], text.len());
    let end = json!({ "sandbox": "b", "path": "f", "offset": text.len() - 16 });
    assert_eq!(
        session.ok("read_file", end),
        json!({ "content": "0123456789abcdef", "size": 3 * 1024 * 1024 })
    );
}

/// A naive extraction would create the tree under its source name.
fn tree_name(session: &Session) {
    for path in ["d/x", "d/sub/y", "d/sub/sub/z"] {
        session.write(path, path);
    }
    session.fails("transfer", input("d", "own/e", false), "is_directory");
    assert_eq!(session.ok("transfer", input("d", "own/e", true)), json!({ "ok": true, "bytes": 3 + 7 + 11 }));
    assert_eq!(files_b(session, "own"), json!(["e/sub/sub/z", "e/sub/y", "e/x"]));
    assert_eq!(read_b(session, "own/e/sub/y"), "d/sub/y");
    session.ok("transfer", input("d/", "/tmp/f/", true));
    assert_eq!(
        files_b(session, "/tmp"),
        json!(["f/sub/sub/z", "f/sub/y", "f/x"]),
        "slashes at the end are no names"
    );
}

fn not_lost(session: &Session) {
    session.write("d/f", "1");
    session.write("f", "1");
    session.ok("write_file", json!({ "sandbox": "b", "path": "own/d/g", "content": "2" }));
    for (from, to, recursive, code) in [
        ("f", "own/d", false, "is_directory"),
        ("d", "own/d", true, "already_exists"),
        ("d", "own/d/g", true, "not_a_directory"),
        ("no", "own/x", false, "not_found"),
        ("no", "own/x", true, "not_found"),
        ("no/where", "own/x", false, "not_found"),
        ("f/x", "own/x", false, "not_a_directory"),
        ("f", "/", false, "is_directory"),
        ("f", "own/d/g/x", false, "not_a_directory"),
    ] {
        session.fails("transfer", input(from, to, recursive), code);
    }
    assert_eq!(files_b(session, "own"), json!(["d/g"]));
    assert_eq!(read_b(session, "own/d/g"), "2");
}

fn within_one(session: &Session) {
    session.write("own/d/f", "1");
    let here = |from: &str, to: &str| json!({ "from_sandbox": "default", "from_path": from, "to_sandbox": "default", "to_path": to, "recursive": true });
    assert_eq!(
        session.ok("transfer", here("own/d", "own/d/e"))["bytes"],
        1,
        "into itself it comes to an end"
    );
    assert_eq!(session.read("own/d/e/f"), "1");
    session.ok("transfer", here("own/d/f", "own/d/f"));
    assert_eq!(session.read("own/d/f"), "1", "onto itself it is as it was");
    let found = session.ok("glob", json!({ "pattern": "**", "cwd": "own" }));
    assert_eq!(found["files"], json!(["d/e/f", "d/f"]));
}

/// The provider in memory has little space.
fn nothing_fits(session: &Session) {
    let text = "x".repeat(9 * 1024 * 1024);
    session.write("d/a", &text);
    session.ok("write_file", json!({ "sandbox": "b", "path": "full", "content": text }));
    session.fails("transfer", input("d", "d", true), "too_large");
    assert_eq!(files_b(session, "."), json!(["full"]));
    let over = json!({ "sandbox": "b", "path": "full", "content": text, "append": true });
    session.fails("write_file", over, "too_large");
    let size = session.ok("read_file", json!({ "sandbox": "b", "path": "full", "limit": 1 }))["size"].clone();
    assert_eq!(size, text.len(), "a failed write leaves the old file");
}

fn fails_whole(session: &Session) {
    session.out("mkdir -p d/a d/z; echo 1 > d/a/f; echo 2 > d/z/shut; chmod 0 d/z/shut");
    session.out_in("b", "mkdir own");
    session.bound("transfer", input("d", "own/d", true));
    session.out_in("b", "rm -rf own/d");
    session.out("rm -f d/z/shut; mkfifo d/z/pipe");
    session.fails("transfer", input("d", "own/d", true), "unsupported");
    session.fails("transfer", input("d/z/pipe", "own/p", false), "unsupported");
    assert_eq!(
        session.out_in("b", "ls -A own"),
        "",
        "half a transfer never appears, and leaves nothing behind"
    );
    session.out_in("b", "mkdir shut; chmod 555 shut");
    session.bound("transfer", input("d/a/f", "shut/f", false));
    session.bound("transfer", input("d/a/f", "/usr/f", false));
    assert_eq!(session.out_in("b", "ls -A shut"), if session.is_plain() { "" } else { "f" });
}

/// With a shared staging file, the transfers would overwrite each other.
fn several(session: &Session) {
    for number in 0..8 {
        session.write(&format!("d{number}/f"), &number.to_string().repeat(10_000));
    }
    at_once(8, |number| {
        session.ok("transfer", input(&format!("d{number}"), &format!("own/e{number}"), true))
    });
    for number in 0..8 {
        assert_eq!(read_b(session, &format!("own/e{number}/f")), number.to_string().repeat(10_000));
    }
    assert_eq!(files_b(session, "own").as_array().map(Vec::len), Some(8));
}

fn one_place(session: &Session) {
    for number in 0..6 {
        for file in 0..10 {
            session.write(&format!("d{number}/{file}"), &number.to_string());
        }
    }
    let done = at_once(6, |number| session.call("transfer", input(&format!("d{number}"), "own/e", true)));
    assert_eq!(done.iter().filter(|result| !result.is_error).count(), 1, "{done:?}");
    let winner = read_b(session, "own/e/0");
    for file in 0..10 {
        assert_eq!(read_b(session, &format!("own/e/{file}")), winner, "of one, and never of two");
    }
    assert_eq!(files_b(session, "own").as_array().map(Vec::len), Some(10));
    for number in 0..6 {
        session.write(&format!("f{number}"), &number.to_string().repeat(100_000));
    }
    at_once(6, |number| session.ok("transfer", input(&format!("f{number}"), "g", false)));
    let last = read_b(session, "g");
    let last = last.as_str().expect("text");
    assert!(last.len() == 100_000 && last.bytes().all(|byte| byte == last.as_bytes()[0]));
}
