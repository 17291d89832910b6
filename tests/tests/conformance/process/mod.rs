//! Processes on the providers of this machine.

mod cases;

use koze_core::provider::memory::Memory;
use koze_core::provider::{Profile, Settings, Size};
use koze_core::sandbox::ProcessId;
use koze_core::session::SLEEP_AFTER;
use koze_core::{Code, Provider, Sandbox, SandboxId, SandboxName, SessionId};
use libtest_mimic::{Failed, Trial};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = vec![Trial::test("processes_are_unsupported", memory).with_kind("memory")];
    #[cfg(target_os = "linux")]
    trials.push(Trial::test("processes_do_what_they_promise", local).with_kind("local"));
    #[cfg(target_os = "linux")]
    if crate::engine::can_run() {
        trials.push(Trial::test("processes_do_what_they_promise", engine).with_kind("engine"));
    }
    trials
}

async fn open<P: Provider>(provider: &P) -> koze_core::Result<P::Sandbox> {
    open_on(provider, None).await
}

/// Opens a sandbox on an image of the provider's store.
async fn open_on<P: Provider>(provider: &P, stored: Option<String>) -> koze_core::Result<P::Sandbox> {
    let id = SandboxId { session: SessionId::new("tenant", "session")?, name: SandboxName::new("a")? };
    let size = Size { memory_mib: 256, disk_mb: 200 };
    let profile = Profile { stored, ..Profile::new("shell", "image", size) };
    Ok(provider.open(&id, &Settings { profile, sleep_after: SLEEP_AFTER, size: None }).await?.sandbox)
}

fn memory() -> Result<(), Failed> {
    let code = |error: koze_core::Error| error.code;
    pollster::block_on(async {
        let sandbox = open(&Memory::new()).await?;
        assert_eq!(sandbox.start(cases::sh("true")).await.map(drop).map_err(code), Err(Code::Unsupported));
        let found = sandbox.process(&ProcessId::random()).await;
        assert_eq!(found.map(drop).map_err(code), Err(Code::Unsupported));
        assert_eq!(sandbox.processes().await.map_err(code), Err(Code::Unsupported));
        Ok(())
    })
}

#[cfg(target_os = "linux")]
fn local() -> Result<(), Failed> {
    let state = tempfile::TempDir::new()?;
    pollster::block_on(async {
        let provider = koze_local::Local::new(state.path())?;
        assert_eq!(cases::check(&open(&provider).await?).await?, 16);
        Ok(())
    })
}

#[cfg(target_os = "linux")]
fn engine() -> Result<(), Failed> {
    let state = tempfile::TempDir::new()?;
    pollster::block_on(async {
        let provider = crate::in_process::open_engine(state.path());
        let sandbox = open_on(&provider, Some(crate::in_process::engine_image())).await?;
        assert_eq!(cases::check(&sandbox).await?, 16);
        Ok(sandbox.destroy().await?)
    })
}
