//! Processes: tests that are specific to local sandboxes, beyond `tests/tests/conformance/process`.

use std::io::{BufRead as _, BufReader};
use std::process::ExitCode;
use std::time::Duration;

use koze_core::sandbox::process::{
    Exit, Overflow, Process, ProcessId, ProcessOutput, Program, Signal, Stdio,
};
use koze_core::{Code, Provider, Sandbox};

use crate::Test;
use crate::stage::{Stage, host, id, out, settings, sh, until, victim, within};

/// The argument that makes this program start a process, print its ID, and wait to be killed.
pub(crate) const HOST: &str = "--processes";

pub(crate) const TESTS: &[Test] = &[
    ("process_starts_at_once", starts_at_once),
    ("process_makes_room", makes_room),
    ("process_background_survives_being_forgotten", forgotten),
    ("process_buffers_are_bounded", buffers),
    ("process_ends_with_sleep", ends_with_sleep),
    ("process_ends_with_its_supervisor", ends_with_its_supervisor),
    ("process_of_another_program", of_another_program),
    ("process_is_followed_by_nobody_else", cancelled_reads),
    ("process_killed_by_the_watch_says_so", killed_by_the_watch),
    ("process_beside_a_disk_filler_goes_on", disk_filler_ends_alone),
    ("process_terminal_belongs_to_the_sandbox", terminal),
    ("process_terminals_are_few", terminals),
];

const LONG: Duration = Duration::from_mins(1);

fn script(text: &str) -> Program {
    Program::new(vec!["sh".into(), "-c".into(), text.into()], "/home/user")
}

async fn all<P: Process>(process: &P) -> (String, Exit) {
    let (mut text, mut cursor) = (Vec::new(), 0);
    loop {
        let ProcessOutput { chunks, next, dropped, exit } =
            process.read(cursor, 1 << 20, LONG).await.unwrap();
        assert!(next > cursor || exit.is_some(), "the time was up");
        assert_eq!(dropped, 0);
        text.extend(chunks.into_iter().flat_map(|chunk| chunk.bytes));
        cursor = next;
        if let Some(exit) = exit {
            return (String::from_utf8_lossy(&text).into_owned(), exit);
        }
    }
}

/// The number of running processes is limited, and rejected ones leave nothing behind.
fn starts_at_once() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        let starts = (0..1000).map(|_| {
            let sandbox = sandbox.clone();
            tokio::spawn(async move { sandbox.start(script("exec sleep 1000")).await })
        });
        let mut started = Vec::new();
        for start in starts.collect::<Vec<_>>() {
            match start.await.unwrap() {
                Ok(process) => started.push(process),
                Err(error) => assert_eq!(error.code, Code::Unavailable, "{error}"),
            }
        }
        assert_eq!(started.len(), 64);
        assert_eq!(sandbox.processes().await.unwrap().len(), 64);
        // Each is a shell first.
        let sleeping =
            "until [ $(grep -lx sleep /proc/[0-9]*/comm | wc -l) = 64 ]; do sleep 0.05; done; echo all";
        assert_eq!(out(&sandbox, sleeping).await, "all");
        started[0].signal(Signal::Kill).await.unwrap();
        assert_eq!(started[0].wait(LONG).await.unwrap(), Some(Exit { code: 137 }));
        sandbox.start(script("exec sleep 1000")).await.unwrap();
    })
}

/// The oldest ended processes are removed, but never a running one.
fn makes_room() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        let runs = sandbox.start(script("exec sleep 1000")).await.unwrap();
        let first = sandbox.start(script("echo first")).await.unwrap();
        first.wait(LONG).await.unwrap();
        for _ in 0..70 {
            sandbox.start(script("true")).await.unwrap().wait(LONG).await.unwrap();
        }
        assert_eq!(first.read(0, 1, LONG).await.unwrap_err().code, Code::NotFound);
        assert!(sandbox.process(first.id()).await.unwrap().is_none());
        assert!(sandbox.process(runs.id()).await.unwrap().is_some());
        assert!(sandbox.processes().await.unwrap().len() <= 66);
    })
}

