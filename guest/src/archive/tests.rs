//! Trees of this machine.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use koze_protocol::tar::{Contents, Entry, What, end, padding, write_header};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use tempfile::TempDir;

use super::changes::Changes;
use super::hand_over::send_files;
use super::{Handed, Known, Mark, Trailer, pack, unpack};
use crate::message::{Code, Fault, Place};
use crate::{archive, channel};

fn at(path: &Path) -> Place {
    Place { root: "/".into(), path: path.to_str().expect("a path in Unicode").into() }
}

/// Archives a directory. Returns the archive, and how the stream ends.
fn packed(dir: &Path) -> (Vec<u8>, Trailer) {
    let mut stream = Vec::new();
    let packed = pack(&at(dir), &mut stream);
    let mut archive = Vec::new();
    let mut rest = &stream[..];
    loop {
        let length = u32::from_le_bytes(rest[..4].try_into().unwrap()) as usize;
        rest = &rest[4..];
        if length == 0 {
            break;
        }
        archive.extend(&rest[..length]);
        rest = &rest[length..];
    }
    assert_eq!(u32::from_le_bytes(rest[..4].try_into().unwrap()) as usize, rest.len() - 4);
    let trailer = serde_json::from_slice(&rest[4..]).unwrap();
    assert_eq!(packed.err(), if let Trailer::Failed(fault) = &trailer { Some(fault.clone()) } else { None });
    (archive, trailer)
}

/// Creates the files of an archive in a new directory.
fn unpacked(archive: &[u8], most: u64) -> (TempDir, Result<Contents, Fault>) {
    let dir = TempDir::new().unwrap();
    let done = unpack(&at(dir.path()), most, archive);
    (dir, done)
}

fn archive(entries: &[(&str, What, &[u8])]) -> Vec<u8> {
    let mut archive = Vec::new();
    for (name, what, content) in entries {
        let entry = Entry { name: (*name).to_owned(), what: what.clone(), mode: 0o755, mtime: 0 };
        write_header(&entry, &mut archive);
        archive.extend(*content);
        archive.extend(padding(content.len() as u64));
    }
    archive.extend(end());
    archive
}

#[test]
fn everything_survives() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::create_dir_all(path("sub/empty")).unwrap();
    fs::create_dir_all(path("ä/日本")).unwrap();
    fs::write(path("sub/small"), "small").unwrap();
    fs::write(path("sub/nothing"), "").unwrap();
    let large: Vec<u8> = (0..700_001_u32).map(|number| number.to_le_bytes()[0]).collect();
    fs::write(path("ä/日本/large"), &large).unwrap();
    symlink("/etc/passwd", path("sub/link")).unwrap();
    fs::set_permissions(path("sub/small"), fs::Permissions::from_mode(0o4750)).unwrap();
    fs::set_permissions(path("sub/empty"), fs::Permissions::from_mode(0o500)).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, path("pipe"), rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
        .unwrap();
    let (bytes, trailer) = packed(dir.path());
    let contents = Contents { entries: 8, bytes: 700_006, skipped: 1 };
    assert_eq!(trailer, Trailer::Ok(contents));
    let (copy, done) = unpacked(&bytes, 1 << 20);
    assert_eq!(done.unwrap(), Contents { skipped: 0, ..contents });
    let copied = |name: &str| copy.path().join(name);
    assert!(fs::read(copied("ä/日本/large")).unwrap() == large);
    assert_eq!(fs::read(copied("sub/small")).unwrap(), b"small");
    assert_eq!(fs::read(copied("sub/nothing")).unwrap(), b"");
    assert_eq!(fs::read_link(copied("sub/link")).unwrap(), Path::new("/etc/passwd"));
    let mode = |name: &str| fs::metadata(copied(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("sub/small"), mode("sub/empty")), (0o750, 0o500), "without set-user-ID");
    assert!(!copied("pipe").exists());
}

