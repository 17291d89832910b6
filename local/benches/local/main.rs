//! How fast sandboxes of this machine are, beside what else runs a command in isolation, and how much memory they take.
//! `cargo xtask bench` runs this, and shows what it prints: one JSON document.
//!
//! What is compared runs interleaved, so that a slow minute of the machine meets all of it alike.
#![cfg(target_os = "linux")]

mod image;
#[path = "../../tests/local/loaded.rs"]
mod loaded;

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use koze_core::provider::{Profile, Size};
use koze_core::{Profiles, Session};
use koze_core::{Sandbox as _, SessionId};
use koze_local::Local;
use serde_json::{Value, json};

/// Who would be isolated elsewhere with one process of this program for each command.
const BUBBLEWRAP: &str = "bwrap";
/// How large the file is that is transferred, in MiB.
const LARGE: u64 = 1024;
/// How many sandboxes live at once, and how many calls each gets at once.
const MANY: usize = 100;
const CALLS: usize = 10;

fn main() {
    koze_local::init();
    let quick = std::env::args().any(|argument| argument == "--quick");
    let (rows, notes) = koze_local::block_on(measure(quick)).expect("it ends well");
    println!("{}", json!({ "rows": rows, "notes": notes }));
}

async fn measure(quick: bool) -> (Vec<Value>, Vec<String>) {
    let state = tempfile::tempdir().expect("a temporary directory");
    let local = Local::new(state.path()).expect("sandboxes on this machine");
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    let bubblewrap = bubblewrap().arg("true").output().is_ok_and(|output| output.status.success());
    if !bubblewrap {
        notes.push(format!("`{BUBBLEWRAP}` does not run here: `apt-get install bubblewrap`"));
    }
    warm(&local, if quick { 50 } else { 500 }, bubblewrap, &mut rows).await;
    create(&local, if quick { 20 } else { 100 }, bubblewrap, &mut rows).await;
    transfer(&local, if quick { 3 } else { 9 }, state.path(), &mut rows).await;
    notes.push(many(&local).await);
    image::measure(quick, &mut rows, &mut notes).await;
    (rows, notes)
}

/// A command in a sandbox that runs.
async fn warm(local: &Local, runs: usize, bubblewrap: bool, rows: &mut Vec<Value>) {
    let session = session(local, "warm", 1);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let start = Instant::now();
        call(&session, "shell", json!({ "command": "true" })).await;
        ours.push(start.elapsed());
        if bubblewrap {
            theirs.push(peer());
        }
    }
    rows.push(row("shell `true`, warm", &ours[1..], "bwrap … bash -c true", theirs.get(1..)));
}

/// A sandbox from nothing, and its first command.
async fn create(local: &Local, runs: usize, bubblewrap: bool, rows: &mut Vec<Value>) {
    let session = session(local, "create", 2);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let start = Instant::now();
        call(&session, "shell", json!({ "command": "true", "sandbox": "new" })).await;
        ours.push(start.elapsed());
        session.sandbox("new").await.expect("it is there").destroy().await.expect("it goes");
        if bubblewrap {
            theirs.push(peer());
        }
    }
    rows.push(row("create and first shell `true`", &ours[1..], "bwrap … bash -c true", theirs.get(1..)));
}

/// A large file from one sandbox to another.
async fn transfer(local: &Local, runs: usize, state: &std::path::Path, rows: &mut Vec<Value>) {
    let session = session(local, "transfer", 2);
    let make = format!("head -c {LARGE}M /dev/urandom > large");
    call(&session, "shell", json!({ "command": make, "sandbox": "a", "timeout_ms": 300_000 })).await;
    let (from, to) = (state.join("from"), state.join("to"));
    for dir in [&from, &to] {
        std::fs::create_dir(dir).expect("a directory");
    }
    let filled = Command::new("sh").args(["-c", &make]).current_dir(&from).status();
    assert!(filled.is_ok_and(|status| status.success()), "a large file");
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        settle(state);
        let start = Instant::now();
        let input =
            json!({ "from_sandbox": "a", "from_path": "large", "to_sandbox": "b", "to_path": "large" });
        call(&session, "transfer", input).await;
        ours.push(start.elapsed());
        call(&session, "shell", json!({ "command": "rm large", "sandbox": "b" })).await;

        settle(state);
        let start = Instant::now();
        let pipe = "tar -cf - -C \"$1\" large | tar -xf - -C \"$2\"";
        let piped = Command::new("sh").args(["-c", pipe, "sh"]).args([&from, &to]).status();
        assert!(piped.is_ok_and(|status| status.success()), "tar");
        theirs.push(start.elapsed());
        std::fs::remove_file(to.join("large")).expect("tar has made it");
    }
    rows.push(row(&format!("transfer of {LARGE} MiB"), &ours, "tar | tar of the same", Some(&theirs)));
    for name in ["a", "b"] {
        session.sandbox(name).await.expect("it is there").destroy().await.expect("it goes");
    }
    std::fs::remove_file(from.join("large")).expect("it is there");
}

