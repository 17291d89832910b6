//! The end of the container, its messages, and the image's own entrypoint.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use crate::Test;
use crate::client::{exec, until};
use crate::stage::{How, Stage};

pub(crate) const TESTS: &[Test] = &[
    ("signals_from_outside_stop_it", signals),
    ("signals_from_inside_are_ignored", signals_from_inside),
    ("an_entrypoint_runs_next_to_the_guest", entrypoint),
    ("an_entrypoint_may_exit", entrypoint_ends),
    ("an_entrypoint_that_does_not_start", entrypoint_fails),
    ("arguments", arguments),
    ("without_a_token", no_token),
];

fn signals() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut stage = Stage::new();
        let client = stage.client();
        client.sh("setsid sleep 9889 > /dev/null 2>&1 &");
        let running = client.open(&exec(&["sh", "-c", "trap '' TERM INT; sleep 9889"]));
        assert!(until(|| stage.others().len() == 3), "{:?}", stage.others());
        stage.signal(signal);
        assert_eq!(stage.ended().code(), Some(0));
        assert!(client.closes());
        drop(running);
    }
}

fn signals_from_inside() {
    let stage = Stage::new();
    let client = stage.client();
    let all = client.sh("kill -l | tr ' ' '\\n' | grep -vE '^(EXIT|0|[0-9]+)$' | sed 's/^SIG//'");
    for signal in all.split_whitespace() {
        client.ask(&exec(&["sh", "-c", &format!("kill -{signal} 1")]));
    }
    // Signals with a forged sender and code. The kernel accepts any except those of an outside `kill`.
    client.ask(&exec(&[
        "sh",
        "-c",
        "command -v python3 && exec python3 -c '
import ctypes, struct
for code in (-1, -2, -3, -6):
    for signal in (2, 15, 11, 7):
        info = struct.pack(\"=iiiiiiQ96x\", signal, 0, code, 0, 0, 0, 0)
        ctypes.CDLL(None).syscall(129, 1, signal, info)'",
    ]));
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(client.sh("echo on"), "on");
    assert_eq!(stage.client().sh("echo on"), "on");
}

fn entrypoint() {
    let script = "trap 'echo asked to end; exit 0' TERM
                  echo \"started in $PWD with $IMAGE and ${KOZE_GUEST_TOKEN-no token}\"; echo loud >&2
                  while :; do sleep 0.1; done";
    let how = How::new().arguments(&["--", "sh", "-c", script]).env("IMAGE", "a variable");
    let mut stage = how.start();
    let line = format!("started in {} with a variable and no token", stage.dir.path().display());
    stage.printed(&line);
    stage.printed("loud");
    let client = stage.client();
    assert_eq!(client.sh("echo on"), "on");
    stage.signal(Signal::TERM);
    stage.printed("asked to end");
    assert_eq!(stage.ended().code(), Some(0));
}

fn entrypoint_ends() {
    let stage = How::new().arguments(&["--", "sh", "-c", "exit 7"]).start();
    stage.printed("koze-guest: the entrypoint ended with the code 7");
    assert_eq!(stage.client().sh("echo on"), "on");
    stage.nothing_runs();

    // An entrypoint that does not exit is killed after the grace period.
    let mut stage =
        How::new().arguments(&["--", "sh", "-c", "trap '' TERM; echo up; while :; do sleep 1; done"]).start();
    stage.printed("up");
    stage.signal(Signal::TERM);
    assert_eq!(stage.ended().code(), Some(0));

    let stage = How::new().arguments(&["--", "sleep", "9890"]).start();
    assert!(until(|| stage.others() == ["sleep 9890 "]));
    stage.client().ok(&json!({ "kill_all": {} }));
    stage.printed("koze-guest: the entrypoint ended with the code 137");
}

fn entrypoint_fails() {
    let stage = How::new().arguments(&["--", "/no/such/program"]).start();
    stage.printed(
        "the entrypoint /no/such/program did not start: the program /no/such/program does not exist",
    );
    assert_eq!(stage.client().sh("echo on"), "on");
}

fn arguments() {
    let (code, out, err) = How::new().arguments(&["--version"]).run();
    assert_eq!((code, &*out, &*err), (Some(0), concat!("koze-guest ", env!("CARGO_PKG_VERSION"), "\n"), ""));
    for wrong in [&["x"][..], &["--"], &["--version", "x"], &["--help", "--"], &["-"], &["sh", "-c", "true"]]
    {
        let (code, out, err) = How::new().arguments(wrong).run();
        assert_eq!((code, &*out, err.starts_with("usage: koze-guest")), (Some(2), "", true), "{wrong:?}");
    }
    let (code, _, err) = How::new().env("KOZE_GUEST_LISTEN", "nowhere").run();
    assert_eq!((code, err.contains("KOZE_GUEST_LISTEN is an address and a port")), (Some(1), true), "{err}");
}

fn no_token() {
    for token in ["", "abc", &"A".repeat(64), &"0".repeat(63), &"0".repeat(65)] {
        let (code, out, err) = How::new().env("KOZE_GUEST_TOKEN", token).run();
        assert_eq!((code, &*out), (Some(1), ""));
        assert!(err.contains("KOZE_GUEST_TOKEN") && err.contains("Durable Object class"), "{err}");
        assert!(token.is_empty() || !err.contains(token));
    }
}
