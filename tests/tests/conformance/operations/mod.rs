//! The operations `edit` and `read_lines` on the providers of this machine.

mod cases;

use self::cases::check;
use koze_core::provider::memory::Memory;
use koze_core::provider::{Profile, Settings, Size};
use koze_core::session::SLEEP_AFTER;
use koze_core::{Provider, SandboxId, SandboxName, SessionId};
use libtest_mimic::{Failed, Trial};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = vec![Trial::test("edits_and_lines", memory).with_kind("memory")];
    #[cfg(target_os = "linux")]
    trials.extend([
        Trial::test("edits_and_lines", local::promises).with_kind("local"),
        Trial::test("lines_of_a_large_file", local::large).with_kind("local"),
    ]);
    trials
}

fn memory() -> Result<(), Failed> {
    Ok(pollster::block_on(operations(&Memory::new()))?)
}

async fn operations<P: Provider>(provider: &P) -> koze_core::Result<()> {
    let large = Size { memory_mib: 1024, disk_mb: 4000 };
    check(&open(provider, large).await?).await.map(drop)
}

async fn open<P: Provider>(provider: &P, size: Size) -> koze_core::Result<P::Sandbox> {
    let id = SandboxId { session: SessionId::new("tenant", "session")?, name: SandboxName::new("one")? };
    let settings =
        Settings { profile: Profile::new("shell", "image", size), sleep_after: SLEEP_AFTER, size: None };
    Ok(provider.open(&id, &settings).await?.sandbox)
}

#[cfg(target_os = "linux")]
mod local {
    use std::time::Duration;

    use koze_core::provider::Size;
    use koze_core::sandbox::{Command, LineRange, Lines, Place};
    use koze_core::{Code, Sandbox};
    use koze_local::Local;
    use libtest_mimic::Failed;
    use tempfile::TempDir;

    pub(super) fn promises() -> Result<(), Failed> {
        let state = TempDir::new()?;
        Ok(pollster::block_on(super::operations(&Local::new(state.path())?))?)
    }

    /// Only the start of a file of 1 TiB is read, and none of it is edited.
    pub(super) fn large() -> Result<(), Failed> {
        let state = TempDir::new()?;
        let local = Local::new(state.path())?;
        let (lines, error) = pollster::block_on(async {
            let sandbox = super::open(&local, Size { memory_mib: 1024, disk_mb: 2_000_000 }).await?;
            let script = "printf 'one\\ntwo\\n' > large && truncate -s 1T large";
            let command = Command {
                argv: ["bash", "-c", script].map(str::to_owned).to_vec(),
                working_dir: "/workspace".to_owned(),
                env: Vec::new(),
                timeout: Duration::from_mins(1),
                max_output: 1000,
            };
            let output = sandbox.exec(command).await?;
            assert_eq!(output.exit_code, 0, "{output:?}");
            let place = Place { root: "/", path: "/workspace/large" };
            let range = LineRange { first: 2, last: Some(2), max_chars: 10, verbatim: false };
            let lines = sandbox.read_lines(place, range).await?;
            let edit = super::cases::edit(b"one", b"1", false);
            let error = sandbox.edit(place, &edit).await.expect_err("it is too large");
            koze_core::Result::Ok((lines, error))
        })?;
        let text = "two".to_owned();
        assert_eq!(lines, Lines { text, chars: 3, past_end: false, binary: false, size: 1 << 40 });
        assert_eq!(error.code, Code::TooLarge);
        Ok(())
    }
}
