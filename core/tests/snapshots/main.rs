//! Snapshots of workspaces in memory: what survives, what is refused, and that nothing half is ever listed.

mod failures;
mod faulty;
mod hostile;

use std::time::Duration;

use futures_util::{TryStreamExt as _, stream};
use koze_core::id::{SandboxId, SandboxName};
use koze_core::path::anywhere;
use koze_core::provider::memory::Memory;
use koze_core::provider::{Profile, Size};
use koze_core::sandbox::{Kind, Sandbox, Write};
use koze_core::store::{Range, Store};
use koze_core::tool::Family;
use koze_core::workspace::{Capability, Snapshot, SnapshotConfig, SnapshotId, Workspace, WorkspaceConfig};
use koze_core::{Code, Profiles, Provider, Result, Session, SessionId};

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(work)
}

fn config(snapshot: SnapshotConfig) -> WorkspaceConfig {
    WorkspaceConfig { snapshot: Some(snapshot), ..WorkspaceConfig::new("box") }
}

fn session<P: Provider>(provider: P, name: &str, config: &WorkspaceConfig) -> Session<P> {
    let profile = Profile {
        tools: vec![Family::Workspace],
        workspace: Some(config.clone()),
        ..Profile::new(&config.name, "debian", Size { memory_mib: 1, disk_mb: 1 })
    };
    let profiles = Profiles::new(vec![profile], &config.name).unwrap();
    Session::new(provider, SessionId::new("tenant", name).unwrap(), profiles)
}

async fn open<P: Provider>(session: &Session<P>) -> Workspace<P::Sandbox> {
    session.workspaces().get("box").await.unwrap()
}

async fn write<S: Sandbox>(workspace: &Workspace<S>, path: &str, content: &[u8]) {
    workspace.fs().unwrap().write(path, content.to_vec()).await.unwrap();
}

async fn names<P: Provider>(session: &Session<P>) -> Vec<String> {
    session.list().await.unwrap().into_iter().map(|info| info.name.to_string()).collect()
}

async fn blobs(store: &impl Store) -> usize {
    store.list_blobs(&Range::of("")).await.unwrap().len()
}

/// Returns everything below a directory: paths, kinds with link targets, modes and contents.
async fn tree<S: Sandbox>(sandbox: &S, dir: &str) -> Vec<(String, Kind, u32, Vec<u8>)> {
    let (mut tree, mut left) = (Vec::new(), vec![dir.to_owned()]);
    while let Some(dir) = left.pop() {
        for entry in sandbox.list(anywhere(&dir)).await.unwrap() {
            let path = format!("{dir}/{}", entry.name);
            let content = match entry.stat.kind {
                Kind::File => sandbox.read(anywhere(&path), 0, u64::MAX).await.unwrap().bytes,
                _ => Vec::new(),
            };
            if entry.stat.kind == Kind::Directory {
                left.push(path.clone());
            }
            tree.push((path, entry.stat.kind, entry.stat.mode, content));
        }
    }
    tree.sort_by(|one, other| one.0.cmp(&other.0));
    tree
}

async fn sandbox<P: Provider>(session: &Session<P>, name: &str) -> P::Sandbox {
    let id = SandboxId { session: session.id().clone(), name: SandboxName::new(name).unwrap() };
    session.provider().find(&id).await.unwrap().unwrap().sandbox
}

