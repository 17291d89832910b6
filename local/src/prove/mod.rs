//! Attempts to escape, made on this very machine: what `koze doctor --prove` and this crate's tests run.
//!
//! Each attempt is made twice: in a sandbox as it is, where nothing may be taken; and in a control without the protection
//! that stands in the way, where it must succeed, for else the attempt would show nothing. Where the kernel itself stands
//! in the way, the control is a run on the host.
//!
//! Sandboxes that lack protections are made here alone, in directories that are made for a proof and go away with it.
//! Neither a variable of the environment nor an argument of a program makes one.

mod attempt;
mod janitor;
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
use self::janitor::Janitor;
use self::probes::{ATTEMPTS, CALLS, PROBE};
use self::scene::Scene;
use self::stage::Stage;
use super::LocalSandbox;
use super::launch::Weakness;
use koze_core::sandbox::Sandbox;

/// How long an attempt and its control may take together.
const PATIENCE: Duration = Duration::from_mins(1);

/// How long all of them may take.
const TIME: Duration = Duration::from_mins(10);

/// Attempts whose control would change something of the host's, if only for a moment. Tests make it; a proof does not.
const MARKS: &[&str] = &["write_to_usr", "set_the_time", "change_an_inode_of_the_host"];

/// What went wrong, in words.
pub type Fault = Box<dyn Error + Send + Sync>;

/// Call this after [`init`](super::init), before anything else in `main`: in the processes that a proof starts, there is
/// work to do, and this gives their exit code.
pub fn init() -> Option<ExitCode> {
    let first = std::env::args_os().nth(1)?;
    match first.to_str()? {
        PROBE => Some(probes::run()),
        janitor::JANITOR => Some(janitor::run()),
        _ => None,
    }
}

/// The names of all attempts.
pub fn attempts() -> impl Iterator<Item = &'static str> {
    ATTEMPTS.iter().map(|(name, _)| *name).chain(CALLS.iter().map(|call| call.name))
}

/// What an attempt tries, in plain words.
pub fn words(name: &str) -> String {
    words::of(name)
}

/// How an attempt came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It was refused, and its control succeeded.
    Held,
    /// It succeeded.
    Open(String),
    /// Nothing is shown, and why.
    NotTestable(String),
}

/// Whether the control of an attempt can only be played by root.
pub fn needs_root(name: &str) -> bool {
    matches!(attempt::control(name), Some(Control::Root))
}

/// Makes attempts, each in a sandbox as it is and in its control.
pub struct Prover {
    scene: Scene,
    dir: PathBuf,
    /// What sandboxes as they are lack: nothing, but for tests that want to see an attempt succeed.
    as_it_is: Vec<Weakness>,
    /// By the protections that they lack.
    sandboxes: HashMap<String, (Stage, LocalSandbox)>,
    _stage: Stage,
    /// The last to go: it takes away the directory.
    _janitor: Janitor,
}

