//! Containers that `exports` link to their classes.

use insta::assert_snapshot;
use koze_tests::Project;
use serde_json::{Value, json};

use crate::common::{SHELL, built, package, plain, refused, sandbox};

/// A configuration whose container has no `class_name`.
const LINKED: &str = r#"{
  "name": "app",
  "main": "src/generated/worker.mjs",
  "compatibility_date": "2026-04-21",
  "containers": [
    { "name": "boxes", "image": "docker.io/cloudflare/sandbox:0.12.10", "instance_type": "lite" }
  ],
  "durable_objects": { "bindings": [{ "name": "SHELL_SANDBOX", "class_name": "ShellSandbox" }] },
  "exports": {
    "ShellSandbox": { "type": "durable-object", "storage": "sqlite", "container": "boxes" }
  }
}
"#;

fn with_config(file: &str, config: &str) -> Project {
    let project = package();
    project.write(file, config);
    plain(&project, SHELL, "ShellSandbox");
    project
}

/// A project that koze created, to whose `exports` the user added the link. Both name the class.
fn created() -> Project {
    let project = package();
    plain(&project, SHELL, "ShellSandbox");
    built(&project);
    let live = "\"storage\": \"sqlite\"";
    let config = project.read("wrangler.jsonc");
    project
        .write("wrangler.jsonc", config.replace(live, &format!("{live}, \"container\": \"shell-sandbox\"")));
    assert!(built(&project).stdout.contains("nothing to do"));
    project
}

fn config(project: &Project) -> Value {
    let text = project.read("wrangler.jsonc");
    jsonc_parser::parse_to_serde_value(&text, &jsonc_parser::ParseOptions::default()).expect("JSONC")
}

