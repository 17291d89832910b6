//! `bash`.

use std::time::Duration;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

use super::{cut, error_text, open_sandbox, to_reply};
use crate::error::{Code, Error, Result};
use crate::path::THREAD_WORKSPACE;
use crate::profiles::Profiles;
use crate::provider::Provider;
use crate::sandbox::{EndedPrograms, Output, Sandbox as _};
use crate::session::Session;
use crate::shell::{self, ShellCommand};
use crate::tool::agent::DEFAULT;
use crate::tool::{Reply, Scope, Tool};

/// Runs a command.
#[derive(Debug)]
pub struct Bash;

/// The input of `bash`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Explain why you are running this command in short words. ALWAYS PROVIDE THIS PARAMETER FIRST.
    #[serde(rename = "description")]
    _description: String,
    /// The bash command to execute. Always use absolute paths for files and directories.
    command: String,
}

/// How long a command may run.
const TIMEOUT: Duration = Duration::from_mins(10);

/// The longest result, in characters.
const MAX_RESULT: usize = 20_000;

/// Prepares the environment of a command, and runs it.
const PREPARED: &str = include_str!("bash.sh");

impl Tool for Bash {
    const NAME: &'static str = "bash";
    const DESCRIPTION: &'static str = "Execute a bash command in a Linux environment. Returns its output: stdout, then stderr, then the exit code \
        unless it is 0.\n\n\
        - Use `python` to run Python code\n\
        - Use `pip install` to install Python packages\n\
        - Always use absolute paths in commands\n\
        - Start a long-lived process, such as a server, in the background with its output redirected: a command is \
        killed after 10 minutes";
    const SCOPE: Scope = Scope::Session;
    type Input = Input;

    fn wrong_input(error: Error) -> Result<Reply> {
        Ok(super::wrong_input(error))
    }

    async fn call<P: Provider>(session: &Session<P>, input: Input) -> Result<Reply> {
        match run_command(session, &input.command).await {
            Ok((output, ended)) => {
                let secrets = declared_secrets(session.profiles());
                let mut text = format_output(&output, TIMEOUT, &secrets);
                if let Some(ended) = ended {
                    text = format!("{}\n[{}]", text.trim_end(), hide_secrets(ended.notice(), &secrets));
                }
                Ok(Reply { is_error: output.exit_code != 0, ..Reply::text(text) })
            }
            Err(error) => Ok(to_reply(Err(error))),
        }
    }
}

async fn run_command<P: Provider>(
    session: &Session<P>,
    command: &str,
) -> std::result::Result<(Output, Option<EndedPrograms>), String> {
    shell::check_command(command).map_err(|error| error.message)?;
    let sandbox = open_sandbox(session).await?;
    let prepared = ShellCommand::new(command, THREAD_WORKSPACE, TIMEOUT).after(Some(PREPARED));
    let output = shell::run_command(&sandbox, &prepared).await;
    let output = output.map_err(|error| failure_text(&error))?;
    if let Some(observed) = session.find_observer(DEFAULT) {
        observed.ran(command, &output);
    }
    Ok((output, sandbox.take_ended_programs().await))
}

fn failure_text(error: &Error) -> String {
    match error.code {
        Code::Unavailable | Code::Unsupported => error_text(error),
        _ => format!("Unexpected error executing command: {error}"),
    }
}

/// Returns what a model reads of a program's output.
fn format_output(output: &Output, timeout: Duration, secrets: &[impl AsRef<str>]) -> String {
    let (mut text, lost) = decode_stream(&output.stdout);
    let (errors, lost_errors) = decode_stream(&output.stderr);
    if !errors.is_empty() {
        if !text.is_empty() {
            text.push_str("\nStd Error:\n");
        }
        text.push_str(&errors);
    }
    if output.timed_out {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&timed_out(timeout));
    } else if output.exit_code != 0 {
        text = format!("{text}\nExit Code: {}", output.exit_code);
    }
    if text.is_empty() {
        return "(no output)".to_owned();
    }
    cut::keep_ends(hide_secrets(text, secrets), lost + lost_errors, MAX_RESULT)
}

fn hide_secrets(text: String, secrets: &[impl AsRef<str>]) -> String {
    secrets.iter().fold(text, |text, secret| text.replace(secret.as_ref(), "[redacted]"))
}

