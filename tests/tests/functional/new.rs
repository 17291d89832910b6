//! `koze new`.

use std::collections::BTreeSet;

use fs_err as fs;
use insta::assert_snapshot;
use koze_tests::{Project, Run, root};

use crate::common::refused_with;

fn runtime() -> String {
    root().join("runtime").display().to_string()
}

fn new(project: &Project, args: &[&str]) -> Run {
    let runtime = runtime();
    let all: Vec<&str> = [&["new"], args, &["--runtime-path", &runtime]].concat();
    project.koze(&all)
}

#[test]
fn a_project_in_an_empty_directory() {
    let place = Project::new();
    let run = new(&place, &["hello"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    assert_snapshot!(run.stdout, @r#"
    created the package `hello` in hello
    1 sandbox in wrangler.jsonc
      src/server/shell.sandbox.rs  ShellSandbox  SHELL_SANDBOX  ./src/server/shell.Dockerfile, with koze's guest
    try:  cd hello && koze call shell '{"command": "uname -a"}'
    next: cd hello && npm install && npm run check (its README.md says what these need)
    "#);

    let files: BTreeSet<String> = place.snapshot().into_keys().collect();
    assert_snapshot!(files.into_iter().collect::<Vec<_>>().join("\n"), @"
    hello/.cargo/config.toml
    hello/.gitignore
    hello/Cargo.toml
    hello/README.md
    hello/koze.lock
    hello/package.json
    hello/src/generated/.gitattributes
    hello/src/generated/env.rs
    hello/src/generated/koze/calls.mjs
    hello/src/generated/koze/container.mjs
    hello/src/generated/koze/contract.d.ts
    hello/src/generated/koze/guest.mjs
    hello/src/generated/koze/native.d.mts
    hello/src/generated/koze/native.mjs
    hello/src/generated/koze/operations.mjs
    hello/src/generated/koze/platform.mjs
    hello/src/generated/koze/processes.mjs
    hello/src/generated/koze/sessions.d.mts
    hello/src/generated/koze/sessions.mjs
    hello/src/generated/koze/trees.mjs
    hello/src/generated/koze/waiting.mjs
    hello/src/generated/mod.rs
    hello/src/generated/native/shell.Dockerfile
    hello/src/generated/tools.json
    hello/src/generated/tools.rs
    hello/src/generated/worker.d.mts
    hello/src/generated/worker.mjs
    hello/src/lib.rs
    hello/src/server/.koze-guest
    hello/src/server/shell.Dockerfile
    hello/src/server/shell.sandbox.rs
    hello/wrangler.jsonc
    ");
    let again = place.koze(&["build", "--project", "hello"]);
    assert!(again.code == 0 && again.stdout.contains("nothing to do"), "{again:?}");
}

#[test]
fn contents_of_a_new_project() {
    let place = Project::new();
    assert_eq!(new(&place, &["My_Agent"]).code, 0);
    let manifest = place.read("My_Agent/Cargo.toml").replace(&runtime(), "[RUNTIME]");
    assert_snapshot!(manifest, @r#"
    [package]
    name = "My_Agent"
    version = "0.1.0"
    edition = "2024"
    publish = false

    [lib]
    crate-type = ["cdylib", "rlib"]

    [package.metadata.koze]
    # Record the sandboxes of each session, so that agents can list them.
    registry = true

    [dependencies]
    koze = { path = "[RUNTIME]" }
    worker = "0.8.7"

    [profile.release]
    lto = true
    codegen-units = 1
    # Most of a call is spent outside the module; a smaller one is uploaded, compiled and started faster.
    opt-level = "s"
    # Function names are a seventh of an upload. Without them, a panic still reports its location.
    strip = true

    [package.metadata.wasm-pack.profile.release]
    # Functions with one caller stay separate. Merged into it, they would compress less well: an upload would be 23 KiB larger.
    wasm-opt = ["-O", "--one-caller-inline-max-function-size=20"]
    "#);
    assert_snapshot!(place.read("My_Agent/src/server/shell.sandbox.rs"), @r#"
    use koze::prelude::*;

    /// A Linux shell for an agent, in the image that `shell.Dockerfile` builds.
    #[sandbox(name = "my-agent-shell", backend = "native")]
    pub struct ShellSandbox;
    "#);
    assert_snapshot!(place.read("My_Agent/src/server/shell.Dockerfile"), @r"
    # The image of the sandbox: add the programs that the agent needs. `koze build` adds koze's guest to it.
    FROM node:24-trixie-slim

    RUN apt-get update \
        && apt-get install -y --no-install-recommends \
            ca-certificates curl git python3 python-is-python3 python3-pip python3-venv \
        && rm -rf /var/lib/apt/lists/*

    # Lets pip install packages next to Debian's.
    ENV PIP_BREAK_SYSTEM_PACKAGES=1
    ");
    assert_snapshot!(place.read("My_Agent/package.json"), @r#"
    {
      "name": "My_Agent",
      "private": true,
      "scripts": {
        "check": "wrangler deploy --dry-run --outdir dist --containers-rollout=none",
        "deploy": "wrangler deploy"
      },
      "devDependencies": {
        "wrangler": "4.164.0"
      },
      "engines": {
        "node": ">=22.12"
      }
    }
    "#);
    assert_snapshot!(place.read("My_Agent/wrangler.jsonc"), @r#"
    {
      "$schema": "./node_modules/wrangler/config-schema.json",
      "name": "my_agent",
      "main": "src/generated/worker.mjs",
      "compatibility_date": "2026-04-21",
      "compatibility_flags": ["nodejs_compat"],
      // `koze build` updates the entries of the sandboxes below. wrangler reads them before it runs this command.
      "build": {
        "command": "koze build --check && worker-build --release"
      },
      "containers": [
        {
          "name": "my-agent-shell",
          "class_name": "ShellSandbox",
          "image": "./src/generated/native/shell.Dockerfile",
          "image_build_context": "./src/server",
          "instance_type": "lite"
        }
      ],
      "durable_objects": {
        "bindings": [
          {
            "name": "SHELL_SANDBOX",
            "class_name": "ShellSandbox"
          },
          {
            "name": "KOZE_SESSIONS",
            "class_name": "KozeSessions"
          }
        ]
      },
      "exports": {
        "ShellSandbox": {
          "type": "durable-object",
          "storage": "sqlite"
        },
        "KozeSessions": {
          "type": "durable-object",
          "storage": "sqlite"
        }
      }
    }
    "#);
    for (path, content) in place.snapshot() {
        assert!(!String::from_utf8_lossy(&content).contains("__KOZE_"), "a placeholder is left in {path}");
    }
}

/// Any existing empty directory is accepted.
#[test]
fn in_the_current_directory() {
    let place = Project::new();
    let run = new(&place, &[".", "--name", "hello"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(place.path("Cargo.toml").exists());
}

#[test]
fn a_project_inside_a_workspace_is_a_separate_workspace() {
    let place = Project::new();
    place.write("Cargo.toml", "[workspace]\nmembers = []\nresolver = \"3\"\n");
    assert_eq!(new(&place, &["apps/hello"]).code, 0);
    let manifest = place.read("apps/hello/Cargo.toml");
    assert!(
        manifest.ends_with("\n# This package is not a member of the surrounding workspace.\n[workspace]\n"),
        "{manifest}"
    );
}

#[test]
fn a_project_outside_a_workspace_is_not() {
    let place = Project::new();
    assert_eq!(new(&place, &["hello"]).code, 0);
    assert!(!place.read("hello/Cargo.toml").contains("[workspace]"));
}

#[test]
fn a_directory_that_is_not_empty() {
    let place = Project::new();
    place.write("hello/notes.txt", "mine\n");
    assert_snapshot!(refused_with(&place, &["new", "hello", "--runtime-path", &runtime()]), @"
    error[K061]: `hello` already exists and is not empty
     |
     = help: choose another directory

    1 error; nothing was written
    ");
}

#[test]
fn a_file_in_place_of_the_directory() {
    let place = Project::new();
    place.write("hello", "mine\n");
    assert!(refused_with(&place, &["new", "hello", "--runtime-path", &runtime()]).starts_with("error[K061]"));
}

#[test]
fn an_invalid_name() {
    let place = Project::new();
    assert_snapshot!(refused_with(&place, &["new", "3d tool", "--runtime-path", &runtime()]), @"
    error[K062]: `3d tool` is not a valid package name
     |
     = help: a name must have at most 57 ASCII letters, digits, `-` and `_`, start with a letter, and not be a reserved word of Rust or Cargo: pass `--name d-tool`

    1 error; nothing was written
    ");
}

#[test]
fn other_invalid_names() {
    let place = Project::new();
    let long = "a".repeat(58);
    for name in ["fn", "test", "koze", "worker", "größe", "-x", "a.b", "_a", &long] {
        let name = format!("--name={name}");
        let stderr = refused_with(&place, &["new", "hello", &name, "--runtime-path", &runtime()]);
        assert!(stderr.starts_with("error[K062]"), "{name}: {stderr}");
    }
}

#[test]
fn an_invalid_runtime_path() {
    let place = Project::new();
    place.write("crate/Cargo.toml", "[package]\nname = \"other\"\n");
    assert_snapshot!(refused_with(&place, &["new", "hello", "--runtime-path", "crate"]), @"
    error[K063]: cannot find the crate `koze` that the project depends on: `crate` does not contain a crate of that name
     |
     = help: pass its path, the `runtime` directory of a koze checkout, with `--runtime-path DIR`

    1 error; nothing was written
    ");
    assert!(refused_with(&place, &["new", "hello", "--runtime-path", "nowhere"]).starts_with("error[K063]"));
}

/// Files in parent directories have no effect: neither a configuration nor another SDK.
#[test]
fn surrounding_files_have_no_effect() {
    let place = Project::new();
    let sdk = "node_modules/@cloudflare/sandbox/package.json";
    place.write("wrangler.json", "{}\n").write(sdk, "{ \"version\": \"0.13.0\" }\n");
    let run = new(&place, &["hello", "--backend", "sdk"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(place.read("wrangler.json"), "{}\n");
    let config = place.read("hello/wrangler.jsonc");
    assert!(config.contains("docker.io/cloudflare/sandbox:0.12.10"), "{config}");
}

#[test]
fn a_failure_leaves_nothing_behind() {
    let place = Project::new();
    place.write("notes", "mine\n");
    let stderr = refused_with(&place, &["new", "notes/some/hello", "--runtime-path", &runtime()]);
    assert!(stderr.starts_with("error[K060]"), "{stderr}");
    let left: Vec<_> = fs::read_dir(place.dir())
        .expect("the directory")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert_eq!(left, ["notes"], "not even an empty directory");
}

/// A dangling link belongs to somebody, so it is not replaced.
#[test]
fn a_dangling_link_is_an_error() {
    let place = Project::new();
    std::os::unix::fs::symlink("nowhere", place.path("hello")).expect("a link");
    assert!(refused_with(&place, &["new", "hello", "--runtime-path", &runtime()]).starts_with("error[K061]"));
}

/// An empty directory may be somebody's working directory, so it is not replaced.
#[test]
fn an_empty_directory_is_filled_in_place() {
    use std::os::unix::fs::MetadataExt as _;
    let project = Project::new();
    let dir = project.path("hello");
    fs_err::create_dir(&dir).expect("a directory");
    let inode = fs_err::metadata(&dir).expect("it is there").ino();
    let mut koze = koze_tests::koze();
    koze.args(["new", "."]).current_dir(&dir);
    let output = koze_tests::run(koze, std::time::Duration::from_mins(1));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs_err::metadata(&dir).expect("it is there").ino(), inode);
    assert!(dir.join("koze.lock").is_file() && dir.join(".gitignore").is_file());
    let left: Vec<_> = fs_err::read_dir(project.dir()).expect("a directory").collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

/// Nothing of a new project needs the SDK, unless it is asked for.
#[test]
fn a_project_without_the_sdk() {
    let place = Project::new();
    let run = new(&place, &["hello"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    for (path, content) in place.snapshot() {
        let text = String::from_utf8_lossy(&content);
        assert!(koze_tests::is_guest(&path) || !text.contains("@cloudflare/sandbox"), "{path}");
    }
    let readme = place.read("hello/README.md");
    for part in [
        "shell.sandbox.rs` | declares a sandbox: change its attribute, or add another such file |\n| `src/server/shell.Dockerfile` | ",
        "koze build                     # after a change to a sandbox file or its Dockerfile\n",
        "npm install                    # once: wrangler\n",
        "npm run check                  # build the Worker and let wrangler check it, without the image\n",
        "`npm run deploy` and `koze dev` build the image with Docker.\n",
    ] {
        assert!(readme.contains(part), "{part}: {readme}");
    }
    let same = new(&place, &["same", "--name", "hello", "--backend", "native"]);
    assert_eq!(same.code, 0, "{}", same.stderr);
    assert_eq!(
        place.read("same/src/server/shell.sandbox.rs"),
        place.read("hello/src/server/shell.sandbox.rs")
    );
}

#[test]
fn a_project_with_the_sdk() {
    let place = Project::new();
    let run = new(&place, &["hello", "--backend", "sdk"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    assert_snapshot!(run.stdout, @r#"
    created the package `hello` in hello
    1 sandbox in wrangler.jsonc, SDK 0.12.10 from package.json
      src/server/shell.sandbox.rs  ShellSandbox  SHELL_SANDBOX  docker.io/cloudflare/sandbox:0.12.10
    try:  cd hello && koze call shell '{"command": "uname -a"}'
    next: cd hello && npm install && npm run check (its README.md says what these need)
    note: @cloudflare/sandbox 0.x gets fixes only until 2026-12-31; deployed Workers keep running. `koze new` without `--backend sdk` creates a project without it, `koze migrate --backend native` moves this one
    "#);
    assert_snapshot!(place.read("hello/src/server/shell.sandbox.rs"), @r#"
    use koze::prelude::*;

    /// A Linux shell for an agent.
    #[sandbox(name = "hello-shell")]
    pub struct ShellSandbox;
    "#);
    assert!(place.read("hello/package.json").contains("\"@cloudflare/sandbox\": \"0.12.10\""));
    assert!(!place.path("hello/src/server/shell.Dockerfile").exists());
    for (path, content) in place.snapshot() {
        assert!(!String::from_utf8_lossy(&content).contains("__KOZE_"), "a placeholder is left in {path}");
    }
    let readme = place.read("hello/README.md");
    for part in [
        "npm install                    # once: wrangler and the sandbox SDK\n",
        "`FROM docker.io/cloudflare/sandbox:0.12.10`",
        "or add another such file |\n| `wrangler.jsonc` | ",
    ] {
        assert!(readme.contains(part), "{part}: {readme}");
    }
    let again = place.koze(&["build", "--project", "hello"]);
    assert!(again.code == 0 && again.stdout.contains("nothing to do"), "{again:?}");
}
