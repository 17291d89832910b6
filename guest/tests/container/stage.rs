//! Starts a guest as the first process of its own namespaces.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};

use rustix::process::{Pid, Signal};
use tempfile::TempDir;

use crate::client::{Client, TIMEOUT, until};

/// The token of every guest in these tests.
pub(crate) const TOKEN: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// How a guest is started.
pub(crate) struct How {
    /// The arguments of the guest.
    arguments: Vec<OsString>,
    env: Vec<(String, String)>,
    clear: bool,
    unshare: Vec<OsString>,
    /// A command that runs the guest.
    before: Vec<OsString>,
    binary: OsString,
    /// Without a PID namespace, as an ordinary process.
    plain: bool,
}

/// A running guest. Dropping it kills it with its descendants.
pub(crate) struct Stage {
    pub(crate) address: SocketAddr,
    /// The guest's own directory, which everybody may write to.
    pub(crate) dir: TempDir,
    child: Child,
    log: Arc<Log>,
}

#[derive(Default)]
struct Log {
    lines: Mutex<Vec<String>>,
    more: Condvar,
}

impl How {
    pub(crate) fn new() -> Self {
        How {
            arguments: Vec::new(),
            env: vec![("KOZE_GUEST_TOKEN".into(), TOKEN.into())],
            clear: false,
            unshare: vec!["--mount-proc".into()],
            before: Vec::new(),
            binary: env!("CARGO_BIN_EXE_koze-guest").into(),
            plain: false,
        }
    }

    pub(crate) fn arguments(mut self, all: &[&str]) -> Self {
        self.arguments = all.iter().map(Into::into).collect();
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Clears the environment.
    pub(crate) fn clear(mut self) -> Self {
        self.clear = true;
        self
    }

    /// Replaces the `unshare` argument `--mount-proc`.
    pub(crate) fn unshare<T: Into<OsString>>(mut self, all: impl IntoIterator<Item = T>) -> Self {
        self.unshare = all.into_iter().map(Into::into).collect();
        self
    }

    /// Starts the guest through another program.
    pub(crate) fn before(mut self, all: &[&str]) -> Self {
        self.before = all.iter().map(Into::into).collect();
        self
    }

    pub(crate) fn binary(mut self, path: impl Into<OsString>) -> Self {
        self.binary = path.into();
        self
    }

    pub(crate) fn plain(mut self) -> Self {
        self.plain = true;
        self
    }

    /// Leaves out protections.
    pub(crate) fn weak(self, names: &str) -> Self {
        if names.is_empty() { self } else { self.env("KOZE_GUEST_WEAK", names) }
    }

    fn command(&self) -> Command {
        let mut all: Vec<OsString> = Vec::new();
        if !self.plain {
            all.extend(["unshare", "--fork", "--pid", "--mount", "--kill-child"].map(Into::into));
            if !is_root() {
                all.extend(["--user", "--map-root-user"].map(Into::into));
            }
            all.extend(self.unshare.iter().cloned());
            all.push("--".into());
        }
        all.extend(self.before.iter().cloned());
        all.push(self.binary.clone());
        let mut command = Command::new(&all[0]);
        command.args(&all[1..]).args(&self.arguments);
        if self.clear {
            command.env_clear();
        }
        // The guest must not see the variables of the tests.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("KOZE_")) {
            command.env_remove(name);
        }
        command.env("KOZE_GUEST_LISTEN", "127.0.0.1:0").envs(self.env.clone());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts the guest.
    pub(crate) fn start(self) -> Stage {
        let dir = tempfile::tempdir().unwrap();
        let mut child = self.command().current_dir(dir.path()).spawn().unwrap();
        let log = Arc::new(Log::default());
        let streams: [Box<dyn Read + Send>; 2] =
            [Box::new(child.stdout.take().unwrap()), Box::new(child.stderr.take().unwrap())];
        for stream in streams {
            let log = Arc::clone(&log);
            std::thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    log.lines.lock().unwrap().push(line);
                    log.more.notify_all();
                }
            });
        }
        let line = log.find("koze-guest: listens at ");
        let address = line.rsplit(' ').next().unwrap().parse().unwrap();
        Stage { address, dir, child, log }
    }

    /// Runs a guest that exits by itself. Returns its exit code and output.
    pub(crate) fn run(self) -> (Option<i32>, String, String) {
        let output = self.command().output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }
}