/// Fills a workspace with what archives like to lose.
async fn fill<S: Sandbox>(sandbox: &S) {
    let mut seed = 1_u32;
    let random = |_| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        seed.to_be_bytes()[0]
    };
    let large: Vec<u8> = (0..3_000_001).map(random).collect();
    let mut sparse = vec![0; 1_500_000];
    sparse.extend(b"end");
    let long = format!("deep/{}/{}", "ä".repeat(100), "b".repeat(200));
    for (path, content, mode) in [
        ("empty file", Vec::new(), 0o600),
        ("日本語/\u{1f980}.txt", b"crab".to_vec(), 0o644),
        ("run.sh", b"#!/bin/sh\n".to_vec(), 0o755),
        ("large", large, 0o640),
        ("sparse", sparse, 0o644),
        (&long, b"long".to_vec(), 0o400),
        ("lines\n\"and\\quotes", b"x".to_vec(), 0o644),
    ] {
        let path = format!("/workspace/{path}");
        sandbox.write(anywhere(&path), content, Write::Replace).await.unwrap();
        sandbox.set_mode(anywhere(&path), mode).await.unwrap();
    }
    for number in 0..40 {
        let path = format!("/workspace/many/{number}");
        sandbox.write(anywhere(&path), vec![number; 100], Write::Replace).await.unwrap();
    }
    sandbox.make_dir(anywhere("/workspace/empty/dir")).await.unwrap();
    sandbox.set_mode(anywhere("/workspace/empty"), 0o500).await.unwrap();
    let target = "t".repeat(300);
    for (path, target) in [("link", "run.sh"), ("outside", "/etc/passwd"), ("dangling", target.as_str())] {
        sandbox.make_link(anywhere(&format!("/workspace/{path}")), target).await.unwrap();
    }
}

#[test]
fn everything_survives() {
    run(async {
        let session = session(Memory::new(), "a", &config(SnapshotConfig::default()));
        let workspace = open(&session).await;
        let original = sandbox(&session, "box").await;
        fill(&original).await;
        let before = tree(&original, "/workspace").await;
        let snapshots = workspace.snapshot().unwrap();
        let taken = snapshots.create().await.unwrap();
        assert_eq!(taken.contents.entries, before.len() as u64);
        assert_eq!(taken.contents.bytes, before.iter().map(|entry| entry.3.len() as u64).sum::<u64>());
        assert!(taken.archive_bytes < taken.contents.bytes, "it is compressed");
        assert_eq!((taken.workspace.as_str(), taken.session.as_str()), ("box", "a"));
        assert_eq!(snapshots.list().await.unwrap(), std::slice::from_ref(&taken));
        // What is written later is in neither.
        write(&workspace, "later", b"later").await;

        let restored = snapshots.restore(&taken.id, None).await.unwrap();
        assert!(restored.workspace.as_str().starts_with("box-restored-"), "{restored:?}");
        let copy = sandbox(&session, restored.workspace.as_str()).await;
        assert_eq!(tree(&copy, "/workspace").await, before);
        let branch = snapshots.branch(&taken.id, None).await.unwrap();
        assert!(branch.workspace.as_str().starts_with("box-branch-"), "{branch:?}");

        // The new workspaces are used by their references, and change neither the original nor the archive.
        let second = session.workspaces().restored("box", restored.workspace.as_str()).await.unwrap();
        write(&second, "run.sh", b"changed").await;
        assert_eq!(workspace.fs().unwrap().read("run.sh").await.unwrap(), b"#!/bin/sh\n");
        let third = session.workspaces().restored("box", branch.workspace.as_str()).await.unwrap();
        assert_eq!(third.fs().unwrap().read("run.sh").await.unwrap(), b"#!/bin/sh\n");
        assert!(third.fs().unwrap().read("later").await.is_err());

        // A snapshot of a restored workspace names its parent.
        let child = second.snapshot().unwrap().create().await.unwrap();
        assert_eq!(child.parent, Some(taken.id.clone()));
        let again = third.snapshot().unwrap().restore(&child.id, None).await.unwrap();
        let again = session.workspaces().restored("box", again.workspace.as_str()).await.unwrap();
        assert_eq!(again.fs().unwrap().read("run.sh").await.unwrap(), b"changed");

        assert!(snapshots.remove(&taken.id).await.unwrap());
        assert!(!snapshots.remove(&taken.id).await.unwrap());
        let gone = snapshots.restore(&taken.id, None).await.unwrap_err();
        assert_eq!(gone.code, Code::NotFound, "{gone}");
        assert_eq!(blobs(&session.store().unwrap()).await, 1, "the archive is deleted");
        let unknown = session.workspaces().restored("box", "box").await.unwrap_err();
        assert_eq!(unknown.error.code, Code::NotFound);
    });
}

