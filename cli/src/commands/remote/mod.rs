//! The commands that work with the sandboxes of a server, with `--url`: a Worker, `koze dev`, `koze serve` or `koze mcp --http`. They
//! run on every system.
//!
//! | module | job |
//! |---|---|
//! | `calls` | `call` and `log` |
//! | `sandboxes` | `sandboxes`, `inspect` and `destroy` |
//! | `processes` | `ps`, `logs` and `kill` |
//! | `exec` | `exec` and `shell` |
//! | `cp` | `cp` |
//! | `snapshots` | `snapshot` |
//! | `mcp` | `mcp` |

mod calls;
mod cp;
mod exec;
mod mcp;
mod processes;
mod sandboxes;
mod snapshots;

use std::process::ExitCode;

use koze_client::{Client, Session};
use koze_core::Error;

use super::programs::KOZE_FAILED;
use super::{call_lines, show};
use crate::args::{Command, SessionArgs, StateArgs};

/// The environment variable with the token of the server.
const TOKEN: &str = "KOZE_TOKEN";

/// Runs a command, if its arguments name a server.
pub(super) fn run(command: &Command) -> Option<ExitCode> {
    let in_session = |state: &StateArgs, session: &Option<String>| state.in_session(session.as_deref());
    let (name, remote, session) = match command {
        Command::Call(args) => ("call", &args.remote, args.session.clone()),
        Command::Cp(args) => ("cp", &args.remote, args.session.clone()),
        Command::Exec(args) => ("exec", &args.remote, args.session.clone()),
        Command::Shell(args) => ("shell", &args.remote, args.session.clone()),
        Command::Ps(args) => ("ps", &args.remote, in_session(&args.state, &args.session)),
        Command::Logs(args) => ("logs", &args.remote, args.session.clone()),
        Command::Kill(args) => ("kill", &args.remote, args.session.clone()),
        Command::Inspect(args) => ("inspect", &args.remote, args.session.clone()),
        Command::Sandboxes(args) => ("sandboxes", &args.remote, in_session(&args.state, &args.session)),
        Command::Log(args) => ("log", &args.remote, in_session(&args.state, &args.session)),
        Command::Destroy(args) => ("destroy", &args.remote, args.session.clone()),
        Command::Snapshot(args) => {
            let place = args.action.place();
            ("snapshot", &place.remote, place.session.clone())
        }
        Command::Mcp(args) => ("mcp", &args.remote, args.session.clone()),
        _ => return None,
    };
    let url = remote.url.as_deref()?;
    let chooses_files = match command {
        Command::Call(args) => args.offer.image.is_some(),
        Command::Mcp(args) => args.offer.image.is_some(),
        _ => false,
    };
    if chooses_files {
        let why = "--image: a server decides which files its sandboxes have: leave it out with --url";
        return Some(show::usage(why));
    }
    let session = match find_session(name, url, &session) {
        Ok(session) => session,
        // Their other exit codes are those of programs.
        Err(why) if matches!(command, Command::Exec(_) | Command::Shell(_)) => {
            show::usage(&why);
            return Some(ExitCode::from(KOZE_FAILED));
        }
        Err(why) => return Some(show::usage(&why)),
    };
    Some(run_in(&session, command).unwrap_or_else(|code| code))
}

/// Runs a command with a session of a server.
fn run_in(session: &Session, command: &Command) -> Result<ExitCode, ExitCode> {
    match command {
        Command::Call(args) => calls::call(session, args),
        Command::Cp(args) => cp::run(session, args),
        Command::Exec(args) => exec::run(session, args),
        Command::Shell(args) => exec::run_shell(session, args),
        Command::Ps(args) => processes::list(session, args),
        Command::Logs(args) => processes::logs(session, args),
        Command::Kill(args) => Ok(processes::kill(session, args)),
        Command::Inspect(args) => sandboxes::inspect(session, args),
        Command::Sandboxes(args) => sandboxes::list(session, args),
        Command::Log(args) => calls::log(session, args),
        Command::Destroy(args) => sandboxes::destroy(session, args),
        Command::Snapshot(args) => snapshots::run(session, args),
        Command::Mcp(args) => mcp::run(session, args),
        _ => unreachable!("the other commands have no server"),
    }
}

/// Returns the session that the arguments of a command select, or what is wrong with them.
fn find_session(command: &str, url: &str, session: &SessionArgs) -> Result<Session, String> {
    if session.config.is_some() {
        return Err("--config: a server has its own configuration: leave it out with --url".to_owned());
    }
    Ok(find_client(command, url)?.session(&session.session))
}

/// Returns a client of the server at a URL, or what is wrong with it or its token.
pub(super) fn find_client(command: &str, url: &str) -> Result<Client, String> {
    let token = std::env::var(TOKEN).map_err(|error| match error {
        std::env::VarError::NotPresent => {
            format!("--url: set {TOKEN} to the token of the server, which is the Worker's secret {TOKEN}")
        }
        std::env::VarError::NotUnicode(_) => format!("{TOKEN} is not UTF-8"),
    })?;
    let client = Client::with_name(url, &token, &format!("koze {command}"));
    client.map_err(|error| format!("--url: {}", error.message))
}

/// Shows an error of the server, whose message is not trusted.
fn report_error(error: &Error) -> ExitCode {
    show::failed(&Error::new(error.code, call_lines::visible(&error.message)))
}
