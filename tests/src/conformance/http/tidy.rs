//! Cleans up the sandboxes that the cases create.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use crate::conformance::{AGENT, Host, ToolResult};

/// A wrapper around a host that destroys the sandboxes created through it when it is dropped.
pub(super) struct Tidy<'h> {
    host: &'h dyn Host,
    /// The sessions, and the possible sandbox names in them.
    made: Mutex<BTreeSet<(String, String)>>,
}

impl<'h> Tidy<'h> {
    pub(super) fn new(host: &'h dyn Host) -> Self {
        Tidy { host, made: Mutex::default() }
    }
}

impl Host for Tidy<'_> {
    fn call(&self, session: &str, tool: &str, input: Value) -> ToolResult {
        // The sandbox of a workspace has its name.
        if let Some((workspace, _)) = tool.strip_prefix("workspace__").and_then(|rest| rest.split_once("__"))
            && is_name(workspace)
        {
            let used = (session.to_owned(), workspace.to_owned());
            self.made.lock().unwrap_or_else(PoisonError::into_inner).insert(used);
            return self.host.call(session, tool, input);
        }
        let keys = if tool == "transfer" { &["from_sandbox", "to_sandbox"][..] } else { &["sandbox"] };
        let named = keys.iter().filter_map(|key| input.get(key).map_or(Some("default"), Value::as_str));
        let used = named.filter(|name| is_name(name)).map(|name| (session.to_owned(), name.to_owned()));
        self.made.lock().unwrap_or_else(PoisonError::into_inner).extend(used);
        self.host.call(session, tool, input)
    }

    /// Raw texts are not parsed for sandbox names: the agent's cases use them only for calls that fail, and other families
    /// have one sandbox.
    fn call_text_of(&self, toolset: &str, session: &str, tool: &str, input: &str) -> ToolResult {
        if toolset != AGENT {
            let used = (session.to_owned(), "default".to_owned());
            self.made.lock().unwrap_or_else(PoisonError::into_inner).insert(used);
        }
        self.host.call_text_of(toolset, session, tool, input)
    }

    fn restart(&self) {
        self.host.restart();
    }

    fn get(&self, url: &str, path: &str) -> (u16, String) {
        self.host.get(url, path)
    }

    fn images(&self) -> Vec<String> {
        self.host.images()
    }

    fn secrets(&self) -> Vec<String> {
        self.host.secrets()
    }
}

impl Drop for Tidy<'_> {
    fn drop(&mut self) {
        let made = self.made.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (session, sandbox) in made.iter() {
            if let Err(why) = self.host.destroy(session, sandbox) {
                eprintln!("the sandbox `{sandbox}` of the session `{session}` is left there: {why}");
            }
        }
    }
}

/// Returns whether a sandbox can have this name. Cases try invalid names, too.
fn is_name(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=20).contains(&name.len())
        && name.bytes().all(inner)
        && !name.starts_with('-')
        && !name.ends_with('-')
}