#[test]
fn another_directory_is_archived_and_what_the_image_has_in_it_is_replaced() {
    run(async {
        let config = WorkspaceConfig {
            snapshot_dir: Some("/workspace/src".into()),
            ..config(SnapshotConfig::default())
        };
        let session = session(Memory::new(), "a", &config);
        let workspace = open(&session).await;
        let none = workspace.snapshot().unwrap().create().await.unwrap_err();
        assert_eq!(none.code, Code::NotFound, "{none}");
        write(&workspace, "src/a", b"a").await;
        write(&workspace, "b", b"b").await;
        let taken = workspace.snapshot().unwrap().create().await.unwrap();
        assert_eq!((taken.dir.as_str(), taken.contents.entries), ("/workspace/src", 1));
        let restored = workspace.snapshot().unwrap().restore(&taken.id, None).await.unwrap();
        let copy = sandbox(&session, restored.workspace.as_str()).await;
        let names: Vec<String> = tree(&copy, "/workspace").await.into_iter().map(|entry| entry.0).collect();
        assert_eq!(names, ["/workspace/src", "/workspace/src/a"]);
    });
}

#[test]
fn a_link_that_would_lead_elsewhere_is_not_archived() {
    run(async {
        let session = session(Memory::new(), "a", &config(SnapshotConfig::default()));
        let workspace = open(&session).await;
        // As a sandbox describes a target that is not UTF-8.
        let original = sandbox(&session, "box").await;
        original.make_link(anywhere("/workspace/link"), "b\u{fffd}").await.unwrap();
        let refused = workspace.snapshot().unwrap().create().await.unwrap_err();
        assert_eq!(refused.code, Code::Unsupported);
        assert!(
            refused.to_string().contains("the target of the link `/workspace/link` is not UTF-8"),
            "{refused}"
        );
        assert!(workspace.snapshot().unwrap().list().await.unwrap().is_empty());
    });
}

#[test]
fn what_is_not_declared_is_refused() {
    run(async {
        let session = session(Memory::new(), "a", &WorkspaceConfig::new("box"));
        let failed = open(&session).await.snapshot().unwrap_err();
        assert_eq!(failed.error.code, Code::Unsupported);
        assert!(failed.to_string().contains("add `snapshot` to `workspace(..)`"), "{failed}");
        let declared = config(SnapshotConfig::default());
        assert_eq!(declared.capabilities(), [Capability::Fs, Capability::Snapshot]);
    });
}

#[test]
fn other_sessions_need_consent() {
    run(async {
        let memory = Memory::new();
        let origin = session(memory.clone(), "a", &config(SnapshotConfig::default()));
        let workspace = open(&origin).await;
        write(&workspace, "secret", b"s").await;
        let taken = workspace.snapshot().unwrap().create().await.unwrap();

        let closed = session(memory.clone(), "b", &config(SnapshotConfig::default()));
        let workspace = open(&closed).await;
        let snapshots = workspace.snapshot().unwrap();
        let unknown = snapshots.restore(&taken.id, None).await.unwrap_err();
        assert_eq!(unknown.code, Code::NotFound, "{unknown}");
        for refused in [
            snapshots.restore(&taken.id, Some("a")).await.unwrap_err(),
            snapshots.branch(&taken.id, Some("a")).await.unwrap_err(),
        ] {
            assert_eq!(refused.code, Code::PermissionDenied);
            assert!(refused.message.contains("allow_cross_session"), "{refused}");
        }
        assert_eq!(names(&closed).await, ["box"]);

        let consent = SnapshotConfig { allow_cross_session: true, ..SnapshotConfig::default() };
        let open_one = session(memory.clone(), "c", &config(consent));
        let workspace = open(&open_one).await;
        let restored = workspace.snapshot().unwrap().restore(&taken.id, Some("a")).await.unwrap();
        let copy = open_one.workspaces().restored("box", restored.workspace.as_str()).await.unwrap();
        assert_eq!(copy.fs().unwrap().read("secret").await.unwrap(), b"s");
        assert_eq!(names(&origin).await, ["box"], "the new sandbox belongs to the session that asked");

        // Another tenant never.
        let profiles = open_one.profiles().clone();
        let other = Session::new(memory, SessionId::new("other", "a").unwrap(), profiles);
        let workspace = open(&other).await;
        let refused = workspace.snapshot().unwrap().restore(&taken.id, Some("a")).await.unwrap_err();
        assert_eq!(refused.code, Code::NotFound);
    });
}

