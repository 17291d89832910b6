//! `koze kill`: sends a signal to processes of a sandbox on this machine.

use std::process::ExitCode;

use koze_core::sandbox::Status;
use koze_core::{Code, Error};

use super::local_session::{self, LocalSession};
use super::show;
use crate::args;

pub(super) fn run(args: &args::Kill) -> Result<ExitCode, ExitCode> {
    let session = LocalSession::find(&args.session)?;
    let found = session.survey(&args.name).map_err(|error| local_session::failed(&error))?;
    if found.status == Status::Sleeping {
        return Err(local_session::failed(&asleep_error(&args.name)));
    }
    local_session::wait(async {
        let client = session.client();
        let mut code = ExitCode::SUCCESS;
        for id in &args.ids {
            match client.signal(&args.name, id, args.signal).await {
                Ok(()) => show::out(&format!("sent the signal {} to {id}\n", args.signal.number())),
                Err(error) => code = local_session::failed(&error),
            }
        }
        code
    })
}

/// Returns the error for a sandbox that sleeps, and thus has no processes.
pub(super) fn asleep_error(name: &str) -> Error {
    Error::new(Code::NotFound, format!("the sandbox `{name}` is asleep: it has no processes"))
}
