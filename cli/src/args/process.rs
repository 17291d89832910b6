//! The commands that look into sandboxes on this machine: their programs, their output and their state.

use std::time::Duration;

use clap::Args;
use koze_core::sandbox::process::Signal;

use super::{ListFormat, RemoteArgs, SessionArgs, StateArgs};

/// `koze exec`.
#[derive(Debug, Args)]
pub struct Exec {
    /// Pass standard input to the program
    #[arg(short, long, conflicts_with = "detach")]
    pub interactive: bool,

    /// Give the program a terminal
    #[arg(short, long, conflicts_with = "detach")]
    pub tty: bool,

    /// Set an environment variable of the program, in addition to those of the sandbox
    #[arg(short, long, value_name = "NAME=VALUE", value_parser = parse_variable)]
    pub env: Vec<(String, String)>,

    /// The working directory; a relative path starts at `/home/user` [default: /home/user]
    #[arg(short, long, value_name = "DIR")]
    pub workdir: Option<String>,

    /// Kill the program after this time, such as `30`, `1.5s`, `10m` or `2h`, and exit with 124
    #[arg(long, value_name = "TIME", value_parser = parse_time, conflicts_with = "detach")]
    pub timeout: Option<Duration>,

    /// Leave the program running, and print the ID of its process, whose output `koze logs` shows
    #[arg(short, long)]
    pub detach: bool,

    /// The sandbox
    pub name: String,

    /// The program and its arguments
    #[arg(value_name = "ARGV", last = true, required = true)]
    pub argv: Vec<String>,

    /// The server.
    #[command(flatten)]
    pub remote: RemoteArgs,

    /// The options for the project.
    #[command(flatten)]
    pub session: SessionArgs,
}

/// `koze shell`.
#[derive(Debug, Args)]
pub struct Shell {
    /// The sandbox [default: the only one of the session]
    pub name: Option<String>,

    /// The server.
    #[command(flatten)]
    pub remote: RemoteArgs,

    /// The options for the project.
    #[command(flatten)]
    pub session: SessionArgs,
}

/// `koze ps`.
#[derive(Debug, Args)]
pub struct Ps {
    /// List the processes of this sandbox [default: list the sandboxes]
    pub name: Option<String>,

    /// List the sandboxes of all packages, and how to remove those of packages that no longer exist
    #[arg(long, conflicts_with_all = ["name", "project", "state"])]
    pub all_projects: bool,

    /// The server.
    #[command(flatten)]
    pub remote: RemoteArgs,

    /// The options for the project.
    #[command(flatten)]
    pub state: StateArgs,

    /// The session [default: all sessions; `default` for the processes of a sandbox]
    #[arg(long, value_name = "SESSION")]
    pub session: Option<String>,

    /// Output for people, or one JSON document on standard output
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub format: ListFormat,
}

/// `koze kill`.
#[derive(Debug, Args)]
pub struct Kill {
    /// The signal, such as `TERM`, `SIGINT` or `2`. `KILL` ends the process with all that it started, other signals go to its
    /// process group
    #[arg(short, long, value_name = "SIGNAL", default_value = "KILL", value_parser = parse_signal)]
    pub signal: Signal,

    /// The sandbox
    pub name: String,

    /// The IDs of the processes, or their beginnings, as `koze ps NAME` lists them
    #[arg(value_name = "ID", required = true)]
    pub ids: Vec<String>,

    /// The server.
    #[command(flatten)]
    pub remote: RemoteArgs,

    /// The options for the project.
    #[command(flatten)]
    pub session: SessionArgs,
}

/// `koze stop`.
#[derive(Debug, Args)]
pub struct Stop {
    /// The sandboxes to put to sleep
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<String>,

    /// The options for the project.
    #[command(flatten)]
    pub session: SessionArgs,
}

/// `koze logs`.
#[derive(Debug, Args)]
pub struct Logs {
    /// Go on until the process ends
    #[arg(short, long)]
    pub follow: bool,

    /// The sandbox
    pub name: String,

    /// The ID of the process, or its beginning [default: the process that was started last]
    pub id: Option<String>,

