//! `transfer`: a file or a tree from one sandbox to another, in pieces. What arrives is put together beside its place
//! and moved there whole, so half a transfer is never seen.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::error::{Code, Error, Result};
use crate::pool::Pool;
use crate::provider::Provider;
use crate::sandbox::{Entry, Kind, Sandbox, Stat, Write};
use crate::tool::input::{self, anywhere};
use crate::tool::{Reply, Tool};

/// Copies between sandboxes.
#[derive(Debug)]
pub struct Transfer;

/// What `transfer` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The sandbox to copy from.
    from_sandbox: String,
    /// The file or directory in it.
    from_path: String,
    /// The sandbox to copy to.
    to_sandbox: String,
    /// Where it is to be there, under this very name.
    to_path: String,
    /// Whether a directory is copied with all that is in it.
    #[serde(default)]
    recursive: bool,
}

/// How much is on its way at once, in bytes.
const PIECE: u64 = 1024 * 1024;

/// How many files and directories one transfer copies.
const MOST: usize = 1_000_000;

impl Tool for Transfer {
    const NAME: &'static str = "transfer";
    const DESCRIPTION: &'static str =
        "Copy a file, or with recursive a directory, from one sandbox to another. Gives the bytes copied.";
    type Input = Input;

    async fn call<P: Provider>(pool: &Pool<P>, input: Input) -> Result<Reply> {
        let (from_path, to_path) = (input::path(&input.from_path)?, input::path(&input.to_path)?);
        let (from_path, to_path) = (from_path.trim_end_matches('/'), to_path.trim_end_matches('/'));
        let Some((parent, _)) = to_path.rsplit_once('/') else {
            return Err(Error::new(Code::IsDirectory, "`/` is there already: name a path in it"));
        };
        let from = pool.sandbox(&input.from_sandbox).await?;
        let to = pool.sandbox(&input.to_sandbox).await?;
        let tree = Tree::of(&from, from_path, input.recursive).await?;
        if let Ok(Stat { kind: Kind::Directory, .. }) = to.stat(anywhere(to_path)).await {
            let (code, what) = if tree.is_file() {
                (Code::IsDirectory, "is a directory")
            } else {
                (Code::AlreadyExists, "is there already")
            };
            return Err(Error::new(code, format!("`{to_path}` {what}: name another path")));
        }
        let beside = format!("{parent}/.koze-transfer-{}", uuid::Uuid::new_v4().simple());
        let copied = async {
            let bytes = tree.copy(&from, from_path, &to, &beside).await?;
            to.rename(anywhere(&beside), anywhere(to_path)).await?;
            Ok(bytes)
        }
        .await;
        if copied.is_err() {
            // What is left of it, if anything is, helps nobody.
            let _ = to.remove(anywhere(&beside)).await;
        }
        let bytes: u64 = copied?;
        Reply::ok(json!({ "ok": true, "bytes": bytes }))
    }
}

/// What is copied: read whole before the first byte is written, so that a copy into itself comes to an end.
struct Tree {
    /// The paths below the first one, which is empty, directories before what is in them.
    entries: Vec<(String, Stat)>,
}

impl Tree {
    async fn of<S: Sandbox>(sandbox: &S, path: &str, recursive: bool) -> Result<Tree> {
        let mut stat = sandbox.stat(anywhere(if path.is_empty() { "/" } else { path })).await?;
        if let Kind::Link(_) = stat.kind {
            // The one that is named is followed; links in a tree stay links.
            stat = match sandbox.list(anywhere(path)).await {
                Ok(_) => Stat { kind: Kind::Directory, size: 0, mode: 0o755 },
                Err(error) if error.code == Code::NotADirectory => {
                    Stat { kind: Kind::File, size: 0, mode: 0o644 }
                }
                Err(error) => return Err(error),
            };
        }
        let is_directory = stat.kind == Kind::Directory;
        if is_directory && !recursive {
            let message =
                format!("`{path}` is a directory: say `recursive` to copy it with all that is in it");
            return Err(Error::new(Code::IsDirectory, message));
        }
        let mut entries = vec![(String::new(), stat)];
        let mut left = if is_directory { vec![String::new()] } else { Vec::new() };
        while let Some(dir) = left.pop() {
            for Entry { name, stat } in sandbox.list(anywhere(&format!("{path}{dir}/"))).await? {
                let entry = format!("{dir}/{name}");
                if stat.kind == Kind::Directory {
                    left.push(entry.clone());
                }
                entries.push((entry, stat));
            }
            if entries.len() > MOST {
                let message = format!("`{path}` has more than {MOST} files and directories");
                return Err(Error::new(Code::TooLarge, message));
            }
        }
        Ok(Tree { entries })
    }

    fn is_file(&self) -> bool {
        self.entries[0].1.kind != Kind::Directory
    }

    /// Copies it, and returns the bytes of its files.
    async fn copy<S: Sandbox>(&self, from: &S, from_path: &str, to: &S, to_path: &str) -> Result<u64> {
        let mut bytes = 0;
        for (entry, stat) in &self.entries {
            let source = format!("{from_path}{entry}");
            let target = format!("{to_path}{entry}");
            match &stat.kind {
                Kind::Directory => to.make_dir(anywhere(&target)).await?,
                Kind::Link(leads) => to.make_link(anywhere(&target), leads).await?,
                Kind::File => bytes += copy_file(from, &source, to, &target, stat.mode).await?,
                Kind::Other => {
                    let message = format!("`{source}` is no file, directory or link, and cannot be copied");
                    return Err(Error::new(Code::Unsupported, message));
                }
            }
        }
        // At the end, and the deepest first: a directory may be one that nothing can be written to.
        for (entry, stat) in self.entries.iter().rev().filter(|(_, stat)| stat.kind == Kind::Directory) {
            to.set_mode(anywhere(&format!("{to_path}{entry}")), stat.mode).await?;
        }
        Ok(bytes)
    }
}

async fn copy_file<S: Sandbox>(from: &S, source: &str, to: &S, target: &str, mode: u32) -> Result<u64> {
    let mut offset = 0;
    loop {
        let piece = from.read(anywhere(source), offset, PIECE).await?;
        let count = piece.bytes.len() as u64;
        if count > 0 || offset == 0 {
            let how = if offset == 0 { Write::Replace } else { Write::Append };
            to.write(anywhere(target), piece.bytes, how).await?;
        }
        offset += count;
        if count < PIECE {
            break;
        }
    }
    to.set_mode(anywhere(target), mode).await?;
    Ok(offset)
}
