//! `koze init`.

use insta::assert_snapshot;
use koze_tests::{Project, Run, diff, root};

use crate::common::{SHELL, package, plain, refused_with};

fn runtime() -> String {
    root().join("runtime").display().to_string()
}

fn init(project: &Project) -> Run {
    project.koze(&["init", "--runtime-path", &runtime()])
}

/// Runs it, which must fail and write nothing, and returns standard error.
fn refused(project: &Project) -> String {
    refused_with(project, &["init", "--runtime-path", &runtime()])
}

/// Creates a package like `cargo new --lib`.
fn library() -> Project {
    let project = Project::new();
    project
        .write(
            "Cargo.toml",
            "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\n",
        )
        .write("src/lib.rs", "pub fn add(left: u64, right: u64) -> u64 {\n    left + right\n}\n");
    project
}

/// Returns the diff of the user's files, without the path of the crate.
fn users_diff(project: &Project, before: &koze_tests::Snapshot) -> String {
    let mut after = project.snapshot();
    after.retain(|path, _| path != "koze.lock" && !path.starts_with("src/generated/"));
    diff(before, &after).replace(&runtime(), "[RUNTIME]")
}

#[test]
#[expect(clippy::too_many_lines, reason = "most of them are what koze prints and writes")]
fn a_library_becomes_a_package_that_koze_builds() {
    let project = library();
    let before = project.snapshot();
    let run = init(&project);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    assert_snapshot!(run.stdout, @"
    1 sandbox in wrangler.jsonc, SDK 0.12.10 from package.json
      src/server/shell.sandbox.rs  ShellSandbox  SHELL_SANDBOX  docker.io/cloudflare/sandbox:0.12.10
    updated Cargo.toml
    updated src/lib.rs
    created src/server/shell.sandbox.rs
    created package.json
    created wrangler.jsonc
    created src/generated/mod.rs
    created src/generated/env.rs
    created src/generated/tools.rs
    created src/generated/tools.json
    created src/generated/worker.mjs
    created src/generated/worker.d.mts
    created src/generated/.gitattributes
    created src/generated/koze/sdk/sdk.mjs
    created src/generated/koze/sdk/sdk.d.mts
    created src/generated/koze/sdk/placed.mjs
    created src/generated/koze/koze-guest.mjs
    created src/generated/koze/operations.mjs
    created src/generated/koze/guest.mjs
    created src/generated/koze/trees.mjs
    created src/generated/koze/processes.mjs
    created src/generated/koze/calls.mjs
    created src/generated/koze/waiting.mjs
    created src/generated/koze/contract.d.ts
    created koze.lock
    next: commit these files, including `koze.lock`
    next: npm install, which installs the sandbox SDK that the Worker's entry point imports
    note: @cloudflare/sandbox 0.x gets fixes only until 2026-12-31; deployed Workers keep running. `koze migrate --backend native` moves the sandbox to koze's own guest
    ");
    assert_snapshot!(users_diff(&project, &before), @r#"
    --- a/Cargo.toml
    +++ b/Cargo.toml
    @@ -4,3 +4,7 @@
     edition = "2024"
     
     [dependencies]
    +koze = { path = "[RUNTIME]" }
    +
    +[lib]
    +crate-type = ["cdylib", "rlib"]
    --- /dev/null
    +++ b/package.json
    @@ -0,0 +1,6 @@
    +{
    +  "private": true,
    +  "dependencies": {
    +    "@cloudflare/sandbox": "0.12.10"
    +  }
    +}
    --- a/src/lib.rs
    +++ b/src/lib.rs
    @@ -1,3 +1,5 @@
    +mod generated;
    +
     pub fn add(left: u64, right: u64) -> u64 {
         left + right
     }
    --- /dev/null
    +++ b/src/server/shell.sandbox.rs
    @@ -0,0 +1,4 @@
    +use koze::prelude::*;
    +
    +#[sandbox(name = "app-shell")]
    +pub struct ShellSandbox;
    --- /dev/null
    +++ b/wrangler.jsonc
    @@ -0,0 +1,33 @@
    +{
    +  "$schema": "./node_modules/wrangler/config-schema.json",
    +  "name": "app",
    +  "main": "src/generated/worker.mjs",
    +  "compatibility_date": "2026-04-21",
    +  "compatibility_flags": ["nodejs_compat"],
    +  // `koze build` updates the entries of the sandboxes below. wrangler reads them before it runs this command.
    +  "build": {
    +    "command": "koze build --check && worker-build --release"
    +  },
    +  "containers": [
    +    {
    +      "name": "app-shell",
    +      "class_name": "ShellSandbox",
    +      "image": "docker.io/cloudflare/sandbox:0.12.10",
    +      "instance_type": "lite"
    +    }
    +  ],
    +  "durable_objects": {
    +    "bindings": [
    +      {
    +        "name": "SHELL_SANDBOX",
    +        "class_name": "ShellSandbox"
    +      }
    +    ]
    +  },
    +  "exports": {
    +    "ShellSandbox": {
    +      "type": "durable-object",
    +      "storage": "sqlite"
    +    }
    +  }
    +}
    "#);
}

/// With koze's own guest, npm's packages stay as they are.
#[test]
fn a_first_sandbox_with_another_backend() {
    let project = library();
    let before = project.snapshot();
    let args = ["init", "--backend", "native", "--runtime-path", &runtime()];
    let run = project.koze(&args);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    let head: Vec<&str> = run.stdout.lines().take(6).collect();
    assert_snapshot!(head.join("\n"), @"
    1 sandbox in wrangler.jsonc
      src/server/shell.sandbox.rs  ShellSandbox  SHELL_SANDBOX  ./src/server/shell.Dockerfile, with koze's guest
    updated Cargo.toml
    updated src/lib.rs
    created src/server/shell.sandbox.rs
    created src/server/shell.Dockerfile
    ");
    let end = "next: install Docker, with which wrangler builds the images\n";
    assert!(run.stdout.ends_with(end), "{}", run.stdout);
    assert!(!project.path("package.json").exists());
    let diff = users_diff(&project, &before);
    assert!(diff.contains("+#[sandbox(name = \"app-shell\", backend = \"native\")]\n"), "{diff}");
    assert!(diff.contains("+FROM node:24-trixie-slim\n"), "{diff}");
    assert_eq!(project.koze(&["build", "--check"]).code, 0);

    // The sandboxes that are there stay, and so do npm's packages.
    let before = project.snapshot();
    for backend in ["native", "sdk"] {
        let again = project.koze(&["init", "--backend", backend, "--runtime-path", &runtime()]);
        assert_eq!((again.code, project.diff(&before).as_str()), (0, ""), "{}", again.stderr);
        let note = "note: `--backend` is for the first sandbox of a package: `koze migrate --backend sdk` moves those that are there\n";
        assert_eq!(again.stdout.ends_with(note), backend == "sdk", "{}", again.stdout);
    }
}

#[test]
fn an_initialized_package_is_unchanged() {
    let project = library();
    let run = init(&project);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    let before = project.snapshot();
    let again = init(&project);
    assert_eq!((again.code, project.diff(&before).as_str()), (0, ""), "{}", again.stderr);
    assert_eq!(project.koze(&["build", "--check"]).code, 0);
}

/// A Worker built by worker-build: its entry point and build command are extended, and the rest is kept.
#[test]
fn an_existing_worker_is_extended() {
    let project = library();
    project
        .write("src/lib.rs", "//! A Worker.\n\nuse worker::*;\n\nmod router; // all routes\n\n#[event(fetch)]\nasync fn fetch() {}\n")
        .write("package.json", "{\n\t\"name\": \"app\",\n\t\"devDependencies\": { \"wrangler\": \"4.164.0\" }\n}\n")
        .write(
            "wrangler.toml",
            "name = \"app\"  # mine\nmain = \"build/worker/shim.mjs\"\ncompatibility_date = \"2026-04-21\"\n\n[build]\ncommand = \"cargo install -q worker-build && worker-build --release\"\n",
        );
    let before = project.snapshot();
    let run = init(&project);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    assert_snapshot!(users_diff(&project, &before), @r#"
    --- a/Cargo.toml
    +++ b/Cargo.toml
    @@ -4,3 +4,7 @@
     edition = "2024"
     
     [dependencies]
    +koze = { path = "[RUNTIME]" }
    +
    +[lib]
    +crate-type = ["cdylib", "rlib"]
    --- a/package.json
    +++ b/package.json
    @@ -1,4 +1,7 @@
     {
     	"name": "app",
    -	"devDependencies": { "wrangler": "4.164.0" }
    +	"devDependencies": { "wrangler": "4.164.0" },
    +	"dependencies": {
    +		"@cloudflare/sandbox": "0.12.10"
    +	}
     }
    --- a/src/lib.rs
    +++ b/src/lib.rs
    @@ -3,6 +3,7 @@
     use worker::*;
     
     mod router; // all routes
    +mod generated;
     
     #[event(fetch)]
     async fn fetch() {}
    --- /dev/null
    +++ b/src/server/shell.sandbox.rs
    @@ -0,0 +1,4 @@
    +use koze::prelude::*;
    +
    +#[sandbox(name = "app-shell")]
    +pub struct ShellSandbox;
    --- a/wrangler.toml
    +++ b/wrangler.toml
    @@ -1,6 +1,21 @@
     name = "app"  # mine
    -main = "build/worker/shim.mjs"
    +main = "src/generated/worker.mjs"
     compatibility_date = "2026-04-21"
    +compatibility_flags = ["nodejs_compat"]
     
     [build]
    -command = "cargo install -q worker-build && worker-build --release"
    +command = "koze build --check && cargo install -q worker-build && worker-build --release"
    +
    +[[containers]]
    +name = "app-shell"
    +class_name = "ShellSandbox"
    +image = "docker.io/cloudflare/sandbox:0.12.10"
    +instance_type = "lite"
    +
    +[[durable_objects.bindings]]
    +name = "SHELL_SANDBOX"
    +class_name = "ShellSandbox"
    +
    +[[migrations]]
    +tag = "v1"
    +new_sqlite_classes = ["ShellSandbox"]
    "#);
}

/// koze does not replace what the user wrote, but says what is left to do.
#[test]
fn a_custom_main_and_build_command_are_kept() {
    let project = package();
    plain(&project, SHELL, "ShellSandbox");
    project.write(
        "wrangler.jsonc",
        "{ \"name\": \"app\", \"main\": \"src/index.js\", \"build\": { \"command\": \"make a; make b\" } }\n",
    );
    let run = init(&project);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let config = project.read("wrangler.jsonc");
    assert!(
        config.starts_with(
            "{ \"name\": \"app\", \"main\": \"src/index.js\", \"build\": { \"command\": \"make a; make b\" }"
        ),
        "{config}"
    );
    assert_snapshot!(run.stderr, @r#"
    warning[K049]: `main` is `src/index.js`, which does not export the sandbox classes
     --> wrangler.jsonc:1:26
      |
    1 | { "name": "app", "main": "src/index.js", "build": { "command": "make a; make b" } }
      |                          ^^^^^^^^^^^^^^
      |
      = help: set `main` to `src/generated/worker.mjs`, or add `export * from` that file to yours

    1 warning
    "#);
    assert!(
        run.stdout.contains("next: start `build.command` in wrangler.jsonc with `koze build --check`"),
        "{}",
        run.stdout
    );
}

#[test]
fn an_existing_sandbox_is_enough() {
    let project = library();
    plain(&project, "src/python.sandbox.rs", "PythonSandbox");
    assert_eq!(init(&project).code, 0);
    assert!(!project.path(SHELL).exists());
}

#[test]
fn a_range_of_the_sdk_is_left_to_npm() {
    let project = library();
    project.write("package.json", "{ \"dependencies\": { \"@cloudflare/sandbox\": \"^0.12.0\" } }\n");
    let stderr = refused(&project);
    assert!(stderr.contains("error[K030]") && stderr.contains("npm install --save-exact"), "{}", stderr);
}

#[test]
fn a_package_without_a_library() {
    let project = library();
    fs_err::remove_file(project.path("src/lib.rs")).expect("it was there");
    project.write("src/main.rs", "fn main() {}\n");
    assert_snapshot!(refused(&project), @"
    error[K069]: `src/lib.rs` does not exist: a Rust Worker is a library
     |
     = help: create `src/lib.rs`, then run `koze init` again; `koze new` creates a complete Worker as an example

    1 error; nothing was written
    ");
}

#[test]
fn a_library_that_is_not_rust() {
    let project = library();
    project.write("src/lib.rs", "pub fn f( {\n");
    assert_snapshot!(refused(&project), @"
    error[K001]: cannot parse this file as Rust: cannot parse string into token stream
     --> src/lib.rs:1:11
      |
    1 | pub fn f( {
      |           ^
      |
      = help: correct the syntax, then run `koze build` again

    1 error; nothing was written
    ");
}

#[test]
fn a_dry_run_writes_nothing() {
    let project = library();
    let before = project.snapshot();
    let run = project.koze(&["init", "--dry-run", "--runtime-path", &runtime()]);
    assert_eq!((run.code, project.diff(&before).as_str()), (0, ""), "{}", run.stderr);
    assert!(run.stdout.contains("+mod generated;"), "{}", run.stdout);
}

#[test]
fn a_package_with_crlf_line_endings() {
    let project = library();
    for file in ["Cargo.toml", "src/lib.rs"] {
        project.write(file, project.read(file).replace('\n', "\r\n"));
    }
    assert_eq!(init(&project).code, 0);
    for file in ["Cargo.toml", "src/lib.rs"] {
        let text = project.read(file);
        assert_eq!(text.matches('\n').count(), text.matches("\r\n").count(), "{file}: {text:?}");
    }
}

/// Without Node's modules, the Worker does not start. Every level with its own flags needs them.
#[test]
fn node_compatibility_is_enabled() {
    let project = library();
    project.write(
        "wrangler.jsonc",
        r#"{
  "name": "app",
  "compatibility_date": "2026-04-21",
  "compatibility_flags": ["global_navigator"],
  "env": {
    "a": { "compatibility_flags": [] },
    "b": { "compatibility_flags": ["nodejs_compat"] },
    "c": {}
  }
}
"#,
    );
    assert_eq!(init(&project).code, 0);
    let config = project.read("wrangler.jsonc");
    assert!(config.contains(r#""compatibility_flags": ["global_navigator", "nodejs_compat"],"#), "{config}");
    assert_eq!(config.matches("nodejs_compat").count(), 3, "{config}");
}

/// A new sandbox would orphan its storage.
#[test]
fn a_class_of_earlier_versions_must_be_migrated_first() {
    let project = library();
    project.write(
        "wrangler.jsonc",
        r#"{ "name": "app", "containers": [{ "class_name": "Sandbox", "image": "docker.io/cloudflare/sandbox:0.8.11" }] }"#,
    );
    assert_snapshot!(refused(&project), @"
    error[K070]: `wrangler.jsonc` has a container of the class `Sandbox`, which earlier versions used
     |
     = help: run `koze migrate` first, which turns it into a sandbox and keeps its storage; then run `koze init` again

    1 error; nothing was written
    ");
}

/// Its class has storage, and the build says what to do.
#[test]
fn a_deleted_sandbox_is_not_recreated() {
    let project = library();
    assert_eq!(init(&project).code, 0);
    fs_err::remove_file(project.path(SHELL)).expect("it was there");
    let stderr = refused(&project);
    assert!(stderr.starts_with("error[K043]"), "{}", stderr);
}

#[test]
fn invalid_values_do_not_panic() {
    for config in [
        r#"{ "name": "app", "build": null }"#,
        r#"{ "name": "app", "build": "make", "compatibility_flags": null }"#,
    ] {
        let project = library();
        project.write("wrangler.json", config);
        let run = init(&project);
        assert_eq!(run.code, 0, "{config}: {}", run.stderr);
    }
    for package in ["[]", r#"{ "dependencies": [] }"#, r#"{ "dependencies": null }"#] {
        let project = library();
        project.write("package.json", package);
        let run = init(&project);
        assert_eq!(run.code, 1, "{package}: {}", run.stdout);
        assert!(run.stderr.contains("is not an object"), "{package}: {}", run.stderr);
    }
}

#[test]
fn a_library_with_another_crate_type() {
    let project = library();
    project.write("Cargo.toml", project.read("Cargo.toml") + "\n[lib]\ncrate_type = [\"rlib\"]\n");
    let run = init(&project);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stdout.contains("next: add `cdylib` to `crate-type` in Cargo.toml"), "{}", run.stdout);
    assert_eq!(project.read("Cargo.toml").matches("crate").count(), 1);
}
