//! `fetch`: validates requests, follows redirects, and enforces the limits of a run. The provider performs each exchange, and
//! checks the address that it connects to.
//!
//! | module | job |
//! |---|---|
//! | `request` | validates a request |
//! | `redirect` | the request that follows a redirect |

mod redirect;
mod request;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

use self::request::Request;
use super::injection::Injection;
use super::{Egress, Exchanged, Fetch};
use crate::error::{Code, Error, Result};
use crate::id::SessionId;
use crate::provider::Provider;
use crate::time::Start;

/// How many redirects are followed.
const REDIRECTS: usize = 10;
/// The longest body of a request or response in bytes.
const BODY: usize = 2 << 20;
/// How many bytes the bodies of a run may have in all.
const BYTES: usize = 32 << 20;
/// How many requests of a run are in progress. Others wait.
const AT_ONCE: usize = 6;

/// The requests of one run.
#[derive(Debug)]
pub(crate) struct Fetches<'a> {
    credentials: Injection<'a>,
    turns: Semaphore,
    /// The bytes of the bodies so far.
    bytes: AtomicUsize,
}

impl<'a> Fetches<'a> {
    /// Creates it with the credentials of the requests.
    pub(crate) fn new(credentials: Injection<'a>) -> Self {
        Fetches { credentials, turns: Semaphore::new(AT_ONCE), bytes: AtomicUsize::new(0) }
    }

    /// Sends a request, and follows redirects. Returns `{status, url, headers, body}`.
    ///
    /// # Errors
    /// [`Code::InvalidInput`] for an invalid request, [`Code::PermissionDenied`] for a host that may not be reached,
    /// [`Code::Timeout`], [`Code::TooLarge`], and [`Code::Unavailable`] if the server does not answer.
    pub(crate) async fn fetch<P: Provider>(
        &self,
        provider: &P,
        agent: &SessionId,
        egress: &Egress,
        fetch: Fetch,
    ) -> Result<Map<String, Value>> {
        let time = Duration::from_millis(request::validate_timeout(fetch.timeout)?);
        let mut request = Request::new(fetch)?;
        egress.check_on()?;
        // Before it waits, so that requests that wait hold a limited number of bytes, too.
        self.count_sent(request.body_len())?;
        let closed = |_| Error::new(Code::Unavailable, "the script has ended");
        let _turn = self.turns.acquire().await.map_err(closed)?;
        let start = Start::now();
        for _ in 0..=REDIRECTS {
            let host = request.host().to_owned();
            let late = || {
                let millis = time.as_millis();
                let message = format!(
                    "{host} did not answer within {millis} ms: `timeout` can be up to {} ms",
                    request::TIMEOUT
                );
                Error::new(Code::Timeout, message)
            };
            let left = time.checked_sub(start.elapsed()).filter(|left| !left.is_zero()).ok_or_else(late)?;
            let longest = self.max_body_len()?;
            let mut exchange = request.to_exchange(left, longest);
            let mask = match self.credentials.inject(egress, &mut exchange) {
                Ok(mask) => mask,
                Err(refused) => {
                    provider.script_refused(agent, &host, exchange.port, &refused.rule).await;
                    return Err(Error::new(Code::PermissionDenied, refused.text));
                }
            };
            let exchanged = provider.script_exchange(agent, egress, exchange).await;
            let mut response = exchanged.map_err(|error| match error.code {
                Code::Timeout => late(),
                Code::TooLarge if longest < BODY => transfer_limit_error(),
                Code::TooLarge => Error::new(
                    Code::TooLarge,
                    format!(
                        "the response of {host} has more than {} MiB, and `fetch` reads no longer ones: request a part of it, for example \
                         with the header `range` or parameters of the API",
                        BODY >> 20
                    ),
                ),
                _ => error,
            })?;
            self.bytes.fetch_add(response.body.len(), Ordering::AcqRel);
            self.credentials.mask(&mask, &mut response);
            match redirect::next_step(request, &response)? {
                redirect::Next::Follow(next) => request = next,
                redirect::Next::Done(url) => return response_to_json(&host, &url, response),
            }
        }
        let message = format!(
            "the server redirects more than {REDIRECTS} times, perhaps in a circle: request another URL"
        );
        Err(Error::new(Code::Unavailable, message))
    }

    /// Counts bytes that are sent.
    fn count_sent(&self, bytes: usize) -> Result<()> {
        let before = self.bytes.fetch_add(bytes, Ordering::AcqRel);
        if before + bytes > BYTES { Err(transfer_limit_error()) } else { Ok(()) }
    }

    /// Returns the longest body that the next response may have.
    fn max_body_len(&self) -> Result<usize> {
        match BYTES.saturating_sub(self.bytes.load(Ordering::Acquire)) {
            0 => Err(transfer_limit_error()),
            left => Ok(left.min(BODY)),
        }
    }
}

fn transfer_limit_error() -> Error {
    let message = format!(
        "the requests and responses of one run may have {} MiB in all: transfer less, or spread it over several runs",
        BYTES >> 20
    );
    Error::new(Code::TooLarge, message)
}

/// Returns a response as a script gets it.
fn response_to_json(host: &str, url: &str, response: Exchanged) -> Result<Map<String, Value>> {
    let encoding = response.header("content-encoding").unwrap_or("identity").trim();
    if !response.body.is_empty() && !encoding.is_empty() && !encoding.eq_ignore_ascii_case("identity") {
        let message = format!(
            "{host} sent a body in the encoding `{}`, although the request accepts none, and `fetch` decompresses nothing: request \
             an uncompressed representation",
            request::escape_text(encoding)
        );
        return Err(Error::new(Code::Unsupported, message));
    }
    let mut headers: Map<String, Value> = Map::new();
    for (name, value) in response.headers {
        let known = headers.get(&name).and_then(Value::as_str);
        let all = known.map_or_else(|| value.clone(), |known| format!("{known}, {value}"));
        headers.insert(name, all.into());
    }
    let body = String::from_utf8_lossy(&response.body);
    let fields = json!({ "status": response.status, "url": url, "headers": headers, "body": body });
    Ok(match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    })
}
