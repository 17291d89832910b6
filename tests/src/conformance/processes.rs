//! `shell`: the lifetime of processes.

use serde_json::{Value, json};

use super::Capability::{AtOnce, Exec, Keep, List, Sleep};
use super::session::{Session, at_once};
use super::{Case, case};
use crate::STARTED;

pub(super) const CASES: &[Case] = &[
    case("timeout_keeps_what_was_printed", timeout_keeps_output).needs(&[Exec]),
    case("timeout_leaves_no_process", timeout_leaves_nothing).needs(&[Exec]),
    case("timeout_of_a_command_that_will_not_die", will_not_die).needs(&[Exec]),
    case("timeout_leaves_the_processes_of_other_calls", others_stay).needs(&[Exec]),
    case("background_returns_at_once_and_lives_on", background).needs(&[Exec]),
    case("background_may_go_on_printing", background_prints).needs(&[Exec]),
    case("process_runs_and_is_read_written_and_killed", handled).needs(&[Exec]),
    case("process_that_does_not_exist", no_process).needs(&[Exec]),
    case("calls_overlap", overlap).needs(&[Exec, AtOnce]),
    case("idle_sandboxes_sleep_and_wake", sleeps).needs(&[Exec, List, Sleep]),
    case("files_outlive_sleep", keeps).needs(&[Exec, List, Sleep, Keep]),
    case("files_go_with_sleep", forgets).needs(&[Exec, List, Sleep]).lacks(&[Keep]),
];

/// Returns how many `sleep` processes in the sandbox have this argument.
fn sleepers(session: &Session, seconds: u32) -> String {
    let look = "for p in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $p; echo; done 2> /dev/null";
    session.out(&format!("{look} | grep -cx 'sleep {seconds} ' || true"))
}

/// Reads the output of a process until it ends with a text. Returns the last answer, with all output.
fn read_until(session: &Session, id: &Value, since: &Value, end: &str) -> Value {
    let mut all = String::new();
    let mut next = since.clone();
    for _ in 0..60 {
        let input = json!({ "id": id, "since": next, "wait_ms": 1000 });
        let mut read = session.ok("process_output", input);
        all += read["output"].as_str().expect("a text");
        next = read["next"].clone();
        if all.ends_with(end) {
            read["output"] = json!(all);
            return read;
        }
    }
    panic!("{end:?} is not the end of {all:?}");
}

fn start(session: &Session, input: Value) -> Value {
    let mut input = input;
    input["background"] = json!(true);
    session.ok("shell", input)["process"].clone()
}

fn handled(session: &Session) {
    let command = "echo begun; while read line; do echo \"<$line>\"; done; echo over >&2; sleep 0.2; exit 3";
    let id = start(session, json!({ "command": command }));
    let begun = read_until(session, &id, &json!(0), "begun\n");
    assert_eq!(begun, json!({ "output": "begun\n", "next": 6 }));
    let written = session.ok("process_input", json!({ "id": id, "text": "\u{e4} b\n" }));
    assert_eq!(written, json!({ "written": 5 }));
    let echoed = read_until(session, &id, &begun["next"], "<\u{e4} b>\n");
    let listed = session.ok("process_list", json!({}));
    let expected = json!({ "id": id, "command": &command[..64], "status": "running" });
    assert!(listed["processes"].as_array().is_some_and(|all| all.contains(&expected)), "{listed}");
    session.ok("process_input", json!({ "id": id, "close": true }));
    read_until(session, &id, &echoed["next"], "over\n");
    session.until("it has ended", |session| {
        let read =
            session.ok("process_output", json!({ "id": id, "since": echoed["next"], "wait_ms": 5000 }));
        read["exit_code"] == 3
    });
    session.fails("process_input", json!({ "id": id, "text": "a" }), "invalid_input");

    // What it is given is all that it reads.
    let counting = start(session, json!({ "argv": ["wc", "-c"], "stdin": "abc" }));
    assert_eq!(read_until(session, &counting, &json!(0), "\n")["output"], "3\n");

    // `KILL` ends what it started, too.
    let sleeping = start(session, json!({ "command": "setsid sleep 98718 & sleep 98718" }));
    session.until("both run", |session| sleepers(session, 98718) == "2");
    let killed = session.ok("process_kill", json!({ "id": sleeping }));
    assert_eq!(killed, json!({ "ok": true, "exit_code": 137 }));
    session.until("both are gone", |session| sleepers(session, 98718) == "0");
    let trapping = "trap 'echo got; exit 7' TERM; echo ready; while :; do sleep 0.1; done";
    let trapping = start(session, json!({ "command": trapping }));
    read_until(session, &trapping, &json!(0), "ready\n");
    let ended = session.ok("process_kill", json!({ "id": trapping, "signal": "TERM" }));
    assert_eq!(ended, json!({ "ok": true, "exit_code": 7 }));
    session.until("nothing runs", |session| {
        let listed = session.ok("process_list", json!({}));
        let all = listed["processes"].as_array().expect("a list");
        all.iter().all(|entry| entry["status"] == "exited")
    });
}

