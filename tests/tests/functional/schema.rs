//! Validates all forms of the output with `schema/build.schema.json`.

use koze_tests::Project;
use serde_json::{Value, json};

use crate::common::{BY_HAND, SHELL, document, package, plain, sandbox, shell, violations};

/// Runs a command with `--format json`, checks its exit code, and returns its validated document.
fn output(project: &Project, args: &[&str], code: i32) -> Value {
    let run = project.koze(&[args, &["--format", "json"]].concat());
    assert_eq!(run.code, code, "{}{}", run.stdout, run.stderr);
    document(&run)
}

fn codes(document: &Value) -> Vec<&str> {
    let list = document["diagnostics"].as_array().expect("a list");
    list.iter().map(|diagnostic| diagnostic["code"].as_str().expect("a code")).collect()
}

/// Returns a document with an entry in each list and a value for each key.
fn full() -> Value {
    let project = shell("#[sandbox(renamed_from = \"Old\")]\npub struct ShellSandbox;");
    let document = output(&project, &["build"], 0);
    assert_eq!(codes(&document), ["K050"]);
    document
}

#[test]
fn every_image_source_and_action() {
    let project = package();
    let config = BY_HAND.replace(
        "\n}",
        ",\n  \"containers\": [{ \"class_name\": \"Own\", \"image\": \"docker.io/x/own:1\" }]\n}",
    );
    project.write("wrangler.jsonc", config);
    plain(&project, "src/a.sandbox.rs", "Plain");
    sandbox(&project, "src/b.sandbox.rs", "#[sandbox(variant = \"python\")]\npub struct Variant;");
    sandbox(&project, "src/c.sandbox.rs", "#[sandbox(image = \"docker.io/x/y:1\")]\npub struct Pinned;");
    plain(&project, "src/d.sandbox.rs", "Sibling");
    project.write("src/d.Dockerfile", "FROM docker.io/cloudflare/sandbox:0.12.10\n");
    plain(&project, "src/e.sandbox.rs", "Own");
    let would = output(&project, &["build", "--dry-run"], 0);
    let built = output(&project, &["build"], 0);
    assert_eq!(would, built, "a dry run says what a build does");
    let sources: Vec<&Value> =
        built["sandboxes"].as_array().expect("a list").iter().map(|one| &one["image_source"]).collect();
    assert_eq!(sources, ["default", "variant", "attribute", "sibling-dockerfile", "configuration"]);
    let actions = |document: &Value| -> Vec<Value> {
        let changes = document["changes"].as_array().expect("a list");
        changes.iter().map(|change| change["action"].clone()).collect()
    };
    assert_eq!(actions(&built)[..2], ["update", "create"]);
    assert_eq!(actions(&output(&project, &["list"], 0)), ["unchanged"; 20]);
}

#[test]
fn no_sandboxes() {
    for args in [&["build"][..], &["list"], &["build", "--check"]] {
        let document = output(&package(), args, 0);
        assert_eq!((&document["sandboxes"], &document["sdk"]), (&json!([]), &Value::Null));
    }
}

#[test]
fn errors_with_and_without_locations() {
    let at = shell("#[sandbox(max_instances = 0)]\npub struct ShellSandbox;");
    let at = output(&at, &["build"], 1)["diagnostics"][0].clone();
    assert_eq!((&at["file"], &at["line"], &at["column"]), (&json!(SHELL), &json!(3), &json!(27)));

    let without = output(&Project::new(), &["list"], 1);
    assert_eq!((codes(&without), &without["diagnostics"][0]["file"]), (vec!["K027"], &Value::Null));

    let whole = shell("#[sandbox]\npub struct ShellSandbox;");
    whole.write("src/generated/mod.rs", "//! Mine.\n");
    let whole = output(&whole, &["build"], 1)["diagnostics"][0].clone();
    assert_eq!((&whole["file"], &whole["line"]), (&json!("src/generated/mod.rs"), &Value::Null));
}

#[test]
fn warnings_and_strict_mode() {
    let project = shell("#[sandbox(renamed_from = \"Old\")]\npub struct ShellSandbox;");
    let level = |document: Value| document["diagnostics"][0]["level"].clone();
    assert_eq!(level(output(&project, &["build", "--dry-run"], 0)), "warning");
    assert_eq!(level(output(&project, &["build", "--strict"], 1)), "error");
}

#[test]
fn drift() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    let document = output(&project, &["build", "--check"], 1);
    assert_eq!((&document["changes"][0]["action"], codes(&document)), (&json!("create"), vec![]));
}

#[test]
fn a_removal() {
    let project = crate::classes::built_shell();
    fs_err::remove_file(project.path(SHELL)).expect("it was there");
    assert_eq!(codes(&output(&project, &["build"], 1)), ["K043"]);
    assert_eq!(codes(&output(&project, &["remove", "python", "--keep-storage"], 1)), ["K059"]);
    let document = output(&project, &["remove", "shell", "--delete-storage"], 0);
    assert_eq!(document["sandboxes"], json!([]));
}

/// Programs that rely on the schema would miss unknown keys and values.
#[test]
fn unknown_keys_and_values_violate_the_schema() {
    let full = full();
    let objects = ["", "/sdk", "/sandboxes/0", "/changes/0", "/diagnostics/0"];
    for object in objects {
        let mut more = full.clone();
        more.pointer_mut(object).expect("an object")["more"] = json!(1);
        let wrong = violations("build", &more);
        assert!(
            wrong.iter().any(|wrong| wrong.contains("'more'") || object == "/sdk"),
            "{object}: {wrong:?}"
        );
        assert!(!wrong.is_empty(), "{object}");
        let keys: Vec<String> =
            full.pointer(object).and_then(Value::as_object).expect("an object").keys().cloned().collect();
        for key in keys {
            let mut less = full.clone();
            less.pointer_mut(object).and_then(Value::as_object_mut).expect("an object").remove(&key);
            assert!(!violations("build", &less).is_empty(), "{object} without {key}");
        }
    }
    for (place, value) in [
        ("/changes/0/action", json!("delete")),
        ("/diagnostics/0/code", json!("E1")),
        ("/diagnostics/0/level", json!("note")),
        ("/diagnostics/0/line", json!(0)),
        ("/sandboxes/0/image_source", json!("magic")),
        ("/sdk/version", json!("latest")),
    ] {
        let mut other = full.clone();
        *other.pointer_mut(place).expect("a value") = value;
        assert!(!violations("build", &other).is_empty(), "{place}");
    }
}
