//! The route `tools`: a tool call as a request, answered with its result, or with events while it runs.

use hyper::body::Incoming;
use hyper::header::{self, HeaderMap};
use hyper::{Request, StatusCode};
use koze_core::progress::{self, Progress, events};
use koze_core::tool::{Input, ReadError};
use koze_core::{Code, Error, ToolResult};

use super::answer::{Answer, json_text, refuse_error, stream_events};
use super::body::read_body;
use crate::mcp::supervised::Supervised;

/// Handles a request that calls a tool.
pub(super) async fn answer(
    backend: &Supervised,
    tool: String,
    request: Request<Incoming>,
) -> Result<Answer, Answer> {
    let as_events = wants_events(request.headers());
    let backend = &backend.named(user_agent(request.headers()));
    let body = read_body(request.into_body()).await?;
    // The tool's result says what it does not accept.
    let input = match Input::read(&body).map_err(ReadError::into_tool_error) {
        Ok(input) => Ok(input),
        Err(Ok(error)) => Err(error),
        Err(Err(error)) => {
            let message =
                format!("the body is not valid JSON: {error}; send the tool's input as a JSON object");
            return Err(refuse_error(Error::new(Code::InvalidInput, message)));
        }
    };
    if as_events {
        return Ok(stream_call(backend.clone(), tool, input));
    }
    let result = run_tool(backend, &tool, input, None).await;
    let body = serde_json::to_vec(&result).expect("a result is plain data");
    Ok(json_text(StatusCode::OK, body))
}

/// Returns the name of a client, for the journal.
fn user_agent(headers: &HeaderMap) -> &str {
    headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or("HTTP")
}

fn wants_events(headers: &HeaderMap) -> bool {
    let all = headers.get_all(header::ACCEPT);
    all.iter().filter_map(|accept| accept.to_str().ok()).any(events::are_accepted)
}

async fn run_tool(
    backend: &Supervised,
    tool: &str,
    input: Result<Input, Error>,
    progress: Option<Progress>,
) -> ToolResult {
    match input {
        Ok(input) => backend.call(tool, input, progress).await.into(),
        Err(error) => Err(error).into(),
    }
}

/// Returns the events of a call. A client that disconnects cancels the call.
fn stream_call(backend: Supervised, tool: String, input: Result<Input, Error>) -> Answer {
    let (progress, reports) = Progress::channel();
    let call = async move { run_tool(&backend, &tool, input, Some(progress)).await };
    stream_events(events::events(progress::follow(call, reports)))
}
