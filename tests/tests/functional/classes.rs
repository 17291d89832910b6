//! Changes of classes, and what happens to their storage.

use insta::assert_snapshot;
use koze_tests::Project;

use crate::common::{BY_HAND, SHELL, built, built_diff, plain, refused, sandbox, shell, warned};

/// A project that was built with one sandbox.
pub(crate) fn built_shell() -> Project {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    project.write("wrangler.jsonc", BY_HAND);
    built(&project);
    project
}

fn remove(project: &Project, file: &str) {
    fs_err::remove_file(project.path(file)).expect("the file was there");
}

#[test]
fn a_struct_renamed_in_its_file_keeps_its_storage() {
    let project = built_shell();
    plain(&project, SHELL, "BashSandbox");
    assert_snapshot!(built_diff(&project), @r#"
    --- a/wrangler.jsonc
    +++ b/wrangler.jsonc
    @@ -6,7 +6,7 @@
       "containers": [
         {
           "name": "shell-sandbox",
    -      "class_name": "ShellSandbox",
    +      "class_name": "BashSandbox",
           "image": "docker.io/cloudflare/sandbox:0.12.10",
           "instance_type": "lite"
         }
    @@ -15,7 +15,7 @@
         "bindings": [
           {
             "name": "SHELL_SANDBOX",
    -        "class_name": "ShellSandbox"
    +        "class_name": "BashSandbox"
           }
         ]
       },
    @@ -23,6 +23,15 @@
         {
           "tag": "v1",
           "new_sqlite_classes": ["ShellSandbox"]
    +    },
    +    {
    +      "tag": "v2",
    +      "renamed_classes": [
    +        {
    +          "from": "ShellSandbox",
    +          "to": "BashSandbox"
    +        }
    +      ]
         }
       ]
     }
    "#);
}

