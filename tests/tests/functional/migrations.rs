//! Migrations that contradict each other or what koze wrote.

use insta::assert_snapshot;
use koze_tests::Project;

use crate::classes::built_shell;
use crate::common::{BY_HAND, SHELL, built, built_diff, package, plain, refused, shell, warned};

/// Edits the configuration as a user would.
fn edit_config(project: &Project, from: &str, to: &str) {
    let config = project.read("wrangler.jsonc");
    assert!(config.contains(from), "{config}");
    project.write("wrangler.jsonc", config.replacen(from, to, 1));
}

#[test]
fn a_migration_that_was_edited_stops_the_build() {
    let project = built_shell();
    edit_config(
        &project,
        "new_sqlite_classes\": [\"ShellSandbox\"",
        "new_sqlite_classes\": [\"Other\", \"ShellSandbox\"",
    );
    assert_snapshot!(refused(&project), @r#"
    error[K045]: the migration `v1` is not what koze wrote
      --> wrangler.jsonc:23:5
       |
    23 | /     {
    24 | |       "tag": "v1",
    25 | |       "new_sqlite_classes": ["Other", "ShellSandbox"]
    26 | |     }
       | |_____^
       |
       = help: a deployed migration stays in effect, even if you change the file: restore it from version control; if it was never deployed, remove its `[[migration]]` from `koze.lock`

    1 error; nothing was written
    "#);
}

/// The hash covers the data, so the user may reformat a migration.
#[test]
fn a_reformatted_migration_is_accepted() {
    let project = built_shell();
    edit_config(&project, "\"tag\": \"v1\",", "\"tag\":   \"v1\", // the first\n");
    assert_eq!(built_diff(&project), "");
}

#[test]
fn a_removed_migration_stops_the_build() {
    let project = built_shell();
    let config = project.read("wrangler.jsonc");
    let migrations = config.find("  \"migrations\"").expect("migrations");
    let mended = format!("{}\n}}\n", config[..migrations].trim_end().trim_end_matches(','));
    project.write("wrangler.jsonc", mended);
    assert_snapshot!(refused(&project), @"
    error[K045]: the migration `v1` is gone
    --> wrangler.jsonc
     = help: a deployed migration stays in effect, even if you change the file: restore it from version control; if it was never deployed, remove its `[[migration]]` from `koze.lock`

    1 error; nothing was written
    ");
}

#[test]
fn a_duplicate_tag_stops_the_build() {
    let project = built_shell();
    edit_config(
        &project,
        "\"migrations\": [",
        "\"migrations\": [\n    { \"tag\": \"v1\", \"new_sqlite_classes\": [\"Other\"] },",
    );
    assert_snapshot!(refused(&project), @r#"
    error[K045]: two migrations have the tag `v1`
      --> wrangler.jsonc:24:5
       |
    23 |       { "tag": "v1", "new_sqlite_classes": ["Other"] },
       |       ------------------------------------------------ the first one
    24 | /     {
    25 | |       "tag": "v1",
    26 | |       "new_sqlite_classes": ["ShellSandbox"]
    27 | |     }
       | |_____^
       |
       = help: wrangler finds the deployed migration by its tag and takes the first of the two, so it sends the second one again with each deployment, which Cloudflare rejects. Give the one that is not deployed yet a unique tag, and remove the `[[migration]]` of `v1` from `koze.lock`

    1 error; nothing was written
    "#);
}

/// Without a lock, the message does not mention it.
#[test]
fn a_duplicate_tag_before_the_first_build() {
    let project = package();
    plain(&project, SHELL, "ShellSandbox");
    let migrations = "  \"migrations\": [{ \"tag\": \"v1\", \"new_classes\": [\"A\"] }, { \"tag\": \"v1\", \"new_classes\": [\"B\"] }]\n}";
    project.write("wrangler.jsonc", BY_HAND.replace("\n}", &format!(",\n{migrations}")));
    let refused = refused(&project);
    assert!(refused.starts_with("error[K045]: two migrations have the tag `v1`"), "{refused}");
    assert!(refused.contains("a unique tag\n") && !refused.contains("koze.lock"), "{refused}");
}

#[test]
fn migrations_and_exports_exclude_each_other() {
    let project = built_shell();
    edit_config(
        &project,
        "\"migrations\"",
        "\"exports\": { \"Counter\": { \"type\": \"durable-object\", \"storage\": \"sqlite\" } },\n  \"migrations\"",
    );
    assert_snapshot!(refused(&project), @r#"
    error[K045]: `migrations` and `exports` both declare Durable Objects
      --> wrangler.jsonc:22:14
       |
    22 |   "exports": { "Counter": { "type": "durable-object", "storage": "sqlite" } },
       |              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
       |
       = help: wrangler accepts only one of them: keep the one that this project uses

    1 error; nothing was written
    "#);
}

#[test]
fn a_class_without_sqlite_cannot_be_a_sandbox() {
    let project = package();
    plain(&project, SHELL, "ShellSandbox");
    let migrations = "\"migrations\": [{ \"tag\": \"v1\", \"new_classes\": [\"ShellSandbox\"] }]";
    project.write("wrangler.jsonc", BY_HAND.replace("\n}", &format!(",\n  {migrations}\n}}")));
    assert_snapshot!(refused(&project), @r#"
    error[K042]: the class `ShellSandbox` was created without SQLite, which containers need
     --> wrangler.jsonc:6:18
      |
    6 |   "migrations": [{ "tag": "v1", "new_classes": ["ShellSandbox"] }]
      |                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      |
      = help: the storage of a class cannot be changed: give the sandbox's struct another name

    1 error; nothing was written
    "#);
}

/// If there is a container, wrangler replays the whole list and rejects inconsistent operations.
#[test]
fn histories_that_wrangler_rejects() {
    let config =
        |migrations: &str| BY_HAND.replace("\n}", &format!(",\n  \"migrations\": [{migrations}]\n}}"));
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    project.write("wrangler.jsonc", config("\n    { \"tag\": \"v1\", \"deleted_classes\": [\"Gone\"] }\n  "));
    assert_snapshot!(warned(&project), @r#"
    warning[K082]: wrangler rejects the migration `v1`: it deletes the class `Gone`, which does not exist at that point
     --> wrangler.jsonc:7:40
      |
    7 |     { "tag": "v1", "deleted_classes": ["Gone"] }
      |                                        ^^^^^^
      |
      = help: with containers, wrangler checks all migrations again: create the class in an earlier migration with `new_sqlite_classes`, or remove the entry; deployed migrations are not applied again, so this does not change storage. If `koze.lock` has its `[[migration]]`, remove that as well

    1 warning
    "#);
    for (migrations, says) in [
        (
            r#"{ "tag": "a", "renamed_classes": [{ "from": "A", "to": "B" }] }"#,
            "the migration `a`: it renames the class `A`, which does not exist at that point",
        ),
        (
            r#"{ "tag": "a", "new_sqlite_classes": ["A"] }, { "tag": "b", "new_classes": ["A"] }"#,
            "the migration `b`: it creates the class `A`, which already exists",
        ),
        (
            r#"{ "tag": "a", "new_sqlite_classes": ["A", "A"] }"#,
            "the migration `a`: it creates the class `A`, which already exists",
        ),
        (
            r#"{ "tag": "a", "new_sqlite_classes": ["A"] }, { "tag": "b", "deleted_classes": ["A"] }, { "tag": "c", "deleted_classes": ["A"] }"#,
            "the migration `c`: it deletes the class `A`, which does not exist at that point",
        ),
        (
            r#"{ "tag": "a", "transferred_classes": [{ "from": "A", "from_script": "s", "to": "A" }] }, { "tag": "b", "deleted_classes": ["A"] }"#,
            "the migration `b`: it deletes the class `A`, which only `transferred_classes` created",
        ),
        // Within a migration, wrangler deletes before it creates.
        (
            r#"{ "tag": "a", "new_sqlite_classes": ["A"], "deleted_classes": ["A"] }"#,
            "the migration `a`: it deletes the class `A`",
        ),
    ] {
        let project = shell("#[sandbox]\npub struct ShellSandbox;");
        project.write("wrangler.jsonc", config(migrations));
        let stderr = warned(&project);
        assert!(stderr.starts_with("warning[K082]: ") && stderr.contains(says), "{migrations}: {stderr}");
        assert_eq!(stderr.matches("K082").count(), 1, "{stderr}");
    }
    // An environment's own list, in TOML.
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    project.write("wrangler.toml", "name = \"app\"\nmain = \"src/generated/worker.mjs\"\ncompatibility_date = \"2026-04-21\"\n\n[[env.a.migrations]]\r\ntag = \"x\"\r\ndeleted_classes = [\"A\"] # ?\r\n");
    let stderr = warned(&project);
    assert!(
        stderr.contains("the migration `x`: it deletes the class `A`")
            && stderr.contains("wrangler.toml:7:20"),
        "{stderr}"
    );
    // Valid histories cause no warning.
    for migrations in [
        r#"{ "tag": "a", "new_classes": ["A"] }, { "tag": "b", "renamed_classes": [{ "from": "A", "to": "B" }] }, { "tag": "c", "deleted_classes": ["B"] }, { "tag": "d", "new_sqlite_classes": ["A", "B"] }"#,
        r#"{ "tag": "a", "new_sqlite_classes": ["A"] }, { "tag": "b", "deleted_classes": ["A"], "new_sqlite_classes": ["A"] }"#,
        r#"{ "tag": "a", "transferred_classes": [{ "from": "A", "from_script": "s", "to": "B" }] }"#,
    ] {
        let project = shell("#[sandbox]\npub struct ShellSandbox;");
        project.write("wrangler.jsonc", config(migrations));
        built(&project);
    }
}
