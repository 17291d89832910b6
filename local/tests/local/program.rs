//! The program that a sandbox is started with, which is a file of the host's user: until a child of the guest calls
//! exec, it runs that program, and `#!/proc/self/exe` refers to it.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use koze_core::Sandbox;
use koze_core::sandbox::{Output, Write};
use koze_local::{LocalSandbox, Weakness};

use crate::Test;
use crate::stage::{Stage, at, command, is_root, out, put_probe, within};

/// The argument that makes this program wait.
pub(crate) const LINGER: &str = "--linger";
/// The argument that makes this program look for the program with the given numbers.
pub(crate) const WATCH: &str = "--watch-programs";
/// How long it looks.
const LOOKED: Duration = Duration::from_secs(3);

pub(crate) const TESTS: &[Test] = &[
    ("escape_by_the_program_of_the_guest", out_of_reach),
    ("control_by_the_program_of_the_guest", in_reach),
    ("a_bash_of_the_sandbox_is_not_run_by_tools", own_bash),
    ("the_nursery_may_be_killed", nursery),
    ("the_prepared_copy_sees_new_mounts_and_may_be_killed", ahead),
];

const SCRIPT: &str = "/home/user/.local/bin/bash";

async fn plant(sandbox: &LocalSandbox) {
    put_probe(sandbox).await;
    sandbox.write(at(SCRIPT), format!("#!/proc/self/exe {LINGER}\n").into(), Write::Replace).await.unwrap();
    sandbox.set_mode(at(SCRIPT), 0o755).await.unwrap();
}

/// Runs the script. Returns its result, and what a concurrent observer saw.
async fn run(sandbox: &LocalSandbox) -> (Output, String) {
    let host = fs::metadata(std::env::current_exe().unwrap()).unwrap();
    let (device, number) = (host.dev().to_string(), host.ino().to_string());
    let watch = command(&["/home/user/probe", WATCH, &device, &number]);
    let script = command(&["bash", "-c", "true"]);
    let (watched, ran) = tokio::join!(sandbox.exec(watch), async {
        let start = Instant::now();
        loop {
            let ran = sandbox.exec(script.clone()).await.unwrap();
            if start.elapsed() > LOOKED / 2 {
                break ran;
            }
        }
    });
    (ran, String::from_utf8(watched.unwrap().stdout).unwrap().trim_end().to_owned())
}

fn out_of_reach() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let before = fs::metadata(std::env::current_exe().unwrap()).unwrap();
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        plant(&sandbox).await;
        let (ran, seen) = run(&sandbox).await;
        assert_eq!((ran.exit_code, &*seen), (126, "nothing"), "the guest's program is for nobody else");
        // Even then: it is not readable, so only its own process can open it.
        let stage = Stage::weakened(vec![Weakness::Rerun]);
        let sandbox = stage.open("a").await;
        plant(&sandbox).await;
        let (ran, seen) = run(&sandbox).await;
        assert_eq!((ran.exit_code, &*seen), (0, "nothing"));
        let after = fs::metadata(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(after.mode(), before.mode());
    })
}

fn in_reach() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let program = std::env::current_exe().unwrap();
        let before = fs::metadata(&program).unwrap();
        let stage = Stage::weakened(vec![Weakness::Program]);
        let sandbox = stage.open("a").await;
        plant(&sandbox).await;
        let (_, seen) = run(&sandbox).await;
        let after = fs::metadata(&program).unwrap();
        fs::set_permissions(&program, before.permissions()).unwrap();
        // In the sandbox, root's file belongs to nobody.
        let (expected, mode) =
            if is_root() { ("seen", before.mode()) } else { ("changed", before.mode() | 0o4000) };
        assert_eq!((&*seen, after.mode()), (expected, mode), "an attempt that cannot succeed shows nothing");
    })
}

