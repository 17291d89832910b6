//! Hand-written entries that contradict a sandbox: both locations are shown, and nothing is written.

use insta::assert_snapshot;

use crate::common::refused;
use crate::ownership::beside;

#[test]
fn a_binding_of_another_class() {
    let property =
        r#""durable_objects": { "bindings": [{ "name": "SHELL_SANDBOX", "class_name": "Counter" }] }"#;
    assert_snapshot!(refused(&beside("#[sandbox]", property)), @r#"
    error[K042]: the binding `SHELL_SANDBOX` has the class `Counter`
     --> wrangler.jsonc:6:37
      |
    6 |   "durable_objects": { "bindings": [{ "name": "SHELL_SANDBOX", "class_name": "Counter" }] }
      |                                     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      |
     ::: src/server/shell.sandbox.rs:4:12
      |
    4 | pub struct ShellSandbox;
      |            ------------ the sandbox
      |
      = help: `src/server/shell.sandbox.rs` gives this binding to `ShellSandbox`: rename the file, or the binding

    1 error; nothing was written
    "#);
}

#[test]
fn a_binding_of_another_worker() {
    let property = r#""durable_objects": {
    "bindings": [
      { "name": "SHELL_SANDBOX", "class_name": "ShellSandbox", "script_name": "other" }
    ]
  }"#;
    assert_snapshot!(refused(&beside("#[sandbox]", property)), @r#"
    error[K042]: the binding `SHELL_SANDBOX` belongs to another Worker
     --> wrangler.jsonc:8:79
      |
    8 |       { "name": "SHELL_SANDBOX", "class_name": "ShellSandbox", "script_name": "other" }
      |                                                                               ^^^^^^^
      |
     ::: src/server/shell.sandbox.rs:4:12
      |
    4 | pub struct ShellSandbox;
      |            ------------ the sandbox
      |
      = help: the class of a sandbox is in this Worker: remove `script_name`

    1 error; nothing was written
    "#);
}

/// The name of the binding does not matter: one class name cannot refer to two classes.
#[test]
fn a_class_of_another_worker() {
    let property = r#""durable_objects": {
    "bindings": [
      { "name": "SHELL_SANDBOX", "class_name": "ShellSandbox" },
      { "name": "THEIRS", "class_name": "ShellSandbox", "script_name": "other" }
    ]
  }"#;
    assert_snapshot!(refused(&beside("#[sandbox]", property)), @r#"
    error[K042]: the binding `THEIRS` has the class `ShellSandbox` of another Worker, `other`
     --> wrangler.jsonc:9:72
      |
    9 |       { "name": "THEIRS", "class_name": "ShellSandbox", "script_name": "other" }
      |                                                                        ^^^^^^^
      |
     ::: src/server/shell.sandbox.rs:4:12
      |
    4 | pub struct ShellSandbox;
      |            ------------ the sandbox
      |
      = help: the class of a sandbox is in this Worker: remove `script_name`, or rename the struct in `src/server/shell.sandbox.rs` if you mean the class of `other`

    1 error; nothing was written
    "#);
    // The same applies in an environment.
    let property = r#""env": { "a": { "durable_objects": {
    "bindings": [{ "name": "THEIRS", "class_name": "ShellSandbox", "script_name": "other" }] } } }"#;
    assert!(refused(&beside("#[sandbox]", property)).starts_with("error[K042]: the binding `THEIRS`"));
    // Other classes of that Worker do not matter.
    let property = r#""durable_objects": {
    "bindings": [{ "name": "THEIRS", "class_name": "Other", "script_name": "other" }] }"#;
    assert_eq!(beside("#[sandbox]", property).koze(&["build"]).code, 0);

    let property = r#""durable_objects": {
    "bindings": [{ "name": "THEIRS", "class_name": "KozeSessions", "script_name": "other" }] }"#;
    let project = beside("#[sandbox]", property);
    let manifest = project.read("Cargo.toml");
    project.write("Cargo.toml", format!("{manifest}\n[package.metadata.koze]\nregistry = true\n"));
    assert_snapshot!(refused(&project), @r#"
    error[K042]: this binding has the class `KozeSessions` of another Worker, `other`
     --> wrangler.jsonc:7:83
      |
    7 |     "bindings": [{ "name": "THEIRS", "class_name": "KozeSessions", "script_name": "other" }] }
      |                                                                                   ^^^^^^^
      |
      = help: the class of the registry is in this Worker: remove `script_name`, or `registry = true` from `Cargo.toml`

    1 error; nothing was written
    "#);
}