fn no_process(session: &Session) {
    session.ok("shell", json!({ "command": "true" }));
    let missing = "0".repeat(32);
    for (tool, more) in [
        ("process_output", json!({ "id": missing })),
        ("process_input", json!({ "id": missing, "text": "a" })),
        ("process_kill", json!({ "id": missing })),
    ] {
        session.fails(tool, more, "not_found");
        session.fails(tool, json!({ "id": "../../etc" }), "invalid_input");
    }
    session.fails("process_kill", json!({ "id": missing, "signal": "9" }), "invalid_input");
    session.fails("process_output", json!({ "id": missing, "wait_ms": 60_001 }), "invalid_input");
    let sandbox = json!({ "sandbox": "nobody", "id": missing });
    session.fails("process_output", sandbox, "not_found");
    session.fails("shell", json!({ "argv": ["no-such-program-at-all"], "background": true }), "not_found");
}

fn timed_out(session: &Session, command: &str, timeout_ms: u64) -> Value {
    let result = session.call("shell", json!({ "command": command, "timeout_ms": timeout_ms }));
    assert!(result.is_error, "{}", result.content);
    let ran: Value = serde_json::from_str(&result.content).expect("it gives what there is");
    assert_eq!((&ran["exit_code"], &ran["timed_out"]), (&json!(124), &json!(true)), "{ran}");
    ran
}

fn timeout_keeps_output(session: &Session) {
    let ran = timed_out(session, "echo begun; echo so far >&2; sleep 600; echo never", 2000);
    assert_eq!((&ran["stdout"], &ran["stderr"]), (&json!("begun\n"), &json!("so far\n")));
    let much = timed_out(session, "yes", 500);
    assert!(much["stdout"].as_str().is_some_and(|out| out.len() <= 1 << 20), "and its bound holds");
    let longest = json!({ "command": "echo done", "timeout_ms": 600_000 });
    assert_eq!(session.ok("shell", longest)["stdout"], "done\n");
}

fn timeout_leaves_nothing(session: &Session) {
    let command = "sleep 98711 & setsid sleep 98711 & (setsid bash -c 'setsid sleep 98711 & sleep 98711' &)
         (sleep 98711 & exec sleep 98711) & nohup sleep 98711 > /dev/null 2>&1 & disown -a; echo all; sleep 98711";
    let ran = timed_out(session, command, 2000);
    assert_eq!(ran["stdout"], "all\n");
    assert_eq!(sleepers(session, 98711), "0");
}

fn will_not_die(session: &Session) {
    timed_out(session, "trap '' TERM INT HUP QUIT; sleep 98712; sleep 98712; sleep 98712", 500);
    assert_eq!(sleepers(session, 98712), "0");
    timed_out(session, "kill -STOP $$; sleep 98712", 500);
    assert_eq!(sleepers(session, 98712), "0");
    // A process that forks continuously.
    timed_out(
        session,
        "b() { sleep 98712 & (setsid bash -c \"$c\" &); }; c='sleep 0.01; sleep 98712 & setsid bash -c \"$c\" &'; export c; b; sleep 98712",
        700,
    );
    session.until("none is left", |session| sleepers(session, 98712) == "0");
}

fn others_stay(session: &Session) {
    session.out(&format!("sleep 98713 > /dev/null 2>&1 & {STARTED}"));
    timed_out(session, "sleep 98714", 300);
    assert_eq!((sleepers(session, 98713), sleepers(session, 98714)), ("1".to_owned(), "0".to_owned()));
}

