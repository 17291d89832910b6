//! Holds the bytes of an append or edit until all have arrived: in memory while there is room, otherwise in an unnamed
//! file.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::frame::PIECE;
use crate::files;
use crate::message::{Fault, Place};
use crate::place::fault;

/// The maximum in memory over all calls, in bytes, and what each call may always hold there.
const MAX_BYTES: usize = 16 << 20;
const ALWAYS: usize = PIECE;

static STAGED: AtomicUsize = AtomicUsize::new(0);

/// The bytes that have arrived for the file at a place.
pub(super) struct Staging<'a> {
    place: &'a Place,
    memory: Vec<u8>,
    /// How many of its bytes count against [`MAX_BYTES`].
    counted: usize,
    file: Option<File>,
}

impl<'a> Staging<'a> {
    pub(super) fn new(place: &'a Place) -> Self {
        Staging { place, memory: Vec::new(), counted: 0, file: None }
    }

    /// Adds bytes that have arrived.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.memory.extend_from_slice(bytes);
        if self.has_room() {
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(files::create_unnamed(self.place)?),
        };
        file.write_all(&self.memory).map_err(|error| fault(&error, &self.place.path))?;
        self.memory = Vec::new();
        self.count(0);
        Ok(())
    }

    /// Appends all bytes to a file or buffer.
    pub(super) fn append_to(mut self, to: &mut impl io::Write) -> io::Result<()> {
        if let Some(mut file) = self.file.take() {
            file.rewind()?;
            let mut buffer = vec![0; PIECE];
            loop {
                match file.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(length) => to.write_all(&buffer[..length])?,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        }
        to.write_all(&self.memory)
    }

    /// Returns whether the bytes may stay in memory. Once there is a file, memory holds only [`ALWAYS`] bytes.
    fn has_room(&mut self) -> bool {
        let length = self.memory.len();
        length <= ALWAYS || (self.file.is_none() && self.count(length - ALWAYS) <= MAX_BYTES)
    }

    /// Sets how many bytes count for this call, and returns the total of all calls.
    fn count(&mut self, bytes: usize) -> usize {
        let before = std::mem::replace(&mut self.counted, bytes);
        if bytes >= before {
            STAGED.fetch_add(bytes - before, Ordering::Relaxed) + bytes - before
        } else {
            STAGED.fetch_sub(before - bytes, Ordering::Relaxed) - (before - bytes)
        }
    }
}

impl Drop for Staging<'_> {
    fn drop(&mut self) {
        self.count(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appends_from_memory_and_from_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let place = Place { root: "/".into(), path: path.to_str().unwrap().into() };
        for pieces in [0, 1, 3, 2 * MAX_BYTES / PIECE] {
            std::fs::write(&path, "before").unwrap();
            let mut stagings = [Staging::new(&place), Staging::new(&place)];
            let mut expected = b"before".to_vec();
            for number in 0..pieces {
                let piece = vec![u8::try_from(number % 256).unwrap(); PIECE];
                for staging in &mut stagings {
                    staging.push(&piece).unwrap();
                }
                expected.extend(piece);
            }
            let in_files = stagings.iter().filter(|staging| staging.file.is_some()).count();
            assert_eq!(in_files, if pieces > 3 { 2 } else { 0 });
            let [staging, other] = stagings;
            staging.append_to(&mut File::options().append(true).open(&path).unwrap()).unwrap();
            assert!(std::fs::read(&path).unwrap() == expected, "{pieces}");
            drop(other);
            assert_eq!(STAGED.load(Ordering::Relaxed), 0);
        }
        // No other file remains.
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