#[test]
fn a_struct_renamed_in_another_file_needs_renamed_from() {
    let project = built_shell();
    remove(&project, SHELL);
    sandbox(
        &project,
        "src/server/bash.sandbox.rs",
        "#[sandbox(renamed_from = \"ShellSandbox\")]\npub struct BashSandbox;",
    );
    assert_snapshot!(built_diff(&project), @r#"
    --- a/wrangler.jsonc
    +++ b/wrangler.jsonc
    @@ -6,7 +6,7 @@
       "containers": [
         {
           "name": "shell-sandbox",
    -      "class_name": "ShellSandbox",
    +      "class_name": "BashSandbox",
           "image": "docker.io/cloudflare/sandbox:0.12.10",
           "instance_type": "lite"
         }
    @@ -14,8 +14,8 @@
       "durable_objects": {
         "bindings": [
           {
    -        "name": "SHELL_SANDBOX",
    -        "class_name": "ShellSandbox"
    +        "name": "BASH_SANDBOX",
    +        "class_name": "BashSandbox"
           }
         ]
       },
    @@ -23,6 +23,15 @@
         {
           "tag": "v1",
           "new_sqlite_classes": ["ShellSandbox"]
    +    },
    +    {
    +      "tag": "v2",
    +      "renamed_classes": [
    +        {
    +          "from": "ShellSandbox",
    +          "to": "BashSandbox"
    +        }
    +      ]
         }
       ]
     }
    "#);
    assert_snapshot!(warned(&project), @r#"
    warning[K050]: `renamed_from = "ShellSandbox"` has no effect: the class already exists
     --> src/server/bash.sandbox.rs:3:26
      |
    3 | #[sandbox(renamed_from = "ShellSandbox")]
      |                          ^^^^^^^^^^^^^^
      |
      = help: remove the key

    1 warning
    "#);
}

#[test]
fn renamed_from_an_unknown_class() {
    let project = shell("#[sandbox(renamed_from = \"OldSandbox\")]\npub struct ShellSandbox;");
    assert_snapshot!(warned(&project), @r#"
    warning[K050]: `renamed_from = "OldSandbox"` has no effect: no class of that name exists
     --> src/server/shell.sandbox.rs:3:26
      |
    3 | #[sandbox(renamed_from = "OldSandbox")]
      |                          ^^^^^^^^^^^^
      |
      = help: remove the key

    1 warning
    "#);
}

#[test]
fn renamed_from_a_declared_class() {
    let project = built_shell();
    sandbox(
        &project,
        "src/server/bash.sandbox.rs",
        "#[sandbox(renamed_from = \"ShellSandbox\")]\npub struct BashSandbox;",
    );
    assert_snapshot!(refused(&project), @r#"
    error[K042]: `BashSandbox` cannot be renamed from `ShellSandbox`, which is also declared
     --> src/server/bash.sandbox.rs:3:26
      |
    3 | #[sandbox(renamed_from = "ShellSandbox")]
      |                          ^^^^^^^^^^^^^^
      |
      = help: remove `renamed_from` or the other declaration

    1 error; nothing was written
    "#);
}

#[test]
fn two_sandboxes_renamed_from_one() {
    let project = built_shell();
    remove(&project, SHELL);
    for (file, class) in [("src/a.sandbox.rs", "A"), ("src/b.sandbox.rs", "B")] {
        sandbox(&project, file, &format!("#[sandbox(renamed_from = \"ShellSandbox\")]\npub struct {class};"));
    }
    assert_snapshot!(refused(&project), @r#"
    error[K042]: two sandboxes are renamed from `ShellSandbox`
     --> src/b.sandbox.rs:3:26
      |
    3 | #[sandbox(renamed_from = "ShellSandbox")]
      |                          ^^^^^^^^^^^^^^
      |
      = help: its storage can have only one name: remove `renamed_from` from one of them

    1 error; nothing was written
    "#);
}

/// wrangler identifies the application by name, so the name is kept.
#[test]
fn a_file_that_moved_changes_its_binding_and_keeps_its_container() {
    let project = built_shell();
    remove(&project, SHELL);
    plain(&project, "src/server/bash.sandbox.rs", "ShellSandbox");
    assert_snapshot!(built_diff(&project), @r#"
    --- a/wrangler.jsonc
    +++ b/wrangler.jsonc
    @@ -14,7 +14,7 @@
       "durable_objects": {
         "bindings": [
           {
    -        "name": "SHELL_SANDBOX",
    +        "name": "BASH_SANDBOX",
             "class_name": "ShellSandbox"
           }
         ]
    "#);
}

/// The directory is not part of any name, so the user's files do not change.
#[test]
fn moving_a_file_to_another_directory_changes_no_user_file() {
    let project = built_shell();
    remove(&project, SHELL);
    plain(&project, "src/shell.sandbox.rs", "ShellSandbox");
    assert_eq!(built_diff(&project), "");
    let lock = project.read("koze.lock");
    assert!(lock.contains("file = \"src/shell.sandbox.rs\""), "{lock}");
}

#[test]
fn a_deleted_file_stops_the_build() {
    let project = built_shell();
    remove(&project, SHELL);
    assert_snapshot!(refused(&project), @r#"
    error[K043]: `src/server/shell.sandbox.rs` is gone, but its class `ShellSandbox` still has storage
      --> wrangler.jsonc:23:5
       |
    23 | /     {
    24 | |       "tag": "v1",
    25 | |       "new_sqlite_classes": ["ShellSandbox"]
    26 | |     }
       | |_____^
       |
       = help: a build never deletes storage: restore the file, or run `koze remove shell` with `--keep-storage` or `--delete-storage`

    1 error; nothing was written
    "#);
    plain(&project, SHELL, "ShellSandbox");
    assert!(built(&project).stdout.contains("nothing to do"), "restoring the file is a way on");
}

#[test]
fn a_deleted_file_among_others_stops_the_build() {
    let project = built_shell();
    plain(&project, "src/server/python.sandbox.rs", "PythonSandbox");
    built(&project);
    remove(&project, SHELL);
    assert_snapshot!(refused(&project), @r#"
    error[K043]: `src/server/shell.sandbox.rs` is gone, but its class `ShellSandbox` still has storage
      --> wrangler.jsonc:33:5
       |
    33 | /     {
    34 | |       "tag": "v1",
    35 | |       "new_sqlite_classes": ["ShellSandbox"]
    36 | |     },
       | |_____^
       |
       = help: a build never deletes storage: restore the file, or run `koze remove shell` with `--keep-storage` or `--delete-storage`

    1 error; nothing was written
    "#);
}

#[test]
fn a_deleted_file_and_a_new_class_are_ambiguous() {
    let project = built_shell();
    remove(&project, SHELL);
    plain(&project, "src/server/python.sandbox.rs", "PythonSandbox");
    assert_snapshot!(refused(&project), @r#"
    error[K044]: the class `ShellSandbox`, which was in `src/server/shell.sandbox.rs` and has storage, is no longer declared, and koze cannot tell which class replaced it
      --> wrangler.jsonc:23:5
       |
    23 | /     {
    24 | |       "tag": "v1",
    25 | |       "new_sqlite_classes": ["ShellSandbox"]
    26 | |     }
       | |_____^
       |
      ::: src/server/python.sandbox.rs:4:12
       |
     4 |   pub struct PythonSandbox;
       |              ------------- perhaps this one
       |
       = help: if the class was renamed, write `#[sandbox(renamed_from = "ShellSandbox")]` on `PythonSandbox`; otherwise restore the file, or run `koze remove shell` with `--keep-storage` or `--delete-storage`

    1 error; nothing was written
    "#);
}

/// If the class was never deployed, its migration and lock entry can be removed by hand, and nothing is lost.
#[test]
fn a_class_without_storage_is_removed_with_its_file() {
    let project = built_shell();
    plain(&project, "src/server/python.sandbox.rs", "PythonSandbox");
    built(&project);
    remove(&project, "src/server/python.sandbox.rs");
    let config = project.read("wrangler.jsonc");
    let v2 = config.find(",\n    {\n      \"tag\": \"v2\"").expect("the second migration");
    let end = config[v2..].find("}\n").expect("its end") + v2 + 1;
    let mended = format!("{}{}", &config[..v2], &config[end..]);
    project.write("wrangler.jsonc", mended);
    let lock = project.read("koze.lock");
    let tag = lock.rfind("[[migration]]").expect("its lock entry");
    project.write("koze.lock", &lock[..tag]);
    assert_snapshot!(built_diff(&project), @r#"
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
    "#);
}

/// wrangler calls an unnamed container `<worker>-<class>` in lower case. With the new class that would be another
/// application, so the current name is written.
#[test]
fn an_unnamed_container_of_a_renamed_class_keeps_its_application() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    let containers = r#""containers": [{ "class_name": "ShellSandbox", "image": "docker.io/cloudflare/sandbox:0.12.10" }]"#;
    project.write("wrangler.jsonc", BY_HAND.replace("\n}", &format!(",\n  {containers}\n}}")));
    built(&project);
    plain(&project, SHELL, "BashSandbox");
    built(&project);
    let config = project.read("wrangler.jsonc");
    assert!(config.contains("\"name\": \"app-shellsandbox\""), "{config}");
    assert!(built(&project).stdout.contains("nothing to do"));
}
