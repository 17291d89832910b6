//! `transfer`.

use koze::sandbox::{Kind, Place};
use koze::{Provider, Sandbox};
use serde_json::{Value, json};

use crate::{Session, session};

fn input(from: &str, to: &str, recursive: bool) -> Value {
    json!({ "from_sandbox": "default", "from_path": from, "to_sandbox": "b", "to_path": to, "recursive": recursive })
}

fn read_b<P: Provider>(session: &Session<P>, path: &str) -> Value {
    session.ok("read_file", json!({ "sandbox": "b", "path": path }))["content"].clone()
}

/// The names in a directory of the sandbox `b`.
fn names_b<P: Provider>(session: &Session<P>, path: &str) -> Vec<String> {
    let listed = async { session.pool.sandbox("b").await?.list(Place { root: "/", path }).await };
    let mut names: Vec<String> =
        pollster::block_on(listed).expect("a directory").into_iter().map(|entry| entry.name).collect();
    names.sort();
    names
}

#[test]
fn a_file_lands_at_its_path() {
    let session = session();
    session.write("f", "12345");
    assert_eq!(session.ok("transfer", input("f", "/tmp/new/g", false)), json!({ "ok": true, "bytes": 5 }));
    assert_eq!(read_b(&session, "/tmp/new/g"), "12345");
    assert_eq!(names_b(&session, "/tmp/new"), ["g"], "nothing is left beside it");
    session.write("f", "");
    assert_eq!(session.ok("transfer", input("f", "/tmp/new/g", false))["bytes"], 0);
    assert_eq!(read_b(&session, "/tmp/new/g"), "", "a file there is replaced");
}

#[test]
fn a_large_file_goes_in_pieces() {
    let session = session();
    let text = "0123456789abcdef".repeat(3 * 65536);
    session.write("f", &text);
    assert_eq!(session.ok("transfer", input("f", "f", false))["bytes"], text.len());
    let end = session.ok("read_file", json!({ "sandbox": "b", "path": "f", "offset": text.len() - 16 }));
    assert_eq!(
        (end["content"].as_str(), end["size"].as_u64()),
        (Some("0123456789abcdef"), Some(3 * 1024 * 1024))
    );
}

#[test]
fn a_tree_keeps_modes_links_and_empty_directories() {
    let session = session();
    session.write("d/sub/f", "1");
    session.write("d/x", "22");
    let made = async {
        let sandbox = session.pool.sandbox("default").await?;
        let at = |path| Place { root: "/", path };
        sandbox.make_dir(at("/home/user/d/empty")).await?;
        sandbox.make_link(at("/home/user/d/link"), "../nowhere").await?;
        sandbox.set_mode(at("/home/user/d/x"), 0o4755).await?;
        sandbox.set_mode(at("/home/user/d/sub"), 0o555).await
    };
    pollster::block_on(made).expect("a tree");
    assert!(session.err("transfer", input("d", "d", false)).starts_with("is_directory: "));
    assert_eq!(session.ok("transfer", input("d", "e", true)), json!({ "ok": true, "bytes": 3 }));
    assert_eq!(names_b(&session, "/home/user"), ["e"], "it lands under its new name");
    assert_eq!(names_b(&session, "/home/user/e"), ["empty", "link", "sub", "x"]);
    let stat = |path: &str| {
        let path = format!("/home/user/e/{path}");
        let stat = async { session.pool.sandbox("b").await?.stat(Place { root: "/", path: &path }).await };
        pollster::block_on(stat).expect("it is there")
    };
    assert_eq!(stat("x").mode, 0o4755);
    assert_eq!(stat("sub").mode, 0o555);
    assert_eq!(stat("empty").kind, Kind::Directory);
    assert_eq!(stat("link").kind, Kind::Link("../nowhere".to_owned()));
    assert_eq!(read_b(&session, "e/sub/f"), "1");
}

#[test]
fn what_is_there_is_not_lost() {
    let session = session();
    session.write("d/f", "1");
    session.write("f", "1");
    session.ok("write_file", json!({ "sandbox": "b", "path": "d/g", "content": "2" }));
    assert!(session.err("transfer", input("f", "d", false)).starts_with("is_directory: "));
    assert!(session.err("transfer", input("d", "d", true)).starts_with("already_exists: "));
    assert!(session.err("transfer", input("d", "d/g", true)).starts_with("not_a_directory: "));
    assert!(session.err("transfer", input("no", "x", false)).starts_with("not_found: "));
    assert!(session.err("transfer", input("f", "/", false)).starts_with("is_directory: "));
    assert!(session.err("transfer", input("f", "d/g/x", false)).starts_with("not_a_directory: "));
    assert_eq!(names_b(&session, "/home/user"), ["d"]);
    assert_eq!(names_b(&session, "/home/user/d"), ["g"]);
    assert_eq!(read_b(&session, "d/g"), "2");
}

/// Half a transfer never appears, and leaves nothing behind.
#[test]
fn a_transfer_that_fails_leaves_nothing() {
    let session = session();
    let text = "x".repeat(9 * 1024 * 1024);
    session.write("d/a", &text);
    session.ok("write_file", json!({ "sandbox": "b", "path": "full", "content": text }));
    assert!(session.err("transfer", input("d", "d", true)).starts_with("too_large: "));
    assert_eq!(names_b(&session, "/home/user"), ["full"]);
}

#[test]
fn within_one_sandbox_and_into_itself() {
    let session = session();
    session.write("d/f", "1");
    let inside = json!({ "from_sandbox": "default", "from_path": "d", "to_sandbox": "default", "to_path": "d/e", "recursive": true });
    assert_eq!(session.ok("transfer", inside)["bytes"], 1);
    assert_eq!(session.read("d/e/f"), "1");
}
