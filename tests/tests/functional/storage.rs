//! Sequences of changes that might lose storage or assign it to another class.

use koze_tests::Project;
use serde_json::{Value, json};

use crate::classes::built_shell;
use crate::common::{BY_HAND, SHELL, built, package, plain, refused_with, sandbox};

const PYTHON: &str = "src/server/python.sandbox.rs";

/// Writes a minimal configuration with these migrations.
fn with_migrations(migrations: &Value) -> Project {
    let project = package();
    let config = json!({
        "name": "app",
        "main": "src/generated/worker.mjs",
        "compatibility_date": "2026-04-21",
        "migrations": migrations,
    });
    project.write("wrangler.jsonc", format!("{config:#}\n"));
    project
}

/// Returns the last migration without its tag.
fn last_migration(project: &Project) -> Value {
    let config = project.read("wrangler.jsonc");
    let without_comments: Vec<&str> =
        config.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let config: Value = serde_json::from_str(&without_comments.join("\n")).expect("JSON");
    let mut last =
        config["migrations"].as_array().and_then(|list| list.last()).cloned().expect("a migration");
    last.as_object_mut().expect("an object").remove("tag");
    last
}

fn gone(project: &Project, file: &str) {
    fs_err::remove_file(project.path(file)).expect("it was there");
}

#[test]
fn a_renamed_class_is_not_deleted() {
    let project = built_shell();
    gone(&project, SHELL);
    sandbox(&project, PYTHON, "#[sandbox(renamed_from = \"ShellSandbox\")]\npub struct PythonSandbox;");
    let output = refused_with(&project, &["remove", "shell", "--delete-storage"]);
    assert!(
        output.starts_with(
            "error[K059]: `shell` cannot be removed: its storage now belongs to `PythonSandbox`"
        ),
        "{output}"
    );
    built(&project);
    assert_eq!(
        last_migration(&project),
        json!({ "renamed_classes": [{ "from": "ShellSandbox", "to": "PythonSandbox" }] })
    );
}

/// A former name of a class may belong to another class today.
#[test]
fn an_old_rename_is_not_applied_to_a_new_class_with_that_name() {
    let project = with_migrations(&json!([
        { "tag": "v1", "new_sqlite_classes": ["A"] },
        { "tag": "v2", "renamed_classes": [{ "from": "A", "to": "B" }] },
        { "tag": "v3", "deleted_classes": ["B"], "new_sqlite_classes": ["A"] },
    ]));
    plain(&project, "src/server/b.sandbox.rs", "B");
    built(&project);
    assert_eq!(last_migration(&project), json!({ "new_sqlite_classes": ["B"] }));
}

#[test]
fn an_environment_that_lags_behind_gets_the_rename_too() {
    let project = package();
    let config = json!({
        "name": "app",
        "main": "src/generated/worker.mjs",
        "compatibility_date": "2026-04-21",
        "migrations": [
            { "tag": "v1", "new_sqlite_classes": ["Old"] },
            { "tag": "v2", "renamed_classes": [{ "from": "Old", "to": "ShellSandbox" }] },
        ],
        "env": { "production": { "migrations": [{ "tag": "p1", "new_sqlite_classes": ["Old"] }] } },
    });
    project.write("wrangler.jsonc", format!("{config:#}\n"));
    plain(&project, SHELL, "ShellSandbox");
    let run = built(&project);
    let told =
        "renamed the class `Old` to `ShellSandbox` in the environment `production`: it keeps its storage";
    assert!(run.stdout.contains(told), "{}", run.stdout);
    let config: Value = serde_json::from_str(&project.read("wrangler.jsonc")).expect("JSON");
    assert_eq!(
        config["env"]["production"]["migrations"][1]["renamed_classes"],
        json!([{ "from": "Old", "to": "ShellSandbox" }])
    );
    let run = project.koze(&["build", "--check"]);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
}

