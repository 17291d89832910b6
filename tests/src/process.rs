//! Running a program for a bounded time.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// How long a killed process group gets to let go of its outputs.
const GRACE: Duration = Duration::from_secs(5);

/// How often a running child is asked whether it is done.
const POLL: Duration = Duration::from_millis(5);

/// Runs `command` to its end, with no input and both outputs read.
///
/// # Panics
///
/// If it does not start, or is not done after `timeout`: everything in its process group is killed then, and
/// the message holds what it had printed. A child of the command that outlives it with an output open counts
/// as not done.
pub fn run(mut command: Command, timeout: Duration) -> Output {
    let deadline = Instant::now() + timeout;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?} did not start: {error}"));
    let stdout = Reader::new(child.stdout.take());
    let stderr = Reader::new(child.stderr.take());

    let status = wait(&mut child, deadline);
    let printed = (stdout.until(deadline), stderr.until(deadline));
    match (status, printed) {
        (Some(status), (Some(stdout), Some(stderr))) => Output { status, stdout, stderr },
        (_, (out, err)) => {
            kill(&mut child);
            let grace = Instant::now() + GRACE;
            panic!(
                "{command:?} was not done after {timeout:?}\n--- stdout\n{}\n--- stderr\n{}",
                text(out.or_else(|| stdout.until(grace))),
                text(err.or_else(|| stderr.until(grace))),
            )
        }
    }
}

/// The child's status, or nothing if it still runs at the deadline.
fn wait(child: &mut Child, deadline: Instant) -> Option<ExitStatus> {
    loop {
        let status = child.try_wait().expect("a child can be waited for");
        if status.is_some() || Instant::now() >= deadline {
            return status;
        }
        thread::sleep(POLL);
    }
}

/// Ends the child's process group. The child leads it, so their ids are equal; the id is not free for
/// others yet, for either the child has not been waited for or a member of the group holds an output open.
fn kill(child: &mut Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // It may have ended by itself at this very moment.
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
}

fn text(bytes: Option<Vec<u8>>) -> String {
    bytes.map_or_else(|| "(still open)".to_owned(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Reads one output on a thread, so that a full pipe never stops the child.
struct Reader(Receiver<Vec<u8>>);

impl Reader {
    fn new(output: Option<impl Read + Send + 'static>) -> Self {
        let (send, receive) = mpsc::channel();
        let mut output = output.expect("the output is a pipe");
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = output.read_to_end(&mut bytes);
            // Nobody listens any more when the run was given up.
            let _ = send.send(bytes);
        });
        Self(receive)
    }

    /// Everything that was printed, once the output is closed; nothing if it is open at `deadline`.
    fn until(&self, deadline: Instant) -> Option<Vec<u8>> {
        let left = deadline.saturating_duration_since(Instant::now());
        self.0.recv_timeout(left).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn both_outputs_and_the_code() {
        // More than a pipe holds.
        let script = "head -c 300000 /dev/zero; echo err >&2; exit 3";
        let output = run(sh(script), Duration::from_secs(30));
        assert_eq!(output.status.code(), Some(3));
        assert_eq!(output.stdout.len(), 300_000);
        assert_eq!(output.stderr, b"err\n");
    }

    #[test]
    #[should_panic(expected = "not done after 200ms\n--- stdout\nbegun\n")]
    fn a_slow_command_is_killed() {
        run(sh("echo begun; sleep 60"), Duration::from_millis(200));
    }

    #[test]
    #[should_panic(expected = "not done after 200ms\n--- stdout\nbegun\n")]
    fn so_is_what_it_left_behind() {
        run(sh("sleep 60 & echo begun"), Duration::from_millis(200));
    }
}
