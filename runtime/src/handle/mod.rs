//! One sandbox of a session, for a program: run commands in it, read and write its files, and observe it.

mod state;
mod watch;

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;
use futures_util::future::{Either, select};
use futures_util::stream::unfold;

pub(crate) use self::state::Observed;
pub use self::state::{Life, Ran, State};
use crate::error::{Code, Error, Result};
use crate::id::SandboxName;
use crate::path::{HOME, absolute, anywhere};
use crate::pool::Pool;
use crate::provider::Provider;
use crate::sandbox::{MaybeSend, Output, Sandbox, Write};
use crate::time::sleep;
use crate::tool::BoundTool;
use crate::tool::agent::shell;

/// How long a command may run.
const TIMEOUT: Duration = Duration::from_mins(10);
/// How often a subscription looks whether the sandbox sleeps: nobody says.
const LOOK: Duration = Duration::from_secs(1);
/// The largest file that is read whole.
pub(crate) const LARGEST: u64 = 64 * 1024 * 1024;

/// A sandbox of a session, by its name: [`Pool::get`] gives it. All handles of one sandbox have one [`State`], to which
/// what agents do over the tools belongs as well.
///
/// ```no_run
/// # async fn example<P: koze::Provider>(pool: koze::Pool<P>) -> koze::Result<()> {
/// let sandbox = pool.get("builder").await?;
/// sandbox.write_file("main.py", "print(6 * 7)").await?;
/// let output = sandbox.exec("python3 main.py").await?;
/// assert_eq!(output.stdout, b"42\n");
/// # Ok(())
/// # }
/// ```
pub struct Handle<P: Provider> {
    pool: Pool<P>,
    name: SandboxName,
    sandbox: P::Sandbox,
    observed: Arc<Observed>,
}

impl<P: Provider> Handle<P> {
    pub(crate) fn new(
        pool: Pool<P>,
        name: SandboxName,
        sandbox: P::Sandbox,
        observed: Arc<Observed>,
    ) -> Self {
        Handle { pool, name, sandbox, observed }
    }

    /// Its name in the session.
    pub fn name(&self) -> &SandboxName {
        &self.name
    }

    /// Its session.
    pub fn pool(&self) -> &Pool<P> {
        &self.pool
    }

    /// The sandbox itself, for all that a [`Sandbox`] can do.
    ///
    /// # Errors
    /// [`Code::NotFound`] where it was destroyed.
    pub fn sandbox(&self) -> Result<&P::Sandbox> {
        if self.observed.state().status == Life::Destroyed {
            return Err(Error::new(Code::NotFound, format!("the sandbox `{}` was destroyed", self.name)));
        }
        Ok(&self.sandbox)
    }

    /// Runs a command with bash, for ten minutes at most. Dropped, it kills the command.
    ///
    /// # Errors
    /// Those of the sandbox; a command that fails is none.
    pub async fn exec(&self, command: &str) -> Result<Output> {
        let output = shell::run(self.sandbox()?, command, HOME, TIMEOUT).await?;
        self.observed.ran(command, &output);
        Ok(output)
    }

    /// Whether it answers: runs `true`.
    pub async fn is_healthy(&self) -> bool {
        let Ok(sandbox) = self.sandbox() else { return false };
        shell::run(sandbox, "true", HOME, TIMEOUT).await.is_ok_and(|output| output.exit_code == 0)
    }

    /// The content of a file; a relative path starts at `/home/user`.
    ///
    /// # Errors
    /// Those of the sandbox; [`Code::TooLarge`] for more than 64 MiB.
    pub async fn read_file(&self, path: &str) -> Result<Vec<u8>> {
        whole(self.sandbox()?, path, LARGEST).await
    }

    /// Writes a file, and the directories above it.
    ///
    /// # Errors
    /// Those of the sandbox.
    pub async fn write_file(&self, path: &str, content: impl Into<Vec<u8>>) -> Result<()> {
        let path = absolute(path)?;
        self.sandbox()?.write(anywhere(&path), content.into(), Write::Replace).await.map(drop)
    }

    /// The URL at which a port of it answers.
    ///
    /// # Errors
    /// Those of the sandbox.
    pub async fn browse(&self, port: u16) -> Result<String> {
        let url = self.sandbox()?.expose(port).await?;
        self.observed.exposed(&url);
        Ok(url)
    }

    /// A tool that works on this sandbox alone: `shell`, `read_file`, `write_file`, `glob` or `browse`.
    ///
    /// # Errors
    /// [`Code::UnknownTool`] for another.
    pub fn tool(&self, name: &str) -> Result<BoundTool<P>> {
        BoundTool::of_sandbox(self.clone(), name)
    }

    /// Its state.
    ///
    /// # Errors
    /// Those of the provider.
    pub async fn state(&self) -> Result<State> {
        self.look().await?;
        Ok(self.observed.state())
    }

    /// Its state, and each that follows, until it is destroyed. What changes twice before anybody looks comes once.
    /// Natively it is to be awaited in a runtime of tokio's.
    pub fn subscribe(&self) -> impl Stream<Item = State> + MaybeSend + use<P> {
        let start = Some((self.clone(), self.observed.subscribe()));
        unfold(start, |at| async move {
            let (handle, mut states) = at?;
            loop {
                let changed = matches!(
                    select(pin!(states.changed()), pin!(sleep(LOOK))).await,
                    Either::Left((Ok(()), _))
                );
                if changed {
                    let state = states.borrow_and_update().clone();
                    let more = (state.status != Life::Destroyed).then_some((handle, states));
                    return Some((state, more));
                }
                // A provider that does not answer now may answer later.
                let _ = handle.look().await;
            }
        })
    }

    /// Ends it, and takes its files away.
    ///
    /// # Errors
    /// [`Code::NotFound`] where it was destroyed already, and those of the provider.
    pub async fn destroy(&self) -> Result<()> {
        self.sandbox()?;
        self.pool.destroy(self.name.as_str()).await
    }

    /// Whether it runs, asked of the provider.
    async fn look(&self) -> Result<Life> {
        if self.sandbox().is_err() {
            return Ok(Life::Destroyed);
        }
        let life = match self.pool.find(&self.name).await? {
            Some(opened) => opened.sandbox.status().await?.into(),
            None => Life::Destroyed,
        };
        self.observed.lives(life);
        Ok(life)
    }
}

/// A file, whole.
pub(crate) async fn whole<S: Sandbox>(sandbox: &S, path: &str, most: u64) -> Result<Vec<u8>> {
    let path = absolute(path)?;
    let piece = sandbox.read(anywhere(&path), 0, most + 1).await?;
    if piece.bytes.len() as u64 > most {
        let message = format!("`{path}` has {} bytes, more than the {most} that are read", piece.size);
        return Err(Error::new(Code::TooLarge, message));
    }
    Ok(piece.bytes)
}

impl<P: Provider> Clone for Handle<P> {
    fn clone(&self) -> Self {
        Handle {
            pool: self.pool.clone(),
            name: self.name.clone(),
            sandbox: self.sandbox.clone(),
            observed: Arc::clone(&self.observed),
        }
    }
}

impl<P: Provider> fmt::Debug for Handle<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Handle").field(&self.name).finish()
    }
}
