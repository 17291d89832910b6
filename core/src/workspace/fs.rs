//! The files of a workspace.

mod grep;

use std::sync::Arc;

use serde::Serialize;

pub use self::grep::{Grep, Grepped, Match};
use crate::error::{Code, Error, Result};
use crate::glob;
use crate::handle::LARGEST;
use crate::path;
use crate::sandbox::{Edit, Edited, Entry, Kind, Piece, Place, Sandbox, Stat, Write};

/// The files of a workspace. Relative paths start at its directory, and no operation leaves it, whatever `..` and symbolic
/// links a path has.
#[derive(Debug, Clone)]
pub struct WorkspaceFs<S> {
    sandbox: S,
    root: Arc<str>,
}

/// The kind of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A pipe, a socket or a device.
    Other,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// Its name. Bytes that are not UTF-8 are replaced by U+FFFD; such an entry cannot be addressed.
    pub name: String,
    /// Its absolute path.
    pub path: String,
    /// Its kind. A symbolic link is not followed.
    #[serde(rename = "type")]
    pub kind: FileKind,
    /// Its size in bytes.
    pub size: u64,
}

/// The metadata of a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileStat {
    /// The absolute path.
    pub path: String,
    /// Its kind. A symbolic link is not followed.
    #[serde(rename = "type")]
    pub kind: FileKind,
    /// Its size in bytes.
    pub size: u64,
    /// When its content last changed, in milliseconds since the epoch. Unknown if the sandbox runs an older version of koze.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtime: Option<i64>,
}

impl<S: Sandbox> WorkspaceFs<S> {
    pub(super) fn new(sandbox: S, root: Arc<str>) -> Self {
        WorkspaceFs { sandbox, root }
    }

    /// Returns the directory to which the files are confined.
    pub fn root(&self) -> &str {
        &self.root
    }

    /// Reads a whole file of at most 64 MiB.
    ///
    /// # Errors
    /// [`Code::PathEscape`] if the path leads outside the workspace, [`Code::TooLarge`] for a larger file, and the errors of
    /// the sandbox.
    pub async fn read(&self, path: &str) -> Result<Vec<u8>> {
        let piece = self.read_part(path, 0, LARGEST).await?;
        if piece.size > LARGEST {
            let message = format!("`{path}` has {} bytes: read it in parts", piece.size);
            return Err(Error::new(Code::TooLarge, message));
        }
        Ok(piece.bytes)
    }

    /// Reads at most `limit` bytes of a file from `offset`.
    ///
    /// # Errors
    /// As [`WorkspaceFs::read`].
    pub async fn read_part(&self, path: &str, offset: u64, limit: u64) -> Result<Piece> {
        let path = self.absolute_path(path)?;
        self.reword_escape(&path, self.sandbox.read(self.place_at(&path), offset, limit).await)
    }

    /// Writes a file and creates missing parent directories. Returns its size in bytes.
    ///
    /// # Errors
    /// As [`WorkspaceFs::read`].
    pub async fn write(&self, path: &str, bytes: Vec<u8>) -> Result<u64> {
        self.write_as(path, bytes, Write::Replace).await
    }

    /// Appends to a file, or creates it. Returns its size in bytes.
    ///
    /// # Errors
    /// As [`WorkspaceFs::read`].
    pub async fn append(&self, path: &str, bytes: Vec<u8>) -> Result<u64> {
        self.write_as(path, bytes, Write::Append).await
    }

    async fn write_as(&self, path: &str, bytes: Vec<u8>, how: Write) -> Result<u64> {
        let path = self.absolute_path(path)?;
        self.reword_escape(&path, self.sandbox.write(self.place_at(&path), bytes, how).await)
    }

    /// Replaces a text in a file atomically: every occurrence with `all`, else the only one. Returns the file's size in bytes
    /// and the number of replaced occurrences.
    ///
    /// # Errors
    /// [`Code::EditConflict`] with the lines if the text does not occur, or occurs more than once without `all`;
    /// [`Code::InvalidInput`] if it is empty; and as [`WorkspaceFs::read`].
    pub async fn edit(&self, path: &str, old: &str, new: &str, all: bool) -> Result<(u64, u64)> {
        let path = self.absolute_path(path)?;
        let edit = Edit { old: old.into(), new: new.into(), all };
        let message = match self.reword_escape(&path, self.sandbox.edit(self.place_at(&path), &edit).await)? {
            Edited::Done { size, replaced } => return Ok((size, replaced)),
            Edited::NotFound { nearest: None } => format!("the text to replace does not occur in `{path}`"),
            Edited::NotFound { nearest: Some(nearest) } => format!(
                "the text to replace does not occur in `{path}`: only white space differs from the text at line {}: {}",
                nearest.number, nearest.text
            ),
            Edited::Ambiguous { occurrences, lines } => {
                let more = if occurrences > lines.len() as u64 { ", …" } else { "" };
                let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
                format!(
                    "the text to replace occurs {occurrences} times in `{path}` (lines {}{more}): add context to make it \
                     unique, or replace all occurrences",
                    lines.join(", ")
                )
            }
        };
        Err(Error::new(Code::EditConflict, message))
    }

    /// Lists a directory, sorted by name.
    ///
    /// # Errors
    /// As [`WorkspaceFs::read`].
    pub async fn ls(&self, path: &str) -> Result<Vec<Listed>> {
        let path = self.absolute_path(path)?;
        let mut entries = self.reword_escape(&path, self.sandbox.list(self.place_at(&path)).await)?;
        entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        let listed = |Entry { name, stat }: Entry| Listed {
            path: join_path(&path, &name),
            kind: to_file_kind(&stat.kind),
            size: stat.size,
            name,
        };
        Ok(entries.into_iter().map(listed).collect())
    }

