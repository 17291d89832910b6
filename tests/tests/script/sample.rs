//! A fixed sample of test262. Both engines must do the same with every file, and what they did before
//! (`test262/README.md`).

use std::collections::BTreeMap;

use fs_err as fs;
use koze_script::protocol::ToScript;
use koze_tests::{diff, root};
use serde_json::json;

use crate::native::Ran;
use crate::{engine, native, start};

/// The fewest files of a sample, so that one that is not read is no success.
const FILES: usize = 40;

/// What a file of the suite says of itself, in the comment at its start.
struct File<'a> {
    path: &'a str,
    source: &'a str,
}

impl<'a> File<'a> {
    /// Returns the items of a list in the description.
    fn list(&self, key: &str) -> impl Iterator<Item = &'a str> {
        let start = format!("{key}: [");
        let line = self.source.lines().find_map(move |line| line.strip_prefix(&start)?.strip_suffix(']'));
        line.into_iter().flat_map(|items| items.split(',')).map(str::trim).filter(|item| !item.is_empty())
    }

    fn has_flag(&self, flag: &str) -> bool {
        self.list("flags").any(|other| other == flag)
    }

    /// Returns the name of the error that the file must end with, if so.
    fn negative(&self) -> Option<&'a str> {
        let mut lines = self.source.lines().skip_while(|line| line.trim_end() != "negative:").skip(1);
        lines.find_map(|line| line.strip_prefix("  type: ")).map(str::trim)
    }

    /// Returns the script: helpers and the file, in the mode that it asks for.
    fn script(&self, helpers: &BTreeMap<&str, &str>) -> String {
        let mut script = String::new();
        if self.has_flag("onlyStrict") {
            script.push_str("'use strict';\n");
        }
        for helper in ["assert.js", "sta.js"].into_iter().chain(self.list("includes")) {
            script.push_str(helpers.get(helper).unwrap_or_else(|| panic!("{}: no {helper}", self.path)));
        }
        let is_async = self.has_flag("async");
        if is_async {
            script.push_str(
                "\nvar $DONE; const completed = new Promise((resolve, reject) => {\n  \
                 $DONE = (error) => error ? reject(error) : resolve();\n});\n",
            );
        }
        script.push_str(self.source);
        // Its value is not the result: it need not be one that JSON has.
        script.push_str(if is_async { "\n;await completed; 0" } else { "\n;0" });
        script
    }

    /// Returns the line for what the file did.
    fn verdict(&self, ran: &Ran) -> String {
        let path = self.path.trim_start_matches("test/");
        match (&ran.done, self.negative()) {
            (Ok(_), None) => format!("ok {path}"),
            (Ok(_), Some(error)) => format!("no {path}: ended without the {error}"),
            (Err(failure), Some(error)) if failure.message.starts_with(&format!("{error}:")) => {
                format!("ok {path}")
            }
            (Err(failure), _) => format!("no {path}: {}", failure.message.replace('\n', " ")),
        }
    }
}

#[test]
fn a_sample_of_test262_does_the_same_in_both_engines() {
    let directory = root().join("tests/tests/script/test262");
    let text = fs::read_to_string(directory.join("sample.txt")).unwrap();
    let parts = text.split("\n==== ").skip(1).map(|part| part.split_once('\n').expect("a path and a text"));
    let (helpers, files): (Vec<_>, Vec<_>) = parts.partition(|(path, _)| path.starts_with("harness/"));
    let helpers =
        helpers.iter().map(|(path, source)| (path.trim_start_matches("harness/"), *source)).collect();
    assert!(files.len() >= FILES, "{} files", files.len());

    let (mut verdicts, mut different) = (String::new(), Vec::new());
    for (path, source) in files {
        let file = File { path, source };
        let message = start(&file.script(&helpers));
        let ToScript::Start(script) = &message else { unreachable!() };
        assert!(script.code.len() < koze_script::limits::CODE, "{path} is too long");
        let here = native::send(message.clone());
        // The engine of this process has no fuel, but a clock.
        let there = engine::run(&message, &json!({ "fuel": 100_000_000_000_u64 }));
        if here != there {
            different.push(format!("{path}: {there:?} in WebAssembly, and {here:?} in this process"));
        }
        verdicts.push_str(&file.verdict(&here));
        verdicts.push('\n');
    }
    assert!(different.is_empty(), "{} files:\n{}", different.len(), different.join("\n"));

    let committed = directory.join("verdicts.txt");
    if std::env::var_os("KOZE_BLESS").is_some() {
        fs::write(&committed, &verdicts).unwrap();
    }
    let committed = fs::read_to_string(&committed).unwrap_or_default();
    let side = |text: &str| BTreeMap::from([("verdicts.txt".to_owned(), text.as_bytes().to_vec())]);
    let diff = diff(&side(&committed), &side(&verdicts));
    assert!(committed == verdicts, "run with KOZE_BLESS=1 to update verdicts.txt:\n{diff}");
}
