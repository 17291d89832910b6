//! The container engine.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak, mpsc};
use std::thread;
use std::time::Duration;

use fs_err as fs;
use tempfile::TempDir;

use super::{front, official, root};
use crate::{process, processes, root as workspace};

/// The required programs that not every Linux has, with their Debian packages. `cargo xtask setup` installs them.
const NEEDS: [(&str, &str); 5] = [
    ("podman", "podman"),
    ("runc", "runc"),
    ("iptables", "iptables"),
    ("unshare", "util-linux"),
    ("perl", "perl-base"),
];

/// The start timeout. Another test process may be using the store.
const TIMEOUT: Duration = Duration::from_mins(20);

/// The timeout of a single command.
const LIMIT: Duration = Duration::from_mins(3);

/// The name of podman's socket.
const SOCKET: &str = "socket";
/// The name of the socket for wrangler and workerd.
const FRONT: &str = "front";

/// An image in the engine's store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image(pub String);

/// A running engine.
pub struct Engine {
    /// `engine.sh`, which exits at the end of its input.
    init: Child,
    /// The directory of its data.
    dir: PathBuf,
    /// The directory of its socket, which is separate because socket paths must be short.
    socket: TempDir,
    base: Image,
    sidecar: Image,
    unsaved: front::Unsaved,
}

impl Engine {
    /// Returns the engine of this process, starting it if necessary.
    ///
    /// # Errors
    ///
    /// Returns a message if this machine cannot run containers, with the reason and the remedy.
    ///
    /// # Panics
    ///
    /// Panics if the engine should be able to start but does not.
    pub fn shared(dir: &Path) -> Result<Arc<Engine>, String> {
        static CURRENT: Mutex<Weak<Engine>> = Mutex::new(Weak::new());
        let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(engine) = current.upgrade() {
            return Ok(engine);
        }
        Engine::check_machine()?;
        let engine = Arc::new(Engine::start(dir));
        *current = Arc::downgrade(&engine);
        Ok(engine)
    }