/// `bash` is resolved where the sandbox cannot write.
fn own_bash() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let (session, _state) = crate::api::session();
        let content = "#!/bin/sh\necho taken\n";
        let write = serde_json::json!({ "path": SCRIPT, "content": content });
        assert!(!session.call_tool("write_file", write).await.is_error);
        let call = |command: &str| {
            let input = serde_json::json!({ "command": command });
            session.call_tool("shell", input)
        };
        assert!(!call(&format!("chmod 755 {SCRIPT}")).await.is_error);
        let ran = call("echo own; echo $0").await;
        assert!(ran.content.contains("own\\nbash"), "{}", ran.content);
        // The control: the sandbox's own programs are found by name.
        let ran = call("bash -c 'echo own'").await;
        assert!(ran.content.contains("taken"), "{}", ran.content);
    })
}

/// Sandboxes are forked from a nursery. If it is killed, existing sandboxes continue, and new ones can be started.
fn nursery() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let first = stage.open("first").await;
        end(child("koze-nursery").unwrap());
        for sandbox in [first, stage.open("second").await, stage.open("third").await] {
            assert_eq!(out(&sandbox, "echo well").await, "well");
        }
    })
}

/// The argument that makes this program kill the prepared copy. In a separate program, no other test uses that copy
/// meanwhile.
pub(crate) const AHEAD: &str = "--made-ahead";

fn ahead() -> Result<(), libtest_mimic::Failed> {
    let status = Command::new(std::env::current_exe()?).arg(AHEAD).stdin(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err("see above".into()) }
}

/// The prepared first process of the next sandbox waits in its namespaces, except the mount namespace: later mounts
/// must be visible. If it is killed, the next sandbox is started without it.
pub(crate) fn kill_what_is_made_ahead() -> ExitCode {
    let done = within(async {
        let stage = Stage::new();
        let first = stage.open("first").await;
        let spare = loop {
            if let Some(spare) = child("koze-spare") {
                break spare;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        let same = |pid: u32, kind: &str| {
            let of = |process: &str| fs::read_link(format!("/proc/{process}/ns/{kind}")).unwrap();
            of(&pid.to_string()) == of("self")
        };
        assert!(same(spare, "mnt"), "it holds no mount of the host");
        for kind in ["user", "net", "ipc", "uts"] {
            assert!(!same(spare, kind), "{kind}");
        }
        // The control: a sandbox has mounts of its own.
        let host = fs::read_link("/proc/self/ns/mnt").unwrap();
        assert_ne!(out(&first, "readlink /proc/self/ns/mnt").await, host.to_str().unwrap());
        end(spare);
        let second = stage.open("second").await;
        for sandbox in [first, second] {
            assert_eq!(out(&sandbox, "echo well").await, "well");
        }
    });
    if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns a child of this program by name.
fn child(name: &str) -> Option<u32> {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
    let children = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let children = children.collect::<Vec<_>>().join(" ");
    let named =
        |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == name);
    children.split_whitespace().filter_map(|pid| pid.parse().ok()).find(named)
}

fn end(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// Waits while the observer is running.
pub(crate) fn linger() -> ExitCode {
    std::thread::sleep(LOOKED / 4);
    ExitCode::SUCCESS
}

/// Checks the program of every process for a while. Prints whether one runs the program, and whether its mode could be
/// changed.
pub(crate) fn watch() -> ExitCode {
    let numbers: Vec<u64> = std::env::args().skip(2).filter_map(|number| number.parse().ok()).collect();
    let start = Instant::now();
    let mut found = "nothing";
    while start.elapsed() < LOOKED && found == "nothing" {
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            found = tried(&entry.path().join("exe"), &numbers).unwrap_or(found);
        }
    }
    println!("{found}");
    ExitCode::SUCCESS
}

fn tried(exe: &Path, numbers: &[u64]) -> Option<&'static str> {
    let about = fs::metadata(exe).ok()?;
    let memory = fs::read_link(exe).is_ok_and(|path| path.to_string_lossy().starts_with("/memfd:"));
    if !memory && [about.dev(), about.ino()] != numbers {
        return None;
    }
    let mode = fs::Permissions::from_mode(about.mode() | 0o4000);
    Some(if fs::set_permissions(exe, mode).is_ok() { "changed" } else { "seen" })
}
