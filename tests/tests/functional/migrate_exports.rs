//! `koze migrate --exports`: `exports` instead of `migrations`.

use insta::assert_snapshot;
use koze_tests::Project;

use crate::common::{BY_HAND, SHELL, built, package, plain, refused_with, shell, users_diff};

/// A history with every kind of operation, and environments that inherit it, replace it, or have other exports.
const HISTORY: &str = r#"{
  // Written by hand.
  "name": "app",
  "main": "src/generated/worker.mjs",
  "compatibility_date": "2026-04-21",
  "durable_objects": {
    "bindings": [
      { "name": "OLD", "class_name": "Old" }, // legacy
      { "name": "THEIRS", "class_name": "Theirs", "script_name": "other" }
    ]
  },
  "migrations": [
    { "tag": "v1", "new_classes": ["Old"], "new_sqlite_classes": ["A", "B", "Gone"] },
    { "tag": "v2", "renamed_classes": [{ "from": "A", "to": "C" }], "deleted_classes": ["Gone"] },
    { "tag": "v3", "renamed_classes": [{ "from": "B", "to": "D" }] }
  ],
  "env": {
    "inherits": {},
    "own": { "migrations": [{ "tag": "v1", "new_sqlite_classes": ["E"] }] },
    "other": { "exports": { "W": { "type": "worker" } } }
  }
}
"#;

fn with_config(config: &str) -> Project {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    project.write("wrangler.jsonc", config);
    project
}

