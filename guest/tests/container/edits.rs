//! Edits of files, and lines of files.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use serde_json::{Value, json};

use crate::Test;
use crate::client::{Client, Outcome, at, write};
use crate::stage::{How, Stage, names};

pub(crate) const TESTS: &[Test] = &[
    ("edits", edits),
    ("edits_that_are_refused", refused),
    ("edits_that_are_cut_off", cut_off),
    ("edits_and_appends_at_once", at_once),
    ("edits_in_little_memory", large),
    ("lines_of_files", lines),
    ("lines_that_are_refused", refused_lines),
    ("long_lines_in_little_memory", long_lines),
];

/// The most that the guest may have needed, in bytes: a file before and after its edit, and the texts.
const LITTLE: u64 = 64 << 20;

fn request(path: &str, old: &[u8], all: bool) -> Value {
    json!({ "edit": { "root": "/", "path": path, "old": old.len(), "all": all } })
}

fn edit(client: &Client, path: &str, old: &[u8], new: &[u8], all: bool) -> Outcome {
    client.ask_with(&request(path, old, all), &[old, new].concat())
}

fn edits() {
    let stage = Stage::new();
    let client = stage.client();
    let path = stage.path("file");
    fs::write(&path, b"\xef\xbb\xbfone\r\n\ttwo\xff\0 one").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let link = stage.path("link");
    symlink(&path, &link).unwrap();
    let done = json!({ "done": { "size": 17, "replaced": 1 } });
    assert_eq!(edit(&client, &link, b"two\xff", b"$1\xfe", false).ok(), done);
    assert_eq!(fs::read(&path).unwrap(), b"\xef\xbb\xbfone\r\n\t$1\xfe\0 one");
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!(metadata.mode() & 0o7777, 0o640);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    let ambiguous = json!({ "ambiguous": { "occurrences": 2, "lines": [1, 2] } });
    assert_eq!(edit(&client, &path, b"one", b"1", false).ok(), ambiguous);
    let nearest = json!({ "not_found": { "nearest": { "number": 1, "text": "\u{feff}one" } } });
    assert_eq!(edit(&client, &path, b"one\n  $1", b"1", false).ok(), nearest);
    assert_eq!(edit(&client, &path, b"none", b"1", true).ok(), json!({ "not_found": { "nearest": null } }));
    assert_eq!(fs::metadata(&path).unwrap().ino(), metadata.ino(), "nothing was changed");
    let done = json!({ "done": { "size": 11, "replaced": 2 } });
    assert_eq!(edit(&client, &path, b"one", b"", true).ok(), done);
    assert_eq!(names(stage.dir.path()), ["file", "link"]);
}

fn refused() {
    let stage = Stage::new();
    let client = stage.client();
    let path = stage.path("file");
    fs::write(&path, "one").unwrap();
    let root = stage.path("root");
    fs::create_dir(&root).unwrap();
    symlink(&path, stage.path("root/out")).unwrap();
    let why = |request: &Value, texts: &[u8]| client.ask_with(request, texts).why();
    assert_eq!(why(&request(&path, b"", true), b"new"), "invalid_input");
    assert_eq!(why(&request(&path, b"one", true), b"on"), "invalid_input");
    assert_eq!(why(&request(&root, b"one", true), b"one"), "is_directory");
    assert_eq!(why(&request(&stage.path("nothing"), b"one", true), b"one"), "not_found");
    assert_eq!(why(&request("/dev/null", b"one", true), b"one"), "invalid_input");
    let inside = json!({ "edit": { "root": root, "path": stage.path("root/out"), "old": 3, "all": true } });
    assert_eq!(why(&inside, b"one"), "path_escape");
    let long = vec![b'x'; (4 << 20) + 1];
    assert_eq!(why(&request(&path, &long, true), &long), "too_large");
    assert_eq!(why(&request(&path, b"one", true), &[b"one", &long[..]].concat()), "too_large");
    for length in [json!(-1), json!(1.5), json!("3"), json!(null), json!(u64::MAX)] {
        let request = json!({ "edit": { "root": "/", "path": path, "old": length, "all": true } });
        let expected = if length.is_u64() { "too_large" } else { "invalid_input" };
        assert_eq!(why(&request, b"one"), expected, "{length}");
    }
    fs::write(stage.path("large"), vec![b'a'; (16 << 20) + 1]).unwrap();
    assert_eq!(why(&request(&stage.path("large"), b"b", true), b"b"), "too_large");
    assert_eq!(fs::read(&path).unwrap(), b"one");
    assert_eq!(names(stage.dir.path()), ["file", "large", "root"]);
}

/// A call that ends before its texts have come changes nothing, and blocks nobody.
fn cut_off() {
    let stage = Stage::new();
    let client = stage.client();
    let path = stage.path("file");
    fs::write(&path, "one").unwrap();
    let cancelled = client.open(&request(&path, b"one", true));
    cancelled.data(b"one two");
    cancelled.cancel();
    let hanging = client.open(&request(&path, b"one", true));
    hanging.data(b"one");
    let other = stage.client();
    let gone = other.open(&request(&path, b"one", true));
    gone.data(b"one gone");
    other.hang_up();
    assert_eq!(
        edit(&client, &path, b"one", b"1", false).ok(),
        json!({ "done": { "size": 1, "replaced": 1 } })
    );
    assert_eq!(fs::read(&path).unwrap(), b"1");
    assert_eq!(names(stage.dir.path()), ["file"]);
}

