//! Symbolic links that change during calls: each call sees one state or the other, never a mixture.

use serde_json::json;

use super::Capability::{Exec, ManyCalls};
use super::session::Session;
use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case("links_swapped_under_reads", reads).needs(&[Exec, ManyCalls]),
    case("links_swapped_under_writes", writes).needs(&[Exec, ManyCalls]),
    case("directories_swapped_under_writes", directories).needs(&[Exec, ManyCalls]),
    case("links_swapped_under_transfers", transfers).needs(&[Exec, ManyCalls]),
];

const TURNS: usize = 150;

/// Swaps `/workspace/link` between two targets while `/workspace/on` exists. `ln` creates a link whose name begins with `Cu`
/// and renames it, so `link` is never missing.
fn swap(session: &Session, one: &str, two: &str) {
    let script = format!(
        "cd /workspace; touch on; ln -s {one} link
         (while [ -e on ]; do ln -sfT {two} link; ln -sfT {one} link; done) > /dev/null 2>&1 &"
    );
    session.out(&script);
}

fn still(session: &Session) {
    session.out("rm /workspace/on; while [ -e /workspace/on ]; do :; done; sleep 0.2");
}

fn reads(session: &Session) {
    let (one, two) = ("1".repeat(40_000), "2".repeat(50_000));
    session.write("/workspace/a/f", &one);
    session.write("/workspace/b/f", &two);
    swap(session, "a", "b");
    for _ in 0..TURNS {
        let read = session.ok("read_file", json!({ "path": "/workspace/link/f" }));
        let content = read["content"].as_str().expect("text");
        assert!(content == one || content == two, "{} bytes", content.len());
        assert_eq!(read["size"], content.len(), "and the size is of the same");
    }
    still(session);
}

fn writes(session: &Session) {
    session.write("/workspace/a", "old");
    session.write("/workspace/b", "old");
    swap(session, "a", "b");
    let content = |turn: usize| format!("{turn}:{}", "x".repeat(20_000));
    for turn in 0..TURNS {
        session.write("/workspace/link", &content(turn));
    }
    still(session);
    let last = content(TURNS - 1);
    let (a, b) = (session.read("/workspace/a"), session.read("/workspace/b"));
    assert!(a == last || b == last, "the last write is in one of them");
    for left in [&a, &b] {
        let whole =
            *left == "old" || left.split_once(':').is_some_and(|(_, rest)| rest == "x".repeat(20_000));
        assert!(whole, "{} bytes", left.len());
    }
    assert_eq!(session.out("cd /workspace; test -L link; ls -A | grep -v ^Cu"), "a\nb\nlink");
}

/// A parent directory is repeatedly replaced by a link.
fn directories(session: &Session) {
    session.out(
        "cd /workspace; mkdir real other; touch on
         (while [ -e on ]; do mv real away; ln -s other real; rm real; mv away real; done) > /dev/null 2>&1 &",
    );
    for turn in 0..TURNS {
        let path = format!("/workspace/real/deep/f{}", turn % 10);
        let result = session.call("write_file", json!({ "path": path, "content": "x".repeat(3000) }));
        // The path may be missing or a link at that moment, which the error says.
        let typed =
            ["not_found: ", "not_a_directory: ", "already_exists: ", "unavailable: ", "path_escape: "];
        assert!(
            !result.is_error || typed.iter().any(|code| result.content.starts_with(code)),
            "{}",
            result.content
        );
    }
    still(session);
    let sizes = "find /workspace -type f -size -3000c -o -type f -size +3000c | wc -l; find /workspace -name '.koze*' | wc -l";
    assert_eq!(session.out(sizes), "0\n0", "no half file, and nothing left beside one");
}

fn transfers(session: &Session) {
    for (dir, digit) in [("a", "1"), ("b", "2")] {
        for file in 0..5 {
            session.write(&format!("/workspace/{dir}/{file}"), &digit.repeat(10_000));
        }
    }
    swap(session, "a", "b");
    for turn in 0..20 {
        let input = json!({ "from_sandbox": "default", "from_path": "/workspace/link/3", "to_sandbox": "b", "to_path": format!("own/f{turn}") });
        assert_eq!(session.ok("transfer", input)["bytes"], 10_000);
        let read = session.ok("read_file", json!({ "sandbox": "b", "path": format!("own/f{turn}") }));
        let content = read["content"].as_str().expect("text");
        assert!(content == "1".repeat(10_000) || content == "2".repeat(10_000));
    }
    still(session);
    assert_eq!(session.out_in("b", "ls -A own | wc -l"), "20");
}
