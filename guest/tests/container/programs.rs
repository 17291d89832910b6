//! Programs: input, output and exit.

use std::fs;

use serde_json::{Value, json};

use crate::Test;
use crate::client::{Client, exec, until};
use crate::stage::{How, Stage, is_root};

pub(crate) const TESTS: &[Test] = &[
    ("exit_codes", exit_codes),
    ("input_and_environment", input_and_environment),
    ("defaults_of_the_environment", defaults),
    ("programs_that_cannot_start", programs_that_cannot_start),
    ("output_is_kept_within_its_limit", output),
    ("timeouts_leave_no_process", timeouts),
    ("background_processes_keep_running", background),
    ("zombies_are_reaped", zombies),
    ("kill_all", kill_all),
    ("kill_all_as_an_ordinary_process", kill_all_as_any_process),
    ("at_the_process_limit", full),
];

fn code(client: &Client, argv: &[&str]) -> Value {
    let answer = client.ask(&exec(argv)).answer;
    assert_eq!(answer["ok"]["timed_out"], false, "{answer}");
    answer["ok"]["exit_code"].clone()
}

fn exit_codes() {
    let stage = Stage::new();
    let client = stage.client();
    assert_eq!(code(&client, &["true"]), 0);
    assert_eq!(code(&client, &["sh", "-c", "exit 77"]), 77);
    for (signal, number) in [("TERM", 143), ("KILL", 137), ("SEGV", 139), ("PIPE", 141)] {
        assert_eq!(code(&client, &["sh", "-c", &format!("kill -{signal} $$")]), number, "{signal}");
    }
    let done = client.ask(&exec(&["sh", "-c", "echo one; echo two >&2; exit 3"]));
    assert_eq!((&done.out[..], &done.err[..]), (&b"one\n"[..], &b"two\n"[..]));
    assert_eq!(done.answer, json!({ "ok": { "exit_code": 3, "timed_out": false } }));
}

fn input_and_environment() {
    let ignoring = ["env", "--ignore-signal=HUP,INT,USR1,RTMAX"];
    let stage = How::new().env("IMAGE", "of the image").env("ODD", "x=y").before(&ignoring).start();
    let client = stage.client();
    assert_eq!(client.sh("cat | wc -c"), "0");
    assert_eq!(client.sh("ls /proc/self/fd | tr '\\n' ' '"), "0 1 2 3");
    assert_eq!(client.sh("env | grep -c KOZE || true"), "0");
    assert_eq!(client.sh("echo $IMAGE; echo $ODD"), "of the image\nx=y");
    let request = json!({ "exec": {
        "argv": ["sh", "-c", "pwd; printenv IMAGE; printenv NEW"],
        "cwd": stage.path(""),
        "env": [["IMAGE", "mine"], ["NEW", "$(id)\n\"'"]],
        "timeout_ms": 60_000,
        "max_output": 1000,
    }});
    let expected = format!("{}\nmine\n$(id)\n\"'\n", stage.dir.path().display());
    assert_eq!(String::from_utf8(client.ask(&request).out).unwrap(), expected);
    // No signal is blocked or ignored: neither one that was ignored when the guest started, nor SIGPIPE, which Rust
    // ignores.
    assert_eq!(client.sh("grep SigBlk /proc/self/status | cut -f2"), "0000000000000000");
    let ignored = u64::from_str_radix(&client.sh("grep SigIgn /proc/self/status | cut -f2"), 16).unwrap();
    // C libraries use 32 to 34.
    assert_eq!(ignored & !(0b111 << 31), 0, "{ignored:x}");
}

fn defaults() {
    let stage = How::new().clear().start();
    let client = stage.client();
    let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    assert_eq!(client.sh("echo $HOME; echo $PATH"), format!("/root\n{path}"));
    // dash and bash set some variables themselves.
    let own = client.ask(&exec(&["env"]));
    assert_eq!(String::from_utf8(own.out).unwrap(), format!("PATH={path}\nHOME=/root\n"));
}

fn programs_that_cannot_start() {
    let stage = Stage::new();
    let client = stage.client();
    let why = |argv: &[&str], cwd: &str| {
        let mut request = exec(argv);
        request["exec"]["cwd"] = json!(cwd);
        client.why(&request)
    };
    assert_eq!(why(&["no-such-program"], "/"), "not_found");
    assert_eq!(why(&["true"], "/nowhere"), "not_found");
    assert_eq!(why(&["true"], "/etc/passwd"), "not_a_directory");
    assert_eq!(why(&["true"], "relative"), "invalid_input");
    assert_eq!(why(&["tr\0ue"], "/"), "invalid_input");
    assert_eq!(why(&[], "/"), "invalid_input");
    assert_eq!(why(&["/etc/passwd"], "/"), "permission_denied");
    assert_eq!(why(&["true", &"x".repeat(300_000)], "/"), "too_large");
    let mut odd = exec(&["true"]);
    odd["exec"]["env"] = json!([["A=B", "c"]]);
    assert_eq!(client.why(&odd), "invalid_input");
    assert_eq!(code(&client, &["true"]), 0);
}

