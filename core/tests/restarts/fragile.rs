//! A sandbox in memory whose container restarts at a chosen call, and loses all files.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use koze_core::provider::memory::{MemoryProcess, MemorySandbox};
use koze_core::sandbox::{
    Capabilities, Change, Command, Edit, Edited, Entry, LineRange, Lines, Output, Piece, Place, ProcessId,
    ProcessInfo, Program, Sandbox, Stat, Status, Write,
};
use koze_core::{Code, Result};

/// A sandbox that restarts once.
#[derive(Clone)]
pub(crate) struct Fragile {
    memory: MemorySandbox,
    /// How many calls come before the restart.
    left: Arc<AtomicUsize>,
    /// Whether the guest is older than [`Write::At`], and appends to whatever is there.
    is_old: bool,
    /// Whether something was renamed before the restart.
    pub(crate) renamed: Arc<AtomicBool>,
    pub(crate) restarted: Arc<AtomicBool>,
    /// A file of the image, which a new container has.
    pub(crate) image: Option<(&'static str, Vec<u8>)>,
}

impl Fragile {
    pub(crate) fn new(memory: MemorySandbox, calls: usize, is_old: bool) -> Self {
        let left = Arc::new(AtomicUsize::new(calls));
        Fragile { memory, left, is_old, renamed: Arc::default(), restarted: Arc::default(), image: None }
    }

    /// Counts a call, before which the container may restart.
    async fn call(&self) -> &MemorySandbox {
        let left = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if left == Err(0) && !self.restarted.swap(true, Ordering::SeqCst) {
            for dir in ["/tmp", "/workspace"] {
                for Entry { name, .. } in self.memory.list(at(dir)).await.unwrap() {
                    self.memory.remove(at(&format!("{dir}/{name}"))).await.unwrap();
                }
            }
            if let Some((path, content)) = self.image.clone() {
                self.memory.write(at(path), content, Write::Replace).await.unwrap();
            }
        }
        &self.memory
    }
}

fn at(path: &str) -> Place<'_> {
    Place { root: "/", path }
}

impl Sandbox for Fragile {
    type Process = MemoryProcess;

    fn capabilities(&self) -> Capabilities {
        self.memory.capabilities()
    }

    async fn exec(&self, command: Command) -> Result<Output> {
        self.memory.exec(command).await
    }

    async fn start(&self, program: Program) -> Result<MemoryProcess> {
        self.memory.start(program).await
    }

    async fn process(&self, id: &ProcessId) -> Result<Option<MemoryProcess>> {
        self.memory.process(id).await
    }

    async fn processes(&self) -> Result<Vec<ProcessInfo>> {
        self.memory.processes().await
    }

    async fn read(&self, path: Place<'_>, offset: u64, limit: u64) -> Result<Piece> {
        self.call().await.read(path, offset, limit).await
    }

    async fn write(&self, path: Place<'_>, bytes: Vec<u8>, how: Write) -> Result<u64> {
        let is_offset = matches!(how, Write::At(_));
        let how = if is_offset && self.is_old { Write::Append } else { how };
        self.call().await.write(path, bytes, how).await
    }

    async fn edit(&self, path: Place<'_>, edit: &Edit) -> Result<Edited> {
        self.call().await.edit(path, edit).await
    }

    async fn read_lines(&self, path: Place<'_>, range: LineRange) -> Result<Lines> {
        self.call().await.read_lines(path, range).await
    }

    async fn list(&self, path: Place<'_>) -> Result<Vec<Entry>> {
        self.call().await.list(path).await
    }

    async fn stat(&self, path: Place<'_>) -> Result<Stat> {
        self.call().await.stat(path).await
    }

    async fn change(&self, change: Change) -> Result<()> {
        let is_rename = matches!(change, Change::Rename { .. });
        let changed = self.call().await.change(change).await;
        if is_rename {
            let is_missing = matches!(&changed, Err(error) if error.code == Code::NotFound);
            assert!(changed.is_ok() || is_missing, "{changed:?}");
            self.renamed.store(changed.is_ok(), Ordering::SeqCst);
        }
        changed
    }

    async fn expose(&self, port: u16) -> Result<String> {
        self.memory.expose(port).await
    }

    async fn status(&self) -> Result<Status> {
        self.memory.status().await
    }

    async fn destroy(&self) -> Result<()> {
        self.memory.destroy().await
    }
}
