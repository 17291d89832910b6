//! `koze logs`: shows the output of a process of a sandbox on this machine.

use std::io::ErrorKind;
use std::process::ExitCode;

use koze_core::sandbox::Status;
use koze_core::sandbox::process::Chunk;

use super::kill::asleep_error;
use super::local_session::{self, LocalSession};
use super::show;
use crate::args;

pub(super) fn run(args: &args::Logs) -> Result<ExitCode, ExitCode> {
    let session = LocalSession::find(&args.session)?;
    let found = session.survey(&args.name).map_err(|error| local_session::failed(&error))?;
    if found.status == Status::Sleeping {
        return Err(local_session::failed(&asleep_error(&args.name)));
    }
    let mut failure = None;
    let print = |chunk: Chunk| match show::print_output(&chunk.bytes, chunk.stream) {
        Ok(()) => true,
        Err(error) => {
            failure = Some(error);
            false
        }
    };
    let shown =
        local_session::wait(session.client().logs(&args.name, args.id.as_deref(), args.follow, print))?;
    shown.map_err(|error| local_session::failed(&error))?;
    match failure {
        // The reader needs no more.
        Some(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(show::failure(&format!("the output cannot be written: {error}")))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}
