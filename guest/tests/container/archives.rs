//! Archives of directories, and directories from archives. What an archive has is tested where it is implemented; these
//! cases test the way there.

use std::fs;
use std::time::Duration;

use koze_guest::archive::Trailer;
use koze_guest::message::{Code, Fault};
use koze_protocol::tar::{Contents, Entry, What, end, padding, write_header};
use serde_json::{Value, json};

use crate::Test;
use crate::client::{Client, Event, at, until};
use crate::stage::{Stage, names};

pub(crate) const TESTS: &[Test] = &[
    ("archives_there_and_back", there_and_back),
    ("archives_that_are_refused", refused),
    ("archives_that_are_not_trusted", hostile),
    ("archives_in_little_memory", large),
    ("archives_that_are_canceled", canceled),
];

fn archive(path: &str) -> Value {
    json!({ "archive": at(path) })
}

fn extract(path: &str) -> Value {
    json!({ "extract": at(path) })
}

/// Splits what the guest sends into the archive and its trailer.
fn taken(bytes: &[u8]) -> (Vec<u8>, Trailer) {
    let mut rest = bytes;
    let mut piece = || {
        let (length, after) = rest.split_first_chunk().expect("a length");
        let (piece, after) = after.split_at(u32::from_le_bytes(*length) as usize);
        rest = after;
        piece
    };
    let mut tar = Vec::new();
    loop {
        match piece() {
            [] => break,
            piece => tar.extend(piece),
        }
    }
    let trailer = serde_json::from_slice(piece()).expect("a trailer");
    assert!(rest.is_empty(), "{} bytes follow the trailer", rest.len());
    (tar, trailer)
}

/// Describes a tree: kinds, modes, targets, and contents.
fn listing(client: &Client, path: &str) -> String {
    client.sh(&format!(
        "cd '{path}' && find . -printf '%y %m %P %l\\n' | LC_ALL=C sort; find . -type f -exec sha256sum {{}} + | LC_ALL=C sort"
    ))
}

fn there_and_back() {
    let stage = Stage::new();
    let client = stage.client();
    let (from, to) = (stage.path("from"), stage.path("to"));
    client.sh(&format!(
        "mkdir -p '{from}' && cd '{from}' && mkdir -p empty a/b shut 日本 && printf x > 'a/b/ü \\' && : > none
         head -c 300000 /dev/urandom > a/large; ln -s ../nowhere a/link; ln -s / a/root; mkfifo pipe
         echo 3 > shut/f; chmod 4750 a/large; chmod 1777 empty; chmod 400 none; chmod 555 shut; chmod 750 ."
    ));
    fs::create_dir(&to).unwrap();
    let got = client.ask(&archive(&from));
    assert_eq!(got.answer, json!({ "ok": {} }));
    let (tar, trailer) = taken(&got.out);
    let contents = Contents { entries: 11, bytes: 300_003, skipped: 1 };
    assert_eq!(trailer, Trailer::Ok(contents));
    // After the end, anything may follow.
    let made = client.ask_with(&extract(&to), &[&tar[..], &vec![7; 2 << 20]].concat());
    assert_eq!(made.ok(), json!({ "entries": 11, "bytes": 300_003, "skipped": 0 }));
    // The bits by which files run as their owner and directories are sticky are dropped.
    client.sh(&format!("cd '{from}' && rm pipe && chmod 750 a/large && chmod 777 empty"));
    assert_eq!(listing(&client, &to), listing(&client, &from));
    // A link to a directory is followed.
    std::os::unix::fs::symlink("from", stage.path("link")).unwrap();
    assert_eq!(
        taken(&client.ask(&archive(&stage.path("link"))).out).0,
        taken(&client.ask(&archive(&from)).out).0
    );
}

fn refused() {
    let stage = Stage::new();
    let client = stage.client();
    fs::create_dir(stage.path("d")).unwrap();
    fs::write(stage.path("d/file"), "x").unwrap();
    let inside = |path: &str| json!({ "root": stage.path("d"), "path": stage.path(path) });
    for (place, why) in [
        (at(&stage.path("none")), Code::NotFound),
        (at(&stage.path("d/file")), Code::NotADirectory),
        (at("/proc"), Code::PermissionDenied),
        (at("relative"), Code::InvalidInput),
        (inside(""), Code::PathEscape),
    ] {
        let got = client.ask(&json!({ "archive": &place }));
        let Trailer::Failed(Fault { why: given, text }) = taken(&got.out).1 else {
            panic!("{place}: {got:?}")
        };
        assert_eq!(given, why, "{place}: {text}");
        assert_eq!(got.why(), serde_json::to_value(why).unwrap(), "{place}");
        if place != at("/proc") {
            let got = client.ask_with(&json!({ "extract": &place }), &end());
            assert_eq!(got.why(), serde_json::to_value(why).unwrap(), "{place}");
        }
    }
    assert_eq!(client.why(&json!({ "extract": {} })), "invalid_input");
}

