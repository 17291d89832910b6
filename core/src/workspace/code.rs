//! Code in Python and JavaScript, in a workspace.
//!
//! A driver in the language runs the code: a process of the sandbox, which reads requests and writes messages. koze needs
//! nothing else of an image than the interpreter.

mod context;
mod exchange;
mod frames;
mod known;
mod outputs;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use serde::{Deserialize, Serialize};

use self::context::ContextId;
pub use self::context::LABEL as CONTEXT_LABEL;
use self::exchange::Then;
use self::frames::{Frames, Message, Part};
use self::known::{Position, Turn};
use super::config::CodeConfig;
use super::language::Language;
use crate::error::{Code, Error, Result};
use crate::sandbox::Sandbox;
use crate::sandbox::process::{Process, Program, Signal, Stream};
use crate::time::{Start, millis};
use crate::trace::within;

/// How long code may run if no timeout is given.
pub const CODE_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest timeout.
pub const MAX_CODE_TIMEOUT: Duration = Duration::from_mins(10);
/// How long an interpreter may take to start.
const START: Duration = Duration::from_mins(1);
/// What a stateless run may take in addition to its timeout, before its interpreter is killed from outside.
const MORE: Duration = Duration::from_secs(30);
/// The buffer of a driver. A frame is written in pieces, so it can be longer.
const BUFFER: usize = 256 << 10;

/// Returns the program that runs a language.
fn interpreter_name(language: Language) -> &'static str {
    match language {
        Language::Python => "python3",
        Language::Javascript => "node",
    }
}

/// Returns the command of the driver of a language.
fn driver_command(language: Language) -> Vec<String> {
    let argv: &[&str] = match language {
        Language::Python => &["python3", "-c", include_str!("code/driver.py")],
        Language::Javascript => {
            &["node", "--expose-internals", "--no-warnings", "-e", include_str!("code/driver.js")]
        }
    };
    argv.iter().map(|&part| part.to_owned()).collect()
}

/// The result of code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeRun {
    /// 0, or 1 after an error; 124 after a timeout; the exit code of code that ended its interpreter.
    pub exit_code: i32,
    /// What it printed and displayed, and the value of its last expression, in this order.
    pub outputs: Vec<CodeOutput>,
    /// The error, if it has failed.
    pub error: Option<CodeError>,
    /// Whether the timeout expired.
    pub timed_out: bool,
    /// Whether the interpreter, and with it all variables, survived.
    pub survived: bool,
}

/// An output of code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum CodeOutput {
    /// Text on standard output.
    Stdout {
        /// The text.
        text: String,
    },
    /// Text on standard error.
    Stderr {
        /// The text.
        text: String,
    },
    /// Something to show.
    Display {
        /// Its media type.
        mime: String,
        /// Its data: text, or base64 of what is not text.
        data: String,
    },
    /// The value of the last expression.
    Result {
        /// The value as text.
        text: String,
    },
}

/// An error of code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeError {
    /// The name of its class.
    pub name: String,
    /// Its message.
    pub message: String,
    /// Where it was raised.
    pub traceback: String,
}

/// The code of a workspace. It starts in the directory of the workspace but is not confined to it: the sandbox is the
/// boundary.
#[derive(Debug, Clone)]
pub struct WorkspaceCode<S> {
    sandbox: S,
    config: CodeConfig,
    dir: Arc<str>,
}

impl<S: Sandbox> WorkspaceCode<S> {
    pub(super) fn new(sandbox: S, config: CodeConfig, dir: Arc<str>) -> Self {
        WorkspaceCode { sandbox, config, dir }
    }

    /// Returns its configuration.
    pub fn config(&self) -> &CodeConfig {
        &self.config
    }

    /// Runs code in an interpreter of its own, which ends as it does after a program: within the timeout, it waits for timers,
    /// servers and threads, calls exit handlers, and writes what is buffered. Programs that the code has left in the background
    /// keep running.
    ///
    /// # Errors
    /// [`Code::InvalidInput`] if the workspace does not declare the language, or if the timeout is too long;
    /// [`Code::Unsupported`] if the image has no interpreter for it; and the errors of the sandbox.
    pub async fn run(&self, code: &str, language: Language, timeout: Option<Duration>) -> Result<CodeRun> {
        let timeout = check_timeout(timeout)?;
        let (driver, mut position) = self.start_driver(language, None).await?;
        let run = {
            let run = pin!(exchange::run_code(&driver, &mut position, code, timeout, Then::End));
            // Also kills the driver if the caller is gone.
            let supervised = pin!(driver.supervise(timeout + MORE));
            match select(run, supervised).await {
                Either::Left((run, _)) => run?,
                Either::Right((_, run)) => run.await?,
            }
        };
        driver.signal(Signal::Kill).await?;
        Ok(run)
    }

