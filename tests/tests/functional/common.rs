//! The helpers of the binary's tests.

use jsonschema::Validator;
use koze_tests::{Project, Run, Sandboxes, Snapshot, diff, root};
use serde_json::Value;

/// The sandbox of most tests.
pub(crate) const SHELL: &str = "src/server/shell.sandbox.rs";

/// A hand-written wrangler configuration without koze's entries.
pub(crate) const BY_HAND: &str = r#"{
  // Written by hand.
  "name": "app",
  "main": "src/generated/worker.mjs",
  "compatibility_date": "2026-04-21"
}
"#;

/// Creates a package with an SDK and no sandbox.
pub(crate) fn package() -> Project {
    let project = Project::new();
    project
        .write(
            "Cargo.toml",
            "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n",
        )
        .write("src/lib.rs", "mod generated;\n")
        .write("package.json", "{ \"dependencies\": { \"@cloudflare/sandbox\": \"0.12.10\" } }\n");
    project
}

/// Writes a configuration that koze did not create in this run. Its classes are declared in `migrations`.
pub(crate) fn existing_config(project: &Project) {
    project.write("wrangler.jsonc", koze_cli::wrangler::create::config("app"));
}

/// Creates a package with one sandbox file, `src/server/shell.sandbox.rs`, that contains this declaration.
pub(crate) fn shell(declaration: &str) -> Project {
    let project = package();
    sandbox(&project, SHELL, declaration);
    project
}

/// Writes a sandbox file whose declaration is on line 3.
pub(crate) fn sandbox(project: &Project, file: &str, declaration: &str) {
    project.write(file, format!("use koze::prelude::*;\n\n{declaration}\n"));
}

/// Writes `#[sandbox] pub struct <class>;` to a file.
pub(crate) fn plain(project: &Project, file: &str, class: &str) {
    sandbox(project, file, &format!("#[sandbox]\npub struct {class};"));
}

/// Creates a package with the images `shell` and `python`, and sandboxes on this machine.
pub(crate) fn sandboxes() -> Sandboxes {
    let project = shell("#[sandbox(default)]\npub struct ShellSandbox;");
    sandbox(&project, "src/server/python.sandbox.rs", "#[sandbox(variant = \"python\")]\nstruct Python;");
    Sandboxes::of(project)
}

/// Formats a run: the exit code and both outputs.
pub(crate) fn printed(run: &Run) -> String {
    format!("{}\n{}{}", run.code, run.stdout, run.stderr)
}

/// Builds, which must succeed without output on standard error.
pub(crate) fn built(project: &Project) -> Run {
    let run = project.koze(&["build"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    run
}

/// Builds, which must succeed, and returns the diff of the user's files.
pub(crate) fn built_diff(project: &Project) -> String {
    let before = project.snapshot();
    built(project);
    users_diff(&before, &project.snapshot())
}

/// Returns the diff without the files that koze regenerates, `src/generated` and `koze.lock`.
pub(crate) fn users_diff(before: &Snapshot, after: &Snapshot) -> String {
    let users = |files: &Snapshot| {
        let mut files = files.clone();
        files.retain(|path, _| path != "koze.lock" && !path.starts_with("src/generated/"));
        files
    };
    diff(&users(before), &users(after))
}

/// Builds, which must fail and write nothing, and returns standard error.
pub(crate) fn refused(project: &Project) -> String {
    refused_with(project, &["build"])
}

/// Runs koze, which must fail with 1 and write nothing, and returns standard error.
pub(crate) fn refused_with(project: &Project, args: &[&str]) -> String {
    let before = project.snapshot();
    let run = project.koze(args);
    assert_eq!(project.diff(&before), "", "a failed run wrote something");
    assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{}", run.stderr);
    run.stderr
}

/// Builds, which must succeed with a warning, and returns standard error.
pub(crate) fn warned(project: &Project) -> String {
    let run = project.koze(&["build"]);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    assert!(project.path("koze.lock").exists(), "a warning stopped the build");
    // In strict mode, a warning stops the build.
    let strict = refused_with(project, &["build", "--strict"]);
    assert!(strict.contains("error[") && strict.contains("nothing was written"), "{strict}");
    run.stderr
}

/// Parses the document that a run with `--format json` prints, and validates it with `schema/build.schema.json`.
pub(crate) fn document(run: &Run) -> Value {
    document_of("build", run)
}

/// Parses a document and validates it with `schema/<name>.schema.json`.
pub(crate) fn document_of(name: &str, run: &Run) -> Value {
    assert_eq!(run.stderr, "", "JSON alone");
    let document = serde_json::from_str(&run.stdout).expect("one JSON document");
    let wrong = violations(name, &document);
    assert!(wrong.is_empty(), "{wrong:#?}\n{document:#}");
    document
}

/// Returns the violations of `schema/<name>.schema.json`.
pub(crate) fn violations(name: &str, document: &Value) -> Vec<String> {
    let file = root().join(format!("schema/{name}.schema.json"));
    let text = fs_err::read_to_string(file).expect("a committed schema");
    let schema: Value = serde_json::from_str(&text).expect("JSON");
    let validator: Validator = jsonschema::draft202012::new(&schema).expect("a schema of draft 2020-12");
    let wrong = validator.iter_errors(document);
    wrong.map(|wrong| format!("{} at `{}`", wrong, wrong.instance_path())).collect()
}
