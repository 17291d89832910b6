//! A file system in memory: nodes by absolute path. Symbolic links are resolved as on Linux.

use std::collections::BTreeMap;

use crate::error::{Code, Error, Result};
use crate::sandbox::{
    Change, Edit, Edited, Entry, Kind, LineRange, LineReader, Lines, Piece, Place, Stat, Write, misfit,
    rejected,
};
use koze_protocol::Misfit;
use koze_protocol::edit::Applied;

/// The maximum total size of all files in bytes.
const LIMIT: usize = 16 * 1024 * 1024;

/// The maximum number of links in a path.
const LINKS: usize = 40;

/// The maximum length of a name in bytes.
const NAME: usize = 255;

/// A file system with a root and the usual directories.
#[derive(Debug)]
pub(super) struct Tree {
    /// The nodes by path, without links, `.` and `..`. The root is the empty path.
    nodes: BTreeMap<String, Node>,
    /// The number of changes so far.
    changes: u64,
}

#[derive(Debug, Clone)]
struct Node {
    mode: u32,
    what: What,
    /// When its content changed, in milliseconds since the epoch.
    mtime: i64,
    /// The number of the change that made it as it is.
    version: u64,
}

#[derive(Debug, Clone)]
enum What {
    File(Vec<u8>),
    Directory,
    Link(String),
}

impl Tree {
    /// Creates a file system.
    pub(super) fn new() -> Self {
        let directory = Node { mode: 0o755, what: What::Directory, mtime: now_millis(), version: 0 };
        let paths = [
            "",
            "/home",
            "/home/user",
            "/mnt",
            "/mnt/user-data",
            "/mnt/user-data/outputs",
            "/mnt/user-data/uploads",
            "/mnt/user-data/workspace",
            "/tmp",
            "/workspace",
        ];
        let nodes = paths.into_iter().map(|path| (path.to_owned(), directory.clone())).collect();
        Tree { nodes, changes: 0 }
    }

    /// Stores a new or changed node.
    fn put_node(&mut self, path: String, mode: u32, what: What) {
        self.changes += 1;
        self.nodes.insert(path, Node { mode, what, mtime: now_millis(), version: self.changes });
    }

    pub(super) fn read(&self, place: Place, offset: u64, limit: u64) -> Result<Piece> {
        let bytes = self.file_content(place)?;
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        let end = start.saturating_add(usize::try_from(limit).unwrap_or(usize::MAX)).min(bytes.len());
        Ok(Piece { bytes: bytes[start..end].to_vec(), size: bytes.len() as u64 })
    }

    pub(super) fn write(&mut self, place: Place, bytes: &[u8], how: Write) -> Result<u64> {
        let path = self.resolve_path(place, true)?;
        let before = match self.nodes.get(&path) {
            Some(Node { what: What::File(before), mode, .. }) => Some((before.clone(), *mode)),
            Some(_) => return Err(is_directory(place)),
            None => None,
        };
        if let Write::At(offset) = how {
            let size = before.as_ref().map(|(content, _)| content.len() as u64);
            Misfit::check(offset, size).map_err(|why| misfit(why, place.path))?;
        }
        let (mut content, mode) = before.unwrap_or((Vec::new(), 0o644));
        let others = self.total_size() - content.len();
        if how == Write::Replace {
            content.clear();
        }
        if others + content.len() + bytes.len() > LIMIT {
            let message = format!("a sandbox in memory holds at most {LIMIT} bytes");
            return Err(Error::new(Code::TooLarge, message));
        }
        self.create_parents(&path, place)?;
        content.extend_from_slice(bytes);
        let size = content.len() as u64;
        self.put_node(path, mode, What::File(content));
        Ok(size)
    }

    pub(super) fn edit(&mut self, place: Place, edit: &Edit) -> Result<Edited> {
        edit.check().map_err(|why| rejected(why, place.path))?;
        match edit.apply(self.file_content(place)?).map_err(|why| rejected(why, place.path))? {
            Applied::Changed { content, replaced } => {
                let size = self.write(place, &content, Write::Replace)?;
                Ok(Edited::Done { size, replaced })
            }
            Applied::Unchanged(edited) => Ok(edited),
        }
    }