    /// Creates a context: an interpreter that keeps variables between calls. Returns its ID. The context ends when it is
    /// deleted, when its code ends the interpreter, and when the sandbox sleeps.
    ///
    /// # Errors
    /// As [`run`](Self::run); [`Code::Unsupported`] also if the workspace is not declared `stateful`.
    pub async fn create_context(&self, language: Language) -> Result<String> {
        self.check_stateful()?;
        let (driver, position) = self.start_driver(language, Some(CONTEXT_LABEL)).await?;
        *known::wait_for_turn(driver.id()).await.position = position;
        Ok(ContextId::new(driver.id()).to_string())
    }

    /// Runs code in a context. Calls of one context run one after the other.
    ///
    /// # Errors
    /// [`Code::NotFound`] if the context has ended or the ID is not that of a context, with the reason, and as
    /// [`create_context`](Self::create_context).
    pub async fn run_in_context(
        &self,
        context: &str,
        code: &str,
        timeout: Option<Duration>,
    ) -> Result<CodeRun> {
        self.check_stateful()?;
        let timeout = check_timeout(timeout)?;
        let id = context.parse()?;
        let driver = context::find_driver(&self.sandbox, &id).await?;
        let Turn { mut position, pulse } = known::wait_for_turn(driver.id()).await;
        match pulse.beat_during(exchange::run_code(&driver, &mut position, code, timeout, Then::Wait)).await {
            Err(error) if error.code == Code::NotFound => {
                known::forget_driver(driver.id());
                Err(context::lost_during(&self.sandbox, &driver, &id).await)
            }
            run => run,
        }
    }

    /// Deletes a context. Its interpreter ends as after a program: it waits for timers and threads, calls exit handlers, and
    /// writes what is buffered. What still runs after ten seconds is killed, and so are the programs of its code. Returns
    /// whether the interpreter ended by itself.
    ///
    /// # Errors
    /// [`Code::NotFound`] as for [`run_in_context`](Self::run_in_context), and [`Code::Unsupported`] if the workspace is not declared `stateful`.
    pub async fn delete_context(&self, context: &str) -> Result<bool> {
        self.check_stateful()?;
        let driver = context::find_driver(&self.sandbox, &context.parse()?).await?;
        known::forget_driver(driver.id());
        let is_ended = context::end_interpreter(&driver).await?;
        if !is_ended {
            driver.signal(Signal::Kill).await?;
            // A later call must not find it.
            driver.wait(START).await?;
        }
        Ok(is_ended)
    }

    fn check_stateful(&self) -> Result<()> {
        if self.config.stateful {
            return Ok(());
        }
        let message = "the code of this workspace has no contexts: set `stateful = true` in `code(..)`";
        Err(Error::new(Code::Unsupported, message))
    }

    /// Starts a driver, and waits until it can receive requests. Returns it with its position after its first message.
    async fn start_driver(&self, language: Language, label: Option<&str>) -> Result<(S::Process, Position)> {
        if !self.config.languages.contains(&language) {
            let declared: Vec<&str> = self.config.languages.iter().map(|one| one.name()).collect();
            let message =
                format!("this workspace does not run {language}: its languages are {}", declared.join(", "));
            return Err(Error::new(Code::InvalidInput, message));
        }
        let program = Program {
            env: vec![("MPLBACKEND".into(), "Agg".into()), ("PYTHONIOENCODING".into(), "utf-8".into())],
            buffer: BUFFER,
            label: label.map(str::to_owned),
            attended: true,
            ..Program::new(driver_command(language), &*self.dir)
        };
        let driver = match within!("start" {}, self.sandbox.start(program)) {
            Err(error) if error.code == Code::NotFound => {
                return Err(no_interpreter(language, &error.message));
            }
            driver => driver?,
        };
        let start = Start::now();
        let (mut frames, mut cursor, mut output) = (Frames::default(), 0, Vec::new());
        loop {
            let left = START.saturating_sub(start.elapsed());
            let read = driver.read_attending(cursor, BUFFER, left, Signal::Kill).await?;
            cursor = read.next;
            for chunk in read.chunks {
                if chunk.stream == Stream::Stderr {
                    output.extend(chunk.bytes);
                } else if frames.split_parts(&chunk.bytes).contains(&Part::Message(Message::Ready)) {
                    return Ok((driver, Position::new(cursor)));
                }
            }
            if read.exit.is_some() || start.elapsed() >= START {
                driver.signal(Signal::Kill).await?;
                let output = String::from_utf8_lossy(&output);
                return Err(no_interpreter(language, output.lines().last().unwrap_or("it does not start")));
            }
        }
    }
}

fn check_timeout(timeout: Option<Duration>) -> Result<Duration> {
    let timeout = timeout.unwrap_or(CODE_TIMEOUT);
    if timeout > MAX_CODE_TIMEOUT {
        let message = format!("the timeout must be at most {} ms", millis(MAX_CODE_TIMEOUT));
        return Err(Error::new(Code::InvalidInput, message));
    }
    Ok(timeout)
}

fn no_interpreter(language: Language, why: &str) -> Error {
    let interpreter = interpreter_name(language);
    let message = format!(
        "the sandbox cannot run {language}: {why}. Use an image that has `{interpreter}` on its `PATH`, or remove {language} from \
         `languages` in `code(..)`"
    );
    Error::new(Code::Unsupported, message)
}