impl std::fmt::Debug for Prover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prover").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl Prover {
    /// Sets up what there is to take, in an empty directory of its own, which is taken away in the end: also where this
    /// program is killed.
    ///
    /// # Errors
    /// Where no sandbox can be started, or the system has nothing left.
    pub async fn new(dir: &Path) -> Result<Self, Fault> {
        Self::with(dir, Vec::new()).await
    }

    /// The same, where also what should hold lacks these protections: for a test that wants to see an attempt succeed.
    ///
    /// # Errors
    /// As [`Prover::new`].
    pub async fn weakened(dir: &Path, weak: Vec<Weakness>) -> Result<Self, Fault> {
        Self::with(dir, weak).await
    }

    async fn with(dir: &Path, as_it_is: Vec<Weakness>) -> Result<Self, Fault> {
        let janitor = Janitor::start(dir)?;
        stage::open_to_all(dir)?;
        let stage = Stage::new(dir.join("state"), Vec::new())?;
        let scene = Scene::new(dir, &stage).await?;
        let sandboxes = HashMap::new();
        let dir = dir.to_owned();
        let mut prover = Prover { scene, dir, as_it_is, sandboxes, _stage: stage, _janitor: janitor };
        prover.sandbox(prover.as_it_is.clone()).await?;
        Ok(prover)
    }

    /// Makes an attempt and its control, and changes nothing of the host's.
    pub async fn prove(&mut self, name: &str) -> Verdict {
        let verdict = tokio::time::timeout(PATIENCE, async {
            if let Err(taken) = self.shut(name).await? {
                return Ok(Verdict::Open(taken));
            }
            if needs_root(name) && !is_root() {
                return Ok(Verdict::NotTestable("it was refused, but its control needs root".to_owned()));
            }
            if MARKS.contains(&name) {
                let text = "it was refused, but its control would change something of the host's";
                return Ok(Verdict::NotTestable(text.to_owned()));
            }
            Ok::<_, Fault>(match self.open(name).await? {
                Ok(()) => Verdict::Held,
                Err(said) => {
                    let text = format!("it was refused, but without koze's protection, too ({said})");
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

    /// Makes an attempt in a sandbox as it is. Gives what was taken where it succeeds.
    ///
    /// # Errors
    /// Where it cannot be made.
    pub async fn shut(&mut self, name: &str) -> Result<Result<(), String>, Fault> {
        let said = self.attempt(name).await?;
        let target = &self.scene.target;
        if !said.starts_with("refused: ") || said.contains(&target.secret) {
            return Ok(Err(said));
        }
        if !self.scene.is_untouched() {
            return Ok(Err("what was to be taken has changed".to_owned()));
        }
        let sandbox = self.sandbox(self.as_it_is(name)).await?;
        let well = sandbox.exec(stage::command(&["echo", "well"])).await?;
        if well.stdout == b"well\n" { Ok(Ok(())) } else { Err("the sandbox is not as it was".into()) }
    }

    /// What an attempt in a sandbox as it is says: `taken`, or `refused: ` and why.
    ///
    /// # Errors
    /// Where it cannot be made.
    pub async fn attempt(&mut self, name: &str) -> Result<String, Fault> {
        let target = self.scene.target.clone();
        attempt::attempt(self.sandbox(self.as_it_is(name)).await?, name, &target).await
    }

    /// Makes an attempt without the protection that stands in its way. Gives what was said where it is refused.
    ///
    /// # Errors
    /// Where it cannot be made.
    pub async fn open(&mut self, name: &str) -> Result<Result<(), String>, Fault> {
        let target = self.scene.target.clone();
        let weak = match attempt::control(name) {
            None => return Err(format!("`{name}` has no control").into()),
            Some(Control::Weak(weak)) => weak.to_vec(),
            Some(Control::File(path)) => vec![Weakness::File(path(&target))],
            Some(Control::Host | Control::Root) => Vec::new(),
        };
        let said = if weak.is_empty() {
            attempt::on_host(name, &target)?
        } else {
            attempt::attempt(self.sandbox(weak).await?, name, &target).await?
        };
        Ok(if said == "taken" { Ok(()) } else { Err(said) })
    }

    /// What the sandbox lacks in which an attempt must be refused.
    fn as_it_is(&self, name: &str) -> Vec<Weakness> {
        let mut weak = self.as_it_is.clone();
        // The processes on the host are of the user that the sandbox is there: the namespaces alone are in the way.
        if name.ends_with("_host_processes") {
            weak.push(Weakness::SharedUser);
        }
        weak
    }

    /// Ends the sandboxes, with all that the system keeps for them. What is left goes when this does.
    pub async fn end(self) {
        for (_, sandbox) in self.sandboxes.values() {
            let _ = sandbox.destroy().await;
        }
        let _ = self.scene.neighbour.destroy().await;
    }

    /// A sandbox that lacks these protections.
    async fn sandbox(&mut self, weak: Vec<Weakness>) -> Result<&LocalSandbox, Fault> {
        let key = format!("{weak:?}");
        if !self.sandboxes.contains_key(&key) {
            let dir = self.dir.join(format!("state-{}", self.sandboxes.len()));
            let stage = Stage::new(dir, weak)?;
            let sandbox = stage.open("a").await?;
            attempt::put_probe(&sandbox).await?;
            self.sandboxes.insert(key.clone(), (stage, sandbox));
        }
        Ok(&self.sandboxes[&key].1)
    }
}

/// Runs all attempts, and tells how each came out.
///
/// # Errors
/// As [`Prover::new`].
pub async fn all(dir: &Path, mut tell: impl FnMut(&'static str, &Verdict)) -> Result<(), Fault> {
    let until = Instant::now() + TIME;
    let mut prover = tokio::time::timeout(PATIENCE, Prover::new(dir)).await??;
    for name in attempts() {
        let late = || Verdict::NotTestable("all attempts together took too long".to_owned());
        tell(name, &if Instant::now() < until { prover.prove(name).await } else { late() });
    }
    let _ = tokio::time::timeout(PATIENCE, prover.end()).await;
    Ok(())
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
