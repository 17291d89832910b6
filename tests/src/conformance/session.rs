//! The interface of a case to its host.

use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{Capability, Host, ToolResult};

/// The valid error codes.
const CODES: &[&str] = &[
    "invalid_input",
    "unknown_tool",
    "not_found",
    "already_exists",
    "is_directory",
    "not_a_directory",
    "permission_denied",
    "path_escape",
    "edit_conflict",
    "too_large",
    "binary",
    "timeout",
    "unsupported",
    "unavailable",
    "internal",
];

/// A session on a host, in which a case calls tools.
pub struct Session<'a> {
    host: &'a dyn Host,
    can: &'a [Capability],
    name: String,
}

impl<'a> Session<'a> {
    /// Creates a session with this name.
    pub fn new(host: &'a dyn Host, can: &'a [Capability], name: &str) -> Self {
        Session { host, can, name: name.to_owned() }
    }

    /// Calls a tool that must fail with `permission_denied`, unless programs run as root.
    pub(super) fn bound(&self, tool: &str, input: Value) {
        if self.is_plain() {
            self.fails(tool, input, "permission_denied");
        } else {
            self.ok(tool, input);
        }
    }

    /// Returns whether programs run as an unprivileged user.
    pub(super) fn is_plain(&self) -> bool {
        self.can.contains(&Capability::PlainUser)
    }

    /// Returns the user ID of programs.
    #[track_caller]
    pub(super) fn user(&self) -> String {
        let user = self.out("id -u");
        assert_eq!(user != "0", self.is_plain(), "programs have the user id {user}");
        user
    }

    /// Returns the values that `sandbox_create` accepts as images.
    pub(super) fn images(&self) -> Vec<String> {
        self.host.images()
    }

