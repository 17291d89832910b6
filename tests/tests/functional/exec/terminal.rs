//! Programs on a terminal: `koze exec -it` and `koze shell`, with a pseudoterminal as the user's.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use koze_tests::{Sandboxes, eventually, signal, sleeps};
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Termios, Winsize, tcgetattr, tcsetwinsize};

use super::{printed, unique_seconds, with_sandbox};

/// A command on a terminal. Dropping it kills the command.
struct OnTerminal {
    koze: Child,
    /// The user's side of the terminal.
    user: File,
    /// The command's side.
    inside: File,
    printed: Arc<Mutex<Vec<u8>>>,
    before: Settings,
}

/// The settings of a terminal that raw mode changes.
type Settings = (u32, u32, u32, u32);

fn settings(of: &Termios) -> Settings {
    (of.input_modes.bits(), of.output_modes.bits(), of.control_modes.bits(), of.local_modes.bits())
}

impl OnTerminal {
    fn start(host: &Sandboxes, args: &[&str]) -> Self {
        Self::run(host.command(args))
    }

    fn run(mut command: Command) -> Self {
        let user =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
        grantpt(&user).expect("a terminal");
        unlockpt(&user).expect("a terminal");
        let path = ptsname(&user, Vec::new()).expect("a path").into_string().expect("a path");
        let inside = OpenOptions::new().read(true).write(true).open(path).expect("the other side");
        set_size(&inside, 30, 100);
        let before = settings(&tcgetattr(&inside).expect("a terminal"));
        let side = || OwnedFd::from(inside.try_clone().expect("a descriptor"));
        let koze = command.stdin(side()).stdout(side()).stderr(side()).spawn().expect("koze");
        let user = File::from(user);
        let mut reader = user.try_clone().expect("a descriptor");
        let printed = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&printed);
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = reader.read(&mut buffer) {
                seen.lock().expect("no panic").extend(&buffer[..read]);
            }
        });
        OnTerminal { koze, user, inside, printed, before }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.printed.lock().expect("no panic")).into_owned()
    }

    /// Waits until a text was printed.
    fn expect(&self, text: &str) {
        eventually(&format!("it prints {text:?}"), || self.text().contains(text));
    }

    fn type_keys(&mut self, keys: &str) {
        self.user.write_all(keys.as_bytes()).expect("a terminal");
    }

    fn signal(&self, number: Signal) {
        signal(i32::try_from(self.koze.id()).expect("a process ID"), number);
    }

    fn is_raw(&self) -> bool {
        !tcgetattr(&self.inside).expect("a terminal").local_modes.contains(LocalModes::ICANON)
    }

    /// Waits until the command has ended, and checks that it has restored the terminal.
    fn end(mut self) -> ExitStatus {
        let status = self.koze.wait().expect("a child");
        let after = settings(&tcgetattr(&self.inside).expect("a terminal"));
        assert_eq!(after, self.before, "{}", self.text());
        status
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        let _ = self.koze.kill();
        let _ = self.koze.wait();
    }
}

fn set_size(terminal: &File, rows: u16, columns: u16) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).expect("a terminal");
}

/// Uses a shell as a person does: its terminal, the size of the window, Ctrl-C, and its exit code.
fn use_shell(mut shell: OnTerminal, seconds: &str) {
    shell.expect("$ ");
    assert!(shell.is_raw());
    shell.type_keys("tty; stty size\n");
    shell.expect("/dev/pts/");
    shell.expect("30 100");
    set_size(&shell.inside, 40, 120);
    shell.signal(Signal::WINCH);
    shell.type_keys("until [ \"$(stty size)\" = '40 120' ]; do sleep 0.05; done; echo re\"\"sized\n");
    shell.expect("resized");
    shell.type_keys(&format!("sleep {seconds}\n"));
    eventually("the program runs", || sleeps(seconds));
    shell.type_keys("\x03");
    eventually("Ctrl-C has ended it", || !sleeps(seconds));
    shell.type_keys("exit 3\n");
    assert_eq!(shell.end().code(), Some(3));
}

