//! Backends: which keys go with which, the images of sandboxes with koze's guest, and moving from one to the other.

use insta::assert_snapshot;
use koze_tests::{NOTE, Project, koze};

use crate::common::{built, package, plain, refused, refused_with, sandbox, shell, users_diff};

const NATIVE: &str = "#[sandbox(backend = \"native\", image = \"debian:12-slim\")]\npub struct ShellSandbox;";

/// A sandbox with a Dockerfile beside it.
fn with_dockerfile(dockerfile: &str) -> Project {
    let project = shell("#[sandbox(backend = \"native\")]\npub struct ShellSandbox;");
    project.write("src/server/shell.Dockerfile", dockerfile);
    project
}

#[test]
fn a_variant_is_an_image_of_the_sdk() {
    let project = shell("#[sandbox(backend = \"native\", variant = \"python\")]\npub struct ShellSandbox;");
    assert_snapshot!(refused(&project), @"");
}

#[test]
fn an_entrypoint_goes_with_the_guest() {
    assert_snapshot!(refused(&shell("#[sandbox(entrypoint = [\"node\"])]\npub struct ShellSandbox;")), @"");
}

#[test]
fn an_image_has_to_be_named() {
    assert_snapshot!(refused(&shell("#[sandbox(backend = \"native\")]\npub struct ShellSandbox;")), @"");
}

#[test]
fn without_the_sdk_no_version_of_it_is_looked_for() {
    let project = shell(NATIVE);
    std::fs::remove_file(project.path("package.json")).expect("what says the version");
    let run = built(&project);
    assert!(run.stdout.starts_with("1 sandbox in wrangler.jsonc\n"), "{}", run.stdout);
    assert!(!project.path("src/generated/sdk.mjs").exists());
    assert!(!project.read("src/generated/worker.mjs").contains("@cloudflare/sandbox"));
}

#[test]
fn a_dockerfile_that_goes_on_where_it_ends() {
    assert_snapshot!(refused(&with_dockerfile("FROM debian:12-slim\nRUN true && \\\n")), @"");
}

#[test]
fn a_dockerfile_without_an_image() {
    assert_snapshot!(refused(&with_dockerfile("# FROM nothing\n")), @"");
}

#[test]
fn a_directory_to_build_in_that_is_not_there() {
    let keys = "backend = \"native\", image = \"./shell.Dockerfile\", image_build_context = \"none\"";
    let project = shell(&format!("#[sandbox({keys})]\npub struct ShellSandbox;"));
    project.write("src/server/shell.Dockerfile", "FROM debian:12-slim\n");
    assert_snapshot!(refused(&project), @"");
}

#[test]
fn a_build_that_leaves_the_guest_out() {
    let project = with_dockerfile("FROM debian:12-slim\n");
    project.write("src/server/.dockerignore", "# Nothing.\n*\n!server.js\n");
    assert_snapshot!(refused(&project), @"");
    project.write("src/server/.dockerignore", "*\n!/.koze-guest\n");
    built(&project);
}

#[test]
fn a_file_of_the_users_in_the_place_of_the_guest() {
    let project = with_dockerfile("FROM debian:12-slim\n");
    project.write("src/server/.koze-guest", "mine\n");
    assert_snapshot!(refused(&project), @"");
}

#[test]
fn the_guest_goes_with_the_last_image_that_needs_it() {
    let project = with_dockerfile("FROM debian:12-slim\n");
    built(&project);
    assert_eq!(
        std::fs::read(project.path("src/server/.koze-guest")).expect("the guest"),
        koze_templates::GUEST
    );
    // An older guest is replaced, as the lock says whose it is.
    project.write("src/server/.koze-guest", "an older one\n");
    assert!(built(&project).stdout.contains("updated src/server/.koze-guest\n"));
    sandbox(&project, "src/server/shell.sandbox.rs", NATIVE);
    let run = built(&project);
    assert!(run.stdout.contains("removed src/server/.koze-guest\n"), "{}", run.stdout);
    assert!(project.path("src/generated/native/koze-guest").exists());
}

#[test]
fn a_guest_is_no_text() {
    let run = shell(NATIVE).koze(&["build", "--dry-run"]);
    assert_eq!(run.code, 0, "{run:?}");
    let said = format!("src/generated/native/koze-guest is no text: {} bytes\n", koze_templates::GUEST.len());
    assert!(run.stdout.contains(&said), "{}", run.stdout);
}

#[test]
fn a_scheduling_policy_of_another_world() {
    let project = shell(NATIVE);
    project.write(
        "wrangler.jsonc",
        "{\n  \"name\": \"app\",\n  \"main\": \"src/generated/worker.mjs\",\n  \"containers\": [\n    \
         { \"class_name\": \"ShellSandbox\", \"scheduling_policy\": \"durable_object\" }\n  ]\n}\n",
    );
    assert_snapshot!(refused(&project), @"");
}

