//! `koze add`.

use insta::assert_snapshot;

use crate::common::{SHELL, built, existing_config, package, plain, refused_with, users_diff};

#[test]
fn the_first_sandbox() {
    let project = package();
    let before = project.snapshot();
    let run = project.koze(&["add", "shell"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    assert_snapshot!(run.stdout, @"
    1 sandbox in wrangler.jsonc, SDK 0.12.10 from package.json
      src/server/shell.sandbox.rs  ShellSandbox  SHELL_SANDBOX  docker.io/cloudflare/sandbox:0.12.10
    created src/server/shell.sandbox.rs
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
    ");
    let diff = users_diff(&before, &project.snapshot());
    assert_snapshot!(diff.split("--- /dev/null\n+++ b/wrangler.jsonc").next().unwrap_or_default(), @r#"
    --- /dev/null
    +++ b/src/server/shell.sandbox.rs
    @@ -0,0 +1,4 @@
    +use koze::prelude::*;
    +
    +#[sandbox(name = "app-shell")]
    +pub struct ShellSandbox;
    "#);
    assert!(built(&project).stdout.contains("nothing to do"));
}

#[test]
fn a_second_sandbox_is_placed_next_to_the_first() {
    let project = package();
    plain(&project, "src/agents/shell.sandbox.rs", "ShellSandbox");
    built(&project);
    let run = project.koze(&["add", "code-interpreter", "--variant", "python"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    assert_snapshot!(project.read("src/agents/code-interpreter.sandbox.rs"), @r#"
    use koze::prelude::*;

    #[sandbox(variant = "python", name = "app-code-interpreter")]
    pub struct CodeInterpreterSandbox;
    "#);
    assert!(built(&project).stdout.contains("nothing to do"));
}

/// The backend is that of the other sandboxes, if all have the same.
#[test]
fn the_backend_follows_the_other_sandboxes() {
    let project = package();
    let run = project.koze(&["add", "shell", "--backend", "native"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    let docker = "next: install Docker, with which wrangler builds the images\n";
    assert!(run.stdout.ends_with(docker), "{}", run.stdout);
    assert_snapshot!(project.read(SHELL), @r#"
    use koze::prelude::*;

    #[sandbox(name = "app-shell", backend = "native")]
    pub struct ShellSandbox;
    "#);
    assert!(project.read("src/server/shell.Dockerfile").contains("\nFROM node:24-trixie-slim\n"));

    project.write("src/server/python.Dockerfile", "FROM python:3.12-slim\n");
    let run = project.koze(&["add", "python"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    assert!(!run.stdout.contains(docker), "{}", run.stdout);
    assert!(project.read("src/server/python.sandbox.rs").contains("backend = \"native\""));
    assert_eq!(project.read("src/server/python.Dockerfile"), "FROM python:3.12-slim\n", "it was there");

    assert_eq!(project.koze(&["add", "bash", "--backend", "sdk"]).code, 0);
    assert_eq!(project.koze(&["add", "zsh"]).code, 0);
    for name in ["bash", "zsh"] {
        let text = project.read(format!("src/server/{name}.sandbox.rs"));
        assert!(text.contains(&format!("#[sandbox(name = \"app-{name}\")]\n")), "{text}");
    }
    assert!(built(&project).stdout.contains("nothing to do"));
}

#[test]
fn a_variant_needs_the_sdk() {
    let project = package();
    assert_snapshot!(refused_with(&project, &["add", "python", "--backend", "native", "--variant", "python"]), @"
    error[K099]: `--variant python` names an image of the SDK, and `python` would have the backend `native`
     |
     = help: leave out `--variant`, and change `src/server/python.Dockerfile`, which koze writes then; or add `--backend sdk`, with the package `@cloudflare/sandbox` in `package.json`

    1 error; nothing was written
    ");
    assert_eq!(project.koze(&["add", "shell", "--backend", "native"]).code, 0);
    let stderr = refused_with(&project, &["add", "python", "--variant", "python"]);
    assert!(stderr.starts_with("error[K099]"), "{stderr}");
    let run = project.koze(&["add", "python", "--variant", "python", "--backend", "sdk"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
}

#[test]
fn in_a_given_directory() {
    let project = package();
    let run = project.koze(&["add", "shell.sandbox.rs", "--dir", "./src/a/../b"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(project.path("src/b/shell.sandbox.rs").exists());
}

#[test]
fn a_dry_run_writes_nothing() {
    let project = package();
    let before = project.snapshot();
    let run = project.koze(&["add", "shell", "--dry-run"]);
    assert_eq!((run.code, project.diff(&before).as_str()), (0, ""), "{}", run.stderr);
    assert!(run.stdout.contains("would create src/server/shell.sandbox.rs"), "{}", run.stdout);
    assert!(run.stdout.contains("+pub struct ShellSandbox;"), "{}", run.stdout);
}

#[test]
fn an_existing_file_is_an_error() {
    let project = package();
    project.koze(&["add", "shell"]);
    assert_snapshot!(refused_with(&project, &["add", "shell"]), @"
    error[K064]: `src/server/shell.sandbox.rs` already exists
     |
     = help: choose another name for the sandbox, or edit that file

    1 error; nothing was written
    ");
}

/// Errors of the build are shown in the new file, although it was never written.
#[test]
fn a_sandbox_with_the_same_name_elsewhere_is_an_error() {
    let project = package();
    plain(&project, SHELL, "ShellSandbox");
    built(&project);
    assert_snapshot!(refused_with(&project, &["add", "shell", "--dir", "src/other"]), @"
    error[K025]: two sandboxes have the binding `SHELL_SANDBOX`
     --> src/server/shell.sandbox.rs:4:12
      |
    4 | pub struct ShellSandbox;
      |            ^^^^^^^^^^^^
      |
     ::: src/other/shell.sandbox.rs:4:12
      |
    4 | pub struct ShellSandbox;
      |            ------------ first here
      |
      = help: it follows from both file names: rename one of the files

    error[K025]: two sandboxes have the class `ShellSandbox`
     --> src/server/shell.sandbox.rs:4:12
      |
    4 | pub struct ShellSandbox;
      |            ^^^^^^^^^^^^
      |
     ::: src/other/shell.sandbox.rs:4:12
      |
    4 | pub struct ShellSandbox;
      |            ------------ first here
      |
      = help: a Durable Object class must be unique in a Worker: rename one of the structs

    2 errors; nothing was written
    ");
}

#[test]
fn an_unknown_variant_is_an_error() {
    assert_snapshot!(refused_with(&package(), &["add", "shell", "--variant", "pe\"rl"]), @r#"
    error[K013]: `pe"rl` is not a valid `variant`
     --> src/server/shell.sandbox.rs:3:21
      |
    3 | #[sandbox(variant = "pe\"rl", name = "app-shell")]
      |                     ^^^^^^^^
      |
      = help: `variant` takes one of `python`, `opencode` and `musl`

    1 error; nothing was written
    "#);
}

#[test]
fn invalid_names_and_directories_are_rejected() {
    let project = package();
    assert_snapshot!(refused_with(&project, &["add", "My Tool"]), @"
    error[K067]: `My Tool` is not a valid sandbox name
     |
     = help: a sandbox has the name of its file without `.sandbox.rs`, which must match `[a-z][a-z0-9]*([-_][a-z0-9]+)*` and be a valid module name, such as `my-tool`; `koze rename` also takes the name of a struct, in upper camel case

    1 error; nothing was written
    ");
    assert_snapshot!(refused_with(&project, &["add", "shell", "--dir", "../other/src"]), @"
    error[K066]: koze does not search `../other/src` for sandboxes
     |
     = help: choose a directory of the package below `src`, such as `src/server`, that is neither hidden nor `src/generated`

    1 error; nothing was written
    ");
    for (name, dir) in
        [("a/b", "src"), ("..", "src"), ("shell", "src/generated"), ("shell", "src/.x"), ("shell", "/tmp")]
    {
        refused_with(&project, &["add", name, "--dir", dir]);
    }
}

/// A build would not look there, because the files do not belong to the package.
#[test]
fn a_directory_that_leads_out_of_the_package_is_rejected() {
    let project = package();
    let outside = koze_tests::Project::new();
    fs_err::os::unix::fs::symlink(outside.path(""), project.path("src/server")).expect("a link");
    assert!(refused_with(&project, &["add", "shell"]).contains("error[K066]"));
    assert!(outside.snapshot().is_empty());
}

/// Concurrent commands wait for each other, and no sandbox is lost.
#[test]
fn concurrent_commands_add_all_sandboxes() {
    let project = package();
    let names = ["ada", "bob", "cyd", "dan", "eve", "fay"];
    std::thread::scope(|scope| {
        for name in names {
            scope.spawn(|| assert_eq!(project.koze(&["add", name]).code, 0));
        }
    });
    let config = project.read("wrangler.jsonc");
    assert_eq!(config.matches("_SANDBOX\"").count(), names.len(), "{config}");
    assert!(built(&project).stdout.contains("nothing to do"));
}

/// A renamed sandbox keeps its container, and the container keeps its name.
#[test]
fn the_name_of_a_renamed_sandbox_can_be_reused() {
    let project = package();
    existing_config(&project);
    assert_eq!(project.koze(&["add", "shell"]).code, 0);
    assert_eq!(project.koze(&["rename", "shell", "bash"]).code, 0);
    let run = project.koze(&["add", "shell"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    assert!(project.read(SHELL).contains("#[sandbox(name = \"app-shell-2\")]"));
}

/// Application names are unique in an account, so they start with the Worker's name.
#[test]
fn two_workers_in_one_account_get_distinct_applications() {
    let containers = |name: &str| {
        let project = package();
        project.write("wrangler.toml", format!("name = \"{name}\"\nmain = \"src/generated/worker.mjs\"\ncompatibility_date = \"2026-04-21\"\n\n[env.staging]\n"));
        assert_eq!(project.koze(&["add", "my_tool"]).code, 0);
        assert!(built(&project).stdout.contains("nothing to do"));
        let config = project.read("wrangler.toml");
        let names = config.lines().filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
        names.filter(|name| name.contains("tool")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(containers("one"), ["one-my-tool", "one-my-tool-staging"]);
    assert_eq!(containers("Two_B"), ["two-b-my-tool", "two-b-my-tool-staging"]);
    let long = containers(&"w".repeat(63));
    assert!(long[0].ends_with("w-my-tool") && long[1].len() == 63, "{long:?}");
}

/// An existing container keeps its name.
#[test]
fn an_existing_container_keeps_its_name() {
    let project = package();
    let entry = "{ \"name\": \"mine\", \"class_name\": \"ShellSandbox\" }";
    let other = "{ \"name\": \"app-python\", \"class_name\": \"Other\", \"image\": \"x:1\" }";
    let config = format!(
        "{{ \"name\": \"app\", \"main\": \"src/generated/worker.mjs\", \"compatibility_date\": \"2026-04-21\", \"containers\": [{entry}, {other}] }}\n"
    );
    project.write("wrangler.jsonc", config);
    let run = project.koze(&["add", "shell"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    assert!(project.read(SHELL).contains("#[sandbox]\n"), "{}", project.read(SHELL));
    assert!(project.read("wrangler.jsonc").contains("\"name\": \"mine\""));
    // Names of other containers are not reused either.
    assert_eq!(project.koze(&["add", "python"]).code, 0);
    assert!(project.read("src/server/python.sandbox.rs").contains("name = \"app-python-2\""));
}
