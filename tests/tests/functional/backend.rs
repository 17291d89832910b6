//! Backends: their keys, the images of sandboxes with koze's guest, and moving between backends.

use insta::assert_snapshot;
use koze_tests::{NOTE, Project, koze};

use crate::common::{built, package, plain, refused, refused_with, sandbox, shell, users_diff};

const NATIVE: &str = "#[sandbox(backend = \"native\", image = \"debian:12-slim\")]\npub struct ShellSandbox;";

/// A sandbox with a Dockerfile next to it.
fn with_dockerfile(dockerfile: &str) -> Project {
    let project = shell("#[sandbox(backend = \"native\")]\npub struct ShellSandbox;");
    project.write("src/server/shell.Dockerfile", dockerfile);
    project
}

#[test]
fn a_variant_requires_the_sdk() {
    let project = shell("#[sandbox(backend = \"native\", variant = \"python\")]\npub struct ShellSandbox;");
    assert_snapshot!(refused(&project), @r#"
    error[K073]: `variant` is not available with the backend `native`
     --> src/server/shell.sandbox.rs:3:31
      |
    3 | #[sandbox(backend = "native", variant = "python")]
      |           ------- the backend ^^^^^^^
      |
      = help: variants are images of the SDK: set an image, such as `image = "python:3.12-slim"`, or add a Dockerfile next to the source file

    1 error; nothing was written
    "#);
}

#[test]
fn an_entrypoint_requires_the_guest() {
    assert_snapshot!(refused(&shell("#[sandbox(entrypoint = [\"node\"])]\npub struct ShellSandbox;")), @r#"
    error[K073]: `entrypoint` is not available with the backend `sdk`
     --> src/server/shell.sandbox.rs:3:11
      |
    3 | #[sandbox(entrypoint = ["node"])]
      |           ^^^^^^^^^^
      |
      = help: the SDK's image has its own program: remove `entrypoint`, or write `backend = "native"`

    1 error; nothing was written
    "#);
}

#[test]
fn the_sdk_needs_an_image_with_its_program() {
    let sandbox = "#[sandbox(image = \"docker.io/python:3.12-slim\")]\npub struct ShellSandbox;";
    assert_snapshot!(refused(&shell(sandbox)), @r#"
    error[K098]: `docker.io/python:3.12-slim` does not contain the program of the sandbox SDK
     --> src/server/shell.sandbox.rs:3:19
      |
    3 | #[sandbox(image = "docker.io/python:3.12-slim")]
      |                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      |
      = help: write `backend = "native"`, with which any Linux image works, or add a Dockerfile next to the source file that is based on `docker.io/cloudflare/sandbox`

    1 error; nothing was written
    "#);
}

#[test]
fn an_image_is_required() {
    assert_snapshot!(refused(&shell("#[sandbox(backend = \"native\")]\npub struct ShellSandbox;")), @r#"
    error[K074]: `ShellSandbox` has no image: with `backend = "native"` there is no default image
     --> src/server/shell.sandbox.rs:4:12
      |
    4 | pub struct ShellSandbox;
      |            ^^^^^^^^^^^^
      |
      = help: set `image` to any Linux image, such as `image = "debian:12-slim"` or `image = "python:3.12-slim"`, or add `shell.Dockerfile` next to the source file

    1 error; nothing was written
    "#);
}

#[test]
fn without_the_sdk_its_version_is_not_resolved() {
    let project = shell(NATIVE);
    std::fs::remove_file(project.path("package.json")).expect("what says the version");
    let run = built(&project);
    assert!(run.stdout.starts_with("1 sandbox in wrangler.jsonc\n"), "{}", run.stdout);
    assert!(!project.path("src/generated/koze/sdk/sdk.mjs").exists());
    assert!(!project.read("src/generated/worker.mjs").contains("@cloudflare/sandbox"));
}

#[test]
fn a_dockerfile_that_ends_with_a_continuation() {
    assert_snapshot!(refused(&with_dockerfile("FROM debian:12-slim\nRUN true && \\\n")), @r#"
    error[K077]: the last instruction of `src/server/shell.Dockerfile` continues on a line that does not exist
     --> src/server/shell.Dockerfile:2:1
      |
    2 | RUN true && \
      | ^^^^^^^^^^^^^
      |
      = help: with `backend = "native"` koze adds its guest after the last stage: correct the Dockerfile, then run `koze build` again

    1 error; nothing was written
    "#);
}

#[test]
fn a_dockerfile_without_an_image() {
    assert_snapshot!(refused(&with_dockerfile("# FROM nothing\n")), @r#"
    error[K077]: `src/server/shell.Dockerfile` has no `FROM`
    --> src/server/shell.Dockerfile
     = help: with `backend = "native"` koze adds its guest after the last stage: correct the Dockerfile, then run `koze build` again

    1 error; nothing was written
    "#);
}

#[test]
fn a_missing_build_context() {
    let keys = "backend = \"native\", image = \"./shell.Dockerfile\", image_build_context = \"none\"";
    let project = shell(&format!("#[sandbox({keys})]\npub struct ShellSandbox;"));
    project.write("src/server/shell.Dockerfile", "FROM debian:12-slim\n");
    assert_snapshot!(refused(&project), @r#"
    error[K077]: `src/server/none`, the build context of `src/server/shell.Dockerfile`, is not a directory
    --> src/server/shell.Dockerfile
     = help: with `backend = "native"` koze adds its guest after the last stage: correct the Dockerfile, then run `koze build` again

    1 error; nothing was written
    "#);
}

#[test]
fn a_dockerignore_that_excludes_the_guest() {
    let project = with_dockerfile("FROM debian:12-slim\n");
    project.write("src/server/.dockerignore", "# Nothing.\n*\n!server.js\n");
    assert_snapshot!(refused(&project), @r#"
    error[K076]: `*` excludes `.koze-guest`, which the image's build copies into the image
     --> src/server/.dockerignore:2:1
      |
    2 | *
      | ^
      |
      = help: add a line `!/.koze-guest` after it

    1 error; nothing was written
    "#);
    project.write("src/server/.dockerignore", "*\n!/.koze-guest\n");
    built(&project);
}

#[test]
fn a_users_file_in_place_of_the_guest() {
    let project = with_dockerfile("FROM debian:12-slim\n");
    project.write("src/server/.koze-guest", "mine\n");
    assert_snapshot!(refused(&project), @r#"
    error[K056]: `src/server/.koze-guest` was not written by koze, and koze would overwrite it
    --> src/server/.koze-guest
     = help: move your file elsewhere, then run `koze build` again

    1 error; nothing was written
    "#);
}

#[test]
fn the_guest_is_deleted_with_the_last_image_that_needs_it() {
    let project = with_dockerfile("FROM debian:12-slim\n");
    built(&project);
    let guest = std::fs::read(project.path("src/server/.koze-guest")).expect("the guest");
    assert!(guest == koze_templates::GUEST, "another one");
    // The lock says that koze wrote the guest, so an older one is replaced.
    project.write("src/server/.koze-guest", "an older one\n");
    assert!(built(&project).stdout.contains("updated src/server/.koze-guest\n"));
    sandbox(&project, "src/server/shell.sandbox.rs", NATIVE);
    let run = built(&project);
    assert!(run.stdout.contains("removed src/server/.koze-guest\n"), "{}", run.stdout);
    assert!(project.path("src/generated/native/koze-guest").exists());
}

#[test]
fn the_guest_is_shown_as_binary() {
    let run = shell(NATIVE).koze(&["build", "--dry-run"]);
    assert_eq!(run.code, 0, "{run:?}");
    let output =
        format!("src/generated/native/koze-guest is not text: {} bytes\n", koze_templates::GUEST.len());
    assert!(run.stdout.contains(&output), "{}", run.stdout);
}

#[test]
fn an_unsupported_scheduling_policy() {
    let project = shell(NATIVE);
    project.write(
        "wrangler.jsonc",
        "{\n  \"name\": \"app\",\n  \"main\": \"src/generated/worker.mjs\",\n  \"containers\": [\n    \
         { \"class_name\": \"ShellSandbox\", \"scheduling_policy\": \"durable_object\" }\n  ]\n}\n",
    );
    assert_snapshot!(refused(&project), @r#"
    error[K078]: `ShellSandbox` has the backend `native`, but its container has the `scheduling_policy` "durable_object"
     --> wrangler.jsonc:5:58
      |
    5 |     { "class_name": "ShellSandbox", "scheduling_policy": "durable_object" }
      |                                                          ^^^^^^^^^^^^^^^^
      |
     ::: src/server/shell.sandbox.rs:4:12
      |
    4 | pub struct ShellSandbox;
      |            ------------ the sandbox
      |
      = help: write `backend = "managed"` in the attribute; or, if the application was never deployed, remove the entry, and koze writes another one. The policy of a deployed application cannot be changed

    1 error; nothing was written
    "#);
}

#[test]
fn a_backend_changes_only_by_command() {
    let project = package();
    plain(&project, "src/server/shell.sandbox.rs", "ShellSandbox");
    built(&project);
    sandbox(&project, "src/server/shell.sandbox.rs", NATIVE);
    assert_snapshot!(refused(&project), @r#"
    error[K075]: `ShellSandbox` was built with the backend `sdk`, but its attribute now says `native`
     --> src/server/shell.sandbox.rs:3:21
      |
    3 | #[sandbox(backend = "native", image = "debian:12-slim")]
      |                     ^^^^^^^^
      |
      = help: new containers replace the running ones, and files in them are lost: run `koze migrate --backend native shell`, which lists the changes, or set the attribute back to `sdk`

    1 error; nothing was written
    "#);
    // Sandboxes on this machine run whatever the lock says.
    let tools = project.koze(&["tools"]);
    assert_eq!((tools.code, tools.stderr.as_str()), (0, ""), "{}", tools.stdout);
    // The command accepts the changed source.
    let run = project.koze(&["migrate", "--backend", "native", "shell"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
}

/// Two sandboxes over the SDK.
fn two() -> Project {
    let project = package();
    plain(&project, "src/server/shell.sandbox.rs", "ShellSandbox");
    sandbox(
        &project,
        "src/server/python.sandbox.rs",
        "#[sandbox(\n    variant = \"python\", // for numbers\n    max_instances = 3,\n)]\npub struct PythonSandbox;",
    );
    built(&project);
    project
}

#[test]
fn all_sandboxes_move() {
    let project = two();
    let before = project.snapshot();
    let looked = project.koze(&["migrate", "--backend", "native", "--dry-run"]);
    assert_eq!(looked.code, 0, "{looked:?}");
    assert_eq!(project.diff(&before), "", "a dry run wrote something");
    assert!(looked.stdout.contains("would update src/server/python.sandbox.rs\n"), "{}", looked.stdout);
    let run = project.koze(&["migrate", "--backend", "native"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    assert_snapshot!(run.stdout, @"
    2 sandboxes in wrangler.jsonc
      src/server/python.sandbox.rs  PythonSandbox  PYTHON_SANDBOX  docker.io/cloudflare/sandbox:0.12.10-python, with koze's guest
      src/server/shell.sandbox.rs   ShellSandbox   SHELL_SANDBOX   docker.io/cloudflare/sandbox:0.12.10, with koze's guest
    updated src/server/python.sandbox.rs
    updated src/server/shell.sandbox.rs
    removed src/generated/koze/sdk/sdk.mjs
    removed src/generated/koze/sdk/sdk.d.mts
    removed src/generated/koze/sdk/placed.mjs
    removed src/generated/koze/koze-guest.mjs
    updated wrangler.jsonc
    updated src/generated/worker.mjs
    updated src/generated/worker.d.mts
    created src/generated/koze/native.mjs
    created src/generated/koze/native.d.mts
    created src/generated/koze/container.mjs
    created src/generated/koze/platform.mjs
    created src/generated/native/koze-guest
    created src/generated/native/python.Dockerfile
    created src/generated/native/shell.Dockerfile
    updated koze.lock
    next: commit these files, including `koze.lock`
    `PythonSandbox` now has the backend `native`: its image is docker.io/cloudflare/sandbox:0.12.10-python, with koze's guest added
    `ShellSandbox` now has the backend `native`: its image is docker.io/cloudflare/sandbox:0.12.10, with koze's guest added
    the next deployment replaces the running containers, and files in them are lost; classes, bindings and storage do not change
    next: install Docker, with which wrangler builds the images
    next: change to other images, such as `python:3.12-slim`: those of @cloudflare/sandbox 0.x get fixes only until 2026-12-31
    next: remove @cloudflare/sandbox, which the Worker no longer needs: `npm uninstall @cloudflare/sandbox`
    ");
    assert_snapshot!(users_diff(&before, &project.snapshot()), @r#"
    --- a/src/server/python.sandbox.rs
    +++ b/src/server/python.sandbox.rs
    @@ -1,7 +1,8 @@
     use koze::prelude::*;
     
     #[sandbox(
    -    variant = "python", // for numbers
    +    image = "docker.io/cloudflare/sandbox:0.12.10-python", // for numbers
         max_instances = 3,
    +    backend = "native",
     )]
     pub struct PythonSandbox;
    --- a/src/server/shell.sandbox.rs
    +++ b/src/server/shell.sandbox.rs
    @@ -1,4 +1,4 @@
     use koze::prelude::*;
     
    -#[sandbox]
    +#[sandbox(image = "docker.io/cloudflare/sandbox:0.12.10", backend = "native")]
     pub struct ShellSandbox;
    --- a/wrangler.jsonc
    +++ b/wrangler.jsonc
    @@ -12,14 +12,14 @@
         {
           "name": "python-sandbox",
           "class_name": "PythonSandbox",
    -      "image": "docker.io/cloudflare/sandbox:0.12.10-python",
    +      "image": "./src/generated/native/python.Dockerfile",
           "instance_type": "lite",
           "max_instances": 3
         },
         {
           "name": "shell-sandbox",
           "class_name": "ShellSandbox",
    -      "image": "docker.io/cloudflare/sandbox:0.12.10",
    +      "image": "./src/generated/native/shell.Dockerfile",
           "instance_type": "lite"
         }
       ],
    "#);
    assert_snapshot!(refused_with(&project, &["migrate", "--backend", "native"]), @r#"
    error[K079]: every sandbox already has the backend `native`
     |
     = help: there is nothing to migrate: `koze list` shows the sandboxes

    1 error; nothing was written
    "#);
    assert_snapshot!(refused_with(&project, &["migrate", "--backend", "native", "python"]), @r#"
    error[K079]: `python` already has the backend `native`
     |
     = help: there is nothing to migrate: `koze list` shows the sandboxes

    1 error; nothing was written
    "#);
}

#[test]
fn all_sandboxes_move_back() {
    let project = two();
    let before = project.snapshot();
    let run = project.koze(&["migrate", "--backend", "native"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    let back = project.koze(&["migrate", "--backend", "sdk"]);
    assert_eq!((back.code, back.stderr.as_str()), (0, ""), "{}", back.stdout);
    assert_snapshot!(back.stdout, @"
    2 sandboxes in wrangler.jsonc, SDK 0.12.10 from package.json
      src/server/python.sandbox.rs  PythonSandbox  PYTHON_SANDBOX  docker.io/cloudflare/sandbox:0.12.10-python
      src/server/shell.sandbox.rs   ShellSandbox   SHELL_SANDBOX   docker.io/cloudflare/sandbox:0.12.10
    updated src/server/python.sandbox.rs
    updated src/server/shell.sandbox.rs
    removed src/generated/native/koze-guest
    removed src/generated/native/python.Dockerfile
    removed src/generated/native/shell.Dockerfile
    removed src/generated/koze/native.mjs
    removed src/generated/koze/native.d.mts
    removed src/generated/koze/container.mjs
    removed src/generated/koze/platform.mjs
    updated wrangler.jsonc
    updated src/generated/worker.mjs
    updated src/generated/worker.d.mts
    created src/generated/koze/sdk/sdk.mjs
    created src/generated/koze/sdk/sdk.d.mts
    created src/generated/koze/sdk/placed.mjs
    created src/generated/koze/koze-guest.mjs
    updated koze.lock
    next: commit these files, including `koze.lock`
    `PythonSandbox` now has the backend `sdk`: its image is the SDK's, and no longer docker.io/cloudflare/sandbox:0.12.10-python
    `ShellSandbox` now has the backend `sdk`: its image is the SDK's, and no longer docker.io/cloudflare/sandbox:0.12.10
    the next deployment replaces the running containers, and files in them are lost; classes, bindings and storage do not change
    ");
    // Only the position of the key differs.
    assert_snapshot!(users_diff(&before, &project.snapshot()), @"");
    assert!(!project.path("src/generated/native").exists());
}

#[test]
fn unneeded_files_are_deleted_with_the_last_sandbox() {
    let project = shell(NATIVE);
    built(&project);
    let native = project.path("src/generated/native");
    assert!(native.is_dir());
    std::fs::remove_file(project.path("src/server/shell.sandbox.rs")).expect("its file");
    let looked = project.koze(&["remove", "shell", "--delete-storage", "--dry-run"]);
    assert_eq!((looked.code, native.is_dir()), (0, true), "{looked:?}");
    let run = project.koze(&["remove", "shell", "--delete-storage"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    assert!(!native.exists());
    let left: Vec<String> =
        project.snapshot().into_keys().filter(|path| path.starts_with("src/generated/")).collect();
    let always =
        [".gitattributes", "env.rs", "mod.rs", "tools.json", "tools.rs", "worker.d.mts", "worker.mjs"];
    assert_eq!(left, always.map(|name| format!("src/generated/{name}")));
}

#[test]
fn a_users_file_next_to_the_guest_is_kept() {
    let project = two();
    let run = project.koze(&["migrate", "--backend", "native"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    project.write("src/generated/native/notes.md", "mine\n");
    let back = project.koze(&["migrate", "--backend", "sdk"]);
    assert_eq!((back.code, back.stderr.as_str()), (0, ""), "{}", back.stdout);
    let left: Vec<_> = std::fs::read_dir(project.path("src/generated/native"))
        .expect("the directory")
        .map(|entry| entry.expect("a file").file_name())
        .collect();
    assert_eq!(left, ["notes.md"]);
    // The next build deletes the directory once it is empty.
    std::fs::remove_file(project.path("src/generated/native/notes.md")).expect("the user's file");
    built(&project);
    assert!(!project.path("src/generated/native").exists());
}

#[test]
fn one_sandbox_moves_by_name_or_class() {
    let project = package();
    plain(&project, "src/server/shell.sandbox.rs", "ShellSandbox");
    plain(&project, "src/server/bash.sandbox.rs", "BashSandbox");
    project.write("src/server/bash.Dockerfile", "FROM docker.io/cloudflare/sandbox:0.12.10\n");
    built(&project);
    let run = project.koze(&["migrate", "--backend", "native", "BashSandbox"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    assert_snapshot!(run.stdout, @"
    2 sandboxes in wrangler.jsonc, SDK 0.12.10 from package.json
      src/server/bash.sandbox.rs   BashSandbox   BASH_SANDBOX   ./src/server/bash.Dockerfile, with koze's guest
      src/server/shell.sandbox.rs  ShellSandbox  SHELL_SANDBOX  docker.io/cloudflare/sandbox:0.12.10
    updated src/server/bash.sandbox.rs
    updated wrangler.jsonc
    updated src/generated/worker.mjs
    updated src/generated/worker.d.mts
    created src/generated/koze/native.mjs
    created src/generated/koze/native.d.mts
    created src/generated/koze/container.mjs
    created src/generated/koze/platform.mjs
    created src/generated/native/bash.Dockerfile
    created src/server/.koze-guest
    updated koze.lock
    next: commit these files, including `koze.lock`
    `BashSandbox` now has the backend `native`: its image is ./src/server/bash.Dockerfile, with koze's guest added
    the next deployment replaces the running containers, and files in them are lost; classes, bindings and storage do not change
    next: install Docker, with which wrangler builds the images
    ");
    assert!(project.read("src/server/bash.sandbox.rs").contains("#[sandbox(backend = \"native\")]"));
    assert!(project.read("src/server/shell.sandbox.rs").contains("#[sandbox]"));
    assert_snapshot!(refused_with(&project, &["migrate", "--backend", "native", "zsh"]), @r#"
    error[K065]: there is no sandbox `zsh`
     |
     = help: use the name of a file or a class: the files are those of `bash` and `shell`

    1 error; nothing was written
    "#);
}

#[test]
fn an_adopted_image_moves_along() {
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

/// The path is rewritten relative to the source, and leads to the same file.
#[test]
fn an_adopted_dockerfile_moves_along() {
    let project = package();
    plain(&project, "src/server/shell.sandbox.rs", "ShellSandbox");
    project.write("docker/Dockerfile", "FROM debian:12\n").write(
        "wrangler.jsonc",
        "{\n  \"name\": \"app\",\n  \"main\": \"src/generated/worker.mjs\",\n  \"containers\": [\n    \
         { \"class_name\": \"ShellSandbox\", \"image\": \"./docker/Dockerfile\" }\n  ]\n}\n",
    );
    built(&project);
    let run = project.koze(&["migrate", "--backend", "native"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    assert!(project.read("src/server/shell.sandbox.rs").contains("image = \"../../docker/Dockerfile\""));
    assert!(project.read("src/generated/native/shell.Dockerfile").contains("FROM debian:12\n"));
}

/// Returns standard error with the note that other tests ignore.
fn messages(project: &Project, args: &[&str]) -> String {
    let mut command = koze();
    command.args(args).current_dir(project.dir());
    String::from_utf8(koze_tests::run(command, std::time::Duration::from_mins(1)).stderr).expect("text")
}

#[test]
fn a_build_notes_once_how_long_the_sdk_gets_fixes() {
    let project = package();
    plain(&project, "src/server/shell.sandbox.rs", "ShellSandbox");
    plain(&project, "src/server/bash.sandbox.rs", "BashSandbox");
    assert_eq!(messages(&project, &["build", "--strict"]), NOTE);
    assert_eq!(messages(&project, &["build", "--format", "json"]), "");
    assert_eq!(messages(&project, &["list"]), "");
    assert_eq!(messages(&shell(NATIVE), &["build"]), "");
}
