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
    error[K030]: the version of `@cloudflare/sandbox`, which determines the image, is unknown: there is no `node_modules/@cloudflare/sandbox`, no lock file or `package.json` with an exact version, and no `koze` crate in `Cargo.lock`
     |
     = help: the image tag must equal the SDK version: run `npm install --save-exact @cloudflare/sandbox@0.12.10`, then `koze build` again; or, for a sandbox without the SDK, add `backend = "native"` and an image to its attribute

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

/// If a workspace's lock file has several versions, the one that the package imports counts.
#[test]
fn the_importer_of_the_package_counts() {
    let lock = "lockfileVersion: '9.0'
importers:
  .:
    dependencies:
      '@cloudflare/sandbox': { specifier: ^0.12.0, version: 0.12.9 }
  project:
    dependencies:
      '@cloudflare/sandbox':
        specifier: ^0.12.0
        version: 0.12.8(@xterm/xterm@5.5.0)
packages:
  '@cloudflare/sandbox@0.12.8': {}
  '@cloudflare/sandbox@0.12.9': {}
";
    let project = bare();
    let range = "{ \"dependencies\": { \"@cloudflare/sandbox\": \"^0.12.0\" } }\n";
    project.write("../pnpm-lock.yaml", lock).write("package.json", range);
    assert!(built(&project).stdout.contains(", SDK 0.12.8 from ../pnpm-lock.yaml"));
    let elsewhere = lock.replace("  project:", "  other:");
    project.write("../pnpm-lock.yaml", elsewhere);
    let run = project.koze(&["build"]);
    assert!(run.stdout.contains(", SDK 0.12.9 from ../pnpm-lock.yaml"), "{run:?}");

    let project = bare();
    project.write("package.json", range).write(
        "../yarn.lock",
        "# yarn lockfile v1\n\n\n\"@cloudflare/sandbox@^0.11.0\":\n  version \"0.11.0\"\n\n\
         \"@cloudflare/sandbox@^0.12.0\":\n  version \"0.12.7\"\n",
    );
    assert!(built(&project).stdout.contains(", SDK 0.12.7 from ../yarn.lock"));
}

#[test]
fn a_lock_file_that_does_not_parse() {
    let project = bare();
    project.write(
        "pnpm-lock.yaml",
        "lockfileVersion: '9.0'\nimporters:\n  .:\n<<<<<<< HEAD\n    dependencies:\n      '@cloudflare/sandbox': {version: 0.12.1}\n",
    );
    assert_snapshot!(refused(&project), @"
    error[K034]: this is not YAML: simple key expected ':' at line 4, column 1
     --> pnpm-lock.yaml:4:1
      |
    4 | <<<<<<< HEAD
      | ^
      |
      = help: correct the file, then run `koze build` again

    1 error; nothing was written
    ");
}
