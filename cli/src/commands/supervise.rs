//! `koze supervise`: the background process that `koze call` starts.

use std::process::ExitCode;

use crate::args;
use crate::provider::{self, EngineKind};
use crate::session::{self, State, supervisor};

pub(super) fn run(args: &args::Supervise) -> ExitCode {
    // Otherwise it is that of the file that was run: `exe`.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_name(c"koze-supervisor");
    let state = State::handed(args.state.clone());
    let session = session::session(&args.session);
    let done = session.and_then(|session| match args.engine.map(EngineKind::from) {
        None => supervisor::run(&state, &session, None, provider::open),
        Some(kind) => supervisor::run(&state, &session, Some(kind), move |dir, secrets, journal| {
            provider::open_engine(kind, dir, secrets, journal)
        }),
    });
    // The error was reported on standard output.
    ExitCode::from(u8::from(done.is_err()))
}