    /// Finds files below a directory by a pattern such as `**/*.rs`. Returns at most 1000 absolute paths, sorted, and whether
    /// there are more.
    ///
    /// # Errors
    /// [`Code::InvalidInput`] if the pattern is not valid, [`Code::Timeout`] if the search takes too long, and as
    /// [`WorkspaceFs::read`].
    pub async fn glob(&self, pattern: &str, path: &str) -> Result<(Vec<String>, bool)> {
        let path = self.absolute_path(path)?;
        let base = glob::Base { root: &self.root, path: &path, key: "path" };
        let (mut files, more) =
            self.reword_escape(&path, glob::find_files(&self.sandbox, &base, pattern).await)?;
        for file in &mut files {
            *file = join_path(&path, file);
        }
        Ok((files, more))
    }

    /// Searches the content of files for a regular expression.
    ///
    /// # Errors
    /// [`Code::InvalidInput`] if a pattern is not valid, and as [`WorkspaceFs::read`].
    pub async fn grep(&self, grep: &Grep) -> Result<Grepped> {
        let path = self.absolute_path(&grep.path)?;
        self.reword_escape(&path, grep::search_files(&self.sandbox, &self.root, &path, grep).await)
    }

    /// Returns the kind, size and time of the last change of a path. Does not follow a symbolic link in the last component.
    ///
    /// # Errors
    /// As [`WorkspaceFs::read`].
    pub async fn stat(&self, path: &str) -> Result<FileStat> {
        let path = self.absolute_path(path)?;
        let stat = self.reword_escape(&path, self.sandbox.stat(self.place_at(&path)).await)?;
        Ok(FileStat { kind: to_file_kind(&stat.kind), size: stat.size, mtime: stat.mtime, path })
    }

    /// Creates a directory. With `recursive`, also creates its parents, and succeeds if it exists.
    ///
    /// # Errors
    /// [`Code::NotFound`] if the parent does not exist, [`Code::AlreadyExists`] if there is something at the path, and as
    /// [`WorkspaceFs::read`].
    pub async fn mkdir(&self, path: &str, recursive: bool) -> Result<()> {
        let path = self.absolute_path(path)?;
        if !recursive {
            self.must_be_new(&path).await?;
        }
        self.reword_escape(&path, self.sandbox.make_dir(self.place_at(&path)).await)
    }

    async fn must_be_new(&self, path: &str) -> Result<()> {
        match self.reword_escape(path, self.sandbox.stat(self.place_at(path)).await) {
            Ok(_) => Err(Error::new(Code::AlreadyExists, format!("`{path}` already exists"))),
            Err(error) if error.code == Code::NotFound => {
                let Some((parent, _)) = path.trim_end_matches('/').rsplit_once('/') else { return Ok(()) };
                // With the dot, a link to a directory is followed.
                let parent = format!("{parent}/.");
                match self.reword_escape(path, self.sandbox.stat(self.place_at(&parent)).await) {
                    Ok(Stat { kind: Kind::Directory, .. }) => Ok(()),
                    Ok(_) => Err(Error::new(
                        Code::NotADirectory,
                        format!("the parent of `{path}` is not a directory"),
                    )),
                    Err(error) if error.code == Code::NotFound => {
                        let message =
                            format!("the parent of `{path}` does not exist: set `recursive` to create it");
                        Err(Error::new(Code::NotFound, message))
                    }
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Removes a file or a symbolic link. With `recursive`, also removes a directory with its contents.
    ///
    /// # Errors
    /// [`Code::IsDirectory`] for a directory without `recursive`, [`Code::InvalidInput`] for the workspace's own directory,
    /// and as [`WorkspaceFs::read`].
    pub async fn rm(&self, path: &str, recursive: bool) -> Result<()> {
        let path = self.absolute_path(path)?;
        let name = path.rsplit('/').next().unwrap_or_default();
        if matches!(name, "" | "." | "..") || path == *self.root {
            let message =
                "`path` must end in the name of a file or directory below the workspace's own directory";
            return Err(Error::new(Code::InvalidInput, message));
        }
        let stat = self.reword_escape(&path, self.sandbox.stat(self.place_at(&path)).await)?;
        if stat.kind == Kind::Directory && !recursive {
            let message = format!("`{path}` is a directory: set `recursive` to remove it with its contents");
            return Err(Error::new(Code::IsDirectory, message));
        }
        self.reword_escape(&path, self.sandbox.remove(self.place_at(&path)).await)
    }

    fn absolute_path(&self, path: &str) -> Result<String> {
        path::absolute_from(&self.root, path)
    }

    fn place_at<'a>(&'a self, path: &'a str) -> Place<'a> {
        Place { root: &self.root, path }
    }

    /// Words the error of a path that leads outside.
    fn reword_escape<T>(&self, path: &str, result: Result<T>) -> Result<T> {
        result.map_err(|error| match error.code {
            Code::PathEscape => {
                let message = format!("path {path} is outside workspace root {}", self.root);
                Error::new(Code::PathEscape, message)
            }
            _ => error,
        })
    }
}

/// Joins a path without a duplicate separator or a leading `./`.
fn join_path(path: &str, name: &str) -> String {
    format!("{}/{name}", path.trim_end_matches('/').trim_end_matches("/."))
}

fn to_file_kind(kind: &Kind) -> FileKind {
    match kind {
        Kind::File => FileKind::File,
        Kind::Directory => FileKind::Directory,
        Kind::Link(_) => FileKind::Symlink,
        Kind::Other => FileKind::Other,
    }
}
