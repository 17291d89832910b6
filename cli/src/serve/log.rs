//! The route `log`: the journal of a session's tool calls.

use hyper::StatusCode;
use koze_core::http::Query;
use koze_core::journal::{Page, PageRequest};
use koze_core::{Code, Error, Result};

use super::answer::{Answer, json_text};
use crate::mcp::supervised::Supervised;
use crate::provider::{self, CallsQuery};

/// Answers a request, as the Worker does.
pub(super) async fn answer(backend: &Supervised, query: &Query) -> Result<Answer> {
    let page = read_page(backend, query).await?;
    let body = serde_json::to_vec(&page).expect("a page is plain data");
    Ok(json_text(StatusCode::OK, body))
}

async fn read_page(backend: &Supervised, query: &Query) -> Result<Page> {
    let parameter = |name: &str| query.get(name).map(String::as_str);
    let request = PageRequest::parse(parameter("since"), parameter("limit"))?;
    let file = backend.client().state().journal();
    let query = CallsQuery {
        session: Some(backend.client().session().session().to_owned()),
        after: request.since,
        limit: Some(request.limit),
        ..CallsQuery::default()
    };
    let read = tokio::task::spawn_blocking(move || provider::read_calls(&file, &query)).await;
    let calls = read.map_err(|error| {
        Error::new(Code::Internal, "the journal of tool calls cannot be read").with_source(error)
    })??;
    Ok(Page::new(request, calls))
}
