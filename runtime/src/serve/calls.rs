//! A tool call as a request, answered with its result, or with events while it runs.

use futures_util::StreamExt as _;
use koze_core::error::{Error, Result as Read};
use koze_core::progress::{self, Progress, events};
use koze_core::provider::Provider;
use koze_core::tool::{Catalog, Families, Input};
use koze_core::{Session, ToolResult};
use worker::{Request, Response};

use super::answer::{Refusal, head, json};
use super::body;

/// Handles a request that calls a tool.
pub(super) async fn answer<F: Families, P: Provider>(
    request: Request,
    catalog: Catalog<F>,
    session: Session<P>,
    tool: String,
) -> Result<Response, Refusal> {
    let as_events = accepts_events(&request)?;
    let input = body::input(request).await?;
    if !as_events {
        return json(&run(&catalog, &session, &tool, input).await);
    }
    let (progress, reports) = Progress::channel();
    let session = session.with_progress(progress);
    let call = async move { run(&catalog, &session, &tool, input).await };
    stream_events(events::events(progress::follow(call, reports)))
}

async fn run<F: Families, P: Provider>(
    catalog: &Catalog<F>,
    session: &Session<P>,
    tool: &str,
    input: Read<Input>,
) -> ToolResult {
    ToolResult::from(match input {
        Ok(input) => catalog.call(session, tool, input).await,
        Err(error) => Err::<_, Error>(error),
    })
}

/// Returns whether the client accepts events as a response.
pub(super) fn accepts_events(request: &Request) -> Result<bool, Refusal> {
    let accept = request.headers().get("accept")?;
    Ok(accept.is_some_and(|accept| events::are_accepted(&accept)))
}

/// Returns events as a response. They are created as the client reads them, and dropped when it disconnects.
pub(super) fn stream_events(
    events: impl futures_util::Stream<Item = String> + 'static,
) -> Result<Response, Refusal> {
    let bytes = events.map(|event| Ok::<_, worker::Error>(event.into_bytes()));
    Ok(head(200, events::HEADERS)?.from_stream(bytes)?)
}
