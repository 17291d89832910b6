//! `COPY` and `ADD`: files of the build context or of another image become a layer.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use globset::GlobBuilder;
use koze_image::{Entry, EntryKind, NewLayer, Tree};

use super::context::{Context, list_entries};
use super::inputs::hash_entry;

/// The mode of directories that the image lacks.
const DIRECTORY: u32 = 0o755;
/// The mode of a here-document.
const FILE: u32 = 0o644;

/// Where files come from.
pub(super) enum Origin<'a> {
    Context(&'a Context),
    Image(Tree),
}

impl Origin<'_> {
    fn tree(&self) -> &Tree {
        match self {
            Origin::Context(context) => &context.tree,
            Origin::Image(tree) => tree,
        }
    }

    fn list(&self, from: &Path) -> io::Result<BTreeMap<PathBuf, Entry>> {
        match self {
            Origin::Context(context) => context.list(from),
            Origin::Image(tree) => list_entries(tree, from, None),
        }
    }

    fn ignores(&self, path: &Path) -> bool {
        matches!(self, Origin::Context(context) if context.ignores(path))
    }

    /// Returns the words for where the files come from.
    fn words(&self) -> &'static str {
        match self {
            Origin::Context(_) => "the build context",
            Origin::Image(_) => "the image",
        }
    }
}

/// What an instruction copies.
pub(super) struct Copied<'a> {
    pub(super) origin: Origin<'a>,
    /// The paths to copy from, as the instruction names them.
    pub(super) paths: Vec<String>,
    /// The contents of here-documents.
    pub(super) documents: Vec<String>,
    /// The absolute path to copy to. One that ends with a slash is a directory.
    pub(super) target: String,
    /// The mode of everything that is copied, if the instruction sets it.
    pub(super) mode: Option<u32>,
    /// Whether archives would be unpacked, as by `ADD`.
    pub(super) unpacks: bool,
}

/// A file, directory or link to create in the image.
struct Item {
    /// The path in the image, relative to its root.
    target: PathBuf,
    content: Content,
}

enum Content {
    Entry(Entry),
    Document(String),
}

/// The files to create in an image.
pub(super) struct Items<'a> {
    list: Vec<Item>,
    origin: Origin<'a>,
    mode: Option<u32>,
}

/// Finds what an instruction copies.
///
/// # Errors
/// Returns what is wrong with the instruction.
pub(super) fn find_items<'a>(copied: Copied<'a>, image: &Tree) -> Result<Items<'a>, String> {
    let Copied { origin, paths, documents, target, mode, unpacks } = copied;
    let failed = |error: io::Error| format!("`{}`: {error}", target.escape_debug());
    let into = image.resolve(Path::new(&target)).map_err(failed)?;
    let there = image.find(&into).map_err(failed)?;
    let mut found = Vec::new();
    for path in &paths {
        found.extend(find_sources(&origin, path)?);
    }
    let is_directory = target.ends_with('/')
        || there.is_some_and(|entry| entry.kind == EntryKind::Directory)
        || found.len() + documents.len() > 1;
    let mut items = Vec::new();
    for document in documents {
        if is_directory {
            return Err("name the file that this text becomes: the target is a directory".to_owned());
        }
        items.push(Item { target: into.clone(), content: Content::Document(document) });
    }
    for path in found {
        let failed = |error: io::Error| format!("`{}`: {error}", path.display().to_string().escape_debug());
        let real = origin.tree().resolve(&path).map_err(failed)?;
        let entries = origin.list(&real).map_err(failed)?;
        for (below, entry) in entries {
            let below = below.strip_prefix(&real).unwrap_or(&below).to_owned();
            if entry.kind == EntryKind::Other {
                let is_top = below.as_os_str().is_empty();
                let shown = if is_top { path } else { path.join(below) }.display().to_string();
                return Err(format!("`{}` is neither a file, a directory nor a link", shown.escape_debug()));
            }
            let is_top_file = below.as_os_str().is_empty() && entry.kind != EntryKind::Directory;
            if is_top_file && unpacks && is_archive(origin.tree(), &entry).map_err(failed)? {
                return Err(format!(
                    "`{}` is an archive, which `ADD` unpacks and koze does not: unpack it yourself, or install docker, podman or buildah",
                    path.display().to_string().escape_debug()
                ));
            }
            let target = match path.file_name() {
                Some(name) if is_top_file && is_directory => into.join(name),
                _ if below.as_os_str().is_empty() => into.clone(),
                _ => into.join(below),
            };
            items.push(Item { target, content: Content::Entry(entry) });
        }
    }
    Ok(Items { list: items, origin, mode })
}