    pub(super) fn read_lines(&self, place: Place, range: LineRange) -> Result<Lines> {
        let mut reader = LineReader::new(range)?;
        let bytes = self.file_content(place)?;
        reader.feed(bytes);
        Ok(reader.finish(bytes.len() as u64))
    }

    pub(super) fn list(&self, place: Place) -> Result<Vec<Entry>> {
        let path = self.resolve_path(place, true)?;
        if !matches!(self.find_node(&path, place)?.what, What::Directory) {
            return Err(not_a_directory(place));
        }
        let prefix = format!("{path}/");
        let below = self.nodes.range(prefix.clone()..).take_while(|(path, _)| path.starts_with(&prefix));
        let entry = |(path, node): (&String, &Node)| {
            let name = &path[prefix.len()..];
            (!name.contains('/')).then(|| Entry { name: name.to_owned(), stat: to_stat(node) })
        };
        Ok(below.filter_map(entry).collect())
    }

    pub(super) fn stat(&self, place: Place) -> Result<Stat> {
        let path = self.resolve_path(place, false)?;
        Ok(to_stat(self.find_node(&path, place)?))
    }

    pub(super) fn apply_change(&mut self, change: &Change) -> Result<()> {
        match change {
            Change::MakeDir(place) => self.make_dir(place.borrowed()),
            Change::MakeLink { root, path, target } => self.make_link(Place { root, path }, target),
            Change::SetMode { root, path, mode } => self.set_mode(Place { root, path }, *mode),
            Change::Remove(place) => self.remove(place.borrowed()),
            Change::Rename { from, to } => self.rename(from.borrowed(), to.borrowed()),
        }
    }

    fn make_dir(&mut self, place: Place) -> Result<()> {
        let path = self.resolve_path(place, true)?;
        match self.nodes.get(&path).map(|node| &node.what) {
            Some(What::Directory) => Ok(()),
            Some(_) => Err(already_exists(place)),
            None => {
                self.create_parents(&path, place)?;
                self.put_node(path, 0o755, What::Directory);
                Ok(())
            }
        }
    }

    fn make_link(&mut self, place: Place, target: &str) -> Result<()> {
        let path = self.resolve_path(place, false)?;
        if self.nodes.contains_key(&path) {
            return Err(already_exists(place));
        }
        self.create_parents(&path, place)?;
        self.put_node(path, 0o777, What::Link(target.to_owned()));
        Ok(())
    }

    fn set_mode(&mut self, place: Place, mode: u32) -> Result<()> {
        let path = self.resolve_path(place, true)?;
        let node = self.nodes.get_mut(&path).ok_or_else(|| not_found(place))?;
        self.changes += 1;
        (node.mode, node.version) = (mode & 0o7777, self.changes);
        Ok(())
    }

    fn remove(&mut self, place: Place) -> Result<()> {
        let path = self.resolve_path(place, false)?;
        self.find_node(&path, place)?;
        if path.is_empty() {
            let message = "the root cannot be removed";
            return Err(Error::new(Code::PermissionDenied, message));
        }
        if path == place.root {
            // As on Linux: the directory that holds it is outside.
            let message = format!("`{}` is outside of `{}`", place.path, place.root);
            return Err(Error::new(Code::PathEscape, message));
        }
        let inside = format!("{path}/");
        self.nodes.retain(|other, _| *other != path && !other.starts_with(&inside));
        Ok(())
    }

    fn rename(&mut self, from: Place, to: Place) -> Result<()> {
        let (old, new) = (self.resolve_path(from, false)?, self.resolve_path(to, false)?);
        let moved = self.find_node(&old, from)?.clone();
        if old == new {
            return Ok(());
        }
        let inside = format!("{old}/");
        if old.is_empty() || new.starts_with(&inside) {
            let message = format!("`{}` cannot be moved into itself", from.path);
            return Err(Error::new(Code::InvalidInput, message));
        }
        match (self.nodes.get(&new).map(|node| &node.what), &moved.what) {
            (Some(What::Directory), What::Directory) if !self.list(to)?.is_empty() => {
                return Err(already_exists(to));
            }
            (Some(What::Directory), What::Directory) | (None, _) => {}
            (Some(What::Directory), _) => return Err(is_directory(to)),
            (Some(_), What::Directory) => return Err(not_a_directory(to)),
            (Some(_), _) => {}
        }
        self.create_parents(&new, to)?;
        let below: Vec<String> = self
            .nodes
            .range(inside.clone()..)
            .map(|(path, _)| path.clone())
            .take_while(|path| path.starts_with(&inside))
            .collect();
        for path in below {
            if let Some(node) = self.nodes.remove(&path) {
                self.nodes.insert(format!("{new}/{}", &path[inside.len()..]), node);
            }
        }
        self.nodes.remove(&old);
        self.nodes.insert(new, moved);
        Ok(())
    }