fn output() {
    let stage = Stage::new();
    let client = stage.client();
    let mut much = exec(&["sh", "-c", "echo first; head -c 5000000 /dev/zero | tr '\\0' x; echo last"]);
    much["exec"]["max_output"] = json!(1000);
    let text = String::from_utf8(client.ask(&much).out).unwrap();
    assert!(text.len() <= 1000 && text.len() > 950, "{}", text.len());
    assert!(text.starts_with("first\nxxx") && text.ends_with("xxxlast\n"), "{text}");
    assert!(text.contains("bytes left out"), "{text}");
    much["exec"]["max_output"] = json!(8_000_000);
    assert_eq!(client.ask(&much).out.len(), 5_000_011);
    // The limit applies whatever the request says.
    much["exec"]["argv"] = json!(["head", "-c", "20000000", "/dev/zero"]);
    much["exec"]["max_output"] = json!(u32::MAX);
    assert_eq!(client.ask(&much).out.len(), 8 << 20);
    let mut endless = exec(&["yes"]);
    endless["exec"]["timeout_ms"] = json!(300);
    endless["exec"]["max_output"] = json!(100);
    let done = client.ask(&endless);
    assert_eq!((done.out.len() <= 100, &done.answer["ok"]["exit_code"]), (true, &json!(124)));
}

fn timeouts() {
    let stage = Stage::new();
    let client = stage.client();
    client.sh("sleep 98720 > /dev/null 2>&1 &");
    let mut late = exec(&[
        "sh",
        "-c",
        "echo before; echo warned >&2
         sleep 9871 & setsid sleep 9871 & (setsid sh -c 'setsid sleep 9871 & sleep 9871' &)
         (sleep 9871 & disown 2>/dev/null; :) ; trap '' TERM INT HUP; sleep 9871; echo after",
    ]);
    late["exec"]["timeout_ms"] = json!(700);
    let done = client.ask(&late);
    assert_eq!(done.answer, json!({ "ok": { "exit_code": 124, "timed_out": true } }));
    assert_eq!((&done.out[..], &done.err[..]), (&b"before\n"[..], &b"warned\n"[..]));
    // Background processes of another call keep running.
    assert!(until(|| stage.others() == ["sleep 98720 "]), "{:?}", stage.others());
}

fn background() {
    let stage = Stage::new();
    let client = stage.client();
    let before = stage.descriptors();
    // It keeps the pipe open, and writes more than a pipe holds.
    let ticks = stage.path("ticks");
    let script = format!(
        "(while :; do echo tick; head -c 20000 /dev/zero; echo x >> {ticks}; sleep 0.02; done) & echo started"
    );
    assert!(client.sh(&script).contains("started"));
    let lines = || fs::read_to_string(&ticks).unwrap_or_default().lines().count();
    assert!(until(|| lines() > 30));
    // Even after the connection is closed.
    client.hang_up();
    let then = lines();
    assert!(until(|| lines() > then + 10));
    let client = stage.client();
    client.ok(&json!({ "kill_all": {} }));
    drop(client);
    stage.nothing_runs();
    assert!(until(|| stage.descriptors() <= before), "{before:?} {:?}", stage.descriptors());
}

fn zombies() {
    let stage = Stage::new();
    let client = stage.client();
    // Orphans that exit after their program: the guest must reap them.
    client.sh("for n in 1 2 3 4 5; do (sleep 0.3 &) ; done > /dev/null 2>&1");
    client.sh("for n in 1 2 3 4 5; do setsid sh -c 'sleep 0.2; exit 3' & done > /dev/null 2>&1");
    stage.nothing_runs();
    let states =
        client.sh("cat /proc/[0-9]*/stat 2>/dev/null | sed 's/.*) //' | cut -c1 | sort -u | tr -d '\\n'");
    assert!(!states.contains('Z'), "{states}");
}

fn kill_all() {
    let stage = Stage::new();
    let client = stage.client();
    client.sh("sleep 9875 > /dev/null 2>&1 & setsid sleep 9875 > /dev/null 2>&1 &");
    let running = client.open(&exec(&["sleep", "9876"]));
    assert!(until(|| stage.others().iter().any(|line| line.contains("9876"))));
    assert_eq!(client.ok(&json!({ "kill_all": {} })), json!({}));
    assert_eq!(running.outcome().ok(), json!({ "exit_code": 137, "timed_out": false }));
    stage.nothing_runs();
    assert_eq!(client.sh("echo on"), "on");
}

fn kill_all_as_any_process() {
    let mut stage = How::new().plain().start();
    let client = stage.client();
    client.sh("(setsid sleep 9878 > /dev/null 2>&1 &)");
    let running = client.open(&exec(&["sh", "-c", "setsid sleep 9879 & sleep 9879"]));
    assert!(until(|| stage.others().iter().filter(|line| line.contains("9879")).count() > 1));
    assert_eq!(client.ok(&json!({ "kill_all": {} })), json!({}));
    assert_eq!(running.outcome().ok(), json!({ "exit_code": 137, "timed_out": false }));
    stage.nothing_runs();
    client.sh("(setsid sleep 9880 > /dev/null 2>&1 &)");
    stage.signal(rustix::process::Signal::TERM);
    assert_eq!(stage.ended().code(), Some(0));
}

/// At the process limit, the existing threads must be enough to kill the others.
fn full() {
    let limited = ["prlimit", "--nproc=60", "--"];
    let user = (200_000 + std::process::id() % 100_000).to_string();
    // The kernel counts processes per user, and does not limit root.
    let other = ["setpriv", "--reuid", &user, "--clear-groups", "--"];
    let before = if is_root() { [&other[..], &limited].concat() } else { limited.to_vec() };
    let stage = How::new().before(&before).start();
    let client = stage.client();
    let running = client.open(&exec(&["sh", "-c", "for n in $(seq 200); do sleep 9881 & done; wait"]));
    assert!(until(|| stage.others().len() > 20), "{:?}", stage.others());
    let others: Vec<_> = (0..20).map(|_| client.open(&exec(&["true"]))).collect();
    assert_eq!(client.ok(&json!({ "kill_all": {} })), json!({}));
    running.outcome();
    for other in others {
        other.outcome();
    }
    // Killed processes count until they are reaped.
    assert!(until(|| client.ask(&exec(&["true"])).answer["ok"]["exit_code"] == 0));
}