/// Returns the paths that a source of an instruction means.
fn find_sources(origin: &Origin, path: &str) -> Result<Vec<PathBuf>, String> {
    let shown = path.escape_debug();
    if path.contains("://") || path.starts_with("git@") {
        return Err(format!(
            "koze does not download `{shown}`: download it in `RUN`, or install docker, podman or buildah"
        ));
    }
    let mut clean = PathBuf::new();
    for component in Path::new(path).components() {
        match component {
            Component::Normal(name) => clean.push(name),
            Component::ParentDir => {
                return Err(format!("`{shown}` leads out of {}: name a path in it", origin.words()));
            }
            _ => {}
        }
    }
    let failed = |error: io::Error| format!("`{shown}`: {error}");
    if path.contains(['*', '?', '[']) {
        let pattern = clean.to_string_lossy().replace('{', "[{]").replace('}', "[}]");
        let glob = GlobBuilder::new(&pattern).literal_separator(true).backslash_escape(true).build();
        let matcher = glob.map_err(|error| format!("`{shown}`: {}", error.kind()))?.compile_matcher();
        let all = origin.list(Path::new("")).map_err(failed)?;
        let matching: Vec<_> = all.into_keys().filter(|path| matcher.is_match(path)).collect();
        if matching.is_empty() {
            return Err(format!("no file of {} matches `{shown}`", origin.words()));
        }
        return Ok(matching);
    }
    let real = origin.tree().resolve(&clean).map_err(failed)?;
    let is_there = origin.tree().find(&real).map_err(failed)?.is_some();
    if is_there && !origin.ignores(&real) && !origin.ignores(&clean) {
        return Ok(vec![clean]);
    }
    let excluded = if is_there { ": `.dockerignore` excludes it" } else { "" };
    Err(format!("{} has no `{shown}`{excluded}", origin.words()))
}

/// Returns whether `ADD` would unpack a file.
fn is_archive(tree: &Tree, entry: &Entry) -> io::Result<bool> {
    let mut start = Vec::new();
    tree.open_file(entry)?.take(512).read_to_end(&mut start)?;
    let is_compressed = matches!(
        &start[..],
        [0x1f, 0x8b, ..]
            | [0x28, 0xb5, 0x2f, 0xfd, ..]
            | [0xfd, b'7', b'z', b'X', b'Z', 0, ..]
            | [b'B', b'Z', b'h', ..]
    );
    Ok(is_compressed || start.get(257..262) == Some(b"ustar"))
}