    /// Returns the content of a file.
    fn file_content(&self, place: Place) -> Result<&[u8]> {
        match &self.find_node(&self.resolve_path(place, true)?, place)?.what {
            What::File(bytes) => Ok(bytes),
            _ => Err(is_directory(place)),
        }
    }

    fn total_size(&self) -> usize {
        let size = |node: &Node| if let What::File(bytes) = &node.what { bytes.len() } else { 0 };
        self.nodes.values().map(size).sum()
    }

    fn find_node(&self, path: &str, place: Place) -> Result<&Node> {
        self.nodes.get(path).ok_or_else(|| not_found(place))
    }

    /// Creates the parent directories of a path.
    fn create_parents(&mut self, path: &str, place: Place) -> Result<()> {
        for (end, _) in path.match_indices('/') {
            let parent = &path[..end];
            match self.nodes.get(parent).map(|node| &node.what) {
                Some(What::Directory) => {}
                Some(_) => return Err(not_a_directory(place)),
                None => {
                    self.put_node(parent.to_owned(), 0o755, What::Directory);
                }
            }
        }
        Ok(())
    }

    /// Resolves links, `.` and `..`. `follow` says whether to follow a final link. Missing components are kept as
    /// written.
    fn resolve_path(&self, place: Place, follow: bool) -> Result<String> {
        let mut resolved = String::new();
        let mut left: Vec<String> = reversed_components(place.path);
        let mut links = 0;
        while let Some(part) = left.pop() {
            match part.as_str() {
                "." => continue,
                ".." => {
                    resolved.truncate(resolved.rfind('/').unwrap_or(0));
                    continue;
                }
                _ => {}
            }
            let next = format!("{resolved}/{part}");
            match self.nodes.get(&next).map(|node| &node.what) {
                Some(What::Link(target)) if follow || !left.is_empty() => {
                    links += 1;
                    if links > LINKS {
                        let message = format!("`{}` has too many levels of symbolic links", place.path);
                        return Err(Error::new(Code::InvalidInput, message));
                    }
                    if target.starts_with('/') {
                        resolved.clear();
                    }
                    left.extend(reversed_components(target));
                }
                Some(What::File(_)) if !left.is_empty() || place.path.ends_with('/') => {
                    return Err(not_a_directory(place));
                }
                _ if part.len() > NAME => {
                    let message = format!("`{}` has a name longer than {NAME} bytes", place.path);
                    return Err(Error::new(Code::InvalidInput, message));
                }
                _ => resolved = next,
            }
        }
        let root = place.root.trim_end_matches('/');
        if resolved == root || resolved.starts_with(&format!("{root}/")) || root.is_empty() {
            Ok(resolved)
        } else {
            let message = format!("`{}` is outside of `{}`", place.path, place.root);
            Err(Error::new(Code::PathEscape, message))
        }
    }
}

/// Returns the components of a path, last one first.
fn reversed_components(path: &str) -> Vec<String> {
    path.split('/').filter(|part| !part.is_empty()).rev().map(str::to_owned).collect()
}

fn to_stat(node: &Node) -> Stat {
    let (kind, size) = match &node.what {
        What::File(bytes) => (Kind::File, bytes.len()),
        What::Directory => (Kind::Directory, 0),
        What::Link(target) => (Kind::Link(target.clone()), target.len()),
    };
    Stat { kind, size: size as u64, mode: node.mode, mtime: Some(node.mtime), version: Some(node.version) }
}

/// Returns the milliseconds since the epoch.
fn now_millis() -> i64 {
    crate::time::now().cast_signed()
}

