//! Sandboxes for the programs of image builds. They have all of an image, and nothing else of this machine.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use koze_core::id::{SandboxId, SandboxName};
use koze_core::provider::{Profile, Settings, Size};
use koze_core::sandbox::process::{Process as _, Program};
use koze_core::{Code, Error, Provider as _, Result, Sandbox as _, SessionId};
use koze_local::{Local, LocalSandbox};
use koze_state::AttachedStreams;
use koze_state::block_on;

use super::local::open_with_images;

pub(crate) use koze_local::is_of_sandbox;

/// What a program of a build may use. Compilers and package managers need much.
const SIZE: Size = Size { memory_mib: 12_288, disk_mb: 20_000 };
/// How long a program of a build may run.
pub(crate) const TIMEOUT: Duration = Duration::from_hours(1);
/// Longer than any program runs: nothing puts its sandbox to sleep meanwhile.
const SLEEP_AFTER: Duration = Duration::from_hours(2);

/// The hosts that programs of a build may reach.
#[derive(Debug, Clone, Default)]
pub(crate) struct BuildEgress {
    /// Whether they may reach all hosts of the internet.
    pub(crate) internet: bool,
    /// The hosts that they may reach otherwise.
    pub(crate) allowed_hosts: Vec<String>,
}

/// A program of a build.
#[derive(Debug)]
pub(crate) struct BuildProgram {
    /// The ID of the image that it runs on.
    pub(crate) image: String,
    pub(crate) argv: Vec<String>,
    pub(crate) working_dir: String,
    /// Environment variables in addition to those of the image.
    pub(crate) env: Vec<(String, String)>,
}

/// The sandboxes of a build.
#[derive(Debug)]
pub(crate) struct BuildSandboxes {
    local: Local,
    egress: BuildEgress,
    count: AtomicU32,
}

/// A program of a build that has ended. Its sandbox sleeps.
#[derive(Debug)]
pub(crate) struct EndedProgram {
    /// Its exit code; `None` if its time was up.
    pub(crate) code: Option<i32>,
    /// Why it was killed, if its exit code does not tell.
    pub(crate) note: Option<String>,
    sandbox: LocalSandbox,
}

impl BuildSandboxes {
    /// Opens sandboxes in a directory for the time of the build, with the images of this user.
    pub(crate) fn open(dir: &Path, egress: BuildEgress) -> Result<Self> {
        Ok(Self { local: open_with_images(dir)?.for_builds(), egress, count: AtomicU32::new(0) })
    }

    /// Runs a program to its end in a new sandbox. Its output goes to standard error.
    ///
    /// # Errors
    /// Returns an error if the sandbox or the program cannot be started.
    pub(crate) fn run(&self, program: BuildProgram) -> Result<EndedProgram> {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let id = SandboxId {
            session: SessionId::new("koze", "build")?,
            name: SandboxName::new(&format!("step-{count}"))?,
        };
        let profile = Profile {
            internet: self.egress.internet,
            allowed_hosts: self.egress.allowed_hosts.clone(),
            stored: Some(program.image.clone()),
            ..Profile::new("build", program.image, SIZE)
        };
        let settings = Settings { profile, sleep_after: SLEEP_AFTER, size: None };
        let local = self.local.clone();
        let sandbox = block_on(async move { local.open(&id, &settings).await })??.sandbox;
        let program = Program { env: program.env, ..Program::new(program.argv, program.working_dir) };
        match run_to_end(&sandbox, program) {
            Ok((code, note)) => Ok(EndedProgram { code, note, sandbox }),
            Err(error) => {
                // The first error is the one to report.
                let _ = destroy(sandbox);
                Err(error)
            }
        }
    }
}

impl EndedProgram {
    /// Returns the directory with the changes to the image.
    pub(crate) fn changes(&self) -> PathBuf {
        self.sandbox.image_changes()
    }

    /// Removes the sandbox.
    pub(crate) fn destroy(self) -> Result<()> {
        destroy(self.sandbox)
    }
}

fn destroy(sandbox: LocalSandbox) -> Result<()> {
    block_on(async move { sandbox.destroy().await })?
}

/// Runs a program, and puts the sandbox to sleep. Returns its exit code, and why it was killed.
fn run_to_end(sandbox: &LocalSandbox, program: Program) -> Result<(Option<i32>, Option<String>)> {
    let (starting, sleeping) = (sandbox.clone(), sandbox.clone());
    let (attached, streams) = block_on(async move { starting.attach(program).await })??;
    let AttachedStreams::Pipes { stdin, stdout, stderr } = streams else {
        return Err(Error::new(Code::Internal, "the program of a build has a terminal"));
    };
    // It has no input.
    drop(stdin);
    let copies = [stdout, stderr].map(|pipe| thread::spawn(move || copy_output(pipe)));
    let ended = block_on(async move {
        let exit = attached.process().supervise(TIMEOUT).await;
        exit.map(|exit| (exit, attached.take_note()))
    });
    // What it left in the background would go on changing files.
    block_on(async move { sleeping.sleep().await })??;
    for copy in copies {
        // A thread that panicked has copied what it could.
        let _ = copy.join();
    }
    let (exit, note) = ended??;
    Ok((exit.map(|exit| exit.code), note))
}

/// Copies a pipe to standard error until its other end is closed.
fn copy_output(pipe: OwnedFd) {
    // Without a reader of standard error, the build goes on.
    let _ = io::copy(&mut File::from(pipe), &mut io::stderr());
}
