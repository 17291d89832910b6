//! The effect of builds on the user's wrangler configuration when the sandboxes change.

use insta::assert_snapshot;

use crate::common::{BY_HAND, SHELL, built, built_diff, package, plain, sandbox, shell};

#[test]
fn a_hand_written_file_gets_the_blocks_and_keeps_the_rest() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    project.write("wrangler.jsonc", BY_HAND);
    assert_snapshot!(built_diff(&project), @r#"
    --- a/wrangler.jsonc
    +++ b/wrangler.jsonc
    @@ -2,5 +2,27 @@
       // Written by hand.
       "name": "app",
       "main": "src/generated/worker.mjs",
    -  "compatibility_date": "2026-04-21"
    +  "compatibility_date": "2026-04-21",
    +  "containers": [
    +    {
    +      "name": "shell-sandbox",
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
    +  "migrations": [
    +    {
    +      "tag": "v1",
    +      "new_sqlite_classes": ["ShellSandbox"]
    +    }
    +  ]
     }
    "#);
}

#[test]
fn what_a_build_prints() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    assert_snapshot!(built(&project).stdout, @"
    1 sandbox in wrangler.jsonc, SDK 0.12.10 from package.json
      src/server/shell.sandbox.rs  ShellSandbox  SHELL_SANDBOX  docker.io/cloudflare/sandbox:0.12.10
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
    assert_snapshot!(built(&project).stdout, @"
    1 sandbox in wrangler.jsonc, SDK 0.12.10 from package.json
      src/server/shell.sandbox.rs  ShellSandbox  SHELL_SANDBOX  docker.io/cloudflare/sandbox:0.12.10
    nothing to do: every file is in step
    ");
}

#[test]
fn a_package_without_sandboxes_is_unchanged() {
    let project = package();
    let before = project.snapshot();
    assert_snapshot!(built(&project).stdout, @"
    no sandboxes: there is no `*.sandbox.rs` file below `src`
    next: create `src/server/shell.sandbox.rs` with `#[sandbox] pub struct ShellSandbox;`
    ");
    assert_eq!(project.diff(&before), "");
}

#[test]
fn a_key_is_added_and_removed_with_its_attribute() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    project.write("wrangler.jsonc", BY_HAND);
    built(&project);
    let bare = project.snapshot();

    sandbox(&project, SHELL, "#[sandbox(max_instances = 10)]\npub struct ShellSandbox;");
    let with_key = built_diff(&project);
    assert_snapshot!(with_key, @r#"
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
    "#);

    sandbox(&project, SHELL, "#[sandbox(max_instances = 12)]\npub struct ShellSandbox;");
    assert_snapshot!(built_diff(&project), @r#"
    --- a/wrangler.jsonc
    +++ b/wrangler.jsonc
    @@ -9,7 +9,7 @@
           "class_name": "ShellSandbox",
           "image": "docker.io/cloudflare/sandbox:0.12.10",
           "instance_type": "lite",
    -      "max_instances": 10
    +      "max_instances": 12
         }
       ],
       "durable_objects": {
    "#);

    plain(&project, SHELL, "ShellSandbox");
    built(&project);
    assert_eq!(project.diff(&bare), "", "taking the key out leads back");
}

#[test]
fn changing_the_variant_changes_only_the_image() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    built(&project);
    sandbox(&project, SHELL, "#[sandbox(variant = \"python\")]\npub struct ShellSandbox;");
    assert_snapshot!(built_diff(&project), @r#"
    --- a/wrangler.jsonc
    +++ b/wrangler.jsonc
    @@ -12,7 +12,7 @@
         {
           "name": "shell-sandbox",
           "class_name": "ShellSandbox",
    -      "image": "docker.io/cloudflare/sandbox:0.12.10",
    +      "image": "docker.io/cloudflare/sandbox:0.12.10-python",
           "instance_type": "lite"
         }
       ],
    "#);
}

#[test]
fn an_sdk_upgrade_changes_the_image() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    built(&project);
    project.write("package.json", "{ \"devDependencies\": { \"@cloudflare/sandbox\": \"0.12.11\" } }\n");
    assert_snapshot!(built_diff(&project), @r#"
    --- a/wrangler.jsonc
    +++ b/wrangler.jsonc
    @@ -12,7 +12,7 @@
         {
           "name": "shell-sandbox",
           "class_name": "ShellSandbox",
    -      "image": "docker.io/cloudflare/sandbox:0.12.10",
    +      "image": "docker.io/cloudflare/sandbox:0.12.11",
           "instance_type": "lite"
         }
       ],
    "#);
}

#[test]
fn a_dockerfile_next_to_the_source_becomes_the_image() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    built(&project);
    project.write("src/server/shell.Dockerfile", "FROM docker.io/cloudflare/sandbox:0.12.10\n");
    assert_snapshot!(built_diff(&project), @r#"
    --- a/wrangler.jsonc
    +++ b/wrangler.jsonc
    @@ -12,7 +12,7 @@
         {
           "name": "shell-sandbox",
           "class_name": "ShellSandbox",
    -      "image": "docker.io/cloudflare/sandbox:0.12.10",
    +      "image": "./src/server/shell.Dockerfile",
           "instance_type": "lite"
         }
       ],
    "#);
}