fn not_found(place: Place) -> Error {
    Error::new(Code::NotFound, format!("`{}` does not exist", place.path))
}

fn already_exists(place: Place) -> Error {
    Error::new(Code::AlreadyExists, format!("`{}` already exists", place.path))
}

fn is_directory(place: Place) -> Error {
    Error::new(Code::IsDirectory, format!("`{}` is a directory, not a file", place.path))
}

fn not_a_directory(place: Place) -> Error {
    Error::new(Code::NotADirectory, format!("`{}` is not a directory", place.path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(path: &str) -> Place<'_> {
        Place { root: "/", path }
    }

    fn code<T: std::fmt::Debug>(result: Result<T>) -> Code {
        result.unwrap_err().code
    }

    #[test]
    fn links_are_followed_as_linux_does() {
        let mut tree = Tree::new();
        tree.write(at("/tmp/a/file"), b"1", Write::Replace).unwrap();
        tree.make_link(at("/tmp/link"), "a").unwrap();
        tree.make_link(at("/tmp/up"), "/tmp/a/../a/file").unwrap();
        tree.make_link(at("/tmp/loop"), "loop").unwrap();
        assert_eq!(tree.read(at("/tmp/link/file"), 0, 9).unwrap().bytes, b"1");
        assert_eq!(tree.read(at("/tmp/up"), 0, 9).unwrap().bytes, b"1");
        // As on Linux, `..` after a link is the parent of the link's target.
        assert_eq!(tree.read(at("/tmp/link/../a/file"), 0, 9).unwrap().bytes, b"1");
        assert_eq!(code(tree.read(at("/tmp/loop"), 0, 9)), Code::InvalidInput);
        assert_eq!(tree.stat(at("/tmp/loop")).unwrap().kind, Kind::Link("loop".to_owned()));
        assert_eq!(code(tree.read(at("/tmp/up/x"), 0, 9)), Code::NotADirectory);
    }

    #[test]
    fn no_path_escapes_its_root() {
        let mut tree = Tree::new();
        tree.write(at("/tmp/secret"), b"s", Write::Replace).unwrap();
        tree.make_link(at("/workspace/out"), "../tmp").unwrap();
        let inside = |path| Place { root: "/workspace", path };
        assert_eq!(code(tree.read(inside("/workspace/out/secret"), 0, 9)), Code::PathEscape);
        assert_eq!(code(tree.read(inside("/workspace/../tmp/secret"), 0, 9)), Code::PathEscape);
        assert_eq!(code(tree.write(inside("/workspacex"), b"", Write::Replace)), Code::PathEscape);
        tree.write(inside("/workspace/out/../../workspace/ok"), b"", Write::Replace).unwrap();
    }

    #[test]
    fn a_directory_moves_with_what_is_in_it() {
        let mut tree = Tree::new();
        tree.write(at("/tmp/a/b/c"), b"1", Write::Replace).unwrap();
        tree.write(at("/tmp/ab"), b"2", Write::Replace).unwrap();
        assert_eq!(code(tree.rename(at("/tmp/a"), at("/tmp/a/b/x"))), Code::InvalidInput);
        tree.rename(at("/tmp/a"), at("/home/new/a")).unwrap();
        assert_eq!(tree.read(at("/home/new/a/b/c"), 0, 9).unwrap().bytes, b"1");
        assert_eq!(code(tree.stat(at("/tmp/a"))), Code::NotFound);
        assert_eq!(tree.read(at("/tmp/ab"), 0, 9).unwrap().bytes, b"2");
        tree.remove(at("/home/new")).unwrap();
        assert_eq!(code(tree.stat(at("/home/new/a/b/c"))), Code::NotFound);
    }

    #[test]
    fn total_size_is_limited() {
        let mut tree = Tree::new();
        tree.write(at("/tmp/a"), &vec![0; LIMIT], Write::Replace).unwrap();
        assert_eq!(code(tree.write(at("/tmp/b"), b"1", Write::Replace)), Code::TooLarge);
        assert_eq!(code(tree.write(at("/tmp/a"), b"1", Write::Append)), Code::TooLarge);
        assert_eq!(tree.write(at("/tmp/a"), b"1", Write::Replace).unwrap(), 1);
    }
}