#[test]
fn an_image_that_contradicts_the_attribute() {
    let property =
        r#""containers": [{ "class_name": "ShellSandbox", "image": "registry.example.com/ours:1" }]"#;
    assert_snapshot!(refused(&beside("#[sandbox(image = \"docker.io/x/y:2\")]", property)), @r#"
    error[K042]: `image` is "registry.example.com/ours:1" here, but "docker.io/x/y:2" in `src/server/shell.sandbox.rs`
     --> wrangler.jsonc:6:59
      |
    6 |   "containers": [{ "class_name": "ShellSandbox", "image": "registry.example.com/ours:1" }]
      |                                                           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      |
     ::: src/server/shell.sandbox.rs:4:12
      |
    4 | pub struct ShellSandbox;
      |            ------------ the sandbox
      |
      = help: koze adopts matching entries only: make both the same, or remove `image` from one of them

    1 error; nothing was written
    "#);
}

#[test]
fn an_image_that_contradicts_the_dockerfile() {
    let property =
        r#""containers": [{ "class_name": "ShellSandbox", "image": "registry.example.com/ours:1" }]"#;
    let project = beside("#[sandbox]", property);
    project.write("src/server/shell.Dockerfile", "FROM docker.io/cloudflare/sandbox:0.12.10\n");
    assert_snapshot!(refused(&project), @r#"
    error[K042]: `image` is "registry.example.com/ours:1" here, but "./src/server/shell.Dockerfile" in `src/server/shell.sandbox.rs`
     --> wrangler.jsonc:6:59
      |
    6 |   "containers": [{ "class_name": "ShellSandbox", "image": "registry.example.com/ours:1" }]
      |                                                           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      |
     ::: src/server/shell.sandbox.rs:4:12
      |
    4 | pub struct ShellSandbox;
      |            ------------ the sandbox
      |
      = help: koze adopts matching entries only: make both the same, or remove `image` from one of them; the Dockerfile next to the sandbox takes precedence

    1 error; nothing was written
    "#);
}

#[test]
fn a_limit_that_contradicts_the_attribute() {
    let property = r#""containers": [{ "class_name": "ShellSandbox", "image": "docker.io/cloudflare/sandbox:0.12.10", "max_instances": 3 }]"#;
    assert_snapshot!(refused(&beside("#[sandbox(max_instances = 10)]", property)), @r#"
    error[K042]: `max_instances` is 3 here, but 10 in `src/server/shell.sandbox.rs`
     --> wrangler.jsonc:6:116
      |
    6 | ...oudflare/sandbox:0.12.10", "max_instances": 3 }]
      |                                                ^
      |
     ::: src/server/shell.sandbox.rs:4:12
      |
    4 | pub struct ShellSandbox;
      |            ------------ the sandbox
      |
      = help: koze adopts matching entries only: make both the same, or remove `max_instances` from one of them

    1 error; nothing was written
    "#);
}

#[test]
fn two_containers_of_one_class() {
    let property = r#""containers": [
    { "class_name": "ShellSandbox", "image": "docker.io/cloudflare/sandbox:0.12.10" },
    { "class_name": "ShellSandbox", "image": "docker.io/cloudflare/sandbox:0.12.9" }
  ]"#;
    assert_snapshot!(refused(&beside("#[sandbox]", property)), @r#"
    error[K042]: two containers have the class `ShellSandbox`
     --> wrangler.jsonc:8:5
      |
    8 |     { "class_name": "ShellSandbox", "image": "docker.io/cloudflare/sandbox:0.12.9" }
      |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      |
     ::: src/server/shell.sandbox.rs:4:12
      |
    4 | pub struct ShellSandbox;
      |            ------------ the sandbox
      |
      = help: a class has one container: remove one of them

    1 error; nothing was written
    "#);
}

#[test]
fn a_container_of_another_class_with_the_same_name() {
    let property =
        r#""containers": [{ "name": "shell-sandbox", "class_name": "Counter", "image": "docker.io/x/y:1" }]"#;
    assert_snapshot!(refused(&beside("#[sandbox]", property)), @r#"
    error[K025]: two sandboxes have the container name `shell-sandbox`
     --> src/server/shell.sandbox.rs:4:12
      |
    4 | pub struct ShellSandbox;
      |            ^^^^^^^^^^^^
      |
     ::: wrangler.jsonc:6:18
      |
    6 | ...: [{ "name": "shell-sandbox", "class_name": "Counter", "image": "docker.io/x/y:1" }]
      |       -------------------------------------------------------------------------------- another container
      |
      = help: an application's name must be unique in the account: set another one with `#[sandbox(name = "…")]`

    1 error; nothing was written
    "#);
}

#[test]
fn a_container_and_the_binding_of_another_class() {
    let properties = r#""containers": [{ "name": "shell-sandbox", "class_name": "Other", "image": "docker.io/x/y:1" }],
  "durable_objects": { "bindings": [{ "name": "SHELL_SANDBOX", "class_name": "Other" }] }"#;
    let run = refused(&beside("#[sandbox]", properties));
    assert!(run.contains("error[K042]: the binding `SHELL_SANDBOX` has the class `Other`"), "{run}");
    assert!(run.ends_with("\n1 error; nothing was written\n"), "{run}");
}

/// Another tag is just another version of the image, but another variant is another image.
#[test]
fn a_variant_that_the_attribute_lacks() {
    let project = crate::common::shell("#[sandbox]\npub struct ShellSandbox;");
    project.write(
        "wrangler.jsonc",
        r#"{
  "name": "app", "main": "src/generated/worker.mjs",
  "containers": [{ "class_name": "ShellSandbox", "image": "docker.io/cloudflare/sandbox:0.8.11-python" }]
}
"#,
    );
    assert_snapshot!(refused(&project), @r#"
    error[K042]: `image` is "docker.io/cloudflare/sandbox:0.8.11-python" here, but "docker.io/cloudflare/sandbox:0.12.10" in `src/server/shell.sandbox.rs`
     --> wrangler.jsonc:3:59
      |
    3 | ...hellSandbox", "image": "docker.io/cloudflare/sandbox:0.8.11-python" }]
      |                           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      |
     ::: src/server/shell.sandbox.rs:4:12
      |
    4 | pub struct ShellSandbox;
      |            ------------ the sandbox
      |
      = help: koze adopts matching entries only: make both the same, or remove `image` from one of them

    1 error; nothing was written
    "#);
    crate::common::sandbox(
        &project,
        crate::common::SHELL,
        "#[sandbox(variant = \"python\")]\npub struct ShellSandbox;",
    );
    crate::common::built(&project);
    assert!(project.read("wrangler.jsonc").contains("sandbox:0.12.10-python"));
}