fn background(session: &Session) {
    let command = "(while :; do echo tick >> /tmp/ticks; sleep 0.1; done) > /dev/null 2>&1 & echo $!";
    let pid = session.out(command);
    let ticks = |session: &Session| session.out("cat /tmp/ticks 2> /dev/null | wc -l");
    session.until("it lives on", |session| ticks(session).parse::<u32>().is_ok_and(|ticks| ticks > 5));
    session.out(&format!("kill {pid}"));
    session.until("a later call can end it", |session| {
        session.out(&format!("kill -0 {pid} 2> /dev/null && echo alive || true")).is_empty()
    });
    // Also if it keeps the streams open, and in whatever way it is started.
    for command in ["sleep 98715 & X", "nohup sleep 98715 & X", "setsid sleep 98715 & X", "(sleep 98715 & X)"]
    {
        let command = command.replace('X', STARTED);
        let ran = session.ok("shell", json!({ "command": command, "timeout_ms": 20_000 }));
        assert!(ran.get("timed_out").is_none(), "{command} does not keep the call waiting: {ran}");
    }
    assert_eq!(sleepers(session, 98715), "4");
}

fn background_prints(session: &Session) {
    let noise =
        "(while :; do head -c 20000 /dev/zero; echo x >> /tmp/noise; sleep 0.02; done) & echo started";
    assert!(session.out(noise).contains("started"));
    session.until("it was not ended by a full or closed pipe", |session| {
        session.out("cat /tmp/noise 2> /dev/null | wc -l").parse::<u32>().is_ok_and(|lines| lines > 60)
    });
}

/// The two commands wait for each other.
fn overlap(session: &Session) {
    let both = at_once(2, |number| {
        let (mine, theirs) = (number, 1 - number);
        let wait = format!("touch /tmp/{mine}; until [ -e /tmp/{theirs} ]; do sleep 0.02; done; echo met");
        session.ok("shell", json!({ "command": wait }))["stdout"].clone()
    });
    assert_eq!(both, ["met\n", "met\n"]);
    let sandboxes = at_once(6, |number| {
        let sandbox = format!("s{number}");
        session.out_in(&sandbox, &format!("echo {number} > /tmp/n; sleep 0.1; cat /tmp/n"))
    });
    assert_eq!(sandboxes, ["0", "1", "2", "3", "4", "5"]);
}

/// Runs a command in a sandbox with a short idle time, waits until it sleeps, and returns the output.
fn asleep_after(session: &Session, command: &str) -> String {
    session.ok("sandbox_create", json!({ "sandbox": "short", "sleep_after_ms": 1000 }));
    let printed = session.out_in("short", command);
    session.until("it sleeps", |session| status(session) == "sleeping");
    printed
}

/// Returns the status of the only sandbox in the list.
fn status(session: &Session) -> Value {
    session.ok("sandbox_list", json!({}))["sandboxes"][0]["status"].clone()
}

fn sleeps(session: &Session) {
    let printed = asleep_after(session, "sleep 98716 > /dev/null 2>&1 & sleep 2; echo a call keeps it awake");
    assert_eq!(printed, "a call keeps it awake");
    assert_eq!(status(session), "sleeping", "to look does not wake it");
    let again = session.ok("sandbox_create", json!({ "sandbox": "short" }));
    assert_eq!(again["created"], false, "{again}");
    let look = "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'sleep [9]8716' || true";
    let woken = session.ok("shell", json!({ "sandbox": "short", "command": look }));
    assert_eq!(woken["stdout"], "0\n", "processes do not stay");
    let notice =
        "1 program ended when the sandbox slept or restarted: `sleep 98716`. Start again what you need";
    assert_eq!(woken["notice"], notice, "{woken}");
    let next = session.ok("shell", json!({ "sandbox": "short", "command": "true" }));
    assert!(next.get("notice").is_none(), "it is named once: {next}");
    assert_eq!(status(session), "running");
    session.until("it sleeps again", |session| status(session) == "sleeping");
    let quiet = session.ok("shell", json!({ "sandbox": "short", "command": "true" }));
    assert!(quiet.get("notice").is_none(), "nothing has ended: {quiet}");
}

fn keeps(session: &Session) {
    asleep_after(session, "echo kept > file");
    assert_eq!(session.out_in("short", "cat file"), "kept");
}

fn forgets(session: &Session) {
    asleep_after(session, "echo gone > file; echo gone > /workspace/file");
    assert_eq!(session.out_in("short", "pwd; ls -A . /workspace | grep -x file || true"), "/home/user");
    session.fails("read_file", json!({ "sandbox": "short", "path": "file" }), "not_found");
}