    /// Returns another session on the same host.
    pub(super) fn other(&self, name: &str) -> Self {
        Session::new(self.host, self.can, name)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn can(&self, capability: Capability) -> bool {
        self.can.contains(&capability)
    }

    pub(super) fn restart(&self) {
        self.host.restart();
    }

    /// Calls a tool.
    #[track_caller]
    pub(super) fn call(&self, tool: &str, input: Value) -> ToolResult {
        let result = self.host.call(&self.name, tool, input);
        for secret in self.host.secrets() {
            assert!(!result.content.contains(&secret), "{tool} tells `{secret}`: {}", result.content);
        }
        result
    }

    /// Calls a tool of a toolset.
    #[track_caller]
    pub(super) fn call_of(&self, toolset: &str, tool: &str, input: &Value) -> ToolResult {
        let result = self.host.call_text_of(toolset, &self.name, tool, &input.to_string());
        for secret in self.host.secrets() {
            assert!(!result.content.contains(&secret), "{tool} tells `{secret}`: {}", result.content);
        }
        result
    }

    /// Calls a tool with a raw input that must fail with this code, and returns the message.
    #[track_caller]
    pub(super) fn fails_as_written(&self, tool: &str, input: &str, code: &str) -> String {
        let ToolResult { content, is_error } = self.host.call_text(&self.name, tool, input);
        assert!(is_error && content.starts_with(&format!("{code}: ")), "{tool} {input}: {content}");
        content
    }

    /// Returns the status and body for another path of a URL from `browse`.
    pub(super) fn get(&self, url: &str, path: &str) -> (u16, String) {
        self.host.get(url, path)
    }

    /// Calls a tool that must succeed, and returns its result.
    #[track_caller]
    pub(super) fn ok(&self, tool: &str, input: Value) -> Value {
        let shown = shown(&input);
        let result = self.call(tool, input);
        assert!(!result.is_error, "{tool} {shown}: {}", result.content);
        serde_json::from_str(&result.content).expect("the content is JSON")
    }

    /// Calls a tool that must fail, and returns the message.
    #[track_caller]
    pub(super) fn err(&self, tool: &str, input: Value) -> String {
        let shown = shown(&input);
        let ToolResult { content, is_error } = self.call(tool, input);
        assert!(is_error, "{tool} {shown}: {content}");
        let (code, text) = content.split_once(": ").unwrap_or((&content, ""));
        assert!(CODES.contains(&code) && !text.is_empty(), "{tool} {shown}: {content}");
        for sign in ["panicked", ".rs:", "stack backtrace", "RUST_"] {
            assert!(!content.contains(sign), "{tool} {shown} shows its inside: {content}");
        }
        content
    }

    /// Calls a tool that must fail with this code.
    #[track_caller]
    pub(super) fn fails(&self, tool: &str, input: Value, code: &str) {
        let shown = shown(&input);
        let error = self.err(tool, input);
        assert!(error.starts_with(&format!("{code}: ")), "{tool} {shown} is not {code}: {error}");
    }

    #[track_caller]
    pub(super) fn write(&self, path: &str, content: &str) {
        self.ok("write_file", json!({ "path": path, "content": content }));
    }

    #[track_caller]
    pub(super) fn write_bytes(&self, path: &str, bytes: &[u8]) {
        let content = STANDARD.encode(bytes);
        let written =
            self.ok("write_file", json!({ "path": path, "content": content, "encoding": "base64" }));
        assert_eq!(written["size"], bytes.len());
    }

    #[track_caller]
    pub(super) fn read(&self, path: &str) -> String {
        text(&self.ok("read_file", json!({ "path": path }))["content"])
    }

    /// Runs a command with any exit code, and returns its result.
    #[track_caller]
    pub(super) fn run(&self, command: &str) -> Value {
        self.run_in("default", command)
    }

    #[track_caller]
    pub(super) fn run_in(&self, sandbox: &str, command: &str) -> Value {
        // The cases look at all of the output; `output.rs` has those about its default limit.
        let limits = json!({ "timeout_ms": 120_000, "max_output_chars": 1_048_576 });
        let mut input = json!({ "sandbox": sandbox, "command": command });
        input.as_object_mut().expect("an object").extend(limits.as_object().cloned().unwrap_or_default());
        let result = self.call("shell", input);
        serde_json::from_str(&result.content).unwrap_or_else(|_| panic!("{command}: {}", result.content))
    }

    /// Returns the output of a command that must succeed, without the trailing newline.
    #[track_caller]
    pub(super) fn out(&self, command: &str) -> String {
        self.out_in("default", command)
    }

    #[track_caller]
    pub(super) fn out_in(&self, sandbox: &str, command: &str) -> String {
        let ran = self.run_in(sandbox, command);
        assert_eq!(ran["exit_code"], 0, "{command}: {ran}");
        text(&ran["stdout"]).trim_end_matches('\n').to_owned()
    }

    /// Returns the names of the session's sandboxes.
    #[track_caller]
    pub(super) fn sandboxes(&self) -> Vec<String> {
        let list = self.ok("sandbox_list", json!({}));
        list["sandboxes"].as_array().expect("a list").iter().map(|one| text(&one["name"])).collect()
    }

    /// Waits for a condition, for up to a minute.
    #[track_caller]
    pub(super) fn until(&self, what: &str, holds: impl Fn(&Session) -> bool) {
        for _ in 0..600 {
            if holds(self) {
                return;
            }
            thread::sleep(Duration::from_millis(100));
        }
        panic!("never: {what}");
    }
}

/// Runs an operation several times concurrently, and returns the results.
pub(super) fn at_once<T: Send>(times: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let work = &work;
    thread::scope(|scope| {
        let all: Vec<_> = (0..times).map(|number| scope.spawn(move || work(number))).collect();
        all.into_iter().map(|one| one.join().expect("none of them panics")).collect()
    })
}

/// Returns the text of a JSON string.
#[track_caller]
pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

/// Returns every byte value, in an order that is not valid UTF-8.
pub(super) fn every_byte() -> Vec<u8> {
    (0..=255).rev().chain(0..=255).collect()
}

/// Formats an input for messages.
fn shown(input: &Value) -> String {
    let text = input.to_string();
    if text.len() > 500 { format!("{}…", text.chars().take(500).collect::<String>()) } else { text }
}
