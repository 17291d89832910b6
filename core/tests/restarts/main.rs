//! A container may restart between any two of the calls that write one file or tree, and then has none of their files. What
//! several calls have written is whole, or an error says that it was lost; it never lacks its beginning.

mod fragile;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use koze_core::files::http::{Conditions, Refused};
use koze_core::files::{self, Upload};
use koze_core::path::anywhere;
use koze_core::provider::memory::{Memory, MemorySandbox};
use koze_core::provider::{Profile, Size};
use koze_core::sandbox::{Kind, Write};
use koze_core::transfer::transfer;
use koze_core::{Code, Profiles, Result, Sandbox, Session, SessionId};

use crate::fragile::Fragile;

async fn memory(session: &str) -> MemorySandbox {
    let profile = Profile::new("default", "debian", Size { memory_mib: 1, disk_mb: 1 });
    let profiles = Profiles::new(vec![profile], "default").unwrap();
    let session = Session::new(Memory::new(), SessionId::new("tenant", session).unwrap(), profiles);
    session.sandbox("default").await.unwrap()
}

/// Returns the files and links below a directory.
async fn tree(sandbox: &MemorySandbox, dir: &str) -> BTreeMap<String, Vec<u8>> {
    let (mut tree, mut left) = (BTreeMap::new(), vec![dir.to_owned()]);
    while let Some(dir) = left.pop() {
        let Ok(entries) = sandbox.list(anywhere(&dir)).await else { continue };
        for entry in entries {
            let path = format!("{dir}/{}", entry.name);
            match entry.stat.kind {
                Kind::Directory => left.push(path),
                Kind::Link(target) => drop(tree.insert(path, target.into_bytes())),
                _ => {
                    let bytes = sandbox.read(anywhere(&path), 0, u64::MAX).await.unwrap().bytes;
                    tree.insert(path, bytes);
                }
            }
        }
    }
    tree
}

/// Runs work that creates something at `/workspace/new`, with a restart before each of its calls. Afterward it is whole, or
/// there is an error and nothing. Returns how many calls the work makes.
async fn check(expected: &BTreeMap<String, Vec<u8>>, work: impl AsyncFn(Fragile) -> Result<()>) -> usize {
    let mut calls = 0;
    for is_old in [false, true] {
        calls = 0;
        while restart(expected, &work, calls, is_old).await {
            calls += 1;
            assert!(calls < 200, "it does not end");
        }
    }
    calls
}

/// Does so with a restart before one of the calls. Returns whether there was such a call.
async fn restart(
    expected: &BTreeMap<String, Vec<u8>>,
    work: &impl AsyncFn(Fragile) -> Result<()>,
    calls: usize,
    is_old: bool,
) -> bool {
    let memory = memory("target").await;
    let fragile = Fragile::new(memory.clone(), calls, is_old);
    let done = work(fragile.clone()).await;
    if !fragile.restarted.load(Ordering::SeqCst) {
        done.unwrap();
        assert_eq!(&tree(&memory, "/workspace").await, expected);
        return false;
    }
    // A dropped upload removes its staging file in the background.
    for _ in 0..500 {
        if done.is_ok() || tree(&memory, "/workspace").await.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let tree = tree(&memory, "/workspace").await;
    let case = format!("an old guest: {is_old}, before call {calls}: {done:?}");
    match &done {
        // The restart came after everything was in place.
        Ok(()) if fragile.renamed.load(Ordering::SeqCst) && tree.is_empty() => {}
        Ok(()) => assert!(&tree == expected, "{case}: {:?}", tree.keys()),
        Err(error) => {
            assert_eq!(error.code, Code::Unavailable, "{case}");
            assert!(error.message.contains("send it again"), "{case}");
            assert!(!error.message.contains(".koze-"), "{case}");
            assert!(tree.is_empty(), "{case}: {:?}", tree.keys());
        }
    }
    true
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(work)
}

fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at / 1000 % 251).to_le_bytes()[0]).collect()
}

#[test]
fn an_upload_is_whole_or_refused() {
    run(async {
        // Both ends with a whole piece, and with a part of one.
        for length in [8 << 20, (9 << 20) + 5] {
            let content = bytes(length);
            let expected = BTreeMap::from([("/workspace/new".to_owned(), content.clone())]);
            let calls = check(&expected, async |sandbox| {
                let upload = async {
                    let mut upload = Upload::begin(sandbox, "/workspace/new", Conditions::default()).await?;
                    upload.set_mode_of_new(0o755);
                    for part in content.chunks(100_000) {
                        upload.push(part).await?;
                    }
                    upload.finish().await
                };
                match upload.await {
                    Ok((stat, is_new)) => {
                        assert!(stat.size == content.len() as u64 && is_new);
                        Ok(())
                    }
                    Err(Refused::Error(error)) => Err(error),
                    Err(Refused::Failed) => panic!("there are no conditions"),
                }
            });
            assert!(calls.await >= 6);
        }
    });
}

