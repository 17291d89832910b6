//! An agent that has a computer: the Messages API of Anthropic on one side, the sandboxes of a session on the other.
//!
//! ```text
//! ANTHROPIC_API_KEY=… cargo run -p koze-local --example agent -- "Which prime is the 1000th?"
//! ```
//!
//! `ANTHROPIC_BASE_URL` and `ANTHROPIC_MODEL` name another API and another model.

use std::env;
use std::process::ExitCode;
use std::time::Duration;

use futures_util::future::join_all;
use koze_core::provider::{Profile, Size};
use koze_core::tool::dialect::Dialect;
use koze_core::{Profiles, Session, SessionId};
use koze_local::Local;
use serde_json::{Value, json};

/// The maximum number of answers: an agent that does not finish is stopped.
const STEPS: usize = 30;
/// The maximum length of an answer in tokens.
const MAX_TOKENS: u32 = 8192;
/// How often a request is repeated that the API could not serve at the moment, and the longest wait before it.
const RETRIES: u32 = 4;
const MAX_DELAY: Duration = Duration::from_mins(1);

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("say what is to be done: agent \"Which prime is the 1000th?\"")]
    NoPrompt,
    #[error("set ANTHROPIC_API_KEY to a key of the API")]
    NoKey,
    #[error("{0}")]
    Sandbox(#[from] koze_core::Error),
    #[error("{0}")]
    System(#[from] std::io::Error),
    #[error("the API cannot be reached: {0}")]
    Http(#[from] ureq::Error),
    #[error("the API answered {status}: {message}")]
    Api { status: u16, message: String },
    #[error("the model refused to go on")]
    Refusal,
    #[error("the answer was cut off after {MAX_TOKENS} tokens: {0}")]
    Cut(String),
    #[error("the model stopped for a reason this agent does not know: {0}")]
    Stopped(Value),
    #[error("no end after {STEPS} steps")]
    Steps,
}

/// Answers the question in the arguments.
#[allow(unreachable_pub, reason = "a test runs this very program")]
pub fn main() -> ExitCode {
    // Call this first: a sandbox is started by running this program again.
    koze_local::init();
    match start() {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn start() -> Result<String, Error> {
    let prompt = env::args().skip(1).collect::<Vec<_>>().join(" ");
    if prompt.is_empty() {
        return Err(Error::NoPrompt);
    }
    let client = Client::from_env()?;
    // The sandboxes are deleted with this directory. Keep it to find them again.
    let state = tempfile::tempdir()?;
    let size = Size { memory_mib: 1024, disk_mb: 4000 };
    let profiles = Profiles::new(vec![Profile::new("shell", "docker.io/library/debian:13", size)], "shell")?;
    let session = Session::new(Local::new(state.path())?, SessionId::new("example", "agent")?, profiles);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    runtime.block_on(converse(&client, &session, &prompt))
}

/// The loop: the model answers, koze calls its tools, and the model gets the results.
async fn converse(client: &Client, session: &Session<Local>, prompt: &str) -> Result<String, Error> {
    let definitions = session.definitions();
    let tools: Vec<Value> = definitions.iter().map(|tool| tool.to_json(Dialect::Anthropic)).collect();
    let mut messages = vec![json!({ "role": "user", "content": prompt })];
    for _ in 0..STEPS {
        let answer = client.ask(&tools, &messages).await?;
        let content = &answer["content"];
        messages.push(json!({ "role": "assistant", "content": content }));
        match answer["stop_reason"].as_str() {
            Some("tool_use") => {
                messages.push(json!({ "role": "user", "content": call_tools(session, content).await }));
            }
            // The model continues where it paused.
            Some("pause_turn") => {}
            Some("end_turn" | "stop_sequence") => return Ok(text(content)),
            Some("max_tokens") => return Err(Error::Cut(text(content))),
            Some("refusal") => return Err(Error::Refusal),
            _ => return Err(Error::Stopped(answer["stop_reason"].clone())),
        }
    }
    Err(Error::Steps)
}

/// Calls all tools that an answer requests, at the same time. Returns the results in the order of the requests.
async fn call_tools(session: &Session<Local>, content: &Value) -> Vec<Value> {
    let calls = blocks(content, "tool_use").map(async |block| {
        let name = block["name"].as_str().unwrap_or_default();
        let result = session.call_tool(name, block["input"].clone()).await;
        json!({
            "type": "tool_result",
            "tool_use_id": block["id"],
            "content": result.content,
            "is_error": result.is_error,
        })
    });
    join_all(calls).await
}

fn text(content: &Value) -> String {
    blocks(content, "text").filter_map(|block| block["text"].as_str()).collect()
}

fn blocks<'a>(content: &'a Value, kind: &'static str) -> impl Iterator<Item = &'a Value> {
    content.as_array().into_iter().flatten().filter(move |block| block["type"] == kind)
}

struct Client {
    http: ureq::Agent,
    url: String,
    key: String,
    model: String,
}

impl Client {
    fn from_env() -> Result<Self, Error> {
        let set = |name| env::var(name).ok().filter(|value| !value.is_empty());
        let base = set("ANTHROPIC_BASE_URL").unwrap_or_else(|| "https://api.anthropic.com".into());
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_mins(10)));
        Ok(Client {
            http: config.build().into(),
            url: format!("{}/v1/messages", base.trim_end_matches('/')),
            key: set("ANTHROPIC_API_KEY").ok_or(Error::NoKey)?,
            model: set("ANTHROPIC_MODEL").unwrap_or_else(|| "claude-sonnet-4-5".into()),
        })
    }

    /// Returns the model's answer. Repeats the request a few times if the API is busy or fails.
    async fn ask(&self, tools: &[Value], messages: &[Value]) -> Result<Value, Error> {
        let body =
            json!({ "model": self.model, "max_tokens": MAX_TOKENS, "tools": tools, "messages": messages });
        for attempt in 0.. {
            let (status, retry_after, answer) = self.post(body.clone()).await?;
            match status {
                200 => return Ok(answer),
                429 | 500..=599 if attempt < RETRIES => {
                    let wait = retry_after.unwrap_or(Duration::from_secs(1 << attempt));
                    tokio::time::sleep(wait.min(MAX_DELAY)).await;
                }
                _ => {
                    let message = answer["error"]["message"].as_str().unwrap_or("it does not say why");
                    return Err(Error::Api { status, message: message.to_owned() });
                }
            }
        }
        unreachable!("the last attempt returns")
    }

    /// Sends one request. Returns the status, how long the API asks to wait, and the body.
    async fn post(&self, body: Value) -> Result<(u16, Option<Duration>, Value), Error> {
        let request = self
            .http
            .post(&self.url)
            .header("x-api-key", &self.key)
            .header("anthropic-version", "2023-06-01");
        // The client blocks its thread, and sandboxes must not wait for it.
        let sent = tokio::task::spawn_blocking(move || {
            let mut response = request.send_json(body)?;
            let seconds =
                response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
            // The error of a proxy may not be JSON.
            let answer = response.body_mut().read_json().unwrap_or_default();
            Ok((response.status().as_u16(), seconds.map(Duration::from_secs), answer))
        });
        sent.await.map_err(std::io::Error::other)?
    }
}
