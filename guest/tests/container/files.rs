//! File requests.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use koze_guest::container::frame::CREDIT;
use serde_json::{Value, json};

use crate::Test;
use crate::client::{Client, at, read, write};
use crate::stage::{Stage, names};

pub(crate) const TESTS: &[Test] = &[
    ("write_read_append", write_read_append),
    ("bytes_stay_bytes", bytes_stay_bytes),
    ("pieces_of_a_file", pieces),
    ("list_and_stat", list_and_stat),
    ("long_lists", long_lists),
    ("make_set_move_remove", make_set_move_remove),
    ("move_between_mounts", move_between_mounts),
    ("rejected_paths", refused),
    ("long_requests_and_long_paths", long_requests),
    ("big_files_in_little_memory", big_files),
    ("appends_are_whole", appends_are_whole),
    ("files_are_continued_where_they_end", continued),
];

fn read_all(client: &Client, path: &str) -> Vec<u8> {
    client.ask(&read(path, 0, u64::MAX)).out
}

fn write_read_append() {
    let stage = Stage::new();
    let client = stage.client();
    let path = stage.path("above/that/file");
    assert_eq!(client.ask_with(&write(&path, false), b"one").ok(), json!({ "size": 3 }));
    assert_eq!(client.ask_with(&write(&path, true), b" two").ok(), json!({ "size": 7 }));
    let got = client.ask(&read(&path, 0, 100));
    assert_eq!((got.answer, &got.out[..]), (json!({ "ok": { "size": 7 } }), &b"one two"[..]));
    // Replaced atomically, keeping its permission bits; and through a link, which stays a link.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let before = fs::metadata(&path).unwrap().ino();
    let link = stage.path("link");
    symlink(&path, &link).unwrap();
    assert_eq!(client.ask_with(&write(&link, false), b"").ok(), json!({ "size": 0 }));
    let after = fs::metadata(&path).unwrap();
    assert!(after.ino() != before && after.mode() & 0o7777 == 0o600 && after.len() == 0);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    let new = stage.path("new");
    assert_eq!(client.ask_with(&write(&new, true), b"x").ok(), json!({ "size": 1 }));
    assert_eq!(names(stage.dir.path()), ["above", "link", "new"]);
}

fn bytes_stay_bytes() {
    let stage = Stage::new();
    let client = stage.client();
    let all: Vec<u8> = (0..=255).cycle().take(700_001).collect();
    let path = stage.path("all");
    client.ask_with(&write(&path, false), &all).ok();
    assert!(fs::read(&path).unwrap() == all);
    assert!(read_all(&client, &path) == all);
    client.ask_with(&write(&path, true), &all).ok();
    assert!(read_all(&client, &path) == [&all[..], &all[..]].concat());
    let cat =
        json!({ "exec": { "argv": ["cat", path], "cwd": "/", "timeout_ms": 60_000, "max_output": 8 << 20 } });
    assert!(client.ask(&cat).out == [&all[..], &all[..]].concat());
}

fn pieces() {
    let stage = Stage::new();
    let client = stage.client();
    let path = stage.path("file");
    fs::write(&path, "0123456789").unwrap();
    for (offset, limit, part) in
        [(0, 4, "0123"), (8, 4, "89"), (3, 0, ""), (10, 5, ""), (99, 5, ""), (u64::MAX, u64::MAX, "")]
    {
        let got = client.ask(&read(&path, offset, limit));
        assert_eq!(
            (got.answer, &got.out[..]),
            (json!({ "ok": { "size": 10 } }), part.as_bytes()),
            "{offset}"
        );
    }
    // A file that reports size 0 but has content.
    let got = client.ask(&read("/proc/self/../uptime", 0, 1 << 20));
    assert!(!got.out.is_empty());
    assert_eq!(got.answer, json!({ "ok": { "size": got.out.len() } }));
}

