//! Programs that exceed a limit are killed, and nothing else is.
#![allow(unsafe_code, reason = "many processes at once have no safe form")]

use std::io::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use koze_core::Sandbox;
use koze_core::sandbox::Write;
use koze_local::{LocalSandbox, Weakness};

use crate::Test;
use crate::stage::{Stage, at, command, is_root, out, put_probe, sh, until, within};

/// The argument that makes this program use much memory that is hard to detect. A further argument makes its
/// descriptors unlistable.
pub(crate) const HOG: &str = "--memory-hog";
/// The argument that makes this program hold more descriptors than the watch can check.
pub(crate) const DESCRIPTORS: &str = "--many-descriptors";

/// The argument that makes this program hold much data in the kernel.
pub(crate) const SOCKETS: &str = "--full-sockets";

/// The same with netlink sockets.
pub(crate) const NETLINK: &str = "--full-netlink";

pub(crate) const TESTS: &[Test] = &[
    ("fork_bomb", fork_bomb),
    ("memory_hog", memory_hog),
    ("hidden_memory_hog", hidden_memory_hog),
    ("memory_hog_that_cannot_be_dumped", undumpable_memory_hog),
    ("overloading_the_watch_is_fatal", overloading_the_watch_is_fatal),
    (
        "control_overloading_the_watch_succeeds_without_a_budget",
        overloading_the_watch_succeeds_without_a_budget,
    ),
    ("socket_memory_hog", socket_memory_hog),
    ("control_socket_memory_unseen", socket_memory_unseen),
    ("netlink_memory_hog", netlink_memory_hog),
    ("control_netlink_memory_unseen", netlink_memory_unseen),
    ("a_tree_without_an_end", a_tree_without_an_end),
    ("disk_filler", disk_filler),
    ("nameless_disk_filler", nameless_disk_filler),
    ("one_long_file", one_long_file),
    ("empty_files_count", empty_files),
];

/// Another sandbox must not be affected.
async fn well(sandbox: &LocalSandbox) {
    let start = Instant::now();
    assert_eq!(out(sandbox, "echo well").await, "well");
    assert!(start.elapsed() < Duration::from_secs(10));
}

fn fork_bomb() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let (bad, good) = (stage.sized(256, 100).await, stage.open("good").await);
        let bomb = "b() { b | b & }; b; sleep 60";
        let mut bomb = command(&["bash", "-c", bomb]);
        bomb.timeout = Duration::from_mins(1);
        let ended = bad.exec(bomb).await.unwrap();
        assert_eq!(ended.exit_code, 137, "{ended:?}");
        well(&good).await;
        until("the bad one is back", async || sh_count(&bad).await.is_some_and(|count| count < 10)).await;
    })
}

async fn sh_count(sandbox: &LocalSandbox) -> Option<u32> {
    let output = sandbox.exec(command(&["sh", "-c", "ls -d /proc/[0-9]* | wc -l"])).await.ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

fn memory_hog() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let (bad, good) = (stage.sized(64, 200).await, stage.open("good").await);
        // The control: usage within the limit is allowed.
        assert_eq!(
            sh(&bad, "head -c 20000000 /dev/zero | tail -c 20000000 > /dev/null; sleep 0.5").await.exit_code,
            0
        );
        let hog = sh(&bad, "head -c 2000000000 /dev/zero | tail -c 2000000000 > /dev/null").await;
        assert!(matches!(hog.exit_code, 137), "{hog:?}");
        // With control groups, the kernel kills one program, otherwise koze all of them.
        let why = String::from_utf8(hog.stderr).unwrap();
        assert!(why.contains("they used more than 64 MiB of memory"), "{why}");
        // What is over is not said again.
        assert_eq!(sh(&bad, "sleep 0.5; exit 7").await.stderr, b"");
        well(&good).await;
        assert_eq!(out(&bad, "echo back").await, "back");
    })
}

fn hidden_memory_hog() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let bad = stage.sized(64, 200).await;
        put_probe(&bad).await;
        // The kernel charges unmapped memory to no process: it may kill the guest, and with it the sandbox.
        match bad.exec(command(&["/home/user/probe", HOG])).await {
            Ok(ended) => assert_eq!(ended.exit_code, 137, "{ended:?}"),
            Err(error) => assert_eq!(error.code, koze_core::Code::Unavailable, "{error}"),
        }
        assert_eq!(out(&bad, "echo back").await, "back");
    })
}

/// Only root can list the descriptors of such a process.
fn undumpable_memory_hog() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let bad = stage.sized(64, 200).await;
        put_probe(&bad).await;
        match bad.exec(command(&["/home/user/probe", HOG, "hidden"])).await {
            Ok(ended) => {
                assert_eq!(ended.exit_code, 137, "{ended:?}");
            }
            Err(error) => assert_eq!(error.code, koze_core::Code::Unavailable, "{error}"),
        }
        assert_eq!(out(&bad, "echo back").await, "back");
    })
}

