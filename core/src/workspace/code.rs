//! Code in Python and JavaScript, in a workspace.
//!
//! A driver in the language runs the code: a process of the sandbox, which reads requests and writes messages. koze needs
//! nothing else of an image than the interpreter.

mod context;
mod exchange;
mod frames;
mod known;
mod outputs;
mod settings;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use serde::{Deserialize, Serialize};

use self::context::ContextId;
pub use self::context::is_context_label;
use self::exchange::Then;
use self::frames::{Frames, Message, Part};
use self::known::{Position, Turn};
use self::settings::Settings;
use super::config::CodeConfig;
use super::language::Language;
use crate::error::{Code, Error, Result};
use crate::path::{absolute_from, anywhere};
use crate::sandbox::Sandbox;
use crate::sandbox::process::{Process, ProcessInfo, Program, Signal, Stream};
use crate::time::{Start, millis};
use crate::together::join_all;
use crate::trace::within;

/// How long code may run if no timeout is given.
pub const CODE_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest timeout.
pub const MAX_CODE_TIMEOUT: Duration = Duration::from_mins(10);
/// How long an interpreter may take to start.
const START: Duration = Duration::from_mins(1);
/// What a stateless run may take in addition to its timeout, before its interpreter is killed from outside.
const MORE: Duration = Duration::from_secs(30);
/// How long the interpreter of a deleted context may take to end.
const END: Duration = Duration::from_secs(10);
/// How long the interpreter of a restarted context may take to end: somebody waits for the next one.
const RESTART: Duration = Duration::from_secs(2);
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

/// A context to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCodeContext {
    /// Its language.
    pub language: Language,
    /// The directory that it starts in. A relative path starts at the directory of the workspace, which is the default.
    pub working_dir: Option<String>,
    /// Environment variables in addition to the sandbox's own.
    pub env: Vec<(String, String)>,
}

impl From<Language> for NewCodeContext {
    fn from(language: Language) -> Self {
        NewCodeContext { language, working_dir: None, env: Vec::new() }
    }
}

