//! `koze list`.

use insta::assert_snapshot;

use crate::common::{built, document, package, refused_with, sandbox, shell};

#[test]
fn sandboxes_as_a_table() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    sandbox(
        &project,
        "src/server/code-interpreter.sandbox.rs",
        "#[sandbox(image = \"docker.io/x/y:1\")]\nstruct Interpreter;",
    );
    let before = project.snapshot();
    let run = project.koze(&["list"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert_snapshot!(run.stdout, @"
    2 sandboxes in wrangler.jsonc, SDK 0.12.10 from package.json
      src/server/code-interpreter.sandbox.rs  Interpreter   CODE_INTERPRETER_SANDBOX  docker.io/x/y:1
      src/server/shell.sandbox.rs             ShellSandbox  SHELL_SANDBOX             docker.io/cloudflare/sandbox:0.12.10
    ");
    assert_eq!(project.diff(&before), "", "a list writes nothing");
}

#[test]
fn no_sandboxes() {
    let run = package().koze(&["list"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_snapshot!(run.stdout, @"
    no sandboxes: there is no `*.sandbox.rs` file below `src`
    next: create `src/server/shell.sandbox.rs` with `#[sandbox] pub struct ShellSandbox;`
    ");
}

#[test]
fn a_list_as_json() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    let run = project.koze(&["list", "--format", "json"]);
    let document = document(&run);
    assert_eq!(document["sandboxes"][0]["binding"], "SHELL_SANDBOX");
    assert_eq!(run.code, 0);
}

#[test]
fn a_project_with_errors_has_no_list() {
    let project = shell("#[sandbox(max_instances = 0)]\npub struct ShellSandbox;");
    assert!(refused_with(&project, &["list"]).starts_with("error[K013]"));
}

/// An environment may use another image than the top level.
#[test]
fn the_images_of_environments() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    project.write(
        "wrangler.jsonc",
        r#"{
  "name": "app",
  "main": "src/generated/worker.mjs",
  "compatibility_date": "2026-04-21",
  "env": {
    "staging": {},
    "canary": { "containers": [{ "class_name": "ShellSandbox", "image": "./canary.Dockerfile" }] }
  }
}
"#,
    );
    let built = built(&project);
    assert_snapshot!(built.stdout.lines().filter(|line| line.contains("`env.")).collect::<Vec<_>>().join("\n"), @"
    added entries of `ShellSandbox` to `env.staging`
    adopted the container at `env.canary.containers[0]`
    added entries of `ShellSandbox` to `env.canary`
    ");
    assert!(!crate::common::built(&project).stdout.contains("env."));
    assert_snapshot!(project.koze(&["list"]).stdout, @"
    1 sandbox in wrangler.jsonc, SDK 0.12.10 from package.json
      src/server/shell.sandbox.rs  ShellSandbox  SHELL_SANDBOX  docker.io/cloudflare/sandbox:0.12.10
        env.staging  docker.io/cloudflare/sandbox:0.12.10
        env.canary  ./canary.Dockerfile
    ");
    let run = project.koze(&["list", "--format", "json"]);
    let images = serde_json::json!({
        "staging": "docker.io/cloudflare/sandbox:0.12.10",
        "canary": "./canary.Dockerfile",
    });
    assert_eq!(document(&run)["sandboxes"][0]["environments"], images);

    // Unmanaged environments are not listed.
    let manifest = project.read("Cargo.toml");
    project
        .write("Cargo.toml", format!("{manifest}\n[package.metadata.koze]\nenvironments = [\"staging\"]\n"));
    let run = project.koze(&["list"]);
    assert!(run.stdout.contains("env.staging") && !run.stdout.contains("env.canary"), "{run:?}");
}
