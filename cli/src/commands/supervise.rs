//! `koze supervise`: the background process that `koze call` starts.

use std::process::ExitCode;

use crate::args;
use crate::provider;
use crate::session::{self, State, supervisor};

pub(super) fn run(args: &args::Supervise) -> ExitCode {
    let state = State::handed(args.state.clone());
    let session = session::session(&args.session);
    let done = session.and_then(|session| supervisor::run(&state, &session, provider::open));
    // The error was reported on standard output.
    ExitCode::from(u8::from(done.is_err()))
}
