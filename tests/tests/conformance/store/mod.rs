//! The store of a session on the providers of this machine.

mod cases;

use self::cases::check;
use koze_core::provider::memory::Memory;
use koze_core::{Provider, SessionId};
use libtest_mimic::{Failed, Trial};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = vec![Trial::test("stores_follow_their_contract", memory).with_kind("memory")];
    #[cfg(target_os = "linux")]
    trials.extend([
        Trial::test("stores_follow_their_contract", local::promises).with_kind("local"),
        Trial::test("stores_survive_a_restart", local::restart).with_kind("local"),
        Trial::test("stores_of_two_programs_are_one", local::programs).with_kind("local"),
    ]);
    trials
}

fn memory() -> Result<(), Failed> {
    Ok(pollster::block_on(stores(&Memory::new()))?)
}

async fn stores<P: Provider>(provider: &P) -> koze_core::Result<()> {
    let store = |session| provider.store(&SessionId::new("tenant", session)?);
    check(&store("a")?, &store("b")?).await?;
    // A tenant's session of the same name has a store of its own.
    check(&provider.store(&SessionId::new("tenant", "c")?)?, &provider.store(&SessionId::new("other", "c")?)?)
        .await
        .map(drop)
}

#[cfg(target_os = "linux")]
mod local {
    use fs_err as fs;
    use futures_util::{StreamExt, stream};
    use koze_core::store::{Expected, Key, Store};
    use koze_core::{Provider, SessionId};
    use koze_local::{Local, LocalStore};
    use libtest_mimic::Failed;
    use tempfile::TempDir;

    fn store(local: &Local) -> koze_core::Result<LocalStore> {
        local.store(&SessionId::new("tenant", "session")?)
    }

    pub(super) fn promises() -> Result<(), Failed> {
        let state = TempDir::new()?;
        pollster::block_on(super::stores(&Local::new(state.path())?))?;
        let left: Vec<_> = fs::read_dir(state.path().join("blobs"))?.collect();
        assert!(left.is_empty(), "deleted and failed blobs leave files: {left:?}");
        Ok(())
    }

    pub(super) fn restart() -> Result<(), Failed> {
        let state = TempDir::new()?;
        let key = Key::new("key")?;
        pollster::block_on(async {
            let local = Local::new(state.path())?;
            let store = store(&local)?;
            store.put(&key, b"value".to_vec(), Expected::Any).await?;
            store.put_blob(&key, stream::iter([Ok(b"blob".to_vec())])).await
        })?;
        // What a program leaves that is killed while it writes a blob.
        let left = state.path().join("blobs/00000000000000000000000000000000");
        fs::write(&left, "half")?;
        pollster::block_on(async {
            let local = Local::new(state.path())?;
            let store = store(&local)?;
            assert_eq!(store.get(&key).await?.expect("it stays").bytes, b"value");
            assert_eq!(store.read_blob(&key, 0, 10).await?.expect("it stays").bytes, b"blob");
            koze_core::Result::Ok(())
        })?;
        assert!(!left.exists(), "what was left is deleted");
        Ok(())
    }

    /// Two providers of one state directory stand for two programs.
    pub(super) fn programs() -> Result<(), Failed> {
        let state = TempDir::new()?;
        let (one, two) = (Local::new(state.path())?, Local::new(state.path())?);
        let key = Key::new("key")?;
        pollster::block_on(async {
            let one = store(&one)?;
            let version = one.put(&key, b"1".to_vec(), Expected::Absent).await?.expect("it is absent");
            // The other program starts to use its store while a blob is written, and must not delete that.
            let other = two.clone();
            let beside = stream::once(async move {
                let two = store(&other)?;
                assert_eq!(two.put(&Key::new("key")?, b"2".to_vec(), Expected::Absent).await?, None);
                Ok(b"first ".to_vec())
            });
            let content = beside.chain(stream::iter([Ok(b"second".to_vec())]));
            one.put_blob(&key, content.boxed()).await?;
            let two = store(&two)?;
            assert_eq!(two.read_blob(&key, 0, 100).await?.expect("it is there").bytes, b"first second");
            assert!(two.put(&key, b"2".to_vec(), Expected::Version(version)).await?.is_some());
            assert_eq!(one.get(&key).await?.expect("it is there").bytes, b"2");
            assert!(two.delete_blob(&key).await?);
            assert_eq!(one.read_blob(&key, 0, 100).await?, None);
            koze_core::Result::Ok(())
        })?;
        Ok(())
    }
}
