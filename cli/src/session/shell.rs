//! The login shell of a sandbox, which `koze shell` and the route `terminal` open.

use koze_core::path::HOME;
use koze_core::{Code, Error, Profiles};

use super::client::Client;
use super::exec::{Attending, ExecError, Ran};
use super::message::{ExecRequest, ExecStreams};
use super::no_sandbox_among;
use crate::commands::SHELLS;

impl Client {
    /// Opens the login shell of a sandbox that exists, on a terminal of this size. Does not create the session.
    ///
    /// # Errors
    /// Returns the errors of [`Client::exec`]; [`Code::NotFound`] if the sandbox has no shell.
    pub async fn open_shell(
        &self,
        profiles: Profiles,
        sandbox: &str,
        (rows, columns): (u16, u16),
    ) -> Result<Attending, ExecError> {
        if !self.state().has(self.session()) {
            return Err(ExecError::Failed(no_sandbox_among(sandbox, &[])));
        }
        for shell in SHELLS {
            let request = ExecRequest {
                profiles: profiles.clone(),
                sandbox: sandbox.to_owned(),
                argv: vec![shell.to_owned(), "-l".to_owned()],
                env: Vec::new(),
                working_dir: HOME.to_owned(),
                streams: ExecStreams::Terminal { rows, columns },
                timeout: None,
            };
            match self.exec(request).await {
                Ok(Ran::Attached(attending)) => return Ok(attending),
                Err(ExecError::NotStarted(error)) if error.code == Code::NotFound => {}
                Err(error) => return Err(error),
                Ok(Ran::Detached(_)) => unreachable!("a terminal was requested"),
            }
        }
        let message = format!("the sandbox has no login shell: it needs one of {}", SHELLS.join(", "));
        Err(ExecError::NotStarted(Error::new(Code::NotFound, message)))
    }
}
