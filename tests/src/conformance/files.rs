//! `read_file` and `write_file`.

use serde_json::json;

use super::Capability::{Exec, LongInput};
use super::session::Session;
use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case("what_is_written_is_read", written_is_read),
    case("a_file_is_replaced_or_appended_to", replaced_or_appended),
    case("paths_start_at_home", paths),
    case("a_long_file_is_read_in_parts", in_parts).needs(&[LongInput]),
    case("the_default_limit_is_256_kib", default_limit).needs(&[LongInput]),
    case("the_smallest_part_comes_to_an_end", smallest_part),
    case("offsets_and_limits_hold", offsets),
    case("what_programs_and_tools_write_is_the_same", one_file_system).needs(&[Exec]),
    case("the_mode_of_a_file_stays", mode_stays).needs(&[Exec]),
    case("links_are_followed", links).needs(&[Exec]),
    case("a_failed_write_leaves_the_old_file", failed_write).needs(&[Exec]),
    case("what_is_no_file_is_not_read", no_files).needs(&[Exec]),
    case("what_belongs_to_the_system_stays", system).needs(&[Exec]),
];

fn written_is_read(session: &Session) {
    let text = "héllo\n\"quotes\" `ticks` $(touch /tmp/x) \u{0}\u{1f600}\r\n";
    let written = session.ok("write_file", json!({ "path": "a/b/c.txt", "content": text }));
    assert_eq!(written, json!({ "ok": true, "size": text.len() }));
    let read = session.ok("read_file", json!({ "path": "/home/user/a/b/c.txt" }));
    assert_eq!(read, json!({ "content": text, "size": text.len() }), "a relative path starts at home");
    session.write("empty", "");
    assert_eq!(session.ok("read_file", json!({ "path": "empty" })), json!({ "content": "", "size": 0 }));
}

fn replaced_or_appended(session: &Session) {
    session.write("f", "one and more");
    session.write("f", "two");
    assert_eq!(session.read("f"), "two");
    let written = session.ok("write_file", json!({ "path": "f", "content": "+ü", "append": true }));
    assert_eq!(written, json!({ "ok": true, "size": 6 }), "the final size, in bytes");
    assert_eq!(session.read("f"), "two+ü");
    session.ok("write_file", json!({ "path": "new/and/deep", "content": "1", "append": true }));
    assert_eq!(session.read("new/and/deep"), "1", "append makes a file that is not there");
    session.ok("write_file", json!({ "path": "f", "content": "", "append": true }));
    assert_eq!(session.read("f"), "two+ü", "nothing appended changes nothing");
    session.ok("write_file", json!({ "path": "f", "content": "3", "append": false, "encoding": "utf-8" }));
    assert_eq!(session.read("f"), "3");
}

fn paths(session: &Session) {
    session.write("sub/f", "1");
    for path in ["sub/f", "./sub/f", "sub//f", "sub/./f", "sub/../sub/f", "/home/user/sub/f", "../user/sub/f"]
    {
        assert_eq!(session.read(path), "1", "{path}");
    }
    assert_eq!(session.read("/../../../home/user/sub/f"), "1", "above the root is the root");
    session.write("/tmp/new/place", "2");
    assert_eq!(session.read("/tmp/new/place"), "2");
}

fn in_parts(session: &Session) {
    let text = "ü".repeat(200_000);
    session.write("long", &text);
    let (mut whole, mut parts, mut offset) = (String::new(), 0, json!(0));
    while !offset.is_null() {
        let part = session.ok("read_file", json!({ "path": "long", "offset": offset }));
        assert_eq!(part["size"], 400_000);
        assert_eq!(part.get("truncated"), part.get("next_offset").map(|_| &json!(true)));
        assert!(part.get("encoding").is_none(), "text is cut between characters");
        whole += part["content"].as_str().expect("text");
        offset = part["next_offset"].clone();
        parts += 1;
    }
    assert_eq!((whole == text, parts), (true, 2));
}

