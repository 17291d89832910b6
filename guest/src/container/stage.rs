//! What is to be put behind the bytes of a file, until all of it has come: in memory where there is room, else in a file
//! without a name.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::frame::PIECE;
use crate::files;
use crate::message::{Fault, Place};
use crate::place::fault;

/// The most that is in memory, of all calls together, in bytes; and what each call may have there in any case.
const MOST: usize = 16 << 20;
const ALWAYS: usize = PIECE;

static STAGED: AtomicUsize = AtomicUsize::new(0);

/// What has come so far, for the file at a place.
pub(super) struct Stage<'a> {
    place: &'a Place,
    memory: Vec<u8>,
    /// How much of it counts.
    counted: usize,
    file: Option<File>,
}

impl<'a> Stage<'a> {
    pub(super) fn new(place: &'a Place) -> Self {
        Stage { place, memory: Vec::new(), counted: 0, file: None }
    }

    /// Puts bytes behind those that have come.
    pub(super) fn put(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.memory.extend_from_slice(bytes);
        if self.has_room() {
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(files::nameless(self.place)?),
        };
        file.write_all(&self.memory).map_err(|error| fault(&error, &self.place.path))?;
        self.memory = Vec::new();
        self.count(0);
        Ok(())
    }

    /// Puts all of it behind what is in a file.
    pub(super) fn pour(mut self, to: &mut File) -> io::Result<()> {
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

    /// Whether what is in memory may be there. Behind what is in a file, little may.
    fn has_room(&mut self) -> bool {
        let length = self.memory.len();
        length <= ALWAYS || (self.file.is_none() && self.count(length - ALWAYS) <= MOST)
    }

    /// So many count for this; gives how many do in all.
    fn count(&mut self, bytes: usize) -> usize {
        let before = std::mem::replace(&mut self.counted, bytes);
        if bytes >= before {
            STAGED.fetch_add(bytes - before, Ordering::Relaxed) + bytes - before
        } else {
            STAGED.fetch_sub(before - bytes, Ordering::Relaxed) - (before - bytes)
        }
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        self.count(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_comes_back_from_wherever_it_waited() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let place = Place { root: "/".into(), path: path.to_str().unwrap().into() };
        for pieces in [0, 1, 3, 2 * MOST / PIECE] {
            std::fs::write(&path, "before").unwrap();
            let mut stages = [Stage::new(&place), Stage::new(&place)];
            let mut expected = b"before".to_vec();
            for number in 0..pieces {
                let piece = vec![u8::try_from(number % 256).unwrap(); PIECE];
                for stage in &mut stages {
                    stage.put(&piece).unwrap();
                }
                expected.extend(piece);
            }
            let in_files = stages.iter().filter(|stage| stage.file.is_some()).count();
            assert_eq!(in_files, if pieces > 3 { 2 } else { 0 });
            let [stage, other] = stages;
            stage.pour(&mut File::options().append(true).open(&path).unwrap()).unwrap();
            assert!(std::fs::read(&path).unwrap() == expected, "{pieces}");
            drop(other);
            assert_eq!(STAGED.load(Ordering::Relaxed), 0);
        }
        // Nothing but the file is left.
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
