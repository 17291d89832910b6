//! Resolving the version of `@cloudflare/sandbox`, which determines the image.

use insta::assert_snapshot;
use koze_tests::Project;

use crate::common::{built, refused, shell, warned};

const INSTALLED: &str = "node_modules/@cloudflare/sandbox/package.json";

fn bare() -> Project {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    fs_err::remove_file(project.path("package.json")).expect("it was there");
    project
}

fn with_version(version: &str) -> Project {
    let project = bare();
    project
        .write(INSTALLED, format!("{{ \"name\": \"@cloudflare/sandbox\", \"version\": \"{version}\" }}\n"));
    project
}

#[test]
fn no_sdk_anywhere() {
    assert_snapshot!(refused(&bare()), @r#"
    error[K030]: the version of `@cloudflare/sandbox`, which determines the image, is unknown: there is no `node_modules/@cloudflare/sandbox`, no `package-lock.json` or `package.json` with an exact version, and no `koze` crate in `Cargo.lock`
     |
     = help: the image tag must equal the SDK version: install the packages of `package.json`, or require an exact version, for example with `npm install --save-exact @cloudflare/sandbox@0.12.10`, then run `koze build` again; or, for a sandbox without the SDK, add `backend = "native"` and an image to its attribute

    1 error; nothing was written
    "#);
}

#[test]
fn a_range_is_not_a_version() {
    let project = bare();
    project.write("package.json", "{ \"dependencies\": { \"@cloudflare/sandbox\": \"^0.12.10\" } }\n");
    assert!(refused(&project).starts_with("error[K030]"));
}

#[test]
fn an_sdk_without_the_class() {
    assert_snapshot!(refused(&with_version("0.13.0")), @"
    error[K031]: `@cloudflare/sandbox` 0.13.0 (node_modules/@cloudflare/sandbox/package.json) is outside the supported range, 0.8.11 to 0.12.x
     |
     = help: koze needs the `Sandbox` class, which 0.13 and 1.0 removed: run `npm install --save-exact @cloudflare/sandbox@0.12.10`, then `koze build` again

    1 error; nothing was written
    ");
}

#[test]
fn other_unsupported_versions() {
    for version in ["1.0.0", "0.8.10", "0.13.0-beta.1", "0.7.0", "latest"] {
        let stderr = refused(&with_version(version));
        let begins = format!("error[K031]: `@cloudflare/sandbox` {version} ({INSTALLED}) is outside");
        assert!(stderr.starts_with(&begins), "{version}: {stderr}");
    }
}

#[test]
fn an_old_sdk_causes_a_warning() {
    let project = with_version("0.8.11");
    assert_snapshot!(warned(&project), @"
    warning[K032]: `@cloudflare/sandbox` 0.8.11 (node_modules/@cloudflare/sandbox/package.json) is older than the tools of this version of koze expect
     |
     = help: the configuration is correct, but tool calls that need a newer SDK return `unsupported`: run `npm install --save-exact @cloudflare/sandbox@0.12.10`

    1 warning
    ");
    let config = project.read("wrangler.jsonc");
    assert!(config.contains("docker.io/cloudflare/sandbox:0.8.11\""), "{config}");
}

/// Each source takes precedence over those after it.
#[test]
fn precedence_of_sources() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    let source = |project: &Project| {
        let line = built(project).stdout.lines().next().unwrap_or_default().to_owned();
        line.split_once(", ").map(|(_, sdk)| sdk.to_owned()).unwrap_or(line)
    };
    assert_eq!(source(&project), "SDK 0.12.10 from package.json");
    let lock = "{ \"packages\": { \"node_modules/@cloudflare/sandbox\": { \"version\": \"0.12.9\" } } }";
    project.write("package-lock.json", lock);
    assert_eq!(source(&project), "SDK 0.12.9 from package-lock.json");
    project.write(INSTALLED, "{ \"version\": \"0.12.8\" }");
    assert_eq!(source(&project), format!("SDK 0.12.8 from {INSTALLED}"));
}

#[test]
fn a_package_json_that_does_not_parse() {
    let project = bare();
    project.write("package.json", "{\n  \"dependencies\": {\n    \"@cloudflare/sandbox\": 0.12.10\n  }\n}\n");
    assert_snapshot!(refused(&project), @r#"
    error[K034]: this is not JSON: expected `,` or `}` at line 3 column 32
     --> package.json:3:32
      |
    3 |     "@cloudflare/sandbox": 0.12.10
      |                                ^
      |
      = help: correct the file, then run `koze build` again

    1 error; nothing was written
    "#);
}

#[test]
fn an_installed_package_without_a_version() {
    let project = bare();
    project.write(INSTALLED, "{ \"name\": \"@cloudflare/sandbox\" }\n");
    assert_snapshot!(refused(&project), @"
    error[K034]: it has no `version`: reinstall the package
    --> node_modules/@cloudflare/sandbox/package.json
     = help: correct the file, then run `koze build` again

    1 error; nothing was written
    ");
}

#[test]
fn a_dockerfile_of_another_version_causes_a_warning() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    project.write(
        "src/server/shell.Dockerfile",
        "# Ours.\nFROM docker.io/cloudflare/sandbox:0.12.9-python AS base\nRUN true\n",
    );
    assert_snapshot!(warned(&project), @"
    warning[K033]: the Dockerfile is based on `docker.io/cloudflare/sandbox:0.12.9-python`, but the SDK is 0.12.10
     --> src/server/shell.Dockerfile:2:6
      |
    2 | FROM docker.io/cloudflare/sandbox:0.12.9-python AS base
      |      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      |
      = help: image and SDK must have the same version: use a tag that starts with `0.12.10`

    1 warning
    ");
}

/// The crate in the dependency graph comes last, and only if it is locked: a build creates no `Cargo.lock`.
#[test]
fn the_crate_is_the_last_source() {
    let project = bare();
    let manifest = project.read("Cargo.toml");
    project
        .write("Cargo.toml", format!("{manifest}\n[dependencies]\nkoze = {{ path = \"koze\" }}\n"))
        .write("koze/src/lib.rs", "")
        .write(
            "koze/Cargo.toml",
            "[package]\nname = \"koze\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
             [package.metadata.koze]\nsandbox-sdk = \"0.12.9\"\n",
        );
    assert!(refused(&project).starts_with("error[K030]"));
    assert!(!project.path("Cargo.lock").exists());

    let mut lock = std::process::Command::new("cargo");
    lock.args(["generate-lockfile", "--offline"]).current_dir(project.dir());
    let locked = project.run(lock);
    assert_eq!(locked.code, 0, "{}", locked.stderr);
    let run = built(&project);
    assert!(run.stdout.contains("SDK 0.12.9 from the crate koze 0.1.0"), "{}", run.stdout);
    assert!(project.read("wrangler.jsonc").contains("docker.io/cloudflare/sandbox:0.12.9\""));
}

/// pnpm and the workspaces of all package managers link the installed package, or hoist it to a parent directory.
#[test]
fn an_installed_package_is_found_as_node_finds_it() {
    let range = "{ \"dependencies\": { \"@cloudflare/sandbox\": \"^0.12.0\" } }\n";
    let project = bare();
    project.write("package.json", range);
    project.write("../node_modules/@cloudflare/sandbox/package.json", "{ \"version\": \"0.12.8\" }");
    assert!(built(&project).stdout.contains(&format!(", SDK 0.12.8 from ../{INSTALLED}")));

    let project = bare();
    let stored = "node_modules/.pnpm/@cloudflare+sandbox@0.12.9/node_modules/@cloudflare/sandbox";
    project.write("package.json", range);
    project.write(format!("../{stored}/package.json"), "{ \"version\": \"0.12.9\" }");
    fs_err::create_dir_all(project.path("node_modules/@cloudflare")).expect("a directory");
    let link = project.path("node_modules/@cloudflare/sandbox");
    std::os::unix::fs::symlink(project.path(format!("../{stored}")), link).expect("a link");
    assert!(built(&project).stdout.contains(&format!(", SDK 0.12.9 from {INSTALLED}")));
}

/// Without an installation, as in a fresh clone or with yarn's Plug'n'Play, an exact version is needed.
#[test]
fn other_lock_files_are_not_read() {
    for (file, text) in [
        ("yarn.lock", "\"@cloudflare/sandbox@^0.12.0\":\n  version \"0.12.9\"\n"),
        ("pnpm-lock.yaml", "packages:\n  '@cloudflare/sandbox@0.12.9': {}\n"),
        ("bun.lock", "{\"packages\":{\"@cloudflare/sandbox\":[\"@cloudflare/sandbox@0.12.9\"],},}"),
    ] {
        let project = bare();
        let package =
            |version| format!("{{ \"dependencies\": {{ \"@cloudflare/sandbox\": \"{version}\" }} }}\n");
        project.write(file, text).write("package.json", package("^0.12.0"));
        let stderr = refused(&project);
        assert!(stderr.starts_with("error[K030]"), "{file}: {stderr}");
        assert!(
            stderr.contains("install the packages of `package.json`, or require an exact version"),
            "{stderr}"
        );
        project.write("package.json", package("0.12.9"));
        assert!(built(&project).stdout.contains(", SDK 0.12.9 from package.json"), "{file}");
    }
}

#[test]
fn a_lock_file_that_does_not_parse() {
    let project = bare();
    project.write("package-lock.json", "{\n<<<<<<< HEAD\n  \"packages\": {}\n}\n");
    assert_snapshot!(refused(&project), @r#"
    error[K034]: this is not JSON: key must be a string at line 2 column 1
     --> package-lock.json:2:1
      |
    2 | <<<<<<< HEAD
      | ^
      |
      = help: correct the file, then run `koze build` again

    1 error; nothing was written
    "#);
}
