//! Names that two sandboxes share.

use insta::assert_snapshot;

use crate::common::{package, plain, refused, sandbox};

#[test]
fn two_files_with_the_same_binding() {
    let project = package();
    plain(&project, "src/server/a-b.sandbox.rs", "One");
    plain(&project, "src/server/a_b.sandbox.rs", "Two");
    assert_snapshot!(refused(&project), @"
    error[K025]: two sandboxes have the binding `A_B_SANDBOX`
     --> src/server/a_b.sandbox.rs:4:12
      |
    4 | pub struct Two;
      |            ^^^
      |
     ::: src/server/a-b.sandbox.rs:4:12
      |
    4 | pub struct One;
      |            --- first here
      |
      = help: it follows from both file names: rename one of the files

    1 error; nothing was written
    ");
}

#[test]
fn two_directories_with_the_same_file_name() {
    let project = package();
    plain(&project, "src/one/shell.sandbox.rs", "One");
    plain(&project, "src/two/shell.sandbox.rs", "Two");
    assert_snapshot!(refused(&project), @"
    error[K025]: two sandboxes have the binding `SHELL_SANDBOX`
     --> src/two/shell.sandbox.rs:4:12
      |
    4 | pub struct Two;
      |            ^^^
      |
     ::: src/one/shell.sandbox.rs:4:12
      |
    4 | pub struct One;
      |            --- first here
      |
      = help: it follows from both file names: rename one of the files

    1 error; nothing was written
    ");
}

#[test]
fn two_files_with_the_same_class() {
    let project = package();
    plain(&project, "src/server/a.sandbox.rs", "ShellSandbox");
    plain(&project, "src/server/b.sandbox.rs", "ShellSandbox");
    assert_snapshot!(refused(&project), @"
    error[K025]: two sandboxes have the class `ShellSandbox`
     --> src/server/b.sandbox.rs:4:12
      |
    4 | pub struct ShellSandbox;
      |            ^^^^^^^^^^^^
      |
     ::: src/server/a.sandbox.rs:4:12
      |
    4 | pub struct ShellSandbox;
      |            ------------ first here
      |
      = help: a Durable Object class must be unique in a Worker: rename one of the structs

    1 error; nothing was written
    ");
}

#[test]
fn two_files_with_the_same_container() {
    let project = package();
    plain(&project, "src/server/a.sandbox.rs", "A");
    sandbox(&project, "src/server/b.sandbox.rs", "#[sandbox(name = \"a-sandbox\")]\npub struct B;");
    assert_snapshot!(refused(&project), @r#"
    error[K025]: two sandboxes have the container name `a-sandbox`
     --> src/server/b.sandbox.rs:3:18
      |
    3 | #[sandbox(name = "a-sandbox")]
      |                  ^^^^^^^^^^^
      |
     ::: src/server/a.sandbox.rs:4:12
      |
    4 | pub struct A;
      |            - first here
      |
      = help: an application's name must be unique in the account: give one of them another `name`

    1 error; nothing was written
    "#);
}

#[test]
fn two_defaults() {
    let project = package();
    sandbox(&project, "src/server/a.sandbox.rs", "#[sandbox(default)]\npub struct A;");
    sandbox(&project, "src/server/b.sandbox.rs", "#[sandbox(default)]\npub struct B;");
    assert_snapshot!(refused(&project), @"
    error[K026]: `B` is the second sandbox with `default`, after `A`
     --> src/server/b.sandbox.rs:3:11
      |
    3 | #[sandbox(default)]
      |           ^^^^^^^
      |
     ::: src/server/a.sandbox.rs:3:11
      |
    3 | #[sandbox(default)]
      |           ------- the first one
      |
      = help: only one sandbox can be the default: remove `default` from the others

    1 error; nothing was written
    ");
}
