//! Short paths of sockets: a path of a socket has at most 107 bytes, and at most 103 on macOS.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::trust;

/// A path of a socket, which is valid until this is dropped.
#[derive(Debug)]
pub(super) struct ShortPath {
    path: PathBuf,
    /// Keeps the path valid.
    _held: Held,
}

#[cfg(namespaces)]
type Held = File;
#[cfg(not(namespaces))]
type Held = (File, Option<tempfile::TempDir>);

impl ShortPath {
    /// Returns a path through the directory's descriptor. The directory is checked after it is opened, so it cannot be replaced.
    #[cfg(namespaces)]
    pub(super) fn new(dir: &Path, name: &str) -> io::Result<Self> {
        use std::os::fd::AsRawFd as _;

        let dir = open_trusted(dir)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}/{name}", dir.as_raw_fd()));
        Ok(ShortPath { path, _held: dir })
    }

    /// Returns the path itself if it is short, and else one through a link in a temporary directory, which only this user can
    /// change. The directory of the socket was checked, with all directories above it.
    #[cfg(not(namespaces))]
    pub(super) fn new(dir: &Path, name: &str) -> io::Result<Self> {
        let opened = open_trusted(dir)?;
        let path = dir.join(name);
        if path.as_os_str().len() <= MAX_LENGTH {
            return Ok(ShortPath { path, _held: (opened, None) });
        }
        let links = tempfile::Builder::new().prefix("koze").tempdir()?;
        let link = links.path().join("d");
        std::os::unix::fs::symlink(std::path::absolute(dir)?, &link)?;
        Ok(ShortPath { path: link.join(name), _held: (opened, Some(links)) })
    }

    /// Returns the path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// The longest path of a socket on every system, in bytes.
#[cfg(not(namespaces))]
const MAX_LENGTH: usize = 103;

fn open_trusted(dir: &Path) -> io::Result<File> {
    let dir = File::open(dir)?;
    trust::opened(&dir)?;
    Ok(dir)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    #[test]
    fn a_socket_in_a_directory_with_a_long_path() {
        let state = tempfile::tempdir().unwrap();
        for dir in [state.path().to_owned(), state.path().join("long".repeat(50))] {
            std::fs::create_dir_all(&dir).unwrap();
            let listening = ShortPath::new(&dir, "a.socket").unwrap();
            let _listener = UnixListener::bind(listening.path()).unwrap();
            drop(listening);
            assert!(dir.join("a.socket").exists());
            UnixStream::connect(ShortPath::new(&dir, "a.socket").unwrap().path()).unwrap();
        }
    }
}
