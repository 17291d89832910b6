//! The guest in a container with another first process, which does not reap.

use crate::Test;
use crate::client::until;
use crate::stage::{How, Stage};

pub(crate) const TESTS: &[Test] = &[
    ("beside_another_first_process", beside),
    ("beside_another_in_its_own_namespace", apart),
    ("beside_another_prints_its_process", process),
    ("beside_another_orphans_are_reaped", reaps),
    ("beside_another_signals_are_ignored", signals),
    ("beside_another_reports_why_it_does_not_start", fails),
];

/// A shell that is the first process and does not wait for the guest that it starts.
const SHELL: [&str; 4] = ["sh", "-c", "\"$@\" && exec sleep 9888", "sh"];

/// Starts a guest in a container without the capability to create namespaces, as most have it.
fn started() -> Stage {
    let before = [&["setpriv", "--bounding-set", "-sys_admin"], &SHELL[..]].concat();
    How::new().arguments(&["--beside"]).before(&before).start()
}

/// Programs reach neither the guest nor the first process of the container, and none of them is left.
fn apart() {
    let stage = How::new().arguments(&["--beside"]).before(&SHELL).start();
    stage.printed(&format!("koze-guest listens at {} as ", stage.address.port()));
    let client = stage.client();
    assert_eq!(client.sh("cat /proc/1/comm"), "koze-guest");
    assert_eq!(client.sh("cat /proc/$$/comm"), "sh", "`/proc` shows the namespace of the programs");
    client.sh("sleep 1000 > /dev/null 2>&1 &");
    let hostile = "trap '' TERM; for signal in KILL TERM STOP; do kill -s $signal 1; done; kill -TERM -1; kill -9 -1; echo on";
    assert_eq!(client.sh(hostile), "on");
    assert!(until(|| client
        .sh("grep -l sleep /proc/[0-9]*/comm; grep -l '^State:.Z' /proc/[0-9]*/status; true")
        .is_empty()));
    assert_eq!(stage.client().sh("echo on"), "on");
}

/// The process ID that it prints is the one in the container.
fn process() {
    let stage = started();
    let line = stage.printed("koze-guest listens at ");
    let process = line.rsplit(' ').next().unwrap();
    assert_eq!(stage.client().sh(&format!("cat /proc/{process}/comm")), "koze-guest");
}

fn beside() {
    let stage = started();
    // It prints its port, and does not block the program that started it.
    stage.printed(&format!("koze-guest listens at {} as ", stage.address.port()));
    let client = stage.client();
    assert!(until(|| client.sh("cat /proc/1/comm") == "sleep"));
    assert_eq!(client.sh("echo ${PWD-none}:${SHLVL-none}:${KOZE_GUEST_TOKEN-none}"), "/:none:none");
    // Programs have the capabilities of the first process.
    assert_eq!(client.sh("grep -h ^CapBnd /proc/1/status /proc/self/status | uniq | wc -l"), "1");
    drop(client);
    assert_eq!(stage.client().sh("echo on"), "on");
}

fn reaps() {
    let stage = started();
    let client = stage.client();
    let pid = client.sh("sleep 9887 > /dev/null 2>&1 & echo $!");
    client.sh(&format!("kill {pid}; (true &); (setsid true &)"));
    let left =
        format!("kill -0 {pid} 2> /dev/null && echo there; grep -l '^State:.Z' /proc/[0-9]*/status; true");
    assert!(until(|| client.sh(&left).is_empty()), "{}", client.sh(&left));
}

fn signals() {
    let stage = started();
    let client = stage.client();
    // Before that, a signal may kill the foreground program, and with it the shell.
    assert!(until(|| client.sh("cat /proc/1/comm") == "sleep"));
    let output = client.sh("trap '' TERM INT HUP QUIT USR1 USR2 ALRM
                          for name in TERM INT HUP QUIT USR1 USR2 ALRM; do kill -s $name -- -1; done; echo on");
    assert_eq!(output, "on");
    assert_eq!(client.sh("echo on"), "on");
    assert_eq!(stage.client().sh("echo on"), "on");
}

fn fails() {
    let (code, out, err) =
        How::new().arguments(&["--beside"]).env("KOZE_GUEST_LISTEN", "203.0.113.1:1").run();
    assert_eq!((code, &*out, err.contains("cannot listen: ")), (Some(1), "", true), "{err}");
}
