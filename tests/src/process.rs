//! Runs programs with a timeout.

use std::borrow::BorrowMut;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// How long a killed process group may take to close its outputs.
const GRACE: Duration = Duration::from_secs(5);

/// The polling interval of a running child.
const POLL: Duration = Duration::from_millis(5);

/// Runs `command` until it exits, without input, and captures both outputs.
///
/// # Panics
///
/// Panics if it does not start or does not finish within `timeout`. Its whole process group is killed then, and the
/// message contains its output. The command also counts as unfinished while a descendant keeps an output open.
pub fn run(mut command: impl BorrowMut<Command>, timeout: Duration) -> Output {
    let command = command.borrow_mut();
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

/// Returns the child's status, or `None` if it still runs at the deadline.
fn wait(child: &mut Child, deadline: Instant) -> Option<ExitStatus> {
    loop {
        let status = child.try_wait().expect("a child can be waited for");
        if status.is_some() || Instant::now() >= deadline {
            return status;
        }
        thread::sleep(POLL);
    }
}

/// Kills the child's process group, whose ID equals the child's. The ID cannot have been reused, because the child has
/// not been waited for, or a member of the group holds an output open.
fn kill(child: &mut Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // The group may have ended at this very moment.
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
}

fn text(bytes: Option<Vec<u8>>) -> String {
    bytes.map_or_else(|| "(still open)".to_owned(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Reads an output in a thread, so that a full pipe never blocks the child.
struct Reader(Receiver<Vec<u8>>);

impl Reader {
    fn new(output: Option<impl Read + Send + 'static>) -> Self {
        let (send, receive) = mpsc::channel();
        let mut output = output.expect("the output is a pipe");
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = output.read_to_end(&mut bytes);
            // The receiver is gone if the run timed out.
            let _ = send.send(bytes);
        });
        Self(receive)
    }

    /// Returns the whole output once it is closed, or `None` if it is still open at `deadline`.
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
    fn both_outputs_and_the_exit_code_are_captured() {
        // More than a pipe can buffer.
        let script = "head -c 300000 /dev/zero; echo err >&2; exit 3";
        let output = run(sh(script), Duration::from_secs(30));
        assert_eq!(output.status.code(), Some(3));
        assert_eq!(output.stdout.len(), 300_000);
        assert_eq!(output.stderr, b"err\n");
    }

    #[test]
    #[should_panic(expected = "not done after 1s\n--- stdout\nbegun\n")]
    fn a_slow_command_is_killed() {
        run(sh("echo begun; sleep 60"), Duration::from_secs(1));
    }

    #[test]
    #[should_panic(expected = "not done after 1s\n--- stdout\nbegun\n")]
    fn descendants_of_a_slow_command_are_killed() {
        run(sh("sleep 60 & echo begun"), Duration::from_secs(1));
    }
}
