//! A sandbox for one run: made, used and destroyed.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{Either, select};
use tokio::sync::oneshot;

use crate::detach::detach;
use crate::error::{Code, Error, Result};
use crate::handle::{LARGEST, whole};
use crate::path::{HOME, absolute};
use crate::pool::Pool;
use crate::provider::Provider;
use crate::sandbox::Sandbox;
use crate::tool::agent::shell;

/// Commands to run in a sandbox of their own.
///
/// ```no_run
/// # async fn example<P: koze::Provider>(pool: koze::Pool<P>) -> koze::Result<()> {
/// let run = koze::Run {
///     commands: vec!["echo 'main() {}' > a.c".into(), "cc -c a.c".into()],
///     files: vec!["a.o".into()],
///     ..koze::Run::default()
/// };
/// let ran = pool.run(run).await?;
/// assert_eq!((ran.exit_code, ran.files.contains_key("a.o")), (0, true));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The image, by name or reference; the default one where none is named.
    pub image: Option<String>,
    /// What to run with bash, one after the other, each in `/home/user`.
    pub commands: Vec<String>,
    /// The files to take out of it afterwards.
    pub files: Vec<String>,
    /// How long each command may run.
    pub timeout: Duration,
}

impl Default for Run {
    fn default() -> Self {
        Run { image: None, commands: Vec::new(), files: Vec::new(), timeout: Duration::from_mins(10) }
    }
}

/// What came of a [`Run`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome {
    /// The standard output of all commands that ran.
    pub stdout: Vec<u8>,
    /// Their standard error.
    pub stderr: Vec<u8>,
    /// The exit code of the last that ran: 0 where all did, and did well.
    pub exit_code: i32,
    /// Whether its time was up.
    pub timed_out: bool,
    /// The files, by the paths they were asked for. After a command that failed, those that are there.
    pub files: BTreeMap<String, Vec<u8>>,
}

/// What the run ended in, or the panic that ended it.
type Ended = std::result::Result<Result<Outcome>, Box<dyn Any + Send>>;

impl<P: Provider> Pool<P> {
    /// Runs commands in a sandbox made for them, to the first that fails, takes files out of it, and destroys it:
    /// whatever comes, and also where the caller gives up waiting. It counts as one of the session as long as it is there.
    ///
    /// # Errors
    /// As [`Pool::sandbox`]; [`Code::InvalidInput`] where there is no such image; [`Code::NotFound`] for a file that is
    /// not there after all commands did well, [`Code::TooLarge`] for more than 64 MiB of them. A command that fails is
    /// none.
    pub async fn run(&self, run: Run) -> Result<Outcome> {
        self.images().find(run.image.as_deref())?;
        for path in &run.files {
            absolute(path)?;
        }
        let (mut done, ended) = oneshot::channel();
        let pool = self.clone();
        // A thread of its own, for the caller's may be gone before the sandbox is.
        detach(async move {
            let result = pool.run_once(run, &mut done).await;
            let _ = done.send(result);
        });
        match ended.await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(panic)) => resume_unwind(panic),
            Err(_) => Err(Error::new(Code::Unavailable, "the run could not be carried through")),
        }
    }

    async fn run_once(&self, run: Run, done: &mut oneshot::Sender<Ended>) -> Ended {
        let id = uuid::Uuid::new_v4().simple().to_string();
        let name = format!("run-{}", &id[..16]);
        // Never given up half-way: what is half made could not be destroyed.
        let sandbox = match self.create(&name, run.image.as_deref(), None).await {
            Ok(_) => self.sandbox(&name).await,
            Err(error) => Err(error),
        };
        let sandbox = match sandbox {
            Ok(sandbox) => sandbox,
            Err(error) => return Ok(Err(error)),
        };
        let ran = {
            let work = AssertUnwindSafe(commands(&sandbox, &run)).catch_unwind();
            match select(pin!(work), pin!(done.closed())).await {
                Either::Left((ran, _)) => ran,
                Either::Right(_) => {
                    Ok(Err(Error::new(Code::Unavailable, "nobody waits for the run any more")))
                }
            }
        };
        let destroyed = self.destroy(&name).await;
        ran.map(|ran| ran.and_then(|outcome| destroyed.map(|()| outcome)))
    }
}

async fn commands<S: Sandbox>(sandbox: &S, run: &Run) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    for command in &run.commands {
        let output = shell::run(sandbox, command, HOME, run.timeout).await?;
        outcome.stdout.extend(output.stdout);
        outcome.stderr.extend(output.stderr);
        outcome.exit_code = output.exit_code;
        outcome.timed_out = output.timed_out;
        if output.exit_code != 0 {
            break;
        }
    }
    let mut left = LARGEST;
    for path in &run.files {
        match whole(sandbox, path, left).await {
            Ok(content) => {
                left -= content.len() as u64;
                outcome.files.insert(path.clone(), content);
            }
            Err(error) if error.code == Code::NotFound && outcome.exit_code != 0 => {}
            Err(error) => return Err(error),
        }
    }
    Ok(outcome)
}