fn list_and_stat() {
    let stage = Stage::new();
    let client = stage.client();
    let list = json!({ "list": at(&stage.path("")) });
    let got = client.ask(&list);
    assert_eq!((got.answer, &got.out[..]), (json!({ "ok": {} }), &b"[]"[..]));
    fs::write(stage.path("file"), "abc").unwrap();
    fs::set_permissions(stage.path("file"), fs::Permissions::from_mode(0o4640)).unwrap();
    fs::create_dir(stage.path("directory")).unwrap();
    symlink("nowhere at \"all\"", stage.path("link")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(stage.path("other")).unwrap();
    let got = client.ask(&list);
    let Value::Array(mut entries) = serde_json::from_slice(&got.out).unwrap() else { panic!("{got:?}") };
    entries.sort_by_key(|entry| entry["name"].as_str().unwrap().to_owned());
    let kinds: Vec<_> =
        entries.iter().map(|entry| (&entry["name"], &entry["kind"], &entry["target"])).collect();
    let [directory, file, link, other] = &kinds[..] else { panic!("{kinds:?}") };
    assert_eq!(*directory, (&json!("directory"), &json!("directory"), &Value::Null));
    assert_eq!(*file, (&json!("file"), &json!("file"), &Value::Null));
    assert_eq!(*link, (&json!("link"), &json!("link"), &json!("nowhere at \"all\"")));
    assert_eq!(*other, (&json!("other"), &json!("other"), &Value::Null));
    assert_eq!((&entries[1]["size"], &entries[1]["mode"]), (&json!(3), &json!(0o4640)));
    let mut stat = client.ok(&json!({ "stat": at(&stage.path("file")) }));
    let removed = stat.as_object_mut().map(|stat| (stat.remove("mtime"), stat.remove("version")));
    assert_eq!(stat, json!({ "kind": "file", "target": null, "size": 3, "mode": 0o4640 }));
    let (mtime, version) = removed.unwrap();
    let modified = std::fs::metadata(stage.path("file")).unwrap().modified().unwrap();
    let since = modified.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    assert_eq!(mtime, Some(json!(u64::try_from(since).unwrap())));
    assert!(version.as_ref().and_then(Value::as_u64).is_some_and(|version| version < 1 << 53));
    let times =
        fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH - std::time::Duration::from_millis(1500));
    fs::File::open(stage.path("file")).unwrap().set_times(times).unwrap();
    let earlier = client.ok(&json!({ "stat": at(&stage.path("file")) }));
    assert_eq!(earlier["mtime"], -1500);
    assert_ne!(Some(&earlier["version"]), version.as_ref());
    let stat = client.ok(&json!({ "stat": at(&stage.path("link")) }));
    assert_eq!((&stat["kind"], &stat["target"]), (&json!("link"), &json!("nowhere at \"all\"")));
}

fn long_lists() {
    let stage = Stage::new();
    let client = stage.client();
    fs::create_dir(stage.path("many")).unwrap();
    let mut all: Vec<_> = (0..5000).map(|n| format!("{n}-{}", "n".repeat(150))).collect();
    for name in &all {
        fs::write(stage.path(&format!("many/{name}")), "").unwrap();
    }
    let got = client.ask(&json!({ "list": at(&stage.path("many")) }));
    assert!(got.out.len() > 1 << 20);
    let entries: Vec<Value> = serde_json::from_slice(&got.out).unwrap();
    let mut got: Vec<_> = entries.iter().map(|entry| entry["name"].as_str().unwrap()).collect();
    got.sort_unstable();
    all.sort();
    assert!(got == all);
}

fn make_set_move_remove() {
    let stage = Stage::new();
    let client = stage.client();
    let nothing = json!({});
    assert_eq!(client.ok(&json!({ "make_dir": at(&stage.path("a/b/c")) })), nothing);
    assert_eq!(client.ok(&json!({ "make_dir": at(&stage.path("a/b/c")) })), nothing);
    let link = json!({ "make_link": { "root": "/", "path": stage.path("a/link"), "target": "b" } });
    assert_eq!(client.ok(&link), nothing);
    assert_eq!(client.why(&link), "already_exists");
    assert_eq!(fs::read_link(stage.path("a/link")).unwrap().to_str(), Some("b"));
    let mode = |mode: u32| json!({ "set_mode": { "root": "/", "path": stage.path("a/b"), "mode": mode } });
    assert_eq!(client.ok(&mode(0o711)), nothing);
    assert_eq!(fs::metadata(stage.path("a/b")).unwrap().mode() & 0o7777, 0o711);
    assert_eq!(client.why(&mode(0o10_000)), "invalid_input");
    let to = |from: &str, to: &str| json!({ "rename": { "from": at(&stage.path(from)), "to": at(&stage.path(to)) } });
    assert_eq!(client.ok(&to("a/b", "z")), nothing);
    assert_eq!(client.why(&to("a/b", "z")), "not_found");
    let remove = |path: &str| json!({ "remove": at(&stage.path(path)) });
    assert_eq!(client.ok(&remove("a/link")), nothing);
    assert_eq!(client.ok(&remove("z")), nothing);
    assert_eq!(client.why(&remove("z")), "not_found");
    assert_eq!(names(stage.path("a")), [""; 0]);
}