/// Returns an archive of some files.
fn files(all: &[(&str, What, &[u8])]) -> Vec<u8> {
    let mut tar = Vec::new();
    for (name, what, content) in all {
        let entry = Entry { name: (*name).to_owned(), what: what.clone(), mode: 0o644, mtime: 0 };
        write_header(&entry, &mut tar);
        tar.extend(*content);
        tar.extend(padding(content.len() as u64));
    }
    tar
}

fn hostile() {
    let stage = Stage::new();
    let client = stage.client();
    let path = stage.path("d");
    let whole = [files(&[("a", What::File(2), b"ab"), ("b", What::File(0), b"")]), end()].concat();
    let link = || What::Link(stage.path(""));
    for (what, tar, why) in [
        ("nothing", Vec::new(), "unavailable"),
        ("no end", whole[..whole.len() - 1024].to_vec(), "unavailable"),
        ("the middle of a file", whole[..513].to_vec(), "unavailable"),
        ("noise", vec![0xa5; 5000], "invalid_input"),
        ("up", files(&[("../up", What::File(1), b"x")]), "invalid_input"),
        ("away", files(&[("l", link(), b""), ("l/away", What::File(1), b"x")]), "not_a_directory"),
        ("over a link", files(&[("l", link(), b""), ("l", What::File(1), b"x")]), "already_exists"),
    ] {
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        assert_eq!(client.ask_with(&extract(&path), &tar).why(), why, "{what}");
        assert_eq!(names(stage.dir.path()), ["d"], "{what}");
    }
}

/// The maximum memory of the guest over such an archive, in bytes.
const LITTLE: u64 = 48 << 20;

fn large() {
    let stage = Stage::new();
    let client = stage.client();
    let (from, to) = (stage.path("from"), stage.path("to"));
    fs::create_dir_all(format!("{from}/many")).unwrap();
    fs::create_dir(&to).unwrap();
    for n in 0..5000 {
        fs::write(format!("{from}/many/{n}-{}", "n".repeat(150)), format!("{n}")).unwrap();
    }
    fs::File::create(format!("{from}/large")).unwrap().set_len(100 << 20).unwrap();
    let got = client.ask(&archive(&from));
    assert_eq!(got.answer, json!({ "ok": {} }));
    let (tar, trailer) = taken(&got.out);
    let Trailer::Ok(contents) = trailer else { panic!("{trailer:?}") };
    assert_eq!(contents.entries, 5002);
    let made = client.ask_with(&extract(&to), &tar);
    assert_eq!(made.ok(), json!({ "entries": 5002, "bytes": contents.bytes, "skipped": 0 }));
    assert_eq!(names(format!("{to}/many")), names(format!("{from}/many")));
    assert!(stage.peak() < LITTLE, "{}", stage.peak());
}

fn canceled() {
    let stage = Stage::new();
    let client = stage.client();
    fs::create_dir(stage.path("from")).unwrap();
    fs::File::create(stage.path("from/large")).unwrap().set_len(100 << 20).unwrap();
    fs::create_dir(stage.path("to")).unwrap();
    client.sh("true");
    let (before, tar) = (stage.descriptors(), files(&[("file", What::File(1 << 40), &[])]));
    for lost in [false, true] {
        let client = stage.client();
        let archives = client.open(&archive(&stage.path("from")));
        let extracts = client.open(&extract(&stage.path("to")));
        extracts.write(&tar);
        extracts.write(&[1; 1000]);
        assert!(matches!(archives.next(), Some(Event::Data(1, _))));
        assert!(until(|| names(stage.path("to")) == ["file"]));
        if lost {
            client.hang_up();
        } else {
            archives.cancel();
            extracts.cancel();
        }
        // Without a client, nothing is read or written any more.
        let connections = before.map(|before| before + usize::from(!lost));
        assert!(until(|| stage.descriptors() <= connections), "{connections:?} {:?}", stage.descriptors());
        if !lost {
            while let Some(event) = archives.wait(Duration::from_millis(200)) {
                assert!(!matches!(event, Event::Answer(_)), "{event:?}");
            }
        }
        // What is left is for the caller to remove.
        fs::remove_file(stage.path("to/file")).unwrap();
    }
    assert_eq!(client.sh("echo on"), "on");
}
