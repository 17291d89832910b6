//! `koze supervise`: what `koze call` starts in the background.

use std::process::ExitCode;

use crate::args;
use crate::session::{self, State, supervisor};

pub(super) fn run(args: &args::Supervise) -> ExitCode {
    let state = State::handed(args.state.clone());
    let done = session::session(&args.session).and_then(|session| supervisor::run(&state, &session));
    // It has said on standard output what was wrong.
    ExitCode::from(u8::from(done.is_err()))
}
