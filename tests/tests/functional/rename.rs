//! `koze rename`.

use insta::assert_snapshot;
use koze_tests::Project;

use crate::common::{
    SHELL, built, existing_config, package, plain, refused_with, sandbox, shell, users_diff,
};

fn built_shell() -> Project {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    existing_config(&project);
    built(&project);
    project
}

/// Renames, which must succeed, and returns the diff of the user's files.
fn renamed(project: &Project, old: &str, new: &str) -> String {
    let before = project.snapshot();
    let run = project.koze(&["rename", old, new]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    let diff = users_diff(&before, &project.snapshot());
    assert!(built(project).stdout.contains("nothing to do"));
    diff
}

#[test]
fn a_file_and_its_derived_class() {
    let project = built_shell();
    assert_snapshot!(renamed(&project, "shell", "bash"), @r#"
    --- /dev/null
    +++ b/src/server/bash.sandbox.rs
    @@ -0,0 +1,4 @@
    +use koze::prelude::*;
    +
    +#[sandbox]
    +pub struct BashSandbox;
    --- a/src/server/shell.sandbox.rs
    +++ /dev/null
    @@ -1,4 +0,0 @@
    -use koze::prelude::*;
    -
    -#[sandbox]
    -pub struct ShellSandbox;
    --- a/wrangler.jsonc
    +++ b/wrangler.jsonc
    @@ -11,7 +11,7 @@
       "containers": [
         {
           "name": "shell-sandbox",
    -      "class_name": "ShellSandbox",
    +      "class_name": "BashSandbox",
           "image": "docker.io/cloudflare/sandbox:0.12.10",
           "instance_type": "lite"
         }
    @@ -19,8 +19,8 @@
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
    @@ -28,6 +28,15 @@
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
    // wrangler identifies the application by name, so it is kept.
    assert!(project.read("koze.lock").contains("container = \"shell-sandbox\""));
}

#[test]
fn only_the_class() {
    let project = built_shell();
    sandbox(
        &project,
        SHELL,
        "#[sandbox]\npub struct ShellSandbox;\n\n// ShellSandbox has more.\nimpl ShellSandbox {}",
    );
    assert_snapshot!(renamed(&project, "ShellSandbox", "Terminal"), @r#"
    --- a/src/server/shell.sandbox.rs
    +++ b/src/server/shell.sandbox.rs
    @@ -1,7 +1,7 @@
     use koze::prelude::*;
     
     #[sandbox]
    -pub struct ShellSandbox;
    +pub struct Terminal;
     
     // ShellSandbox has more.
    -impl ShellSandbox {}
    +impl Terminal {}
    --- a/wrangler.jsonc
    +++ b/wrangler.jsonc
    @@ -11,7 +11,7 @@
       "containers": [
         {
           "name": "shell-sandbox",
    -      "class_name": "ShellSandbox",
    +      "class_name": "Terminal",
           "image": "docker.io/cloudflare/sandbox:0.12.10",
           "instance_type": "lite"
         }
    @@ -20,7 +20,7 @@
         "bindings": [
           {
             "name": "SHELL_SANDBOX",
    -        "class_name": "ShellSandbox"
    +        "class_name": "Terminal"
           }
         ]
       },
    @@ -28,6 +28,15 @@
         {
           "tag": "v1",
           "new_sqlite_classes": ["ShellSandbox"]
    +    },
    +    {
    +      "tag": "v2",
    +      "renamed_classes": [
    +        {
    +          "from": "ShellSandbox",
    +          "to": "Terminal"
    +        }
    +      ]
         }
       ]
     }
    "#);
}

#[test]
fn a_custom_class_name_is_kept_when_the_file_is_renamed() {
    let project = shell("#[sandbox]\npub struct Terminal;");
    built(&project);
    let diff = renamed(&project, "Terminal", "bash");
    assert!(!diff.contains("renamed_classes") && diff.contains("BASH_SANDBOX"), "{diff}");
}

/// The Dockerfile's name selects the image.
#[test]
fn the_dockerfile_is_renamed_with_the_sandbox() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    let dockerfile = b"FROM docker.io/cloudflare/sandbox:0.12.10\n# \xff\n";
    project.write("src/server/shell.Dockerfile", dockerfile);
    built(&project);
    renamed(&project, "shell", "bash");
    assert!(!project.path("src/server/shell.Dockerfile").exists());
    assert_eq!(fs_err::read(project.path("src/server/bash.Dockerfile")).expect("it moved"), dockerfile);
    assert!(project.read("wrangler.jsonc").contains("./src/server/bash.Dockerfile"));
}

#[test]
fn a_dockerfile_that_another_sandbox_uses() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    sandbox(
        &project,
        "src/server/zsh.sandbox.rs",
        "#[sandbox(image = \"./shell.Dockerfile\")]\npub struct Zsh;",
    );
    project.write("src/server/shell.Dockerfile", "FROM docker.io/cloudflare/sandbox:0.12.10\n");
    built(&project);
    assert_snapshot!(refused_with(&project, &["rename", "shell", "bash"]), @r#"
    error[K016]: the file `./shell.Dockerfile` does not exist
     --> src/server/zsh.sandbox.rs:3:19
      |
    3 | #[sandbox(image = "./shell.Dockerfile")]
      |                   ^^^^^^^^^^^^^^^^^^^^
      |
      = help: paths are relative to the source file: create the Dockerfile in `src/server`, or correct the path

    1 error; nothing was written
    "#);
}

#[test]
fn mentions_of_the_old_name_are_listed() {
    let project = built_shell();
    project.write("src/lib.rs", "mod generated;\nfn f(env: generated::Env) {\n    env.shell_sandbox().get(\"SHELL_SANDBOX\");\n    let a: ShellSandboxes; // shell\n}\n");
    let run = project.koze(&["rename", "shell", "bash"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_snapshot!(run.stdout, @r#"
    1 sandbox in wrangler.jsonc, SDK 0.12.10 from package.json
      src/server/bash.sandbox.rs  BashSandbox  BASH_SANDBOX  docker.io/cloudflare/sandbox:0.12.10
    renamed the class `ShellSandbox` to `BashSandbox`: it keeps its storage
    created src/server/bash.sandbox.rs
    removed src/server/shell.sandbox.rs
    updated wrangler.jsonc
    updated src/generated/mod.rs
    updated src/generated/env.rs
    updated src/generated/tools.rs
    updated src/generated/tools.json
    updated src/generated/worker.mjs
    updated src/generated/worker.d.mts
    updated koze.lock
    next: change these lines, which use `ShellSandbox`, `shell_sandbox`, `SHELL_SANDBOX`, `generated::shell` and `Profile::Shell`
      src/lib.rs:3: env.shell_sandbox().get("SHELL_SANDBOX");
    "#);
}

/// With two renames to new files, a build could not tell which is which, but the command can.
#[test]
fn with_other_new_sandboxes() {
    let project = built_shell();
    plain(&project, "src/server/python.sandbox.rs", "PythonSandbox");
    let diff = renamed(&project, "shell", "bash");
    assert!(diff.contains("\"new_sqlite_classes\": [\"PythonSandbox\"]"), "{diff}");
    assert!(diff.contains("\"from\": \"ShellSandbox\""), "{diff}");
}

#[test]
fn a_sandbox_that_was_never_built() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    let diff = renamed(&project, "shell", "bash");
    assert!(diff.contains("BashSandbox") && !diff.contains("renamed_classes"), "{diff}");
}

#[test]
fn byte_order_mark_and_line_endings_are_kept() {
    let project = package();
    project.write(SHELL, "\u{feff}use koze::prelude::*;\r\n\r\n#[sandbox]\r\npub struct ShellSandbox;\r\n");
    built(&project);
    renamed(&project, "shell", "bash");
    assert_eq!(
        project.read("src/server/bash.sandbox.rs"),
        "\u{feff}use koze::prelude::*;\r\n\r\n#[sandbox]\r\npub struct BashSandbox;\r\n"
    );
}

#[test]
fn an_unknown_sandbox() {
    assert_snapshot!(refused_with(&built_shell(), &["rename", "bash", "zsh"]), @"
    error[K065]: there is no sandbox `bash`
     |
     = help: use the name of a file or a class: the files are those of `shell`

    1 error; nothing was written
    ");
    assert_snapshot!(refused_with(&package(), &["rename", "bash", "zsh"]), @"
    error[K065]: there is no sandbox `bash`
     |
     = help: the project has no sandboxes: create one with `koze add shell`

    1 error; nothing was written
    ");
}

#[test]
fn invalid_names() {
    let project = built_shell();
    assert_snapshot!(refused_with(&project, &["rename", "shell", "My Shell"]), @"
    error[K067]: `My Shell` is not a valid sandbox name
     |
     = help: a sandbox has the name of its file without `.sandbox.rs`, which must match `[a-z][a-z0-9]*([-_][a-z0-9]+)*` and be a valid module name, such as `my-shell`; `koze rename` also takes the name of a struct, in upper camel case

    1 error; nothing was written
    ");
    assert_snapshot!(refused_with(&project, &["rename", "shell", "Sandbox"]), @"
    error[K009]: `Sandbox` cannot be the class of a sandbox: the name is a name that the generated code uses itself
     |
     = help: rename the struct, for example to `ShellSandbox`

    1 error; nothing was written
    ");
    for name in ["../x", "self", "Terminal::X", "", "-x"] {
        let before = project.snapshot();
        let run = project.koze(&["rename", "shell", name]);
        assert!((1..=2).contains(&run.code), "{name}: {run:?}");
        assert_eq!(project.diff(&before), "", "{name}");
    }
}

#[test]
fn a_name_in_use() {
    let project = built_shell();
    plain(&project, "src/server/bash.sandbox.rs", "BashSandbox");
    built(&project);
    assert_snapshot!(refused_with(&project, &["rename", "shell", "bash"]), @"
    error[K064]: `src/server/bash.sandbox.rs` already exists
     |
     = help: choose another name for the sandbox, or edit that file

    1 error; nothing was written
    ");
    assert_snapshot!(refused_with(&project, &["rename", "shell", "BashSandbox"]), @"
    error[K025]: two sandboxes have the class `BashSandbox`
     --> src/server/shell.sandbox.rs:4:12
      |
    4 | pub struct BashSandbox;
      |            ^^^^^^^^^^^
      |
     ::: src/server/bash.sandbox.rs:4:12
      |
    4 | pub struct BashSandbox;
      |            ----------- first here
      |
      = help: a Durable Object class must be unique in a Worker: rename one of the structs

    1 error; nothing was written
    ");
}

#[test]
fn in_every_environment() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    project.write(
        "wrangler.jsonc",
        "{\n  \"name\": \"app\",\n  \"main\": \"src/generated/worker.mjs\",\n  \"env\": { \"a\": { \"migrations\": [] } }\n}\n",
    );
    built(&project);
    let diff = renamed(&project, "shell", "bash");
    assert_eq!(diff.matches("renamed_classes").count(), 2, "{diff}");
}

/// A linked file is edited in place; a renamed file replaces the link, not its target.
#[test]
fn a_linked_file() {
    let project = package();
    project.write("shared/shell.rs", "use koze::prelude::*;\n\n#[sandbox]\npub struct ShellSandbox;\n");
    fs_err::create_dir(project.path("src/server")).expect("a directory");
    fs_err::os::unix::fs::symlink("../../shared/shell.rs", project.path(SHELL)).expect("a link");
    built(&project);
    renamed(&project, "ShellSandbox", "Terminal");
    assert!(project.read("shared/shell.rs").contains("pub struct Terminal;"));
    assert!(project.path(SHELL).is_symlink());
    renamed(&project, "shell", "bash");
    assert!(project.path("shared/shell.rs").exists() && !project.path(SHELL).is_symlink());
}

/// The sandbox directory may be a link to another one in the package.
#[test]
fn in_a_linked_directory() {
    let project = package();
    plain(&project, "src/zz/shell.sandbox.rs", "ShellSandbox");
    fs_err::os::unix::fs::symlink("zz", project.path("src/server")).expect("a link");
    built(&project);
    renamed(&project, "shell", "bash");
    assert!(
        project.path("src/zz/bash.sandbox.rs").exists() && !project.path("src/zz/shell.sandbox.rs").exists()
    );
}
