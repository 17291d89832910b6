//! The macro's errors, which the command line must report with the same text at the same location.
//!
//! `ui/*.rs` must not compile, with the messages of the `.stderr` file next to each; `ui/pass/*.rs` must compile without
//! warnings. This test checks them with the command line. `worker/refused.rs` and `worker/rust.rs` compile them, each in one
//! package, so that lints treat them like a user's code.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use fs_err as fs;
use koze_tests::{Project, root};
use serde_json::Value;

/// Cases that the command line never reads, because it reads only files named `*.sandbox.rs`. K008 reports the others.
const UNSEEN: &[&str] = &["k008-not-a-sandbox-file.rs"];

/// Rules of the model that no case can show, and why.
const NOT_OF_THE_MACRO: &[(&str, &str)] = &[
    ("K001", "rustc reports invalid Rust: there is no item for a macro"),
    ("K002", "a file without the attribute never calls the macro"),
    ("K018", "a warning, which a macro has no way to give"),
    ("K022", "rustc takes a `cfg` away, or the item with it, before it calls the macro"),
    ("K025", "the macro sees one sandbox at a time"),
    ("K026", "the macro sees one sandbox at a time"),
    ("K120", "the macro sees one sandbox at a time"),
    ("K121", "the macro sees one sandbox at a time"),
];

/// A message of rustc or koze.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    line: u64,
    column: u64,
    code: String,
    message: String,
    help: String,
}

#[test]
fn the_command_line_reports_the_same_errors() {
    for case in cases("tests/tests/ui") {
        let name = name(&case);
        let stderr = fs::read_to_string(case.with_extension("stderr")).expect("the case's messages");
        let mut rustc = of_rustc(&stderr);
        let mut koze = of_koze(&case);
        if UNSEEN.contains(&name) {
            assert!(!rustc.is_empty(), "{name}: it is a case of something");
            assert_eq!(koze, [], "{name}: koze sees it after all");
            continue;
        }
        // rustc may report two errors in another order.
        rustc.sort();
        koze.sort();
        assert_eq!(rustc, koze, "{name}: rustc on the left, koze on the right");
    }
}

#[test]
fn the_command_line_accepts_what_rustc_accepts() {
    for case in cases("tests/tests/ui/pass") {
        assert_eq!(of_koze(&case), [], "{}", name(&case));
    }
}

#[test]
fn every_rule_of_the_macro_has_a_case() {
    let shown: BTreeSet<String> = cases("tests/tests/ui")
        .iter()
        .map(|case| fs::read_to_string(case.with_extension("stderr")).expect("the case's messages"))
        .flat_map(|stderr| of_rustc(&stderr))
        .map(|finding| finding.code)
        .collect();
    let absent: Vec<_> = koze_model::Rule::all()
        .into_iter()
        .map(|rule| rule.code)
        .filter(|code| !shown.contains(*code))
        .collect();
    let excused: Vec<_> = NOT_OF_THE_MACRO.iter().map(|(code, _)| *code).collect();
    assert_eq!(absent, excused);
}

/// Returns the `.rs` files of a directory in the workspace, sorted.
fn cases(dir: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(dir)).expect("the cases");
    let mut cases: Vec<_> = entries
        .map(|entry| entry.expect("a readable directory").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect();
    cases.sort();
    assert!(!cases.is_empty(), "no cases in {dir}");
    cases
}

fn name(case: &Path) -> &str {
    case.file_name().and_then(|name| name.to_str()).expect("a name in Unicode")
}

/// Returns the messages in a `.stderr` file. All of them are the macro's: a mistake causes no additional error of
/// rustc.
fn of_rustc(stderr: &str) -> Vec<Finding> {
    let blocks = format!("\n{stderr}");
    blocks
        .split("\nerror")
        .skip(1)
        .map(|block| finding(block).unwrap_or_else(|| panic!("error{block}")))
        .collect()
}

/// Parses the text after `error` in
///
/// ```text
/// error: [K010] message
///
///        help: text
///  --> tests/ui/case.rs:3:11
/// ```
fn finding(block: &str) -> Option<Finding> {
    let (text, place) = block.strip_prefix(": [")?.split_once("--> ")?;
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    let text = lines.join("\n");
    let (code, text) = text.split_once("] ")?;
    let (message, help) = text.split_once("\n\nhelp: ")?;
    let mut place = place.lines().next()?.rsplit(':');
    let column = place.next()?.parse().ok()?;
    let line = place.next()?.parse().ok()?;
    // Where the files are in the other package.
    let help = help.trim_end().replace("`tests/ui`", "`src/server`");
    Some(Finding { line, column, code: code.to_owned(), message: message.to_owned(), help })
}

/// Returns the errors of `koze build` on a package with the same file.
fn of_koze(case: &Path) -> Vec<Finding> {
    let project = Project::new();
    project
        .write("Cargo.toml", "[package]\nname = \"case\"\nedition = \"2024\"\n")
        .write("package.json", r#"{ "dependencies": { "@cloudflare/sandbox": "0.12.10" } }"#)
        .write(Path::new("src/server").join(name(case)), fs::read(case).expect("the case"));
    let dockerfile = case.with_file_name("every-key.Dockerfile");
    if dockerfile.exists() {
        project.write("src/server/every-key.Dockerfile", fs::read(dockerfile).expect("its Dockerfile"));
    }
    let run = project.koze(&["build", "--dry-run", "--format", "json"]);
    let document: Value =
        serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run:?}"));
    let errors: Vec<_> = document["diagnostics"]
        .as_array()
        .expect("a list of diagnostics")
        .iter()
        .filter(|diagnostic| diagnostic["level"] == "error")
        .map(|diagnostic| {
            let text = |key: &str| diagnostic[key].as_str().expect("a text").to_owned();
            let number = |key: &str| diagnostic[key].as_u64().unwrap_or_default();
            assert_eq!(diagnostic["file"], format!("src/server/{}", name(case)));
            Finding {
                line: number("line"),
                column: number("column"),
                code: text("code"),
                message: text("message"),
                help: text("help"),
            }
        })
        .collect();
    assert_eq!(run.code, i32::from(!errors.is_empty()), "{run:?}");
    errors
}
