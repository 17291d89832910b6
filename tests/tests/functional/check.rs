//! `--check`, `--dry-run`, `--format json`, and the usage of the command line.

use insta::assert_snapshot;
use koze_tests::{Project, Run};
use serde_json::{Value, json};

use crate::common::{BY_HAND, SHELL, built, document, sandbox, shell};

/// A project with one outdated key.
fn drifted() -> Project {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    project.write("wrangler.jsonc", BY_HAND);
    built(&project);
    sandbox(&project, SHELL, "#[sandbox(max_instances = 10)]\npub struct ShellSandbox;");
    project
}

/// Runs koze and checks that it writes nothing.
fn writes_nothing(project: &Project, args: &[&str]) -> Run {
    let before = project.snapshot();
    let run = project.koze(args);
    assert_eq!(project.diff(&before), "");
    run
}

#[test]
fn check_shows_the_drift_and_fails() {
    let run = writes_nothing(&drifted(), &["build", "--check"]);
    assert_eq!(run.code, 1);
    assert_eq!(run.stderr, "the project is not in step: run `koze build` and commit the changes\n");
    assert_snapshot!(run.stdout, @r#"
    1 sandbox in wrangler.jsonc, SDK 0.12.10 from package.json
      src/server/shell.sandbox.rs  ShellSandbox  SHELL_SANDBOX  docker.io/cloudflare/sandbox:0.12.10
    would update wrangler.jsonc
    would update koze.lock
    --- a/wrangler.jsonc
    +++ b/wrangler.jsonc
    @@ -8,7 +8,8 @@
           "name": "shell-sandbox",
           "class_name": "ShellSandbox",
           "image": "docker.io/cloudflare/sandbox:0.12.10",
    -      "instance_type": "lite"
    +      "instance_type": "lite",
    +      "max_instances": 10
         }
       ],
       "durable_objects": {
    --- a/koze.lock
    +++ b/koze.lock
    @@ -23,6 +23,7 @@
         "class_name",
         "image",
         "instance_type",
    +    "max_instances",
     ]
     
     [[migration]]
    "#);
}

