//! Programs that exhaust resources are stopped, without affecting others.

use serde_json::json;

use super::Capability::{Exec, Limits};
use super::session::{Session, at_once};
use super::{Case, IMAGES, case};

pub(super) const CASES: &[Case] = &[
    case("a_fork_bomb_takes_down_itself", fork_bomb).needs(&[Exec, Limits]),
    case("a_memory_hog_takes_down_itself", memory_hog).needs(&[Exec, Limits]),
    case("a_disk_filler_takes_down_itself", disk_filler).needs(&[Exec, Limits]),
    case("programs_that_kill_everything", kill_all).needs(&[Exec]),
    case("a_program_that_ends_the_first_process", end_first).needs(&[Exec]),
];

/// The sandbox for misbehaving programs. It has its own image, which is small on this machine.
const BAD: &str = "bad";

/// Checks that another sandbox responds while a command misbehaves in one, and that the first one responds afterward.
fn while_other_answers(session: &Session, command: &str) -> i64 {
    session.ok("sandbox_create", json!({ "sandbox": BAD, "image": IMAGES[1] }));
    session.ok("write_file", json!({ "sandbox": BAD, "path": "file", "content": "kept" }));
    session.write("file", "kept");
    let ended = at_once(2, |role| {
        if role == 0 {
            return session.run_in(BAD, command)["exit_code"].as_i64().unwrap_or(-1);
        }
        for turn in 0..20 {
            assert_eq!(session.out(&format!("cat file; echo {turn}; sleep 0.05")), format!("kept{turn}"));
        }
        0
    });
    session.until("it can be used again", |session| {
        let back = session.call("shell", json!({ "sandbox": BAD, "command": "cat file" }));
        !back.is_error && back.content.contains("kept")
    });
    assert_eq!(session.read("file"), "kept");
    ended[0]
}

fn fork_bomb(session: &Session) {
    assert_eq!(while_other_answers(session, "b() { b | b & }; b; sleep 100"), 137);
    session.until("none of it is left", |session| {
        let result =
            session.call("shell", json!({ "sandbox": BAD, "command": "ls -d /proc/[0-9]* | wc -l" }));
        let ran: serde_json::Value = serde_json::from_str(&result.content).unwrap_or_default();
        ran["stdout"]
            .as_str()
            .and_then(|count| count.trim().parse::<u32>().ok())
            .is_some_and(|count| count < 10)
    });
}

fn memory_hog(session: &Session) {
    let hog = "head -c 9000000000 /dev/zero | tail -c 9000000000 > /dev/null; exit ${PIPESTATUS[1]}";
    assert_eq!(while_other_answers(session, hog), 137);
}

fn disk_filler(session: &Session) {
    let fill = "i=0; while head -c 50000000 /dev/zero > /workspace/f$i; do i=$((i+1)); done; exit 99";
    let code = while_other_answers(session, fill);
    assert!(code == 137 || code == 99, "it was ended, or told that the disk is full: {code}");
    session.until("room can be made", |session| {
        session.run_in(BAD, "rm -f /workspace/f*");
        !session.call("write_file", json!({ "sandbox": BAD, "path": "after", "content": "x" })).is_error
    });
}

fn kill_all(session: &Session) {
    session.write("file", "kept");
    session.call("shell", json!({ "command": "kill -9 -1; kill -9 1; kill -STOP 1" }));
    session.call("shell", json!({ "command": "for p in /proc/[0-9]*; do kill -9 ${p#/proc/}; done" }));
    assert_eq!(session.out("echo and on"), "and on");
    assert_eq!(session.read("file"), "kept");
}

/// The first process may be a server that programs of its user can end, and with it the container and its files: that of the
/// SDK, or any that root can kill. The sandbox must recover.
fn end_first(session: &Session) {
    session.write("file", "kept");
    // Only containers of the SDK reserve its port.
    let has_server =
        session.call("browse", json!({ "port": 3000 })).content.contains("port 3000 cannot be reached");
    session.call("shell", json!({ "command": "kill -TERM 1" }));
    if session.is_plain() && !has_server {
        assert_eq!(session.out("echo and on"), "and on");
        assert_eq!(session.read("file"), "kept");
        return;
    }
    // The server takes a while to exit, and calls are interrupted meanwhile.
    session.until("it goes on", |session| !session.call("shell", json!({ "command": "sleep 1" })).is_error);
    let read = session.call("read_file", json!({ "path": "file" }));
    assert!(read.content.starts_with("not_found: ") || session.read("file") == "kept", "{}", read.content);
}
