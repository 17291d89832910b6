//! Archives a directory of a sandbox.

use std::collections::VecDeque;

use futures_util::stream::try_unfold;
use koze_protocol::tar::{Entry, MAX_ENTRIES, What, end, padding, write_header};

use super::{Contents, Tar};
use crate::error::{Code, Error, Result};
use crate::sandbox::{Kind, Place, Sandbox, Stat};
use crate::together::try_join_all;
use crate::transfer::pieces::check_unreplaced;

/// How much of a large file is read at once, in bytes.
const PIECE: u64 = 1 << 20;
/// Files up to this size are read at the same time.
const SMALL: u64 = 128 << 10;
/// How many.
const AT_ONCE: usize = 16;

/// Returns a directory as a tar archive, in pieces, with what it has up to then. Lists every directory and reads every file by
/// the other operations.
pub fn pack<S: Sandbox>(sandbox: S, dir: String) -> Tar {
    let packer = Packer {
        sandbox,
        dir,
        left: VecDeque::new(),
        dirs: Vec::new(),
        file: None,
        contents: Contents::default(),
        root: (String::new(), None),
        is_reduced: false,
        state: State::Begin,
    };
    Box::pin(try_unfold(packer, |mut packer| async move {
        let mut archive = Vec::new();
        while archive.is_empty() {
            if !packer.append_next(&mut archive).await? {
                return Ok(None);
            }
        }
        let contents = packer.contents;
        Ok(Some(((archive, contents), packer)))
    }))
}

struct Packer<S> {
    sandbox: S,
    dir: String,
    /// The listed entries that are not yet archived.
    left: VecDeque<(String, Stat)>,
    /// The directories that are not yet listed.
    dirs: Vec<String>,
    /// The large file that is being read.
    file: Option<Open>,
    contents: Contents,
    /// What is known of the directory itself: its path, which is followed, and its time of modification.
    root: (String, Option<i64>),
    /// Whether something was removed after it was listed.
    is_reduced: bool,
    state: State,
}

#[derive(PartialEq)]
enum State {
    Begin,
    Within,
    Ended,
}

struct Open {
    path: String,
    stat: Stat,
    size: u64,
    offset: u64,
}

impl<S: Sandbox> Packer<S> {
    /// Appends the next part to the archive. Returns whether there was one.
    async fn append_next(&mut self, archive: &mut Vec<u8>) -> Result<bool> {
        if self.state == State::Ended {
            return Ok(false);
        }
        if self.state == State::Begin {
            self.append_root(archive).await?;
            self.state = State::Within;
        } else if let Some(file) = self.file.take() {
            self.file = self.append_piece(file, archive).await?;
        } else if !self.left.is_empty() {
            self.append_entries(archive).await?;
        } else if let Some(dir) = self.dirs.pop() {
            self.list_dir(&dir).await?;
        } else {
            self.check_root().await?;
            archive.extend(end());
            self.state = State::Ended;
        }
        Ok(true)
    }

    fn entry_path(&self, name: &str) -> String {
        format!("{}/{name}", self.dir)
    }

    fn place_at<'a>(&'a self, path: &'a str) -> Place<'a> {
        Place { root: &self.dir, path }
    }

    async fn append_root(&mut self, archive: &mut Vec<u8>) -> Result<()> {
        let mut path = self.dir.clone();
        let mut stat = self.sandbox.stat(self.place_at(&path)).await?;
        if let Kind::Link(_) = stat.kind {
            // With the dot, it is followed.
            path = self.entry_path(".");
            stat = self.sandbox.stat(self.place_at(&path)).await?;
        }
        if stat.kind != Kind::Directory {
            return Err(Error::new(Code::NotADirectory, format!("`{}` is not a directory", self.dir)));
        }
        self.root = (path, stat.mtime);
        write_header(&to_entry(String::new(), What::Directory, &stat), archive);
        self.dirs.push(String::new());
        Ok(())
    }

    /// Checks at the end that what was removed meanwhile was not removed by a restart of the container, after which the directory is
    /// missing, or as old as the image.
    async fn check_root(&self) -> Result<()> {
        let (path, before) = &self.root;
        if !self.is_reduced {
            return Ok(());
        }
        match self.sandbox.stat(self.place_at(path)).await {
            Ok(now) if now.mtime >= *before => Ok(()),
            Err(error) if error.code != Code::NotFound => Err(error),
            _ => Err(changed_error(&self.dir)),
        }
    }