#[test]
fn a_dry_run_shows_the_drift_and_succeeds() {
    let run = writes_nothing(&drifted(), &["build", "--dry-run"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert_snapshot!(run.stdout, @r#"
    1 sandbox in wrangler.jsonc, SDK 0.12.10 from package.json
      src/server/shell.sandbox.rs  ShellSandbox  SHELL_SANDBOX  docker.io/cloudflare/sandbox:0.12.10
    would update wrangler.jsonc
    would update koze.lock
    --- a/wrangler.jsonc
    +++ b/wrangler.jsonc
    @@ -8,7 +8,8 @@
           "name": "shell-sandbox",
           "class_name": "ShellSandbox",
           "image": "docker.io/cloudflare/sandbox:0.12.10",
    -      "instance_type": "lite"
    +      "instance_type": "lite",
    +      "max_instances": 10
         }
       ],
       "durable_objects": {
    --- a/koze.lock
    +++ b/koze.lock
    @@ -23,6 +23,7 @@
         "class_name",
         "image",
         "instance_type",
    +    "max_instances",
     ]
     
     [[migration]]
    "#);
}

/// The diff contains new files completely.
#[test]
fn a_dry_run_shows_new_files() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    let run = writes_nothing(&project, &["build", "--dry-run"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    for file in ["wrangler.jsonc", "src/generated/worker.mjs", "src/generated/mod.rs", "koze.lock"] {
        assert!(
            run.stdout.contains(&format!("\n--- /dev/null\n+++ b/{file}\n@@ -0,0 +1,")),
            "{file}: {}",
            run.stdout
        );
        assert!(run.stdout.contains(&format!("\nwould create {file}\n")), "{file}");
    }
}

#[test]
fn check_succeeds_without_changes() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    built(&project);
    for flag in ["--check", "--dry-run"] {
        let run = writes_nothing(&project, &["build", flag]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert!(run.stdout.ends_with("\nnothing to do: every file is in step\n"), "{}", run.stdout);
    }
}

#[test]
fn an_error_fails_both_check_and_dry_run() {
    let project = shell("#[sandbox(max_instances = 0)]\npub struct ShellSandbox;");
    for flag in ["--check", "--dry-run"] {
        let run = writes_nothing(&project, &["build", flag]);
        assert_eq!((run.code, run.stdout.as_str()), (1, ""));
        assert!(run.stderr.starts_with("error[K013]"), "{}", run.stderr);
    }
}

#[test]
fn json_of_a_build() {
    let project = shell("#[sandbox(variant = \"python\")]\npub struct ShellSandbox;");
    project.write("wrangler.jsonc", BY_HAND);
    let run = project.koze(&["build", "--format", "json"]);
    assert_eq!(run.code, 0, "{}", run.stdout);
    let created = |path: &str| json!({ "path": path, "action": "create" });
    let expected = json!({
        "project": "[PROJECT]",
        "config": "wrangler.jsonc",
        "sdk": { "version": "0.12.10", "source": "package.json" },
        "sandboxes": [{
            "kind": "sandbox",
            "file": SHELL,
            "binding": "SHELL_SANDBOX",
            "class": "ShellSandbox",
            "container": "shell-sandbox",
            "image": "docker.io/cloudflare/sandbox:0.12.10-python",
            "image_source": "variant",
            "backend": "sdk",
            "environments": {},
        }],
        "scripts": null,
        "changes": [
            { "path": "wrangler.jsonc", "action": "update" },
            created("src/generated/mod.rs"),
            created("src/generated/env.rs"),
            created("src/generated/tools.rs"),
            created("src/generated/tools.json"),
            created("src/generated/worker.mjs"),
            created("src/generated/worker.d.mts"),
            created("src/generated/.gitattributes"),
            created("src/generated/koze/sdk/sdk.mjs"),
            created("src/generated/koze/sdk/sdk.d.mts"),
            created("src/generated/koze/sdk/placed.mjs"),
            created("src/generated/koze/koze-guest.mjs"),
            created("src/generated/koze/operations.mjs"),
            created("src/generated/koze/guest.mjs"),
            created("src/generated/koze/trees.mjs"),
            created("src/generated/koze/processes.mjs"),
            created("src/generated/koze/calls.mjs"),
            created("src/generated/koze/waiting.mjs"),
            created("src/generated/koze/contract.d.ts"),
            created("koze.lock"),
        ],
        "diagnostics": [],
    });
    assert_eq!(document(&run), expected, "{}", run.stdout);

    let again = document(&project.koze(&["build", "--format", "json"]));
    let actions: Vec<&Value> =
        again["changes"].as_array().expect("a list").iter().map(|change| &change["action"]).collect();
    assert_eq!(actions, ["unchanged"; 20]);
}

#[test]
fn json_of_an_error() {
    let project = shell("#[sandbox(max_instances = 0)]\npub struct ShellSandbox;");
    let run = writes_nothing(&project, &["build", "--format", "json"]);
    assert_eq!(run.code, 1);
    let document = document(&run);
    let expected = json!([{
        "code": "K013",
        "level": "error",
        "message": "`0` is not a valid `max_instances`",
        "file": SHELL,
        "line": 3,
        "column": 27,
        "help": "`max_instances` takes an integer of at least 1",
    }]);
    assert_eq!(document["diagnostics"], expected, "{document:#}");
    assert_eq!((&document["changes"], &document["sandboxes"]), (&json!([]), &json!([])));
    assert_eq!(document["sdk"], Value::Null);
}

#[test]
fn json_of_a_check() {
    let run = writes_nothing(&drifted(), &["build", "--check", "--format", "json"]);
    assert_eq!(run.code, 1, "drift");
    let document = document(&run);
    assert_eq!(document["changes"][0], json!({ "path": "wrangler.jsonc", "action": "update" }));
    assert_eq!(document["diagnostics"], json!([]));
}

#[test]
fn json_without_a_package() {
    let project = Project::new();
    let document = document(&project.koze(&["build", "--format", "json"]));
    assert_eq!(document["diagnostics"][0]["code"], "K027");
    assert_eq!(document["project"], Value::Null);
}

#[test]
fn usage_errors_exit_with_2() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    for args in [
        &["build", "--check", "--dry-run"][..],
        &["build", "--nonsense"],
        &["build", "--format", "xml"],
        &["biuld"],
        &[],
        &["new"],
    ] {
        let run = writes_nothing(&project, args);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{args:?}");
        assert!(run.stderr.contains("--help") || run.stderr.contains("Usage:"), "{}", run.stderr);
    }
}

#[test]
fn help_and_version_exit_with_0() {
    let project = Project::new();
    let version = project.koze(&["--version"]);
    assert_eq!((version.code, version.stdout.as_str()), (0, "koze 0.1.0\n"));
    assert_eq!(project.koze(&["build", "--help"]).code, 0);
}

#[test]
fn colors_are_used_only_on_request() {
    let project = shell("#[sandbox(max_instances = 0)]\npub struct ShellSandbox;");
    assert!(!project.koze(&["build"]).stderr.contains('\u{1b}'));
    assert!(project.koze(&["build", "--color", "always"]).stderr.contains('\u{1b}'));
}
