//! The parts of `koze dev` that depend on the operating system, on systems other than Linux.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use tokio::process::Command;

use super::{Started, show};
use crate::platform::{self, Signals};

/// Fails: sandboxes on this machine need Linux.
pub(super) fn on_this_machine(_: &Started) -> Result<ExitCode, ExitCode> {
    Err(show::failure(
        "`koze dev --local` runs sandboxes on this machine, which needs Linux: run `koze dev`, which runs them in containers with Docker",
    ))
}

/// Runs wrangler until it exits, and forwards signals to it.
pub(super) fn run(program: &Path, configure: impl FnOnce(&mut Command)) -> io::Result<ExitCode> {
    let mut command = Command::new(program);
    configure(&mut command);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let status = runtime.and_then(|runtime| {
        runtime.block_on(async {
            let mut signals = Signals::new()?;
            let mut child = command.spawn()?;
            loop {
                let id = child.id();
                tokio::select! {
                    status = child.wait() => return status,
                    () = signals.pass(id) => {}
                }
            }
        })
    });
    status.map(platform::to_exit_code)
}
