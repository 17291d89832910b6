//! The tools over the browser, which scripts use as `browser`.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::Result;
use crate::provider::Provider;
use crate::script::browser::{browse, no_browser_error};
use crate::script::{Browse, WaitUntil};
use crate::session::Session;
use crate::tool::{Content, Reply, Scope, Tool};

/// The addition to the description of `run_sandbox_code`.
pub(super) const GLOBAL: &str = " browser has the page of browser_navigate: await browser.navigate(url), click(selector), \
    type(selector, text, {clear_first}), extractText(selector), extractHtml(selector, {outer}), evaluate(code), \
    screenshot({selector, full_page}), close().";

pub(super) struct BrowserNavigate;
pub(super) struct BrowserScreenshot;
pub(super) struct BrowserClick;
pub(super) struct BrowserType;
pub(super) struct BrowserExtractText;
pub(super) struct BrowserExtractHtml;
pub(super) struct BrowserEvaluate;
pub(super) struct BrowserClose;

/// Performs an action in the browser of the session's agent.
async fn perform_action<P: Provider>(session: &Session<P>, action: Browse) -> Result<Value> {
    if !session.profiles().has_script_browser() {
        return Err(no_browser_error());
    }
    let egress = session.profiles().script_egress().cloned().unwrap_or_default();
    // Boxed, because its state is large.
    Box::pin(browse(session, &egress, action)).await
}

/// The input of `browser_navigate`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Navigate {
    /// The URL, with `https:` or `http:`.
    url: String,
    /// What to wait for: load (the page and what it embeds), domcontentloaded (the document), or networkidle (half a second
    /// without requests).
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "States", default = "States::default_state"))]
    wait_until: WaitUntil,
}

/// The states in the schema.
#[cfg(test)]
#[derive(JsonSchema, serde::Serialize)]
#[schemars(rename_all = "lowercase", inline)]
#[serde(rename_all = "lowercase")]
enum States {
    Load,
    #[expect(dead_code, reason = "only its schema is used")]
    DomContentLoaded,
    #[expect(dead_code, reason = "only its schema is used")]
    NetworkIdle,
}

#[cfg(test)]
impl States {
    fn default_state() -> Self {
        States::Load
    }
}

impl Tool for BrowserNavigate {
    const NAME: &'static str = "browser_navigate";
    const DESCRIPTION: &'static str = "Open a page in a headless browser, on a host that the project allows for scripts. Returns url (after \
        redirects), title and status. The page and its cookies stay for later calls, and for browser in scripts. Private and \
        local addresses are refused, there are no downloads, and new windows do not open. At most 25 s.";
    const SCOPE: Scope = Scope::Session;
    type Input = Navigate;

    async fn call<P: Provider>(
        session: &Session<P>,
        Navigate { url, wait_until }: Navigate,
    ) -> Result<Reply> {
        Reply::ok(perform_action(session, Browse::Navigate { url, wait_until }).await?)
    }
}

/// The input of `browser_screenshot`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Screenshot {
    /// The CSS selector of an element to show. Without it, the visible part of the page.
    #[serde(default)]
    selector: Option<String>,
    /// Whether to show the whole page.
    #[serde(default)]
    full_page: bool,
}

impl Tool for BrowserScreenshot {
    const NAME: &'static str = "browser_screenshot";
    const DESCRIPTION: &'static str = "Take a picture of the page, or of an element. Returns image (PNG in base64, at most 2.5 MiB), width \
        and height.";
    const SCOPE: Scope = Scope::Session;
    type Input = Screenshot;

    async fn call<P: Provider>(
        session: &Session<P>,
        Screenshot { selector, full_page }: Screenshot,
    ) -> Result<Reply> {
        let picture = perform_action(session, Browse::Screenshot { selector, full_page }).await?;
        Ok(Reply { content: Content::Picture(picture), is_error: false })
    }
}

/// The input of `browser_click`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Click {
    /// The CSS selector of the element. The first visible one that matches is clicked.
    selector: String,
}

impl Tool for BrowserClick {
    const NAME: &'static str = "browser_click";
    const DESCRIPTION: &'static str = "Click an element of the page. Waits up to 5 s until it is there, and for the page that the click \
        opens. Returns ok.";
    const SCOPE: Scope = Scope::Session;
    type Input = Click;