/// Background processes of a removed process keep running.
fn forgotten() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        // It writes more than the buffer and a pipe hold, and blocks until the process is removed.
        let script_text = "(seq 100000; echo over > over) & exit 0";
        let first = sandbox.start(Program { buffer: 4096, ..script(script_text) }).await.unwrap();
        first.wait(LONG).await.unwrap();
        assert_eq!(out(&sandbox, "sleep 0.5; ls").await, "");
        for _ in 0..70 {
            sandbox.start(script("true")).await.unwrap().wait(LONG).await.unwrap();
        }
        until("it goes on", async || out(&sandbox, "ls").await == "over").await;
    })
}

fn buffers() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        let large = |text: &str| Program { buffer: 8 << 20, ..script(text) };
        let mut running = Vec::new();
        for _ in 0..4 {
            running.push(sandbox.start(large("exec sleep 1000")).await.unwrap());
        }
        let error = sandbox.start(Program { buffer: 4096, ..script("true") }).await.unwrap_err();
        assert_eq!(error.code, Code::Unavailable, "{error}");
        assert!(error.message.contains("33554432 bytes"), "{error}");
        running[0].signal(Signal::Terminate).await.unwrap();
        running[0].wait(LONG).await.unwrap();
        // Its streams close a moment after its end, which releases its room.
        until("there is room", async || sandbox.start(large("true")).await.is_ok()).await;
        // An ended process counts only its output; while its child can write, its whole buffer counts.
        for process in &running[1..] {
            process.signal(Signal::Kill).await.unwrap();
            process.wait(LONG).await.unwrap();
        }
        let child = sandbox.start(large("yes & exit 0")).await.unwrap();
        child.wait(LONG).await.unwrap();
        for _ in 0..4 {
            sandbox.start(large("exec sleep 1000")).await.unwrap();
        }
        assert!(sandbox.process(child.id()).await.unwrap().is_none(), "it had to go");
    })
}

fn ends_with_sleep() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let mut short = settings();
        short.sleep_after = Duration::from_secs(1);
        let sandbox = stage.local.open(&id("a"), &short).await.unwrap().sandbox;
        let process = sandbox.start(script("exec sleep 1000")).await.unwrap();
        // A waiting reader is a use of the sandbox; a process is not.
        let waited = process.read(0, 1, Duration::from_secs(3)).await.unwrap();
        assert_eq!((waited.next, waited.exit), (0, None));
        until("it sleeps", async || sandbox.status().await.unwrap() == koze_core::sandbox::Status::Sleeping)
            .await;
        assert!(sandbox.process(process.id()).await.unwrap().is_none());
        assert_eq!(sandbox.processes().await.unwrap(), []);
        for error in [
            process.wait(LONG).await.map(drop),
            process.read(0, 1, LONG).await.map(drop),
            process.write_stdin(b"x".to_vec(), LONG).await.map(drop),
            process.close_stdin().await,
            process.signal(Signal::Kill).await,
        ] {
            assert_eq!(error.unwrap_err().code, Code::NotFound);
        }
        // None of this has started the sandbox, and starting it does not restore the processes.
        assert_eq!(sandbox.status().await.unwrap(), koze_core::sandbox::Status::Sleeping);
        out(&sandbox, "true").await;
        assert!(sandbox.process(process.id()).await.unwrap().is_none());
        assert_eq!(process.wait(LONG).await.unwrap_err().code, Code::NotFound);
    })
}

/// The host of the test that kills one.
pub(crate) fn run() -> ExitCode {
    host(async |local| {
        let sandbox = local.open(&id("kept"), &settings()).await.unwrap().sandbox;
        let stdio = Stdio::Terminal { rows: 24, columns: 80 };
        let process = sandbox.start(Program { stdio, ..script("exec sleep 98763") }).await.unwrap();
        println!("{}", process.id());
        std::future::pending::<()>().await;
    })
}

