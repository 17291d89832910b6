//! Opens pages, and waits for those that a click opens.

use std::time::Duration;

use serde_json::{Value, json};

use super::Wire;
use super::client::{Event, beginning_of, timeout_error};
use super::page::{About, Page};
use super::wire::Refusal;
use crate::error::{Code, Error, Result};
use crate::script::WaitUntil;
use crate::script::url::Url;
use crate::time::Start;

/// The longest URL in bytes.
const URL: usize = 8 << 10;
/// The maximum number of characters of a page's title and URL in a result.
const ABOUT: usize = 2000;
/// The timeout for a page that a click opens.
const FOLLOWING: Duration = Duration::from_secs(10);

/// The URL of a page.
pub(super) struct Target {
    /// The URL, in the form that is sent to the browser.
    pub(super) text: String,
    /// Whether its host is that of a loopback interface, as that of a preview.
    pub(super) is_local: bool,
}

/// Validates the URL of a page.
pub(super) fn validate_url(text: &str) -> Result<Target> {
    if text.len() > URL {
        return Err(invalid_url_error(&format!("the URL has {} bytes, but may have {URL}", text.len())));
    }
    let url = Url::parse(text, None)?;
    if !matches!(url.scheme.as_str(), "http" | "https") {
        return Err(invalid_url_error("the browser opens only URLs with `https:` or `http:`"));
    }
    if url.has_user {
        return Err(invalid_url_error(
            "the URL contains a user name or a password: sign in on the page instead",
        ));
    }
    if url.port == Some(0) {
        return Err(invalid_url_error("the port of the URL must be from 1 to 65535"));
    }
    let fragment = text.split_once('#').map(|(_, fragment)| format!("#{}", fragment.trim_end()));
    let host = url.host.as_str();
    let is_local =
        matches!(host, "localhost" | "[::1]") || host.ends_with(".localhost") || host.starts_with("127.");
    Ok(Target { text: url.text + &fragment.unwrap_or_default(), is_local })
}

impl<W: Wire> Page<W> {
    /// Opens a page. Returns its URL, its title and its status.
    pub(super) async fn navigate_to(&mut self, url: &str, until: WaitUntil) -> Result<Value> {
        self.client.drain_events().for_each(drop);
        let answer = self.client.call_page("Page.navigate", json!({ "url": url })).await;
        let answer = answer.map_err(|error| match error.code {
            Code::Timeout => no_answer_error(url),
            _ => error,
        })?;
        if let Some(why) = answer.get("errorText").and_then(Value::as_str) {
            let is_download = answer["isDownload"].as_bool().unwrap_or_default();
            return Err(self.navigation_error(url, why, is_download));
        }
        self.mark_navigated();
        // Within the same document, nothing is loaded.
        if let Some(loader) = answer.get("loaderId").and_then(Value::as_str) {
            self.wait_until_loaded(loader, until).await?;
        }
        let About { url, title, status } = self.read_about().await?;
        if status >= 400
            && let Some(refusal) = self.find_refusal(&url)
        {
            return Err(Error::new(refusal.code, refusal.message));
        }
        Ok(json!({ "url": truncate_text(url), "title": truncate_text(title), "status": status }))
    }

    /// Waits until a document has loaded, or the one that it redirects to.
    async fn wait_until_loaded(&mut self, loader: &str, until: WaitUntil) -> Result<()> {
        let (wanted, shown) = match until {
            WaitUntil::Load => ("load", "load"),
            WaitUntil::DomContentLoaded => ("DOMContentLoaded", "domcontentloaded"),
            WaitUntil::NetworkIdle => ("networkIdle", "networkidle"),
        };
        let mut loader = loader.to_owned();
        loop {
            let Some(event) = self.client.next_event(self.client.time_left()).await? else {
                let text = format!(
                    "the page is open, but did not reach `{shown}` in time: use it as it is, or navigate with `wait_until` set to \
                     `domcontentloaded`"
                );
                return Err(Error::new(Code::Timeout, text));
            };
            if event.method != "Page.lifecycleEvent" || event.params["frameId"] != self.target {
                continue;
            }
            let of = event.params["loaderId"].as_str().unwrap_or_default();
            match event.params["name"].as_str() {
                Some("init") => of.clone_into(&mut loader),
                Some(name) if name == wanted && of == loader => return Ok(()),
                _ => {}
            }
        }
    }

