//! `koze cp --url` of a large file whose connection is cut off, or whose command is killed.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use fs_err as fs;
use koze_tests::{Sandboxes, eventually, run};
use serde_json::{Value, json};

use crate::http::{bearer, send};
use crate::server::{Http, TIMEOUT, project};

/// A copy goes on at a multiple of this.
const STEP: u64 = 16 << 20;
/// The size of the file.
const SIZE: u64 = 3 * STEP;

/// No limit.
const NEVER: u64 = u64::MAX;

/// Passes connections on to a server, and counts the bytes that it sends.
struct Relay {
    address: String,
    state: Arc<State>,
}

/// What the connections of a relay share. The limits are numbers of bytes of all connections.
struct State {
    passed: AtomicU64,
    /// After this many, nothing more arrives until this is larger.
    stalls: AtomicU64,
    /// After this many, one connection is closed.
    closes: AtomicU64,
}

impl Relay {
    fn start(server: &Http, stalls: u64, closes: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let (passed, stalls, closes) = (AtomicU64::new(0), AtomicU64::new(stalls), AtomicU64::new(closes));
        let state = Arc::new(State { passed, stalls, closes });
        let (to, shared) = (server.address().to_owned(), Arc::clone(&state));
        // The threads end with the test program.
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (server, state) = (TcpStream::connect(&to).expect("it listens"), Arc::clone(&shared));
                thread::spawn(move || pass(client, server, &state));
            }
        });
        Relay { address, state }
    }

    /// Lets everything pass from now on, and counts again.
    fn open(&self) {
        self.state.stalls.store(NEVER, Ordering::Release);
        self.state.passed.store(0, Ordering::Release);
    }

    fn passed(&self) -> u64 {
        self.state.passed.load(Ordering::Acquire)
    }
}

fn pass(client: TcpStream, server: TcpStream, state: &State) {
    let (mut from, mut to) = (client.try_clone().expect("a stream"), server.try_clone().expect("a stream"));
    thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
    });
    let (mut from, mut to, mut buffer) = (server, client, vec![0; 64 << 10]);
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let passed = state.passed.fetch_add(count as u64, Ordering::AcqRel) + count as u64;
        while passed > state.stalls.load(Ordering::Acquire) {
            thread::sleep(Duration::from_millis(10));
        }
        let closes = state.closes.load(Ordering::Acquire);
        let is_closed = passed > closes
            && state.closes.compare_exchange(closes, NEVER, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if is_closed || to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// A server whose sandbox has a large file, and a place to copy it to.
struct Scene {
    host: Sandboxes,
    server: Http,
}

impl Scene {
    fn new() -> Self {
        let host = project();
        let server = Http::start(&host, &[]);
        fs::create_dir(host.path("place")).expect("a directory");
        let scene = Scene { host, server };
        scene.shell(&format!("head -c {SIZE} /dev/urandom > big"));
        scene
    }

    fn shell(&self, command: &str) -> String {
        let headers = format!("Host: localhost\r\n{}", bearer(&self.server));
        let input = json!({ "command": command }).to_string();
        let request = "POST /sessions/default/tools/shell";
        let (status, answer) = send(&self.server, request, &headers, input.as_bytes());
        let body: Value =
            serde_json::from_str(answer.split_once("\r\n\r\n").expect("a head").1).expect("JSON");
        assert_eq!((status, &body["isError"]), (200, &json!(false)), "{body}");
        let output: Value = serde_json::from_str(body["content"].as_str().expect("text")).expect("JSON");
        output["stdout"].as_str().expect("text").to_owned()
    }

    /// Returns a command that copies the file through a relay.
    fn copy(&self, relay: &Relay) -> Command {
        let url = format!("--url=http://{}", relay.address);
        let mut command = self.host.command(&["cp", &url, "default:big", "copy"]);
        command.current_dir(self.place()).env("KOZE_TOKEN", &self.server.token);
        command
    }

    fn place(&self) -> PathBuf {
        self.host.path("place")
    }

    /// Returns the partial files.
    fn partial(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.place()).expect("a directory");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        paths.filter(|path| path.extension().is_some_and(|end| end == "part")).collect()
    }

    /// Checks that the copy is the file, and that nothing else is there.
    fn check_copied(&self) {
        let sum = self.shell("sha256sum big");
        let mut command = Command::new("sha256sum");
        command.arg(self.place().join("copy"));
        let own = String::from_utf8(run(command, TIMEOUT).stdout).expect("text");
        let [sum, own] = [sum, own].map(|line| line.split(' ').next().unwrap_or_default().to_owned());
        assert_eq!(own, sum);
        assert_eq!(fs::read_dir(self.place()).expect("a directory").count(), 1);
    }
}