fn started(stage: &Stage) -> (std::process::Child, ProcessId) {
    let mut child = victim(stage, HOST);
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (child, ProcessId::new(line.trim()).unwrap())
}

fn on_the_host(mark: &str) -> bool {
    std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        std::fs::read(entry.path().join("cmdline"))
            .is_ok_and(|line| line.windows(mark.len()).any(|part| part == mark.as_bytes()))
    })
}

fn ends_with_its_supervisor() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let (mut child, process) = started(&stage);
        until("it runs", async || on_the_host("98763")).await;
        child.kill().unwrap();
        child.wait().unwrap();
        until("it is gone", async || !on_the_host("98763")).await;
        let sandbox = stage.local.find(&id("kept")).await.unwrap().unwrap().sandbox;
        until("it can be asked", async || sandbox.process(&process).await.is_ok()).await;
        assert!(sandbox.process(&process).await.unwrap().is_none());
        out(&sandbox, "true").await;
        assert!(sandbox.process(&process).await.unwrap().is_none());
    })
}

/// Only that program can answer.
fn of_another_program() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let (mut child, process) = started(&stage);
        let sandbox = stage.local.find(&id("kept")).await.unwrap().unwrap().sandbox;
        assert_eq!(sandbox.process(&process).await.unwrap_err().code, Code::Unavailable);
        assert_eq!(sandbox.processes().await.unwrap_err().code, Code::Unavailable);
        child.kill().unwrap();
        child.wait().unwrap();
    })
}

/// An abandoned read ends, and does not keep the sandbox awake.
fn cancelled_reads() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let mut short = settings();
        short.sleep_after = Duration::from_secs(1);
        let sandbox = stage.local.open(&id("a"), &short).await.unwrap().sandbox;
        let process = sandbox.start(script("exec cat")).await.unwrap();
        for _ in 0..100 {
            let process = process.clone();
            let read = tokio::spawn(async move { process.read(0, 1, LONG * 60).await.map(drop) });
            tokio::task::yield_now().await;
            read.abort();
            assert!(read.await.unwrap_err().is_cancelled());
        }
        // A write that was canceled while it waited does not block others.
        let full = sandbox.start(script("exec sleep 1000")).await.unwrap();
        let write = full.write_stdin(vec![0; 1 << 20], LONG * 60);
        assert!(tokio::time::timeout(Duration::from_millis(200), write).await.is_err());
        assert_eq!(full.write_stdin(vec![0; 1], Duration::from_millis(200)).await.unwrap(), 0);
        process.write_stdin(b"ok".to_vec(), LONG).await.unwrap();
        assert_eq!(process.read(0, 9, LONG).await.unwrap().next, 2);
        until("it sleeps", async || sandbox.status().await.unwrap() == koze_core::sandbox::Status::Sleeping)
            .await;
    })
}

fn killed_by_the_watch() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.sized(256, 20).await;
        let process = sandbox
            .start(script("echo before; dd if=/dev/zero of=big bs=1M count=40 2>/dev/null; sleep 1000"))
            .await;
        let (text, exit) = all(&process.unwrap()).await;
        assert_eq!(exit, Exit { code: 137 });
        assert!(text.starts_with("before\n"), "{text}");
        assert!(
            text.contains("\nkoze: programs of this sandbox that wrote to its disk were killed: "),
            "{text}"
        );
    })
}

/// Programs that do not write to the disk go on when another one has filled it.
fn disk_filler_ends_alone() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.sized(256, 50).await;
        let server = sandbox.start(script("while sleep 0.1; do echo line; done")).await.unwrap();
        // Its children are killed with it, and so is what they leave in the background.
        let fill =
            "fill() { i=0; while :; do head -c 5000000 /dev/zero > /tmp/$1$i; i=$((i+1)); sleep 0.02; done; }
                    fill a & fill b";
        let ended = sh(&sandbox, fill).await;
        assert_eq!(ended.exit_code, 137, "{ended:?}");
        let text = String::from_utf8_lossy(&ended.stderr);
        assert!(
            text.contains("koze: programs of this sandbox that wrote to its disk were killed: "),
            "{text}"
        );
        let usage = "du -sm /tmp | cut -f1; sleep 1; du -sm /tmp | cut -f1";
        let grown = String::from_utf8(sh(&sandbox, usage).await.stdout).unwrap();
        let sizes: Vec<&str> = grown.lines().collect();
        assert_eq!(sizes[0], sizes[1], "nothing writes any more");
        assert_eq!(
            server.read(0, 100, Duration::ZERO).await.unwrap().exit,
            None,
            "the other program is alive"
        );
        assert_eq!(sh(&sandbox, "rm -f /tmp/*; sleep 1").await.exit_code, 0);
    })
}

