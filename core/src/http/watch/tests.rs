use std::time::Duration;

use futures_util::StreamExt as _;

use super::*;
use crate::files::existing;
use crate::http::FileKind;
use crate::id::SessionId;
use crate::profiles::Profiles;
use crate::provider::memory::Memory;
use crate::provider::{Profile, Size};
use crate::sandbox::Write;

/// How long a test waits for an event.
const TIMEOUT: Duration = Duration::from_mins(1);

async fn session() -> Session<Memory> {
    let profile = Profile::new("shell", "debian:trixie-slim", Size { memory_mib: 256, disk_mb: 1000 });
    let profiles = Profiles::new(vec![profile], "shell").unwrap();
    let session = Session::new(Memory::new(), SessionId::new("t", "s").unwrap(), profiles);
    session.create("a", None, None, None).await.unwrap();
    session
}

async fn watch(session: &Session<Memory>, path: &str) -> Result<EventStream> {
    let sandbox = existing(session, "a").await?;
    stream_changes(session, "a", &sandbox, path).await
}

async fn next(events: &mut EventStream) -> FileEvent {
    let event = async {
        loop {
            let text = events.next().await.expect("an event");
            if let Some(rest) = text.strip_prefix("event: ") {
                let (name, data) = rest.split_once("\ndata: ").expect("data");
                return FileEvent::parse(name, data.strip_suffix("\n\n").expect("an end")).unwrap();
            }
            assert_eq!(text, COMMENT);
        }
    };
    tokio::time::timeout(TIMEOUT, event).await.expect("an event in time")
}

async fn write(session: &Session<Memory>, path: &str, text: &str) {
    let sandbox = existing(session, "a").await.unwrap();
    sandbox.write(anywhere(path), text.into(), Write::Replace).await.unwrap();
}

/// Returns the name of a change, its path, and the size of a file that is there now.
fn parts(event: &FileEvent) -> (&'static str, String, Option<u64>) {
    let (name, change) = match event {
        FileEvent::Created(change) => ("created", change),
        FileEvent::Changed(change) => ("changed", change),
        FileEvent::Removed(change) => ("removed", change),
        FileEvent::Ready(_) | FileEvent::Error(_) => panic!("{event:?}"),
    };
    let file = change.entry.as_ref().filter(|entry| entry.kind == FileKind::File);
    (name, change.path.clone(), file.map(|entry| entry.size))
}

fn expected(name: &'static str, path: &str, size: Option<u64>) -> (&'static str, String, Option<u64>) {
    (name, path.to_owned(), size)
}

#[tokio::test]
async fn changes_below_a_directory_are_reported() {
    let session = session().await;
    write(&session, "/home/user/d/a", "1").await;
    let mut events = watch(&session, "/home/user/d/").await.unwrap();
    assert_eq!(next(&mut events).await, FileEvent::Ready(WatchedFiles { entries: 2 }));
    write(&session, "/home/user/d/a", "12").await;
    assert_eq!(parts(&next(&mut events).await), expected("changed", "/home/user/d/a", Some(2)));
    write(&session, "/home/user/d/new/b c", "123").await;
    assert_eq!(parts(&next(&mut events).await), expected("created", "/home/user/d/new", None));
    assert_eq!(parts(&next(&mut events).await), expected("created", "/home/user/d/new/b c", Some(3)));
    // What is elsewhere is not reported.
    write(&session, "/home/user/other", "1").await;
    let sandbox = existing(&session, "a").await.unwrap();
    sandbox.remove(anywhere("/home/user/d")).await.unwrap();
    for path in ["/home/user/d/new/b c", "/home/user/d/new", "/home/user/d/a", "/home/user/d"] {
        assert_eq!(parts(&next(&mut events).await), expected("removed", path, None));
    }
    write(&session, "/home/user/d", "file").await;
    assert_eq!(parts(&next(&mut events).await), expected("created", "/home/user/d", Some(4)));
    session.destroy("a").await.unwrap();
    let FileEvent::Error(error) = next(&mut events).await else { panic!("an error") };
    assert_eq!(error.code, "not_found");
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn a_file_that_does_not_exist_yet_is_awaited() {
    let session = session().await;
    let mut events = watch(&session, "/home/user/later").await.unwrap();
    assert_eq!(next(&mut events).await, FileEvent::Ready(WatchedFiles { entries: 0 }));
    write(&session, "/home/user/later", "1").await;
    assert_eq!(parts(&next(&mut events).await), expected("created", "/home/user/later", Some(1)));
}

#[tokio::test]
async fn too_many_files_are_refused() {
    let session = session().await;
    for number in 0..=MAX_DIRECTORIES {
        write(&session, &format!("/home/user/d/{number}/f"), "").await;
    }
    let Err(error) = watch(&session, "/home/user/d").await else { panic!("it is watched") };
    assert_eq!(error.code, Code::TooLarge);
    assert!(watch(&session, "/home/user/d/7").await.is_ok());
}

#[test]
fn events_of_others_are_refused() {
    assert!(FileEvent::parse("other", "{}").is_err());
    assert!(FileEvent::parse("created", "{}").is_err());
}
