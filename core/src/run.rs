//! One-off runs in a sandbox that is created for the run and destroyed afterwards.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{Either, select};
use tokio::sync::oneshot;

use crate::detach::run_detached;
use crate::error::{Code, Error, Result};
use crate::handle::{LARGEST, whole};
use crate::path::{HOME, absolute};
use crate::provider::Provider;
use crate::sandbox::Sandbox;
use crate::session::Session;
use crate::shell;

/// Commands to run in a temporary sandbox.
///
/// ```no_run
/// # async fn example<P: koze_core::Provider>(session: koze_core::Session<P>) -> koze_core::Result<()> {
/// let run = koze_core::Run {
///     commands: vec!["echo 'main() {}' > a.c".into(), "cc -c a.c".into()],
///     files: vec!["a.o".into()],
///     ..koze_core::Run::default()
/// };
/// let ran = session.run(run).await?;
/// assert_eq!((ran.exit_code, ran.files.contains_key("a.o")), (0, true));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The profile, by name or reference. Defaults to the default profile.
    pub profile: Option<String>,
    /// The bash commands to run one after the other, each in `/home/user`.
    pub commands: Vec<String>,
    /// The files to return afterwards.
    pub files: Vec<String>,
    /// The timeout of each command.
    pub timeout: Duration,
}

impl Default for Run {
    fn default() -> Self {
        Run { profile: None, commands: Vec::new(), files: Vec::new(), timeout: Duration::from_mins(10) }
    }
}

/// The result of a [`Run`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome {
    /// The standard output of all commands that ran.
    pub stdout: Vec<u8>,
    /// Their standard error.
    pub stderr: Vec<u8>,
    /// The exit code of the last command that ran: 0 if all commands succeeded.
    pub exit_code: i32,
    /// Whether its timeout expired.
    pub timed_out: bool,
    /// The files, by requested path. If a command failed, only those that exist.
    pub files: BTreeMap<String, Vec<u8>>,
}

/// The result of the run, or the panic that ended it.
type Ended = std::result::Result<Result<Outcome>, Box<dyn Any + Send>>;

impl<P: Provider> Session<P> {
    /// Runs commands in a new sandbox until one fails, returns the requested files, and destroys the sandbox. The sandbox is
    /// destroyed in any case, also if the future is dropped. It counts toward the session's limit while it exists.
    ///
    /// # Errors
    /// As [`Session::sandbox`]; [`Code::InvalidInput`] for an unknown profile; [`Code::NotFound`] for a file that does not exist
    /// after all commands succeeded; [`Code::TooLarge`] for more than 64 MiB of files. A failing command is not an error.
    pub async fn run(&self, run: Run) -> Result<Outcome> {
        self.profiles().find(run.profile.as_deref())?;
        for path in &run.files {
            absolute(path)?;
        }
        let (mut done, ended) = oneshot::channel();
        let session = self.clone();
        // On its own thread, because the caller's may end before the sandbox is destroyed.
        run_detached(async move {
            let result = session.run_once(run, &mut done).await;
            let _ = done.send(result);
        });
        match ended.await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(panic)) => resume_unwind(panic),
            Err(_) => Err(Error::new(Code::Unavailable, "the run failed")),
        }
    }

    async fn run_once(&self, run: Run, done: &mut oneshot::Sender<Ended>) -> Ended {
        let id = uuid::Uuid::new_v4().simple().to_string();
        let name = format!("run-{}", &id[..16]);
        // Not cancelable: a sandbox that is only half created could not be destroyed.
        let sandbox = match self.create(&name, run.profile.as_deref(), None, None).await {
            Ok(_) => self.sandbox(&name).await,
            Err(error) => Err(error),
        };
        let sandbox = match sandbox {
            Ok(sandbox) => sandbox,
            Err(error) => return Ok(Err(error)),
        };
        let ran = {
            let work = AssertUnwindSafe(run_commands(&sandbox, &run)).catch_unwind();
            match select(pin!(work), pin!(done.closed())).await {
                Either::Left((ran, _)) => ran,
                Either::Right(_) => Ok(Err(Error::new(Code::Unavailable, "the run was canceled"))),
            }
        };
        let destroyed = self.destroy(&name).await;
        ran.map(|ran| ran.and_then(|outcome| destroyed.map(|()| outcome)))
    }
}

async fn run_commands<S: Sandbox>(sandbox: &S, run: &Run) -> Result<Outcome> {
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