    /// The server.
    #[command(flatten)]
    pub remote: RemoteArgs,

    /// The options for the project.
    #[command(flatten)]
    pub session: SessionArgs,
}

/// `koze inspect`.
#[derive(Debug, Args)]
pub struct Inspect {
    /// The sandbox
    pub name: String,

    /// The server.
    #[command(flatten)]
    pub remote: RemoteArgs,

    /// The options for the project.
    #[command(flatten)]
    pub session: SessionArgs,
}

/// The names of the signals, without `SIG`.
const SIGNALS: [(&str, Signal); 9] = [
    ("HUP", Signal::Hangup),
    ("INT", Signal::Interrupt),
    ("QUIT", Signal::Quit),
    ("KILL", Signal::Kill),
    ("USR1", Signal::User1),
    ("USR2", Signal::User2),
    ("TERM", Signal::Terminate),
    ("CONT", Signal::Continue),
    ("STOP", Signal::Stop),
];

/// Parses a signal: its name, with or without `SIG`, or its number.
fn parse_signal(text: &str) -> Result<Signal, String> {
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let named = SIGNALS.iter().find(|(other, _)| *other == name).map(|(_, signal)| *signal);
    let numbered = || Signal::from_number(text.parse().ok()?);
    named.or_else(numbered).ok_or_else(|| {
        let known: Vec<_> = SIGNALS.iter().map(|(name, _)| *name).collect();
        format!("it must be one of {}", known.join(", "))
    })
}

/// Parses an environment variable.
fn parse_variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write it as NAME=VALUE".to_owned()),
    }
}

/// Parses a time as `timeout` does: a number of seconds, or one with the unit `s`, `m`, `h` or `d`.
fn parse_time(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.char_indices().last() {
        Some((at, 's')) => (&text[..at], 1.0),
        Some((at, 'm')) => (&text[..at], 60.0),
        Some((at, 'h')) => (&text[..at], 3600.0),
        Some((at, 'd')) => (&text[..at], 86_400.0),
        _ => (text, 1.0),
    };
    let wrong =
        || "write a number of seconds, or one with the unit s, m, h or d, such as `90` or `1.5m`".to_owned();
    let is_number = number.starts_with(|c: char| c.is_ascii_digit())
        && number.chars().all(|c| c.is_ascii_digit() || c == '.');
    if !is_number {
        return Err(wrong());
    }
    let seconds: f64 = number.parse().map_err(|_| wrong())?;
    let time = Duration::try_from_secs_f64(seconds * unit).map_err(|_| wrong())?;
    if time.is_zero() { Err("it must be more than 0".to_owned()) } else { Ok(time) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let millis = |text: &str| parse_time(text).map(|time| time.as_millis());
        for (text, expected) in [
            ("1", 1000),
            ("0.25", 250),
            ("2s", 2000),
            ("1.5m", 90_000),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
        ] {
            assert_eq!(millis(text), Ok(expected), "{text}");
        }
        for text in [
            "",
            "s",
            "-1",
            "+1",
            "1x",
            "inf",
            "nan",
            "1e3",
            "1ms",
            "1..2",
            ".5",
            "0",
            "0s",
            "99999999999999999999999999d",
        ] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn signals() {
        for signal in Signal::ALL {
            assert!(SIGNALS.iter().any(|(_, named)| *named == signal), "{signal:?} has a name");
            assert_eq!(parse_signal(&signal.number().to_string()), Ok(signal));
        }
        for text in ["TERM", "term", "SIGTERM", "sigterm", "15"] {
            assert_eq!(parse_signal(text), Ok(Signal::Terminate), "{text}");
        }
        for text in ["", "SIG", "TERMS", "0", "11", "-9"] {
            assert!(parse_signal(text).is_err(), "{text}");
        }
    }

    #[test]
    fn variables() {
        assert_eq!(parse_variable("A=b=c"), Ok(("A".to_owned(), "b=c".to_owned())));
        assert_eq!(parse_variable("A="), Ok(("A".to_owned(), String::new())));
        assert!(parse_variable("A").is_err() && parse_variable("=b").is_err());
    }
}
