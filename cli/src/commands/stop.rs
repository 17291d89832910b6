//! `koze stop`: puts sandboxes on this machine to sleep.

use std::process::ExitCode;

use koze_core::sandbox::Status;

use super::local_session::{self, LocalSession};
use super::show;
use crate::args;

pub(super) fn run(args: &args::Stop) -> Result<ExitCode, ExitCode> {
    let session = LocalSession::find(&args.session)?;
    local_session::wait(async {
        let mut code = ExitCode::SUCCESS;
        for name in &args.names {
            match stop_sandbox(&session, name).await {
                Ok(said) => show::out(&format!("{said} {name}\n")),
                Err(error) => code = local_session::failed(&error),
            }
        }
        code
    })
}

/// Puts a sandbox to sleep. Returns what to say about it. Starts no supervisor for one that sleeps.
async fn stop_sandbox(session: &LocalSession, name: &str) -> koze_core::Result<&'static str> {
    if session.survey(name)?.status == Status::Sleeping {
        return Ok("already asleep:");
    }
    session.client().sleep(name).await?;
    Ok("stopped")
}
