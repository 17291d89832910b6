//! The metadata of files. Their content is transferred by the hosts, which do not hold it in memory.

use super::body::{Done, FileEntry, FileList};
use super::request::{Body, Refusal, Request, Response, ok};
use super::watch::stream_changes;
use crate::error::{Code, Error, Result};
use crate::files::existing;
use crate::files::http::file_path;
use crate::path::anywhere;
use crate::provider::Provider;
use crate::sandbox::{Entry, Sandbox};
use crate::session::Session;

/// The parameters that ask for the metadata of a file, for those of the entries of a directory, and for later changes.
const METADATA: [&str; 3] = ["stat", "list", "watch"];

/// Returns whether a request below `files` is one for [`answer_request`](super::answer_request), and not for the content of a file.
pub fn is_metadata_request<'a>(method: &str, parameters: impl IntoIterator<Item = &'a str>) -> bool {
    match method {
        "DELETE" => true,
        "GET" => parameters.into_iter().any(|name| METADATA.contains(&name)),
        _ => false,
    }
}

/// Answers a request below `/files`. None of them creates a sandbox.
pub(super) async fn answer_request<P: Provider>(
    session: &Session<P>,
    name: &str,
    path: &[&str],
    request: &Request,
) -> std::result::Result<Response, Refusal> {
    let path = file_path(&path.join("/"))?;
    if request.method == "DELETE" {
        remove(&existing(session, name).await?, &path).await?;
        return Ok(ok(&Done::default()));
    }
    if request.method != "GET" {
        return Err(Refusal::Method("GET, HEAD, PUT, DELETE"));
    }
    let sandbox = existing(session, name).await?;
    if request.flag("watch", false)? {
        let events = stream_changes(session, name, &sandbox, &path).await?;
        return Ok(Response { status: 200, allow: None, body: Body::Events(events) });
    }
    if request.flag("list", false)? {
        return Ok(ok(&list(&sandbox, &path).await?));
    }
    let entry_name = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned();
    let stat = sandbox.stat(anywhere(&path)).await?;
    Ok(ok(&FileEntry::from(Entry { name: entry_name, stat })))
}

async fn list<S: Sandbox>(sandbox: &S, path: &str) -> Result<FileList> {
    let mut entries: Vec<FileEntry> =
        sandbox.list(anywhere(path)).await?.into_iter().map(FileEntry::from).collect();
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(FileList { entries })
}

/// Removes a file, a link, or a directory with its contents.
async fn remove<S: Sandbox>(sandbox: &S, path: &str) -> Result<()> {
    if path.trim_matches('/').is_empty() {
        return Err(Error::new(
            Code::InvalidInput,
            "the root of a sandbox cannot be removed: destroy the sandbox",
        ));
    }
    sandbox.remove(anywhere(path)).await
}
