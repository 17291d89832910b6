//! `koze doctor --prove`: attempts to escape from sandboxes on this machine, and of packages to write outside of
//! themselves.

mod cloned;

use std::path::Path;
use std::process::ExitCode;

use koze_local::prove::{self, Fault, Verdict};

use self::cloned::ATTEMPTS;
use super::{local_session, show};
use crate::args::Format;
use crate::output::json::proof::{self, Attempt, Proof};

pub(super) fn run(format: Format) -> Result<ExitCode, ExitCode> {
    let dir = tempfile::Builder::new().prefix("koze-proof-").tempdir();
    let dir = dir.map_err(|error| show::failure(&format!("cannot create a temporary directory: {error}")))?;
    let (kernel, user) = this_machine();
    let mut made = Vec::new();
    if format != Format::Json {
        show::out(&format!("{kernel}, as uid {user}\n"));
    }
    let names = prove::attempts().chain(ATTEMPTS.iter().map(|attempt| attempt.name));
    let width = names.map(str::len).max().unwrap_or(0);
    let mut tell = |name: &'static str, tries: String, verdict: &Verdict| {
        let attempt = record_attempt(name, tries, verdict);
        if format != Format::Json {
            show::out(&render_attempt(&attempt, width));
        }
        made.push(attempt);
    };
    // First, because the proof of sandboxes removes the directory.
    for attempt in &ATTEMPTS {
        tell(attempt.name, attempt.tries.to_owned(), &attempt.prove(dir.path()));
    }
    let done: Result<(), Fault> = local_session::wait(prove::all(Path::new(dir.path()), |name, verdict| {
        tell(name, prove::words(name), verdict);
    }))?;
    done.map_err(|fault| show::failure(&format!("cannot start a sandbox on this machine: {fault}")))?;
    let proof = Proof::new(kernel, user, made);
    show::out(&match format {
        Format::Json => proof::text(&proof),
        Format::Human | Format::GitHub => format!(
            "{} attempts: {} held, {} open, {} not testable\n",
            proof.attempts.len(),
            proof.held,
            proof.open,
            proof.not_testable
        ),
    });
    Ok(ExitCode::from(u8::from(proof.open > 0)))
}

/// Returns the kernel version and the user ID.
fn this_machine() -> (String, u32) {
    let name = rustix::system::uname();
    let words = [name.sysname(), name.release(), name.machine()].map(|word| word.to_string_lossy());
    (words.join(" "), rustix::process::geteuid().as_raw())
}

fn record_attempt(name: &'static str, tries: String, verdict: &Verdict) -> Attempt {
    let (verdict, why) = match verdict {
        Verdict::Held => (proof::Verdict::Held, None),
        Verdict::Open(why) => (proof::Verdict::Open, Some(why.clone())),
        Verdict::NotTestable(why) => (proof::Verdict::NotTestable, Some(why.clone())),
    };
    Attempt { name, tries, verdict, why }
}

fn render_attempt(attempt: &Attempt, width: usize) -> String {
    let Attempt { name, tries, verdict, why } = attempt;
    let line = format!("{:<12}  {name:width$}  {tries}\n", verdict.word());
    match why {
        Some(why) => format!("{line}{:14}{:width$}  {why}\n", "", ""),
        None => line,
    }
}