#[test]
fn what_cannot_be_archived() {
    use std::os::unix::ffi::OsStrExt as _;
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join(std::ffi::OsStr::from_bytes(b"a\xff")), "").unwrap();
    let Trailer::Failed(fault) = packed(dir.path()).1 else { panic!("it has no name") };
    assert_eq!(fault.why, Code::Unsupported);
    assert!(fault.text.ends_with("is not UTF-8: rename it, or remove it"), "{}", fault.text);
    let dir = TempDir::new().unwrap();
    symlink(std::ffi::OsStr::from_bytes(b"b\xff"), dir.path().join("link")).unwrap();
    let Trailer::Failed(fault) = packed(dir.path()).1 else { panic!("its target would be another") };
    let link = dir.path().join("link");
    let text =
        format!("the target of the link `{}` is not UTF-8: change it, or remove the link", link.display());
    assert_eq!((fault.why, fault.text), (Code::Unsupported, text));
    for (path, why) in
        [("/proc", Code::PermissionDenied), ("/nowhere", Code::NotFound), ("/dev/null", Code::NotADirectory)]
    {
        let Trailer::Failed(fault) = packed(Path::new(path)).1 else { panic!("{path}") };
        assert_eq!(fault.why, why, "{path}");
    }
}

#[test]
fn an_archive_that_breaks_off_is_an_error() {
    let bytes = archive(&[("a", What::File(700), &[7; 700]), ("b", What::Directory, b"")]);
    assert!(unpacked(&bytes, 1 << 20).1.is_ok());
    for length in (0..bytes.len() - 1024).step_by(100) {
        assert_eq!(unpacked(&bytes[..length], 1 << 20).1.unwrap_err().why, Code::Unavailable, "{length}");
    }
    assert_eq!(unpacked(&bytes, 4000).1.unwrap_err().why, Code::TooLarge);
}

#[test]
fn a_file_that_claims_to_be_larger_than_the_disk_is_named() {
    let mut bytes = Vec::new();
    let entry = Entry { name: "huge".to_owned(), what: What::File(1 << 40), mode: 0o644, mtime: 0 };
    write_header(&entry, &mut bytes);
    let (dir, done) = unpacked(&bytes, 1 << 20);
    let fault = done.unwrap_err();
    assert!(fault.why == Code::TooLarge && fault.text.contains("/huge"), "{fault:?}");
    assert!(!dir.path().join("huge").exists());
}

#[test]
fn nothing_is_created_elsewhere() {
    let elsewhere = TempDir::new().unwrap();
    let target = elsewhere.path().to_str().unwrap().to_owned();
    let file = ("link/file", What::File(1), &b"x"[..]);
    for entries in [
        vec![("link", What::Link(target.clone()), &b""[..]), file.clone()],
        vec![("link", What::Link(target.clone()), &b""[..]), ("link/sub/x", What::Directory, &b""[..])],
        vec![("link", What::Link(format!("{target}/new")), &b""[..]), ("link", What::File(1), &b"x"[..])],
        vec![("../file", What::File(1), &b"x"[..])],
    ] {
        let (_dir, done) = unpacked(&archive(&entries), 1 << 20);
        assert!(done.is_err(), "{entries:?}");
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0, "{entries:?}");
    }
    // An archive need not list the directories of its files.
    let (dir, done) = unpacked(&archive(&[("a/b/c", What::File(1), b"x")]), 1 << 20);
    assert_eq!(done.unwrap().entries, 1);
    assert_eq!(fs::read(dir.path().join("a/b/c")).unwrap(), b"x");
}

/// What the host accepts of an archive that it has not written (`core/src/archive/names.rs`), at its limits.
#[test]
fn what_can_be_created_is_created() {
    let (long, target) = ("n".repeat(255), "t".repeat(4095));
    let deep = vec!["d"; 400].join("/");
    let file = |content: &'static [u8]| (What::File(content.len() as u64), content);
    let (below, beyond) = (format!("{deep}/x"), format!("{deep}/d/x"));
    let (directory, link) = (What::Directory, |target: &str| What::Link(target.to_owned()));
    for (is_created, entries) in [
        (true, vec![(&*long, file(b"x").0, &b"x"[..]), ("l", link(&target), b"")]),
        (true, vec![("a/b", file(b"x").0, b"x"), ("a", directory.clone(), b"")]),
        (true, vec![(&*below, file(b"").0, b""), (&*deep, directory.clone(), b"")]),
        (false, vec![(&*beyond, file(b"").0, b"")]),
        (false, vec![(&*below, directory.clone(), b"")]),
        (false, vec![("a", file(b"x").0, b"x"), ("a", file(b"x").0, b"x")]),
        (false, vec![("a", file(b"x").0, b"x"), ("a", link("b"), b"")]),
        (false, vec![("a", link("b"), b""), ("a", file(b"x").0, b"x")]),
        (false, vec![("a", directory.clone(), b""), ("a", file(b"x").0, b"x")]),
        (false, vec![("a", file(b"x").0, b"x"), ("a", directory.clone(), b"")]),
        (false, vec![("a/b", file(b"x").0, b"x"), ("a", link("b"), b"")]),
        (false, vec![("a", file(b"x").0, b"x"), ("a/b", file(b"x").0, b"x")]),
        (false, vec![("l", link(""), b"")]),
        (false, vec![("l", link(&format!("{target}t")), b"")]),
        (false, vec![("nn", file(b"").0, b""), (&*format!("{long}n"), file(b"").0, b"")]),
    ] {
        let (_dir, done) = unpacked(&archive(&entries), 1 << 20);
        assert_eq!(done.is_ok(), is_created, "{entries:?}: {done:?}");
    }
}