    async fn list_dir(&mut self, dir: &str) -> Result<()> {
        let path = self.entry_path(dir);
        let mut entries = match self.sandbox.list(self.place_at(&path)).await {
            Ok(entries) => entries,
            // It was removed meanwhile.
            Err(error) if error.code == Code::NotFound && !dir.is_empty() => {
                self.is_reduced = true;
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        let below = |name: String| if dir.is_empty() { name } else { format!("{dir}/{name}") };
        self.left.extend(entries.into_iter().map(|entry| (below(entry.name), entry.stat)));
        Ok(())
    }

    /// Archives what is small, several at once, or begins a large file.
    async fn append_entries(&mut self, archive: &mut Vec<u8>) -> Result<()> {
        let is_large = |stat: &Stat| stat.kind == Kind::File && stat.size > SMALL;
        if let Some((name, stat)) = self.left.pop_front_if(|(_, stat)| is_large(stat)) {
            let path = self.entry_path(&name);
            self.count_entry(stat.size)?;
            write_header(&to_entry(name, What::File(stat.size), &stat), archive);
            self.file = Some(Open { path, size: stat.size, offset: 0, stat });
            return Ok(());
        }
        let count = self.left.iter().take(AT_ONCE).take_while(|(_, stat)| !is_large(stat)).count();
        let several: Vec<_> = self.left.drain(..count).collect();
        let contents = try_join_all(several.iter().map(|(name, stat)| self.read_small(name, stat))).await?;
        for ((name, stat), content) in several.into_iter().zip(contents) {
            let (what, content) = match (&stat.kind, content) {
                (Kind::Directory, _) => {
                    self.dirs.push(name.clone());
                    (What::Directory, Vec::new())
                }
                (Kind::Link(target), _) => (What::Link(self.check_link_target(&name, target)?), Vec::new()),
                (Kind::File, Some(content)) => (What::File(content.len() as u64), content),
                // It was removed meanwhile.
                (Kind::File, None) => {
                    self.is_reduced = true;
                    continue;
                }
                // A socket, pipe or device is of no use elsewhere.
                (Kind::Other, _) => {
                    self.contents.skipped += 1;
                    continue;
                }
            };
            self.count_entry(content.len() as u64)?;
            write_header(&to_entry(name, what, &stat), archive);
            archive.extend(&content);
            archive.extend(padding(content.len() as u64));
        }
        Ok(())
    }

    /// Returns the target of a link. Bytes that are not UTF-8 are replaced in a listing, and the link would lead elsewhere.
    fn check_link_target(&self, name: &str, target: &str) -> Result<String> {
        if target.contains('\u{fffd}') {
            let message = format!(
                "the target of the link `{}` is not UTF-8, or has U+FFFD: change it, or remove the link",
                self.entry_path(name)
            );
            return Err(Error::new(Code::Unsupported, message));
        }
        Ok(target.to_owned())
    }

    /// Reads a small file. Returns nothing if it no longer exists.
    async fn read_small(&self, name: &str, stat: &Stat) -> Result<Option<Vec<u8>>> {
        let path = self.entry_path(name);
        if stat.kind != Kind::File {
            // Bytes that are not UTF-8 are replaced in a listing, and nothing has that name.
            if name.contains('\u{fffd}') {
                self.check_exists(&path).await?;
            }
            return Ok(None);
        }
        match self.sandbox.read(self.place_at(&path), 0, SMALL + 1).await {
            Ok(piece) if piece.bytes.len() as u64 <= SMALL => Ok(Some(piece.bytes)),
            Ok(_) => Err(changed_error(&path)),
            Err(error) if error.code == Code::NotFound => {
                if name.contains('\u{fffd}') {
                    self.check_exists(&path).await?;
                }
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    async fn check_exists(&self, path: &str) -> Result<()> {
        match self.sandbox.stat(self.place_at(path)).await {
            Err(error) if error.code == Code::NotFound => {
                let message = format!("the name of `{path}` is not UTF-8: rename it, or remove it");
                Err(Error::new(Code::Unsupported, message))
            }
            stat => stat.map(drop),
        }
    }

    /// Appends a piece of a large file. Returns the rest.
    async fn append_piece(&mut self, file: Open, archive: &mut Vec<u8>) -> Result<Option<Open>> {
        let Open { path, stat, size, offset } = file;
        let limit = PIECE.min(size - offset);
        let piece = match self.sandbox.read(self.place_at(&path), offset, limit).await {
            Err(error) if error.code == Code::NotFound => return Err(changed_error(&path)),
            piece => piece?,
        };
        if piece.bytes.len() as u64 != limit {
            return Err(changed_error(&path));
        }
        archive.extend(piece.bytes);
        let offset = offset + limit;
        if offset == size {
            if size > PIECE {
                check_unreplaced(&self.sandbox, self.place_at(&path), &stat, size).await?;
            }
            archive.extend(padding(size));
            return Ok(None);
        }
        Ok(Some(Open { path, stat, size, offset }))
    }

    fn count_entry(&mut self, bytes: u64) -> Result<()> {
        self.contents.entries += 1;
        self.contents.bytes += bytes;
        if self.contents.entries > MAX_ENTRIES {
            let message = format!("`{}` has more than {MAX_ENTRIES} files and directories", self.dir);
            return Err(Error::new(Code::TooLarge, message));
        }
        Ok(())
    }
}

fn to_entry(name: String, what: What, stat: &Stat) -> Entry {
    let mtime = stat.mtime.and_then(|mtime| u64::try_from(mtime / 1000).ok()).unwrap_or_default();
    Entry { name, what, mode: stat.mode & 0o7777, mtime }
}

fn changed_error(path: &str) -> Error {
    Error::new(Code::Unavailable, format!("`{path}` was changed while it was archived: try again"))
}
