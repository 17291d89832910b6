//! Hand-written entries that koze adopts, and those that stay the user's.

use insta::assert_snapshot;
use koze_tests::Project;

use crate::common::{BY_HAND, SHELL, built, built_diff, refused, shell};

/// A project with this attribute, and a hand-written configuration with one more property.
pub(crate) fn beside(attribute: &str, property: &str) -> Project {
    let project = shell(&format!("{attribute}\npub struct ShellSandbox;"));
    project.write("wrangler.jsonc", BY_HAND.replace("\n}", &format!(",\n  {property}\n}}")));
    project
}

const WHOLE: &str = r#""containers": [
    {
      // Since 2024.
      "name": "my-shells",
      "class_name": "ShellSandbox",
      "image": "docker.io/cloudflare/sandbox:0.9.1",
      "instance_type": "basic", // paid for
      "max_instances": 3
    }
  ],
  "durable_objects": {
    "bindings": [{ "name": "SHELL_SANDBOX", "class_name": "ShellSandbox" }]
  },
  "migrations": [{ "tag": "first", "new_sqlite_classes": ["ShellSandbox"] }]"#;

#[test]
fn hand_written_entries_are_adopted() {
    let project = beside("#[sandbox]", WHOLE);
    let before = project.snapshot();
    assert_snapshot!(built(&project).stdout, @"
    1 sandbox in wrangler.jsonc, SDK 0.12.10 from package.json
      src/server/shell.sandbox.rs  ShellSandbox  SHELL_SANDBOX  docker.io/cloudflare/sandbox:0.12.10
    adopted the container at `containers[0]`
    adopted the binding at `durable_objects.bindings[0]`
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
    ");
    assert_snapshot!(crate::common::users_diff(&before, &project.snapshot()), @r#"
    --- a/wrangler.jsonc
    +++ b/wrangler.jsonc
    @@ -8,7 +8,7 @@
           // Since 2024.
           "name": "my-shells",
           "class_name": "ShellSandbox",
    -      "image": "docker.io/cloudflare/sandbox:0.9.1",
    +      "image": "docker.io/cloudflare/sandbox:0.12.10",
           "instance_type": "basic", // paid for
           "max_instances": 3
         }
    "#);
    assert_snapshot!(project.read("koze.lock"), @r#"
    # Written by `koze build`: what koze owns in the wrangler configuration.
    # Commit this file; do not edit it.

    version = 1
    default = "shell"

    [[sandbox]]
    name = "shell"
    file = "src/server/shell.sandbox.rs"
    class = "ShellSandbox"
    binding = "SHELL_SANDBOX"
    migration = "first"
    backend = "sdk"
    container = "my-shells"
    keys = [
        "class_name",
        "image",
    ]

    [[migration]]
    tag = "first"
    hash = "sha256:d19a51095492df8fc07ff7772bb44c96dc22cadc6585011459672146d44b63a9"
    "#);
    assert!(built(&project).stdout.ends_with("nothing to do: every file is in step\n"));
}

/// A key that equals the attribute's becomes koze's, and is removed with the attribute.
#[test]
fn an_equal_key_is_adopted() {
    let project = beside("#[sandbox(max_instances = 3)]", WHOLE);
    built(&project);
    project.write(SHELL, "use koze::prelude::*;\n\n#[sandbox]\npub struct ShellSandbox;\n");
    assert_snapshot!(built_diff(&project), @r#"
    --- a/wrangler.jsonc
    +++ b/wrangler.jsonc
    @@ -9,8 +9,7 @@
           "name": "my-shells",
           "class_name": "ShellSandbox",
           "image": "docker.io/cloudflare/sandbox:0.12.10",
    -      "instance_type": "basic", // paid for
    -      "max_instances": 3
    +      "instance_type": "basic" // paid for
         }
       ],
       "durable_objects": {
    "#);
}

/// wrangler calls the application `app-shellsandbox`; writing any other name would create a second one.
#[test]
fn an_unnamed_entry_stays_unnamed() {
    let property =
        r#""containers": [{ "class_name": "ShellSandbox", "image": "docker.io/cloudflare/sandbox:0.9.1" }]"#;
    let project = beside("#[sandbox]", property);
    built(&project);
    let config = project.read("wrangler.jsonc");
    assert!(config.contains("{ \"class_name\": \"ShellSandbox\", \"image\""), "{config}");
    assert!(built(&project).stdout.contains("nothing to do"));
}

/// If the user deletes the entry, it is recreated with a name, because `""` is not valid.
#[test]
fn an_unnamed_entry_is_recreated_with_a_name() {
    let property =
        r#""containers": [{ "class_name": "ShellSandbox", "image": "docker.io/cloudflare/sandbox:0.9.1" }]"#;
    let project = beside("#[sandbox]", property);
    built(&project);
    let config = project.read("wrangler.jsonc");
    let start = config.find("\"containers\": [").expect("containers") + "\"containers\": [".len();
    let end = config[start..].find(']').expect("their end") + start;
    project.write("wrangler.jsonc", format!("{}{}", &config[..start], &config[end..]));
    built(&project);
    let config = project.read("wrangler.jsonc");
    assert!(!config.contains("\"name\": \"\""), "{config}");
}

#[test]
fn a_users_image_is_kept_if_the_attribute_has_none() {
    let property =
        r#""containers": [{ "class_name": "ShellSandbox", "image": "registry.example.com/ours:1" }]"#;
    let project = beside("#[sandbox]", property);
    let run = built(&project);
    let config = project.read("wrangler.jsonc");
    assert!(config.contains("\"image\": \"registry.example.com/ours:1\""), "{config}");
    assert!(
        run.stdout.contains("  registry.example.com/ours:1\n"),
        "what runs is what is shown: {}",
        run.stdout
    );
}

#[test]
fn a_lost_lock_is_recreated() {
    let project = beside("#[sandbox(max_instances = 3)]", "\"vars\": {}");
    built(&project);
    let owned = |lock: String| lock.split_once("[[sandbox]]").expect("a sandbox").1.to_owned();
    let whole = owned(project.read("koze.lock"));
    fs_err::remove_file(project.path("koze.lock")).expect("it was there");
    assert_eq!(built_diff(&project), "");
    assert_eq!(owned(project.read("koze.lock")), whole, "all that is as koze writes it is koze's again");
}

#[test]
fn an_invalid_lock() {
    let project = beside("#[sandbox]", "\"vars\": {}");
    built(&project);
    let lock = project.read("koze.lock");
    project.write("koze.lock", lock.replace("[[sandbox]]", "<<<<<<< HEAD\n[[sandbox]]"));
    assert_snapshot!(refused(&project), @"
    error[K055]: `koze.lock` cannot be used: key with no value, expected `=`
      --> koze.lock:13:9
       |
    13 | <<<<<<< HEAD
       |         ^
       |
       = help: it records what koze owns in the wrangler configuration: restore it from version control; if it is lost, delete it, and the next build adopts matching entries

    1 error; nothing was written
    ");
}

#[test]
fn a_lock_with_an_unknown_key() {
    let project = beside("#[sandbox]", "\"vars\": {}");
    project.write("koze.lock", "version = 1\nsandboxes = []\n");
    assert_snapshot!(refused(&project), @"
    error[K055]: `koze.lock` cannot be used: unknown field `sandboxes`, expected one of `version`, `config`, `default`, `blocks`, `files`, `registry`, `scripts`, `sandbox`, `kept`, `migration`
     --> koze.lock:2:1
      |
    2 | sandboxes = []
      | ^^^^^^^^^
      |
      = help: it records what koze owns in the wrangler configuration: restore it from version control; if it is lost, delete it, and the next build adopts matching entries

    1 error; nothing was written
    ");
}

#[test]
fn a_lock_of_a_later_version() {
    let project = beside("#[sandbox]", "\"vars\": {}");
    project.write("koze.lock", "version = 2\n");
    assert_snapshot!(refused(&project), @"
    error[K055]: `koze.lock` cannot be used: it has version 2, but this koze supports version 1
    --> koze.lock
     = help: a newer koze wrote it: install that version of koze or a later one

    1 error; nothing was written
    ");
}

/// A later version may write unknown keys. The message must name the version instead.
#[test]
fn a_lock_of_a_later_version_with_unknown_keys() {
    let project = beside("#[sandbox]", "\"vars\": {}");
    project.write("koze.lock", "version = 2\nfuture = true\n");
    let stderr = refused(&project);
    assert!(stderr.starts_with("error[K055]: `koze.lock` cannot be used: it has version 2"), "{stderr}");
}
