//! One call: connects to the browser, performs an action, and leaves the page usable.

use serde_json::Value;

use super::client::Client;
use super::page::Page;
use super::{TIME, Wire, navigate};
use crate::error::{Code, Error, Result};
use crate::provider::Provider;
use crate::script::{Browse, Egress};
use crate::session::Session;
use crate::time::Start;

/// The longest selector, and the longest text to type, in bytes.
const INPUT: usize = 64 << 10;
/// The longest code in bytes.
const CODE: usize = 256 << 10;

/// Performs an action in the browser of a session's agent.
///
/// # Errors
/// [`Code::InvalidInput`] for invalid input, [`Code::PermissionDenied`] for a page on a host that may not be reached,
/// [`Code::NotFound`] for a missing element, [`Code::Timeout`], [`Code::TooLarge`] for a result that is too long, and
/// [`Code::Unavailable`].
pub(crate) async fn browse<P: Provider>(
    session: &Session<P>,
    egress: &Egress,
    mut browse: Browse,
) -> Result<Value> {
    check_action(&mut browse, egress)?;
    let (provider, agent) = (session.provider(), session.agent());
    if browse == (Browse::Close {}) {
        provider.close_browser(agent).await?;
        return Ok(Value::Null);
    }
    let start = Start::now();
    let wire = provider.open_browser(session.id(), agent, egress, TIME).await?;
    let mut page = match Page::attach(Client::new(wire, start, TIME)).await {
        Ok(page) => page,
        Err(error) => {
            // A browser that does not answer would not answer the next call either.
            if error.code == Code::Timeout {
                provider.close_browser(agent).await?;
            }
            return Err(error);
        }
    };
    page.client.set_settled(false);
    let done = perform_action(&mut page, browse).await;
    let is_lost = page.client.has_crashed() || done.as_ref().is_err_and(|error| error.code == Code::Timeout);
    let is_usable = !is_lost || page.recover().await;
    page.client.set_settled(true);
    if !is_usable {
        provider.close_browser(agent).await?;
    }
    done
}

fn check_action(browse: &mut Browse, egress: &Egress) -> Result<()> {
    let short = |what: &str, text: &str, most: usize| {
        if text.len() <= most {
            return Ok(());
        }
        let message = format!("{what} has {} bytes, but may have {most}", text.len());
        Err(Error::new(Code::InvalidInput, message))
    };
    match browse {
        Browse::Navigate { url, .. } => {
            let target = navigate::validate_url(url)?;
            *url = target.text;
            // The provider checks these hosts: previews need no policy, and no policy allows the others.
            if target.is_local { Ok(()) } else { egress.check_on() }
        }
        Browse::Screenshot { selector, .. }
        | Browse::ExtractText { selector }
        | Browse::ExtractHtml { selector, .. } => {
            short("the selector", selector.as_deref().unwrap_or_default(), INPUT)
        }
        Browse::Click { selector } => short("the selector", selector, INPUT),
        Browse::Type { selector, text, .. } => {
            short("the selector", selector, INPUT)?;
            short("the text", text, INPUT)
        }
        Browse::Evaluate { code } => short("the code", code, CODE),
        Browse::Close {} => Ok(()),
    }
}

async fn perform_action<W: Wire>(page: &mut Page<W>, browse: Browse) -> Result<Value> {
    if !matches!(browse, Browse::Navigate { .. }) {
        page.check_open().await?;
    }
    match browse {
        Browse::Navigate { url, wait_until } => page.navigate_to(&url, wait_until).await,
        Browse::Screenshot { selector, full_page } => {
            page.take_screenshot(selector.as_deref(), full_page).await
        }
        Browse::Click { selector } => page.click_element(&selector).await.map(|()| Value::Null),
        Browse::Type { selector, text, clear_first } => {
            page.type_text(&selector, &text, clear_first).await.map(|()| Value::Null)
        }
        Browse::ExtractText { selector } => page.read_text(selector.as_deref()).await.map(Value::String),
        Browse::ExtractHtml { selector, outer } => {
            page.read_html(selector.as_deref(), outer).await.map(Value::String)
        }
        Browse::Evaluate { code } => page.evaluate_code(&code).await,
        Browse::Close {} => Ok(Value::Null),
    }
}