/// Returns a sandbox with a tree of small and large files.
async fn source() -> MemorySandbox {
    let source = memory("source").await;
    for (path, content) in [("large", bytes(3 << 20)), ("d/small", b"small".to_vec()), ("e/f/empty", vec![])]
    {
        let path = format!("/tmp/from/{path}");
        source.write(anywhere(&path), content, Write::Replace).await.unwrap();
    }
    source.make_link(anywhere("/tmp/from/d/link"), "small").await.unwrap();
    source.set_mode(anywhere("/tmp/from/d"), 0o500).await.unwrap();
    source
}

async fn moved(source: &MemorySandbox) -> BTreeMap<String, Vec<u8>> {
    let tree = tree(source, "/tmp/from").await;
    tree.into_iter().map(|(path, content)| (path.replace("/tmp/from", "/workspace/new"), content)).collect()
}

#[test]
fn a_copy_in_pieces_is_whole_or_refused() {
    run(async {
        let source = source().await;
        let expected = moved(&source).await;
        let calls = check(&expected, async |sandbox| {
            transfer(&source, "/tmp/from", &sandbox, "/workspace/new", true).await.map(drop)
        });
        assert!(calls.await > 10);
    });
}

#[test]
fn an_archive_is_extracted_whole_or_refused() {
    run(async {
        let source = source().await;
        let tar =
            source.archive(anywhere("/tmp/from")).map_ok(|(bytes, _)| bytes).try_concat().await.unwrap();
        let expected = moved(&source).await;
        let calls = check(&expected, async |sandbox| {
            let pieces: Vec<Result<Vec<u8>>> = tar.chunks(50_000).map(|piece| Ok(piece.to_vec())).collect();
            let pieces = stream::iter(pieces).boxed();
            files::extract(&sandbox, "/workspace/new", files::Existing::Refuse, pieces).await.map(drop)
        });
        assert!(calls.await > 10);
    });
}

/// A restart brings back the file that the image has at the path, which is shorter.
#[test]
fn a_source_that_was_replaced_is_not_copied() {
    run(async {
        let (content, mut refused) = (bytes(3 << 20), 0);
        for calls in 0..10 {
            let source = memory("source").await;
            source.write(anywhere("/tmp/file"), content.clone(), Write::Replace).await.unwrap();
            let mut fragile = Fragile::new(source, calls, false);
            fragile.image = Some(("/tmp/file", vec![b'i'; 2 << 20]));
            let target = memory("target").await;
            let copied = transfer(&fragile, "/tmp/file", &target, "/workspace/new", false).await;
            let tree = tree(&target, "/workspace").await;
            match copied {
                Ok(size) => {
                    let whole = if size == 2 << 20 { vec![b'i'; 2 << 20] } else { content.clone() };
                    assert!(tree["/workspace/new"] == whole, "before call {calls}");
                }
                Err(error) => {
                    refused += 1;
                    assert!(
                        error.code == Code::Unavailable && error.message.contains("try again"),
                        "{error}"
                    );
                    assert!(tree.is_empty(), "before call {calls}");
                }
            }
        }
        assert!(refused > 1);
    });
}

/// After a restart of the source, what was listed is missing, as if a program had removed it.
#[test]
fn an_archive_of_a_source_that_restarts_is_refused() {
    run(async {
        let read = async |calls: usize| {
            let fragile = Fragile::new(source().await, calls, false);
            let tar = fragile.archive(anywhere("/tmp/from")).map_ok(|(bytes, _)| bytes).try_concat().await;
            (tar, fragile.restarted.load(Ordering::SeqCst))
        };
        let (whole, _) = read(usize::MAX).await;
        let (whole, mut calls) = (whole.unwrap(), 0);
        loop {
            let (tar, is_restarted) = read(calls).await;
            match tar {
                Ok(tar) => assert!(tar.len() == whole.len(), "before call {calls}"),
                Err(error) => assert!(matches!(error.code, Code::Unavailable | Code::NotFound), "{error}"),
            }
            if !is_restarted {
                break;
            }
            calls += 1;
        }
        assert!(calls > 8);
    });
}
