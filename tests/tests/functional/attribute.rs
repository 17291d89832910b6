//! `#[sandbox(..)]` with invalid keys and values.

use insta::assert_snapshot;

use crate::common::{refused, shell, warned};

/// Builds a project with these keys, which must fail.
pub(crate) fn refused_keys(keys: &str) -> String {
    refused(&shell(&format!("#[sandbox({keys})]\npub struct ShellSandbox;")))
}

#[test]
fn an_unknown_key_with_a_suggestion() {
    assert_snapshot!(refused_keys("max_instance = 3"), @"
    error[K010]: `#[sandbox]` has no key `max_instance`
     --> src/server/shell.sandbox.rs:3:11
      |
    3 | #[sandbox(max_instance = 3)]
      |           ^^^^^^^^^^^^
      |
      = help: did you mean `max_instances`?

    1 error; nothing was written
    ");
}

#[test]
fn an_unknown_key_without_a_suggestion() {
    assert_snapshot!(refused_keys("zzzzzzzzzz = 3"), @"
    error[K010]: `#[sandbox]` has no key `zzzzzzzzzz`
     --> src/server/shell.sandbox.rs:3:11
      |
    3 | #[sandbox(zzzzzzzzzz = 3)]
      |           ^^^^^^^^^^
      |
      = help: its keys are `image`, `variant`, `instance_type`, `instance`, `max_instances`, `name`, `sleep_after`, `env_vars`, `internet`, `allowed_hosts`, `denied_hosts`, `credentials`, `limits`, `tools`, `workspace`, `default`, `backend`, `images`, `sizes`, `keep_files`, `processes`, `copy_from`, `ssh`, `entrypoint`, `renamed_from`, `image_build_context`, `image_vars`, `constraints`, `rollout_step_percentage`, `rollout_active_grace_period` and `observability`

    1 error; nothing was written
    ");
}

#[test]
fn an_unknown_nested_key() {
    assert_snapshot!(refused_keys("instance(cpu = 1)"), @"
    error[K010]: `instance` has no key `cpu`
     --> src/server/shell.sandbox.rs:3:20
      |
    3 | #[sandbox(instance(cpu = 1))]
      |                    ^^^
      |
      = help: did you mean `vcpu`?

    1 error; nothing was written
    ");
}

#[test]
fn a_duplicate_key() {
    assert_snapshot!(refused_keys("internet = true, variant = \"python\", internet = false"), @r#"
    error[K011]: `internet` is given twice
     --> src/server/shell.sandbox.rs:3:48
      |
    3 | #[sandbox(internet = true, variant = "python", internet = false)]
      |           -------- first given here            ^^^^^^^^
      |
      = help: remove one of them

    1 error; nothing was written
    "#);
}

#[test]
fn a_value_that_is_not_a_literal() {
    assert_snapshot!(refused_keys("max_instances = LIMIT + 1"), @"
    error[K012]: `max_instances` takes an integer of at least 1
     --> src/server/shell.sandbox.rs:3:27
      |
    3 | #[sandbox(max_instances = LIMIT + 1)]
      |                           ^^^^^^^^^
      |
      = help: write a literal, because `koze build` reads the source without running it: `max_instances = 10`

    1 error; nothing was written
    ");
}

#[test]
fn a_value_of_another_kind() {
    assert_snapshot!(refused_keys("max_instances = \"10\""), @r#"
    error[K012]: `max_instances` takes an integer of at least 1
     --> src/server/shell.sandbox.rs:3:27
      |
    3 | #[sandbox(max_instances = "10")]
      |                           ^^^^
      |
      = help: write a literal, because `koze build` reads the source without running it: `max_instances = 10`

    1 error; nothing was written
    "#);
}

#[test]
fn a_key_without_a_value() {
    assert_snapshot!(refused_keys("internet"), @"
    error[K012]: `internet` takes `true` or `false`
     --> src/server/shell.sandbox.rs:3:11
      |
    3 | #[sandbox(internet)]
      |           ^^^^^^^^
      |
      = help: write a literal, because `koze build` reads the source without running it: `internet = true`

    1 error; nothing was written
    ");
}

#[test]
fn zero_instances() {
    assert_snapshot!(refused_keys("max_instances = 0"), @"
    error[K013]: `0` is not a valid `max_instances`
     --> src/server/shell.sandbox.rs:3:27
      |
    3 | #[sandbox(max_instances = 0)]
      |                           ^
      |
      = help: `max_instances` takes an integer of at least 1

    1 error; nothing was written
    ");
}

#[test]
fn a_negative_number_of_instances() {
    assert_snapshot!(refused_keys("max_instances = -1"), @"
    error[K013]: `-1` is not a valid `max_instances`
     --> src/server/shell.sandbox.rs:3:27
      |
    3 | #[sandbox(max_instances = -1)]
      |                           ^^
      |
      = help: `max_instances` takes an integer of at least 1

    1 error; nothing was written
    ");
}

#[test]
fn an_unknown_instance_type() {
    assert_snapshot!(refused_keys("instance_type = \"standard-9\""), @r#"
    error[K013]: `standard-9` is not a valid `instance_type`
     --> src/server/shell.sandbox.rs:3:27
      |
    3 | #[sandbox(instance_type = "standard-9")]
      |                           ^^^^^^^^^^^^
      |
      = help: `instance_type` takes one of `lite`, `basic`, `standard-1`, `standard-2`, `standard-3` and `standard-4`

    1 error; nothing was written
    "#);
}

#[test]
fn an_idle_time_without_a_unit() {
    assert_snapshot!(refused_keys("sleep_after = \"10\""), @r#"
    error[K013]: `10` is not a valid `sleep_after`
     --> src/server/shell.sandbox.rs:3:25
      |
    3 | #[sandbox(sleep_after = "10")]
      |                         ^^^^
      |
      = help: `sleep_after` takes a whole number above 0 and `s`, `m` or `h`, a year at most: `"10m"`

    1 error; nothing was written
    "#);
}

#[test]
fn a_host_with_a_scheme() {
    assert_snapshot!(refused_keys("allowed_hosts = [\"example.com\", \"https://example.org\"]"), @r#"
    error[K013]: `https://example.org` is not a valid `allowed_hosts`
     --> src/server/shell.sandbox.rs:3:43
      |
    3 | #[sandbox(allowed_hosts = ["example.com", "https://example.org"])]
      |                                           ^^^^^^^^^^^^^^^^^^^^^
      |
      = help: `allowed_hosts` takes host names in lower case, without scheme; `*.` may precede one, and a port may follow: `example.com:8080`; a method may precede it, and a path pattern follow: `GET example.com/v1/**`

    1 error; nothing was written
    "#);
}

#[test]
fn instance_and_instance_type() {
    assert_snapshot!(refused_keys("instance_type = \"lite\", instance(vcpu = 1)"), @r#"
    error[K014]: `instance` and `instance_type` exclude each other
     --> src/server/shell.sandbox.rs:3:35
      |
    3 | #[sandbox(instance_type = "lite", instance(vcpu = 1))]
      |           -------------           ^^^^^^^^
      |           |
      |           the other one
      |
      = help: `instance` is a custom size, `instance_type` one of Cloudflare's: keep only one of them

    1 error; nothing was written
    "#);
}

#[test]
fn a_workspace_that_is_not_served() {
    assert_snapshot!(refused_keys("workspace(name = \"box\")"), @r#"
    error[K023]: `workspace` has no effect: the sandbox does not serve the tools `workspace`
     --> src/server/shell.sandbox.rs:3:11
      |
    3 | #[sandbox(workspace(name = "box"))]
      |           ^^^^^^^^^
      |
      = help: add `tools = ["workspace"]`, or remove `workspace`

    1 error; nothing was written
    "#);
}

#[test]
fn a_workspace_with_a_key_of_another_version() {
    assert_snapshot!(refused_keys("tools = [\"workspace\"], workspace(hostname = \"example.org\")"), @r#"
    error[K024]: this version of koze does not have `hostname` in `workspace`
     --> src/server/shell.sandbox.rs:3:44
      |
    3 | #[sandbox(tools = ["workspace"], workspace(hostname = "example.org"))]
      |                                            ^^^^^^^^
      |
      = help: remove it: a workspace has the keys `name`, `dir`, `shell`, `code`, `snapshot`, `snapshot_dir`, `id`, `share_across_sessions` and `destroy_on_close`

    1 error; nothing was written
    "#);
}

#[test]
fn a_workspace_that_sessions_would_share() {
    assert_snapshot!(refused_keys("tools = [\"workspace\"], workspace(id = \"common\")"), @r#"
    error[K029]: all sessions would share the workspace with the id `common`
     --> src/server/shell.sandbox.rs:3:49
      |
    3 | #[sandbox(tools = ["workspace"], workspace(id = "common"))]
      |                                                 ^^^^^^^^
      |
      = help: one user could read and change the files of another, which is a cross-tenant leak: remove `id`, or write `share_across_sessions = true` if that is intended

    1 error; nothing was written
    "#);
}

#[test]
fn a_deprecated_instance_type() {
    let project = shell("#[sandbox(instance_type = \"dev\")]\npub struct ShellSandbox;");
    assert_snapshot!(warned(&project), @r#"
    warning[K018]: the instance type `dev` is deprecated
     --> src/server/shell.sandbox.rs:3:27
      |
    3 | #[sandbox(instance_type = "dev")]
      |                           ^^^^^
      |
      = help: Cloudflare renamed it to `lite`: write `instance_type = "lite"`

    1 warning
    "#);
    let config = project.read("wrangler.jsonc");
    assert!(config.contains("\"instance_type\": \"dev\""), "{config}");
}

#[test]
fn a_variable_with_an_invalid_name() {
    assert_snapshot!(refused_keys("env_vars(größe = \"1\")"), @r#"
    error[K019]: `größe` is not a valid variable name in `env_vars`
     --> src/server/shell.sandbox.rs:3:20
      |
    3 | #[sandbox(env_vars(größe = "1"))]
      |                    ^^^^^
      |
      = help: use ASCII letters, digits and `_`, and do not start with a digit

    1 error; nothing was written
    "#);
}

#[test]
fn an_attribute_that_does_not_parse() {
    assert_snapshot!(refused_keys("max_instances = 1 variant = \"python\""), @r#"
    error[K020]: cannot parse the attribute: expected `,`
     --> src/server/shell.sandbox.rs:3:29
      |
    3 | #[sandbox(max_instances = 1 variant = "python")]
      |                             ^^^^^^^
      |
      = help: separate keys by commas: `#[sandbox(variant = "python", max_instances = 10)]`

    1 error; nothing was written
    "#);
}

#[test]
fn an_attribute_that_is_a_value() {
    assert_snapshot!(refused(&shell("#[sandbox = \"python\"]\npub struct ShellSandbox;")), @r#"
    error[K020]: cannot parse the attribute: write keys in parentheses
     --> src/server/shell.sandbox.rs:3:11
      |
    3 | #[sandbox = "python"]
      |           ^
      |
      = help: separate keys by commas: `#[sandbox(variant = "python", max_instances = 10)]`

    1 error; nothing was written
    "#);
}

#[test]
fn an_unknown_backend() {
    assert_snapshot!(refused_keys("backend = \"docker\""), @r#"
    error[K021]: this version of koze does not have the backend `docker`
     --> src/server/shell.sandbox.rs:3:21
      |
    3 | #[sandbox(backend = "docker")]
      |                     ^^^^^^^^
      |
      = help: use one of `sdk`, `native` and `managed`, or remove the key

    1 error; nothing was written
    "#);
}

#[test]
fn all_mistakes_of_an_attribute_are_reported_together() {
    assert_snapshot!(refused_keys("imgae = 1, max_instances = 0, name = \"My App\", internet = 1"), @r#"
    error[K010]: `#[sandbox]` has no key `imgae`
     --> src/server/shell.sandbox.rs:3:11
      |
    3 | #[sandbox(imgae = 1, max_instances = 0, name = "My App", internet = 1)]
      |           ^^^^^
      |
      = help: did you mean `image`?

    error[K013]: `0` is not a valid `max_instances`
     --> src/server/shell.sandbox.rs:3:38
      |
    3 | #[sandbox(imgae = 1, max_instances = 0, name = "My App", internet = 1)]
      |                                      ^
      |
      = help: `max_instances` takes an integer of at least 1

    error[K013]: `My App` is not a valid `name`
     --> src/server/shell.sandbox.rs:3:48
      |
    3 | #[sandbox(imgae = 1, max_instances = 0, name = "My App", internet = 1)]
      |                                                ^^^^^^^^
      |
      = help: `name` takes lowercase letters, digits and inner hyphens, 63 at most

    error[K012]: `internet` takes `true` or `false`
     --> src/server/shell.sandbox.rs:3:69
      |
    3 | #[sandbox(imgae = 1, max_instances = 0, name = "My App", internet = 1)]
      |                                                                     ^
      |
      = help: write a literal, because `koze build` reads the source without running it: `internet = true`

    4 errors; nothing was written
    "#);
}
