//! Files of a sandbox that are read even if the connection is cut off.

use std::io::{self, ErrorKind, Read};

use koze_core::{Code, Error, Result};
use ureq::http::Response;
use ureq::{Body, BodyReader};

use crate::attempts::Attempts;
use crate::{Client, Session};

impl Session {
    /// Opens a file of a sandbox, which is read to its end even if the connection is cut off in between.
    ///
    /// # Errors
    /// As [`read_file`](Self::read_file).
    pub fn download_file(&self, sandbox: &str, path: &str) -> Result<Download> {
        let path = self.file_path(sandbox, path);
        let response = self.client.get(&path, &[IDENTITY])?;
        let header = |name: &str| response.headers().get(name)?.to_str().ok().map(str::to_owned);
        let tag = header("etag").filter(|tag| tag.starts_with('"'));
        let size = header("content-length").and_then(|length| length.parse().ok());
        let client = self.client.clone();
        let body = Some(reader(response));
        Ok(Download { client, path, tag, size, position: 0, body, attempts: Attempts::default() })
    }
}

/// Ranges and lengths are those of the content.
const IDENTITY: (&str, &str) = ("accept-encoding", "identity");

/// A file of a sandbox that is being read. If the connection is cut off, reading goes on where it was as long as the file is the
/// same, and otherwise fails: what was read is of one version.
pub struct Download {
    client: Client,
    path: String,
    /// The entity tag, if the server knows a strong one.
    tag: Option<String>,
    size: Option<u64>,
    position: u64,
    body: Option<BodyReader<'static>>,
    /// The requests for the rest since the last byte.
    attempts: Attempts,
}

impl Download {
    /// Returns what identifies the version of the file. Without one, reading cannot go on after an interruption.
    pub fn version(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// Returns the size of the file in bytes, if the server has said it.
    pub fn size(&self) -> Option<u64> {
        self.size
    }

    /// Goes on from an offset, before which the caller has this version.
    ///
    /// # Errors
    /// [`Code::Unavailable`] if the file has changed, and the errors of the request.
    pub fn skip_to(&mut self, offset: u64) -> Result<()> {
        if offset == self.position {
            return Ok(());
        }
        self.position = offset;
        self.body = None;
        if self.connect()? { Ok(()) } else { Err(changed()) }
    }

    /// Checks that the file is still the version that was read: a program may have changed it in place meanwhile.
    ///
    /// # Errors
    /// [`Code::Unavailable`] if the file has changed, and the errors of the request.
    pub fn check_unchanged(&self) -> Result<()> {
        let Some(tag) = &self.tag else { return Ok(()) };
        let headers = [IDENTITY, ("if-none-match", tag.as_str()), ("range", "bytes=0-0")];
        let response = self.client.get(&self.path, &headers);
        match response {
            Ok(response) if response.status().as_u16() == 304 => Ok(()),
            Ok(_) => Err(changed()),
            Err(error) if error.code == Code::NotFound => Err(changed()),
            Err(error) => Err(error),
        }
    }

    /// Requests the file from the position on. Returns false if it has changed.
    fn connect(&mut self) -> Result<bool> {
        let Some(tag) = &self.tag else { return Ok(false) };
        if self.size == Some(self.position) {
            return Ok(true);
        }
        let range = format!("bytes={}-", self.position);
        let headers = [IDENTITY, ("range", range.as_str()), ("if-range", tag.as_str())];
        let response = match self.client.get(&self.path, &headers) {
            Err(error) if error.code == Code::NotFound => return Ok(false),
            response => response?,
        };
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        let is_rest = response.status().as_u16() == 206
            && header("etag") == Some(tag)
            && header("content-range").is_some_and(|range| begins_at(range, self.position));
        if is_rest {
            self.body = Some(reader(response));
        }
        Ok(is_rest)
    }

    /// Connects again after an error.
    fn resume(&mut self, error: io::Error) -> io::Result<()> {
        self.body = None;
        if self.tag.is_none() {
            return Err(error);
        }
        loop {
            if !self.attempts.wait_for_next() {
                return Err(error);
            }
            match self.connect() {
                Ok(true) => return Ok(()),
                Ok(false) => return Err(io::Error::other(changed().message)),
                // The server may come back.
                Err(error) if error.code == Code::Unavailable => {}
                Err(error) => return Err(io::Error::other(error.message)),
            }
        }
    }
}

impl Read for Download {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let Some(body) = &mut self.body else { return Ok(0) };
            let is_missing = self.size.is_some_and(|size| self.position < size) && !buffer.is_empty();
            match body.read(buffer) {
                Ok(0) if is_missing => self.resume(ErrorKind::UnexpectedEof.into())?,
                Ok(count) => {
                    self.position += count as u64;
                    if count > 0 {
                        self.attempts.reset();
                    }
                    return Ok(count);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => self.resume(error)?,
            }
        }
    }
}

impl std::fmt::Debug for Download {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Download")
            .field("path", &self.path)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

fn reader(response: Response<Body>) -> BodyReader<'static> {
    response.into_body().into_with_config().limit(u64::MAX).reader()
}

/// Returns whether a `Content-Range` begins at an offset.
fn begins_at(range: &str, offset: u64) -> bool {
    let begin = range.strip_prefix("bytes ").and_then(|range| range.split('-').next());
    begin.and_then(|begin| begin.parse().ok()) == Some(offset)
}

fn changed() -> Error {
    Error::new(Code::Unavailable, "the file was changed while it was copied: try again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_begin_where_they_were_requested() {
        assert!(begins_at("bytes 5-9/10", 5));
        for range in ["bytes 0-9/10", "bytes */10", "bytes 5", "5-9/10", ""] {
            assert_eq!(begins_at(range, 5), range == "bytes 5", "{range}");
        }
    }
}