fn default_limit(session: &Session) {
    session.write("exact", &"x".repeat(262_144));
    let exact = session.ok("read_file", json!({ "path": "exact" }));
    assert_eq!(exact["content"].as_str().map(str::len), Some(262_144));
    assert!(exact.get("truncated").is_none() && exact.get("next_offset").is_none(), "all of it is there");
    session.ok("write_file", json!({ "path": "exact", "content": "y", "append": true }));
    let more = session.ok("read_file", json!({ "path": "exact" }));
    assert_eq!(more["content"].as_str().map(str::len), Some(262_144));
    assert_eq!((&more["truncated"], &more["next_offset"]), (&json!(true), &json!(262_144)));
    let rest = session.ok("read_file", json!({ "path": "exact", "offset": 262_144 }));
    assert_eq!(rest, json!({ "content": "y", "size": 262_145 }));
    let all = session.ok("read_file", json!({ "path": "exact", "limit": 16_777_216 }));
    assert_eq!(all["content"].as_str().map(str::len), Some(262_145));
}

fn smallest_part(session: &Session) {
    session.write("f", "a😀b");
    let part = session.ok("read_file", json!({ "path": "f", "offset": 1, "limit": 1 }));
    assert_eq!(part, json!({ "content": "😀", "size": 6, "truncated": true, "next_offset": 5 }));
    let end = session.ok("read_file", json!({ "path": "f", "offset": 6 }));
    assert_eq!(end, json!({ "content": "", "size": 6 }));
}

fn offsets(session: &Session) {
    session.write("f", "0123456789");
    for (offset, limit, content) in [(0, 3, "012"), (3, 3, "345"), (7, 3, "789"), (9, 1, "9"), (9, 100, "9")]
    {
        let read = session.ok("read_file", json!({ "path": "f", "offset": offset, "limit": limit }));
        assert_eq!((&read["content"], &read["size"]), (&json!(content), &json!(10)));
        let next = if offset + limit < 10 { json!(offset + limit) } else { json!(null) };
        assert_eq!(read["next_offset"], next, "{offset} {limit}");
    }
    for offset in [10, 11, 1 << 40, u64::MAX / 2] {
        let read = session.ok("read_file", json!({ "path": "f", "offset": offset }));
        assert_eq!(read, json!({ "content": "", "size": 10 }), "{offset}");
    }
}

fn one_file_system(session: &Session) {
    session.write("own/t", "from a tool");
    let user = session.user();
    assert_eq!(session.out("cat ~/own/t; stat -c %u:%a own/t"), format!("from a tool{user}:644"));
    session.out("cd own; printf 'from a program' > p; mkdir -p d");
    assert_eq!(session.read("own/p"), "from a program");
    session.out("rm own/t");
    session.fails("read_file", json!({ "path": "own/t" }), "not_found");
    session.ok("write_file", json!({ "path": "own/p", "content": "+", "append": true }));
    assert_eq!(session.out("cd own; cat p; ls -A"), "from a program+d\np", "and nothing is left beside it");
}

fn mode_stays(session: &Session) {
    session.out("echo old > f; chmod 750 f");
    session.write("f", "#!/bin/sh\necho new\n");
    assert_eq!(session.out("stat -c %a f; ./f"), "750\nnew");
    session.ok("write_file", json!({ "path": "f", "content": "echo more\n", "append": true }));
    assert_eq!(session.out("stat -c %a f; ./f"), "750\nnew\nmore");
}

fn links(session: &Session) {
    session.out("mkdir real; echo 1 > real/f; ln -s real dir; ln -s real/f file; ln -s nowhere/yet loose; ln -s self self");
    assert_eq!((session.read("dir/f"), session.read("file")), ("1\n".to_owned(), "1\n".to_owned()));
    session.write("file", "2");
    assert_eq!(session.out("cat real/f; readlink file"), "2real/f", "the link stays one");
    session.write("dir/g", "3");
    assert_eq!(session.out("cat real/g"), "3");
    session.write("loose", "4");
    assert_eq!(session.out("cat nowhere/yet; readlink loose"), "4nowhere/yet");
    session.err("read_file", json!({ "path": "self" }));
    session.err("write_file", json!({ "path": "self", "content": "x" }));
    assert_eq!(session.out("readlink self"), "self");
}

