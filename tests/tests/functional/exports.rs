//! Projects that declare their classes in `exports`.

use insta::assert_snapshot;
use koze_tests::Project;
use serde_json::{Value, json};

use crate::common::{BY_HAND, SHELL, built, existing_config, package, plain, refused, refused_with};

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
    config(project)["exports"].take()
}

fn renamed_to(class: &str) -> Value {
    json!({ "type": "durable-object", "state": "renamed", "renamed_to": class })
}

/// A project whose configuration koze created.
fn created() -> Project {
    let project = package();
    plain(&project, SHELL, "ShellSandbox");
    built(&project);
    project
}

fn config(project: &Project) -> Value {
    let text = project.read("wrangler.jsonc");
    jsonc_parser::parse_to_serde_value(&text, &jsonc_parser::ParseOptions::default()).expect("JSONC")
}

/// koze chooses the form only for the files that it creates: a Worker deployed with `exports` cannot go back.
#[test]
fn only_new_configurations_use_exports() {
    let project = created();
    let live = json!({ "type": "durable-object", "storage": "sqlite" });
    assert_eq!(exports(&project), json!({ "ShellSandbox": live }));
    let lock = project.read("koze.lock");
    assert!(!lock.contains("migration"), "{lock}");
    // Later classes are declared there, too.
    plain(&project, "src/server/python.sandbox.rs", "PythonSandbox");
    built(&project);
    assert_eq!(exports(&project), json!({ "ShellSandbox": live, "PythonSandbox": live }));
    assert!(!project.read("wrangler.jsonc").contains("migrations"));

    let existing = package();
    existing_config(&existing);
    plain(&existing, SHELL, "ShellSandbox");
    built(&existing);
    let config = config(&existing);
    assert_eq!((config.get("exports"), &config["migrations"][0]["tag"]), (None, &json!("v1")));
}

/// Whatever is removed, the project does not return to migrations.
#[test]
fn a_new_configuration_without_classes_still_uses_exports() {
    let project = created();
    plain(&project, SHELL, "BashSandbox");
    built(&project);
    fs_err::remove_file(project.path(SHELL)).expect("it was there");
    // The tombstone of a rename that was never deployed is removed with the class.
    let run = project.koze(&["remove", "BashSandbox", "--never-deployed"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    assert!(run.stdout.contains("removed `BashSandbox` from `exports` because"), "{}", run.stdout);
    assert_eq!(exports(&project), json!({}));
    plain(&project, SHELL, "ShellSandbox");
    built(&project);
    assert_eq!(exports(&project)["ShellSandbox"]["storage"], "sqlite");
}

/// An environment inherits `exports` as a whole, or replaces them as a whole.
#[test]
fn exports_of_an_environment_replace_those_of_the_top_level() {
    let project = exporting();
    let text = project.read("wrangler.jsonc");
    let other = r#"{ "env": { "staging": { "exports": { "W": { "type": "worker" } } }, "other": {} },"#;
    project.write("wrangler.jsonc", text.replacen('{', other, 1));
    built(&project);
    let config = config(&project);
    assert_eq!(config["env"]["staging"]["exports"]["ShellSandbox"]["storage"], "sqlite");
    assert_eq!(config["env"]["other"].get("exports"), None);
}

#[test]
fn the_name_of_a_renamed_class_is_free_without_its_tombstone() {
    let project = created();
    plain(&project, SHELL, "BashSandbox");
    built(&project);
    plain(&project, "src/server/other.sandbox.rs", "ShellSandbox");
    let refused = refused(&project);
    assert!(refused.contains("remove this entry once every deployed environment has listed it"), "{refused}");
    let config = project.read("wrangler.jsonc");
    let start = config.find("    \"ShellSandbox\": {").expect("the tombstone");
    let end = start + config[start..].find("},\n").expect("its end") + 3;
    project.write("wrangler.jsonc", format!("{}{}", &config[..start], &config[end..]));
    built(&project);
    assert_eq!(exports(&project)["ShellSandbox"]["storage"], "sqlite");
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
    assert_eq!((&container["name"], container.get("class_name")), (&json!("boxes"), None));
    assert_eq!(config["containers"].as_array().expect("a list").len(), 1);
    assert_eq!(config["exports"]["Sandbox"], renamed_to("ShellSandbox"));
    assert_eq!(config["exports"]["ShellSandbox"]["container"], "boxes");
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
