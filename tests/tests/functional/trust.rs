//! State directories that another user owns, can write to, or has prepared: koze must neither send nor create anything
//! there.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{PermissionsExt as _, lchown, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use fs_err as fs;
use koze_tests::{Sandboxes, koze, run};
use rustix::process::{Gid, Uid};
use tempfile::TempDir;

use crate::common::sandboxes;

const TIMEOUT: Duration = Duration::from_mins(1);
const NOBODY: u32 = 65_534;
/// The input that no other user may receive.
const INPUT: &str = r#"{"command": "echo only-for-me"}"#;

/// A directory such as `/tmp`.
fn shared() -> TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    mode(dir.path(), 0o1777);
    dir
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("permissions");
}

/// Runs a function as another user, in a separate thread.
fn as_nobody<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> thread::JoinHandle<T> {
    thread::spawn(|| {
        rustix::thread::set_thread_groups(&[]).expect("no groups");
        rustix::thread::set_thread_gid(Gid::from_raw(NOBODY)).expect("the group");
        rustix::thread::set_thread_uid(Uid::from_raw(NOBODY)).expect("the user");
        work()
    })
}

/// Returns whether two users are available, and reports it if not.
fn two_users() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("left out: only root can play two users");
    }
    root
}

/// Another user's state directory, with a socket that records what it receives.
struct Trap {
    heard: mpsc::Receiver<String>,
}

impl Trap {
    /// Prepares a directory for the session with this socket.
    fn prepare(dir: &Path, socket: &str) -> Self {
        let (dir, socket) = (dir.to_owned(), socket.to_owned());
        let listener = as_nobody(move || {
            let session = socket.trim_end_matches(".socket");
            for made in [dir.join("sessions").join(session), dir.join("supervisors")] {
                fs::create_dir_all(made).expect("it prepares");
            }
            let socket = dir.join("supervisors").join(socket);
            let listener = UnixListener::bind(&socket).expect("it listens");
            mode(&socket, 0o777);
            listener
        });
        let listener = listener.join().expect("a trap");
        let (tell, heard) = mpsc::channel();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut line = String::new();
                let _ = BufReader::new(stream).read_line(&mut line);
                if !line.is_empty() && tell.send(line).is_err() {
                    break;
                }
            }
        });
        Trap { heard }
    }

    /// Returns everything received since the last call, up to a marker line that this function sends.
    fn heard(&self, socket: &Path) -> String {
        let mut stream = UnixStream::connect(socket).expect("the trap is reachable");
        writeln!(stream, "mark").expect("it listens");
        let mut all = String::new();
        loop {
            let line = self.heard.recv_timeout(TIMEOUT).expect("the mark");
            if line == "mark\n" {
                return all;
            }
            all.push_str(&line);
        }
    }
}

/// Returns the name of the default session's socket, and stops its supervisor.
fn socket_name(host: &Sandboxes) -> String {
    host.shell("true");
    host.kill_supervisors();
    let dir = host.path(host.state().expect("it is made")).join("supervisors");
    let mut names = fs::read_dir(dir).expect("its directory").flatten();
    let socket = names.find(|entry| entry.file_name().to_string_lossy().ends_with(".socket"));
    socket.expect("its socket").file_name().to_string_lossy().into_owned()
}

/// Checks that every command with a state directory fails with this message.
fn refused(host: &Sandboxes, dir: &Path, expected: &str) {
    let dir = dir.to_str().expect("a path in Unicode");
    for args in [&["call", "shell", INPUT][..], &["destroy", "default"], &["sandboxes"], &["mcp"]] {
        let ended = host.koze(&[args, &["--state", dir]].concat());
        assert_eq!((ended.code, ended.stdout.as_str()), (1, ""), "{args:?}: {ended:?}");
        assert_eq!(ended.stderr, format!("error[permission_denied]: {expected}\n"), "{args:?}");
    }
}

#[test]
fn nothing_is_sent_to_a_directory_that_another_user_prepared() {
    if !two_users() {
        return;
    }
    let (host, shared) = (sandboxes(), shared());
    let socket = socket_name(&host);
    let theirs = shared.path().join("prepared");
    let trap = Trap::prepare(&theirs, &socket);
    let there = theirs.join("supervisors").join(&socket);
    // The control: the kernel lets root connect to that socket, and the input is received.
    let mut stream = UnixStream::connect(&there).expect("nothing else is in the way");
    writeln!(stream, "{INPUT}").expect("it listens");
    assert_eq!(trap.heard(&there), format!("{INPUT}\n"));

    let text = format!(
        "the state directory {} is owned by uid {NOBODY}, who could read what is sent to its sandboxes; it must be \
         owned by you (uid 0): choose a directory of your own with --state",
        theirs.display()
    );
    refused(&host, &theirs, &text);
    assert_eq!(trap.heard(&there), "");

    // Now root owns everything but the directory of the sockets.
    lchown(&theirs, Some(0), Some(0)).expect("an owner");
    mode(&theirs, 0o755);
    let within = theirs.join("supervisors");
    refused(
        &host,
        &theirs,
        &text.replace(theirs.to_str().expect("a path"), within.to_str().expect("a path")),
    );
    assert_eq!(trap.heard(&there), "");

    // Now that directory, too: only the socket belongs to the other user.
    for dir in [within, theirs.join("sessions")] {
        lchown(&dir, Some(0), Some(0)).expect("an owner");
    }
    let dir = theirs.to_str().expect("a path in Unicode");
    let ended = host.koze(&["call", "shell", INPUT, "--state", dir]);
    let text =
        format!("its socket is served by another user (uid {NOBODY}), so nothing was sent; choose another");
    assert!(ended.code == 1 && ended.stdout.contains(&text), "{ended:?}");
    assert_eq!(trap.heard(&there), "");
}