impl Items<'_> {
    /// Returns everything that the layer depends on, as parts of a key.
    pub(super) fn key_parts(&self) -> io::Result<Vec<Vec<u8>>> {
        let mut parts = vec![format!("{:?}", self.mode).into_bytes()];
        for Item { target, content } in &self.list {
            parts.push(target.as_os_str().as_bytes().to_vec());
            parts.push(match content {
                Content::Entry(entry) => hash_entry(self.origin.tree(), entry)?,
                Content::Document(text) => [b"document ", text.as_bytes()].concat(),
            });
        }
        Ok(parts)
    }

    /// Adds the files to a layer on top of an image.
    pub(super) fn write(&self, layer: &mut NewLayer, image: &Tree) -> io::Result<()> {
        let mut parents = Parents::new(image);
        for Item { target, content } in &self.list {
            let entry = match content {
                Content::Document(text) => {
                    let path = parents.place(layer, target)?;
                    let mode = self.mode.unwrap_or(FILE);
                    layer.add_file(&path, mode, 0, text.len() as u64, text.as_bytes())?;
                    continue;
                }
                Content::Entry(entry) => entry,
            };
            let (mode, mtime) = (self.mode.unwrap_or(entry.mode), entry.mtime);
            match entry.kind {
                EntryKind::Directory => {
                    // Who may read it may enter it: not even root of a sandbox could otherwise.
                    let mode = mode | ((mode & 0o444) >> 2);
                    let path = image.resolve(target)?;
                    if image.find(&path)?.is_none() && !path.as_os_str().is_empty() {
                        parents.create(layer, path.parent().unwrap_or(Path::new("")))?;
                        parents.add(layer, &path, mode, mtime)?;
                    } else {
                        parents.create(layer, &path)?;
                    }
                }
                EntryKind::File => {
                    let path = parents.place(layer, target)?;
                    let file = self.origin.tree().open_file(entry)?;
                    layer.add_file(&path, mode, mtime, entry.size, file)?;
                }
                EntryKind::Link => {
                    let path = parents.place(layer, target)?;
                    layer.add_link(&path, &self.origin.tree().read_link(entry)?, mtime)?;
                }
                EntryKind::Other => {
                    return Err(io::Error::other("it is neither a file, a directory nor a link"));
                }
            }
        }
        Ok(())
    }
}

/// The directories of a layer. Those that the image has are repeated in the layer with their modes: the upper one counts.
pub(super) struct Parents<'a> {
    image: &'a Tree,
    added: HashSet<PathBuf>,
    /// The last directory of a file, as it was named and without links: the next file is in the same one in most cases.
    last: Option<(PathBuf, PathBuf)>,
}

impl<'a> Parents<'a> {
    pub(super) fn new(image: &'a Tree) -> Self {
        Parents { image, added: HashSet::new(), last: None }
    }

    /// Creates the directory of a path, and returns the path without links in the directory.
    fn place(&mut self, layer: &mut NewLayer, target: &Path) -> io::Result<PathBuf> {
        let (Some(directory), Some(name)) = (target.parent(), target.file_name()) else {
            return Err(io::Error::other("a file cannot replace the root directory"));
        };
        let real = match &self.last {
            Some((named, real)) if named == directory => real.clone(),
            _ => {
                let real = self.image.resolve(directory)?;
                self.create(layer, &real)?;
                self.last = Some((directory.to_owned(), real.clone()));
                real
            }
        };
        let path = real.join(name);
        match self.image.find(&path)? {
            Some(entry) if entry.kind == EntryKind::Directory => {
                Err(io::Error::other(format!("/{} is a directory in the image", path.display())))
            }
            _ => Ok(path),
        }
    }

    /// Creates a directory and its parents. The path is one without links.
    pub(super) fn create(&mut self, layer: &mut NewLayer, directory: &Path) -> io::Result<()> {
        let above: Vec<_> = directory.ancestors().filter(|path| !path.as_os_str().is_empty()).collect();
        for path in above.into_iter().rev() {
            match self.image.find(path)? {
                None => self.add(layer, path, DIRECTORY, 0)?,
                Some(entry) if entry.kind == EntryKind::Directory => {
                    self.add(layer, path, entry.mode, entry.mtime)?;
                }
                Some(_) => {
                    return Err(io::Error::other(format!(
                        "/{} is not a directory in the image",
                        path.display()
                    )));
                }
            }
        }
        Ok(())
    }

    /// Adds a directory, unless the layer has it.
    fn add(&mut self, layer: &mut NewLayer, path: &Path, mode: u32, mtime: u64) -> io::Result<()> {
        if self.added.insert(path.to_owned()) { layer.add_directory(path, mode, mtime) } else { Ok(()) }
    }
}