#[test]
fn limits_name_the_figures_and_nothing_is_deleted() {
    run(async {
        let memory = Memory::new();
        let two = SnapshotConfig { max_count: 2, ..SnapshotConfig::default() };
        let session_of = |config: WorkspaceConfig| session(memory.clone(), "a", &config);
        let limited = session_of(config(two));
        let workspace = open(&limited).await;
        write(&workspace, "a", b"a").await;
        let snapshots = workspace.snapshot().unwrap();
        let first = snapshots.create().await.unwrap();
        let second = snapshots.create().await.unwrap();
        let refused = snapshots.create().await.unwrap_err();
        assert_eq!(refused.code, Code::Unavailable);
        for part in ["2 snapshots", "limit is 2", "koze snapshot rm"] {
            assert!(refused.message.contains(part), "{refused}");
        }
        assert_eq!(snapshots.list().await.unwrap(), [first.clone(), second.clone()]);
        snapshots.remove(&first.id).await.unwrap();
        snapshots.create().await.unwrap();

        // Bytes are counted while the archive is written.
        let random: Vec<u8> =
            (0..500_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0]).collect();
        write(&workspace, "random", &random).await;
        let used: u64 = snapshots.list().await.unwrap().iter().map(|one| one.archive_bytes).sum();
        let small =
            session_of(config(SnapshotConfig { max_bytes: used + 5000, ..SnapshotConfig::default() }));
        let workspace = open(&small).await;
        let snapshots = workspace.snapshot().unwrap();
        let before = (snapshots.list().await.unwrap(), blobs(&small.store().unwrap()).await);
        let refused = snapshots.create().await.unwrap_err();
        assert_eq!(refused.code, Code::TooLarge);
        for part in [format!("{used} bytes"), format!("{} bytes", used + 5000), "koze snapshot rm".into()] {
            assert!(refused.message.contains(&part), "{refused}");
        }
        assert_eq!((snapshots.list().await.unwrap(), blobs(&small.store().unwrap()).await), before);
    });
}

#[test]
fn two_at_once_do_not_exceed_the_limit() {
    run(async {
        let one = SnapshotConfig { max_count: 1, ..SnapshotConfig::default() };
        let session = session(Memory::new(), "a", &config(one));
        let workspace = open(&session).await;
        write(&workspace, "a", b"a").await;
        let snapshots = workspace.snapshot().unwrap();
        let both = futures_util::join!(snapshots.create(), snapshots.create());
        let made = [&both.0, &both.1].into_iter().filter(|result| result.is_ok()).count();
        assert_eq!(made, 1, "{both:?}");
        assert_eq!(snapshots.list().await.unwrap().len(), 1);
        assert_eq!(blobs(&session.store().unwrap()).await, 1, "the other one's archive is deleted");
        let id = snapshots.list().await.unwrap()[0].id.clone();
        let (restored, branch) =
            futures_util::join!(snapshots.restore(&id, None), snapshots.branch(&id, None));
        assert_ne!(restored.unwrap().workspace, branch.unwrap().workspace);
    });
}

#[test]
fn what_has_expired_is_never_restored() {
    run(async {
        let soon = SnapshotConfig { expires_after: Some(Duration::ZERO), ..SnapshotConfig::default() };
        let session = session(Memory::new(), "a", &config(soon));
        let workspace = open(&session).await;
        write(&workspace, "a", b"a").await;
        let snapshots = workspace.snapshot().unwrap();
        let taken = snapshots.create().await.unwrap();
        assert!(taken.is_expired(taken.created));
        assert_eq!(snapshots.list().await.unwrap(), std::slice::from_ref(&taken));
        for expired in [
            snapshots.restore(&taken.id, None).await.unwrap_err(),
            snapshots.export(&taken.id).await.err().unwrap(),
        ] {
            assert_eq!(expired.code, Code::NotFound);
            assert!(expired.message.contains("expired"), "{expired}");
        }
        let next = snapshots.create().await.unwrap();
        assert_eq!(snapshots.list().await.unwrap(), [next], "the next one removes it");
        assert_eq!(blobs(&session.store().unwrap()).await, 1);
    });
}

