//! The files of a sandbox.

use std::io::{self, Read};

use koze_core::Result;
use koze_core::files::Existing;
use koze_core::http::{FileEntry, FileList};
use ureq::http::Method;
use ureq::{BodyReader, SendBody};

use crate::Session;
use crate::request::{encode, read_text};

/// The contents of a file, or an archive of a directory.
pub struct FileReader(BodyReader<'static>);

impl Read for FileReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl std::fmt::Debug for FileReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileReader").finish_non_exhaustive()
    }
}

impl Session {
    /// Opens a file of a sandbox. A response that is cut off is an error of the reader.
    ///
    /// # Errors
    /// [`Code::NotFound`](koze_core::Code::NotFound) if there is no such sandbox or file,
    /// [`Code::IsDirectory`](koze_core::Code::IsDirectory) for a directory, and the errors of the request.
    pub fn read_file(&self, sandbox: &str, path: &str) -> Result<FileReader> {
        let response = self.client.get(&self.file_path(sandbox, path), &[])?;
        Ok(FileReader(response.into_body().into_reader()))
    }

    /// Writes a file of a sandbox, which is created on first use. Writes it completely or not at all.
    ///
    /// # Errors
    /// [`Code::IsDirectory`](koze_core::Code::IsDirectory) if there is a directory at the path, and the errors of the request.
    pub fn write_file(&self, sandbox: &str, path: &str, contents: impl Read + 'static) -> Result<()> {
        self.put(&self.file_path(sandbox, path), contents)
    }

    /// Lists the entries of a directory of a sandbox, sorted by name.
    ///
    /// # Errors
    /// [`Code::NotFound`](koze_core::Code::NotFound) if there is no such sandbox or directory, and the errors of the request.
    pub fn list_files(&self, sandbox: &str, path: &str) -> Result<Vec<FileEntry>> {
        let list: FileList = self.client.get_json(&format!("{}?list=true", self.file_path(sandbox, path)))?;
        Ok(list.entries)
    }

    /// Returns the metadata of what is at a path of a sandbox. Does not follow a symbolic link.
    ///
    /// # Errors
    /// [`Code::NotFound`](koze_core::Code::NotFound) if there is no such sandbox or file, and the errors of the request.
    pub fn describe_file(&self, sandbox: &str, path: &str) -> Result<FileEntry> {
        self.client.get_json(&format!("{}?stat=true", self.file_path(sandbox, path)))
    }

    /// Removes a file, a link, or a directory with its contents.
    ///
    /// # Errors
    /// [`Code::NotFound`](koze_core::Code::NotFound) if there is no such sandbox or file, and the errors of the request.
    pub fn remove_file(&self, sandbox: &str, path: &str) -> Result<()> {
        let response = self.client.send(Method::DELETE, &self.file_path(sandbox, path), &[], ())?;
        read_text(response).map(drop)
    }

    /// Opens a directory of a sandbox as a tar archive.
    ///
    /// # Errors
    /// [`Code::NotFound`](koze_core::Code::NotFound) if there is no such sandbox or directory, and the errors of the request.
    pub fn read_directory(&self, sandbox: &str, path: &str) -> Result<FileReader> {
        let path = format!("{}?archive=tar", self.file_path(sandbox, path));
        Ok(FileReader(self.client.get(&path, &[])?.into_body().into_reader()))
    }

    /// Creates a directory of a sandbox from a tar archive, completely or not at all.
    ///
    /// # Errors
    /// [`Code::AlreadyExists`](koze_core::Code::AlreadyExists) if `existing` does not permit what is at the path, and the
    /// errors of the request.
    pub fn write_directory(
        &self,
        sandbox: &str,
        path: &str,
        existing: Existing,
        archive: impl Read + 'static,
    ) -> Result<()> {
        let existing = match existing {
            Existing::Refuse => "",
            Existing::Merge => "&merge=true",
        };
        self.put(&format!("{}?archive=tar{existing}", self.file_path(sandbox, path)), archive)
    }

    fn put(&self, path: &str, contents: impl Read + 'static) -> Result<()> {
        let response = self.client.send(Method::PUT, path, &[], SendBody::from_owned_reader(contents))?;
        read_text(response).map(drop)
    }

    pub(crate) fn file_path(&self, sandbox: &str, path: &str) -> String {
        let parts: Vec<String> = path.trim_start_matches('/').split('/').map(encode).collect();
        format!("{}/files/{}", self.sandbox_path(sandbox), parts.join("/"))
    }
}
