//! Sandboxes that keep files in memory, for tests. They cannot run programs.

mod process;
#[cfg(feature = "script-engine")]
mod script;
mod store;
mod tree;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use self::process::MemoryProcess;
pub use self::store::MemoryStore;
use self::tree::Tree;
use super::{Info, Opened, Provider, ScriptProvider, Settings};
use crate::error::{Code, Error, Result};
use crate::id::{SandboxId, SessionId};
use crate::journal::{CallRecord, UnmaskedCall};
use crate::sandbox::{
    Capabilities, Change, Command, Edit, Edited, Entry, LineRange, Lines, Output, Piece, Place, ProcessId,
    ProcessInfo, Program, Sandbox, Stat, Status, Write,
};
use crate::script::Secrets;
#[cfg(feature = "script-engine")]
use crate::script::{Calls, Check, Failure, NoCalls, Ran, Start};
use crate::workspace::OpenLimits;

/// A provider of sandboxes in memory. A clone shares them.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    sandboxes: Arc<Mutex<BTreeMap<SandboxId, Known>>>,
    stores: Arc<Mutex<BTreeMap<SessionId, MemoryStore>>>,
    opens: OpenLimits,
    calls: Arc<Mutex<VecDeque<CallRecord>>>,
}

/// How many calls the journal keeps.
const MAX_CALLS: usize = 1000;

#[derive(Debug, Clone)]
struct Known {
    profile: String,
    size: Option<String>,
    tree: Arc<Mutex<Tree>>,
}

/// A sandbox in memory with at most 16 MiB of files.
#[derive(Debug, Clone)]
pub struct MemorySandbox {
    id: SandboxId,
    tree: Arc<Mutex<Tree>>,
    provider: Memory,
}

impl Memory {
    /// Creates a provider without sandboxes.
    pub fn new() -> Self {
        Memory::default()
    }

    /// Sets how many workspaces of all sessions are opened at the same time.
    #[must_use]
    pub fn with_max_opens(self, opens: usize) -> Self {
        Memory { opens: OpenLimits::new(opens), ..self }
    }

    /// Returns the recorded tool calls of all sessions, oldest first.
    pub fn calls(&self) -> Vec<CallRecord> {
        lock(&self.calls).iter().cloned().collect()
    }
}

impl Provider for Memory {
    type Sandbox = MemorySandbox;
    type Store = MemoryStore;

    fn open_limits(&self) -> &OpenLimits {
        &self.opens
    }

    fn has_journal(&self) -> bool {
        true
    }

    fn record_call(&self, _: &SessionId, call: UnmaskedCall) {
        let mut record = call.mask(Some(&Secrets::default()));
        let mut calls = lock(&self.calls);
        record.id = calls.back().map_or(1, |last| last.id + 1);
        if calls.len() == MAX_CALLS {
            calls.pop_front();
        }
        calls.push_back(record);
    }

    async fn open(&self, id: &SandboxId, settings: &Settings) -> Result<Opened<MemorySandbox>> {
        let mut sandboxes = lock(&self.sandboxes);
        let created = !sandboxes.contains_key(id);
        let known = sandboxes.entry(id.clone()).or_insert_with(|| Known {
            profile: settings.profile.name.clone(),
            size: settings.size.clone(),
            tree: Arc::new(Mutex::new(Tree::new())),
        });
        let sandbox = MemorySandbox { id: id.clone(), tree: known.tree.clone(), provider: self.clone() };
        Ok(Opened { sandbox, profile: known.profile.clone(), size: known.size.clone(), created })
    }

    async fn find(&self, id: &SandboxId) -> Result<Option<Opened<MemorySandbox>>> {
        let sandboxes = lock(&self.sandboxes);
        Ok(sandboxes.get(id).map(|known| Opened {
            sandbox: MemorySandbox { id: id.clone(), tree: known.tree.clone(), provider: self.clone() },
            profile: known.profile.clone(),
            size: known.size.clone(),
            created: false,
        }))
    }

    async fn list(&self, session: &SessionId) -> Result<Vec<Info>> {
        let sandboxes = lock(&self.sandboxes);
        let ours = sandboxes.iter().filter(|(id, _)| id.session == *session);
        let info = |(id, known): (&SandboxId, &Known)| Info {
            name: id.name.clone(),
            profile: known.profile.clone(),
            status: Status::Running,
            saved: None,
        };
        Ok(ours.map(info).collect())
    }

    fn store(&self, session: &SessionId) -> Result<MemoryStore> {
        Ok(lock(&self.stores).entry(session.clone()).or_default().clone())
    }
}

impl ScriptProvider for Memory {
    #[cfg(feature = "script-engine")]
    async fn run_script(&self, _: &SessionId, start: Start, calls: &impl Calls) -> Result<Ran> {
        script::run_to_end(koze_script::protocol::ToScript::Start(start), calls).await
    }

    #[cfg(feature = "script-engine")]
    async fn check_script(&self, _: &SessionId, check: Check) -> Result<std::result::Result<(), Failure>> {
        let ran = script::run_to_end(koze_script::protocol::ToScript::Check(check), &NoCalls).await?;
        Ok(ran.result.map(drop))
    }
}

impl Sandbox for MemorySandbox {
    type Process = MemoryProcess;

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    async fn exec(&self, _: Command) -> Result<Output> {
        Err(unsupported_error("run programs"))
    }

    async fn start(&self, _: Program) -> Result<MemoryProcess> {
        Err(unsupported_error("run programs"))
    }

    async fn process(&self, _: &ProcessId) -> Result<Option<MemoryProcess>> {
        Err(unsupported_error("run programs"))
    }

    async fn processes(&self) -> Result<Vec<ProcessInfo>> {
        Err(unsupported_error("run programs"))
    }

    async fn read(&self, path: Place<'_>, offset: u64, limit: u64) -> Result<Piece> {
        lock(&self.tree).read(path, offset, limit)
    }

    async fn write(&self, path: Place<'_>, bytes: Vec<u8>, how: Write) -> Result<u64> {
        lock(&self.tree).write(path, &bytes, how)
    }

    async fn edit(&self, path: Place<'_>, edit: &Edit) -> Result<Edited> {
        lock(&self.tree).edit(path, edit)
    }

    async fn read_lines(&self, path: Place<'_>, range: LineRange) -> Result<Lines> {
        lock(&self.tree).read_lines(path, range)
    }

    async fn list(&self, path: Place<'_>) -> Result<Vec<Entry>> {
        lock(&self.tree).list(path)
    }

    async fn stat(&self, path: Place<'_>) -> Result<Stat> {
        lock(&self.tree).stat(path)
    }

    async fn change(&self, change: Change) -> Result<()> {
        lock(&self.tree).apply_change(&change)
    }

    async fn expose(&self, _: u16) -> Result<String> {
        Err(unsupported_error("expose ports"))
    }

    async fn status(&self) -> Result<Status> {
        Ok(Status::Running)
    }

    async fn destroy(&self) -> Result<()> {
        lock(&self.provider.sandboxes).remove(&self.id);
        *lock(&self.tree) = Tree::new();
        Ok(())
    }
}

fn unsupported_error(what: &str) -> Error {
    Error::new(Code::Unsupported, format!("a sandbox in memory cannot {what}: use another provider"))
}

/// Ignores poisoning: a panic in another test does not affect the data.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