#[test]
fn several_sandboxes_are_removed_together() {
    let project = built_shell();
    plain(&project, PYTHON, "PythonSandbox");
    plain(&project, "src/server/node.sandbox.rs", "NodeSandbox");
    built(&project);
    gone(&project, SHELL);
    gone(&project, PYTHON);
    // Removing only one leaves the question about the other's storage open.
    assert!(refused_with(&project, &["remove", "shell", "--delete-storage"]).contains("K043"));
    let run = project.koze(&["remove", "shell", "python", "--delete-storage"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    assert_eq!(last_migration(&project), json!({ "deleted_classes": ["PythonSandbox", "ShellSandbox"] }));
}

#[test]
fn a_named_configuration_is_remembered_over_wranglers_default() {
    let project = package();
    plain(&project, SHELL, "ShellSandbox");
    project.write("wrangler.json", BY_HAND).write("wrangler.jsonc", BY_HAND);
    assert_eq!(project.koze(&["build", "--config", "wrangler.jsonc"]).code, 0);
    assert_eq!(project.read("wrangler.json"), BY_HAND);
    let run = project.koze(&["build", "--check"]);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
}

/// A configuration in which `production` has its own migrations, which lag behind those of the top level.
fn lagging(top: &Value) -> Project {
    let project = package();
    let config = json!({
        "name": "app",
        "main": "src/generated/worker.mjs",
        "compatibility_date": "2026-04-21",
        "migrations": top,
        "env": { "production": { "migrations": [{ "tag": "p1", "new_sqlite_classes": ["A"] }] } },
    });
    project.write("wrangler.jsonc", format!("{config:#}\n"));
    project
}

#[test]
fn two_pending_renames_are_followed_to_the_end() {
    let project = lagging(&json!([
        { "tag": "v1", "new_sqlite_classes": ["A"] },
        { "tag": "v2", "renamed_classes": [{ "from": "A", "to": "B" }] },
    ]));
    sandbox(&project, SHELL, "#[sandbox(renamed_from = \"B\")]\npub struct C;");
    built(&project);
    let config: Value = serde_json::from_str(&project.read("wrangler.jsonc")).expect("JSON");
    assert_eq!(config["migrations"][2]["renamed_classes"], json!([{ "from": "B", "to": "C" }]));
    let production = &config["env"]["production"]["migrations"];
    assert_eq!(production[1]["renamed_classes"], json!([{ "from": "A", "to": "C" }]));
}

#[test]
fn a_list_that_koze_wrote_to_must_not_disappear() {
    let project = lagging(&json!([{ "tag": "v1", "new_sqlite_classes": ["A"] }]));
    plain(&project, SHELL, "A");
    built(&project);
    let mut config: Value = serde_json::from_str(&project.read("wrangler.jsonc")).expect("JSON");
    config["env"]["production"].as_object_mut().expect("an object").remove("migrations");
    project.write("wrangler.jsonc", format!("{config:#}\n"));
    let output = crate::common::refused(&project);
    assert!(
        output.contains(
            "error[K045]: the list `env.production.migrations`, which koze had written to, is missing"
        ),
        "{output}"
    );
}

#[test]
fn a_kept_class_takes_its_binding_to_another_file() {
    let project = built_shell();
    plain(&project, PYTHON, "PythonSandbox");
    built(&project);
    gone(&project, SHELL);
    assert_eq!(project.koze(&["remove", "shell", "--keep-storage"]).code, 0);
    plain(&project, "src/server/bash.sandbox.rs", "ShellSandbox");
    built(&project);
    let config = project.read("wrangler.jsonc");
    assert!(config.contains("\"BASH_SANDBOX\"") && !config.contains("\"SHELL_SANDBOX\""), "{config}");
}

#[test]
fn a_sandbox_named_twice_is_removed_once() {
    let project = built_shell();
    gone(&project, SHELL);
    assert_eq!(project.koze(&["remove", "shell", "ShellSandbox", "--delete-storage"]).code, 0);
    assert_eq!(last_migration(&project), json!({ "deleted_classes": ["ShellSandbox"] }));
}

#[test]
fn a_sandbox_in_the_file_of_a_removed_one_gets_its_names() {
    let project = built_shell();
    plain(&project, SHELL, "OtherSandbox");
    let run = project.koze(&["remove", "ShellSandbox", "--delete-storage"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    assert_eq!(
        last_migration(&project),
        json!({ "deleted_classes": ["ShellSandbox"], "new_sqlite_classes": ["OtherSandbox"] })
    );
    let run = project.koze(&["build", "--check"]);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
}

#[test]
fn a_comment_in_one_of_kozes_blocks_is_kept() {
    let project = built_shell();
    let config =
        project.read("wrangler.jsonc").replace("\"containers\": [", "\"containers\": [\n    // Mine.");
    project.write("wrangler.jsonc", config);
    gone(&project, SHELL);
    assert_eq!(project.koze(&["remove", "shell", "--delete-storage"]).code, 0);
    assert!(project.read("wrangler.jsonc").contains("// Mine."), "{}", project.read("wrangler.jsonc"));
}

#[test]
fn a_finished_rename_does_not_interfere() {
    let project = built_shell();
    sandbox(&project, SHELL, "#[sandbox(renamed_from = \"ShellSandbox\")]\npub struct BashSandbox;");
    built(&project);
    plain(&project, PYTHON, "ShellSandbox");
    let output = crate::common::warned(&project);
    assert!(output.starts_with("warning[K050]"), "{output}");
    assert_eq!(last_migration(&project), json!({ "new_sqlite_classes": ["ShellSandbox"] }));
}

#[test]
fn a_class_is_deleted_under_its_name_in_each_environment() {
    let project = lagging(&json!([
        { "tag": "v1", "new_sqlite_classes": ["A"] },
        { "tag": "v2", "renamed_classes": [{ "from": "A", "to": "B" }] },
    ]));
    plain(&project, SHELL, "B");
    project.write("Cargo.toml", project.read("Cargo.toml") + "[package.metadata.koze]\nenvironments = []\n");
    built(&project);
    project.write("Cargo.toml", project.read("Cargo.toml").replace("environments = []", ""));
    gone(&project, SHELL);
    assert_eq!(project.koze(&["remove", "shell", "--delete-storage"]).code, 0);
    let config: Value = serde_json::from_str(&project.read("wrangler.jsonc")).expect("JSON");
    assert_eq!(config["migrations"][2]["deleted_classes"], json!(["B"]));
    assert_eq!(config["env"]["production"]["migrations"][1]["deleted_classes"], json!(["A"]));
}

/// koze no longer manages the environment, so only a warning can say that its next deployment will fail.
#[test]
fn an_unmanaged_environment_names_a_deleted_class() {
    let project = crate::classes::built_shell();
    let config = project.read("wrangler.jsonc");
    let env = "\"env\": { \"a\": {}, \"b\": {} },\n  \"containers\"";
    project.write("wrangler.jsonc", config.replacen("\"containers\"", env, 1));
    built(&project);
    let manifest = project.read("Cargo.toml");
    project.write("Cargo.toml", manifest + "\n[package.metadata.koze]\nenvironments = [\"a\"]\n");
    let run = project.koze(&["rename", "shell", "bash"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    insta::assert_snapshot!(run.stderr, @r#"
    warning[K052]: the container `shell-sandbox-b` in `env.b` refers to the class `ShellSandbox`, which no longer exists
      --> wrangler.jsonc:25:7
       |
    25 | /       {
    26 | |         "name": "shell-sandbox-b",
    27 | |         "class_name": "ShellSandbox",
    28 | |         "image": "docker.io/cloudflare/sandbox:0.12.10",
    29 | |         "instance_type": "lite"
    30 | |       }
       | |_______^
       |
       = help: koze does not manage this environment, and Cloudflare rejects such a deployment: add `b` to `package.metadata.koze.environments` in Cargo.toml, or remove the entry

    warning[K052]: the binding `SHELL_SANDBOX` in `env.b` refers to the class `ShellSandbox`, which no longer exists
      --> wrangler.jsonc:34:9
       |
    34 | /         {
    35 | |           "name": "SHELL_SANDBOX",
    36 | |           "class_name": "ShellSandbox"
    37 | |         }
       | |_________^
       |
       = help: koze does not manage this environment, and Cloudflare rejects such a deployment: add `b` to `package.metadata.koze.environments` in Cargo.toml, or remove the entry

    2 warnings
    "#);
}
