//! A directory for a test, with a store and with files that must not change.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use koze_image::{Error, Image, Limits, Reference, Store};
use tempfile::TempDir;

use crate::archives::{Layer, save};

pub(crate) struct Place {
    pub(crate) directory: TempDir,
    pub(crate) store: Store,
}

impl Place {
    /// Creates the store, and `outside` next to it, which images try to change.
    pub(crate) fn new() -> Self {
        let directory = tempfile::Builder::new().prefix("koze-image-").tempdir().unwrap();
        let outside = directory.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("file"), "untouched").unwrap();
        fs::set_permissions(outside.join("file"), fs::Permissions::from_mode(0o640)).unwrap();
        let store = Store::open(&directory.path().join("store")).unwrap();
        Self { directory, store }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn with_limits(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        let mut limits = Limits::default();
        change(&mut limits);
        self.store = self.store.with_limits(limits);
        self
    }

    /// Imports an image of these layers, and checks that nothing else changed.
    pub(crate) fn import(&self, layers: &[Layer]) -> Result<Image, Error> {
        let file = self.path("image.tar");
        fs::write(&file, save(layers, Some("test/image:1"))).unwrap();
        let before = self.surroundings();
        let imported = self.store.import(&file, None, &|_| ());
        assert_eq!(before, self.surroundings(), "the import changed something outside of the layers");
        assert_eq!(fs::read_dir(self.path("store/staging")).unwrap().count(), 0, "something is left behind");
        let imported = imported?;
        let [(reference, image)] = &imported[..] else { panic!("{} images", imported.len()) };
        assert_eq!(reference.whole(), "docker.io/test/image:1");
        assert_eq!(self.store.find(reference).unwrap().as_ref(), Some(image));
        Ok(image.clone())
    }

    /// Imports one layer, and returns its directory.
    pub(crate) fn unpack(&self, layer: Layer) -> PathBuf {
        let image = self.import(&[layer]).unwrap();
        let [layer] = &image.layers[..] else { panic!("{:?}", image.layers) };
        self.store.layers().join(layer)
    }

    /// Imports a layer that is refused, and returns the error. The store must be as before.
    pub(crate) fn refuse(&self, layer: Layer) -> String {
        self.refuse_image(&[layer])
    }

    pub(crate) fn refuse_image(&self, layers: &[Layer]) -> String {
        let error = self.import(layers).unwrap_err();
        assert!(self.store.find(&reference()).unwrap().is_none());
        assert_eq!(fs::read_dir(self.store.layers()).unwrap().count(), 0);
        error.to_string()
    }

    /// Returns everything but the content of the store's directories.
    fn surroundings(&self) -> BTreeMap<PathBuf, String> {
        let mut tree = BTreeMap::new();
        for entry in fs::read_dir(self.directory.path()).unwrap() {
            let entry = entry.unwrap();
            tree.insert(entry.file_name().into(), String::new());
            if entry.file_name() != "store" && entry.path().is_dir() {
                let below = crate::place::tree(&entry.path());
                tree.extend(below.into_iter().map(|(path, text)| (entry.path().join(path), text)));
            }
        }
        // An escape by one directory ends in the store itself.
        for entry in fs::read_dir(self.path("store")).unwrap() {
            tree.insert(entry.unwrap().file_name().into(), String::new());
        }
        tree
    }
}

pub(crate) fn reference() -> Reference {
    "test/image:1".parse().unwrap()
}

/// Returns the type, mode and content of everything below a directory. Links are not followed.
pub(crate) fn tree(directory: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut pending = vec![directory.to_owned()];
    while let Some(path) = pending.pop() {
        let metadata = path.symlink_metadata().unwrap();
        let kind = metadata.file_type();
        let mode = metadata.mode() & 0o7777;
        let text = if kind.is_dir() {
            pending.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            format!("directory {mode:o}")
        } else if kind.is_symlink() {
            format!("link {}", fs::read_link(&path).unwrap().display())
        } else if kind.is_char_device() {
            format!("device {}", metadata.rdev())
        } else if kind.is_fifo() {
            format!("pipe {mode:o}")
        } else {
            let content = fs::read(&path).unwrap_or_default();
            format!("file {mode:o} {}", String::from_utf8_lossy(&content[..content.len().min(100)]))
        };
        if path != directory {
            found.insert(path.strip_prefix(directory).unwrap().to_owned(), text);
        }
    }
    found
}

/// Returns the same as lines.
pub(crate) fn lines(directory: &Path) -> Vec<String> {
    tree(directory).into_iter().map(|(path, text)| format!("{}: {text}", path.display())).collect()
}

/// Lets every user read and enter.
pub(crate) fn open_to_all(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
}
