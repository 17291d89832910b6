//! The route `log`: the journal of a session's tool calls.

use hyper::StatusCode;
use koze_core::Result;
use koze_core::http::Query;
use koze_core::journal::PageRequest;

use super::answer::{Answer, json_text};
use crate::mcp::supervised::Supervised;

/// Answers a request, as the Worker does.
pub(super) async fn answer(backend: &Supervised, query: &Query) -> Result<Answer> {
    let parameter = |name: &str| query.get(name).map(String::as_str);
    let request = PageRequest::parse(parameter("since"), parameter("limit"))?;
    let page = backend.read_journal(request).await?;
    let body = serde_json::to_vec(&page).expect("a page is plain data");
    Ok(json_text(StatusCode::OK, body))
}
