//! Handles to sandboxes of a session: run commands, read and write files, and observe the state.

mod watch;

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;
use futures_util::future::{Either, select};
use futures_util::stream::unfold;

use crate::error::{Code, Error, Result};
use crate::id::SandboxName;
use crate::maybe_send::MaybeSend;
#[doc(hidden)]
pub use crate::observed::Observed;
pub use crate::observed::{Lifecycle, Ran, State};
use crate::path::{HOME, absolute, anywhere};
use crate::provider::Provider;
use crate::sandbox::{Output, Sandbox, Write};
use crate::session::Session;
use crate::shell;
use crate::time::sleep;

/// The timeout of a command.
const TIMEOUT: Duration = Duration::from_mins(10);
/// The interval at which a subscription polls whether the sandbox sleeps.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The largest file that can be read as a whole.
#[doc(hidden)]
pub const LARGEST: u64 = 64 * 1024 * 1024;

/// A handle to a sandbox of a session, returned by [`Session::get`]. All handles to a sandbox share one [`State`], which also
/// records what agents do through the tools.
///
/// ```no_run
/// # async fn example<P: koze_core::Provider>(session: koze_core::Session<P>) -> koze_core::Result<()> {
/// let sandbox = session.get("builder").await?;
/// sandbox.write_file("main.py", "print(6 * 7)").await?;
/// let output = sandbox.exec("python3 main.py").await?;
/// assert_eq!(output.stdout, b"42\n");
/// # Ok(())
/// # }
/// ```
pub struct Handle<P: Provider> {
    session: Session<P>,
    name: SandboxName,
    sandbox: P::Sandbox,
    observed: Arc<Observed>,
}

impl<P: Provider> Session<P> {
    /// Returns a handle to the sandbox with this name. Creates the sandbox with the default profile on first use.
    ///
    /// If your keys are not valid names, use them as sessions: `SessionId::new("app", key)`.
    ///
    /// # Errors
    /// As [`Session::sandbox`].
    pub async fn get(&self, name: &str) -> Result<Handle<P>> {
        let sandbox = self.sandbox(name).await?;
        let name = SandboxName::new(name)?;
        let observed = self.observe_sandbox(&name);
        Ok(Handle::new(self.clone(), name, sandbox, observed))
    }
}

impl<P: Provider> Handle<P> {
    pub(crate) fn new(
        session: Session<P>,
        name: SandboxName,
        sandbox: P::Sandbox,
        observed: Arc<Observed>,
    ) -> Self {
        Handle { session, name, sandbox, observed }
    }

    /// Returns the sandbox's name.
    pub fn name(&self) -> &SandboxName {
        &self.name
    }

    /// Returns the session.
    pub fn session(&self) -> &Session<P> {
        &self.session
    }

    /// Returns the sandbox itself, with all operations of [`Sandbox`].
    ///
    /// # Errors
    /// [`Code::NotFound`] if it was destroyed.
    pub fn sandbox(&self) -> Result<&P::Sandbox> {
        if self.observed.state().status == Lifecycle::Destroyed {
            return Err(Error::new(Code::NotFound, format!("the sandbox `{}` was destroyed", self.name)));
        }
        Ok(&self.sandbox)
    }

    /// Runs a bash command with a timeout of ten minutes. Dropping the future kills the command.
    ///
    /// # Errors
    /// The errors of the sandbox. A failing command is not an error.
    pub async fn exec(&self, command: &str) -> Result<Output> {
        let output = shell::run(self.sandbox()?, command, HOME, TIMEOUT).await?;
        self.observed.ran(command, &output);
        Ok(output)
    }

    /// Returns whether the sandbox answers, by running `true`.
    pub async fn is_healthy(&self) -> bool {
        let Ok(sandbox) = self.sandbox() else { return false };
        shell::run(sandbox, "true", HOME, TIMEOUT).await.is_ok_and(|output| output.exit_code == 0)
    }

    /// Reads a file. A relative path starts at `/home/user`.
    ///
    /// # Errors
    /// The errors of the sandbox; [`Code::TooLarge`] for more than 64 MiB.
    pub async fn read_file(&self, path: &str) -> Result<Vec<u8>> {
        whole(self.sandbox()?, path, LARGEST).await
    }

    /// Writes a file and creates missing parent directories.
    ///
    /// # Errors
    /// The errors of the sandbox.
    pub async fn write_file(&self, path: &str, content: impl Into<Vec<u8>>) -> Result<()> {
        let path = absolute(path)?;
        self.sandbox()?.write(anywhere(&path), content.into(), Write::Replace).await.map(drop)
    }

    /// Exposes a port and returns its URL.
    ///
    /// # Errors
    /// The errors of the sandbox.
    pub async fn browse(&self, port: u16) -> Result<String> {
        let url = self.sandbox()?.expose(port).await?;
        self.observed.exposed(&url);
        Ok(url)
    }

    /// Returns the state of the sandbox.
    ///
    /// # Errors
    /// The errors of the provider.
    pub async fn state(&self) -> Result<State> {
        self.refresh_lifecycle().await?;
        Ok(self.observed.state())
    }

    /// Streams the current state and every later one until the sandbox is destroyed. Changes between two polls are merged.
    /// Natively the stream needs a tokio runtime.
    pub fn subscribe(&self) -> impl Stream<Item = State> + MaybeSend + use<P> {
        let start = Some((self.clone(), self.observed.subscribe()));
        unfold(start, |at| async move {
            let (handle, mut states) = at?;
            loop {
                let changed = matches!(
                    select(pin!(states.changed()), pin!(sleep(POLL_INTERVAL))).await,
                    Either::Left((Ok(()), _))
                );
                if changed {
                    let state = states.borrow_and_update().clone();
                    let more = (state.status != Lifecycle::Destroyed).then_some((handle, states));
                    return Some((state, more));
                }
                // A provider that does not answer now may answer later.
                let _ = handle.refresh_lifecycle().await;
            }
        })
    }

    /// Stops the sandbox and deletes its files.
    ///
    /// # Errors
    /// [`Code::NotFound`] if it was already destroyed, and the errors of the provider.
    pub async fn destroy(&self) -> Result<()> {
        self.sandbox()?;
        self.session.destroy(self.name.as_str()).await
    }

    /// Asks the provider whether the sandbox runs.
    async fn refresh_lifecycle(&self) -> Result<Lifecycle> {
        if self.sandbox().is_err() {
            return Ok(Lifecycle::Destroyed);
        }
        let lifecycle = match self.session.find_sandbox(&self.name).await? {
            Some(opened) => opened.sandbox.status().await?.into(),
            None => Lifecycle::Destroyed,
        };
        self.observed.set_lifecycle(lifecycle);
        Ok(lifecycle)
    }
}

/// Reads a whole file.
#[doc(hidden)]
pub async fn whole<S: Sandbox>(sandbox: &S, path: &str, most: u64) -> Result<Vec<u8>> {
    let path = absolute(path)?;
    let piece = sandbox.read(anywhere(&path), 0, most + 1).await?;
    if piece.bytes.len() as u64 > most {
        let message = format!("`{path}` has {} bytes; the maximum is {most}", piece.size);
        return Err(Error::new(Code::TooLarge, message));
    }
    Ok(piece.bytes)
}

impl<P: Provider> Clone for Handle<P> {
    fn clone(&self) -> Self {
        Handle {
            session: self.session.clone(),
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
