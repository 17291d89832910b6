//! The programs that run in a container.

use std::sync::Arc;

use koze_core::sandbox::Place;
use koze_guest::request::Request;
use koze_protocol::operation;
use serde::de::IgnoredAny;

use crate::guest::Connection;

/// The process ID of the guest in its container.
const GUEST_ID: u32 = 1;
/// How many programs are listed at most.
const MAX_PROGRAMS: usize = 512;
/// How much of a command line is read, in bytes.
const MAX_COMMAND_LINE: u64 = 4096;

/// Returns the command lines of the programs that run, without the guest. They are read from `/proc` of the container, because
/// most are not processes that the guest knows by ID.
pub(super) async fn list_programs(connection: &Arc<Connection>) -> Vec<String> {
    let listed = ask(connection, &Request::List(Place { root: "/", path: "/proc" }.owned())).await;
    let entries: Vec<Named> = serde_json::from_slice(&listed.unwrap_or_default()).unwrap_or_default();
    let mut ids: Vec<u32> = entries.iter().filter_map(|entry| entry.name.parse().ok()).collect();
    ids.retain(|id| *id != GUEST_ID);
    ids.sort_unstable();
    ids.truncate(MAX_PROGRAMS);
    let mut programs = Vec::new();
    for id in ids {
        let (root, path) = ("/".to_owned(), format!("/proc/{id}/cmdline"));
        let request = Request::Read(operation::Read { root, path, offset: 0, limit: MAX_COMMAND_LINE });
        // One that has ended, or that only waits to be reaped, has none.
        let Some(line) = ask(connection, &request).await.filter(|line| !line.is_empty()) else { continue };
        let words = line.split(|byte| *byte == 0).map(String::from_utf8_lossy);
        programs.push(words.collect::<Vec<_>>().join(" ").trim_end().to_owned());
    }
    programs
}

/// Returns the bytes that the guest answers with.
async fn ask(connection: &Arc<Connection>, request: &Request) -> Option<Vec<u8>> {
    let answered = connection.call(request).ok()?.finish::<IgnoredAny>().await;
    Some(answered.ok()?.out)
}

/// An entry of a directory, of which only the name matters.
#[derive(serde::Deserialize)]
struct Named {
    name: String,
}
