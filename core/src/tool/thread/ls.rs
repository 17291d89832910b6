//! `ls`.

use futures_util::StreamExt as _;
use futures_util::stream;
use koze_protocol::search::is_ignored;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

use super::place::{Given, confine_path};
use super::walk::{Target, find_link_target};
use super::{Told, cut, open_sandbox, to_reply};
use crate::error::{Code, Error, Result};
use crate::provider::Provider;
use crate::sandbox::{Entry, Kind, Sandbox};
use crate::session::Session;
use crate::tool::{Reply, Scope, Tool};

/// Lists a directory.
#[derive(Debug)]
pub struct Ls;

/// The input of `ls`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Explain why you are listing this directory in short words. ALWAYS PROVIDE THIS PARAMETER FIRST.
    #[serde(rename = "description")]
    _description: String,
    /// The absolute path to the directory to list.
    path: String,
}

/// The longest result, in characters.
const MAX_RESULT: usize = 20_000;

/// How many directories are listed at the same time.
const AT_ONCE: usize = 8;

impl Tool for Ls {
    const NAME: &'static str = "ls";
    const DESCRIPTION: &'static str = "List the contents of a directory up to 2 levels deep in tree format. Returns one absolute path per line, \
        sorted; directories end in `/`.";
    const SCOPE: Scope = Scope::Session;
    type Input = Input;

    fn wrong_input(error: Error) -> Result<Reply> {
        Ok(super::wrong_input(error))
    }

    async fn call<P: Provider>(session: &Session<P>, input: Input) -> Result<Reply> {
        Ok(to_reply(list_directory(session, &input.path).await))
    }
}

async fn list_directory<P: Provider>(session: &Session<P>, path: &str) -> Told {
    let given = Given::new(path)?;
    let sandbox = open_sandbox(session).await?;
    let failed = |error: Error| {
        let named = match error.code {
            Code::NotFound => Some(format!("Directory not found: {path}")),
            Code::PermissionDenied => Some(format!("Permission denied: {path}")),
            _ => None,
        };
        given.failure_text(&error, "Unexpected error listing directory", named)
    };
    let root = given.normalized_path();
    let entries = sandbox.list(given.to_place()).await.map_err(failed)?;
    let mut lines = to_lines(&sandbox, &root, entries).await;
    let directories: Vec<String> =
        lines.iter().filter(|line| line.is_directory).map(|line| line.path.clone()).collect();
    let below = stream::iter(directories).map(async |directory: String| {
        // It may be gone, or closed to the sandbox's user.
        let entries = match sandbox.list(confine_path(&directory)).await {
            Err(error) if error.code == Code::TooLarge => return Err(error),
            listed => listed.unwrap_or_default(),
        };
        Ok(to_lines(&sandbox, &directory, entries).await)
    });
    let mut below = below.buffer_unordered(AT_ONCE);
    let mut all = Vec::new();
    while let Some(found) = below.next().await {
        all.extend(found.map_err(failed)?);
    }
    lines.extend(all);
    let mut texts: Vec<String> = lines.into_iter().map(|line| line.path + line.end).collect();
    texts.sort_unstable();
    if texts.is_empty() {
        return Ok("(empty)".to_owned());
    }
    let text = texts.join("\n");
    Ok(cut::keep_head(
        &text,
        text.chars().count(),
        MAX_RESULT,
        "Use a more specific path to see fewer results",
    ))
}

/// A line of the result.
struct Line {
    path: String,
    /// `/` for a directory, also for a link to one.
    end: &'static str,
    /// Whether it is a directory itself.
    is_directory: bool,
}

/// Returns the lines for the entries of a directory.
async fn to_lines<S: Sandbox>(sandbox: &S, directory: &str, entries: Vec<Entry>) -> Vec<Line> {
    let mut lines = Vec::new();
    for entry in entries.into_iter().filter(|entry| !is_ignored(&entry.name)) {
        let path = format!("{directory}/{}", entry.name);
        let end = match entry.stat.kind {
            Kind::Directory => Some("/"),
            Kind::File | Kind::Other => Some(""),
            Kind::Link(_) => match find_link_target(sandbox, &path).await {
                Target::Directory => Some("/"),
                Target::Other => Some(""),
                Target::Outside => None,
            },
        };
        let is_directory = entry.stat.kind == Kind::Directory;
        lines.extend(end.map(|end| Line { path, end, is_directory }));
    }
    lines
}