async fn exported<S: Sandbox>(workspace: &Workspace<S>, id: &SnapshotId) -> Vec<u8> {
    let pieces = workspace.snapshot().unwrap().export(id).await.unwrap();
    pieces.try_collect::<Vec<_>>().await.unwrap().concat()
}

async fn import<S: Sandbox>(workspace: &Workspace<S>, file: &[u8]) -> Result<Snapshot> {
    let pieces: Vec<_> = file.chunks(100_003).map(|piece| Ok(piece.to_vec())).collect();
    workspace.snapshot().unwrap().import(Box::pin(stream::iter(pieces))).await
}

#[test]
fn an_exported_file_is_imported_whole_or_not_at_all() {
    run(async {
        let origin = session(Memory::new(), "a", &config(SnapshotConfig::default()));
        let workspace = open(&origin).await;
        fill(&sandbox(&origin, "box").await).await;
        let taken = workspace.snapshot().unwrap().create().await.unwrap();
        let file = exported(&workspace, &taken.id).await;

        let other = session(Memory::new(), "b", &config(SnapshotConfig::default()));
        let workspace = open(&other).await;
        let imported = import(&workspace, &file).await.unwrap();
        assert_ne!(imported.id, taken.id);
        let same =
            |snapshot: &Snapshot| (snapshot.sha256.clone(), snapshot.contents, snapshot.session.clone());
        assert_eq!(same(&imported), same(&taken));
        let restored = workspace.snapshot().unwrap().restore(&imported.id, None).await.unwrap();
        let (copy, original) =
            (sandbox(&other, restored.workspace.as_str()).await, sandbox(&origin, "box").await);
        assert_eq!(tree(&copy, "/workspace").await, tree(&original, "/workspace").await);

        let mut damaged = Vec::new();
        for length in [0, 4, 100, 1000, file.len() / 2, file.len() - 1] {
            damaged.push(file[..length].to_vec());
        }
        for at in [0, 20, file.len() / 2, file.len() - 3] {
            let mut changed = file.clone();
            changed[at] ^= 0x10;
            damaged.push(changed);
        }
        damaged.push([file.as_slice(), b"more"].concat());
        let (listed, stored) =
            (workspace.snapshot().unwrap().list().await.unwrap(), blobs(&other.store().unwrap()).await);
        for file in damaged {
            assert!(import(&workspace, &file).await.is_err(), "{} bytes", file.len());
        }
        assert_eq!(workspace.snapshot().unwrap().list().await.unwrap(), listed);
        assert_eq!(blobs(&other.store().unwrap()).await, stored);
        let mut newer = file.clone();
        let format = newer.windows(10).position(|part| part == b"\"format\":1").unwrap();
        newer[format + 9] = b'2';
        assert_eq!(import(&workspace, &newer).await.unwrap_err().code, Code::Unsupported);
    });
}

#[test]
fn restored_sandboxes_count_towards_the_limit_of_the_session() {
    run(async {
        let session = session(Memory::new(), "a", &config(SnapshotConfig::default())).with_max_sandboxes(2);
        let workspace = open(&session).await;
        write(&workspace, "a", b"a").await;
        let snapshots = workspace.snapshot().unwrap();
        let taken = snapshots.create().await.unwrap();
        snapshots.restore(&taken.id, None).await.unwrap();
        let refused = snapshots.branch(&taken.id, None).await.unwrap_err();
        assert!(refused.message.contains("limit of 2 sandboxes"), "{refused}");
        let store = session.store().unwrap();
        assert_eq!(store.list(&Range::of("workspace/derived/")).await.unwrap().len(), 1);
    });
}