#[test]
fn a_path_that_another_user_may_change_is_rejected() {
    if !two_users() {
        return;
    }
    let (host, shared) = (sandboxes(), shared());
    let theirs = shared.path().join("theirs");
    fs::create_dir(&theirs).expect("a directory");
    lchown(&theirs, Some(NOBODY), Some(NOBODY)).expect("an owner");
    let text = format!(
        "the state directory lies below {}, which is owned by uid {NOBODY}, who could replace it; each directory above \
         it must be owned by you (uid 0) or by root: choose a directory of your own with --state",
        theirs.display()
    );
    refused(&host, &theirs.join("state"), &text);
    assert!(fs::read_dir(&theirs).expect("the directory").next().is_none(), "nothing was made");

    let ours = shared.path().join("ours");
    fs::create_dir(&ours).expect("a directory");
    let link = shared.path().join("link");
    symlink(&ours, &link).expect("a link");
    let state = link.join("state");
    let works = |state: &PathBuf| {
        let dir = state.to_str().expect("a path in Unicode");
        host.koze(&["sandboxes", "--state", dir]).code == 0
    };
    // The control: a link of the own user works.
    assert!(works(&state) && works(&link));
    lchown(&link, Some(NOBODY), Some(NOBODY)).expect("an owner");
    let text = format!(
        "the way to the state directory leads over the symbolic link {}, which is owned by uid {NOBODY}; it must be \
         owned by you (uid 0) or by root: choose a directory of your own with --state",
        link.display()
    );
    refused(&host, &state, &text);
    refused(&host, &link, &text);
}

#[test]
fn a_directory_that_others_can_write_to_is_rejected() {
    let (host, shared) = (sandboxes(), shared());
    let dir = shared.path().join("above/state");
    fs::create_dir_all(&dir).expect("a directory");
    let you = rustix::process::geteuid().as_raw();
    let works = || {
        let run = host.koze(&["sandboxes", "--state", dir.to_str().expect("a path in Unicode")]);
        (run.code, run.stderr)
    };
    for open in [0o757, 0o777, 0o1777] {
        mode(&dir, open);
        let text = format!(
            "the state directory {0} (owned by uid {you}, mode {open:04o}) is writable by other users; only you (uid \
             {you}) may write it: run `chmod go-w {0}`, or choose a directory of your own with --state",
            dir.display()
        );
        refused(&host, &dir, &text);
        assert!(fs::read_dir(&dir).expect("the directory").next().is_none(), "nothing was made");
    }
    mode(&dir, 0o755);
    assert_eq!(works(), (0, String::new()));
    let above = dir.parent().expect("a directory");
    mode(above, 0o777);
    let text = format!(
        "the state directory lies below {0} (owned by uid {you}, mode 0777), in which other users may replace it; only \
         you (uid {you}) or root may write there, unless it has the sticky bit: run `chmod go-w {0}`, or choose a directory of your own with --state",
        above.display()
    );
    refused(&host, &dir, &text);
    mode(above, 0o1777);
    assert_eq!(works(), (0, String::new()), "as below /tmp");
}

#[test]
fn another_user_is_rejected_at_both_ends() {
    if !two_users() {
        return;
    }
    let (host, shared) = (sandboxes(), shared());
    host.shell("true");
    let state = host.path(host.state().expect("it is made"));
    let name = fs::read_dir(state.join("supervisors")).expect("its directory").flatten();
    let name = name.map(|entry| entry.file_name()).find(|name| name.to_string_lossy().ends_with(".socket"));
    let supervisors = state.join("supervisors");
    // Make the whole path accessible, so that only koze keeps the other user out. Socket paths are limited to 107
    // bytes.
    let above =
        state.ancestors().take_while(|dir| dir.starts_with(host.dir().parent().expect("a directory")));
    for dir in above.chain([supervisors.as_path()]) {
        mode(dir, 0o755);
    }
    let socket = supervisors.join(name.expect("its socket"));
    mode(&socket, 0o777);
    let short = shared.path().join("s");
    symlink(&socket, &short).expect("a link");
    let answer = as_nobody(move || {
        let mut stream = UnixStream::connect(short).expect("the kernel lets it through");
        let _ = writeln!(stream, r#"{{"program": "another", "ask": {{}}}}"#);
        let mut answer = String::new();
        let _ = BufReader::new(stream).read_line(&mut answer);
        answer
    });
    let answer = answer.join().expect("an answer");
    assert!(answer.contains("belong to another user"), "{answer}");
    assert_eq!(host.supervisors().len(), 1, "and it runs on");

    let copy = shared.path().join("koze");
    let mut cp = Command::new("cp");
    cp.arg(koze().get_program()).arg(&copy);
    assert!(run(cp, TIMEOUT).status.success(), "a copy of koze");
    let mut command = Command::new(copy);
    command.args(["sandboxes", "--state"]).arg(&state).current_dir("/").uid(NOBODY).gid(NOBODY);
    let ended = run(command, TIMEOUT);
    let output = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(output.contains("is owned by uid 0, who could read what is sent"), "{output}");
}
