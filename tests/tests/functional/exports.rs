//! Projects that declare their classes in `exports`.

use insta::assert_snapshot;
use koze_tests::Project;
use serde_json::{Value, json};

use crate::common::{BY_HAND, SHELL, built, package, plain, refused, refused_with};

/// A project with a user's class in `exports`, and one sandbox, after a build.
fn exporting() -> Project {
    let project = package();
    let exports = "  \"exports\": {\n    \"Counter\": { \"type\": \"durable-object\", \"storage\": \"sqlite\" }\n  }\n}";
    project.write("wrangler.jsonc", BY_HAND.replace("\n}", &format!(",\n{exports}")));
    plain(&project, SHELL, "ShellSandbox");
    built(&project);
    project
}

fn exports(project: &Project) -> Value {
    let text = project.read("wrangler.jsonc").replace("// Written by hand.", "");
    serde_json::from_str::<Value>(&text).expect("JSON")["exports"].take()
}

fn renamed_to(class: &str) -> Value {
    json!({ "type": "durable-object", "state": "renamed", "renamed_to": class })
}

/// Cloudflare rejects a rename to a class that was itself renamed.
#[test]
fn a_class_renamed_twice_points_to_its_last_name() {
    let project = exporting();
    plain(&project, SHELL, "BashSandbox");
    built(&project);
    plain(&project, SHELL, "ZshSandbox");
    built(&project);
    let live = json!({ "type": "durable-object", "storage": "sqlite" });
    assert_eq!(
        exports(&project),
        json!({
            "Counter": live,
            "ShellSandbox": renamed_to("ZshSandbox"),
            "BashSandbox": renamed_to("ZshSandbox"),
            "ZshSandbox": live,
        })
    );
}

#[test]
fn a_deleted_class_is_deleted_under_its_former_names_too() {
    let project = exporting();
    plain(&project, SHELL, "BashSandbox");
    built(&project);
    fs_err::remove_file(project.path(SHELL)).expect("it was there");
    let run = project.koze(&["remove", "shell", "--delete-storage"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    let deleted = json!({ "type": "durable-object", "state": "deleted" });
    let exports = exports(&project);
    assert_eq!((&exports["ShellSandbox"], &exports["BashSandbox"]), (&deleted, &deleted));
}

/// koze does not guess which of the two a project uses: wrangler rejects migrations together with exports.
#[test]
fn an_export_of_an_unknown_type() {
    let with = |exports: &str| {
        let project = package();
        let exports = format!("  \"exports\": {exports}\n}}");
        project.write("wrangler.jsonc", BY_HAND.replace("\n}", &format!(",\n{exports}")));
        plain(&project, SHELL, "ShellSandbox");
        project
    };
    let typo = with("{ \"Counter\": { \"type\": \"durable_object\", \"storage\": \"sqlite\" } }");
    assert_snapshot!(refused(&typo), @r#"
    error[K041]: `exports.Counter.type` is not `durable-object`, `worker` or `workflow`
     --> wrangler.jsonc:6:37
      |
    6 |   "exports": { "Counter": { "type": "durable_object", "storage": "sqlite" } }
      |                                     ^^^^^^^^^^^^^^^^
      |
      = help: make it `durable-object`, `worker` or `workflow`, or remove it, then run `koze build` again

    1 error; nothing was written
    "#);
    let none = with("{ \"Counter\": { \"storage\": \"sqlite\" } }");
    assert!(refused(&none).starts_with("error[K041]: `exports.Counter.type` is not"));
    // An entry of a known type decides. wrangler itself reports the unknown one.
    let live = "\"A\": { \"type\": \"durable-object\", \"storage\": \"sqlite\" }";
    let clear = with(&format!("{{ {live}, \"B\": {{ \"type\": \"later\" }} }}"));
    built(&clear);
    assert_eq!(exports(&clear)["ShellSandbox"]["type"], "durable-object");
    // Other types of exports do not manage Durable Objects.
    let other = with("{ \"W\": { \"type\": \"worker\" } }");
    built(&other);
    assert!(other.read("wrangler.jsonc").contains("\"migrations\""));
}

/// The older pattern, with its container linked by `exports` instead of `class_name`.
const LINKED: &str = r#"{
  "name": "app",
  "main": "src/generated/worker.mjs",
  "compatibility_date": "2026-04-21",
  "containers": [
    { "name": "boxes", "image": "docker.io/cloudflare/sandbox:0.8.11-python", "max_instances": 7 }
  ],
  "durable_objects": { "bindings": [{ "name": "Sandbox", "class_name": "Sandbox" }] },
  "exports": {
    "Sandbox": { "type": "durable-object", "storage": "sqlite", "container": "boxes" }
  }
}
"#;

fn linked() -> Project {
    let project = package();
    project.write("wrangler.jsonc", LINKED);
    project
}

#[test]
fn a_container_linked_by_exports_is_migrated() {
    let project = linked();
    let run = project.koze(&["migrate"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    let config: Value = serde_json::from_str(&project.read("wrangler.jsonc")).expect("JSON");
    let container = &config["containers"][0];
    assert_eq!((&container["name"], &container["class_name"]), (&json!("boxes"), &json!("ShellSandbox")));
    assert_eq!(config["containers"].as_array().expect("a list").len(), 1);
    assert_eq!(config["exports"]["Sandbox"], renamed_to("ShellSandbox"));
    assert!(project.read("src/server/shell.sandbox.rs").contains("max_instances = 7"));
}

#[test]
fn a_container_linked_by_exports_is_recognized() {
    let project = linked();
    let refused = refused_with(&project, &["init"]);
    assert!(refused.starts_with("error[K070]"), "{refused}");
    plain(&project, SHELL, "ShellSandbox");
    let run = project.koze(&["build"]);
    assert!(run.stderr.contains("K048"), "{}", run.stderr);
}
