//! `transfer`: directory trees of all kinds of entries, and large ones.

use serde_json::json;

use super::Capability::{Big, Exec, ManyFiles};
use super::session::{Session, at_once};
use super::transfer::input;
use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case("transfer_keeps_modes_links_and_empty_directories", keeps).needs(&[Exec]),
    case("transfer_of_what_links_lead_to", links).needs(&[Exec]),
    case("transfer_of_ten_thousand_files", ten_thousand).needs(&[Exec, ManyFiles]),
    case("transfer_of_a_gigabyte", gigabyte).needs(&[Exec, Big]),
];

/// Prints a tree: kinds, modes, link targets, and checksums.
const LOOK: &str =
    "find . -printf '%y %m %P -> %l\\n' | LC_ALL=C sort; find . -type f -exec sha256sum {} + | LC_ALL=C sort";

fn keeps(session: &Session) {
    session.out(
        "mkdir -p d/empty d/sub/deep d/shut; echo 1 > d/sub/f; echo 22 > d/x; : > d/nothing; head -c 300000 /dev/urandom > d/sub/deep/r
         ln -s ../nowhere d/dangling; ln -s /etc/hostname d/absolute; ln -s sub d/dir; ln -s . d/self; ln -s x 'd/odd
name'; chmod 4755 d/x; chmod 2711 d/sub; chmod 1777 d/empty; chmod 400 d/sub/f; chmod 600 d/nothing; echo 3 > d/shut/f; chmod 555 d/shut",
    );
    let before = session.out(&format!("cd d; {LOOK}"));
    assert_eq!(session.ok("transfer", input("d", "/tmp/e", true)), json!({ "ok": true, "bytes": 300_007 }));
    assert_eq!(session.out_in("b", "ls -A /tmp"), "e", "nothing is left beside it");
    assert_eq!(session.out(&format!("cd d; {LOOK}")), before, "and the source is as it was");
    // The copies belong to another user, as whom no program must run for others.
    let kept = session.out(&format!("cd d; chmod u-s x; chmod g-s sub; chmod -- -t empty; {LOOK}"));
    assert_ne!(kept, before);
    assert_eq!(session.out_in("b", &format!("cd /tmp/e; {LOOK}")), kept);
    session.out("chmod 700 d; mkdir one; chmod 0 one");
    session.bound("transfer", input("one", "one", true));
}

fn links(session: &Session) {
    session.out("mkdir d; echo 1 > d/f; ln -s d dir; ln -s d/f file; ln -s nowhere loose");
    assert_eq!(session.ok("transfer", input("file", "g", false))["bytes"], 2);
    assert_eq!(session.out_in("b", "test ! -L g && cat g"), "1", "the one that is named is followed");
    session.fails("transfer", input("dir", "e", false), "is_directory");
    session.ok("transfer", input("dir", "e", true));
    assert_eq!(session.out_in("b", "test ! -L e && ls -A e"), "f");
    session.fails("transfer", input("loose", "x", false), "not_found");
    // The destination path contains a link.
    session.out_in("b", "mkdir real; ln -s real link");
    session.ok("transfer", input("d/f", "link/f", false));
    assert_eq!(session.out_in("b", "cat real/f; readlink link"), "1\nreal");
}

fn ten_thousand(session: &Session) {
    let make = "mkdir t; cd t; for d in $(seq 100); do mkdir $d; for f in $(seq 100); do echo $d/$f > $d/$f; done; done";
    session.out(make);
    let sum = "cat $(find . -type f | LC_ALL=C sort) | sha256sum; find . | wc -l";
    let before = session.out(&format!("cd t; {sum}"));
    session.ok("transfer", input("t", "t", true));
    assert_eq!(session.out_in("b", &format!("cd t; {sum}")), before);
}

fn gigabyte(session: &Session) {
    const SIZE: u64 = 1 << 30;
    // Random data, so that no two blocks are equal.
    session.out(&format!("head -c {SIZE} /dev/urandom > f; [ $(stat -c %s f) = {SIZE} ]"));
    assert_eq!(session.ok("transfer", input("f", "f", false)), json!({ "ok": true, "bytes": SIZE }));
    let sums = at_once(2, |number| {
        let sandbox = ["default", "b"][number];
        session.out_in(sandbox, "sha256sum f | cut -c1-64")
    });
    assert_eq!(sums[0], sums[1]);
    let end = json!({ "sandbox": "b", "path": "f", "offset": SIZE - 3 });
    let read = session.ok("read_file", end);
    assert_eq!((&read["size"], read.get("truncated")), (&json!(SIZE), None));
    session.out("rm f");
    session.out_in("b", "rm f");
}
