//! Follows a tool call until it ends.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::input::Text;
use super::{CANCELED, CallRecord, FAILED, OK, UnmaskedCall, pictures, result, truncate_name};
use crate::error::Result;
use crate::id::SandboxName;
use crate::provider::Provider;
use crate::session::Session;
use crate::time::{Start, millis, now};
use crate::tool::{Content, Family, Input, Reply};

/// The sandboxes that a call uses, in the order of their first use.
#[derive(Debug, Clone, Default)]
pub(crate) struct UsedSandboxes(Arc<Mutex<Vec<SandboxName>>>);

impl UsedSandboxes {
    /// Adds a sandbox, unless it is there.
    pub(crate) fn add(&self, name: &SandboxName) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !names.contains(name) {
            names.push(name.clone());
        }
    }

    fn list(&self) -> Vec<String> {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.iter().map(SandboxName::to_string).collect()
    }
}

/// A call that is recorded. If it is dropped before its end, the call was canceled.
pub(crate) struct Recording<P: Provider> {
    session: Session<P>,
    used: UsedSandboxes,
    start: Start,
    /// Whether the result is recorded.
    has_result: bool,
    call: Option<UnmaskedCall>,
}

impl<P: Provider> Recording<P> {
    /// Starts to record a call. Returns `None` if the session's calls are not recorded.
    pub(crate) fn start(
        session: &Session<P>,
        family: Option<Family>,
        tool: &str,
        input: &Input,
    ) -> Option<Self> {
        let settings = session.journal_settings()?;
        if !session.provider().has_journal() {
            return None;
        }
        let record = CallRecord {
            id: 0,
            time: now(),
            session: session.id().session().to_owned(),
            client: session.client().map(truncate_name),
            family: family.map(|family| family.name().into()),
            tool: truncate_name(tool),
            sandboxes: Vec::new(),
            input: None,
            input_cut: false,
            input_masked: false,
            input_bytes: input.text().len() as u64,
            outcome: CANCELED.into(),
            exit_code: None,
            duration_ms: 0,
            result: None,
            result_cut: false,
            pictures: Vec::new(),
            result_bytes: 0,
            lost: 0,
        };
        let input = settings.inputs.then(|| Text::copy(input));
        let declared = session.profiles().declared_secrets();
        let call = UnmaskedCall { record, input, result: None, pictures: Vec::new(), declared };
        let used = UsedSandboxes::default();
        let (session, start, has_result) = (session.clone(), Start::now(), settings.results);
        Some(Recording { session, used, start, has_result, call: Some(call) })
    }

    /// Returns the session for the call, which notes the sandboxes that are used.
    pub(crate) fn session(&self) -> Session<P> {
        self.session.clone().noting(self.used.clone())
    }

    /// Records the end of the call.
    pub(crate) fn end(mut self, outcome: &Result<Reply>) {
        let Some(call) = &mut self.call else { return };
        let record = &mut call.record;
        if self.has_result {
            let copied = result::copy(outcome);
            record.result_cut = copied.is_cut;
            call.result = Some(copied.value);
            if self.session.provider().keeps_pictures() {
                call.pictures = pictures::copy(&copied.pictures);
            }
            record.pictures = copied.pictures.iter().map(pictures::describe).collect();
        }
        match outcome {
            Ok(Reply { content, is_error }) => {
                record.outcome = if *is_error { FAILED } else { OK }.into();
                record.exit_code = exit_code(content);
                record.result_bytes = content_size(content);
            }
            Err(error) => {
                record.outcome = error.code.as_str().into();
                record.result_bytes = error.message.len() as u64;
            }
        }
    }
}

impl<P: Provider> Drop for Recording<P> {
    fn drop(&mut self) {
        let Some(mut call) = self.call.take() else { return };
        call.record.duration_ms = millis(self.start.elapsed());
        call.record.sandboxes = self.used.list();
        self.session.provider().record_call(self.session.id(), call);
    }
}

impl<P: Provider> fmt::Debug for Recording<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recording").field("call", &self.call).finish_non_exhaustive()
    }
}

/// Returns the exit code in a result.
fn exit_code(content: &Content) -> Option<i64> {
    match content {
        Content::Json(value) | Content::Picture(value) | Content::Outputs(value) => {
            value.get("exit_code")?.as_i64()
        }
        Content::Text(_) => None,
    }
}

fn content_size(content: &Content) -> u64 {
    match content {
        Content::Json(value) | Content::Picture(value) | Content::Outputs(value) => value_size(value),
        Content::Text(text) => text.len() as u64,
    }
}