#[test]
fn a_sandbox_added_later_gets_its_own_migration() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    project.write("wrangler.jsonc", BY_HAND);
    built(&project);
    plain(&project, "src/server/python.sandbox.rs", "PythonSandbox");
    assert_snapshot!(built_diff(&project), @r#"
    --- a/wrangler.jsonc
    +++ b/wrangler.jsonc
    @@ -9,6 +9,12 @@
           "class_name": "ShellSandbox",
           "image": "docker.io/cloudflare/sandbox:0.12.10",
           "instance_type": "lite"
    +    },
    +    {
    +      "name": "python-sandbox",
    +      "class_name": "PythonSandbox",
    +      "image": "docker.io/cloudflare/sandbox:0.12.10",
    +      "instance_type": "lite"
         }
       ],
       "durable_objects": {
    @@ -16,6 +22,10 @@
           {
             "name": "SHELL_SANDBOX",
             "class_name": "ShellSandbox"
    +      },
    +      {
    +        "name": "PYTHON_SANDBOX",
    +        "class_name": "PythonSandbox"
           }
         ]
       },
    @@ -23,6 +33,10 @@
         {
           "tag": "v1",
           "new_sqlite_classes": ["ShellSandbox"]
    +    },
    +    {
    +      "tag": "v2",
    +      "new_sqlite_classes": ["PythonSandbox"]
         }
       ]
     }
    "#);
}

/// The first sandbox stays the default for agents.
#[test]
fn a_sandbox_added_later_does_not_become_the_default() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    built(&project);
    plain(&project, "src/server/a.sandbox.rs", "ASandbox");
    built(&project);
    let lock = project.read("koze.lock");
    assert!(lock.contains("default = \"shell\""), "{lock}");
}

/// User edits of koze's keys are reverted; other edits are kept.
#[test]
fn only_kozes_keys_are_restored() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    built(&project);
    let edited = project
        .read("wrangler.jsonc")
        .replace("\"instance_type\": \"lite\"", "\"instance_type\": \"basic\", \"max_instances\": 7");
    project.write("wrangler.jsonc", edited);
    assert_snapshot!(built_diff(&project), @r#"
    --- a/wrangler.jsonc
    +++ b/wrangler.jsonc
    @@ -13,7 +13,7 @@
           "name": "shell-sandbox",
           "class_name": "ShellSandbox",
           "image": "docker.io/cloudflare/sandbox:0.12.10",
    -      "instance_type": "basic", "max_instances": 7
    +      "instance_type": "lite", "max_instances": 7
         }
       ],
       "durable_objects": {
    "#);
}

#[test]
fn a_removed_entry_is_restored() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    project.write("wrangler.jsonc", BY_HAND.replace("\n}", ",\n  \"containers\": []\n}"));
    built(&project);
    let whole = project.snapshot();
    let config = project.read("wrangler.jsonc");
    let start = config.find("\"containers\": [").expect("containers") + "\"containers\": [".len();
    let end = config[start..].find(']').expect("their end") + start;
    project.write("wrangler.jsonc", format!("{}{}", &config[..start], &config[end..]));
    built(&project);
    let config = project.read("wrangler.jsonc");
    assert!(config.contains("\"name\": \"shell-sandbox\""), "{config}");
    assert_eq!(whole["koze.lock"], project.snapshot()["koze.lock"]);
}

/// `generated` belongs to koze, but unknown files in it are neither read nor deleted.
#[test]
fn a_sandbox_file_below_generated_is_ignored() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    plain(&project, "src/generated/other.sandbox.rs", "OtherSandbox");
    plain(&project, "src/.hidden/other.sandbox.rs", "OtherSandbox");
    plain(&project, "src/node_modules/other.sandbox.rs", "OtherSandbox");
    plain(&project, "src/target/other.sandbox.rs", "OtherSandbox");
    plain(&project, "other.sandbox.rs", "OtherSandbox");
    let run = built(&project);
    assert!(run.stdout.starts_with("1 sandbox in "), "{}", run.stdout);
    assert!(project.path("src/generated/other.sandbox.rs").exists());
}

/// In TOML, new top-level sections go before the environments that override them.
#[test]
fn new_sections_come_above_the_environments() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    let top = "name = \"app\"\nmain = \"src/generated/worker.mjs\"\ncompatibility_date = \"2026-04-21\"\n";
    project.write("wrangler.toml", format!("{top}\n[env.staging]\n"));
    built(&project);
    let config = project.read("wrangler.toml");
    let place = |header: &str| config.find(&format!("\n{header}\n")).expect("the section");
    let first = place("[env.staging]");
    for header in ["[[containers]]", "[[durable_objects.bindings]]", "[[migrations]]"] {
        assert!(place(header) < first, "{header} in\n{config}");
    }
    assert!(first < place("[[env.staging.containers]]"), "{config}");
}
