//! Images that an attribute cannot use.

use insta::assert_snapshot;

use crate::attribute::refused_keys;

#[test]
fn image_and_variant() {
    assert_snapshot!(
        refused_keys("image = \"docker.io/cloudflare/sandbox:0.12.10\", variant = \"python\""),
        @r#"
    error[K014]: `variant` and `image` exclude each other
     --> src/server/shell.sandbox.rs:3:59
      |
    3 | #[sandbox(image = "docker.io/cloudflare/sandbox:0.12.10", variant = "python")]
      |           ----- the other one                             ^^^^^^^
      |
      = help: `variant` selects a variant of the default image: keep only one of them

    1 error; nothing was written
    "#
    );
}

#[test]
fn build_arguments_without_a_build() {
    assert_snapshot!(refused_keys("image = \"docker.io/x/y:1\", image_vars(A = \"1\")"), @r#"
    error[K014]: `image_vars` and `image` exclude each other
     --> src/server/shell.sandbox.rs:3:38
      |
    3 | #[sandbox(image = "docker.io/x/y:1", image_vars(A = "1"))]
      |                                      ^^^^^^^^^^
      |
      = help: `image_vars` is for Dockerfiles, and `docker.io/x/y:1` is not built from one: remove `image_vars`

    1 error; nothing was written
    "#);
}

#[test]
fn an_image_without_a_tag() {
    assert_snapshot!(refused_keys("image = \"docker.io/cloudflare/sandbox\""), @r#"
    error[K015]: `docker.io/cloudflare/sandbox` is not a valid image: it has no tag
     --> src/server/shell.sandbox.rs:3:19
      |
    3 | #[sandbox(image = "docker.io/cloudflare/sandbox")]
      |                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      |
      = help: write a registry reference with a tag or digest, `docker.io/cloudflare/sandbox:0.12.10-python`, or the path of a Dockerfile, `./python.Dockerfile`

    1 error; nothing was written
    "#);
}

#[test]
fn an_image_with_the_tag_latest() {
    assert_snapshot!(refused_keys("image = \"docker.io/cloudflare/sandbox:latest\""), @r#"
    error[K015]: `docker.io/cloudflare/sandbox:latest` is not a valid image: `latest` can change at any time
     --> src/server/shell.sandbox.rs:3:19
      |
    3 | #[sandbox(image = "docker.io/cloudflare/sandbox:latest")]
      |                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      |
      = help: write a registry reference with a tag or digest, `docker.io/cloudflare/sandbox:0.12.10-python`, or the path of a Dockerfile, `./python.Dockerfile`

    1 error; nothing was written
    "#);
}

#[test]
fn a_missing_dockerfile() {
    assert_snapshot!(refused_keys("image = \"./python.Dockerfile\""), @r#"
    error[K016]: the file `./python.Dockerfile` does not exist
     --> src/server/shell.sandbox.rs:3:19
      |
    3 | #[sandbox(image = "./python.Dockerfile")]
      |                   ^^^^^^^^^^^^^^^^^^^^^
      |
      = help: paths are relative to the source file: create the Dockerfile in `src/server`, or correct the path

    1 error; nothing was written
    "#);
}

/// A Dockerfile in the user's entry is kept, but must match the SDK's version.
#[test]
fn a_dockerfile_in_the_configuration() {
    let project = crate::common::shell("#[sandbox]\npub struct ShellSandbox;");
    let build = |text: &str| {
        project.write("Dockerfile", text);
        let run = project.koze(&["build"]);
        assert_eq!(run.code, 0, "{}", run.stdout);
        run.stderr
    };
    project.write(
        "wrangler.jsonc",
        r#"{ "name": "app", "main": "src/generated/worker.mjs", "containers": [{ "class_name": "ShellSandbox", "image": "./Dockerfile" }] }"#,
    );
    let warned = build("FROM docker.io/cloudflare/sandbox:0.12.3\n");
    assert!(warned.starts_with("warning[K033]") && warned.contains("--> Dockerfile:1:6"), "{warned}");
    // Values of arguments count, and stages that are only copied from do not.
    let warned = build("ARG V=0.12.3\nFROM docker.io/cloudflare/sandbox:${V}-python\n");
    assert!(warned.contains("`docker.io/cloudflare/sandbox:0.12.3-python`"), "{warned}");
    for text in [
        "ARG V=0.12.10\nFROM docker.io/cloudflare/sandbox:${V}\n",
        "FROM docker.io/cloudflare/sandbox:0.8.11 AS tools\nFROM docker.io/cloudflare/sandbox:0.12.10\nCOPY --from=tools /a /a\n",
    ] {
        assert_eq!(build(text), "", "{text}");
    }
}