/// Makes the same of the machine before each of the two: neither waits for the other's bytes to be written, nor for memory
/// that a virtual machine has given back, of which the first use of each page takes several times as long.
fn settle(state: &std::path::Path) {
    rustix::fs::sync();
    let touched = state.join("touched");
    let fill = Command::new("head")
        .args(["-c", &format!("{LARGE}M"), "/dev/zero"])
        .stdout(std::fs::File::create(&touched).expect("a file"))
        .status();
    assert!(fill.is_ok_and(|status| status.success()), "a large file");
    std::fs::remove_file(touched).expect("it is there");
}

/// Many at once, and what they take.
async fn many(local: &Local) -> String {
    let session = Arc::new(session(local, "many", MANY));
    let start = Instant::now();
    let calls: Vec<_> = (0..MANY * CALLS)
        .map(|number| {
            let session = Arc::clone(&session);
            let input = json!({ "command": "true", "sandbox": format!("s{}", number % MANY) });
            tokio::spawn(async move { session.call_tool("shell", input).await.is_error })
        })
        .collect();
    let mut errors = 0;
    for call in calls {
        errors += usize::from(call.await.unwrap_or(true));
    }
    let took = start.elapsed().as_secs_f64();
    let guests: Vec<u64> = children().into_iter().map(|pid| kib(&format!("{pid}"), "VmRSS:")).collect();
    let each = guests.iter().sum::<u64>() / (guests.len() as u64).max(1);
    format!(
        "{MANY} sandboxes, {CALLS} calls each, all at once: {errors} errors, {took:.2} s; {} guests of {} KB resident each, \
         this program {} MB",
        guests.len(),
        each,
        kib("self", "VmRSS:") / 1000,
    )
}

/// Of the size `standard-1`: in a smaller one, a large file would wait for memory to write it from.
fn session(local: &Local, session: &str, at_most: usize) -> Session<Local> {
    let size = Size { memory_mib: 4096, disk_mb: 8000 };
    let profiles = Profiles::new(vec![Profile::new("shell", "docker.io/library/debian:12", size)], "shell");
    let session = SessionId::new("bench", session).expect("a name");
    Session::new(local.clone(), session, profiles.expect("one of them")).with_max_sandboxes(at_most)
}

async fn call(session: &Session<Local>, tool: &str, input: Value) {
    let result = session.call_tool(tool, input).await;
    assert!(!result.is_error, "{tool}: {}", result.content);
}

/// The system to read, a home of its own, no network: what a sandbox has, too.
fn bubblewrap() -> Command {
    let mut command = Command::new(BUBBLEWRAP);
    command.args([
        "--unshare-all",
        "--die-with-parent",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--tmpfs",
        "/home",
    ]);
    for path in ["/usr", "/bin", "/lib", "/lib64"] {
        command.args(["--ro-bind-try", path, path]);
    }
    command
}

fn peer() -> Duration {
    let start = Instant::now();
    let ran = bubblewrap().args(["bash", "-c", "true"]).stdin(Stdio::null()).output();
    assert!(ran.is_ok_and(|output| output.status.success()), "{BUBBLEWRAP}");
    start.elapsed()
}

fn row(case: &str, ours: &[Duration], peer: &str, theirs: Option<&[Duration]>) -> Value {
    let micros = |times: &[Duration]| times.iter().map(|time| time.as_secs_f64() * 1e6).collect::<Vec<_>>();
    json!({ "case": case, "us": micros(ours), "peer": peer, "peer_us": theirs.map(micros) })
}

/// The processes that this one is the parent of and that are guests: one more is what they are copied from.
fn children() -> Vec<u32> {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    tasks
        .filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|pids| pids.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>())
        .filter(|pid| {
            std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "koze-guest")
        })
        .collect()
}

/// A line of a process's status, which is in KiB.
fn kib(process: &str, line: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let found =
        status.lines().find_map(|text| text.strip_prefix(line)?.trim().split(' ').next()?.parse().ok());
    found.unwrap_or_default()
}
