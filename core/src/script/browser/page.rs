//! The page of a browser: attaches to it, runs koze's own code in it, and replaces one that does not respond.

use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::Wire;
use super::client::{Client, Done, crashed_error, refused_error, timeout_error};
use crate::error::{Code, Error, Result};

/// How long a page may take to run any code. A page that takes longer is closed.
const RESPONSE: Duration = Duration::from_secs(8);
/// How long a script may take to end after it was terminated.
const ENDING: Duration = Duration::from_secs(3);
/// How long a page that does not respond may take to be replaced.
const REPAIR: Duration = Duration::from_secs(15);
/// How often koze checks whether a page is closed, and the time between two checks.
const CLOSING: usize = 100;
const LOOK: Duration = Duration::from_millis(50);
/// The number of attempts to run code in a page that navigates meanwhile.
const ATTEMPTS: usize = 5;
/// The URL of an empty page.
const BLANK: &str = "about:blank";

/// koze's own code for pages: a function.
const CODE: &str = include_str!("page.js");

/// A page that a client is attached to.
pub(super) struct Page<W: Wire> {
    pub(super) client: Client<W>,
    /// The target, which is also the ID of its main frame.
    pub(super) target: String,
    /// The execution context of koze's own code in the document.
    world: Option<i64>,
    /// Whether it is a new page, because the previous one did not respond.
    is_replaced: bool,
}

/// The URL, title and status of a page.
#[derive(Deserialize)]
pub(super) struct About {
    pub(super) url: String,
    pub(super) title: String,
    pub(super) status: u16,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Target {
    #[serde(rename = "targetId")]
    id: String,
    #[serde(rename = "type")]
    kind: String,
    opener_id: Option<String>,
}

impl<W: Wire> Page<W> {
    /// Attaches to the page of the browser. Opens one if the browser has no page.
    pub(super) async fn attach(client: Client<W>) -> Result<Self> {
        let mut page = Page { client, target: String::new(), world: None, is_replaced: false };
        page.client.tell_browser("Browser.setDownloadBehavior", &json!({ "behavior": "deny" }))?;
        match page.find_page().await? {
            Some(target) => {
                page.attach_to_target(target.id).await?;
                if !page.is_responsive(RESPONSE).await? {
                    page.replace_target().await?;
                }
            }
            None => page.open_target().await?,
        }
        Ok(page)
    }

    /// Returns the pages of the browser.
    async fn list_pages(&mut self) -> Result<Vec<Target>> {
        let targets = self.client.call_browser("Target.getTargets", json!({})).await?;
        let mut targets: Vec<Target> = take_field(targets, "targetInfos")?;
        targets.retain(|target| target.kind == "page");
        Ok(targets)
    }

    /// Finds the page of the browser, and closes all others.
    async fn find_page(&mut self) -> Result<Option<Target>> {
        let mut pages = self.list_pages().await?;
        let ours = pages.iter().position(|target| target.opener_id.is_none()).unwrap_or(0);
        let found = (!pages.is_empty()).then(|| pages.swap_remove(ours));
        for other in pages {
            self.client.tell_browser("Target.closeTarget", &json!({ "targetId": other.id }))?;
        }
        Ok(found)
    }

    /// Opens a new page.
    async fn open_target(&mut self) -> Result<()> {
        let created = self.client.call_browser("Target.createTarget", json!({ "url": BLANK })).await?;
        self.attach_to_target(take_field(created, "targetId")?).await?;
        // The page is empty, so only a busy machine delays it.
        if self.is_responsive(self.client.time_left()).await? { Ok(()) } else { Err(timeout_error()) }
    }

    /// Attaches to a target.
    async fn attach_to_target(&mut self, target: String) -> Result<()> {
        let how = json!({ "targetId": target, "flatten": true });
        let session = take_field(self.client.call_browser("Target.attachToTarget", how).await?, "sessionId")?;
        self.client.set_session(session);
        (self.target, self.world) = (target, None);
        for (method, params) in [
            ("Inspector.enable", json!({})),
            ("Page.enable", json!({})),
            ("Page.setLifecycleEventsEnabled", json!({ "enabled": true })),
        ] {
            self.client.tell_page(method, &params)?;
        }
        Ok(())
    }

    /// Returns whether the page runs code within this time.
    async fn is_responsive(&mut self, wait: Duration) -> Result<bool> {
        let wait = wait.min(self.client.time_left());
        self.world = None;
        for _ in 0..ATTEMPTS {
            match self.client.page_within("Page.createIsolatedWorld", &self.world_of(), wait).await? {
                Done::Result(created) => {
                    self.world = Some(take_field(created, "executionContextId")?);
                    return Ok(true);
                }
                // The page is navigating.
                Done::Refused(_) => {}
                Done::Late | Done::Crashed => return Ok(false),
            }
        }
        Ok(false)
    }

