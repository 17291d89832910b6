//! `koze remove`, the only command that deletes storage.

use insta::assert_snapshot;
use koze_tests::{Project, Snapshot};

use crate::common::{SHELL, built, existing_config, package, plain, refused_with, users_diff};

/// A project with two sandboxes after a build, of which one file was deleted.
fn without_python() -> Project {
    let project = crate::classes::built_shell();
    plain(&project, "src/server/python.sandbox.rs", "PythonSandbox");
    built(&project);
    fs_err::remove_file(project.path("src/server/python.sandbox.rs")).expect("it was there");
    project
}

#[test]
fn a_sandbox_is_removed_with_its_storage() {
    let project = without_python();
    let before = project.snapshot();
    let run = project.koze(&["remove", "python", "--delete-storage"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    assert_snapshot!(users_diff(&before, &project.snapshot()), @r#"
    --- a/wrangler.jsonc
    +++ b/wrangler.jsonc
    @@ -9,12 +9,6 @@
           "class_name": "ShellSandbox",
           "image": "docker.io/cloudflare/sandbox:0.12.10",
           "instance_type": "lite"
    -    },
    -    {
    -      "name": "python-sandbox",
    -      "class_name": "PythonSandbox",
    -      "image": "docker.io/cloudflare/sandbox:0.12.10",
    -      "instance_type": "lite"
         }
       ],
       "durable_objects": {
    @@ -22,10 +16,6 @@
           {
             "name": "SHELL_SANDBOX",
             "class_name": "ShellSandbox"
    -      },
    -      {
    -        "name": "PYTHON_SANDBOX",
    -        "class_name": "PythonSandbox"
           }
         ]
       },
    @@ -37,6 +27,10 @@
         {
           "tag": "v2",
           "new_sqlite_classes": ["PythonSandbox"]
    +    },
    +    {
    +      "tag": "v3",
    +      "deleted_classes": ["PythonSandbox"]
         }
       ]
     }
    "#);
    let lock = project.read("koze.lock");
    assert!(!lock.contains("[[sandbox]]\nname = \"python\""), "{lock}");
    assert!(built(&project).stdout.contains("nothing to do"));
}