/// Starts a copy whose connection stalls after two and a half steps, and kills it. Returns what it leaves.
fn kill_in_the_middle(scene: &Scene, relay: &Relay) -> PathBuf {
    let mut koze = scene.copy(relay).stdin(Stdio::null()).spawn().expect("koze starts");
    let length = |path: &PathBuf| fs::metadata(path).map_or(0, |about| about.len());
    eventually("two steps arrive", || scene.partial().iter().any(|path| length(path) > 2 * STEP));
    koze.kill().expect("it runs");
    koze.wait().expect("a child");
    relay.open();
    let [partial] = &scene.partial()[..] else { panic!("{:?}", scene.partial()) };
    partial.clone()
}

#[test]
fn a_killed_copy_goes_on_where_it_was() {
    let scene = Scene::new();
    fs::write(scene.place().join("copy"), "old").expect("a file");
    let relay = Relay::start(&scene.server, 2 * STEP + STEP / 2, NEVER);
    let partial = kill_in_the_middle(&scene, &relay);
    assert_eq!(fs::read_to_string(scene.place().join("copy")).expect("the copy"), "old");
    let inode = fs::metadata(&partial).expect("the part").ino();
    let output = run(scene.copy(&relay), TIMEOUT);
    assert!(output.status.success(), "{output:?}");
    scene.check_copied();
    assert_eq!(fs::metadata(scene.place().join("copy")).expect("the copy").ino(), inode);
    // The last step, and what was on its way when the first response was left.
    assert!(relay.passed() < 2 * STEP + STEP / 2, "{} bytes", relay.passed());
}

#[test]
fn versions_are_never_mixed() {
    let scene = Scene::new();
    let relay = Relay::start(&scene.server, 2 * STEP + STEP / 2, NEVER);
    let partial = kill_in_the_middle(&scene, &relay);
    // Another file of the same size.
    scene.shell(&format!("head -c {SIZE} /dev/urandom > other; mv other big"));
    let output = run(scene.copy(&relay), TIMEOUT);
    assert!(output.status.success(), "{output:?}");
    scene.check_copied();
    assert!(!partial.exists());

    // A program changes the file in place while it is copied.
    fs::write(scene.place().join("copy"), "old").expect("a file");
    let relay = Relay::start(&scene.server, 2 * STEP + STEP / 2, NEVER);
    let mut koze = scene.copy(&relay);
    let koze = koze.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("koze starts");
    let length = |path: &PathBuf| fs::metadata(path).map_or(0, |about| about.len());
    eventually("two steps arrive", || scene.partial().iter().any(|path| length(path) > 2 * STEP));
    scene.shell(&format!("printf x | dd of=big bs=1 seek={} conv=notrunc 2> /dev/null", SIZE - 1));
    relay.open();
    let output = koze.wait_with_output().expect("koze ends");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("the file was changed while it was copied: try again"), "{told}");
    assert_eq!(fs::read_to_string(scene.place().join("copy")).expect("the copy"), "old");
    assert_eq!(scene.partial(), [""; 0].map(PathBuf::from));
}

#[test]
fn a_connection_that_is_cut_off_is_opened_again() {
    let scene = Scene::new();
    let relay = Relay::start(&scene.server, NEVER, STEP + STEP / 2);
    let output = run(scene.copy(&relay), TIMEOUT);
    assert!(output.status.success(), "{output:?}");
    scene.check_copied();
    assert!(relay.passed() < SIZE + STEP, "{} bytes", relay.passed());
    // To standard output, too.
    relay.state.passed.store(0, Ordering::Release);
    relay.state.closes.store(STEP + STEP / 2, Ordering::Release);
    let mut command =
        scene.host.command(&["cp", &format!("--url=http://{}", relay.address), "default:big", "-"]);
    command.env("KOZE_TOKEN", &scene.server.token);
    let output = run(command, TIMEOUT);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stdout == fs::read(scene.place().join("copy")).expect("the copy"));
}
