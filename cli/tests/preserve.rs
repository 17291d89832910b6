//! Checks that removing everything koze has written to a configuration restores its original bytes.

use std::path::Path as FilePath;

use koze_cli::build::{self, Build, Options};
use koze_cli::draft::{Draft, Removal, Storage};
use koze_cli::finding::Findings;
use koze_edit::{Document, Edit, Format, Step};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::TempDir;

// Shared with the tests of the editor.
#[path = "../../edit/tests/preserve/compare.rs"]
mod compare;
#[path = "../../edit/tests/preserve/generate.rs"]
mod generate;

use compare::{is_within, tight};
use generate::*;

/// The sandboxes: file names and classes.
const SANDBOXES: [(&str, &str); 3] =
    [("shell", "ShellSandbox"), ("python", "Python"), ("code-runner", "Runner")];

/// Generates a list of entries that are not koze's, with arbitrary keys.
fn foreign(entry: impl Fn(usize) -> Value) -> impl Strategy<Value = Option<Value>> {
    let extras = vec(members(scalar(), 0..2), 0..3);
    prop::option::of(extras.prop_map(move |extras| {
        let with = |(number, extra): (usize, Value)| {
            let mut all = extra;
            let entry = entry(number);
            for (key, value) in entry.as_object().expect("an object") {
                all[key.as_str()] = value.clone();
            }
            all
        };
        extras.into_iter().enumerate().map(with).collect()
    }))
}

/// Generates a level of a configuration: arbitrary values, and lists in wrangler's form.
fn level(environment: &'static str) -> impl Strategy<Value = Value> {
    let containers = foreign(
        move |number| json!({ "name": format!("own{environment}-{number}"), "class_name": format!("Own{number}"), "image": "nginx:1.27" }),
    );
    let bindings =
        foreign(|number| json!({ "name": format!("OWN_{number}"), "class_name": format!("Own{number}") }));
    (object(), containers, bindings).prop_map(|(mut level, containers, bindings)| {
        let object = level.as_object_mut().expect("an object");
        for key in ["containers", "durable_objects", "migrations", "env", "exports"] {
            object.shift_remove(key);
        }
        object.extend(containers.map(|list| ("containers".to_owned(), list)));
        object.extend(bindings.map(|list| ("durable_objects".to_owned(), json!({ "bindings": list }))));
        level
    })
}

/// Generates a configuration; `exports` selects how it declares its classes.
fn config(exports: bool) -> impl Strategy<Value = Value> {
    let migrations = foreign(
        |number| json!({ "tag": format!("t{number}"), "new_sqlite_classes": [format!("Own{number}")] }),
    );
    (level(""), prop::option::of(level("-x")), migrations).prop_map(move |(mut root, environment, migrations)| {
        if exports {
            root["exports"] = json!({ "Own0": { "type": "durable-object", "storage": "sqlite" } });
        } else if let Some(migrations) = migrations {
            // A migration has only wrangler's keys.
            let known = |migration: &Value| {
                json!({ "tag": migration["tag"], "new_sqlite_classes": migration["new_sqlite_classes"] })
            };
            root["migrations"] = migrations.as_array().expect("a list").iter().map(known).collect();
        }
        if let Some(environment) = environment {
            root["env"] = json!({ "x": environment });
        }
        root
    })
}

struct Project {
    dir: TempDir,
    file: &'static str,
}

impl Project {
    fn new(format: Format, text: &str) -> Project {
        let memory = FilePath::new("/dev/shm");
        let dir = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
        let file = if format == Format::Toml { "wrangler.toml" } else { "wrangler.jsonc" };
        let project = Project { dir: dir.expect("a directory"), file };
        project.write("Cargo.toml", "[package]\nname = \"app\"\nversion = \"0.1.0\"\n\n[workspace]\n");
        project.write("package.json", "{ \"dependencies\": { \"@cloudflare/sandbox\": \"0.12.10\" } }");
        project.write(file, text);
        project
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.dir.path().join(path);
        fs_err::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs_err::write(path, text).expect("a file");
    }

    fn text(&self) -> String {
        fs_err::read_to_string(self.dir.path().join(self.file)).expect("a text")
    }

    fn build(&self, removal: Option<Removal>) {
        let options = Options {
            project: self.dir.path().to_owned(),
            config: None,
            sdk: None,
            draft: Draft { removal, ..Draft::default() },
            write: true,
            worker: true,
            staged: false,
            directory_lock: None,
        };
        let mut findings = Findings::new(false);
        let done = build::run(&options, &mut Build::default(), &mut findings);
        assert!(done.is_ok(), "{:?}\n{}", findings.iter().collect::<Vec<_>>(), self.text());
    }
}