    fn world_of(&self) -> Value {
        json!({ "frameId": self.target, "worldName": "koze" })
    }

    /// Closes the page, whatever it is doing, and opens a new one. Cookies are kept.
    async fn replace_target(&mut self) -> Result<()> {
        self.client.set_settled(true);
        self.client.leave_page();
        self.client.tell_browser("Target.closeTarget", &json!({ "targetId": self.target }))?;
        // A later client must not find it.
        for _ in 0..CLOSING {
            if self.list_pages().await?.iter().all(|target| target.id != self.target) {
                break;
            }
            self.client.next_event(LOOK).await?;
        }
        self.is_replaced = true;
        self.open_target().await
    }

    /// Stops what is in progress in the page after a timeout, and replaces the page if that does not help. Returns whether
    /// there is a usable page.
    pub(super) async fn recover(&mut self) -> bool {
        for method in ["Runtime.terminateExecution", "Page.stopLoading"] {
            if self.client.tell_page(method, &json!({})).is_err() {
                return false;
            }
        }
        self.client.set_time_left(REPAIR);
        if self.client.has_crashed() || matches!(self.is_responsive(ENDING).await, Ok(false)) {
            return self.replace_target().await.is_ok();
        }
        true
    }

    /// Fails if no page is open.
    pub(super) async fn check_open(&mut self) -> Result<()> {
        if self.is_replaced {
            let text = "the page crashed, or its scripts blocked it for seconds, so it was closed: navigate again, or to another \
                        page";
            return Err(Error::new(Code::Unavailable, text));
        }
        let About { url, .. } = self.read_about().await?;
        // After a failed navigation, the browser shows an error page of its own.
        if url.starts_with("about:") || url.starts_with("chrome-error:") {
            return Err(Error::new(Code::NotFound, "no page is open: navigate to a URL first"));
        }
        Ok(())
    }

    /// Returns the URL, title and status of the page.
    pub(super) async fn read_about(&mut self) -> Result<About> {
        self.run_action(json!({ "action": "about" })).await
    }

    /// Records that the page may show another document.
    pub(super) fn mark_navigated(&mut self) {
        self.world = None;
    }

    /// Runs koze's own code in the page. Runs it again if the page navigates meanwhile.
    pub(super) async fn run_action<T: DeserializeOwned>(&mut self, input: Value) -> Result<T> {
        for _ in 0..ATTEMPTS {
            let Some(world) = self.world else {
                if !self.is_responsive(self.client.time_left()).await? {
                    return Err(if self.client.time_left().is_zero() {
                        timeout_error()
                    } else {
                        crashed_error()
                    });
                }
                continue;
            };
            let params = json!({
                "functionDeclaration": CODE, "executionContextId": world, "arguments": [{ "value": input }],
                "awaitPromise": true, "returnByValue": true,
            });
            let wait = self.client.time_left();
            match self.client.page_within("Runtime.callFunctionOn", &params, wait).await? {
                Done::Result(done) if done.get("exceptionDetails").is_none() => {
                    let value = done["result"].get("value").cloned().unwrap_or_default();
                    if let Some(code) =
                        value.get("code").and_then(|code| serde_json::from_value::<Code>(code.clone()).ok())
                    {
                        let message = value["message"].as_str().unwrap_or_default();
                        return Err(Error::new(code, message));
                    }
                    return serde_json::from_value(value)
                        .map_err(|error| unexpected_answer().with_source(error));
                }
                Done::Result(done) => {
                    let why =
                        done["exceptionDetails"]["exception"]["description"].as_str().unwrap_or_default();
                    return Err(refused_error("Runtime.callFunctionOn", why));
                }
                // The document no longer exists.
                Done::Refused(_) => self.world = None,
                Done::Late => return Err(timeout_error()),
                Done::Crashed => return Err(crashed_error()),
            }
        }
        Err(Error::new(
            Code::Unavailable,
            "the page does not stop navigating: wait for it, or navigate to another page",
        ))
    }
}

/// Returns a field of a result.
pub(super) fn take_field<T: DeserializeOwned>(mut result: Value, name: &str) -> Result<T> {
    let field = result.get_mut(name).map(Value::take).unwrap_or_default();
    serde_json::from_value(field).map_err(|error| unexpected_answer().with_source(error))
}

fn unexpected_answer() -> Error {
    Error::new(Code::Internal, "the browser returned an unexpected answer")
}
