//! `koze guard`: the process that `koze dev` places between itself and wrangler.

use std::process::ExitCode;

use super::{local_session, show};
use crate::args;
use crate::dev::guard;

pub(super) fn run(args: &args::Guard) -> ExitCode {
    match local_session::wait(guard::run(args.parent, &args.program)) {
        Ok(Ok(code)) | Err(code) => code,
        Ok(Err(error)) => show::failure(&format!("`{}` cannot be run: {error}", args.program[0].display())),
    }
}