impl Log {
    fn find(&self, part: &str) -> String {
        let lines = self.lines.lock().unwrap();
        let found = |lines: &Vec<String>| lines.iter().find(|line| line.contains(part)).cloned();
        let (lines, _) =
            self.more.wait_timeout_while(lines, TIMEOUT, |lines| found(lines).is_none()).unwrap();
        found(&lines).unwrap_or_else(|| panic!("nothing like `{part}` was printed: {lines:?}"))
    }
}

impl Stage {
    pub(crate) fn new() -> Self {
        How::new().start()
    }

    /// Opens an authenticated connection.
    pub(crate) fn client(&self) -> Client {
        Client::new(self.address, TOKEN).expect("the token is right")
    }

    /// Waits for a line with this text in the container's log.
    pub(crate) fn printed(&self, part: &str) -> String {
        self.log.find(part)
    }

    /// Returns a path in the guest's directory.
    pub(crate) fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    /// Returns the guest's process ID in this process's namespace.
    pub(crate) fn pid(&self) -> Pid {
        let children = format!("/proc/{0}/task/{0}/children", self.child.id());
        let mut pid = None;
        // Without a PID namespace it is the child itself.
        if fs::read_to_string(format!("/proc/{}/comm", self.child.id())).unwrap().trim() == "koze-guest" {
            pid = Some(self.child.id().cast_signed());
        }
        until(|| {
            pid = pid.or_else(|| fs::read_to_string(&children).ok()?.split(' ').next()?.parse().ok());
            pid.is_some()
        });
        Pid::from_raw(pid.expect("the guest runs")).unwrap()
    }

    /// Sends the guest a signal from outside, like a container runtime.
    pub(crate) fn signal(&self, signal: Signal) {
        rustix::process::kill_process(self.pid(), signal).unwrap();
    }

    /// Waits for the guest to exit. Returns its status.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        assert!(until(|| self.child.try_wait().unwrap().is_some()), "the guest ends");
        self.child.wait().unwrap()
    }

    /// Returns the guest's peak memory in bytes.
    pub(crate) fn peak(&self) -> u64 {
        self.about("VmHWM") * 1024
    }

    /// Returns its number of threads.
    pub(crate) fn threads(&self) -> u64 {
        self.about("Threads")
    }

    /// Returns its number of open descriptors, which only root can read.
    pub(crate) fn descriptors(&self) -> Option<usize> {
        is_root().then(|| fs::read_dir(format!("/proc/{}/fd", self.pid().as_raw_pid())).unwrap().count())
    }

    fn about(&self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid().as_raw_pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// Returns the command lines of the guest's descendants.
    pub(crate) fn others(&self) -> Vec<String> {
        let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            let parent =
                stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
            children.entry(parent.unwrap_or_default()).or_default().push(pid);
        }
        let (mut all, mut next) = (vec![self.pid().as_raw_pid()], 0);
        while let Some(pid) = all.get(next) {
            all.extend(children.remove(pid).unwrap_or_default());
            next += 1;
        }
        // A zombie has no command line.
        let line = |pid: &i32| {
            fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default().replace('\0', " ")
        };
        all[1..].iter().map(line).collect()
    }

    /// Waits until only the guest is running.
    pub(crate) fn nothing_runs(&self) {
        assert!(until(|| self.others().is_empty()), "{:?}", self.others());
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // `unshare` kills its child when it exits, except a child that has changed its user.
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.child.id()));
        for pid in children.unwrap_or_default().split_whitespace() {
            if let Some(pid) = pid.parse().ok().and_then(Pid::from_raw) {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Returns the names in a directory.
pub(crate) fn names(directory: impl AsRef<Path>) -> Vec<String> {
    let all = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    let mut all: Vec<_> = all.map(|name| name.into_string().unwrap()).collect();
    all.sort();
    all
}