    /// Checks that this machine can run containers.
    ///
    /// # Errors
    ///
    /// Returns a message if it cannot, with the reason and the remedy.
    pub fn check_machine() -> Result<(), String> {
        if !rustix::process::geteuid().is_root() {
            return Err("only root can run containers: run the tests as root".to_owned());
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = |name: &str| std::env::split_paths(&path).any(|dir| dir.join(name).is_file());
        let mut missing = String::new();
        for (program, package) in NEEDS {
            if !found(program) {
                let _ = write!(missing, " {program} (Debian's package {package})");
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        Err(format!("there is no{missing}: run `cargo xtask setup`"))
    }

    fn start(dir: &Path) -> Self {
        fs::create_dir_all(dir).expect("a directory for the engine");
        let dir = fs::canonicalize(dir).expect("its path");
        forget_ports();
        let socket = TempDir::with_prefix("koze-engine-").expect("a temporary directory");
        let mut command = Command::new("unshare");
        command.args(["--pid", "--mount", "--mount-proc", "--fork", "--kill-child=KILL", "--", "bash"]);
        command.arg(workspace().join("tests/containers/engine.sh")).arg(&dir).arg(socket.path().join(SOCKET));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut init = command.spawn().expect("unshare starts");
        let output = first_line(&mut init);
        let unsaved = front::Unsaved::default();
        let podman = socket.path().join(SOCKET);
        front::listen(&socket.path().join(FRONT), podman, unsaved.clone()).expect("a socket");
        let (base, sidecar) = (Image(String::new()), Image(String::new()));
        let mut engine = Engine { init, dir, socket, base, sidecar, unsaved };
        let output = output.recv_timeout(TIMEOUT).unwrap_or_default();
        assert_eq!(output.trim(), "ready", "podman does not answer:\n{}", engine.log());
        engine.base = root::base(&engine);
        engine.sidecar = root::sidecar(&engine);
        engine
    }

    /// Returns the base image of the tests' sandboxes: a small Linux with the user 1000.
    pub fn base(&self) -> &Image {
        &self.base
    }

    /// Builds the stand-in for the official image of `@cloudflare/sandbox` if necessary, and returns it.
    pub fn official(&self) -> Image {
        official::official(self)
    }

    /// Returns the image of the sidecar that runs next to each container.
    pub fn sidecar(&self) -> &Image {
        &self.sidecar
    }

    /// Returns the environment for wrangler.
    pub fn env(&self) -> Vec<(&'static str, String)> {
        let host = format!("unix://{}", self.socket.path().join(FRONT).display());
        let docker = workspace().join("tests/containers/docker").to_string_lossy().into_owned();
        vec![
            ("DOCKER_HOST", host.clone()),
            ("WRANGLER_DOCKER_HOST", host),
            ("WRANGLER_DOCKER_BIN", docker),
            ("MINIFLARE_CONTAINER_EGRESS_IMAGE", self.sidecar.0.clone()),
        ]
    }

    /// Runs a podman command that must succeed, and returns its output without the trailing newline.
    pub fn podman(&self, args: &[&str]) -> String {
        let Output { status, stdout, stderr } = self.ask(args);
        let stderr = String::from_utf8_lossy(&stderr);
        assert!(status.success(), "podman {args:?}: {status}: {stderr}\n{}", self.log());
        String::from_utf8_lossy(&stdout).trim_end().to_owned()
    }

    /// Runs a podman command.
    pub fn ask(&self, args: &[&str]) -> Output {
        let mut command = Command::new("podman");
        command.args(["--remote", "--url", &self.host()]).args(args);
        process::run(command, LIMIT)
    }

    /// Returns the names of the running containers, without their sidecars.
    pub fn containers(&self) -> Vec<String> {
        let names = self.podman(&["ps", "--format", "{{.Names}}"]);
        names.lines().filter(|name| !name.ends_with("-proxy")).map(str::to_owned).collect()
    }

    /// Returns the process ID of a container's first process on this machine, which differs from podman's.
    pub fn first_process(&self, container: &str) -> Option<i32> {
        let id = self.podman(&["inspect", "--format", "{{.Id}}", container]);
        let of_it = |pid: &i32| {
            fs::read_to_string(format!("/proc/{pid}/cgroup")).is_ok_and(|text| text.contains(&id))
        };
        let is_first = |pid: &i32| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
            ids.and_then(|ids| ids.split_whitespace().last()) == Some("1")
        };
        processes(|_| true).into_iter().filter(of_it).find(is_first)
    }

    /// Refuses to save the disk of a container, until [`save_disk`](Self::save_disk).
    pub fn refuse_disk(&self, container: &str) {
        self.unsaved.add(container);
    }

    /// Returns how often it refused that.
    pub fn refused_disks(&self, container: &str) -> usize {
        self.unsaved.count(container)
    }

    /// Saves the disk of a container again.
    pub fn save_disk(&self, container: &str) {
        self.unsaved.remove(container);
    }

    /// Lets an image stand in for `cloudflare/debian-trixie`.
    pub fn set_platform_image(&self, image: &Image) {
        self.tag(image, &front::platform_image());
    }

    /// Gives an image another name, so that it is not pulled.
    pub fn tag(&self, image: &Image, name: &str) {
        self.podman(&["tag", &image.0, name]);
    }

    /// Loads an image from a file and names it.
    pub fn load(&self, file: &Path, name: &str) -> Image {
        let loaded = self.podman(&["load", "--quiet", "--input", file.to_str().expect("a path in Unicode")]);
        let image = loaded.lines().find_map(|line| line.split_once(": ").map(|(_, name)| name.to_owned()));
        self.tag(&Image(image.expect("the image's name")), name);
        Image(name.to_owned())
    }

    /// Builds an image.
    pub fn build(&self, tag: &str, dockerfile: &str, context: &Path) -> Image {
        let file = TempDir::with_prefix("koze-image-").expect("a temporary directory");
        let path = file.path().join("Dockerfile");
        fs::write(&path, dockerfile).expect("a Dockerfile");
        let [path, context] = [&*path, context].map(|path| path.to_str().expect("a path in Unicode"));
        let build = ["build", "--isolation", "chroot", "--pull=never", "--layers=false"];
        self.podman(&[&build[..], &["--tag", tag, "--file", path, context]].concat());
        Image(tag.to_owned())
    }

    /// Returns the end of the log.
    pub fn log(&self) -> String {
        let log = fs::read_to_string(self.dir.join("engine.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }

    pub(super) fn has(&self, image: &Image) -> bool {
        self.ask(&["image", "exists", &image.0]).status.success()
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the address at which it listens.
    pub fn host(&self) -> String {
        format!("unix://{}", self.socket.path().join(SOCKET).display())
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // At the end of its input, the engine stops all containers and exits.
        drop(self.init.stdin.take());
        let _ = self.init.wait();
        forget_ports();
    }
}

/// Removes stale rules for this machine's ports, also those of an engine that was killed.
fn forget_ports() {
    let mut bash = Command::new("bash");
    bash.arg(workspace().join("tests/containers/forget-ports.sh"));
    bash.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // If this fails, the tests themselves report it.
    let _ = bash.status();
}

/// Returns a channel for the first line that a child prints. The rest is discarded.
fn first_line(child: &mut Child) -> mpsc::Receiver<String> {
    let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    let (send, output) = mpsc::channel();
    thread::spawn(move || {
        let mut line = String::new();
        let _ = stdout.read_line(&mut line);
        let _ = send.send(line);
    });
    output
}