/// How long a program holds its resources: far longer than a busy machine needs to detect it, if it can be detected.
const FOR_GOOD: &str = "45";
const FOR_A_WHILE: &str = "4";

/// Returns how long this program should hold its resources.
fn told() -> Duration {
    Duration::from_secs(std::env::args().nth(2).unwrap().parse().unwrap())
}

async fn blinding(stage: &Stage, seconds: &str) -> koze_core::sandbox::Output {
    let bad = stage.sized(256, 200).await;
    put_probe(&bad).await;
    bad.exec(command(&["/home/user/probe", DESCRIPTORS, seconds])).await.unwrap()
}

fn overloading_the_watch_is_fatal() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let ended = blinding(&Stage::new(), FOR_GOOD).await;
        assert_eq!(ended.exit_code, 137, "{ended:?}");
        let why = String::from_utf8(ended.stderr).unwrap();
        // Depending on which part of the budget is used up first.
        assert!(
            why.contains("killed: they had more than 65536 descriptors open") || why.contains("too many"),
            "{why}"
        );
    })
}

/// Without a budget, the watch checks all of them, however long that takes.
fn overloading_the_watch_succeeds_without_a_budget() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let ended = blinding(&Stage::weakened(vec![Weakness::Budget]), FOR_A_WHILE).await;
        assert_eq!(ended.exit_code, 0, "{ended:?}");
    })
}

/// Creates many processes with copies of many descriptors, for some seconds.
pub(crate) fn many_descriptors() -> ExitCode {
    let null = std::fs::File::open("/dev/null").unwrap();
    let copies: Vec<_> = (0..4000).map(|_| rustix::io::dup(&null).unwrap()).collect();
    for _ in 0..40 {
        // SAFETY: this program is single-threaded, and the copy only waits.
        if unsafe { libc::fork() } == 0 {
            std::thread::sleep(told());
            // SAFETY: exits the copy at once.
            unsafe { libc::_exit(0) };
        }
    }
    std::thread::sleep(told());
    drop(copies);
    ExitCode::SUCCESS
}

/// Runs the probe that holds data in the kernel, with this argument.
async fn holding(
    stage: &Stage,
    argument: &str,
    seconds: &str,
) -> koze_core::Result<koze_core::sandbox::Output> {
    let bad = stage.sized(64, 200).await;
    put_probe(&bad).await;
    bad.exec(command(&["/home/user/probe", argument, seconds])).await
}

fn socket_memory_hog() -> Result<(), libtest_mimic::Failed> {
    within(async {
        match holding(&Stage::new(), SOCKETS, FOR_GOOD).await {
            Ok(ended) => {
                assert_eq!(ended.exit_code, 137, "{ended:?}");
                let why = String::from_utf8(ended.stderr).unwrap();
                // As root, the kernel may act first, without a message.
                assert!(is_root() || why.contains("MiB of memory"), "{why}");
            }
            Err(error) => assert_eq!(error.code, koze_core::Code::Unavailable, "{error}"),
        }
    })
}

fn socket_memory_unseen() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let held = holding(&Stage::weakened(vec![Weakness::Sockets]), SOCKETS, FOR_A_WHILE).await;
        if is_root() {
            eprintln!("control_socket_memory_unseen shows nothing as root: the kernel may count");
        } else {
            assert_eq!(held.unwrap().exit_code, 0);
        }
    })
}

fn netlink_memory_hog() -> Result<(), libtest_mimic::Failed> {
    within(async {
        match holding(&Stage::new(), NETLINK, FOR_GOOD).await {
            Ok(ended) => {
                assert_eq!(ended.exit_code, 137, "{ended:?}");
                let why = String::from_utf8(ended.stderr).unwrap();
                assert!(why.contains("MiB of memory"), "{why}");
            }
            Err(error) => assert_eq!(error.code, koze_core::Code::Unavailable, "{error}"),
        }
    })
}

fn netlink_memory_unseen() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let held = holding(&Stage::weakened(vec![Weakness::Sockets]), NETLINK, FOR_A_WHILE).await.unwrap();
        assert_eq!(held.exit_code, 0, "{held:?}");
    })
}

/// Fills the unread queues of netlink sockets with about 150 MB, for some seconds: the error of an unknown request carries
/// the request back.
pub(crate) fn hold_in_netlink() -> ExitCode {
    use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socket_with};

    let mut request = vec![0; 32 << 10];
    let header = [(32_u32 << 10).to_ne_bytes(), [0xe7, 3, 5, 0]].concat();
    request[..header.len()].copy_from_slice(&header);
    let mut all = Vec::new();
    for _ in 0..800 {
        let socket =
            socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None).unwrap();
        for _ in 0..10 {
            if send(&socket, &request, SendFlags::DONTWAIT).is_err() {
                break;
            }
        }
        all.push(socket);
    }
    std::thread::sleep(told());
    ExitCode::SUCCESS
}

