//! rustc, clippy and rustfmt on the generated Rust code.

use std::path::Path;

use fs_err as fs;
use koze_tests::{root, run};

use crate::built::{cargo, check, wasm};
use crate::project::{self, TIMEOUT};

#[test]
fn every_project_compiles_natively_and_for_wasm() {
    let mut wrong = String::new();
    for worker in project::all() {
        let here = check(&worker, &["check", "--all-targets"]);
        let there = wasm(&worker);
        for error in [here.err(), there.err()].into_iter().flatten() {
            wrong += &error;
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn the_strictest_lints_pass() {
    for worker in [project::made("strict"), project::fixture("bindings"), project::fixture("every-key")] {
        let lib = worker.project.read("src/lib.rs");
        let (docs, rest) = lib.split_once("\n\n").expect("documentation, then the program");
        let strict = format!("{docs}\n#![deny(missing_docs, clippy::all, clippy::pedantic)]\n\n{rest}");
        worker.project.write("src/lib.rs", strict);
        check(&worker, &["clippy", "--all-targets"]).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn the_documentation_of_every_accessor_is_valid() {
    let worker = project::fixture("bindings");
    let config = worker.project.read("wrangler.jsonc");
    // Names that would be links, tags or the end of a comment outside inline code.
    let odd = r#""[Env]": "", "<b>": "", "a`b": "", "a\n*/": "", " ": "", "http://a": "","#;
    let config = config.replacen("\"vars\": {", &format!("\"vars\": {{ {odd}"), 1);
    worker.project.write("wrangler.jsonc", config);
    let run = worker.project.koze(&["build"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(worker.project.read("src/generated/env.rs").contains("`[Env]`"));
    let lib = worker.project.read("src/lib.rs").replacen("\n\n", "\n#![deny(rustdoc::all)]\n\n", 1);
    worker.project.write("src/lib.rs", lib);
    check(&worker, &["doc", "--no-deps"]).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn rustfmt_does_not_change_generated_files() {
    for worker in project::all() {
        let project = &worker.project;
        let mut fmt = cargo(project);
        fmt.arg("fmt");
        let before = project.snapshot();
        let output = run(fmt, TIMEOUT);
        assert!(output.status.success(), "{}: {output:?}", worker.name);
        let after = project.snapshot();
        for (path, content) in before {
            if path.starts_with("src/generated/") {
                assert!(after.get(&path) == Some(&content), "{}: rustfmt changed {path}", worker.name);
            }
        }
    }
}

#[test]
fn a_new_project_is_formatted() {
    let worker = project::made("formatted");
    let mut fmt = cargo(&worker.project);
    fmt.args(["fmt", "--check"]);
    let output = run(fmt, TIMEOUT);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn valid_cases_compile_without_warnings() {
    let worker = project::made("accepted");
    let cases = root().join("tests/tests/ui/pass");
    for entry in fs::read_dir(cases).expect("the cases") {
        let path = entry.expect("a readable directory").path();
        let name = path.file_name().expect("a name");
        worker.project.write(Path::new("src/server").join(name), fs::read(&path).expect("a case"));
    }
    worker.project.write(
        "src/lib.rs",
        "//! What must compile.\n#![deny(warnings, missing_docs)]\n\npub mod generated;\n",
    );
    let run = worker.project.koze(&["build"]);
    assert_eq!(run.code, 0, "{run:?}");
    check(&worker, &["check"]).unwrap_or_else(|error| panic!("{error}"));
}
