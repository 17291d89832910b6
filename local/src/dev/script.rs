//! The requests of scripts in a Worker. They leave this machine through the egress policy of local scripts: workerd itself
//! would connect to private addresses as well.

use std::time::Duration;

use hyper::Uri;
use serde::Deserialize;
use serde_json::json;

use super::frame::Answer;
use super::reply::{invalid_input, parse_input, to_failure};
use crate::Local;
use koze_core::contract::Failure;
use koze_core::id::SessionId;
use koze_core::provider::ScriptProvider as _;
use koze_core::script::{Egress, Exchange, Method};

/// The method of the generated class `KozeScripts`.
pub(super) const METHOD: &str = "kozeFetch";

/// The input of the method.
#[derive(Deserialize)]
struct Sent {
    method: Method,
    url: String,
    headers: Vec<(String, String)>,
    body: Option<String>,
    time_ms: u64,
    longest: usize,
    egress: Egress,
}

/// Sends a request, and returns the response.
pub(super) async fn exchange_request(
    provider: &Local,
    session: &SessionId,
    input: &[u8],
) -> Result<Answer, Failure> {
    let Sent { method, url, headers, body, time_ms, longest, egress } = parse_input(input)?;
    let url: Uri = url.parse().map_err(|_| invalid_input("the URL is not valid".to_owned()))?;
    let tls = url.scheme_str() == Some("https");
    let exchange = Exchange {
        method,
        tls,
        host: url.host().unwrap_or_default().to_owned(),
        port: url.port_u16().unwrap_or(if tls { 443 } else { 80 }),
        target: url.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string),
        headers,
        body,
        time: Duration::from_millis(time_ms),
        longest,
        credentials: Vec::new(),
    };
    let exchanged = provider.script_exchange(session, &egress, exchange).await.map_err(to_failure)?;
    let value = json!({ "status": exchanged.status, "headers": exchanged.headers });
    Ok(Answer { value, bytes: vec![("body", exchanged.body)] })
}
