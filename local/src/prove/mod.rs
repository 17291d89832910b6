//! Escape attempts on this machine, for `koze doctor --prove` and this crate's tests.
//!
//! Each attempt runs twice: in a sandbox as it is, where it must fail; and in a control run without the relevant
//! protection, where it must succeed, because otherwise the attempt would prove nothing. If the kernel itself prevents
//! it, the control runs on the host.
//!
//! Attempts by the input of a tool run in child processes, with the same two runs: see `inputs`.
//!
//! Sandboxes that lack protections are created only here, in temporary directories. Nothing else can create one, because
//! leaving a protection out requires a `Permit`. A program argument selects an attempt by input and one of its two runs,
//! in a child process that makes only that attempt. The functions with which tests choose protections are not in release
//! builds.

mod attempt;
mod inputs;
mod janitor;
mod permit;
mod probes;
mod scene;
mod stage;
mod words;

use std::collections::HashMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use self::attempt::Control;
use self::inputs::{INPUT, INPUTS};
use self::janitor::Janitor;
pub(crate) use self::permit::Permit;
use self::probes::{ATTEMPTS, CALLS, PROBE};
use self::scene::Scene;
use self::stage::Stage;
use crate::LocalSandbox;
use crate::weakness::Weakness;
#[cfg(debug_assertions)]
use crate::{Internet, Local};
use koze_core::sandbox::Sandbox;

/// The timeout for an attempt with its control.
const TIMEOUT: Duration = Duration::from_mins(1);

/// The timeout for all attempts.
const TIME: Duration = Duration::from_mins(10);

/// Attempts whose control would change something on the host, if only briefly. Tests run them; a proof does not.
const MARKS: &[&str] = &["write_to_usr", "set_the_time", "change_an_inode_of_the_host"];

/// An error.
pub type Fault = Box<dyn Error + Send + Sync>;

/// Call this after [`init`](super::init), before anything else in `main`. It does the work of processes that a proof
/// starts, and returns their exit code.
pub fn init() -> Option<ExitCode> {
    let first = std::env::args_os().nth(1)?;
    match first.to_str()? {
        PROBE => Some(probes::run()),
        INPUT => Some(inputs::run()),
        janitor::JANITOR => Some(janitor::run()),
        _ => None,
    }
}

/// Returns the names of all attempts.
pub fn attempts() -> impl Iterator<Item = &'static str> {
    let of_programs = ATTEMPTS.iter().map(|(name, _)| *name).chain(CALLS.iter().map(|call| call.name));
    of_programs.chain(INPUTS.iter().map(|input| input.name))
}

/// Describes an attempt.
pub fn words(name: &str) -> String {
    words::of(name)
}

/// Opens a state directory whose sandboxes lack protections, for the controls of tests. Release builds do not contain it.
///
/// # Errors
/// As [`Local::new`](crate::Local::new).
#[cfg(debug_assertions)]
pub fn weakened(
    state: impl AsRef<Path>,
    internet: Internet,
    weak: Vec<Weakness>,
) -> koze_core::Result<Local> {
    stage::open_without(weak, state.as_ref(), internet)
}

/// The result of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It failed, and its control succeeded.
    Held,
    /// It succeeded.
    Open(String),
    /// It proved nothing; the reason.
    NotTestable(String),
}

/// Returns whether the control of an attempt requires root.
pub fn needs_root(name: &str) -> bool {
    matches!(attempt::control(name), Some(Control::Root))
}

/// Runs attempts, each in a sandbox as it is and in its control.
pub struct Prover {
    scene: Scene,
    dir: PathBuf,
    /// The protections that regular sandboxes lack. Empty, except in tests that need an attempt to succeed.
    as_it_is: Vec<Weakness>,
    /// The store with the image of all sandboxes. `None` for the programs of this machine, except in a test.
    images: Option<PathBuf>,
    /// The sandboxes by the protections that they lack.
    sandboxes: HashMap<String, (Stage, LocalSandbox)>,
    /// How many attempts were made by input.
    inputs: usize,
    _stage: Stage,
    /// Dropped last: it removes the directory.
    _janitor: Janitor,
}

