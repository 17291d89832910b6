//! Shared code of the tests.

use std::collections::HashMap;
use std::future::Future;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command as Process, ExitCode, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use koze_core::provider::{Profile, Settings, Size};
use koze_core::sandbox::{Command, Output, Place, Sandbox, Write};
use koze_core::{Provider, SandboxId, SandboxName, SessionId};
use koze_local::{Internet, Local, LocalSandbox, Weakness, prove};
use tempfile::TempDir;

/// A state directory, and a provider on it.
pub(crate) struct Stage {
    pub(crate) local: Local,
    pub(crate) state: TempDir,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let state = tempfile::tempdir().unwrap();
        Stage { local: Local::new(state.path()).unwrap(), state }
    }

    /// The same, with names of test servers.
    pub(crate) fn with_names(names: HashMap<String, SocketAddr>) -> Self {
        let state = tempfile::tempdir().unwrap();
        Stage { local: Local::with_names(state.path(), names).unwrap(), state }
    }

    /// The same, with sandboxes that lack protections.
    pub(crate) fn weakened_with_names(names: HashMap<String, SocketAddr>, weak: Vec<Weakness>) -> Self {
        let state = tempfile::tempdir().unwrap();
        let internet = Internet { names, ..Internet::default() };
        Stage { local: prove::weakened(state.path(), internet, weak).unwrap(), state }
    }

    /// Opens a sandbox with internet access.
    pub(crate) async fn online(&self, name: &str, allowed: &[&str], denied: &[&str]) -> LocalSandbox {
        let mut settings = settings();
        settings.profile.internet = true;
        settings.profile.allowed_hosts = allowed.iter().map(|&host| host.to_owned()).collect();
        settings.profile.denied_hosts = denied.iter().map(|&host| host.to_owned()).collect();
        self.local.open(&id(name), &settings).await.unwrap().sandbox
    }

    /// Creates one whose sandboxes lack protections.
    pub(crate) fn weakened(weak: Vec<Weakness>) -> Self {
        let state = tempfile::tempdir().unwrap();
        Stage { local: prove::weakened(state.path(), Internet::default(), weak).unwrap(), state }
    }

    /// Opens the sandbox with this name.
    pub(crate) async fn open(&self, name: &str) -> LocalSandbox {
        self.local.open(&id(name), &settings()).await.unwrap().sandbox
    }

    /// Opens a sandbox with other limits.
    pub(crate) async fn sized(&self, memory_mib: u32, disk_mb: u32) -> LocalSandbox {
        let mut settings = settings();
        settings.profile.size = Size { memory_mib, disk_mb };
        self.local.open(&id("sized"), &settings).await.unwrap().sandbox
    }
}

/// Starts this program, to be killed later: with an argument that `main` recognizes, it calls [`host`] on the stage's
/// state.
pub(crate) fn victim(stage: &Stage, argument: &str) -> Child {
    let mut child = Process::new(std::env::current_exe().unwrap())
        .arg(argument)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    writeln!(child.stdin.as_mut().unwrap(), "{}", stage.state.path().display()).unwrap();
    child
}

/// Runs a [`victim`], with a provider on the state of the process that started it.
pub(crate) fn host(work: impl AsyncFnOnce(Local)) -> ExitCode {
    let mut state = String::new();
    std::io::stdin().read_line(&mut state).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(work(Local::new(state.trim_end()).unwrap()));
    ExitCode::SUCCESS
}

pub(crate) fn id(name: &str) -> SandboxId {
    let session = SessionId::new("tests", "local").unwrap();
    SandboxId { session, name: SandboxName::new(name).unwrap() }
}

pub(crate) fn settings() -> Settings {
    Settings {
        profile: Profile {
            name: "python".into(),
            reference: "docker.io/library/python:3".into(),
            stored: None,
            internet: false,
            allowed_hosts: Vec::new(),
            denied_hosts: Vec::new(),
            env: vec![("IMAGE".into(), "of the image".into())],
            size: Size { memory_mib: 256, disk_mb: 200 },
            sizes: Vec::new(),
            sleep_after: None,
            keep_files: false,
            processes: true,
            tools: vec![koze_core::Family::Agent],
            workspace: None,
        },
        sleep_after: Duration::from_mins(10),
        size: None,
    }
}

pub(crate) fn command(argv: &[&str]) -> Command {
    Command {
        argv: argv.iter().map(|&part| part.to_owned()).collect(),
        working_dir: "/home/user".into(),
        env: Vec::new(),
        timeout: Duration::from_mins(1),
        max_output: 1 << 20,
    }
}

/// A shell command that follows `sleep 1 &` and continues once that runs: at first it is a copy of the shell.
pub(crate) const STARTED: &str = "until grep -qx sleep /proc/$!/comm; do :; done";

/// Runs a script. Returns its complete output.
pub(crate) async fn sh(sandbox: &LocalSandbox, script: &str) -> Output {
    sandbox.exec(command(&["sh", "-c", script])).await.unwrap()
}

/// Returns the standard output of a script, which must succeed.
pub(crate) async fn out(sandbox: &LocalSandbox, script: &str) -> String {
    let output = sh(sandbox, script).await;
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.exit_code, 0, "{script}: {error}");
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// A path with the whole sandbox as its root.
pub(crate) fn at(path: &str) -> Place<'_> {
    Place { root: "/", path }
}

/// Runs a test with a timeout of some minutes.
pub(crate) fn within<F: Future<Output = ()>>(test: F) -> Result<(), libtest_mimic::Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime
        .block_on(async { tokio::time::timeout(Duration::from_mins(2), test).await })
        .map_err(|_| "took too long".into())
}

/// This program without the information for debuggers, which is half of it: two copies must fit into a sandbox.
pub(crate) fn program() -> Vec<u8> {
    static PROGRAM: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let dir = tempfile::tempdir().unwrap();
        let stripped = dir.path().join("stripped");
        let mut strip = Process::new("strip");
        strip.arg("--strip-debug").arg("-o").arg(&stripped).arg(std::env::current_exe().unwrap());
        let status = strip.status().expect("`strip` of binutils, which the linker is part of, runs");
        assert!(status.success(), "{strip:?}: {status}");
        std::fs::read(&stripped).unwrap()
    });
    PROGRAM.clone()
}

/// Puts this program into a sandbox. It is copied again there, because a process that another test is just starting may
/// still have the file open for writing, which prevents its execution.
pub(crate) async fn put_probe(sandbox: &LocalSandbox) {
    sandbox.write(at("/home/user/written"), program(), Write::Replace).await.unwrap();
    out(sandbox, "cp written probe && chmod 755 probe && rm written").await;
}

/// Waits until something holds.
pub(crate) async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    for _ in 0..300 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("never: {what}");
}

/// How many directories of sandboxes are in a state directory, also of those that are being deleted.
pub(crate) fn directories(state: &Path) -> usize {
    let all = std::fs::read_dir(state).unwrap().flatten();
    // What is prepared for the next sandbox is nobody's yet.
    all.filter(|entry| entry.path().is_dir() && entry.file_name() != "ahead").count()
}

pub(crate) fn is_root() -> bool {
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

pub(crate) fn open_to_all(path: &Path) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}