    /// After an action, waits for the page that it opens, if it opens one.
    pub(super) async fn wait_for_navigation(&mut self) -> Result<()> {
        // Answered after everything that the action has caused. A page that is being replaced cannot answer.
        let ours = |event: &Event, target: &str| event.params["frameId"] == target;
        self.client
            .call_page("Runtime.evaluate", json!({ "expression": "1" }))
            .await
            .or_else(|error| if error.code == Code::Timeout { Err(error) } else { Ok(Value::Null) })?;
        let (mut begun, start) = (false, Start::now());
        let events: Vec<Event> = self.client.drain_events().collect();
        for event in events.iter().filter(|event| ours(event, &self.target)) {
            match event.method.as_str() {
                "Page.frameRequestedNavigation" | "Page.frameStartedLoading" => begun = true,
                "Page.frameStoppedLoading" => begun = false,
                _ => {}
            }
        }
        while begun {
            let left = FOLLOWING.min(self.client.time_left()).saturating_sub(start.elapsed());
            // The action itself has succeeded, even if the page does not load in time.
            let Some(event) = self.client.next_event(left).await? else { break };
            begun = !(event.method == "Page.frameStoppedLoading" && ours(&event, &self.target));
        }
        self.mark_navigated();
        Ok(())
    }

    /// Returns why a request to the host of a URL was refused, if it was.
    fn find_refusal(&self, url: &str) -> Option<Refusal> {
        let url = Url::parse(url, None).ok()?;
        let port = url.port_or_default();
        let is = |refusal: &Refusal| refusal.host.eq_ignore_ascii_case(&url.host) && refusal.port == port;
        self.client.wire.refusals().into_iter().rev().find(is)
    }

    /// Returns the error for a page that could not be opened.
    fn navigation_error(&self, url: &str, why: &str, is_download: bool) -> Error {
        // The proxy refuses the tunnel, or the provider refuses the request. Either may be that of a redirect.
        let refusals = self.client.wire.refusals();
        let refusal = self.find_refusal(url).or_else(|| {
            let refused = matches!(why, "net::ERR_TUNNEL_CONNECTION_FAILED" | "net::ERR_BLOCKED_BY_CLIENT");
            refused.then(|| refusals.last().cloned()).flatten()
        });
        if let Some(Refusal { code, message, .. }) = refusal {
            return Error::new(code, message);
        }
        let (code, hint) = match why {
            "net::ERR_ABORTED" if is_download => (
                Code::Unsupported,
                "the URL is a download, and the browser downloads nothing: request it with fetch",
            ),
            "net::ERR_ABORTED" => (
                Code::Unavailable,
                "the server sent no page, as with the status 204, or redirects to a URL that the browser does not open: the previous \
                 page is still open",
            ),
            "net::ERR_UNSAFE_REDIRECT" => (
                Code::PermissionDenied,
                "it redirects to a URL that has neither `https:` nor `http:`, which the browser does not open",
            ),
            "net::ERR_UNSAFE_PORT" => {
                (Code::PermissionDenied, "browsers do not open this port, which other protocols use")
            }
            "net::ERR_TOO_MANY_REDIRECTS" => (Code::Unavailable, "it redirects in a circle: use another URL"),
            "net::ERR_CERT_AUTHORITY_INVALID" if self.client.wire.authority_hint().is_some() => {
                (Code::Unavailable, self.client.wire.authority_hint().unwrap_or_default())
            }
            why if why.starts_with("net::ERR_CERT_") || why.starts_with("net::ERR_SSL_") => {
                (Code::Unavailable, "the connection is not secure: check the host, or use another URL")
            }
            _ => (Code::Unavailable, "check the URL, or try again later"),
        };
        Error::new(code, format!("the page cannot be opened ({}): {hint}", beginning_of(why)))
    }
}

/// Returns the error for a server that did not answer.
fn no_answer_error(url: &str) -> Error {
    let host = Url::parse(url, None).map(|url| url.host).unwrap_or_default();
    let seconds = super::TIME.as_secs();
    let text = format!("{host} sent no page within {seconds} s: try again, or use another URL");
    Error::new(timeout_error().code, text)
}

/// Truncates a text of a page, which can be of any length.
fn truncate_text(mut text: String) -> String {
    if let Some((at, _)) = text.char_indices().nth(ABOUT) {
        text.truncate(at);
        text.push('…');
    }
    text
}

fn invalid_url_error(message: &str) -> Error {
    Error::new(Code::InvalidInput, message)
}
