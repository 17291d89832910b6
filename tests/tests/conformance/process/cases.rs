//! The required behavior of processes on every provider that runs programs. The Worker of the tests contains a copy of
//! this file, in which `koze_core` is `koze`.

use std::time::Duration;

use futures_util::future::join;
use koze_core::sandbox::process::{
    Exit, Overflow, Process, ProcessId, ProcessOutput, Program, Signal, Stdio, Stream,
};
use koze_core::{Code, Result, Sandbox};

/// A generous timeout for expected events.
const LONG: Duration = Duration::from_mins(1);
/// How long to wait to see that nothing happens.
const SHORT: Duration = Duration::from_millis(300);

/// Runs all cases on a sandbox, which is destroyed in the end. Returns the number of cases.
///
/// # Errors
/// The errors of the sandbox.
///
/// # Panics
/// If a process does something else.
pub(crate) async fn check<S: Sandbox>(sandbox: &S) -> Result<usize> {
    ends(sandbox).await?;
    input(sandbox).await?;
    signals(sandbox).await?;
    backpressure(sandbox).await?;
    drop_oldest(sandbox).await?;
    nobody_reads(sandbox).await?;
    found_again(sandbox).await?;
    two_readers(sandbox).await?;
    cursors(sandbox).await?;
    long_polls(sandbox).await?;
    background(sandbox).await?;
    refused(sandbox).await?;
    terminal(sandbox).await?;
    resized(sandbox).await?;
    job_control(sandbox).await?;
    destroyed(sandbox).await?;
    Ok(16)
}

pub(crate) fn program(argv: &[&str]) -> Program {
    Program::new(argv.iter().map(|&word| word.to_owned()).collect(), "/tmp")
}

pub(crate) fn sh(script: &str) -> Program {
    program(&["sh", "-c", script])
}

fn on_terminal(script: &str) -> Program {
    Program { stdio: Stdio::Terminal { rows: 24, columns: 80 }, ..sh(script) }
}

/// The complete output of a process.
#[derive(Debug, Default)]
pub(crate) struct All {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) dropped: u64,
    pub(crate) next: u64,
    pub(crate) exit: Option<Exit>,
}

impl All {
    fn add(&mut self, output: ProcessOutput) {
        for chunk in output.chunks {
            match chunk.stream {
                Stream::Stdout => self.stdout.extend(chunk.bytes),
                Stream::Stderr => self.stderr.extend(chunk.bytes),
            }
        }
        self.dropped += output.dropped;
        self.next = output.next;
        self.exit = output.exit;
    }

    fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

/// Returns the output of `seq`.
fn numbers(last: u32) -> String {
    (1..=last).flat_map(|number| [number.to_string(), "\n".to_owned()]).collect()
}

/// Reads to the end.
pub(crate) async fn all<P: Process>(process: &P, limit: usize) -> Result<All> {
    let mut all = All::default();
    while all.exit.is_none() {
        let output = process.read(all.next, limit, LONG).await?;
        assert!(output.next > all.next || output.exit.is_some(), "the time was up: {all:?}");
        all.add(output);
    }
    Ok(all)
}

/// Reads until something was printed.
async fn until<P: Process>(process: &P, text: &str) -> Result<All> {
    let mut all = All::default();
    while !all.out().contains(text) {
        let output = process.read(all.next, 1 << 20, LONG).await?;
        assert!(output.next > all.next, "it never printed {text:?}: {all:?}");
        all.add(output);
    }
    Ok(all)
}

async fn ends<S: Sandbox>(sandbox: &S) -> Result<()> {
    let process = sandbox.start(sh("pwd; echo $A; echo oops >&2; printf '\\377\\000\\376'; exit 77")).await?;
    let all_of_it = all(&process, 1 << 20).await?;
    assert_eq!(all_of_it.stdout, b"/tmp\n\n\xff\0\xfe");
    assert_eq!(all_of_it.stderr, b"oops\n");
    assert_eq!((all_of_it.dropped, all_of_it.next), (0, 14));
    assert_eq!(all_of_it.exit, Some(Exit { code: 77 }));
    assert_eq!(process.wait(Duration::ZERO).await?, Some(Exit { code: 77 }));
    let mut with_env = sh("echo \"$A\"; exec false");
    with_env.env = vec![("A".into(), "$(id)\n'".into())];
    let process = sandbox.start(with_env).await?;
    assert_eq!(process.wait(LONG).await?, Some(Exit { code: 1 }));
    // Byte by byte it is the same.
    assert_eq!(all(&process, 1).await?.stdout, b"$(id)\n'\n");
    Ok(())
}

async fn input<S: Sandbox>(sandbox: &S) -> Result<()> {
    let process = sandbox.start(program(&["cat"])).await?;
    let bytes: Vec<u8> = (0..=u8::MAX).collect();
    assert_eq!(process.write_stdin(bytes.clone(), LONG).await?, 256);
    assert_eq!(process.read(0, 256, LONG).await?.chunks[0].bytes, bytes);
    assert_eq!(process.write_stdin(Vec::new(), LONG).await?, 0);
    process.close_stdin().await?;
    process.close_stdin().await?;
    assert_eq!(process.wait(LONG).await?, Some(Exit { code: 0 }));
    let error = process.write_stdin(b"x".to_vec(), LONG).await.expect_err("it is closed");
    assert_eq!(error.code, Code::InvalidInput, "{error}");
    process.close_stdin().await?;
    // A program that reads nothing accepts what a pipe holds; the rest is reported as not taken.
    let process = sandbox.start(sh("read go; wc -c")).await?;
    let much = [b"go\n".to_vec(), vec![b'x'; 1 << 20]].concat();
    let mut taken = process.write_stdin(much.clone(), Duration::ZERO).await?;
    while taken < much.len() {
        taken += process.write_stdin(much[taken..].to_vec(), LONG).await?;
    }
    process.close_stdin().await?;
    assert_eq!(all(&process, 100).await?.out().trim(), (1 << 20).to_string());
    let process = sandbox.start(sh("sleep 1000")).await?;
    let taken = process.write_stdin(much.clone(), SHORT).await?;
    assert!(taken > 0 && taken < much.len(), "{taken}");
    assert_eq!(process.write_stdin(much, SHORT).await?, 0);
    process.signal(Signal::Kill).await
}

async fn signals<S: Sandbox>(sandbox: &S) -> Result<()> {
    for (signal, code) in [(Signal::Terminate, 143), (Signal::Interrupt, 130), (Signal::Kill, 137)] {
        let process = sandbox.start(program(&["sleep", "1000"])).await?;
        assert_eq!(process.wait(Duration::ZERO).await?, None);
        process.signal(signal).await?;
        assert_eq!(process.wait(LONG).await?, Some(Exit { code }), "{signal:?}");
        // Signaling an ended process is not an error, and affects no other process.
        process.signal(Signal::Kill).await?;
    }
    let process =
        sandbox.start(sh("trap 'echo heard; exit 5' USR1; echo up; while :; do sleep 0.05; done")).await?;
    until(&process, "up").await?;
    process.signal(Signal::Stop).await?;
    process.signal(Signal::User1).await?;
    assert_eq!(process.wait(SHORT).await?, None, "it is stopped");
    process.signal(Signal::Continue).await?;
    let all = all(&process, 100).await?;
    assert_eq!((all.out(), all.exit), ("up\nheard\n".into(), Some(Exit { code: 5 })));
    // All its descendants, including one in its own session.
    let process = sandbox.start(sh("setsid sleep 98765 & echo up; wait")).await?;
    until(&process, "up").await?;
    process.signal(Signal::Kill).await?;
    assert_eq!(process.wait(LONG).await?, Some(Exit { code: 137 }));
    // A process that was killed may take a moment to be gone.
    let left = "while cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -q '[s]leep 98765'; do sleep 0.05; done";
    assert_eq!(sandbox.start(sh(left)).await?.wait(LONG).await?, Some(Exit { code: 0 }), "it still runs");
    Ok(())
}

/// A slow reader slows the program down, and loses no output.
async fn backpressure<S: Sandbox>(sandbox: &S) -> Result<()> {
    let script = "seq 50000; seq 50000 >&2; echo over > /tmp/koze-over";
    let process =
        sandbox.start(Program { buffer: 4096, ..sh(&format!("rm -f /tmp/koze-over; {script}")) }).await?;
    assert_eq!(process.wait(SHORT).await?, None);
    let there = sandbox.start(sh("test -e /tmp/koze-over")).await?;
    assert_eq!(there.wait(LONG).await?, Some(Exit { code: 1 }), "the program waits");
    let read = all(&process, 3000).await?;
    let expected = numbers(50_000);
    assert!(read.stdout == expected.as_bytes() && read.stderr == expected.as_bytes());
    assert_eq!((read.dropped, read.exit), (0, Some(Exit { code: 0 })));
    Ok(())
}

async fn drop_oldest<S: Sandbox>(sandbox: &S) -> Result<()> {
    let program = Program { buffer: 4096, overflow: Overflow::DropOldest, ..sh("seq 100000; exit 3") };
    let process = sandbox.start(program).await?;
    assert_eq!(process.wait(LONG).await?, Some(Exit { code: 3 }));
    // Output may arrive after the end of the program. One reader waits for it, and a later one finds what was kept.
    all(&process, 1 << 20).await?;
    let late = all(&process, 1 << 20).await?;
    let whole = numbers(100_000);
    assert!(late.dropped > 0 && !late.stdout.is_empty() && late.stdout.len() <= 4096);
    assert_eq!(late.dropped + late.stdout.len() as u64, whole.len() as u64);
    assert!(whole.as_bytes().ends_with(&late.stdout));
    assert_eq!(late.exit, Some(Exit { code: 3 }));
    Ok(())
}

/// A program prints forever without a reader.
async fn nobody_reads<S: Sandbox>(sandbox: &S) -> Result<()> {
    let blocked = sandbox.start(program(&["yes"])).await?;
    let dropped = sandbox.start(Program { overflow: Overflow::DropOldest, ..program(&["yes"]) }).await?;
    let other = sandbox.start(sh("echo still here")).await?;
    assert_eq!(all(&other, 100).await?.out(), "still here\n");
    for process in [blocked, dropped] {
        process.signal(Signal::Kill).await?;
        assert_eq!(process.wait(LONG).await?, Some(Exit { code: 137 }));
        // Up to the end, including data in pipes.
        let read = all(&process, 1 << 20).await?;
        assert_eq!(read.exit, Some(Exit { code: 137 }));
        assert!(!read.stdout.is_empty());
    }
    Ok(())
}

async fn found_again<S: Sandbox>(sandbox: &S) -> Result<()> {
    let process = sandbox.start(sh("echo kept; exit 9")).await?;
    let running = sandbox.start(program(&["sleep", "1000"])).await?;
    process.wait(LONG).await?;
    let again = sandbox.process(process.id()).await?.expect("it is kept");
    assert_eq!(again.id(), process.id());
    assert_eq!(all(&again, 100).await?.out(), "kept\n");
    assert_eq!(all(&again, 100).await?.out(), "kept\n", "a reader takes nothing from others");
    assert!(sandbox.process(&ProcessId::random()).await?.is_none());
    let list = sandbox.processes().await?;
    let place = |id: &ProcessId| list.iter().position(|info| info.id == *id).expect("it is listed");
    let (first, second) = (place(process.id()), place(running.id()));
    assert!(first < second, "the oldest comes first");
    assert_eq!((&*list[first].program, list[first].exit), ("sh", Some(Exit { code: 9 })));
    assert_eq!((&*list[second].program, list[second].exit), ("sleep", None));
    assert!(!list[first].terminal);
    running.signal(Signal::Kill).await
}

async fn two_readers<S: Sandbox>(sandbox: &S) -> Result<()> {
    let process = sandbox.start(Program { buffer: 1 << 20, ..sh("seq 20000 | sed s/^/x/") }).await?;
    let (one, two) = join(all(&process, 1 << 20), all(&process, 777)).await;
    let (one, two) = (one?, two?);
    assert!(one.stdout == two.stdout && one.stdout.ends_with(b"x20000\n"));
    assert_eq!((one.dropped, two.dropped), (0, 0));
    // With a smaller buffer, the slower reader is told what it missed.
    let process = sandbox.start(Program { buffer: 4096, ..sh("seq 20000") }).await?;
    let first = all(&process, 4096).await?;
    assert_eq!((first.dropped, first.stdout.len()), (0, 108_894));
    let second = all(&process, 4096).await?;
    assert!(second.dropped > 0);
    assert_eq!(second.dropped + second.stdout.len() as u64, 108_894);
    Ok(())
}

async fn cursors<S: Sandbox>(sandbox: &S) -> Result<()> {
    let process = sandbox.start(sh("printf abc")).await?;
    process.wait(LONG).await?;
    let code = async |cursor, limit| process.read(cursor, limit, LONG).await.map_err(|error| error.code);
    assert_eq!(code(1 << 40, 1).await, Err(Code::InvalidInput));
    assert_eq!(code((1 << 53) - 1, 1).await, Err(Code::InvalidInput));
    assert_eq!(code(u64::MAX, 1).await, Err(Code::InvalidInput));
    assert_eq!(code(0, 0).await, Err(Code::InvalidInput));
    all(&process, 100).await?;
    assert_eq!(code(4, 1).await, Err(Code::InvalidInput));
    let end = process.read(3, usize::MAX, LONG).await?;
    assert_eq!((end.chunks, end.next, end.exit), (Vec::new(), 3, Some(Exit { code: 0 })));
    let middle = process.read(1, 1, LONG).await?;
    assert_eq!((&middle.chunks[0].bytes[..], middle.next, middle.exit), (&b"b"[..], 2, None));
    Ok(())
}

async fn long_polls<S: Sandbox>(sandbox: &S) -> Result<()> {
    let process = sandbox.start(sh("read line; echo \"got $line\"; read line; exit 4")).await?;
    let nothing = process.read(0, 100, SHORT).await?;
    assert_eq!((nothing.next, nothing.exit), (0, None));
    assert_eq!(nothing, process.read(0, 100, Duration::ZERO).await?);
    // Two readers wait, and both get the output.
    let written = process.write_stdin(b"this\n".to_vec(), LONG);
    let ((one, two), written) =
        join(join(process.read(0, 100, LONG), process.read(0, 100, LONG)), written).await;
    assert_eq!((&one?.chunks[0].bytes[..], written?), (&b"got this\n"[..], 5));
    assert_eq!(two?.next, 9);
    // The end wakes waiting readers too.
    let (end, (exit, written)) =
        join(process.read(9, 100, LONG), join(process.wait(LONG), process.write_stdin(b"\n".to_vec(), LONG)))
            .await;
    assert_eq!((exit?, written?), (Some(Exit { code: 4 }), 1));
    // The exit may come a moment after the end of the output.
    let end = end?;
    assert_eq!((end.chunks.len(), end.exit), (0, Some(Exit { code: 4 })));
    Ok(())
}

/// A background process with open pipes does not delay the end.
async fn background<S: Sandbox>(sandbox: &S) -> Result<()> {
    let process = sandbox.start(sh("(sleep 2; echo late) & echo early; exit 6")).await?;
    assert_eq!(process.wait(LONG).await?, Some(Exit { code: 6 }));
    let early = all(&process, 100).await?;
    assert_eq!((early.out(), early.exit), ("early\n".into(), Some(Exit { code: 6 })));
    // Later output can still be read.
    let mut later = early;
    while !later.out().contains("late") {
        let output = process.read(later.next, 100, SHORT).await?;
        later.add(output);
    }
    Ok(())
}

async fn refused<S: Sandbox>(sandbox: &S) -> Result<()> {
    let code = async |program: Program| sandbox.start(program).await.map(drop).map_err(|error| error.code);
    assert_eq!(code(program(&["no-such-program"])).await, Err(Code::NotFound));
    assert_eq!(code(program(&[])).await, Err(Code::InvalidInput));
    assert_eq!(code(program(&["a\0b"])).await, Err(Code::InvalidInput));
    assert_eq!(code(Program { working_dir: "/nowhere".into(), ..sh("true") }).await, Err(Code::NotFound));
    assert_eq!(code(Program { working_dir: "tmp".into(), ..sh("true") }).await, Err(Code::InvalidInput));
    assert_eq!(code(Program { buffer: 10, ..sh("true") }).await, Err(Code::InvalidInput));
    assert_eq!(code(Program { buffer: 1 << 30, ..sh("true") }).await, Err(Code::InvalidInput));
    let too_long = "x".repeat(131_072);
    let variable = Program { env: vec![("LONG".into(), too_long[5..].to_owned())], ..sh("true") };
    let all: Vec<&str> = std::iter::once("true").chain(std::iter::repeat_n(&too_long[1..], 20)).collect();
    for (program, message) in [
        (program(&["true", &too_long]), "argument 1 of the program has 131072 bytes: "),
        (variable, "the environment variable `LONG` has 131072 bytes: "),
        (program(&all), "the arguments and environment variables of the program "),
    ] {
        let error = sandbox.start(program).await.map(drop).expect_err(message);
        assert_eq!(error.code, Code::TooLarge);
        assert!(error.message.starts_with(message) && error.message.contains("to files"), "{error}");
    }
    let flat = Stdio::Terminal { rows: 0, columns: 80 };
    assert_eq!(code(Program { stdio: flat, ..sh("true") }).await, Err(Code::InvalidInput));
    let process = sandbox.start(program(&["sleep", "1000"])).await?;
    assert_eq!(process.resize(24, 80).await.map_err(|error| error.code), Err(Code::InvalidInput));
    process.signal(Signal::Kill).await
}

async fn terminal<S: Sandbox>(sandbox: &S) -> Result<()> {
    let script = "test -t 0 && test -t 1 && test -t 2 && stty size && echo $TERM && read line && echo \"<$line>\"; exit 8";
    let process = sandbox.start(on_terminal(script)).await?;
    let up = until(&process, "xterm-256color").await?.out();
    assert_eq!(up, "24 80\r\nxterm-256color\r\n");
    assert_eq!(process.write_stdin(b"hi\n".to_vec(), LONG).await?, 3);
    let read = all(&process, 100).await?;
    assert!(read.out().ends_with("\r\n<hi>\r\n"), "{read:?}");
    assert_eq!((read.exit, read.stderr.len()), (Some(Exit { code: 8 }), 0));
    let mut other = on_terminal("echo $TERM");
    other.env = vec![("TERM".into(), "dumb".into())];
    assert_eq!(all(&sandbox.start(other).await?, 100).await?.out(), "dumb\r\n");
    // The end of input, and the rest of a large output.
    let process = sandbox.start(on_terminal("cat; seq 20000")).await?;
    process.close_stdin().await?;
    process.wait(LONG).await?;
    let out = all(&process, 1 << 20).await?.out();
    assert!(out.ends_with("\r\n19999\r\n20000\r\n"), "{}", out.len());
    assert_eq!(out.len(), 108_894 + 20_000);
    assert!(sandbox.processes().await?.iter().any(|info| info.terminal));
    Ok(())
}

async fn resized<S: Sandbox>(sandbox: &S) -> Result<()> {
    let script = "trap 'stty size; exit 0' WINCH; echo up; while :; do sleep 0.05; done";
    let process = sandbox.start(on_terminal(script)).await?;
    until(&process, "up").await?;
    assert_eq!(process.resize(0, 80).await.map_err(|error| error.code), Err(Code::InvalidInput));
    process.resize(40, 132).await?;
    let read = all(&process, 1000).await?;
    assert_eq!((&*read.out(), read.exit), ("up\r\n40 132\r\n", Some(Exit { code: 0 })));
    // The terminal is no longer open.
    process.resize(10, 10).await
}

async fn job_control<S: Sandbox>(sandbox: &S) -> Result<()> {
    // Input reaches the foreground program, once it runs: the shell ignores Ctrl-C while it starts one.
    let process = sandbox.start(on_terminal("cat")).await?;
    process.write_stdin(b"up\n".to_vec(), LONG).await?;
    until(&process, "up\r\nup\r\n").await?;
    process.write_stdin(b"\x03".to_vec(), LONG).await?;
    assert_eq!(process.wait(LONG).await?, Some(Exit { code: 130 }));
    // The terminal controls only its own session.
    let process = sandbox
        .start(on_terminal(
            "echo into > /dev/tty; setsid sh -c 'echo none > /dev/tty' 2>/dev/null || echo refused",
        ))
        .await?;
    assert_eq!(all(&process, 1000).await?.out(), "into\r\nrefused\r\n");
    let process = sandbox.start(sh("echo none 2>/dev/null > /dev/tty || echo refused")).await?;
    assert_eq!(all(&process, 1000).await?.out(), "refused\n");
    Ok(())
}

async fn destroyed<S: Sandbox>(sandbox: &S) -> Result<()> {
    let process = sandbox.start(program(&["sleep", "1000"])).await?;
    let (read, gone) = join(process.read(0, 100, LONG), async {
        // The read is in progress by then.
        sandbox.start(sh("sleep 0.3")).await?.wait(LONG).await?;
        sandbox.destroy().await
    })
    .await;
    gone?;
    let error = read.expect_err("its sandbox has ended");
    assert!(matches!(error.code, Code::NotFound | Code::Unavailable), "{error}");
    let code = |error: koze_core::Error| error.code;
    assert_eq!(process.read(0, 100, SHORT).await.map_err(code), Err(Code::NotFound));
    assert_eq!(process.wait(SHORT).await.map_err(code), Err(Code::NotFound));
    assert_eq!(process.signal(Signal::Kill).await.map_err(code), Err(Code::NotFound));
    Ok(())
}
