//! Trees of this machine.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicUsize, Ordering};

use koze_protocol::search::{End, Include, Search, Searched};
use tempfile::TempDir;

use super::search;
use crate::message::{Code, Fault, Place};

fn what(pattern: &str) -> Search {
    Search {
        pattern: pattern.to_owned(),
        ignore_case: false,
        include: None,
        skip_ignored: false,
        max_file_size: 3 << 20,
        binary_within: u64::MAX,
        max_line_chars: u64::MAX,
        max_line_bytes: 100,
        max_matches: 10_000,
        max_skipped: 100,
        max_directories: 10_000,
        max_entries: 100_000,
        timeout_ms: 60_000,
    }
}

fn run(dir: &TempDir, path: &str, what: &Search) -> Result<Searched, Fault> {
    let root = dir.path().to_str().expect("a path in Unicode");
    search(&Place { root: root.into(), path: format!("{root}{path}") }, what, &|| false)
}

fn paths(found: &Searched) -> Vec<String> {
    found.matches.iter().map(|found| format!("{}:{}", found.path, found.number)).collect()
}

#[test]
fn files_come_in_the_order_of_their_paths() {
    let dir = TempDir::new().unwrap();
    let mut expected = Vec::new();
    for directory in 0..40 {
        let above = dir.path().join(format!("d{directory:02}"));
        fs::create_dir_all(above.join("sub")).unwrap();
        for file in 0..40 {
            let name = if file % 7 == 3 { format!("sub/{file:02}") } else { format!("{file:02}") };
            fs::write(above.join(&name), format!("no\nyes {file}\n")).unwrap();
            expected.push(format!("d{directory:02}/{name}:2"));
        }
    }
    expected.sort_unstable();
    let found = run(&dir, "", &what("yes")).unwrap();
    assert_eq!((paths(&found), found.end), (expected.clone(), End::Complete));
    // However many threads there are, the first ones are returned.
    for most in [1, 63, 64, 65, 777] {
        let found = run(&dir, "", &Search { max_matches: most, ..what("yes") }).unwrap();
        assert_eq!((paths(&found), found.end), (expected[..most as usize].to_vec(), End::Full));
    }
    let include = Some(Include { regex: "^d3./sub/".into(), by_name: false });
    let found = run(&dir, "", &Search { include, ..what("yes") }).unwrap();
    assert_eq!(found.matches.len(), 60);
}

#[test]
fn what_is_not_searched() {
    let dir = TempDir::new().unwrap();
    let elsewhere = TempDir::new().unwrap();
    fs::write(elsewhere.path().join("secret"), "x").unwrap();
    symlink(elsewhere.path(), dir.path().join("link")).unwrap();
    symlink(elsewhere.path().join("secret"), dir.path().join("link-to-file")).unwrap();
    fs::write(dir.path().join("binary"), "x\0").unwrap();
    fs::write(dir.path().join("large"), vec![b'x'; (3 << 20) + 1]).unwrap();
    fs::write(dir.path().join("largest"), [&b"x\n"[..], &vec![b'y'; (3 << 20) - 2]].concat()).unwrap();
    fs::create_dir(dir.path().join("node_modules")).unwrap();
    fs::write(dir.path().join("node_modules/a"), "x").unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        dir.path().join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let found = run(&dir, "", &what("x")).unwrap();
    assert_eq!(paths(&found), ["largest:1", "node_modules/a:1"]);
    assert_eq!((&found.skipped[..], &found.binary[..]), (&["large".into()][..], &["binary".into()][..]));
    let found = run(&dir, "", &Search { skip_ignored: true, ..what("x") }).unwrap();
    assert_eq!(paths(&found), ["largest:1"]);
    // The start itself.
    let found = run(&dir, "/largest", &what("x")).unwrap();
    assert_eq!(paths(&found), [":1"]);
    let include = Some(Include { regex: "^other$".into(), by_name: true });
    assert!(run(&dir, "/largest", &Search { include, ..what("x") }).unwrap().matches.is_empty());
    for (path, why) in [("/link", Code::PathEscape), ("/gone", Code::NotFound), ("/pipe", Code::InvalidInput)]
    {
        assert_eq!(run(&dir, path, &what("x")).unwrap_err().why, why, "{path}");
    }
    assert_eq!(run(&dir, "", &what("(")).unwrap_err().why, Code::InvalidInput);
}

#[test]
fn deep_trees() {
    let dir = TempDir::new().unwrap();
    let mut path = dir.path().to_owned();
    for depth in 0..200 {
        fs::write(path.join("z"), format!("x {depth}")).unwrap();
        path.push("d");
        fs::create_dir(&path).unwrap();
    }
    let found = run(&dir, "", &what("x")).unwrap();
    assert_eq!(found.matches.len(), 200);
    assert_eq!(
        (&*found.matches[0].text, &*found.matches[199].text),
        ("x 199", "x 0"),
        "`d` comes before `z`"
    );
}

#[test]
fn searches_end() {
    let dir = TempDir::new().unwrap();
    for number in 0..2000 {
        fs::write(dir.path().join(number.to_string()), "x\n".repeat(10)).unwrap();
    }
    let found = run(&dir, "", &Search { timeout_ms: 0, ..what("x") }).unwrap();
    assert_eq!((found.matches.len(), found.end), (0, End::Timeout));
    let found = run(&dir, "", &Search { max_entries: 1999, ..what("x") }).unwrap();
    assert_eq!((found.matches.len(), found.end), (0, End::TooMany));
    let root = dir.path().to_str().unwrap();
    let (place, asked) = (Place { root: root.into(), path: root.into() }, AtomicUsize::new(0));
    let stop = || asked.fetch_add(1, Ordering::Relaxed) > 500;
    assert_eq!(search(&place, &what("x"), &stop).unwrap_err().why, Code::Unavailable);
    assert!(asked.into_inner() < 600, "it goes on after it was stopped");
}

#[test]
fn proc_of_the_guest_itself_is_not_searched() {
    let own = Place { root: "/".into(), path: format!("/proc/{}", std::process::id()) };
    assert_eq!(search(&own, &what("."), &|| false).unwrap_err().why, Code::PermissionDenied);
    let all = Place { root: "/".into(), path: "/proc".into() };
    let include = Some(Include { regex: format!("^{}/(environ|maps)$", std::process::id()), by_name: false });
    let found = search(&all, &Search { include, ..what(".") }, &|| false).unwrap();
    assert!(found.matches.is_empty(), "{found:?}");
}
