//! What the macro refuses: rustc shows the messages of the `.stderr` file next to each of `ui/*.rs`.
//!
//! `KOZE_BLESS=1` rewrites those files.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use fs_err as fs;
use koze_tests::{Snapshot, diff, root};
use serde_json::Value;

use crate::built::messages;
use crate::project;

/// Where the cases are, in this package and in the project that compiles them: messages name it.
const CASES: &str = "tests/ui";

#[test]
fn rustc_shows_the_macros_errors() {
    let dir = root().join("tests").join(CASES);
    let worker = project::made("refused");
    let mut manifest = worker.project.read("Cargo.toml");
    let (mut programs, mut committed, mut shown) = (BTreeMap::new(), Snapshot::new(), Snapshot::new());
    for entry in fs::read_dir(&dir).expect("the cases") {
        let path = entry.expect("a readable directory").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name in Unicode");
        if path.is_dir() {
            continue;
        }
        let content = fs::read(&path).expect("a file");
        if let Some(case) = name.strip_suffix(".rs") {
            // Names of programs are more restricted than those of files.
            let program = format!("case-{}", programs.len());
            let _ = write!(manifest, "\n[[example]]\nname = {program:?}\npath = \"{CASES}/{name}\"\n");
            let expected = format!("{case}.stderr");
            shown.insert(expected.clone(), Vec::new());
            programs.insert(program, expected);
        }
        if name.ends_with(".stderr") {
            committed.insert(name.to_owned(), content);
        } else {
            worker.project.write(Path::new(CASES).join(name), content);
        }
    }
    worker.project.write("Cargo.toml", manifest);
    let args = ["check", "--examples", "--keep-going", "--message-format=json"];
    for line in messages(&worker, &args).lines() {
        let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
        let Some(expected) = programs.get(line["target"]["name"].as_str().unwrap_or_default()) else {
            continue;
        };
        let message = &line["message"];
        // The last one says how many there were, and has no place.
        if message["spans"].as_array().is_some_and(|spans| !spans.is_empty()) {
            let rendered = message["rendered"].as_str().expect("a text");
            let text = shown.entry(expected.clone()).or_default();
            for line in rendered.lines() {
                text.extend(line.trim_end().bytes().chain([b'\n']));
            }
        }
    }
    for text in shown.values_mut() {
        // An empty line follows each message.
        text.truncate(text.trim_ascii_end().len());
        text.push(b'\n');
    }
    if std::env::var_os("KOZE_BLESS").is_some() {
        for (name, text) in &shown {
            fs::write(dir.join(name), text).expect("it can be written");
        }
        return;
    }
    let diff = diff(&committed, &shown);
    assert!(diff.is_empty(), "rustc shows something else; `KOZE_BLESS=1` accepts it:\n{diff}");
}