#[test]
fn a_backend_is_not_changed_by_a_word() {
    let project = package();
    plain(&project, "src/server/shell.sandbox.rs", "ShellSandbox");
    built(&project);
    sandbox(&project, "src/server/shell.sandbox.rs", NATIVE);
    assert_snapshot!(refused(&project), @"");
    // The command takes it as it stands.
    let run = project.koze(&["migrate", "--backend", "native", "shell"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
}

#[test]
fn all_sandboxes_move() {
    let project = package();
    plain(&project, "src/server/shell.sandbox.rs", "ShellSandbox");
    sandbox(
        &project,
        "src/server/python.sandbox.rs",
        "#[sandbox(\n    variant = \"python\", // for numbers\n    max_instances = 3,\n)]\npub struct PythonSandbox;",
    );
    built(&project);
    let before = project.snapshot();
    let looked = project.koze(&["migrate", "--backend", "native", "--dry-run"]);
    assert_eq!(looked.code, 0, "{looked:?}");
    assert_eq!(project.diff(&before), "", "a dry run wrote something");
    assert!(looked.stdout.contains("would update src/server/python.sandbox.rs\n"), "{}", looked.stdout);
    let run = project.koze(&["migrate", "--backend", "native"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    assert_snapshot!(run.stdout, @"");
    assert_snapshot!(users_diff(&before, &project.snapshot()), @"");
    assert_snapshot!(refused_with(&project, &["migrate", "--backend", "native"]), @"");
    assert_snapshot!(refused_with(&project, &["migrate", "--backend", "native", "python"]), @"");

    let back = project.koze(&["migrate", "--backend", "sdk"]);
    assert_eq!((back.code, back.stderr.as_str()), (0, ""), "{}", back.stdout);
    assert_snapshot!(back.stdout, @"");
    // But for where the key stood.
    assert_snapshot!(users_diff(&before, &project.snapshot()), @"");
    assert!(!project.path("src/generated/native/koze-guest").exists());
}

#[test]
fn one_moves_by_its_name_or_its_class() {
    let project = package();
    plain(&project, "src/server/shell.sandbox.rs", "ShellSandbox");
    plain(&project, "src/server/bash.sandbox.rs", "BashSandbox");
    project.write("src/server/bash.Dockerfile", "FROM docker.io/cloudflare/sandbox:0.12.10\n");
    built(&project);
    let run = project.koze(&["migrate", "--backend", "native", "BashSandbox"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    assert_snapshot!(run.stdout, @"");
    assert!(project.read("src/server/bash.sandbox.rs").contains("#[sandbox(backend = \"native\")]"));
    assert!(project.read("src/server/shell.sandbox.rs").contains("#[sandbox]"));
    assert_snapshot!(refused_with(&project, &["migrate", "--backend", "native", "zsh"]), @"");
}

#[test]
fn the_image_of_an_entry_that_was_adopted_goes_along() {
    let project = package();
    plain(&project, "src/server/shell.sandbox.rs", "ShellSandbox");
    project.write(
        "wrangler.jsonc",
        "{\n  \"name\": \"app\",\n  \"main\": \"src/generated/worker.mjs\",\n  \"containers\": [\n    \
         { \"class_name\": \"ShellSandbox\", \"image\": \"docker.io/me/mine:1\" }\n  ],\n  \"migrations\": [{ \"tag\": \"v1\", \"new_sqlite_classes\": [\"ShellSandbox\"] }]\n}\n",
    );
    built(&project);
    let run = project.koze(&["migrate", "--backend", "native"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    assert!(project.read("src/server/shell.sandbox.rs").contains("image = \"docker.io/me/mine:1\""));
    assert!(project.read("src/generated/native/shell.Dockerfile").contains("FROM docker.io/me/mine:1\n"));
    assert!(
        project.read("wrangler.jsonc").contains("\"image\": \"./src/generated/native/shell.Dockerfile\"")
    );
}

/// What a build prints on standard error, with the note that other tests do not see.
fn messages(project: &Project, args: &[&str]) -> String {
    let mut command = koze();
    command.args(args).current_dir(project.dir());
    String::from_utf8(koze_tests::run(command, std::time::Duration::from_mins(1)).stderr).expect("text")
}

#[test]
fn a_build_says_once_that_the_sdk_ends() {
    let project = package();
    plain(&project, "src/server/shell.sandbox.rs", "ShellSandbox");
    plain(&project, "src/server/bash.sandbox.rs", "BashSandbox");
    assert_eq!(messages(&project, &["build", "--strict"]), NOTE);
    assert_eq!(messages(&project, &["build", "--format", "json"]), "");
    assert_eq!(messages(&project, &["list"]), "");
    assert_eq!(messages(&shell(NATIVE), &["build"]), "");
}