/// The terminal belongs to the sandbox: the host has none of that name, and nothing can be typed into it.
fn terminal() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        let stdio = Stdio::Terminal { rows: 24, columns: 80 };
        let try_all = "tty; ls -l /proc/self/fd | grep -c /dev/pts/0; python3 - <<'END'
import fcntl, os, termios
for name, request in [('TIOCSTI', 0x5412), ('TIOCLINUX', 0x541C)]:
    for path in [0, '/dev/tty', '/dev/pts/0']:
        try:
            number = path if path == 0 else os.open(path, os.O_RDWR | os.O_NOCTTY)
            fcntl.ioctl(number, request, b'x')
            print(name, path, 'typed')
        except OSError as error:
            print(name, path, os.strerror(error.errno))
try:
    os.open('/dev/pts/1', os.O_RDWR | os.O_NOCTTY)
    print('another terminal')
except OSError as error:
    print(os.strerror(error.errno))
END
ls /dev/pts";
        let process = sandbox.start(Program { stdio, ..script(try_all) }).await.unwrap();
        let (text, exit) = all(&process).await;
        let refused: String = ["TIOCSTI", "TIOCLINUX"]
            .into_iter()
            .flat_map(|name| {
                ["0", "/dev/tty", "/dev/pts/0"]
                    .map(|path| format!("{name} {path} Operation not permitted\r\n"))
            })
            .collect();
        let expected = format!("/dev/pts/0\r\n2\r\n{refused}No such file or directory\r\n0  ptmx\r\n");
        assert_eq!((text, exit), (expected, Exit { code: 0 }));
        // An open terminal is not shared with another process.
        let other = sandbox.start(script("tty; ls -l /proc/self/fd | grep -c pts; true")).await.unwrap();
        assert_eq!(all(&other).await.0, "not a tty\n0\n");
    })
}

/// Terminals end with their process, and belong to the sandbox.
fn terminals() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        let stdio = Stdio::Terminal { rows: 24, columns: 80 };
        for _ in 0..300 {
            let process = sandbox.start(Program { stdio, ..script("exit 3") }).await.unwrap();
            assert_eq!(all(&process).await.1, Exit { code: 3 });
        }
        until("they are gone", async || out(&sandbox, "ls /dev/pts").await == "ptmx").await;
        // Programs can use up all terminals.
        let hold = "python3 -c 'import os
held = []
try:
    while True: held.append(os.openpty())
except OSError as error: print(error.errno, flush=True)
os.read(0, 1)'";
        let holder = sandbox.start(script(hold)).await.unwrap();
        holder.read(0, 9, LONG).await.unwrap();
        let error = sandbox.start(Program { stdio, ..script("true") }).await.unwrap_err();
        assert_eq!(error.code, Code::Unavailable, "{error}");
        let drop_oldest = Program { overflow: Overflow::DropOldest, ..script("echo pipes") };
        assert_eq!(all(&sandbox.start(drop_oldest).await.unwrap()).await.0, "pipes\n");
        holder.signal(Signal::Kill).await.unwrap();
        holder.wait(LONG).await.unwrap();
        // The kernel needs a moment to close them.
        until("there are terminals", async || {
            sandbox.start(Program { stdio, ..script("true") }).await.is_ok()
        })
        .await;
        assert_eq!(sh(&sandbox, "true").await.exit_code, 0);
    })
}