/// A context that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeContext {
    /// Its ID.
    pub id: String,
    /// Its language.
    pub language: Language,
    /// The directory that it started in. `None` if code of the sandbox has removed the file that says so.
    pub working_dir: Option<String>,
    /// How long ago it was created.
    pub age: Duration,
    /// Whether its code runs.
    pub is_busy: bool,
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
        let settings = Settings { language, working_dir: self.dir.to_string(), env: Vec::new() };
        let (driver, mut position) = self.start_driver(&settings, None).await?;
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
    /// deleted, when its code ends the interpreter, and when the sandbox sleeps. Its directory and its variables of the
    /// environment are stored in a file of the sandbox, for [`restart_context`](Self::restart_context).
    ///
    /// # Errors
    /// As [`run`](Self::run); [`Code::Unsupported`] also if the workspace is not declared `stateful`; [`Code::TooLarge`] if its
    /// variables have more than 256 KiB; and those of the path of the directory.
    pub async fn create_context(&self, new: impl Into<NewCodeContext>) -> Result<String> {
        self.check_stateful()?;
        let NewCodeContext { language, working_dir, env } = new.into();
        let working_dir = absolute_from(&self.dir, working_dir.as_deref().unwrap_or(&self.dir))?;
        let settings = Settings { language, working_dir, env };
        let text = settings.encode()?;
        let id = ContextId::random();
        self.start_context(id, &settings).await?;
        if let Err(error) = settings::store_settings(&self.sandbox, id, text).await {
            self.end_context(id, Some(Signal::Kill), END).await?;
            return Err(error);
        }
        Ok(id.to_string())
    }

    /// Lists the contexts that run, the oldest first. Does not start the sandbox.
    ///
    /// # Errors
    /// [`Code::Unsupported`] if the workspace is not declared `stateful`, and the errors of the sandbox.
    pub async fn list_contexts(&self) -> Result<Vec<CodeContext>> {
        self.check_stateful()?;
        let all = self.sandbox.processes().await?;
        let running = all.iter().filter(|info| info.exit.is_none());
        join_all(running.map(|info| self.describe_context(info)))
            .await
            .into_iter()
            .filter_map(Result::transpose)
            .collect()
    }

    /// Returns what is known of a process, if it is that of a context and has not ended meanwhile.
    async fn describe_context(&self, info: &ProcessInfo) -> Result<Option<CodeContext>> {
        let Some(id) = ContextId::of_process(info) else { return Ok(None) };
        let is_named = |language: &Language| interpreter_name(*language) == info.program;
        let Some(language) = Language::ALL.into_iter().find(is_named) else { return Ok(None) };
        let Some(driver) = self.sandbox.process(&info.id).await? else { return Ok(None) };
        let settings = settings::load_settings(&self.sandbox, id).await?;
        let is_busy = match context::is_busy(&driver).await {
            Err(error) if error.code == Code::NotFound => return Ok(None),
            is_busy => is_busy?,
        };
        let working_dir = settings.map(|settings| settings.working_dir);
        Ok(Some(CodeContext { id: id.to_string(), language, working_dir, age: id.age(), is_busy }))
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
        let id = context::parse_id(&self.sandbox, context).await?;
        let Some(driver) = context::find_process(&self.sandbox, id).await? else {
            return Err(context::absence_error(&self.sandbox, id).await);
        };
        let key = driver.id().as_str();
        let Turn { mut position, pulse } = known::wait_for_turn(key).await;
        match pulse.beat_during(exchange::run_code(&driver, &mut position, code, timeout, Then::Wait)).await {
            Err(error) if error.code == Code::NotFound => {
                known::forget_turns(key);
                Err(context::absence_error(&self.sandbox, id).await)
            }
            run => run,
        }
    }

    /// Restarts a context: a new interpreter with the same ID, directory and variables of the environment takes the place of
    /// the one that runs, if one does. Code that runs is interrupted. The interpreter ends as after a program, but what still
    /// runs after two seconds is killed, and so are the programs of its code. Returns whether it ended by itself.
    ///
    /// # Errors
    /// [`Code::NotFound`] if the context was deleted, if its file is gone, as after sleep where the sandbox loses its files, or if
    /// the ID is not that of a context; and as [`create_context`](Self::create_context).
    pub async fn restart_context(&self, context: &str) -> Result<bool> {
        self.check_stateful()?;
        let id = context::parse_id(&self.sandbox, context).await?;
        let turn = known::wait_for_turn(context).await;
        let restart = async {
            let Some(settings) = settings::load_settings(&self.sandbox, id).await? else {
                return Err(context::absence_error(&self.sandbox, id).await);
            };
            let is_ended = self.end_context(id, Some(Signal::Interrupt), RESTART).await?.unwrap_or(true);
            self.start_context(id, &settings).await?;
            Ok(is_ended)
        };
        turn.pulse.beat_during(restart).await
    }

    /// Deletes a context. Its interpreter ends as after a program: it waits for timers and threads, calls exit handlers, and
    /// writes what is buffered. What still runs after ten seconds is killed, and so are the programs of its code. Returns
    /// whether the interpreter ended by itself.
    ///
    /// # Errors
    /// [`Code::NotFound`] as for [`run_in_context`](Self::run_in_context), and [`Code::Unsupported`] if the workspace is not declared `stateful`.
    pub async fn delete_context(&self, context: &str) -> Result<bool> {
        self.check_stateful()?;
        let id = context::parse_id(&self.sandbox, context).await?;
        let turn = known::wait_for_turn(context).await;
        let delete = async {
            let is_ended = self.end_context(id, None, END).await?;
            let had_settings = settings::remove_settings(&self.sandbox, id).await?;
            match is_ended {
                Some(is_ended) => Ok(is_ended),
                // It had ended already, and could have been restarted.
                None if had_settings => Ok(true),
                None => Err(context::absence_error(&self.sandbox, id).await),
            }
        };
        let deleted = turn.pulse.beat_during(delete).await;
        if deleted.is_ok() {
            known::forget_turns(context);
        }
        deleted
    }

    /// Starts the interpreter of a context.
    async fn start_context(&self, id: ContextId, settings: &Settings) -> Result<()> {
        let (driver, position) = self.start_driver(settings, Some(id.label())).await?;
        *known::wait_for_turn(driver.id().as_str()).await.position = position;
        Ok(())
    }

    /// Ends the interpreter of a context, after a signal to code that runs, if there is one. Returns whether it ended by itself, or
    /// `None` if the context does not run.
    async fn end_context(
        &self,
        id: ContextId,
        signal: Option<Signal>,
        time: Duration,
    ) -> Result<Option<bool>> {
        let Some(driver) = context::find_process(&self.sandbox, id).await? else { return Ok(None) };
        known::forget_turns(driver.id().as_str());
        // An interpreter that waits for code would end at once, without what it does at its end.
        if let Some(signal) = signal
            && context::is_busy(&driver).await?
        {
            driver.signal(signal).await?;
        }
        let is_ended = context::end_interpreter(&driver, time).await?;
        if !is_ended {
            driver.signal(Signal::Kill).await?;
            // A later call must not find it.
            driver.wait(START).await?;
        }
        Ok(Some(is_ended))
    }

    fn check_stateful(&self) -> Result<()> {
        if self.config.stateful {
            return Ok(());
        }
        let message = "the code of this workspace has no contexts: set `stateful = true` in `code(..)`";
        Err(Error::new(Code::Unsupported, message))
    }

    /// Starts a driver, and waits until it can receive requests. Returns it with its position after its first message.
    async fn start_driver(
        &self,
        settings: &Settings,
        label: Option<String>,
    ) -> Result<(S::Process, Position)> {
        let Settings { working_dir, env, .. } = settings;
        let language = settings.language;
        if !self.config.languages.contains(&language) {
            let declared: Vec<&str> = self.config.languages.iter().map(|one| one.name()).collect();
            let message =
                format!("this workspace does not run {language}: its languages are {}", declared.join(", "));
            return Err(Error::new(Code::InvalidInput, message));
        }
        let defaults = [("MPLBACKEND", "Agg"), ("PYTHONIOENCODING", "utf-8")];
        let missing = defaults.into_iter().filter(|(name, _)| env.iter().all(|(other, _)| other != name));
        let missing = missing.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let program = Program {
            env: missing.chain(env.iter().cloned()).collect(),
            buffer: BUFFER,
            label,
            attended: true,
            ..Program::new(driver_command(language), working_dir)
        };
        let driver = match within!("start" {}, self.sandbox.start(program)) {
            Err(error) if error.code == Code::NotFound => {
                // It is the directory or the interpreter that is missing.
                self.sandbox.stat(anywhere(working_dir)).await?;
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
