//! `koze migrate`: the pattern of earlier versions, one container of the class `Sandbox`.

use insta::assert_snapshot;
use koze_tests::Project;

use crate::common::{built, package, plain, refused_with, users_diff};

const LEGACY: &str = r#"{
  "name": "app",
  "main": "src/generated/worker.mjs",
  "compatibility_date": "2026-04-21",
  "containers": [
    // By hand.
    { "class_name": "Sandbox", "image": "docker.io/cloudflare/sandbox:0.8.11-python", "max_instances": 7, "instance_type": "basic" }
  ],
  "durable_objects": { "bindings": [{ "name": "Sandbox", "class_name": "Sandbox" }] },
  "migrations": [{ "tag": "v1", "new_sqlite_classes": ["Sandbox"] }]
}
"#;

/// Returns a source with its keys in one line, as short attributes have them.
fn in_one_line(source: &str) -> String {
    source.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn legacy(config: &str) -> Project {
    let project = package();
    project.write("wrangler.jsonc", config);
    project.write(
        "src/lib.rs",
        "mod generated;\n\nfn f(env: worker::Env) {\n    env.durable_object(\"Sandbox\");\n    let boxes = Sandboxes;\n}\n",
    );
    project
}

#[test]
fn the_class_becomes_a_sandbox_and_keeps_its_storage() {
    let project = legacy(LEGACY);
    let before = project.snapshot();
    let run = project.koze(&["migrate"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    assert_snapshot!(run.stdout, @r#"
    1 sandbox in wrangler.jsonc, SDK 0.12.10 from package.json
      src/server/shell.sandbox.rs  ShellSandbox  SHELL_SANDBOX  docker.io/cloudflare/sandbox:0.12.10-python
    renamed the class `Sandbox` to `ShellSandbox`: it keeps its storage
    adopted the container at `containers[0]`
    adopted the binding at `durable_objects.bindings[0]`
    created src/server/shell.sandbox.rs
    updated wrangler.jsonc
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
    next: move what your own class `Sandbox` set (`sleepAfter`, `envVars`, hosts) to the attribute
    next: use `env.shell_sandbox().get(key)` where the Worker used the old binding
    next: change these lines, which use `Sandbox`
      src/lib.rs:4: env.durable_object("Sandbox");
    "#);
    assert_snapshot!(users_diff(&before, &project.snapshot()), @r#"
    --- /dev/null
    +++ b/src/server/shell.sandbox.rs
    @@ -0,0 +1,4 @@
    +use koze::prelude::*;
    +
    +#[sandbox(internet = true, variant = "python", instance_type = "basic", max_instances = 7)]
    +pub struct ShellSandbox;
    --- a/wrangler.jsonc
    +++ b/wrangler.jsonc
    @@ -4,8 +4,8 @@
       "compatibility_date": "2026-04-21",
       "containers": [
         // By hand.
    -    { "class_name": "Sandbox", "image": "docker.io/cloudflare/sandbox:0.8.11-python", "max_instances": 7, "instance_type": "basic" }
    +    { "class_name": "ShellSandbox", "image": "docker.io/cloudflare/sandbox:0.12.10-python", "max_instances": 7, "instance_type": "basic", "name": "app-sandbox" }
       ],
    -  "durable_objects": { "bindings": [{ "name": "Sandbox", "class_name": "Sandbox" }] },
    -  "migrations": [{ "tag": "v1", "new_sqlite_classes": ["Sandbox"] }]
    +  "durable_objects": { "bindings": [{ "name": "SHELL_SANDBOX", "class_name": "ShellSandbox" }] },
    +  "migrations": [{ "tag": "v1", "new_sqlite_classes": ["Sandbox"] }, { "tag": "v2", "renamed_classes": [{ "from": "Sandbox", "to": "ShellSandbox" }] }]
     }
    "#);
    assert!(built(&project).stdout.contains("nothing to do"));
    assert_snapshot!(refused_with(&project, &["migrate"]), @"
    error[K068]: `wrangler.jsonc` has no container of the class `Sandbox`
     |
     = help: there is nothing to migrate: `koze build` updates other containers, and `koze add NAME` creates a new sandbox

    1 error; nothing was written
    ");
}

#[test]
fn with_a_name_and_other_sandboxes() {
    let project = legacy(LEGACY);
    plain(&project, "src/agents/python.sandbox.rs", "PythonSandbox");
    let run = project.koze(&["migrate", "bash"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    assert!(project.read("src/agents/bash.sandbox.rs").contains("pub struct BashSandbox;"));
    assert!(project.read("wrangler.jsonc").contains("\"to\": \"BashSandbox\""));
}

/// Settings that differ between environments stay there; common ones move to the attribute.
#[test]
fn in_environments() {
    let project = legacy(&LEGACY.replace(
        "\"migrations\"",
        "\"env\": { \"dev\": {\n    \"containers\": [{ \"class_name\": \"Sandbox\", \"image\": \"docker.io/cloudflare/sandbox:0.8.11-python\", \"max_instances\": 1, \"instance_type\": \"basic\" }],\n    \"durable_objects\": { \"bindings\": [{ \"name\": \"BOX\", \"class_name\": \"Sandbox\" }] }\n  } },\n  \"migrations\"",
    ));
    let run = project.koze(&["migrate"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    let source = project.read("src/server/shell.sandbox.rs");
    assert!(
        source.contains("#[sandbox(internet = true, variant = \"python\", instance_type = \"basic\")]"),
        "{source}"
    );
    let config = project.read("wrangler.jsonc");
    assert!(config.contains("\"max_instances\": 1,") && config.contains("\"max_instances\": 7,"), "{config}");
    assert!(!config.contains("\"class_name\": \"Sandbox\""), "{config}");
    assert!(built(&project).stdout.contains("nothing to do"));
}

#[test]
fn a_custom_image_is_kept() {
    let project =
        legacy(&LEGACY.replace("docker.io/cloudflare/sandbox:0.8.11-python", "registry.example.com/mine:1"));
    let run = project.koze(&["migrate"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    assert!(project.read("wrangler.jsonc").contains("registry.example.com/mine:1"));
}

/// Containers require `SQLite`, and a class keeps the storage type it was created with.
#[test]
fn a_class_created_without_sqlite() {
    let project = legacy(&LEGACY.replace("new_sqlite_classes", "new_classes"));
    assert_snapshot!(refused_with(&project, &["migrate"]), @r#"
    error[K042]: the class `Sandbox` was created without SQLite, which containers need
      --> wrangler.jsonc:10:18
       |
    10 |   "migrations": [{ "tag": "v1", "new_classes": ["Sandbox"] }]
       |                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
       |
       = help: the storage of a class cannot be changed: give the sandbox's struct another name

    1 error; nothing was written
    "#);
}

#[test]
fn with_exports() {
    let exports = LEGACY.replace(
        r#""migrations": [{ "tag": "v1", "new_sqlite_classes": ["Sandbox"] }]"#,
        r#""exports": { "Sandbox": { "type": "durable-object", "storage": "sqlite" } }"#,
    );
    let project = legacy(&exports);
    let run = project.koze(&["migrate"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    let config = project.read("wrangler.jsonc");
    assert!(config.contains("\"state\": \"renamed\""), "{config}");
    assert!(config.contains("\"renamed_to\": \"ShellSandbox\""), "{config}");
}

/// A custom image moves to the attribute, so that environments without a container use it, too.
#[test]
fn a_custom_image_reaches_every_environment() {
    for image in ["./Dockerfile", "Dockerfile"] {
        let entry = format!(
            "\"image\": \"{image}\", \"image_build_context\": \".\", \"image_vars\": {{ \"NODE\": \"22\" }}"
        );
        let project = legacy(
            &LEGACY
                .replace("\"image\": \"docker.io/cloudflare/sandbox:0.8.11-python\"", &entry)
                .replace("\"migrations\"", "\"env\": { \"canary\": { \"vars\": {} } },\n  \"migrations\""),
        );
        project.write("Dockerfile", "FROM docker.io/cloudflare/sandbox:0.12.10\n");
        let run = project.koze(&["migrate"]);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
        let source = in_one_line(&project.read("src/server/shell.sandbox.rs"));
        let keys = "image = \"../../Dockerfile\", image_build_context = \"../..\", image_vars(NODE = \"22\")";
        assert!(source.contains(&format!("internet = true, {keys}, instance_type = \"basic\"")), "{source}");
        let config = project.read("wrangler.jsonc");
        assert!(config.contains(&entry), "{config}");
        assert_eq!(config.matches("Dockerfile\"").count(), 2, "{config}");
        assert_eq!(config.matches("docker.io/").count(), 0, "{config}");
        assert!(built(&project).stdout.contains("nothing to do"));
    }
}

#[test]
fn a_registry_image_and_limits_reach_every_environment() {
    let former = "\"configuration\": { \"image\": \"registry.example.com/mine:1\", \"vcpu\": 1, \"memory_mib\": 4096 }";
    let project = legacy(
        &LEGACY
            .replace("\"image\": \"docker.io/cloudflare/sandbox:0.8.11-python\"", former)
            .replace(", \"instance_type\": \"basic\"", "")
            .replace("\"migrations\"", "\"env\": { \"canary\": {} },\n  \"migrations\""),
    );
    let run = project.koze(&["migrate"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    let source = in_one_line(&project.read("src/server/shell.sandbox.rs"));
    let keys =
        "image = \"registry.example.com/mine:1\", instance(vcpu = 1, memory_mib = 4096), max_instances = 7";
    assert!(source.contains(keys), "{source}");
    let config = project.read("wrangler.jsonc");
    assert!(config.contains(former), "{config}");
    let canary = &config[config.find("canary").expect("it is there")..];
    for part in ["\"image\": \"registry.example.com/mine:1\"", "\"memory_mib\": 4096"] {
        assert!(canary.contains(part), "{part}: {config}");
    }
    assert!(built(&project).stdout.contains("nothing to do"));
}

/// Settings that an attribute cannot express are kept. An environment without a container gets those of the top level.
#[test]
fn an_image_that_an_attribute_cannot_express() {
    let config = LEGACY
        .replace("docker.io/cloudflare/sandbox:0.8.11-python", "registry.example.com/mine:latest")
        .replace("\"migrations\"", "\"env\": { \"canary\": {} },\n  \"migrations\"");
    let project = legacy(&config);
    let run = project.koze(&["migrate"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    assert!(!project.read("src/server/shell.sandbox.rs").contains("image"));
    let config = project.read("wrangler.jsonc");
    assert_eq!(config.matches("registry.example.com/mine:latest").count(), 2, "{config}");
    // Application names are unique in an account, so the new one follows the old one, which contains the Worker's name.
    assert!(config.contains("\"name\": \"app-sandbox-canary\""), "{config}");
    assert!(built(&project).stdout.contains("nothing to do"));
}

/// An application with a name of the user's, and one that wrangler names.
#[test]
fn an_environments_new_application_follows_the_top_levels() {
    for (name, canary) in [(", \"name\": \"mine\"", "mine-canary"), ("", "app-shellsandbox-canary")] {
        let project = package();
        plain(&project, "src/server/shell.sandbox.rs", "ShellSandbox");
        project.write(
            "wrangler.jsonc",
            format!(
                "{{\n  \"name\": \"app\",\n  \"main\": \"src/generated/worker.mjs\",\n  \"compatibility_date\": \"2026-04-21\",\n  \"containers\": [{{ \"class_name\": \"ShellSandbox\", \"image\": \"registry.example.com/mine:1\"{name} }}],\n  \"env\": {{ \"canary\": {{}} }}\n}}\n"
            ),
        );
        built(&project);
        let config = project.read("wrangler.jsonc");
        assert!(config.contains(&format!("\"name\": \"{canary}\"")), "{config}");
        assert!(built(&project).stdout.contains("nothing to do"));
        assert_eq!(project.read("wrangler.jsonc"), config);
    }
}

/// The same for the container of a sandbox that already has a file.
#[test]
fn an_environment_next_to_an_adopted_container() {
    let project = package();
    plain(&project, "src/server/shell.sandbox.rs", "ShellSandbox");
    project.write("docker/Dockerfile", "FROM debian:12\n").write(
        "wrangler.toml",
        "name = \"app\"\nmain = \"src/generated/worker.mjs\"\ncompatibility_date = \"2026-04-21\"\n\n[[containers]]\nclass_name = \"ShellSandbox\"\nimage = \"docker/Dockerfile\"\nimage_build_context = \".\"\n\n[env.canary]\n\n[[env.own.containers]]\nclass_name = \"ShellSandbox\"\nimage = \"docker.io/cloudflare/sandbox:0.12.10\"\n",
    );
    built(&project);
    let config = project.read("wrangler.toml");
    let canary = &config[config.find("[[env.canary.containers]]").expect("it is there")..];
    assert!(canary.contains("image = \"docker/Dockerfile\"\n"), "{config}");
    assert!(canary.contains("image_build_context = \".\"\n"), "{config}");
    assert_eq!(config.matches("docker.io/cloudflare/sandbox:0.12.10").count(), 1, "{config}");
    assert!(built(&project).stdout.contains("nothing to do"));
    assert_eq!(project.read("wrangler.toml"), config);

    // An earlier koze wrote the default image and its own name, and owned both.
    let former = |text: &str| text.replace("app-shellsandbox-canary", "shell-sandbox-canary");
    let (expected, lock) = (former(&config), former(&project.read("koze.lock")));
    let (top, environment) = expected.split_once("[[env.canary.containers]]").expect("it is there");
    let environment = environment
        .replace("docker/Dockerfile", "docker.io/cloudflare/sandbox:0.12.10")
        .replace("image_build_context = \".\"\n", "");
    project.write("wrangler.toml", format!("{top}[[env.canary.containers]]{environment}"));
    let (first, last) = lock.split_once("[sandbox.environments.canary]").expect("it is recorded");
    let last = last.replacen("keys = [", "keys = [\n    \"image\",", 1);
    project.write("koze.lock", format!("{first}[sandbox.environments.canary]{last}"));
    let run = built(&project);
    let expected = "set the image of `env.canary.containers[0]` to that of the top level";
    assert!(run.stdout.contains(expected), "{run:?}");
    assert_eq!(project.read("wrangler.toml").matches("docker/Dockerfile").count(), 2);
    assert_eq!(project.read("wrangler.toml").matches("docker.io/cloudflare/sandbox:0.12.10").count(), 1);
    assert_eq!(project.read("koze.lock"), lock);
    assert!(built(&project).stdout.contains("nothing to do"));
}
