//! Clicks and types with input events, like a user.

use serde::Deserialize;
use serde_json::json;

use super::Wire;
use super::page::Page;
use super::{ELEMENT_MS, of_element};
use crate::error::Result;

/// The Enter key.
const ENTER: &str = "Enter";

#[derive(Deserialize)]
struct Point {
    x: f64,
    y: f64,
}

/// The result of preparing a field for input.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Field {
    /// Whether the field already has its value, so that nothing is typed.
    done: bool,
    /// Whether it is a single-line field.
    single: bool,
}

impl<W: Wire> Page<W> {
    /// Clicks the middle of an element.
    pub(super) async fn click_element(&mut self, selector: &str) -> Result<()> {
        let input = json!({ "action": "click", "selector": selector, "wait": ELEMENT_MS });
        let Point { x, y } = self.run_action(input).await.map_err(|error| of_element(selector, error))?;
        self.client.drain_events().for_each(drop);
        for (kind, clicks) in [("mouseMoved", 0), ("mousePressed", 1), ("mouseReleased", 1)] {
            let button = if clicks == 0 { "none" } else { "left" };
            let params = json!({ "type": kind, "x": x, "y": y, "button": button, "clickCount": clicks });
            self.client.call_page("Input.dispatchMouseEvent", params).await?;
        }
        self.wait_for_navigation().await
    }

    /// Types a text into a field. In a single-line field, a line break is the Enter key.
    pub(super) async fn type_text(&mut self, selector: &str, text: &str, clear: bool) -> Result<()> {
        let input = json!({
            "action": "type", "selector": selector, "wait": ELEMENT_MS, "text": text, "clear_first": clear,
        });
        let Field { done, single } =
            self.run_action(input).await.map_err(|error| of_element(selector, error))?;
        self.client.drain_events().for_each(drop);
        if !done {
            let lines: Vec<&str> = if single { text.split('\n').collect() } else { vec![text] };
            for (number, line) in lines.into_iter().enumerate() {
                if number > 0 {
                    self.enter_key().await?;
                }
                if !line.is_empty() {
                    self.client.call_page("Input.insertText", json!({ "text": line })).await?;
                }
            }
        }
        self.wait_for_navigation().await
    }

    async fn enter_key(&mut self) -> Result<()> {
        for (kind, text) in [("keyDown", Some("\r")), ("keyUp", None)] {
            let params = json!({
                "type": kind, "key": ENTER, "code": ENTER, "windowsVirtualKeyCode": 13, "text": text.unwrap_or_default(),
            });
            self.client.call_page("Input.dispatchKeyEvent", params).await?;
        }
        Ok(())
    }
}