fn timed_out(timeout: Duration) -> String {
    format!(
        "Command timed out after {} seconds and was terminated. Start a long-lived process in the background, with its \
         output redirected: `COMMAND > {THREAD_WORKSPACE}/server.log 2>&1 &`",
        timeout.as_secs()
    )
}

/// Returns the text of a stream, and how many bytes the sandbox has left out in the middle of it, less those of the mark
/// that it left instead.
fn decode_stream(bytes: &[u8]) -> (String, usize) {
    const MARK: (&str, &str) = ("\n[... ", " bytes left out ...]\n");

    let text = String::from_utf8_lossy(bytes).into_owned();
    // Only a full stream has a mark, and it has it in the middle.
    if bytes.len() + 64 < shell::MAX_OUTPUT {
        return (text, 0);
    }
    let middle = text.floor_char_boundary((text.len() / 2).saturating_sub(64));
    let lost = text[middle..].find(MARK.0).and_then(|at| {
        let (number, rest) = text[middle + at + MARK.0.len()..].split_once(' ')?;
        let lost = number.parse::<usize>().ok()?;
        rest.starts_with(MARK.1.trim_start())
            .then(|| lost - (MARK.0.len() + number.len() + MARK.1.len()).min(lost))
    });
    (text, lost.unwrap_or(0))
}

/// Returns the secrets that the attributes of sandboxes declare, the longest first.
fn declared_secrets(profiles: &Profiles) -> Vec<String> {
    let mut secrets: Vec<String> = profiles.declared_secrets().into_iter().map(|(_, value)| value).collect();
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    secrets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::{Profile, Size};

    fn output(stdout: &str, stderr: &str, exit_code: i32) -> Output {
        Output { stdout: stdout.into(), stderr: stderr.into(), exit_code, timed_out: false }
    }

    fn printed(output: &Output) -> String {
        format_output(output, TIMEOUT, &["long-secret", "secret"])
    }

    #[test]
    fn parts_of_an_output() {
        assert_eq!(printed(&output("", "", 0)), "(no output)");
        assert_eq!(printed(&output("a\n", "", 0)), "a\n");
        assert_eq!(printed(&output("", "b\n", 0)), "b\n");
        assert_eq!(printed(&output("a\n", "b\n", 3)), "a\n\nStd Error:\nb\n\nExit Code: 3");
        assert_eq!(printed(&output("", "", 1)), "\nExit Code: 1");
        assert_eq!(printed(&output("a long-secret, a secret", "", 0)), "a [redacted], a [redacted]");
        let late = Output { exit_code: 124, timed_out: true, ..output("a", "", 0) };
        assert!(printed(&late).starts_with("a\nCommand timed out after 600 seconds and was terminated. "));
        let late = Output { exit_code: 124, timed_out: true, ..output("", "", 0) };
        assert!(printed(&late).starts_with("Command timed out") && !printed(&late).contains("Exit Code"));
    }

    /// 5,000,000 bytes, of which a sandbox keeps the first and last ones.
    #[test]
    fn what_the_sandbox_left_out_counts() {
        let mark = "\n[... 3951463 bytes left out ...]\n";
        let half = "a".repeat((shell::MAX_OUTPUT - mark.len()) / 2);
        let kept = format!("{half}{mark}{half}");
        let all = 2 * half.len() + 3_951_463;
        let told = printed(&output(&kept, "", 0));
        let shown = told.chars().filter(|character| *character == 'a').count();
        // The mark of the result has two of them.
        let expected = format!("\n... [middle truncated: {} chars skipped] ...\n", all - (shown - 2));
        assert!(told.contains(&expected), "{expected}: {}", &told[9_900..10_100]);
        assert!(told.chars().count() <= MAX_RESULT);
    }

    #[test]
    fn secrets_of_profiles() {
        let env =
            [("API_KEY", "0123456789"), ("MODE", "production"), ("pass", "short"), ("Token", "012345678901")];
        let profile = Profile {
            env: env.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            ..Profile::new("a", "debian", Size { memory_mib: 1, disk_mb: 1 })
        };
        let profiles = Profiles::new(vec![profile], "a").unwrap();
        assert_eq!(declared_secrets(&profiles), ["012345678901", "0123456789"]);
    }
}