#[test]
fn a_sandbox_is_removed_by_class() {
    let project = without_python();
    let run = project.koze(&["remove", "PythonSandbox", "--delete-storage"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(project.read("wrangler.jsonc").contains("\"deleted_classes\": [\"PythonSandbox\"]"));
}

#[test]
fn a_dry_run_deletes_nothing() {
    let project = without_python();
    let before = project.snapshot();
    let run = project.koze(&["remove", "python", "--delete-storage", "--dry-run"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stdout.contains("+      \"deleted_classes\": [\"PythonSandbox\"]"), "{}", run.stdout);
    assert_eq!(project.diff(&before), "");
}

/// Only the flags decide what happens to the storage.
#[test]
fn without_the_flag_it_is_a_usage_error() {
    let project = without_python();
    let before = project.snapshot();
    assert_eq!(project.koze(&["remove", "python"]).code, 2);
    assert_eq!(project.diff(&before), "");
}

#[test]
fn a_declared_sandbox_is_not_removed() {
    let project = crate::classes::built_shell();
    assert!(project.path(SHELL).exists());
    assert_snapshot!(refused_with(&project, &["remove", "shell", "--delete-storage"]), @"
    error[K059]: `shell` cannot be removed: `src/server/shell.sandbox.rs` declares it
     --> src/server/shell.sandbox.rs:4:12
      |
    4 | pub struct ShellSandbox;
      |            ^^^^^^^^^^^^
      |
      = help: koze does not delete source files: delete that file first, then run the command again

    1 error; nothing was written
    ");
}

#[test]
fn an_unknown_sandbox_is_not_removed() {
    let project = crate::classes::built_shell();
    assert_snapshot!(refused_with(&project, &["remove", "python", "--delete-storage"]), @"
    error[K059]: `python` cannot be removed: koze did not build it
     |
     = help: koze has built `shell`: use one of these names

    1 error; nothing was written
    ");
}

/// The last sandbox can be removed, too.
#[test]
fn the_last_sandbox() {
    let project = crate::classes::built_shell();
    fs_err::remove_file(project.path(SHELL)).expect("it was there");
    let run = project.koze(&["remove", "shell", "--delete-storage"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let before = project.snapshot();
    built(&project);
    assert_eq!(project.diff(&before), "");
}

#[test]
fn a_sandbox_is_removed_and_its_storage_is_kept() {
    let project = without_python();
    let before = project.snapshot();
    let run = project.koze(&["remove", "python", "--keep-storage"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    assert!(
        run.stdout.contains("removed the container of `PythonSandbox`: the class keeps its storage"),
        "{}",
        run.stdout
    );
    // Only the container is removed; binding and migrations are unchanged.
    assert_snapshot!(users_diff(&before, &project.snapshot()), @r#"
    --- a/wrangler.jsonc
    +++ b/wrangler.jsonc
    @@ -9,12 +9,6 @@
           "class_name": "ShellSandbox",
           "image": "docker.io/cloudflare/sandbox:0.12.10",
           "instance_type": "lite"
    -    },
    -    {
    -      "name": "python-sandbox",
    -      "class_name": "PythonSandbox",
    -      "image": "docker.io/cloudflare/sandbox:0.12.10",
    -      "instance_type": "lite"
         }
       ],
       "durable_objects": {
    "#);
    let worker = project.read("src/generated/worker.mjs");
    assert!(worker.contains("export class PythonSandbox extends KozeKept {}"), "{worker}");

    let run = project.koze(&["build", "--check"]);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);

    // Kept storage can be deleted later, by name or class.
    let kept = project.snapshot();
    let run = project.koze(&["remove", "PythonSandbox", "--delete-storage"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    assert_snapshot!(users_diff(&kept, &project.snapshot()), @r#"
    --- a/wrangler.jsonc
    +++ b/wrangler.jsonc
    @@ -16,10 +16,6 @@
           {
             "name": "SHELL_SANDBOX",
             "class_name": "ShellSandbox"
    -      },
    -      {
    -        "name": "PYTHON_SANDBOX",
    -        "class_name": "PythonSandbox"
           }
         ]
       },
    @@ -31,6 +27,10 @@
         {
           "tag": "v2",
           "new_sqlite_classes": ["PythonSandbox"]
    +    },
    +    {
    +      "tag": "v3",
    +      "deleted_classes": ["PythonSandbox"]
         }
       ]
     }
    "#);
}

#[test]
fn a_kept_class_is_a_sandbox_again_when_its_file_is_back() {
    let project = without_python();
    let lock = project.read("koze.lock");
    assert_eq!(project.koze(&["remove", "python", "--keep-storage"]).code, 0);
    plain(&project, "src/server/python.sandbox.rs", "PythonSandbox");
    built(&project);
    assert_eq!(project.read("koze.lock"), lock, "koze owns again what it owned before");
}

#[test]
fn the_treatment_of_the_storage_is_required() {
    let run = without_python().koze(&["remove", "python"]);
    assert_eq!(run.code, 2, "{}", run.stdout);
    assert!(run.stderr.contains("<--delete-storage|--keep-storage>"), "{}", run.stderr);
}

/// wrangler rejects a binding to a class that does not exist, so nothing is written until it is removed.
#[test]
fn a_second_binding_must_be_removed_first() {
    let project = without_python();
    let config = project.read("wrangler.jsonc");
    let alias = "\"bindings\": [\n      { \"name\": \"ALIAS\", \"class_name\": \"PythonSandbox\" },";
    project.write("wrangler.jsonc", config.replace("\"bindings\": [", alias));
    assert_snapshot!(refused_with(&project, &["remove", "python", "--delete-storage"]), @r#"
    error[K042]: the binding `ALIAS` refers to the class `PythonSandbox`, which no longer exists
      --> wrangler.jsonc:22:7
       |
    22 |       { "name": "ALIAS", "class_name": "PythonSandbox" },
       |       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
       |
       = help: Cloudflare rejects such a deployment: remove the entry, or give it another class

    1 error; nothing was written
    "#);
    // A kept class still exists and may have any number of bindings.
    assert_eq!(project.koze(&["remove", "python", "--keep-storage"]).code, 0);
}

#[test]
fn a_kept_class_is_exported_even_where_the_lock_is_lost() {
    let project = without_python();
    assert_eq!(project.koze(&["remove", "python", "--keep-storage"]).code, 0);
    let worker = project.read("src/generated/worker.mjs");
    fs_err::remove_file(project.path("koze.lock")).expect("it was there");
    assert_eq!(project.koze(&["build"]).code, 0);
    assert_eq!(project.read("src/generated/worker.mjs"), worker);
    let run = project.koze(&["remove", "PythonSandbox", "--delete-storage"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    assert!(!project.read("wrangler.jsonc").contains("PYTHON_SANDBOX"));
}

#[test]
fn a_deleted_sandbox_is_missed_even_where_the_lock_is_lost() {
    let project = without_python();
    fs_err::remove_file(project.path("koze.lock")).expect("it was there");
    let output = refused_with(&project, &["build"]);
    assert!(output.starts_with("error[K043]: `src/server/python.sandbox.rs` is gone"), "{output}");
    let run = project.koze(&["remove", "python", "--delete-storage"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    let config = project.read("wrangler.jsonc");
    assert!(!config.contains("PYTHON_SANDBOX") && !config.contains("python-sandbox"), "{config}");
}

/// A project with one sandbox, before and after another one was added whose file was deleted again.
fn with_a_second_one(config: Option<(&str, &str)>) -> (Project, Snapshot) {
    let project = package();
    if let Some((name, text)) = config {
        project.write(name, text);
    }
    plain(&project, SHELL, "ShellSandbox");
    built(&project);
    let before = project.snapshot();
    plain(&project, "src/server/python.sandbox.rs", "PythonSandbox");
    built(&project);
    fs_err::remove_file(project.path("src/server/python.sandbox.rs")).expect("it was there");
    (project, before)
}

/// Cloudflare rejects a first deployment that creates and deletes a class.
#[test]
fn a_sandbox_that_was_never_deployed() {
    let toml = "name = \"app\" # mine\r\nmain = \"src/generated/worker.mjs\"\r\ncompatibility_date = \"2026-04-21\"\r\n\r\n[env.staging]\r\n";
    let existing = koze_cli::wrangler::create::config("app");
    for config in [("wrangler.jsonc", existing.as_str()), ("wrangler.toml", toml)] {
        // Immediately, or after `--delete-storage`; by file name or by class.
        for (deleted, name) in
            [(false, "python"), (false, "PythonSandbox"), (true, "python"), (true, "PythonSandbox")]
        {
            let (project, before) = with_a_second_one(Some(config));
            if deleted {
                let run = project.koze(&["remove", "python", "--delete-storage"]);
                assert_eq!(run.code, 0, "{}", run.stderr);
                let says = "10074): run `koze remove PythonSandbox --never-deployed`";
                assert!(run.stdout.contains(says), "{}", run.stdout);
            }
            let run = project.koze(&["remove", name, "--never-deployed"]);
            assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{name}: {}", run.stdout);
            let says =
                "removed `PythonSandbox` from the migrations because you stated that it was never deployed";
            assert!(run.stdout.contains(says), "{}", run.stdout);
            assert_eq!(project.diff(&before), "", "{name}, deleted: {deleted}");
            assert!(built(&project).stdout.contains("nothing to do"));
        }
    }
}

/// A migration that other classes share loses only this class.
#[test]
fn a_never_deployed_class_in_a_shared_migration() {
    let project = package();
    existing_config(&project);
    for (file, class) in [("a", "A"), ("b", "B"), ("c", "C")] {
        plain(&project, &format!("src/{file}.sandbox.rs"), class);
    }
    built(&project);
    let migrations = |project: &Project| {
        let config = project.read("wrangler.jsonc");
        config[config.find("\"migrations\"").expect("it is there")..].split_whitespace().collect::<String>()
    };
    fs_err::remove_file(project.path("src/b.sandbox.rs")).expect("it was there");
    assert_eq!(project.koze(&["remove", "b", "--never-deployed"]).code, 0);
    assert_eq!(migrations(&project), r#""migrations":[{"tag":"v1","new_sqlite_classes":["A","C"]}]}"#);
    assert!(built(&project).stdout.contains("nothing to do"));
    // A shared deletion also loses only this class.
    for file in ["a", "c"] {
        fs_err::remove_file(project.path(format!("src/{file}.sandbox.rs"))).expect("it was there");
    }
    plain(&project, "src/d.sandbox.rs", "D");
    assert_eq!(project.koze(&["remove", "a", "c", "--delete-storage"]).code, 0);
    assert_eq!(project.koze(&["remove", "C", "--never-deployed"]).code, 0);
    let left = r#""migrations":[{"tag":"v1","new_sqlite_classes":["A"]},{"tag":"v2","deleted_classes":["A"],"new_sqlite_classes":["D"]}]}"#;
    assert_eq!(migrations(&project), left);
    assert!(built(&project).stdout.contains("nothing to do"));
}

#[test]
fn with_exports_a_never_deployed_class_leaves_no_tombstone() {
    let exports =
        ",\n  \"exports\": { \"Other\": { \"type\": \"durable-object\", \"storage\": \"sqlite\" } }\n}";
    let config = crate::common::BY_HAND.replace("\n}", exports);
    for deleted in [false, true] {
        let (project, before) = with_a_second_one(Some(("wrangler.jsonc", &config)));
        if deleted {
            assert_eq!(project.koze(&["remove", "python", "--delete-storage"]).code, 0);
        }
        let run = project.koze(&["remove", "python", "--never-deployed"]);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
        assert_eq!(project.diff(&before), "", "deleted: {deleted}");
    }
}

/// A sandbox whose class had two other names, in migrations that koze wrote.
fn renamed_twice() -> Project {
    let project = package();
    project.write("wrangler.jsonc", crate::common::BY_HAND);
    for class in ["ShellSandbox", "BashSandbox", "ZshSandbox"] {
        plain(&project, SHELL, class);
        built(&project);
    }
    project
}

/// The configuration is as it was before koze, without an empty `migrations`.
#[test]
fn a_renamed_class_that_was_never_deployed() {
    let project = renamed_twice();
    fs_err::remove_file(project.path(SHELL)).expect("it was there");
    let run = project.koze(&["remove", "ZshSandbox", "--never-deployed"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    assert_eq!(project.read("wrangler.jsonc"), crate::common::BY_HAND);
}

/// An empty list that the user wrote stays.
#[test]
fn an_empty_list_of_the_user_stays() {
    let project = package();
    let before = crate::common::BY_HAND.replace("\n}", ",\n  \"migrations\": []\n}");
    project.write("wrangler.jsonc", &before);
    plain(&project, SHELL, "ShellSandbox");
    built(&project);
    fs_err::remove_file(project.path(SHELL)).expect("it was there");
    let run = project.koze(&["remove", "shell", "--never-deployed"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    assert_eq!(project.read("wrangler.jsonc"), before);
}

/// Evidence that a class was deployed, or is not koze's, prevents its removal.
#[test]
fn a_class_that_may_have_been_deployed_is_kept() {
    let refused = |project: &Project, name: &str, why: &str| {
        let output = refused_with(project, &["remove", name, "--never-deployed"]);
        assert!(output.starts_with(&format!("error[K059]: `{name}` cannot be removed: {why}")), "{output}");
    };
    // The file still exists, the class is unknown, or its storage was kept.
    let project = without_python();
    refused(&project, "shell", "`src/server/shell.sandbox.rs` declares it");
    refused(&project, "ruby", "koze did not build it");
    assert_eq!(project.koze(&["remove", "python", "--keep-storage"]).code, 0);
    refused(&project, "python", "its storage was kept");
    // It was renamed by the user, or its former name is that of another class.
    let project = package();
    existing_config(&project);
    plain(&project, SHELL, "ShellSandbox");
    built(&project);
    let renamed = r#"{ "tag": "v2", "renamed_classes": [{ "from": "ShellSandbox", "to": "BashSandbox" }] }"#;
    let config = project.read("wrangler.jsonc");
    let at = config.rfind("\n  ]").expect("the end of the migrations");
    project.write("wrangler.jsonc", format!("{},\n    {renamed}{}", &config[..at], &config[at..]));
    plain(&project, SHELL, "BashSandbox");
    built(&project);
    fs_err::remove_file(project.path(SHELL)).expect("it was there");
    refused(&project, "BashSandbox", "koze did not write the migration `v2`");
    let project = renamed_twice();
    plain(&project, "src/server/other.sandbox.rs", "ShellSandbox");
    built(&project);
    fs_err::remove_file(project.path(SHELL)).expect("it was there");
    refused(&project, "ZshSandbox", "`v2` renames it, and its former name `ShellSandbox` is used again");
    // The container existed before koze.
    let project = package();
    plain(&project, SHELL, "ShellSandbox");
    project.write(
        "wrangler.jsonc",
        crate::common::BY_HAND
            .replace("\n}", ",\n  \"containers\": [{ \"class_name\": \"ShellSandbox\" }]\n}"),
    );
    built(&project);
    fs_err::remove_file(project.path(SHELL)).expect("it was there");
    refused(&project, "shell", "koze took its container over");
    // The migration may not be koze's: the lock was lost.
    let project = without_python();
    fs_err::remove_file(project.path("koze.lock")).expect("it was there");
    refused(&project, "PythonSandbox", "koze did not write the migration `v2`");
}