    async fn call<P: Provider>(session: &Session<P>, Click { selector }: Click) -> Result<Reply> {
        perform_action(session, Browse::Click { selector }).await?;
        Reply::ok(json!({ "ok": true }))
    }
}

/// The input of `browser_type`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Type {
    /// The CSS selector of the field.
    selector: String,
    /// The text. In a field of one line, a line break presses Enter. For a select, the value or label of an option.
    text: String,
    /// Whether to remove what the field contains.
    #[serde(default)]
    clear_first: bool,
}

impl Tool for BrowserType {
    const NAME: &'static str = "browser_type";
    const DESCRIPTION: &'static str = "Type text into a field of the page, or choose an option of a select. Waits up to 5 s until the \
        field is there. Returns ok.";
    const SCOPE: Scope = Scope::Session;
    type Input = Type;

    async fn call<P: Provider>(
        session: &Session<P>,
        Type { selector, text, clear_first }: Type,
    ) -> Result<Reply> {
        perform_action(session, Browse::Type { selector, text, clear_first }).await?;
        Reply::ok(json!({ "ok": true }))
    }
}

/// The input of `browser_extract_text`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct ExtractText {
    /// The CSS selector of an element. Without it, the whole page.
    #[serde(default)]
    selector: Option<String>,
}

impl Tool for BrowserExtractText {
    const NAME: &'static str = "browser_extract_text";
    const DESCRIPTION: &'static str = "Return the visible text of the page, or of the first element that matches. Returns text, of at most 2 MiB.";
    const SCOPE: Scope = Scope::Session;
    type Input = ExtractText;

    async fn call<P: Provider>(session: &Session<P>, ExtractText { selector }: ExtractText) -> Result<Reply> {
        Reply::ok(json!({ "text": perform_action(session, Browse::ExtractText { selector }).await? }))
    }
}

/// The input of `browser_extract_html`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct ExtractHtml {
    /// The CSS selector of an element. Without it, the whole page.
    #[serde(default)]
    selector: Option<String>,
    /// Whether to include the element itself, and not only what it contains.
    #[serde(default)]
    outer: bool,
}

impl Tool for BrowserExtractHtml {
    const NAME: &'static str = "browser_extract_html";
    const DESCRIPTION: &'static str = "Return the HTML of the page as it is now, or of the first element that matches. Returns html, of at \
        most 2 MiB.";
    const SCOPE: Scope = Scope::Session;
    type Input = ExtractHtml;

    async fn call<P: Provider>(
        session: &Session<P>,
        ExtractHtml { selector, outer }: ExtractHtml,
    ) -> Result<Reply> {
        Reply::ok(json!({ "html": perform_action(session, Browse::ExtractHtml { selector, outer }).await? }))
    }
}

/// The input of `browser_evaluate`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Evaluate {
    /// JavaScript: an expression, or the body of an async function with return.
    code: String,
}

impl Tool for BrowserEvaluate {
    const NAME: &'static str = "browser_evaluate";
    const DESCRIPTION: &'static str = "Run JavaScript in the page, with its document and its functions. Awaits promises. Returns result as \
        JSON, of at most 2 MiB.";
    const SCOPE: Scope = Scope::Session;
    type Input = Evaluate;

    async fn call<P: Provider>(session: &Session<P>, Evaluate { code }: Evaluate) -> Result<Reply> {
        Reply::ok(json!({ "result": perform_action(session, Browse::Evaluate { code }).await? }))
    }
}

/// The input of `browser_close`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

impl Tool for BrowserClose {
    const NAME: &'static str = "browser_close";
    const DESCRIPTION: &'static str =
        "Close the browser, with its page and its cookies. The next call starts it again. Returns ok.";
    const SCOPE: Scope = Scope::Session;
    type Input = Nothing;

    async fn call<P: Provider>(session: &Session<P>, _: Nothing) -> Result<Reply> {
        perform_action(session, Browse::Close {}).await?;
        Reply::ok(json!({ "ok": true }))
    }
}