#[test]
fn a_shell_on_a_terminal() {
    let host = with_sandbox();
    // The only sandbox of the session.
    let shell = OnTerminal::start(&host, &["shell"]);
    use_shell(shell, &unique_seconds(7105));
}

#[test]
fn signals_end_the_command_and_restore_its_terminal() {
    let host = with_sandbox();
    for (number, kind) in [(15, Signal::TERM), (1, Signal::HUP)] {
        let seconds = unique_seconds(7106 + number);
        let args = ["exec", "-it", "default", "--", "sleep", &seconds];
        let on_terminal = OnTerminal::start(&host, &args);
        eventually("the program runs", || sleeps(&seconds) && on_terminal.is_raw());
        on_terminal.signal(kind);
        assert_eq!(on_terminal.end().code(), i32::try_from(128 + number).ok());
        eventually("the program is gone", || !sleeps(&seconds));
    }
}

#[test]
fn a_program_on_a_terminal_ends_with_its_client() {
    let host = with_sandbox();
    let seconds = unique_seconds(7130);
    let on_terminal = OnTerminal::start(&host, &["exec", "-it", "default", "--", "sleep", &seconds]);
    eventually("the program runs", || sleeps(&seconds));
    drop(on_terminal);
    eventually("the program is gone", || !sleeps(&seconds));
}

#[test]
fn a_terminal_without_input_stays_as_it_is() {
    let host = with_sandbox();
    let run = host.koze(&["exec", "-t", "default", "--", "sh", "-c", "test -t 0 && test -t 1 && stty size"]);
    assert_eq!((run.code, run.stdout.as_str()), (0, "24 80\r\n"), "{}", run.stderr);
    insta::assert_snapshot!(printed(&host.koze(&["exec", "-it", "default", "--", "true"])), @"
    125
    error: standard input is not a terminal: leave out -t
    ");
    insta::assert_snapshot!(printed(&host.koze(&["shell"])), @"
    125
    error: standard input is not a terminal: use `koze exec -i`, which needs none
    ");
}

/// A server of the sandboxes. Dropping it kills the server.
struct Server {
    koze: Child,
    url: String,
}

impl Server {
    fn start(host: &Sandboxes) -> Self {
        let mut command = host.command(&["mcp", "--http"]);
        command.env("KOZE_MCP_TOKEN", TOKEN).stderr(Stdio::piped());
        let mut koze = command.spawn().expect("koze");
        let mut lines = BufReader::new(koze.stderr.take().expect("a pipe")).lines();
        let line = lines.next().expect("a line").expect("a line");
        let url = line.strip_prefix("koze mcp: ").and_then(|url| url.strip_suffix("/mcp")).expect("a URL");
        Server { koze, url: url.to_owned() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.koze.kill();
        let _ = self.koze.wait();
    }
}

const TOKEN: &str = "a-token-of-a-test";

#[test]
fn a_shell_of_a_server_on_a_terminal() {
    let host = with_sandbox();
    let server = Server::start(&host);
    let start = |args: &[&str]| {
        let mut command = host.command(&[args, &["--url", &server.url]].concat());
        command.env("KOZE_TOKEN", TOKEN);
        OnTerminal::run(command)
    };
    let shell = start(&["shell"]);
    use_shell(shell, &unique_seconds(7140));
    // A signal ends the command and the program, and restores the terminal.
    let seconds = unique_seconds(7141);
    let ending = start(&["shell"]);
    ending.expect("$ ");
    ending.signal(Signal::TERM);
    assert_eq!(ending.end().code(), Some(143));
    let mut command = host.command(&["exec", "--url", &server.url, "default", "--", "sleep", &seconds]);
    let program = OnTerminal::run({
        command.env("KOZE_TOKEN", TOKEN);
        command
    });
    eventually("the program runs", || sleeps(&seconds));
    program.signal(Signal::INT);
    assert_eq!(program.end().code(), Some(130));
    eventually("the program is gone", || !sleeps(&seconds));
}