fn at_once() {
    let stage = Stage::new();
    let clients = [stage.client(), stage.client(), stage.client(), stage.client()];
    let path = stage.path("file");
    fs::write(&path, (0..40).map(|number| format!("<{number}>\n")).collect::<Vec<_>>().concat()).unwrap();
    std::thread::scope(|scope| {
        for number in 0..40 {
            let (client, path) = (&clients[number % 4], &path);
            scope.spawn(move || {
                let (old, new) = (format!("<{number}>"), format!("[{number}]"));
                edit(client, path, old.as_bytes(), new.as_bytes(), false).ok();
            });
            scope.spawn(move || client.ask_with(&write(path, true), b"+\n").ok());
        }
    });
    let text = fs::read_to_string(&path).unwrap();
    let edited = (0..40).map(|number| format!("[{number}]\n")).collect::<Vec<_>>().concat();
    assert_eq!(text, edited + &"+\n".repeat(40));
    assert_eq!(names(stage.dir.path()), ["file"]);
}

/// Many edits of large files with long texts, all at once.
fn large() {
    // Otherwise glibc keeps freed blocks in the arenas of its threads, and how many depends on their turns.
    let stage = How::new().env("MALLOC_MMAP_THRESHOLD_", "131072").start();
    let client = stage.client();
    let (old, new) = (vec![b'a'; 4 << 20], vec![b'b'; 4 << 20]);
    for number in 0..8 {
        fs::write(stage.path(&format!("{number}")), [&vec![b'c'; 12 << 20][..], &old].concat()).unwrap();
    }
    std::thread::scope(|scope| {
        for number in 0..8 {
            let (client, stage, old, new) = (&client, &stage, &old, &new);
            scope.spawn(move || {
                let path = stage.path(&format!("{number}"));
                let done = json!({ "done": { "size": 16 << 20, "replaced": 1 } });
                assert_eq!(edit(client, &path, old, new, false).ok(), done);
            });
        }
    });
    assert!(stage.peak() < LITTLE + (16 << 20), "{}", stage.peak());
    assert_eq!(names(stage.dir.path()).len(), 8);
}

fn range(path: &str, first: u64, last: Option<u64>, max_chars: u64) -> Value {
    json!({ "read_lines": {
        "root": "/", "path": path, "first": first, "last": last, "max_chars": max_chars, "verbatim": false
    } })
}

fn lines() {
    let stage = Stage::new();
    let client = stage.client();
    let path = stage.path("file");
    fs::write(&path, "one\r\ntw\u{20ac}\n").unwrap();
    let read = |first, last, max_chars| {
        let Outcome { answer, out, .. } = client.ask(&range(&path, first, last, max_chars));
        (String::from_utf8(out).unwrap(), answer["ok"].clone())
    };
    let found = |chars: u64, past_end: bool| json!({ "chars": chars, "past_end": past_end, "binary": false, "size": 11 });
    assert_eq!(read(1, None, 9), ("one\ntw\u{20ac}".into(), found(7, false)));
    assert_eq!(read(1, Some(1), 9), ("one".into(), found(3, false)));
    assert_eq!(read(2, None, 2), ("tw".into(), found(3, false)));
    assert_eq!(read(3, None, 9), (String::new(), found(0, true)));
    let verbatim = json!({ "read_lines": {
        "root": "/", "path": path, "first": 1, "last": null, "max_chars": 9, "verbatim": true
    } });
    assert_eq!(client.ask(&verbatim).out, "one\r\ntw\u{20ac}\n".as_bytes());
    // What says it is empty and is not.
    let uptime = client.ask(&range("/proc/self/../uptime", 1, None, 99));
    assert!(!uptime.out.is_empty() && uptime.answer["ok"]["size"].as_u64() > Some(0), "{uptime:?}");
    fs::write(&path, b"one\n\xff").unwrap();
    assert_eq!(client.ok(&range(&path, 1, None, 9))["binary"], true);
}

fn refused_lines() {
    let stage = Stage::new();
    let client = stage.client();
    let path = stage.path("file");
    fs::write(&path, "one").unwrap();
    for (request, why) in [
        (range(&path, 0, None, 1), "invalid_input"),
        (range(&path, 2, Some(1), 1), "invalid_input"),
        (range(&path, 1, None, u64::MAX), "invalid_input"),
        (range(&stage.path(""), 1, None, 1), "is_directory"),
        (range("/nowhere", 1, None, 1), "not_found"),
        (range("/dev/zero", 1, None, 1), "invalid_input"),
        (json!({ "read_lines": at(&path) }), "invalid_input"),
    ] {
        assert_eq!(client.why(&request), why, "{request}");
    }
}

fn long_lines() {
    const SIZE: u64 = 256 << 20;
    let stage = Stage::new();
    let client = stage.client();
    let path = stage.path("file");
    client.sh(&format!("yes | tr -d '\\n' | head -c {SIZE} > {path}"));
    let got = client.ask(&range(&path, 1, None, 2 << 20));
    assert_eq!(got.answer["ok"]["chars"], SIZE);
    assert!(got.out == vec![b'y'; 2 << 20]);
    assert!(stage.peak() < 48 << 20, "{}", stage.peak());
    // Cancelled, the guest stops reading, and the connection goes on.
    let cancelled = client.open(&range(&path, 2, None, 1));
    cancelled.cancel();
    assert_eq!(client.ok(&json!({ "stat": at(&path) }))["size"], SIZE);
}