/// Fills unread sockets with about 300 MB, for some seconds; half of the writers are closed.
pub(crate) fn hold_in_sockets() -> ExitCode {
    let piece = vec![0; 64 << 10];
    let mut all = Vec::new();
    for number in 0..1500 {
        let (mut writer, reader) = std::os::unix::net::UnixStream::pair().unwrap();
        writer.set_nonblocking(true).unwrap();
        while writer.write(&piece).is_ok() {}
        all.push((reader, (number % 2 == 0).then_some(writer)));
    }
    std::thread::sleep(told());
    ExitCode::SUCCESS
}

/// Further names of a file take disk space only in their directory, but each has to be checked.
fn a_tree_without_an_end() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.sized(256, 20).await;
        let script = "cd /workspace; mkdir a; : > a/0; for i in $(seq 1200); do : > a/$i; done
                    n=0; while :; do n=$((n + 1)); cp -rl a b$n || exit 1; done";
        let ended = sh(&sandbox, script).await;
        assert_eq!(ended.exit_code, 137, "{ended:?}");
        let why = String::from_utf8(ended.stderr).unwrap();
        assert!(why.contains("files, or directories"), "{why}");
        let full = sandbox.write(at("/home/user/one-more"), Vec::new(), Write::Replace).await;
        assert_eq!(full.unwrap_err().code, koze_core::Code::TooLarge);
        // A cleanup succeeds eventually.
        until("it is gone", async || sh(&sandbox, "rm -rf /workspace/b*").await.exit_code == 0).await;
        until("there is room", async || sandbox.write(at("/tmp/x"), vec![1], Write::Replace).await.is_ok())
            .await;
    })
}

/// Uses memory that no process maps, much more than a small sandbox may have.
pub(crate) fn hog() -> ExitCode {
    if std::env::args().nth(2).is_some() {
        rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable).unwrap();
    }
    let piece = vec![b'x'; 1_000_000];
    let mut files = Vec::new();
    for _ in 0..40 {
        let file = rustix::fs::memfd_create("hog", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let mut file = std::fs::File::from(file);
        for _ in 0..20 {
            file.write_all(&piece).unwrap();
        }
        files.push(file);
    }
    std::thread::sleep(Duration::from_secs(20));
    ExitCode::SUCCESS
}

fn disk_filler() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let (bad, good) = (stage.sized(256, 50).await, stage.open("good").await);
        let fill =
            "i=0; while :; do head -c 5000000 /dev/zero > /workspace/f$i; i=$((i+1)); sleep 0.02; done";
        let ended = sh(&bad, fill).await;
        assert_eq!(ended.exit_code, 137, "{ended:?}");
        well(&good).await;
        until("the disk is known to be full", async || {
            let wrote = bad.write(at("/tmp/x"), vec![1], Write::Replace).await;
            wrote.is_err_and(|error| error.code == koze_core::Code::TooLarge)
        })
        .await;
        // A program that removes files may run, and then there is space again.
        assert_eq!(sh(&bad, "rm -f /workspace/*; sleep 1").await.exit_code, 0);
        until("there is room", async || bad.write(at("/tmp/x"), vec![1], Write::Replace).await.is_ok()).await;
    })
}

fn nameless_disk_filler() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let bad = stage.sized(256, 30).await;
        let fill = "exec 3> /tmp/f; rm /tmp/f; while :; do head -c 1000000 /dev/zero >&3 || sleep 20; exec 4>&3; exec 3> /tmp/g; rm /tmp/g; sleep 0.02;
                    eval \"exec $((n=${n:-4}+1))>&3\"; done";
        // Bash, because numbers have more than one digit.
        let ended = bad.exec(command(&["bash", "-c", fill])).await.unwrap();
        assert_eq!(ended.exit_code, 137, "{ended:?}");
    })
}

fn one_long_file() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let bad = stage.sized(256, 20).await;
        let ended = sh(&bad, "truncate -s 30M /tmp/f").await;
        assert_ne!(ended.exit_code, 0, "{ended:?}");
        assert_eq!(sh(&bad, "truncate -s 10M /tmp/f").await.exit_code, 0);
    })
}

/// A file system has a limited number of inodes, which all sandboxes share.
fn empty_files() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.sized(64, 10).await;
        let ran = sh(&sandbox, "i=0; while :; do i=$((i + 1)); : > f$i || exit 1; done").await;
        assert_eq!(ran.exit_code, 137);
        let full = sandbox.write(at("/home/user/one-more"), Vec::new(), Write::Replace).await;
        assert_eq!(full.unwrap_err().code, koze_core::Code::TooLarge);
    })
}
