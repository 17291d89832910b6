//! `read_file`, `write_file`, `edit_file`, `stat`, `mkdir` and `rm`.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::Operation;
use crate::error::Result;
use crate::sandbox::Sandbox;
use crate::tool::agent::{Encoding, MAX_READ, read_part};
use crate::tool::{Reply, input};
use crate::workspace::{Capability, Workspace};

pub(super) struct ReadFile;

/// The input of `read_file`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Read {
    /// The path of the file.
    path: String,
    /// The byte offset to start at.
    #[serde(default)]
    offset: u64,
    /// The maximum number of bytes to read.
    #[serde(default = "default_limit")]
    #[cfg_attr(test, schemars(range(min = 1, max = 16_777_216)))]
    limit: u64,
}

fn default_limit() -> u64 {
    256 * 1024
}

impl Operation for ReadFile {
    const NAME: &'static str = "read_file";
    const DESCRIPTION: &'static str = "Read a file, whole or in part. Returns content and size in bytes. Content that is not \
        UTF-8 is returned as base64, and encoding is set. If the file is longer than limit, truncated is true and next_offset \
        is where to continue.";
    const CAPABILITY: Capability = Capability::Fs;
    type Input = Read;

    async fn call<S: Sandbox>(workspace: &Workspace<S>, input: Read) -> Result<Reply> {
        let limit = input::check_range("limit", input.limit, 1..=MAX_READ)?;
        let fs = workspace.fs()?;
        // With three bytes more, a character that the limit cuts is there whole.
        let piece = fs.read_part(&input.path, input.offset, limit + 3).await?;
        Reply::ok(read_part(piece, input.offset, limit))
    }
}

pub(super) struct WriteFile;

/// The input of `write_file`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    /// The path of the file. Missing parent directories are created.
    path: String,
    /// The content to write.
    content: String,
    /// Append to the file instead of replacing it.
    #[serde(default)]
    append: bool,
    /// The encoding of content.
    #[serde(default)]
    encoding: Encoding,
}

impl Operation for WriteFile {
    const NAME: &'static str = "write_file";
    const DESCRIPTION: &'static str = "Write a file, or append to it. Returns the file's size in bytes.";
    const CAPABILITY: Capability = Capability::Fs;
    type Input = Written;

    async fn call<S: Sandbox>(workspace: &Workspace<S>, input: Written) -> Result<Reply> {
        let bytes = match input.encoding {
            Encoding::Utf8 => input.content.into_bytes(),
            Encoding::Base64 => input::from_base64(&input.content)?,
        };
        let fs = workspace.fs()?;
        let written = if input.append {
            fs.append(&input.path, bytes).await
        } else {
            fs.write(&input.path, bytes).await
        };
        Reply::ok(json!({ "ok": true, "size": written? }))
    }
}

pub(super) struct EditFile;

/// The input of `edit_file`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Edit {
    /// The path of the file.
    path: String,
    /// The text to replace.
    old_string: String,
    /// The text to replace it with.
    new_string: String,
    /// Replace every occurrence. Otherwise, the text must occur exactly once.
    #[serde(default)]
    replace_all: bool,
}

impl Operation for EditFile {
    const NAME: &'static str = "edit_file";
    const DESCRIPTION: &'static str = "Replace a text in a file. Returns the number of replaced occurrences and the file's size \
        in bytes.";
    const CAPABILITY: Capability = Capability::Fs;
    type Input = Edit;

    async fn call<S: Sandbox>(workspace: &Workspace<S>, input: Edit) -> Result<Reply> {
        let Edit { path, old_string, new_string, replace_all } = input;
        let (size, replaced) = workspace.fs()?.edit(&path, &old_string, &new_string, replace_all).await?;
        Reply::ok(json!({ "ok": true, "size": size, "replaced": replaced }))
    }
}

/// A path.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Path {
    /// The path of the file or directory.
    path: String,
}

pub(super) struct Stat;

impl Operation for Stat {
    const NAME: &'static str = "stat";
    const DESCRIPTION: &'static str = "Describe a file or directory. Returns path, type (file, directory, symlink or other), \
        size in bytes, and mtime, the time of the last change in milliseconds since the epoch. Does not follow a symbolic link.";
    const CAPABILITY: Capability = Capability::Fs;
    type Input = Path;

    async fn call<S: Sandbox>(workspace: &Workspace<S>, input: Path) -> Result<Reply> {
        Reply::ok(workspace.fs()?.stat(&input.path).await?)
    }
}

pub(super) struct Mkdir;

/// The input of `mkdir`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Made {
    /// The path of the directory.
    path: String,
    /// Create missing parent directories, and succeed if the directory exists.
    #[serde(default)]
    recursive: bool,
}

impl Operation for Mkdir {
    const NAME: &'static str = "mkdir";
    const DESCRIPTION: &'static str = "Create a directory.";
    const CAPABILITY: Capability = Capability::Fs;
    type Input = Made;

    async fn call<S: Sandbox>(workspace: &Workspace<S>, input: Made) -> Result<Reply> {
        workspace.fs()?.mkdir(&input.path, input.recursive).await?;
        Reply::ok(json!({ "ok": true }))
    }
}

pub(super) struct Rm;

/// The input of `rm`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Removed {
    /// The path of the file, symbolic link or directory.
    path: String,
    /// Remove a directory with its contents.
    #[serde(default)]
    recursive: bool,
}

impl Operation for Rm {
    const NAME: &'static str = "rm";
    const DESCRIPTION: &'static str =
        "Remove a file or a symbolic link, or a directory with its contents if recursive is set.";
    const CAPABILITY: Capability = Capability::Fs;
    type Input = Removed;

    async fn call<S: Sandbox>(workspace: &Workspace<S>, input: Removed) -> Result<Reply> {
        workspace.fs()?.rm(&input.path, input.recursive).await?;
        Reply::ok(json!({ "ok": true }))
    }
}