fn remove(project: &Project, storage: &str) {
    fs_err::remove_file(project.path(SHELL)).expect("it was there");
    let run = project.koze(&["remove", "ShellSandbox", storage]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
}

#[test]
fn a_linked_container_is_adopted_as_it_is() {
    let project = with_config("wrangler.jsonc", LINKED);
    built(&project);
    assert_eq!(project.read("wrangler.jsonc"), LINKED);
    assert!(built(&project).stdout.contains("nothing to do"));
}

#[test]
fn a_renamed_class_takes_its_link_along() {
    let project = with_config("wrangler.jsonc", LINKED);
    built(&project);
    plain(&project, SHELL, "BashSandbox");
    built(&project);
    let config = config(&project);
    assert_eq!(config["containers"][0].get("class_name"), None);
    assert_eq!(config["exports"]["ShellSandbox"].get("container"), None);
    assert_eq!(config["exports"]["BashSandbox"]["container"], "boxes");
    assert!(built(&project).stdout.contains("nothing to do"));

    let toml = "name = \"app\"\nmain = \"src/generated/worker.mjs\"\ncompatibility_date = \"2026-04-21\"\n\n[[containers]]\nname = \"boxes\" # mine\nimage = \"docker.io/cloudflare/sandbox:0.12.10\"\n\n[exports.ShellSandbox]\ntype = \"durable-object\"\nstorage = \"sqlite\"\ncontainer = \"boxes\"\n";
    let project = with_config("wrangler.toml", toml);
    built(&project);
    plain(&project, SHELL, "BashSandbox");
    built(&project);
    let text = project.read("wrangler.toml");
    assert_eq!(text.matches("container = \"boxes\"").count(), 1, "{text}");
    assert!(!text.contains("class_name = \"ShellSandbox\""), "{text}");
}

#[test]
fn a_renamed_container_takes_its_link_along() {
    let project = created();
    sandbox(&project, SHELL, "#[sandbox(name = \"other\")]\npub struct ShellSandbox;");
    built(&project);
    let config = config(&project);
    assert_eq!(config["containers"][0]["name"], "other");
    assert_eq!(config["exports"]["ShellSandbox"]["container"], "other");
    // Class and container together.
    sandbox(&project, SHELL, "#[sandbox(name = \"third\")]\npub struct BashSandbox;");
    built(&project);
    let live = json!({ "type": "durable-object", "storage": "sqlite", "container": "third" });
    assert_eq!(self::config(&project)["exports"]["BashSandbox"], live);
}

#[test]
fn a_removed_container_leaves_no_link() {
    let tombstone = json!({ "type": "durable-object", "state": "deleted" });
    let live = json!({ "type": "durable-object", "storage": "sqlite" });
    for (storage, left) in
        [("--delete-storage", Some(&tombstone)), ("--keep-storage", Some(&live)), ("--never-deployed", None)]
    {
        let project = created();
        remove(&project, storage);
        let config = config(&project);
        assert_eq!(config["exports"].get("ShellSandbox"), left, "{storage}");
        assert_eq!(config.get("containers"), None, "{storage}");
    }
}

#[test]
fn a_link_that_contradicts_a_container_is_an_error() {
    let other = LINKED.replace("\"container\": \"boxes\"", "\"container\": \"others\"");
    let project = with_config(
        "wrangler.jsonc",
        &other.replace("\"image\"", "\"class_name\": \"ShellSandbox\", \"image\""),
    );
    assert_snapshot!(refused(&project), @r#"
    error[K042]: `exports` links the class `ShellSandbox` to the container `others`, but its entry in `containers` is `boxes`
      --> wrangler.jsonc:10:83
       |
     6 |     { "name": "boxes", "class_name": "ShellSandbox", "image": "docker.io/cloudflare/sandbox:0.12.10", "instance_type": "lite" }
       |     --------------------------------------------------------------------------------------------------------------------------- the container
    ...
    10 |     "ShellSandbox": { "type": "durable-object", "storage": "sqlite", "container": "others" }
       |                                                                                   ^^^^^^^^
       |
       = help: make both the same, or remove `container` here and write `class_name` in the container

    1 error; nothing was written
    "#);
    // Without a class, the container belongs to nobody, and koze would write another one.
    assert_snapshot!(refused(&with_config("wrangler.jsonc", &other)), @r#"
    error[K042]: `exports` links the class `ShellSandbox` to the container `others`, but its entry in `containers` is `shell-sandbox`
      --> wrangler.jsonc:10:83
       |
    10 |     "ShellSandbox": { "type": "durable-object", "storage": "sqlite", "container": "others" }
       |                                                                                   ^^^^^^^^
       |
      ::: src/server/shell.sandbox.rs:4:12
       |
     4 | pub struct ShellSandbox;
       |            ------------ the sandbox
       |
       = help: make both the same, or remove `container` here and write `class_name` in the container

    1 error; nothing was written
    "#);
    // Another class has a link to it.
    let two = LINKED.replace(
        "\"exports\": {",
        "\"exports\": {\n    \"Other\": { \"type\": \"durable-object\", \"storage\": \"sqlite\", \"container\": \"boxes\" },",
    );
    let two = two.replace("\"image\"", "\"class_name\": \"ShellSandbox\", \"image\"");
    assert_snapshot!(refused(&with_config("wrangler.jsonc", &two)), @r#"
    error[K042]: `exports` links the class `Other` to the container `boxes`, which belongs to `ShellSandbox`
      --> wrangler.jsonc:10:76
       |
     6 |     { "name": "boxes", "class_name": "ShellSandbox", "image": "docker.io/cloudflare/sandbox:0.12.10", "instance_type": "lite" }
       |     --------------------------------------------------------------------------------------------------------------------------- the container
    ...
    10 |     "Other": { "type": "durable-object", "storage": "sqlite", "container": "boxes" },
       |                                                                            ^^^^^^^
       |
       = help: a container has one class: remove `container` here, or give it the name of another container

    1 error; nothing was written
    "#);
}

/// Environments inherit `exports` as a whole, but their containers have other names.
#[test]
fn a_link_cannot_differ_between_environments() {
    let project = created();
    let config = project.read("wrangler.jsonc");
    project.write("wrangler.jsonc", config.replacen('{', "{ \"env\": { \"staging\": {} },", 1));
    assert_snapshot!(refused(&project), @r#"
    error[K042]: `exports` links the class `ShellSandbox` to the container `shell-sandbox`, but its entry in `env.staging.containers` is `shell-sandbox-staging`
      --> wrangler.jsonc:30:41
       |
    30 |       "storage": "sqlite", "container": "shell-sandbox"
       |                                         ^^^^^^^^^^^^^^^
       |
      ::: src/server/shell.sandbox.rs:4:12
       |
     4 | pub struct ShellSandbox;
       |            ------------ the sandbox
       |
       = help: `env.staging.containers` inherits this link: remove `container` here and write `class_name` in the containers, or give this environment `exports` of its own

    1 error; nothing was written
    "#);
    // With a map of its own, an environment has a link of its own.
    let live = r#"{ "type": "durable-object", "storage": "sqlite", "container": "shell-sandbox-staging" }"#;
    let staging = format!(r#"{{ "env": {{ "staging": {{ "exports": {{ "ShellSandbox": {live} }} }} }},"#);
    project.write("wrangler.jsonc", config.replacen('{', &staging, 1));
    built(&project);
    assert!(built(&project).stdout.contains("nothing to do"));
}