fn failed_write(session: &Session) {
    if !session.is_plain() {
        return written_by_root(session);
    }
    session.out("mkdir shut; echo old > shut/f; chmod 555 shut; echo old > closed; chmod 000 closed; echo old > fixed; chmod 444 fixed");
    for path in ["shut/f", "closed", "fixed"] {
        for append in [false, true] {
            let input = json!({ "path": path, "content": "new", "append": append });
            let shut_but_writable = path == "shut/f" && append;
            if !shut_but_writable {
                session.fails("write_file", input, "permission_denied");
            }
        }
    }
    session.fails("write_file", json!({ "path": "shut/new", "content": "x" }), "permission_denied");
    session.fails("read_file", json!({ "path": "closed" }), "permission_denied");
    let look = "chmod 644 closed; cat shut/f closed fixed; ls -A shut";
    assert_eq!(session.out(look), "old\nold\nold\nf", "not made empty, and nothing left behind");
}

/// Opening a pipe would block forever, and reading a device never ends.
fn no_files(session: &Session) {
    session.out("mkfifo pipe; ln -s /dev/zero zero");
    for path in ["pipe", "zero", "/dev/zero", "/dev/null", "/dev/tty"] {
        session.err("read_file", json!({ "path": path }));
        session.err("write_file", json!({ "path": path, "content": "x" }));
        session.err("write_file", json!({ "path": path, "content": "x", "append": true }));
    }
    assert_eq!(session.out("test -p pipe && test -c /dev/null && echo as before"), "as before");
}

/// Root may write files without write permission, and their mode is kept. Writes that still fail change nothing.
fn written_by_root(session: &Session) {
    session.out(
        "mkdir shut; echo old > shut/f; chmod 555 shut; echo old > closed; chmod 000 closed; echo old > fixed; chmod 444 fixed",
    );
    for path in ["shut/new", "shut/f", "closed", "fixed"] {
        session.write(path, "new");
        session.ok("write_file", json!({ "path": path, "content": "+", "append": true }));
        assert_eq!(session.read(path), "new+");
    }
    assert_eq!(session.out("stat -c %a shut closed fixed; ls -A shut"), "555\n0\n444\nf\nnew");
    // Not even root can create a file in a removed directory.
    session.out("mkdir gone; (cd gone; exec sleep 60 > /dev/null 2>&1) & until [ \"$(readlink /proc/$!/cwd)\" = ~/gone ]; do :; done; echo $! > pid; rmdir gone");
    let there = format!("/proc/{}/cwd/f", session.read("pid").trim());
    for append in [false, true] {
        session.err("write_file", json!({ "path": there, "content": "x", "append": append }));
    }
    assert_eq!(session.out("kill $(cat pid); ls -A shut; ls -d gone 2> /dev/null || true"), "f\nnew");
}

fn system(session: &Session) {
    let all = ["/proc/x", "/proc/sys/kernel/core_pattern", "/usr/x", "/usr/bin/env", "/etc/passwd", "/x"];
    // The rest is root's own. The operator of the container decides whether root may change kernel settings.
    for path in if session.is_plain() { &all[..] } else { &all[..1] } {
        session.err("write_file", json!({ "path": path, "content": "x" }));
        session.err("write_file", json!({ "path": path, "content": "x", "append": true }));
    }
    session.fails("read_file", json!({ "path": "/etc/no-such-file" }), "not_found");
    secret(session);
    if !session.is_plain() {
        system_of_root(session);
    }
    assert_eq!(session.out("test -x /usr/bin/env && echo as before"), "as before");
}

/// The image may contain the file, which only root may read.
fn secret(session: &Session) {
    let file = json!({ "path": "/etc/shadow" });
    match (session.run("test -e /etc/shadow")["exit_code"] == 0, session.is_plain()) {
        (false, _) => session.fails("read_file", file, "not_found"),
        (true, true) => session.fails("read_file", file, "permission_denied"),
        (true, false) => drop(session.ok("read_file", file)),
    }
}

/// For root, system files are ordinary files, and keep their modes.
fn system_of_root(session: &Session) {
    let before = session.out("cat /etc/passwd; stat -c %u:%a /etc/passwd");
    session.ok(
        "write_file",
        json!({ "path": "/etc/passwd", "content": "x:x:7:7::/:/bin/sh\n", "append": true }),
    );
    session.out("sed -i '$d' /etc/passwd");
    assert_eq!(session.out("cat /etc/passwd; stat -c %u:%a /etc/passwd"), before);
    for path in ["/usr/x", "/x", "/root/x"] {
        session.write(path, "of root");
        assert_eq!(session.out(&format!("cat {path}; stat -c %u:%a {path}")), "of root0:644");
    }
}
