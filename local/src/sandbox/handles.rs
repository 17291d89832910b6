//! Files of a sandbox as descriptors, which other programs of this user can read and write without copying.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use koze_guest::message::{Place, Request};
use rustix::fs::OFlags;

use super::LocalSandbox;
use super::archive;
use super::files::{self, Opened};
use super::inner::Use;
use super::transfer::{self, Outcome};
use crate::errors::{state_failed, unexpected_answer};
use koze_core::error::Result;
use koze_core::sandbox::Stat;

/// A new file, empty and open for writing.
#[derive(Debug)]
pub struct NewFile {
    /// The file.
    pub file: File,
    /// How many bytes the sandbox has room for.
    pub room: u64,
    /// Keeps the sandbox awake: its next start would remove the file.
    _using: Use,
}

impl AsFd for NewFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// A file or tree that is read or written as a stream, in the format of [`trees`](crate::trees) or of an archive.
#[derive(Debug)]
pub struct TreePipe {
    /// The end of the stream for the other program. Close it here once the other program has it: the stream ends when no one has
    /// it open.
    pub pipe: OwnedFd,
    /// The result in the sandbox.
    pub outcome: Outcome,
}

impl LocalSandbox {
    /// Serializes a file or tree. Its path is resolved inside the sandbox, and a final link is followed.
    ///
    /// # Errors
    /// As [`Sandbox::copy_to`](koze_core::Sandbox::copy_to).
    pub async fn pack_tree(&self, path: &str) -> Result<TreePipe> {
        let (pipe, outcome) = transfer::pack_tree(&self.0, place_at(path), String::new()).await?;
        Ok(TreePipe { pipe, outcome })
    }

    /// Creates the files of a stream at a path that does not exist. Its path is resolved inside the sandbox.
    ///
    /// # Errors
    /// As [`Sandbox::copy_to`](koze_core::Sandbox::copy_to).
    pub async fn unpack_tree(&self, path: &str) -> Result<TreePipe> {
        let (pipe, outcome) = transfer::unpack_tree(&self.0, place_at(path)).await?;
        Ok(TreePipe { pipe, outcome })
    }

    /// Archives a directory. Its path is resolved inside the sandbox, and a final link is followed. [`archives::read`](koze_state::archives::read)
    /// reads the stream, which contains the errors.
    ///
    /// # Errors
    /// As [`Sandbox::list`](koze_core::Sandbox::list).
    pub async fn archive_pipe(&self, path: &str) -> Result<TreePipe> {
        let (pipe, outcome) = archive::start_packing(&self.0, place_at(path)).await?;
        Ok(TreePipe { pipe, outcome })
    }

    /// Creates the files of an archive in a directory that exists. The archive is one that koze has written, and the stream is the
    /// archive itself; some of the files may be left if it is not complete.
    ///
    /// # Errors
    /// As [`Sandbox::write`](koze_core::Sandbox::write).
    pub async fn extract_pipe(&self, path: &str) -> Result<TreePipe> {
        let (pipe, outcome) = archive::start_unpacking(&self.0, place_at(path)).await?;
        Ok(TreePipe { pipe, outcome })
    }

    /// Opens a file for reading, and describes it. Its path is resolved inside the sandbox.
    ///
    /// # Errors
    /// As [`Sandbox::read`](koze_core::Sandbox::read).
    pub async fn open_file(&self, path: &str) -> Result<(File, Stat)> {
        let place = place_at(path);
        self.with(move |_, running| async move {
            let Opened { file, .. } =
                files::open_file(&running, running.number(), &Request::Read(place)).await?;
            let stat = koze_guest::describe(&file).map_err(state_failed)?;
            Ok((file, stat))
        })
        .await
    }

    /// Creates a file at a path that does not exist, and missing parent directories. The caller must not write more than there
    /// is room for.
    ///
    /// # Errors
    /// As [`Sandbox::write`](koze_core::Sandbox::write).
    pub async fn create_file(&self, path: &str) -> Result<NewFile> {
        let place = place_at(path);
        self.with(move |inner, running| async move {
            let using = inner.using();
            let room = transfer::remaining_room(&inner).await?;
            let create = running.number();
            let Opened { file, made, .. } =
                files::open_file(&running, create, &Request::Append(place)).await?;
            if !made {
                return Err(unexpected_answer());
            }
            running.call(&Request::Commit { create }).await?;
            // The kernel copies between files only if the target is not opened for appending.
            let flags = rustix::fs::fcntl_getfl(&file).map_err(|error| state_failed(error.into()))?;
            rustix::fs::fcntl_setfl(&file, flags - OFlags::APPEND)
                .map_err(|error| state_failed(error.into()))?;
            Ok(NewFile { file, room, _using: using })
        })
        .await
    }
}

fn place_at(path: &str) -> Place {
    Place { root: "/".to_owned(), path: path.to_owned() }
}
