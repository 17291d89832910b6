//! The routes `sessions`, `usage` and `egress`: what only this machine knows. They start nothing.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use hyper::StatusCode;
use koze_core::http::{
    EgressEntry, EgressList, Query, SandboxUsage, SessionEntry, SessionList, SessionSandbox, UsageList,
    egress_limit,
};
use koze_core::{Code, Error, Result};
use serde::Serialize;

use super::answer::{Answer, json_text};
use super::tenants::Tenant;
use crate::mcp::supervised::Supervised;
use crate::provider::{self, Measured, Reached, SessionCalls, Surveyed};
use crate::session::State;

/// Lists the sessions of a tenant.
pub(super) async fn list_sessions(tenant: &Tenant) -> Result<Answer> {
    let (state, only) = tenant.served_sessions();
    let (state, only) = (state.clone(), only.map(str::to_owned));
    let mut sessions = run_blocking(move || collect_sessions(&state)).await?;
    sessions.retain(|session| only.as_ref().is_none_or(|only| *only == session.name));
    Ok(answer(&SessionList { sessions }))
}

/// Returns the newest entries of a session's egress journal.
pub(super) async fn read_egress(backend: &Supervised, query: &Query) -> Result<Answer> {
    let limit = egress_limit(query)?;
    let session = backend.client().session().clone();
    let dir = backend.client().state().sandboxes(&session);
    let read = move || if dir.is_dir() { provider::read_egress(&dir) } else { Ok(Vec::new()) };
    let mut entries = run_blocking(read).await?;
    entries.retain(|entry| entry.session == session.session());
    let newest = entries.split_off(entries.len().saturating_sub(limit));
    Ok(answer(&EgressList { egress: newest.into_iter().map(egress_entry).collect() }))
}

/// Returns what the sandboxes of a session use. Measuring starts nothing, and keeps no sandbox awake.
pub(super) async fn read_usage(backend: &Supervised) -> Result<Answer> {
    let measured = backend.client().measure().await?;
    let mut usage: Vec<_> = measured.into_iter().map(to_usage).collect();
    usage.sort_by(|one, other| one.sandbox.cmp(&other.sandbox));
    Ok(answer(&UsageList { usage }))
}

fn to_usage(measured: Measured) -> SandboxUsage {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    SandboxUsage {
        sandbox: measured.name,
        memory_bytes: measured.memory,
        processor_ms: measured.processor_time.map(millis),
        disk_bytes: measured.disk,
    }
}

fn collect_sessions(state: &State) -> Result<Vec<SessionEntry>> {
    let mut sessions = BTreeMap::new();
    for dir in state.sessions()? {
        add_sandboxes(&mut sessions, &dir)?;
    }
    for SessionCalls { session, count, last } in provider::count_calls(&state.journal())? {
        let entry = find_or_add(&mut sessions, &session);
        (entry.calls, entry.last_call) = (count, last);
    }
    Ok(sessions.into_values().collect())
}

fn add_sandboxes(sessions: &mut BTreeMap<String, SessionEntry>, dir: &Path) -> Result<()> {
    for sandbox in provider::survey_sandboxes(dir)? {
        let session = find_or_add(sessions, sandbox.id.session.session());
        session.sandboxes.push(session_sandbox(sandbox));
        session.sandboxes.sort_by(|one, other| one.name.cmp(&other.name));
    }
    Ok(())
}

fn find_or_add<'a>(sessions: &'a mut BTreeMap<String, SessionEntry>, name: &str) -> &'a mut SessionEntry {
    let new = || SessionEntry { name: name.to_owned(), ..SessionEntry::default() };
    sessions.entry(name.to_owned()).or_insert_with(new)
}

fn session_sandbox(sandbox: Surveyed) -> SessionSandbox {
    let millis = |seconds: i64| seconds.saturating_mul(1000);
    SessionSandbox {
        name: sandbox.id.name.to_string(),
        image: sandbox.settings.profile.name,
        status: sandbox.status,
        created: sandbox.created.map(millis),
        used: millis(sandbox.used),
    }
}

fn egress_entry(entry: Reached) -> EgressEntry {
    EgressEntry {
        requested_within: entry.sni.clone().filter(|_| entry.is_fronted()),
        time: entry.time,
        sandbox: entry.sandbox,
        host: entry.host,
        port: entry.port,
        address: entry.address.map(|address| address.to_string()),
        allowed: entry.allowed,
        rule: entry.rule,
    }
}

async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        Error::new(Code::Internal, "the state directory cannot be read").with_source(error)
    })?
}

fn answer(body: &impl Serialize) -> Answer {
    json_text(StatusCode::OK, serde_json::to_vec(body).expect("a list is plain data"))
}