/// Runs the command, which must succeed, and returns the end of its output, which follows the list of files.
fn migrated(project: &Project) -> String {
    let run = project.koze(&["migrate", "--exports"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    let words = ["note:", "next:", "declared"];
    let lines = run.stdout.lines().filter(|line| words.iter().any(|word| line.starts_with(word)));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn all_levels_are_converted() {
    let project = with_config(HISTORY);
    built(&project);
    let before = project.snapshot();
    let dry = project.koze(&["migrate", "--exports", "--dry-run"]);
    assert_eq!((dry.code, dry.stderr.as_str()), (0, ""), "{}", dry.stdout);
    assert!(dry.stdout.contains("would update wrangler.jsonc"), "{}", dry.stdout);
    assert_eq!(project.diff(&before), "");
    assert_snapshot!(migrated(&project), @"
    declared 4 classes in `exports` instead of `migrations`
    declared 2 classes in `env.own.exports` instead of `migrations`
    declared 4 classes in `env.other.exports` instead of `migrations`
    note: this cannot be undone: once a Worker was deployed with `exports`, Cloudflare no longer accepts `migrations` for it
    next: deploy the migrations before `v4` first, wherever they are not deployed yet: `exports` has the renames and deletions of `v4` only
    next: deploy the migrations before `v2` first, wherever they are not deployed yet: `env.own.exports` has the renames and deletions of `v2` only
    next: deploy the migrations before `v4` first, wherever they are not deployed yet: `env.other.exports` has the renames and deletions of `v4` only
    next: commit this, and have everyone deploy from it: a deployment of an older commit, which has `migrations`, is rejected from then on
    ");
    assert_snapshot!(users_diff(&before, &project.snapshot()), @r#"
    --- a/wrangler.jsonc
    +++ b/wrangler.jsonc
    @@ -10,12 +10,6 @@
           { "name": "SHELL_SANDBOX", "class_name": "ShellSandbox" }
         ]
       },
    -  "migrations": [
    -    { "tag": "v1", "new_classes": ["Old"], "new_sqlite_classes": ["A", "B", "Gone"] },
    -    { "tag": "v2", "renamed_classes": [{ "from": "A", "to": "C" }], "deleted_classes": ["Gone"] },
    -    { "tag": "v3", "renamed_classes": [{ "from": "B", "to": "D" }] },
    -    { "tag": "v4", "new_sqlite_classes": ["ShellSandbox"] }
    -  ],
       "env": {
         "inherits": {
           "containers": [
    @@ -35,8 +29,8 @@
             ]
           }
         },
    -    "own": { "migrations": [{ "tag": "v1", "new_sqlite_classes": ["E"] }, { "tag": "v2", "new_sqlite_classes": ["ShellSandbox"] }], "containers": [{ "name": "shell-sandbox-own", "class_name": "ShellSandbox", "image": "docker.io/cloudflare/sandbox:0.12.10", "instance_type": "lite" }], "durable_objects": { "bindings": [{ "name": "SHELL_SANDBOX", "class_name": "ShellSandbox" }] } },
    -    "other": { "exports": { "W": { "type": "worker" } }, "containers": [{ "name": "shell-sandbox-other", "class_name": "ShellSandbox", "image": "docker.io/cloudflare/sandbox:0.12.10", "instance_type": "lite" }], "durable_objects": { "bindings": [{ "name": "SHELL_SANDBOX", "class_name": "ShellSandbox" }] } }
    +    "own": { "containers": [{ "name": "shell-sandbox-own", "class_name": "ShellSandbox", "image": "docker.io/cloudflare/sandbox:0.12.10", "instance_type": "lite" }], "durable_objects": { "bindings": [{ "name": "SHELL_SANDBOX", "class_name": "ShellSandbox" }] }, "exports": { "E": { "type": "durable-object", "storage": "sqlite" }, "ShellSandbox": { "type": "durable-object", "storage": "sqlite" } } },
    +    "other": { "exports": { "W": { "type": "worker" }, "C": { "type": "durable-object", "storage": "sqlite" }, "D": { "type": "durable-object", "storage": "sqlite" }, "Old": { "type": "durable-object", "storage": "legacy-kv" }, "ShellSandbox": { "type": "durable-object", "storage": "sqlite" } }, "containers": [{ "name": "shell-sandbox-other", "class_name": "ShellSandbox", "image": "docker.io/cloudflare/sandbox:0.12.10", "instance_type": "lite" }], "durable_objects": { "bindings": [{ "name": "SHELL_SANDBOX", "class_name": "ShellSandbox" }] } }
       },
       "containers": [
         {
    @@ -45,5 +39,23 @@
           "image": "docker.io/cloudflare/sandbox:0.12.10",
           "instance_type": "lite"
         }
    -  ]
    +  ],
    +  "exports": {
    +    "C": {
    +      "type": "durable-object",
    +      "storage": "sqlite"
    +    },
    +    "D": {
    +      "type": "durable-object",
    +      "storage": "sqlite"
    +    },
    +    "Old": {
    +      "type": "durable-object",
    +      "storage": "legacy-kv"
    +    },
    +    "ShellSandbox": {
    +      "type": "durable-object",
    +      "storage": "sqlite"
    +    }
    +  }
     }
    "#);
    let lock = project.read("koze.lock");
    assert!(!lock.contains("migration"), "{lock}");
    assert!(built(&project).stdout.contains("nothing to do"));
    assert_snapshot!(refused_with(&project, &["migrate", "--exports"]), @r#"
    error[K111]: `wrangler.jsonc` has no `migrations`
     |
     = help: there is nothing to do: classes that `exports` declare stay there, and a project without classes chooses `exports` with an empty map, `"exports": {}`

    1 error; nothing was written
    "#);
}

#[test]
fn toml_is_converted() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    let config = "name = \"app\" # mine\nmain = \"src/generated/worker.mjs\"\ncompatibility_date = \"2026-04-21\"\n\n[[migrations]]\ntag = \"v1\"\nnew_sqlite_classes = [\"A\"]\n\n[vars]\nX = \"1\" # stays\n\n[[env.staging.migrations]]\ntag = \"v1\"\nnew_classes = [\"B\"]\n";
    project.write("wrangler.toml", config);
    built(&project);
    let before = project.snapshot();
    migrated(&project);
    assert_snapshot!(users_diff(&before, &project.snapshot()), @r#"
    --- a/wrangler.toml
    +++ b/wrangler.toml
    @@ -2,14 +2,6 @@
     main = "src/generated/worker.mjs"
     compatibility_date = "2026-04-21"
     
    -[[migrations]]
    -tag = "v1"
    -new_sqlite_classes = ["A"]
    -
    -[[migrations]]
    -tag = "v2"
    -new_sqlite_classes = ["ShellSandbox"]
    -
     [vars]
     X = "1" # stays
     
    @@ -23,14 +15,10 @@
     name = "SHELL_SANDBOX"
     class_name = "ShellSandbox"
     
    -[[env.staging.migrations]]
    -tag = "v1"
    -new_classes = ["B"]
    +[exports]
    +A = { type = "durable-object", storage = "sqlite" }
    +ShellSandbox = { type = "durable-object", storage = "sqlite" }
     
    -[[env.staging.migrations]]
    -tag = "v2"
    -new_sqlite_classes = ["ShellSandbox"]
    -
     [[env.staging.containers]]
     name = "shell-sandbox-staging"
     class_name = "ShellSandbox"
    @@ -40,3 +28,7 @@
     [[env.staging.durable_objects.bindings]]
     name = "SHELL_SANDBOX"
     class_name = "ShellSandbox"
    +
    +[env.staging.exports]
    +B = { type = "durable-object", storage = "legacy-kv" }
    +ShellSandbox = { type = "durable-object", storage = "sqlite" }
    "#);
    assert!(built(&project).stdout.contains("nothing to do"));
}

/// The rename of a class that was not built yet is carried out with the conversion.
#[test]
fn a_pending_rename_leaves_a_tombstone() {
    let project = with_config(BY_HAND);
    built(&project);
    plain(&project, SHELL, "BashSandbox");
    migrated(&project);
    let config = project.read("wrangler.jsonc");
    let tombstone = "\"state\": \"renamed\",\n      \"renamed_to\": \"BashSandbox\"";
    assert!(config.contains(tombstone) && !config.contains("migrations"), "{config}");
}

/// The lock forgets the migrations even if no sandbox is left.
#[test]
fn a_project_without_sandboxes_is_converted() {
    let project = with_config(BY_HAND);
    built(&project);
    fs_err::remove_file(project.path(SHELL)).expect("it was there");
    assert_eq!(project.koze(&["remove", "shell", "--keep-storage"]).code, 0);
    migrated(&project);
    assert!(!project.read("koze.lock").contains("migration"));
    assert!(built(&project).stdout.contains("nothing to do"));
}

#[test]
fn what_cannot_be_converted() {
    let with = |more: &str| {
        let project = package();
        project.write("wrangler.jsonc", BY_HAND.replace("\n}", &format!(",\n{more}\n}}")));
        project
    };
    let transferred = r#"  "migrations": [{ "tag": "v1", "transferred_classes": [{ "from": "A", "from_script": "other", "to": "B" }] }]"#;
    assert_snapshot!(refused_with(&with(transferred), &["migrate", "--exports"]), @r#"
    error[K110]: these `migrations` cannot be converted to `exports`: `v1` transfers the class `B` from the Worker `other`, which alone records its storage
     --> wrangler.jsonc:6:56
      |
    6 | ...nsferred_classes": [{ "from": "A", "from_script": "other", "to": "B" }] }]
      |                       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      |
      = help: correct the configuration, then run `koze migrate --exports` again; or keep `migrations`, which wrangler still accepts

    1 error; nothing was written
    "#);
    let live = r#"  "migrations": [{ "tag": "v1", "new_sqlite_classes": ["A"] }]"#;
    for (more, why) in [
        (
            r#"  "migrations": [{ "tag": "v1", "deleted_classes": ["A"] }]"#.to_owned(),
            "wrangler rejects `v1`: it deletes the class `A`, which does not exist at that point",
        ),
        (
            format!(r#"{live}, "durable_objects": {{ "bindings": [{{ "name": "B", "class_name": "B" }}] }}"#),
            "no migration creates the class `B` of this binding",
        ),
        (
            format!(
                r#"{live}, "containers": [{{ "class_name": "B" }}], "durable_objects": {{ "bindings": [{{ "name": "B", "class_name": "B", "script_name": "other" }}] }}"#
            ),
            "the class `B` of this container belongs to the Worker `other`",
        ),
        (
            format!(r#"{live}, "exports": {{ "A": {{ "type": "workflow" }} }}"#),
            "`exports` has an entry of another type with the name `A`",
        ),
    ] {
        let output = refused_with(&with(&more), &["migrate", "--exports"]);
        let says = format!("error[K110]: these `migrations` cannot be converted to `exports`: {why}");
        assert!(output.starts_with(&says), "{output}");
    }
    // An environment that koze does not manage would have both.
    let project = with(&format!(r#"{live}, "env": {{ "a": {{{live}}} }}"#));
    let manifest = project.read("Cargo.toml");
    project.write("Cargo.toml", format!("{manifest}\n[package.metadata.koze]\nenvironments = []\n"));
    let output = refused_with(&project, &["migrate", "--exports"]);
    assert!(output.contains("the environment `a` has `migrations` of its own"), "{output}");
    // A migration that was edited is one that koze cannot read.
    let project = with_config(BY_HAND);
    built(&project);
    project.write("wrangler.jsonc", project.read("wrangler.jsonc").replace("\"v1\"", "\"v0\""));
    assert!(refused_with(&project, &["migrate", "--exports"]).starts_with("error[K045]"));
}