/// Hands over what has changed. Returns the paths and the content of the files that are handed over, and the marks of all.
fn handed(dir: &Path, known: &[Known]) -> (BTreeMap<String, String>, BTreeMap<String, Option<Mark>>) {
    let mut list = tempfile::tempfile().unwrap();
    for file in known {
        serde_json::to_writer(&mut list, file).unwrap();
        list.write_all(b"\n").unwrap();
    }
    let changes = Changes::with(list, || Some(HashSet::new())).unwrap();
    let (host, guest) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    let place = at(dir);
    let sender = std::thread::spawn(move || send_files(&place, changes, guest));
    let (mut files, mut marks) = (BTreeMap::new(), BTreeMap::new());
    let contents = loop {
        let came = channel::receive::<Handed>(&host).unwrap().unwrap();
        let mut descriptors = came.descriptors.into_iter().map(fs::File::from);
        match came.message {
            Handed::Entries(entries) => {
                for entry in entries {
                    let archive::Entry::File { path, mark, same, size, .. } = entry else { continue };
                    if !same {
                        let content = std::io::read_to_string(descriptors.next().unwrap()).unwrap();
                        assert_eq!(content.len() as u64, size);
                        files.insert(path.clone(), content);
                    }
                    marks.insert(path, mark);
                }
                assert!(descriptors.next().is_none());
            }
            Handed::End { contents, mapped } => {
                assert_eq!(mapped, Some(Vec::new()));
                break contents;
            }
            Handed::Failed(fault) => panic!("{fault:?}"),
        }
    };
    sender.join().unwrap().unwrap();
    assert!(contents.entries >= marks.len() as u64);
    (files, marks)
}

#[test]
fn unchanged_files_are_not_handed_over() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::create_dir(path("d")).unwrap();
    for name in ["d/same", "d/written", "replaced", "moved"] {
        fs::write(path(name), "old").unwrap();
    }
    for number in 0..200 {
        fs::write(path(&format!("d/{number}")), "many").unwrap();
    }
    std::thread::sleep(std::time::Duration::from_millis(200));
    let (files, first) = handed(dir.path(), &[]);
    assert_eq!((files.len(), files["d/same"].as_str()), (204, "old"));
    assert!(first.values().all(Option::is_some), "{first:?}");

    // The same size and the same time of modification, as far as programs see.
    let time = fs::metadata(path("d/written")).unwrap().modified().unwrap();
    fs::write(path("d/written"), "new").unwrap();
    fs::File::options().write(true).open(path("d/written")).unwrap().set_modified(time).unwrap();
    fs::write(path("x"), "new").unwrap();
    fs::rename(path("x"), path("replaced")).unwrap();
    fs::rename(path("moved"), path("d/moved")).unwrap();
    let all: Vec<Known> =
        first.iter().map(|(path, mark)| Known { path: path.clone(), mark: *mark }).collect();
    let (files, second) = handed(dir.path(), &all);
    assert_eq!(files.keys().collect::<Vec<_>>(), ["d/moved", "d/written", "replaced"]);
    // What has just changed could change again without a trace.
    assert_eq!(second.values().filter(|mark| mark.is_none()).count(), 3);
    // The host knows better: without a mark, a file is unchanged.
    let known = |path: &str| Known { path: path.to_owned(), mark: None };
    let (files, third) = handed(dir.path(), &[known("replaced"), known("gone")]);
    assert!(!files.contains_key("replaced") && files.len() == 203, "{files:?}");
    assert_eq!(third["replaced"], None);
}