/// Returns the size of a value's texts. To count the bytes of its JSON would take as long as the serialization of the result.
fn value_size(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 4,
        Value::String(text) => text.len() as u64,
        Value::Array(items) => items.iter().map(value_size).sum(),
        Value::Object(fields) => fields.iter().map(|(key, field)| key.len() as u64 + value_size(field)).sum(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::journal::JournalSettings;
    use crate::profiles::Profiles;
    use crate::provider::memory::Memory;
    use crate::provider::{Profile, Size};
    use crate::tool::{All, Catalog};
    use crate::{SessionId, ToolResult};

    fn profiles(settings: JournalSettings) -> Profiles {
        let profile = Profile {
            env: vec![("API_KEY".into(), "declared-secret".into())],
            tools: vec![Family::Agent, Family::Thread, Family::Workspace],
            ..Profile::new("a", "debian", Size { memory_mib: 1, disk_mb: 1 })
        };
        Profiles::new(vec![profile], "a").unwrap().with_journal(settings)
    }

    fn session(settings: JournalSettings) -> (Memory, Session<Memory>) {
        let memory = Memory::new();
        let id = SessionId::new("tenant", "one").unwrap();
        (memory.clone(), Session::new(memory, id, profiles(settings)))
    }

    fn call(session: &Session<Memory>, toolset: &str, tool: &str, input: Value) -> ToolResult {
        let catalog = Catalog::<All>::select(session.profiles(), Some(toolset)).unwrap();
        pollster::block_on(catalog.call(session, tool, input)).into()
    }

    /// Returns what does not depend on the time.
    fn constant(record: &CallRecord) -> Value {
        let mut value = serde_json::to_value(record).unwrap();
        let fields = value.as_object_mut().unwrap();
        assert!(fields.shift_remove("time").unwrap().as_u64().unwrap() > 1_700_000_000_000);
        assert!(fields.shift_remove("duration_ms").unwrap().as_u64().unwrap() < 60_000);
        value
    }

    #[test]
    fn calls_are_recorded_with_their_outcomes() {
        let (memory, session) = session(JournalSettings::default());
        let named = session.clone().with_client("a client");
        let write = json!({ "path": "f", "content": "declared-secret" });
        assert!(!call(&named, "agent", "write_file", write).is_error);
        assert!(call(&session, "agent", "read_file", json!({ "path": "f", "sandbox": "other" })).is_error);
        assert!(call(&session, "agent", "no_tool", json!({})).is_error);
        assert!(call(&session, "thread", "bash", json!({ "description": "d", "command": "ls" })).is_error);
        assert!(!call(&session, "workspace", "workspace__a__ls", json!({})).is_error);
        let recorded: Vec<Value> = memory.calls().iter().map(constant).collect();
        assert_eq!(
            recorded,
            [
                json!({
                    "id": 1, "session": "one", "client": "a client", "family": "agent", "tool": "write_file",
                    "sandboxes": ["default"], "input": { "path": "f", "content": "[secret API_KEY]" },
                    "input_masked": true, "input_bytes": 40, "outcome": "ok", "result": { "ok": true, "size": 15 },
                    "result_bytes": 14,
                }),
                json!({
                    "id": 2, "session": "one", "family": "agent", "tool": "read_file", "sandboxes": ["other"],
                    "input": { "path": "f", "sandbox": "other" }, "input_bytes": 30, "outcome": "not_found",
                    "result": recorded[1]["result"], "result_bytes": recorded[1]["result_bytes"],
                }),
                json!({
                    "id": 3, "session": "one", "tool": "no_tool", "input": {}, "input_bytes": 2,
                    "outcome": "unknown_tool", "result": recorded[2]["result"], "result_bytes": recorded[2]["result_bytes"],
                }),
                json!({
                    "id": 4, "session": "one", "family": "thread", "tool": "bash", "sandboxes": ["default"],
                    "input": { "description": "d", "command": "ls" }, "input_bytes": 34, "outcome": "failed",
                    "result": recorded[3]["result"], "result_bytes": recorded[3]["result_bytes"],
                }),
                json!({
                    "id": 5, "session": "one", "family": "workspace", "tool": "workspace__a__ls",
                    "sandboxes": recorded[4]["sandboxes"], "input": {}, "input_bytes": 2, "outcome": "ok",
                    "result": recorded[4]["result"], "result_bytes": recorded[4]["result_bytes"],
                }),
            ]
        );
        assert!(recorded[4]["sandboxes"][0].is_string(), "{}", recorded[4]);
        assert!(recorded[1]["result"].as_str().unwrap().contains("`other`"), "{}", recorded[1]);
        let serialized = serde_json::to_string(&memory.calls()[0]).unwrap();
        let read: CallRecord = serde_json::from_str(&serialized).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), serialized);
    }

    #[test]
    fn secrets_in_results_are_masked() {
        let (memory, session) = session(JournalSettings::default());
        call(&session, "agent", "write_file", json!({ "path": "f", "content": "a declared-secret" }));
        assert!(!call(&session, "agent", "read_file", json!({ "path": "f" })).is_error);
        let record = serde_json::to_string(&memory.calls()[1]).unwrap();
        assert!(record.contains("a [secret API_KEY]") && !record.contains("declared-secret"), "{record}");
    }

    #[test]
    fn settings_and_hosts_leave_calls_out() {
        let (memory, without) = session(JournalSettings { enabled: true, inputs: false, results: false });
        call(&without, "agent", "sandbox_list", json!({}));
        let record = &memory.calls()[0];
        assert!(record.input.is_none() && record.result.is_none() && record.input_bytes == 2);
        call(&without.without_journal(), "agent", "sandbox_list", json!({}));
        assert_eq!(memory.calls().len(), 1);
        let (memory, off) = session(JournalSettings { enabled: false, ..JournalSettings::default() });
        call(&off, "agent", "sandbox_list", json!({}));
        assert!(memory.calls().is_empty());
    }

    #[test]
    fn a_dropped_call_was_canceled() {
        let (memory, session) = session(JournalSettings::default());
        let recording = Recording::start(&session, Some(Family::Agent), "shell", &json!({}).into()).unwrap();
        let name = SandboxName::new("a").unwrap();
        pollster::block_on(recording.session().find_sandbox(&name)).unwrap();
        drop(recording);
        let record = &memory.calls()[0];
        assert_eq!((&*record.outcome, &record.sandboxes[..]), (CANCELED, &["a".to_owned()][..]));
    }

    #[test]
    fn long_names_are_truncated() {
        let (memory, session) = session(JournalSettings::default());
        call(&session.with_client(&"c".repeat(300)), "agent", &"t".repeat(300), json!({}));
        let record = &memory.calls()[0];
        assert_eq!(record.tool.chars().count(), 101);
        assert_eq!(record.client.as_ref().unwrap().chars().count(), 101);
    }
}