impl std::fmt::Debug for Prover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prover").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl Prover {
    /// Sets up the targets in an empty directory, which is removed at the end, even if this program is killed.
    ///
    /// # Errors
    /// If no sandbox can be started, or the system lacks resources.
    pub async fn new(dir: &Path) -> Result<Self, Fault> {
        Self::with(dir, Vec::new(), None).await
    }

    /// The same with sandboxes whose root is the image `proof` of a store: for a test.
    ///
    /// # Errors
    /// As [`Prover::new`].
    #[cfg(debug_assertions)]
    pub async fn on_image(dir: &Path, images: PathBuf) -> Result<Self, Fault> {
        Self::with(dir, Vec::new(), Some(images)).await
    }

    /// The same, but regular sandboxes lack these protections too: for a test that needs an attempt to succeed.
    ///
    /// # Errors
    /// As [`Prover::new`].
    #[cfg(debug_assertions)]
    pub async fn weakened(dir: &Path, weak: Vec<Weakness>) -> Result<Self, Fault> {
        Self::with(dir, weak, None).await
    }

    async fn with(dir: &Path, as_it_is: Vec<Weakness>, images: Option<PathBuf>) -> Result<Self, Fault> {
        let janitor = Janitor::start(dir)?;
        stage::open_to_all(dir)?;
        let stage = Stage::new(dir.join("state"), Vec::new(), None, images.clone())?;
        let scene = Scene::new(dir, &stage).await?;
        let sandboxes = HashMap::new();
        let dir = dir.to_owned();
        let mut prover =
            Prover { scene, dir, as_it_is, images, sandboxes, inputs: 0, _stage: stage, _janitor: janitor };
        prover.sandbox(prover.as_it_is.clone()).await?;
        Ok(prover)
    }

    /// Runs an attempt and its control, without changing the host.
    pub async fn prove(&mut self, name: &str) -> Verdict {
        let verdict = tokio::time::timeout(TIMEOUT, async {
            if let Err(taken) = self.run_protected(name).await? {
                return Ok(Verdict::Open(taken));
            }
            if needs_root(name) && !is_root() {
                return Ok(Verdict::NotTestable("it was refused, but its control needs root".to_owned()));
            }
            if MARKS.contains(&name) {
                let text = "it was refused, but its control would change something of the host's";
                return Ok(Verdict::NotTestable(text.to_owned()));
            }
            Ok::<_, Fault>(match self.run_control(name).await? {
                Ok(()) => Verdict::Held,
                Err(output) => {
                    let text = format!("it was refused, but without koze's protection, too ({output})");
                    Verdict::NotTestable(text)
                }
            })
        });
        match verdict.await {
            Ok(Ok(verdict)) => verdict,
            Ok(Err(fault)) => Verdict::NotTestable(fault.to_string()),
            Err(_) => Verdict::NotTestable("it took too long".to_owned()),
        }
    }

    /// Runs an attempt in a sandbox as it is. Returns what was obtained if it succeeds.
    ///
    /// # Errors
    /// If it cannot be run.
    pub async fn run_protected(&mut self, name: &str) -> Result<Result<(), String>, Fault> {
        let output = self.attempt(name).await?;
        let target = &self.scene.target;
        if !output.starts_with("refused: ") || output.contains(&target.secret) {
            return Ok(Err(output));
        }
        if !self.scene.is_untouched() {
            return Ok(Err("what was to be taken has changed".to_owned()));
        }
        let sandbox = self.sandbox(self.as_it_is(name)).await?;
        let well = sandbox.exec(stage::command(&["echo", "well"])).await?;
        if well.stdout == b"well\n" { Ok(Ok(())) } else { Err("the sandbox is not as it was".into()) }
    }

    /// Returns the output of an attempt in a sandbox as it is: `taken`, or `refused: ` with the reason.
    ///
    /// # Errors
    /// If it cannot be run.
    pub async fn attempt(&mut self, name: &str) -> Result<String, Fault> {
        let weak = self.as_it_is(name);
        self.attempt_without(name, weak).await
    }

    /// Returns the output of an attempt that lacks these protections.
    async fn attempt_without(&mut self, name: &str, weak: Vec<Weakness>) -> Result<String, Fault> {
        if let Some(input) = inputs::find(name) {
            self.inputs += 1;
            let dir = self.dir.join(format!("input-{}", self.inputs));
            let is_control = input.without.iter().all(|one| weak.contains(one));
            return inputs::attempt(input, is_control, &dir).await;
        }
        let target = self.scene.target.clone();
        attempt::attempt(self.sandbox(weak).await?, name, &target).await
    }

    /// Runs an attempt without the relevant protection. Returns the output if it fails.
    ///
    /// # Errors
    /// If it cannot be run.
    pub async fn run_control(&mut self, name: &str) -> Result<Result<(), String>, Fault> {
        let target = self.scene.target.clone();
        let weak = match attempt::control(name) {
            None => return Err(format!("`{name}` has no control").into()),
            Some(Control::Weak(weak)) => weak.to_vec(),
            Some(Control::File(path)) => vec![Weakness::File(path(&target))],
            Some(Control::Host | Control::Root) => Vec::new(),
        };
        let output = if weak.is_empty() {
            attempt::on_host(name, &target)?
        } else {
            self.attempt_without(name, weak).await?
        };
        Ok(if output.starts_with("taken") { Ok(()) } else { Err(output) })
    }

    /// Returns the protections that a regular sandbox lacks for an attempt.
    fn as_it_is(&self, name: &str) -> Vec<Weakness> {
        let mut weak = self.as_it_is.clone();
        // The host's processes belong to the sandbox's host user, so only the namespaces protect them.
        if name.ends_with("_host_processes") {
            weak.push(Weakness::SharedUser);
        }
        weak
    }

    /// Stops the sandboxes and releases their resources. The rest is removed on drop.
    pub async fn end(self) {
        for (_, sandbox) in self.sandboxes.values() {
            let _ = sandbox.destroy().await;
        }
        let _ = self.scene.neighbour.destroy().await;
    }

    /// Returns a sandbox that lacks these protections.
    async fn sandbox(&mut self, weak: Vec<Weakness>) -> Result<&LocalSandbox, Fault> {
        let key = format!("{weak:?}");
        if !self.sandboxes.contains_key(&key) {
            let dir = self.dir.join(format!("state-{}", self.sandboxes.len()));
            // With the host's network, the proxy would listen on the host.
            let servers = (!weak.contains(&Weakness::Network)).then_some(&self.scene.servers);
            let stage = Stage::new(dir, weak, servers, self.images.clone())?;
            let sandbox = stage.open("a").await?;
            attempt::put_probe(&sandbox).await?;
            self.sandboxes.insert(key.clone(), (stage, sandbox));
        }
        Ok(&self.sandboxes[&key].1)
    }
}

/// Runs all attempts, and reports each result.
///
/// # Errors
/// As [`Prover::new`].
pub async fn all(dir: &Path, mut tell: impl FnMut(&'static str, &Verdict)) -> Result<(), Fault> {
    let until = Instant::now() + TIME;
    let mut prover = tokio::time::timeout(TIMEOUT, Prover::new(dir)).await??;
    for name in attempts() {
        let late = || Verdict::NotTestable("all attempts together took too long".to_owned());
        tell(name, &if Instant::now() < until { prover.prove(name).await } else { late() });
    }
    let _ = tokio::time::timeout(TIMEOUT, prover.end()).await;
    Ok(())
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
