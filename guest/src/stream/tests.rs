//! Untrusted streams: a stream is unpacked completely and in its place, or not at all.

use std::fs;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use tempfile::TempDir;

use super::{FAILED, Record, pack, unpack};
use crate::message::{self, Code, Fault, Place};

fn at(path: &Path) -> Place {
    Place { root: "/".into(), path: path.to_str().expect("a path in Unicode").into() }
}

fn record(record: &Record) -> Vec<u8> {
    message::encode(0, record).expect("a short record")
}

fn directory(name: &str) -> Vec<u8> {
    record(&Record::Directory { name: name.into(), mode: 0o755 })
}

/// Serializes a tree with one entry of each type.
fn stream(dir: &Path) -> Vec<u8> {
    let tree = dir.join("tree");
    fs::create_dir_all(tree.join("sub/empty")).unwrap();
    fs::write(tree.join("sub/file"), vec![7; 70_000]).unwrap();
    fs::write(tree.join("nothing"), "").unwrap();
    std::os::unix::fs::symlink("/", tree.join("link")).unwrap();
    let mut bytes = Vec::new();
    pack(&at(&tree), "", &mut bytes).unwrap();
    bytes
}

/// Unpacks a stream in a directory. The directory then contains only `to` on success, and nothing on failure.
fn made(dir: &Path, bytes: &[u8]) -> Result<u64, Fault> {
    let inside = dir.join("in");
    fs::create_dir(&inside).unwrap();
    let done = unpack(&at(&inside.join("to")), 1 << 30, bytes);
    let names: Vec<_> = fs::read_dir(&inside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, if done.is_ok() { vec!["to"] } else { Vec::new() });
    fs::remove_dir_all(&inside).unwrap();
    done
}

#[test]
fn a_truncated_stream_creates_nothing() {
    let dir = TempDir::new().unwrap();
    let bytes = stream(dir.path());
    assert_eq!(made(dir.path(), &bytes), Ok(70_000));
    for cut in (0..bytes.len()).step_by(997).chain(bytes.len() - 30..bytes.len()) {
        assert_eq!(made(dir.path(), &bytes[..cut]).unwrap_err().why, Code::Unavailable, "{cut}");
    }
}

#[test]
fn a_failure_record_carries_the_reason() {
    let dir = TempDir::new().unwrap();
    let failed = record(&Record::Failed(Fault::new(Code::PermissionDenied, "no")));
    let file = record(&Record::File { name: b"f".to_vec(), mode: 0o644 });
    let in_file =
        [&directory("")[..], &file, &3_u32.to_le_bytes(), b"abc", &FAILED.to_le_bytes(), &failed].concat();
    for bytes in [&[&directory("")[..], &failed].concat(), &failed, &in_file] {
        assert_eq!(made(dir.path(), bytes), Err(Fault::new(Code::PermissionDenied, "no")));
    }
    // Only a failure record may follow the announcement of a failure.
    let no_reason = [&in_file[..in_file.len() - failed.len()], &record(&Record::Up)].concat();
    assert_eq!(made(dir.path(), &no_reason).unwrap_err().why, Code::Unavailable);
    // A tree that contains a pipe.
    let tree = dir.path().join("t");
    fs::create_dir(&tree).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        tree.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let mut bytes = Vec::new();
    let refused = pack(&at(&tree), "", &mut bytes).unwrap_err();
    assert_eq!((refused.why, made(dir.path(), &bytes)), (Code::Unsupported, Err(refused.clone())));
}

/// A reader that continues a stream with endless records.
struct Endless<'a>(&'a [u8], usize, Vec<u8>);

impl std::io::Read for Endless<'_> {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        if self.0.is_empty() {
            self.1 += 1;
            self.2 = record(&Record::Link { name: self.1.to_string().into(), target: b"x".to_vec() });
            let length = self.2.len().min(to.len());
            to[..length].copy_from_slice(&self.2[..length]);
            return Ok(length);
        }
        self.0.read(to)
    }
}

#[test]
fn endless_records_exceed_the_limit() {
    let dir = TempDir::new().unwrap();
    let begun = directory("");
    // The limit is reached because each entry counts against it.
    let fault = unpack(&at(&dir.path().join("to")), 1 << 20, Endless(&begun, 0, Vec::new())).unwrap_err();
    assert_eq!(fault.why, Code::TooLarge);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes(bytes in vec(any::<u8>(), 0..300)) {
        let dir = TempDir::new().unwrap();
        let _ = made(dir.path(), &[&directory("")[..], &bytes].concat());
        prop_assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_stream_with_other_bytes(changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let dir = TempDir::new().unwrap();
        let mut bytes = stream(dir.path());
        for (index, byte) in changes {
            let at = index.index(bytes.len());
            // Mostly outside of file content.
            let at = if at % 4 == 0 { at } else { at % 400 };
            bytes[at] = byte;
        }
        let _ = made(dir.path(), &bytes);
        prop_assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
