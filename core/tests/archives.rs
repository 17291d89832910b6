//! Directories in memory as archives, and directories that are created from archives.

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use koze_core::files::{self, Existing};
use koze_core::path::anywhere;
use koze_core::provider::memory::{Memory, MemorySandbox};
use koze_core::provider::{Profile, Size};
use koze_core::sandbox::{Kind, Write};
use koze_core::{Code, Error, Profiles, Result, Sandbox, Session, SessionId};
use koze_protocol::tar::{Entry, What, end, write_header};

async fn sandbox() -> MemorySandbox {
    let profile = Profile::new("default", "debian", Size { memory_mib: 1, disk_mb: 1 });
    let profiles = Profiles::new(vec![profile], "default").unwrap();
    let session = Session::new(Memory::new(), SessionId::new("tenant", "a").unwrap(), profiles);
    session.sandbox("default").await.unwrap()
}

async fn archive(sandbox: &MemorySandbox, path: &str) -> Vec<u8> {
    sandbox.archive(anywhere(path)).map_ok(|(bytes, _)| bytes).try_concat().await.unwrap()
}

async fn extract(sandbox: &MemorySandbox, path: &str, tar: &[u8]) -> Result<bool> {
    let pieces: Vec<Result<Vec<u8>>> = tar.chunks(700).map(|piece| Ok(piece.to_vec())).collect();
    files::extract(sandbox, path, Existing::Refuse, stream::iter(pieces).boxed()).await
}

async fn names(sandbox: &MemorySandbox, path: &str) -> Vec<String> {
    let list = sandbox.list(anywhere(path)).await.unwrap();
    let mut names: Vec<String> = list.into_iter().map(|entry| entry.name).collect();
    names.sort();
    names
}

#[test]
fn a_directory_is_created_whole_or_not_at_all() {
    pollster::block_on(async {
        let sandbox = sandbox().await;
        let write = async |path: &str, content: &[u8]| {
            sandbox.write(anywhere(path), content.to_vec(), Write::Replace).await.unwrap();
        };
        write("/tmp/from/d/a b", b"content").await;
        sandbox.make_dir(anywhere("/tmp/from/empty")).await.unwrap();
        sandbox.make_link(anywhere("/tmp/from/d/link"), "a b").await.unwrap();
        sandbox.set_mode(anywhere("/tmp/from/d/a b"), 0o4755).await.unwrap();
        let tar = archive(&sandbox, "/tmp/from").await;

        assert_eq!(extract(&sandbox, "/tmp/new/to", &tar).await, Ok(true));
        assert_eq!(names(&sandbox, "/tmp/new").await, ["to"]);
        assert_eq!(names(&sandbox, "/tmp/new/to").await, ["d", "empty"]);
        assert_eq!(sandbox.read(anywhere("/tmp/new/to/d/link"), 0, 9).await.unwrap().bytes, b"content");
        assert_eq!(sandbox.stat(anywhere("/tmp/new/to/d/a b")).await.unwrap().mode & 0o7777, 0o755);

        sandbox.make_dir(anywhere("/tmp/some")).await.unwrap();
        sandbox.make_link(anywhere("/tmp/name"), "some").await.unwrap();
        assert_eq!(extract(&sandbox, "/tmp/name", &tar).await, Ok(false), "an empty directory");
        assert_eq!(sandbox.stat(anywhere("/tmp/name")).await.unwrap().kind, Kind::Link("some".into()));
        assert_eq!(names(&sandbox, "/tmp/some").await, ["d", "empty"]);

        write("/tmp/file", b"kept").await;
        for (path, tar, code, message) in [
            ("/tmp/some", &tar[..], Code::AlreadyExists, "`/tmp/some` is not empty"),
            ("/tmp/file", &tar, Code::NotADirectory, "`/tmp/file` is not a directory"),
            ("/", &tar, Code::AlreadyExists, "is not empty"),
            ("/tmp/none", &tar[..tar.len() - 1024], Code::InvalidInput, "the archive is incomplete"),
            ("/tmp/none", &tar[..1600], Code::InvalidInput, "the archive is incomplete"),
            ("/tmp/none", b"text", Code::InvalidInput, "the archive is incomplete"),
            ("/tmp/none", &[b'x'; 600], Code::InvalidInput, "not a tar archive"),
        ] {
            let error = extract(&sandbox, path, tar).await.unwrap_err();
            assert!(error.code == code && error.message.contains(message), "{path}: {error:?}");
        }
        let cut = stream::iter([Ok(tar[..1600].to_vec()), Err(Error::new(Code::Unavailable, "cut off"))]);
        let error = files::extract(&sandbox, "/tmp/none", Existing::Refuse, cut.boxed()).await.unwrap_err();
        assert_eq!(error.message, "cut off");
        assert_eq!(names(&sandbox, "/tmp").await, ["file", "from", "name", "new", "some"]);
    });
}

#[test]
fn an_entry_that_another_one_is_in_the_way_of_is_refused() {
    pollster::block_on(async {
        let sandbox = sandbox().await;
        let (file, link) = (What::File(0), What::Link("b".to_owned()));
        for (first, second, message) in [
            (("a", &file), ("a", &file), "`a` occurs more than once"),
            (("a", &link), ("a", &file), "`a` occurs more than once"),
            (("a", &link), ("a/x", &file), "`a/x` is below `a`, which is not a directory"),
            (("a", &What::Directory), ("a", &What::Directory), "`a` occurs more than once"),
        ] {
            let mut tar = Vec::new();
            for (name, what) in [first, second] {
                let entry = Entry { name: name.to_owned(), what: what.clone(), mode: 0o644, mtime: 0 };
                write_header(&entry, &mut tar);
            }
            tar.extend(end());
            sandbox.make_dir(anywhere("/tmp/to")).await.unwrap();
            let error =
                sandbox.extract(anywhere("/tmp/to"), stream::iter([Ok(tar)]).boxed()).await.unwrap_err();
            assert!(error.code == Code::InvalidInput && error.message.contains(message), "{error}");
            sandbox.remove(anywhere("/tmp/to")).await.unwrap();
        }
    });
}
