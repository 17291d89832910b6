//! What is left after a store fails, a program is killed, or a call is dropped.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::{TryStreamExt as _, stream};
use koze_core::id::{SandboxId, SandboxName};
use koze_core::provider::Settings;
use koze_core::provider::memory::Memory;
use koze_core::store::{Expected, Key, Range, Store};
use koze_core::workspace::SnapshotConfig;
use koze_core::{Code, Provider};

use crate::faulty::{Faulty, broken};
use crate::{blobs, config, fill, names, open, run, sandbox, session, tree, write};

#[test]
fn a_store_that_fails_leaves_nothing_half() {
    run(async {
        let provider = Faulty::default();
        let session = session(provider.clone(), "a", &config(SnapshotConfig::default()));
        let workspace = open(&session).await;
        let original = sandbox(&session, "box").await;
        fill(&original).await;
        let before = tree(&original, "/workspace").await;
        let snapshots = workspace.snapshot().unwrap();
        let store = session.store().unwrap();

        provider.faults.writes.store(1_000_000, Ordering::SeqCst);
        let failed = snapshots.create().await.unwrap_err();
        assert_eq!(failed, broken());
        provider.faults.writes.store(0, Ordering::SeqCst);
        *provider.faults.read_only.lock().unwrap() = true;
        assert_eq!(snapshots.create().await.unwrap_err(), broken(), "it cannot be listed");
        *provider.faults.read_only.lock().unwrap() = false;
        assert_eq!((snapshots.list().await.unwrap(), blobs(&store).await), (Vec::new(), 0));

        let taken = snapshots.create().await.unwrap();
        provider.faults.reads.store(1_000_000, Ordering::SeqCst);
        assert_eq!(snapshots.restore(&taken.id, None).await.unwrap_err(), broken());
        provider.faults.reads.store(0, Ordering::SeqCst);
        for wrong in [5, 13, 1000, taken.archive_bytes / 2, taken.archive_bytes - 1] {
            *provider.faults.wrong.lock().unwrap() = Some(wrong);
            let damaged = snapshots.restore(&taken.id, None).await.unwrap_err();
            assert!(damaged.message.contains("damaged"), "{wrong}: {damaged}");
            let export = snapshots.export(&taken.id).await.unwrap().try_collect::<Vec<_>>().await;
            assert_eq!(export.unwrap_err().code, Code::InvalidInput);
        }
        *provider.faults.wrong.lock().unwrap() = None;
        assert_eq!(names(&session).await, ["box"], "what was half restored is destroyed");
        assert_eq!(store.list(&Range::of("workspace/derived/")).await.unwrap(), []);
        assert_eq!(tree(&original, "/workspace").await, before);
        snapshots.restore(&taken.id, None).await.unwrap();
    });
}

#[test]
fn what_a_killed_program_has_left_is_removed() {
    run(async {
        let session = session(Memory::new(), "a", &config(SnapshotConfig::default()));
        let workspace = open(&session).await;
        write(&workspace, "a", b"a").await;
        let snapshots = workspace.snapshot().unwrap();
        let taken = snapshots.create().await.unwrap();
        let store = session.store().unwrap();
        let content = |bytes: &[u8]| stream::iter([Ok(bytes.to_vec())]);
        // An archive that is not listed: one of long ago, and one that may still be added.
        let key = |created: u64| {
            Key::new(format!("workspace/snapshots/{created:012x}-snap_{}", "0".repeat(32))).unwrap()
        };
        store.put_blob(&key(1), content(b"old")).await.unwrap();
        store.put_blob(&key(taken.created), content(b"new")).await.unwrap();
        // Sandboxes that are not complete: one that nobody works on, and one that somebody does.
        for (name, written) in [("box-restored-0000", 1), ("box-restored-1111", taken.created)] {
            let id = SandboxId { session: session.id().clone(), name: SandboxName::new(name).unwrap() };
            let profile = session.profiles().default_profile().clone();
            let settings = Settings { profile, sleep_after: Duration::from_mins(1), size: None };
            session.provider().open(&id, &settings).await.unwrap();
            let record = serde_json::json!({
                "workspace": "box", "snapshot": taken.id, "complete": false, "written": written,
            });
            let key = Key::new(format!("workspace/derived/{name}")).unwrap();
            store.put(&key, record.to_string().into_bytes(), Expected::Absent).await.unwrap();
            let half = session.workspaces().restored("box", name).await.unwrap_err();
            assert_eq!(half.error.code, Code::NotFound, "what is half is not handed out");
        }
        snapshots.create().await.unwrap();
        assert_eq!(snapshots.list().await.unwrap().len(), 2);
        assert_eq!(blobs(&store).await, 3);
        assert_eq!(names(&session).await, ["box", "box-restored-1111"]);
    });
}

#[test]
fn a_call_that_is_dropped_leaves_nothing() {
    run(async {
        let provider = Faulty::default();
        let session = session(provider.clone(), "a", &config(SnapshotConfig::default()));
        let workspace = open(&session).await;
        fill(&sandbox(&session, "box").await).await;
        let snapshots = workspace.snapshot().unwrap();
        let taken = snapshots.create().await.unwrap();
        let store = session.store().unwrap();
        let soon = Duration::from_millis(50);
        *provider.faults.hangs.lock().unwrap() = true;

        // What is dropped is cleaned up in the background.
        *provider.faults.read_only.lock().unwrap() = true;
        let create = tokio::time::timeout(soon, snapshots.create());
        assert!(create.await.is_err(), "it hangs before it is listed");
        while blobs(&store).await > 1 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        *provider.faults.read_only.lock().unwrap() = false;
        provider.faults.reads.store(1_000_000, Ordering::SeqCst);
        let restore = tokio::time::timeout(soon, snapshots.restore(&taken.id, None));
        assert!(restore.await.is_err(), "it hangs in the middle");
        while names(&session).await.len() > 1
            || !store.list(&Range::of("workspace/derived/")).await.unwrap().is_empty()
        {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(snapshots.list().await.unwrap(), [taken]);
    });
}