fn move_between_mounts() {
    let stage = Stage::new();
    let client = stage.client();
    let there = tempfile::tempdir_in("/dev/shm").unwrap();
    let target = there.path().join("tree");
    let other = |path: &str| fs::metadata(path).unwrap().dev();
    assert_ne!(other("/dev/shm"), other(&stage.path("")), "the directories are on different mounts");
    fs::create_dir_all(stage.path("tree/below")).unwrap();
    fs::write(stage.path("tree/below/file"), "x").unwrap();
    let moves = json!({ "rename": { "from": at(&stage.path("tree")), "to": at(target.to_str().unwrap()) } });
    assert_eq!(client.ok(&moves), json!({}));
    assert_eq!(fs::read(target.join("below/file")).unwrap(), b"x");
    assert_eq!(names(stage.dir.path()), [""; 0]);
    assert_eq!(names(there.path()), ["tree"]);
    // A tree that cannot be copied stays, and leaves nothing at the target.
    fs::create_dir(stage.path("tree")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(stage.path("tree/socket")).unwrap();
    fs::remove_dir_all(&target).unwrap();
    assert_eq!(client.why(&moves), "invalid_input");
    assert_eq!(names(there.path()), [""; 0]);
    assert_eq!(names(stage.path("tree")), ["socket"]);
    // Nor does a tree that is deeper than the stack allows.
    let mut deep =
        rustix::fs::open(stage.path("tree"), rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty()).unwrap();
    fs::remove_file(stage.path("tree/socket")).unwrap();
    for _ in 0..3000 {
        rustix::fs::mkdirat(&deep, "d", rustix::fs::Mode::RWXU).unwrap();
        deep = rustix::fs::openat(&deep, "d", rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty()).unwrap();
    }
    drop(deep);
    assert_eq!(client.why(&moves), "invalid_input");
    assert_eq!(names(there.path()), [""; 0]);
    assert_eq!(client.ok(&json!({ "remove": at(&stage.path("tree")) })), json!({}));
}

fn refused() {
    let stage = Stage::new();
    let client = stage.client();
    fs::write(stage.path("file"), "x").unwrap();
    fs::create_dir(stage.path("root")).unwrap();
    symlink(stage.path("file"), stage.path("root/out")).unwrap();
    let inside = |path: &str| json!({ "root": stage.path("root"), "path": path });
    for (request, why) in [
        (json!({ "stat": at("relative") }), "invalid_input"),
        (json!({ "stat": at("") }), "invalid_input"),
        (json!({ "stat": at("/a\0b") }), "invalid_input"),
        (json!({ "stat": at(&stage.path("file/below")) }), "not_a_directory"),
        (json!({ "list": at(&stage.path("file")) }), "not_a_directory"),
        (json!({ "list": at("/nowhere") }), "not_found"),
        (read("/nowhere", 0, 1), "not_found"),
        (read("/dev/null", 0, 1), "invalid_input"),
        (read(&stage.path("root"), 0, 1), "is_directory"),
        (json!({ "stat": inside(&stage.path("file")) }), "path_escape"),
        (json!({ "stat": inside(&stage.path("root/../file")) }), "path_escape"),
        (json!({ "list": inside(&stage.path("root/../../")) }), "path_escape"),
        (json!({ "remove": inside(&stage.path("file")) }), "path_escape"),
        (json!({ "remove": at("/") }), "invalid_input"),
        (json!({ "format": {} }), "invalid_input"),
        (json!(null), "invalid_input"),
    ] {
        assert_eq!(client.why(&request), why, "{request}");
    }
    let through = json!({ "write": { "root": stage.path("root"), "path": stage.path("root/out") } });
    assert_eq!(client.ask_with(&through, b"y").why(), "path_escape");
    assert_eq!(client.ask_with(&write(&stage.path("root"), false), &vec![0; 400_000]).why(), "is_directory");
    assert_eq!(client.ask_with(&write(&stage.path("root"), true), &vec![0; 4_000_000]).why(), "is_directory");
    assert_eq!(fs::read(stage.path("file")).unwrap(), b"x");
}

fn long_requests() {
    let stage = Stage::new();
    let client = stage.client();
    let mut request = json!({ "stat": at(&stage.path("")) });
    request["stat"]["more"] = json!("x".repeat(4_000_000));
    assert_eq!(client.ok(&request)["kind"], "directory");
    assert_eq!(client.why(&json!({ "stat": at(&format!("/{}", "x".repeat(300_000))) })), "invalid_input");
    // Create and remove a directory at the maximum depth of a path.
    let top = stage.path("d");
    let deep = format!("{top}{}", "/d".repeat((4094 - top.len()) / 2));
    assert_eq!(client.ok(&json!({ "make_dir": at(&deep) })), json!({}));
    assert_eq!(client.ok(&json!({ "stat": at(&deep) }))["kind"], "directory");
    assert_eq!(client.ok(&json!({ "remove": at(&top) })), json!({}));
    assert_eq!(names(stage.dir.path()), [""; 0]);
}

/// The maximum memory of the guest over all of these tests, in bytes.
const LITTLE: u64 = 48 << 20;

fn big_files() {
    const SIZE: usize = 1 << 30;
    let stage = Stage::new();
    let client = stage.client();
    let path = stage.path("big");
    let piece: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
    let call = client.open(&write(&path, false));
    let (mut credit, mut left) = (CREDIT as usize, SIZE);
    for part in piece.chunks(64 << 10).cycle() {
        if left == 0 {
            break;
        }
        while credit < part.len() {
            match call.next() {
                Some(crate::client::Event::Credit(more)) => credit += more as usize,
                other => panic!("{other:?}"),
            }
        }
        call.data(part);
        (credit, left) = (credit - part.len(), left - part.len());
    }
    call.end();
    assert_eq!(call.outcome().ok(), json!({ "size": SIZE }));
    assert!(stage.peak() < LITTLE, "{}", stage.peak());

    let call = client.open(&read(&path, 0, u64::MAX));
    let mut length = 0;
    let answer = loop {
        match call.next().unwrap() {
            crate::client::Event::Data(1, bytes) => {
                let at = length % piece.len();
                assert!(bytes == piece[at..at + bytes.len()], "at {length}");
                length += bytes.len();
                call.credit(1, u32::try_from(bytes.len()).unwrap());
            }
            crate::client::Event::Answer(answer) => break answer,
            _ => {}
        }
    };
    assert_eq!((answer, length), (json!({ "ok": { "size": SIZE } }), SIZE));
    assert!(stage.peak() < LITTLE, "{}", stage.peak());
}

fn appends_are_whole() {
    let stage = Stage::new();
    let client = stage.client();
    let path = stage.path("log");
    let line = |letter: u8| [&vec![letter; 1_500_000][..], b"\n"].concat();
    std::thread::scope(|scope| {
        for letter in *b"abcdefgh" {
            let (client, path) = (&client, &path);
            scope.spawn(move || client.ask_with(&write(path, true), &line(letter)).ok());
        }
    });
    let text = fs::read(&path).unwrap();
    let mut lines: Vec<_> = text.split_inclusive(|byte| *byte == b'\n').collect();
    lines.sort_unstable();
    assert!(lines.into_iter().map(<[u8]>::to_vec).eq(b"abcdefgh".iter().map(|letter| line(*letter))));
    assert_eq!(names(stage.dir.path()), ["log"]);
}

fn continued() {
    let stage = Stage::new();
    let client = stage.client();
    let path = stage.path("new/file");
    let write = |offset: u64, bytes: &[u8]| {
        let request = json!({ "root": "/", "path": path, "append": true, "offset": offset });
        client.ask_with(&json!({ "write": request }), bytes).answer
    };
    let code = |answer: &Value| answer["failed"]["why"].clone();
    assert_eq!(code(&write(5, b"lost")), "unavailable");
    assert!(!fs::exists(&path).unwrap(), "nothing is created");
    assert_eq!(write(0, b"one"), json!({ "ok": { "size": 3 } }));
    let big = vec![7; 3_000_000];
    assert_eq!(write(3, &big), json!({ "ok": { "size": 3_000_003 } }));
    for (offset, expected) in [(0, "already_exists"), (3, "unavailable"), (3_000_004, "unavailable")] {
        assert_eq!(code(&write(offset, b"x")), expected, "{offset}");
    }
    assert!(fs::read(&path).unwrap() == [b"one", &big[..]].concat());
    fs::remove_file(&path).unwrap();
    let lost = write(3_000_003, b"x");
    assert_eq!(code(&lost), "unavailable");
    assert!(lost.to_string().contains("restarted") && lost.to_string().contains(&path), "{lost}");
    assert_eq!(names(stage.dir.path().join("new")), [""; 0]);
}
