//! The backend `managed`: its keys, its entries, and the move to it.

use insta::assert_snapshot;
use koze_tests::Project;

use crate::common::{built, package, refused, refused_with, sandbox, shell, users_diff};

const MANAGED: &str =
    "#[sandbox(backend = \"managed\", image = \"debian:12-slim\")]\npub struct ShellSandbox;";

/// Returns the errors of a build of a sandbox with these keys, without their places.
fn errors(keys: &str) -> Vec<String> {
    let project = shell(&format!("#[sandbox({keys})]\npub struct ShellSandbox;"));
    let output = refused(&project);
    let lines = output.lines();
    lines.filter(|line| line.starts_with("error[") || line.contains("= help:")).map(str::to_owned).collect()
}

/// The combinations that koze refuses.
#[test]
fn refused_combinations() {
    let base = "backend = \"managed\", image = \"debian:12-slim\"";
    let table: Vec<String> = [
        // `wrangler_says` in the worker tests has what wrangler says to these keys.
        "constraints(regions = [\"WEUR\"])",
        "rollout_step_percentage = 25",
        "rollout_active_grace_period = 60",
        // The platform rejects these sizes when a container starts.
        "instance_type = \"basic\"",
        "sizes = [\"lite\", \"basic\"]",
        "instance(vcpu = 1, memory_mib = 4096)",
        "instance(vcpu = 0.5, memory_mib = 4096, disk_mb = 4000)",
        "instance(vcpu = 2, memory_mib = 4096, disk_mb = 4000)",
        "instance(vcpu = 4, memory_mib = 16384, disk_mb = 4000)",
        "instance(vcpu = 1, memory_mib = 3072, disk_mb = 1000)",
        "images(a = \"debian:12-slim\")",
        "variant = \"python\"",
    ]
    .into_iter()
    .map(|keys| errors(&format!("{base}, {keys}")).join("\n"))
    .collect();
    assert_snapshot!(table.join("\n"), @r#"
    error[K073]: `constraints` is not available with the backend `managed`
      = help: Cloudflare chooses where Durable Object-managed Containers run: remove `constraints`, or write `backend = "native"`
    error[K073]: `rollout_step_percentage` is not available with the backend `managed`
      = help: no rollout replaces the containers of a Durable Object, which start with the new image when they start next: remove `rollout_step_percentage`
    error[K073]: `rollout_active_grace_period` is not available with the backend `managed`
      = help: no rollout replaces the containers of a Durable Object, which start with the new image when they start next: remove `rollout_active_grace_period`
    error[K013]: `basic` is not a valid `instance_type`
      = help: `instance_type` takes another size: Durable Object-managed Containers do not have `basic`; write `lite`, or `instance(vcpu = 1, memory_mib = 3072, disk_mb = 4000)`
    error[K013]: `basic` is not a valid `sizes`
      = help: `sizes` takes another size: Durable Object-managed Containers do not have `basic`; write `lite`, or `instance(vcpu = 1, memory_mib = 3072, disk_mb = 4000)`
    error[K013]: `vcpu and memory_mib` is not a valid `instance`
      = help: `instance` takes all of `vcpu`, `memory_mib` and `disk_mb`
    error[K013]: `vcpu = 0.5` is not a valid `instance`
      = help: `instance` takes 1 to 4 processors
    error[K013]: `memory_mib = 4096` is not a valid `instance`
      = help: `instance` takes at least 3072 MiB for each processor, and at most 12288 MiB: 6144 or more for 2
    error[K013]: `memory_mib = 16384` is not a valid `instance`
      = help: `instance` takes at least 3072 MiB for each processor, and at most 12288 MiB: 12288 or more for 4
    error[K013]: `disk_mb = 1000` is not a valid `instance`
      = help: `instance` takes 2000 to 20000 MB
    error[K014]: `images` and `image` exclude each other
      = help: `images` names several images, `image` is the only one: keep only one of them
    error[K014]: `variant` and `image` exclude each other
      = help: `variant` selects a variant of the default image: keep only one of them
    error[K073]: `variant` is not available with the backend `managed`
      = help: variants are images of the SDK: set an image, such as `image = "python:3.12-slim"`, or add a Dockerfile next to the source file
    "#);
    let others: Vec<String> = [
        "keep_files = true",
        "backend = \"native\", image = \"cloudflare/debian-trixie\"",
        "backend = \"native\", images(a = \"debian:12-slim\")",
        "backend = \"managed\"",
        "backend = \"managed\", images(a_b = \"debian:12-slim\", B = \"debian:12-slim\")",
        "backend = \"managed\", images()",
    ]
    .into_iter()
    .map(|keys| errors(keys).join("\n"))
    .collect();
    assert_snapshot!(others.join("\n"), @r#"
    error[K073]: `keep_files` is not available with the backend `sdk`
      = help: only Durable Object-managed Containers have `keep_files`: remove it, or write `backend = "managed"`
    error[K073]: `image = "cloudflare/debian-trixie"` is not available with the backend `native`
      = help: only Durable Object-managed Containers start this image: write `backend = "managed"`, or choose another image
    error[K073]: `images` is not available with the backend `native`
      = help: only Durable Object-managed Containers have `images`: remove it, or write `backend = "managed"`
    error[K074]: `ShellSandbox` has no image: with `backend = "managed"` there is no default image
      = help: set `image` to any Linux image, such as `image = "debian:12-slim"` or `image = "python:3.12-slim"`, or add `shell.Dockerfile` next to the source file; or set `image = "cloudflare/debian-trixie"`, which needs no build
    error[K013]: `B` is not a valid `images`
      = help: `images` takes words of lowercase letters and digits, the first with a leading letter, with `_` between them, 63 characters at most
    error[K012]: `images` takes names with an image each
      = help: write a literal, because `koze build` reads the source without running it: `images(python = "python:3.12-slim", node = "./node.Dockerfile")`
    "#);
}

/// Without the registry, nothing would limit the instances.
#[test]
fn a_limit_that_nothing_enforces() {
    let project = shell(
        "#[sandbox(backend = \"managed\", image = \"debian:12-slim\", max_instances = 3)]\npub struct ShellSandbox;",
    );
    assert_snapshot!(refused(&project), @r#"
    error[K104]: nothing limits the instances of `ShellSandbox`
     --> src/server/shell.sandbox.rs:3:74
      |
    3 | #[sandbox(backend = "managed", image = "debian:12-slim", max_instances = 3)]
      |                                                                          ^
      |
      = help: Durable Object-managed Containers have no `max_instances`: koze limits the sandboxes of each session in its registry; add the line `registry = true` under `[package.metadata.koze]` in `Cargo.toml`, or remove `max_instances`

    1 error; nothing was written
    "#);
    let manifest = project.read("Cargo.toml");
    project.write("Cargo.toml", format!("{manifest}\n[package.metadata.koze]\nregistry = true\n"));
    built(&project);
    assert!(
        project.read("src/generated/tools.rs").contains("max_instances: ::core::option::Option::Some(3)")
    );
}

/// A configuration with an entry of the class, which the user wrote.
fn with_entry(entry: &str) -> Project {
    let project = shell(MANAGED);
    project.write(
        "wrangler.jsonc",
        format!(
            "{{\n  \"name\": \"app\",\n  \"main\": \"src/generated/worker.mjs\",\n  \"containers\": [\n    {entry}\n  ]\n}}\n"
        ),
    );
    project
}

#[test]
fn keys_that_the_policy_does_not_have() {
    let project = with_entry(
        "{ \"class_name\": \"ShellSandbox\", \"scheduling_policy\": \"durable_object\", \"max_instances\": 10, \"wrangler_ssh\": {} }",
    );
    assert_snapshot!(refused(&project), @r#"
    error[K100]: containers of `ShellSandbox` are started by its Durable Object, and wrangler does not accept `max_instances` for them
     --> wrangler.jsonc:5:93
      |
    5 | ...policy": "durable_object", "max_instances": 10, "wrangler_ssh": {} }
      |                                                ^^
      |
     ::: src/server/shell.sandbox.rs:4:12
      |
    4 | pub struct ShellSandbox;
      |            ------------ the sandbox
      |
      = help: remove `max_instances`: only the limits of the account apply; in the attribute, it limits the sandboxes of each session

    error[K100]: containers of `ShellSandbox` are started by its Durable Object, and wrangler does not accept `wrangler_ssh` for them
     --> wrangler.jsonc:5:113
      |
    5 | ...ject", "max_instances": 10, "wrangler_ssh": {} }
      |                                                ^^
      |
     ::: src/server/shell.sandbox.rs:4:12
      |
    4 | pub struct ShellSandbox;
      |            ------------ the sandbox
      |
      = help: write `ssh` instead

    2 errors; nothing was written
    "#);
}

#[test]
fn an_application_with_the_default_policy() {
    let project = with_entry("{ \"class_name\": \"ShellSandbox\", \"image\": \"./Dockerfile\" }");
    assert_snapshot!(refused(&project), @r#"
    error[K101]: `ShellSandbox` has the backend `managed`, but its container does not have the `scheduling_policy` "durable_object"
     --> wrangler.jsonc:5:5
      |
    5 |     { "class_name": "ShellSandbox", "image": "./Dockerfile" }
      |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      |
     ::: src/server/shell.sandbox.rs:4:12
      |
    4 | pub struct ShellSandbox;
      |            ------------ the sandbox
      |
      = help: if the application was never deployed, remove the entry, and koze writes another one; otherwise write the backend that it has, `sdk` or `native`, run `koze build`, then `koze migrate --backend managed shell`

    1 error; nothing was written
    "#);
}

#[test]
fn a_hand_written_entry_is_adopted() {
    let project = with_entry(
        "{ \"class_name\": \"ShellSandbox\", \"scheduling_policy\": \"durable_object\", \"authorized_keys\": [] } // ours",
    );
    built(&project);
    let config = project.read("wrangler.jsonc");
    assert!(config.contains("\"authorized_keys\": []") && config.contains("// ours"), "{config}");
    assert!(config.contains("native/shell.Dockerfile"), "{config}");
}

/// A sandbox with keys that the policy does not have, in two environments.
fn native() -> Project {
    let project = package();
    project.write(
        "wrangler.jsonc",
        "{\n  \"name\": \"app\",\n  \"main\": \"src/generated/worker.mjs\",\n  // ours\n  \"env\": { \"staging\": {} }\n}\n",
    );
    sandbox(
        &project,
        "src/server/shell.sandbox.rs",
        "#[sandbox(backend = \"native\", image = \"debian:12-slim\", instance_type = \"basic\", constraints(regions = [\"WEUR\"]))]\npub struct ShellSandbox;",
    );
    built(&project);
    project
}

#[test]
fn a_sandbox_moves_in_place() {
    let project = native();
    let before = project.snapshot();
    let looked = project.koze(&["migrate", "--backend", "managed", "--dry-run"]);
    assert_eq!((looked.code, looked.stderr.as_str()), (0, ""), "{}", looked.stdout);
    assert_eq!(project.snapshot(), before, "a dry run writes nothing");
    let run = project.koze(&["migrate", "--backend", "managed", "shell"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    assert_snapshot!(run.stdout, @"
    1 sandbox in wrangler.jsonc
      src/server/shell.sandbox.rs  ShellSandbox  SHELL_SANDBOX  debian:12-slim, with koze's guest
    updated src/server/shell.sandbox.rs
    updated wrangler.jsonc
    updated src/generated/tools.rs
    updated src/generated/worker.mjs
    updated src/generated/worker.d.mts
    created src/generated/koze/managed.mjs
    created src/generated/koze/managed.d.mts
    created src/generated/koze/copy.mjs
    updated src/generated/native/shell.Dockerfile
    updated koze.lock
    next: commit these files, including `koze.lock`
    `ShellSandbox` now has the backend `managed`: its image is debian:12-slim, with koze's guest added; `constraints` and `instance_type` changed: Durable Object-managed Containers do not have what was there
    the next deployment replaces the running containers, and files in them are lost; classes, bindings and storage do not change
    the applications have new names, because the policy of an application cannot change; once deployed, the move cannot be undone, not even by `wrangler rollback`
    note: Durable Object-managed Containers are a public beta of Cloudflare since 2026-09-30: they may change, and a class cannot go back to another backend
    next: rehearse the deployment with a Worker for staging: Cloudflare's pages contradict each other on whether a class can keep its storage in such a move
    next: after the deployment, delete `shell-sandbox` and `shell-sandbox-staging`, which run and are billed until then: `npx wrangler containers list` shows the IDs for `npx wrangler containers delete ID`
    next: install Docker, with which wrangler builds the images
    ");
    assert_snapshot!(users_diff(&before, &project.snapshot()), @r#"
    --- a/src/server/shell.sandbox.rs
    +++ b/src/server/shell.sandbox.rs
    @@ -1,4 +1,4 @@
     use koze::prelude::*;
     
    -#[sandbox(backend = "native", image = "debian:12-slim", instance_type = "basic", constraints(regions = ["WEUR"]))]
    +#[sandbox(backend = "managed", image = "debian:12-slim", instance(vcpu = 1, memory_mib = 3072, disk_mb = 4000))]
     pub struct ShellSandbox;
    --- a/wrangler.jsonc
    +++ b/wrangler.jsonc
    @@ -5,12 +5,13 @@
       "env": { "staging": {
         "containers": [
           {
    -        "name": "shell-sandbox-staging",
    +        "name": "shell-sandbox-managed-staging",
             "class_name": "ShellSandbox",
    -        "image": "./src/generated/native/shell.Dockerfile",
    -        "instance_type": "basic",
    -        "constraints": {
    -          "regions": ["WEUR"]
    +        "scheduling_policy": "durable_object",
    +        "images": {
    +          "shell": {
    +            "dockerfile": "./src/generated/native/shell.Dockerfile"
    +          }
             }
           }
         ],
    @@ -25,12 +26,13 @@
       } },
       "containers": [
         {
    -      "name": "shell-sandbox",
    +      "name": "shell-sandbox-managed",
           "class_name": "ShellSandbox",
    -      "image": "./src/generated/native/shell.Dockerfile",
    -      "instance_type": "basic",
    -      "constraints": {
    -        "regions": ["WEUR"]
    +      "scheduling_policy": "durable_object",
    +      "images": {
    +        "shell": {
    +          "dockerfile": "./src/generated/native/shell.Dockerfile"
    +        }
           }
         }
       ],
    "#);
    // The migrations and the binding are what they were: the class keeps its storage.
    built(&project);
    let lock = project.read("koze.lock");
    assert!(
        lock.contains("former_containers = [\n    \"shell-sandbox\",\n    \"shell-sandbox-staging\",\n]"),
        "{lock}"
    );
    let again = refused_with(&project, &["migrate", "--backend", "managed"]);
    assert!(again.starts_with("error[K079]"), "{again}");
    assert_snapshot!(refused_with(&project, &["migrate", "--backend", "native", "shell"]), @"
    error[K102]: `ShellSandbox` cannot move from the backend `managed` to `native`
     |
     = help: Cloudflare does not change the policy of the application that has the class's storage: create another sandbox with `koze add NAME --backend native`, and copy what you need

    1 error; nothing was written
    ");
}

#[test]
fn an_edited_attribute_is_refused_until_it_moves() {
    let project = native();
    sandbox(&project, "src/server/shell.sandbox.rs", MANAGED);
    let refused = refused(&project);
    assert!(refused.starts_with("error[K075]"), "{refused}");
    let run = project.koze(&["migrate", "--backend", "managed"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
}

#[test]
fn new_projects_and_sandboxes() {
    let place = Project::new();
    let run = place.koze(&["new", "app", "--backend", "managed"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    assert_snapshot!(run.stdout, @r#"
    created the package `app` in app
    1 sandbox in wrangler.jsonc
      src/server/shell.sandbox.rs  ShellSandbox  SHELL_SANDBOX  cloudflare/debian-trixie, with koze's guest
    try:  cd app && koze call shell '{"command": "uname -a"}'
    next: cd app && npm install && npm run check (its README.md says what these need)
    note: Durable Object-managed Containers are a public beta of Cloudflare since 2026-09-30: they may change, and a class cannot go back to another backend
    note: `cloudflare/debian-trixie` has Node, and lacks Python, Git and curl: set `image` to a Dockerfile for other programs
    "#);
}

/// A sandbox whose Dockerfile is next to it, and a configuration with its entries.
fn beside(config: &str, text: &str) -> Project {
    let project = package();
    project.write(config, text);
    project.write("src/server/python.Dockerfile", "FROM python:3.12-slim\n");
    sandbox(
        &project,
        "src/server/python.sandbox.rs",
        "#[sandbox(\n    backend = \"native\", // ours\n    max_instances = 3,\n    env_vars(A = \"1\"),\n    default\n)]\npub struct PythonSandbox;",
    );
    built(&project);
    project
}

/// The configuration in JSONC.
const JSONC: &str = "{\n  \"name\": \"app\",\n  \"main\": \"src/generated/worker.mjs\"\n  // ours\n}\n";

#[test]
#[expect(clippy::too_many_lines, reason = "most of them are the text that koze prints")]
fn a_sandbox_moves_side_by_side() {
    let project = beside("wrangler.jsonc", JSONC);
    let before = project.snapshot();
    let command = ["migrate", "--backend", "managed", "--side-by-side"];
    let looked = project.koze(&[&command[..], &["--dry-run"]].concat());
    assert_eq!((looked.code, looked.stderr.as_str()), (0, ""), "{}", looked.stdout);
    for shown in [
        "+    copy_from = \"python\"",
        "+    copyFrom: \"PYTHON_SANDBOX\"",
        "+      \"class_name\": \"PythonManagedSandbox\"",
    ] {
        assert!(looked.stdout.contains(shown), "{}", looked.stdout);
    }
    assert_eq!(project.snapshot(), before, "a dry run writes nothing");
    let run = project.koze(&[&command[..], &["python"]].concat());
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    assert_snapshot!(run.stdout, @"
    2 sandboxes in wrangler.jsonc
      src/server/python-managed.sandbox.rs  PythonManagedSandbox  PYTHON_MANAGED_SANDBOX  ./src/server/python.Dockerfile, with koze's guest
      src/server/python.sandbox.rs          PythonSandbox         PYTHON_SANDBOX          ./src/server/python.Dockerfile, with koze's guest
    created src/server/python-managed.sandbox.rs
    updated wrangler.jsonc
    updated src/generated/mod.rs
    updated src/generated/env.rs
    updated src/generated/tools.rs
    updated src/generated/tools.json
    updated src/generated/worker.mjs
    updated src/generated/worker.d.mts
    created src/generated/koze/managed.mjs
    created src/generated/koze/managed.d.mts
    created src/generated/koze/copy.mjs
    created src/generated/native/python-managed.Dockerfile
    updated koze.lock
    next: commit these files, including `koze.lock`
    `PythonManagedSandbox` has the backend `managed`: its image is ./src/server/python.Dockerfile, with koze's guest added; `max_instances` is left out, because it needs the registry
    when an object of `PythonManagedSandbox` is opened for the first time, it copies the files of the object of `PythonSandbox` with the same name, if that one is awake; `python` stays as it is
    note: Durable Object-managed Containers are a public beta of Cloudflare since 2026-09-30: they may change, and a class cannot go back to another backend
    next: use `env.python_managed_sandbox()` where the Worker uses `env.python_sandbox()`; agents choose `python-managed` as the image of a new sandbox
    next: move `default` from src/server/python.sandbox.rs to src/server/python-managed.sandbox.rs when new sessions should use it
    next: when nothing uses `python` any more, remove `copy_from` from src/server/python-managed.sandbox.rs, delete src/server/python.sandbox.rs, and run `koze remove python --delete-storage`
    next: install Docker, with which wrangler builds the images
    ");
    assert_snapshot!(users_diff(&before, &project.snapshot()), @r#"
    --- /dev/null
    +++ b/src/server/python-managed.sandbox.rs
    @@ -0,0 +1,10 @@
    +use koze::prelude::*;
    +
    +#[sandbox(
    +    backend = "managed",
    +    env_vars(A = "1"),
    +    copy_from = "python",
    +    image = "./python.Dockerfile",
    +    name = "app-python-managed"
    +)]
    +pub struct PythonManagedSandbox;
    --- a/wrangler.jsonc
    +++ b/wrangler.jsonc
    @@ -9,6 +9,17 @@
           "image_build_context": "./src/server",
           "instance_type": "lite",
           "max_instances": 3
    +    },
    +    {
    +      "name": "app-python-managed",
    +      "class_name": "PythonManagedSandbox",
    +      "scheduling_policy": "durable_object",
    +      "images": {
    +        "python-managed": {
    +          "dockerfile": "./src/generated/native/python-managed.Dockerfile",
    +          "build_context": "./src/server"
    +        }
    +      }
         }
       ],
       "durable_objects": {
    @@ -16,6 +27,10 @@
           {
             "name": "PYTHON_SANDBOX",
             "class_name": "PythonSandbox"
    +      },
    +      {
    +        "name": "PYTHON_MANAGED_SANDBOX",
    +        "class_name": "PythonManagedSandbox"
           }
         ]
       },
    @@ -23,6 +38,10 @@
         {
           "tag": "v1",
           "new_sqlite_classes": ["PythonSandbox"]
    +    },
    +    {
    +      "tag": "v2",
    +      "new_sqlite_classes": ["PythonManagedSandbox"]
         }
       ]
       // ours
    "#);
    let worker = project.read("src/generated/worker.mjs");
    assert!(worker.contains("copyFrom: \"PYTHON_SANDBOX\""), "{worker}");
    assert!(project.path("src/generated/koze/copy.mjs").exists());
    built(&project);

    // Repeating the command changes nothing, with the name or without it.
    let again = refused_with(&project, &command);
    assert_snapshot!(again, @"
    error[K122]: cannot migrate side by side: `python-managed` already copies the files of `python`
     |
     = help: there is nothing to migrate: deploy it, and use it instead of the other one

    1 error; nothing was written
    ");
    assert_eq!(refused_with(&project, &[&command[..], &["python"]].concat()), again);
    let other =
        refused_with(&project, &["migrate", "--backend", "managed", "--side-by-side", "python-managed"]);
    assert!(other.starts_with("error[K079]"), "{other}");
    let back = refused_with(&project, &["migrate", "--backend", "native", "python-managed"]);
    assert!(back.starts_with("error[K102]"), "{back}");
    let native = refused_with(&project, &["migrate", "--backend", "native", "--side-by-side", "python"]);
    assert!(native.starts_with("error[K122]"), "{native}");
}

#[test]
fn the_name_of_a_source_follows_a_rename() {
    let project = package();
    sandbox(&project, "src/server/python.sandbox.rs", "#[sandbox]\npub struct PythonSandbox;");
    built(&project);
    let run = project.koze(&["migrate", "--backend", "managed", "--side-by-side"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    let run = project.koze(&["rename", "python", "snake"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    assert!(project.read("src/server/python-managed.sandbox.rs").contains("copy_from = \"snake\""));
    assert!(project.read("src/generated/worker.mjs").contains("copyFrom: \"SNAKE_SANDBOX\""));
}

#[test]
fn the_source_of_a_copy_is_removed_last() {
    let project = beside("wrangler.jsonc", JSONC);
    let run = project.koze(&["migrate", "--backend", "managed", "--side-by-side"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    fs_err::remove_file(project.path("src/server/python.sandbox.rs")).expect("it was there");
    let remove = ["remove", "python", "--delete-storage"];
    assert_snapshot!(refused_with(&project, &remove), @r#"
    error[K120]: `PythonManagedSandbox` copies the files of `python`, and there is no such sandbox
     --> src/server/python-managed.sandbox.rs:6:17
      |
    6 |     copy_from = "python",
      |                 ^^^^^^^^
      |
      = help: write the name of another sandbox's file, without `.sandbox.rs`; before you remove that sandbox, remove the key `copy_from`, after which new objects begin without files

    1 error; nothing was written
    "#);
    let file = "src/server/python-managed.sandbox.rs";
    project.write(file, project.read(file).replace("    copy_from = \"python\",\n", ""));
    let run = project.koze(&remove);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    assert!(!project.read("src/generated/worker.mjs").contains("PythonSandbox "));
}

#[test]
fn sources_of_copies_that_are_refused() {
    let managed = "backend = \"managed\", image = \"debian:12-slim\"";
    let table: Vec<String> = [
        "backend = \"native\", image = \"debian:12-slim\", copy_from = \"python\"".to_owned(),
        format!("{managed}, copy_from = \"Python\""),
        format!("{managed}, copy_from = \"python\""),
        format!("{managed}, copy_from = \"shell\""),
    ]
    .iter()
    .map(|keys| errors(keys).join("\n"))
    .collect();
    assert_snapshot!(table.join("\n"), @r#"
    error[K073]: `copy_from` is not available with the backend `native`
      = help: only Durable Object-managed Containers have `copy_from`: remove it, or write `backend = "managed"`
    error[K013]: `Python` is not a valid `copy_from`
      = help: `copy_from` takes the name of another sandbox's file, without `.sandbox.rs`
    error[K120]: `ShellSandbox` copies the files of `python`, and there is no such sandbox
      = help: write the name of another sandbox's file, without `.sandbox.rs`; before you remove that sandbox, remove the key `copy_from`, after which new objects begin without files
    error[K121]: `ShellSandbox` copies the files of `shell`, which has the backend `managed`, too
      = help: name a sandbox with the backend `sdk` or `native`, or remove the key `copy_from`
    "#);
}

#[test]
fn one_sandbox_moves_side_by_side_at_a_time() {
    let project = beside("wrangler.jsonc", JSONC);
    sandbox(&project, "src/server/shell.sandbox.rs", "#[sandbox]\npub struct ShellSandbox;");
    built(&project);
    assert_snapshot!(refused_with(&project, &["migrate", "--backend", "managed", "--side-by-side"]), @"
    error[K122]: cannot migrate side by side: several sandboxes can move, and one moves at a time
     |
     = help: name one of `python` and `shell`

    1 error; nothing was written
    ");
    // An image of the SDK, and the limit of the registry.
    let manifest = project.read("Cargo.toml");
    project.write("Cargo.toml", format!("{manifest}\n[package.metadata.koze]\nregistry = true\n"));
    for name in ["shell", "python"] {
        let run = project.koze(&["migrate", "--backend", "managed", "--side-by-side", name]);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    }
    let [shell, python] =
        ["shell", "python"].map(|name| project.read(format!("src/server/{name}-managed.sandbox.rs")));
    assert_snapshot!(format!("{shell}{python}"), @r#"
    use koze::prelude::*;

    #[sandbox(
        image = "docker.io/cloudflare/sandbox:0.12.10",
        backend = "managed",
        copy_from = "shell",
        name = "app-shell-managed"
    )]
    pub struct ShellManagedSandbox;
    use koze::prelude::*;

    #[sandbox(
        backend = "managed",
        max_instances = 3,
        env_vars(A = "1"),
        copy_from = "python",
        image = "./python.Dockerfile",
        name = "app-python-managed"
    )]
    pub struct PythonManagedSandbox;
    "#);
}