/// Builds with sandboxes, removes them again, and checks the configuration each time.
fn check(format: Format, text: &str, count: usize) {
    let project = Project::new(format, text);
    for (name, class) in &SANDBOXES[..count] {
        let source = format!("use koze::prelude::*;\n\n#[sandbox]\npub struct {class};\n");
        project.write(&format!("src/{name}.sandbox.rs"), &source);
    }
    project.build(None);
    let built = project.text();
    assert!(is_within(&tight(text), &tight(&built)), "{text}\n---\n{built}");
    project.build(None);
    assert_eq!(project.text(), built, "a second build changed something");

    for (name, _) in &SANDBOXES[..count] {
        fs_err::remove_file(project.dir.path().join(format!("src/{name}.sandbox.rs"))).expect("it was there");
    }
    let names = SANDBOXES[..count].iter().map(|(name, _)| (*name).to_owned()).collect();
    project.build(Some(Removal { names, storage: Storage::Delete }));
    let left = project.text();
    let (before, after) = (parse(format, text), parse(format, &left));
    let back = without_history(&before, &after);
    if had_empty(before.value()) {
        // White space in empty containers may have changed.
        assert_eq!(tight(&back), tight(text), "{left}");
        return;
    }
    assert!(is_within(text, &built), "{text}\n---\n{built}");
    match (around_list(&before), around_list(&after)) {
        // Two builds have appended to the list of migrations, so its white space may differ after they are removed.
        (Some(was), Some(is)) if format == Format::Jsonc => {
            assert_eq!(is, was, "{left}");
            assert_eq!(tight(&back), tight(text), "{left}");
        }
        _ => assert_eq!(back, text, "{left}"),
    }
}

fn parse(format: Format, text: &str) -> Document {
    Document::parse(format, text).unwrap_or_else(|error| panic!("{error:?} in\n{text}"))
}

/// Returns the text before and after the list of migrations.
fn around_list(document: &Document) -> Option<(&str, &str)> {
    let range = document.range(&[Step::from("migrations")])?;
    Some((&document.text()[..range.start], &document.text()[range.end..]))
}

/// Returns the text without the new migrations and tombstones.
fn without_history(before: &Document, after: &Document) -> String {
    let mut edits = Vec::new();
    let remove = |path: &[Step]| Edit::Remove { path: path.to_vec() };
    let (old, new) = (&before.value()["migrations"], &after.value()["migrations"]);
    match (old.as_array(), new.as_array()) {
        (None, Some(_)) => edits.push(remove(&[Step::from("migrations")])),
        (Some(old), Some(new)) => {
            edits.extend(
                (old.len()..new.len()).map(|index| remove(&[Step::from("migrations"), Step::from(index)])),
            );
        }
        _ => {}
    }
    let tombstones = SANDBOXES.iter().filter(|(_, class)| after.value()["exports"].get(class).is_some());
    edits.extend(tombstones.map(|(_, class)| remove(&[Step::from("exports"), Step::from(*class)])));
    after.apply(&edits)
}

/// Returns whether koze may write to something that was empty.
fn had_empty(root: &Value) -> bool {
    let empty = |value: &Value| *value == json!([]) || *value == json!({});
    let level = |level: &Value| {
        empty(level)
            || ["containers", "durable_objects", "migrations"].iter().any(|key| empty(&level[*key]))
            || empty(&level["durable_objects"]["bindings"])
    };
    level(root) || level(&root["env"]["x"])
}

/// Runs fewer cases than for edits, because builds are slower, unless `PROPTEST_CASES` is set.
fn few() -> ProptestConfig {
    let default = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { default.cases } else { 96 };
    ProptestConfig { cases, failure_persistence: None, ..default }
}

proptest! {
    #![proptest_config(few())]

    #[test]
    fn a_jsonc_file_is_restored(root in config(false), mut dice in dice(), count in 1_usize..4) {
        check(Format::Jsonc, &jsonc(&root, &mut dice), count);
    }

    #[test]
    fn a_toml_file_is_restored(root in config(false), mut dice in dice(), count in 1_usize..4) {
        check(Format::Toml, &toml(&root, &mut dice), count);
    }

    #[test]
    fn a_jsonc_file_with_exports_is_restored(root in config(true), mut dice in dice(), count in 1_usize..4) {
        check(Format::Jsonc, &jsonc(&root, &mut dice), count);
    }

    #[test]
    fn a_toml_file_with_exports_is_restored(root in config(true), mut dice in dice(), count in 1_usize..4) {
        check(Format::Toml, &toml(&root, &mut dice), count);
    }
}
