//! `koze secret`: the secrets that scripts and credentials of sandboxes on this machine use.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _};
use std::process::ExitCode;

use koze_core::script::SHORTEST_MASKED;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use super::local_session::{self, failed};
use super::show;
use super::table::table;
use super::time::time;
use crate::args::{self, ListFormat, SecretAction, StateArgs};
use crate::session::State;

/// The longest input that is read, in bytes. It is more than a value may have, so that a longer value is an error.
const MAX_INPUT: u64 = 1 << 20;
/// The exit code of a command that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

pub(super) fn run(args: &args::Secret) -> Result<ExitCode, ExitCode> {
    match &args.action {
        SecretAction::Set { name, state } => set(name, state),
        SecretAction::List { format, state } => list(*format, state),
        SecretAction::Rm { name, state } => remove(name, state),
    }
}

fn find_state(args: &StateArgs) -> Result<State, ExitCode> {
    local_session::state(&args.project, args.state.as_deref())
}

fn set(name: &str, args: &StateArgs) -> Result<ExitCode, ExitCode> {
    let state = find_state(args)?;
    let value = read_value(name)?;
    state.make().map_err(|error| failed(&error))?;
    state.secrets().set(name, &value).map_err(|error| failed(&error))?;
    show::err(&format!(
        "set {name}: scripts read it as secrets.{name}, unless it is declared as a credential\n"
    ));
    if value.chars().count() < SHORTEST_MASKED {
        show::err(&format!(
            "warning: the value has fewer than {SHORTEST_MASKED} characters, so it is not masked in results\n"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn list(format: ListFormat, args: &StateArgs) -> Result<ExitCode, ExitCode> {
    let listed = find_state(args)?.secrets().list().map_err(|error| failed(&error))?;
    match format {
        ListFormat::Json => {
            let entries = listed.iter().map(|info| json!({ "name": info.name, "updated": info.updated }));
            show::out(&format!("{:#}\n", json!({ "secrets": entries.collect::<Vec<Value>>() })));
        }
        ListFormat::Human if listed.is_empty() => {
            show::out("no secrets: `koze secret set NAME` sets one\n");
        }
        ListFormat::Human => {
            let rows = listed.into_iter().map(|info| [info.name, time(info.updated)]);
            show::out(&table(["SECRET", "UPDATED"], rows));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn remove(name: &str, args: &StateArgs) -> Result<ExitCode, ExitCode> {
    find_state(args)?.secrets().remove(name).map_err(|error| failed(&error))?;
    show::err(&format!("removed {name}\n"));
    Ok(ExitCode::SUCCESS)
}

/// Reads a value, without the line ending after it.
fn read_value(name: &str) -> Result<String, ExitCode> {
    let read = if io::stdin().is_terminal() { prompt_value(name)? } else { read_stdin() };
    let mut value = read.map_err(|error| {
        // A text that is not UTF-8 is not quoted.
        show::usage(&format!("the value cannot be read: {error}"))
    })?;
    if value.ends_with('\n') {
        value.pop();
        if value.ends_with('\r') {
            value.pop();
        }
    }
    Ok(value)
}

fn read_stdin() -> io::Result<String> {
    let mut text = String::new();
    io::stdin().lock().take(MAX_INPUT).read_to_string(&mut text)?;
    Ok(text)
}

/// Asks for a value on the terminal, which does not show it.
fn prompt_value(name: &str) -> Result<io::Result<String>, ExitCode> {
    let read = local_session::wait(async {
        // Before anything is hidden, because Ctrl-C must restore the terminal.
        let mut interrupted = signal(SignalKind::interrupt())?;
        let _hidden = Hidden::new()?;
        // Only now, because what was typed before is discarded.
        show::err(&format!("value of {name} (not shown): "));
        // On a thread of its own, which ends with the program.
        let (done, line) = oneshot::channel();
        std::thread::spawn(move || {
            let mut text = String::new();
            let read = io::stdin().lock().take(MAX_INPUT).read_line(&mut text).map(|_| text);
            let _ = done.send(read);
        });
        tokio::select! {
            read = line => read.unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into())).map(Some),
            _ = interrupted.recv() => Ok(None),
        }
    })?;
    // The line ending was not shown either.
    show::err("\n");
    read.transpose().ok_or_else(|| ExitCode::from(INTERRUPTED))
}

/// A terminal that does not show what is typed. It does again when this is dropped.
struct Hidden(Termios);

impl Hidden {
    fn new() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        tcsetattr(io::stdin(), OptionalActions::Flush, &hidden)?;
        Ok(Hidden(before))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}
