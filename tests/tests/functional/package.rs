//! Finding the package.

use insta::assert_snapshot;
use koze_tests::Project;

use crate::common::{built, package, plain, refused, refused_with, shell};

#[test]
fn no_package() {
    assert_snapshot!(refused(&Project::new()), @"
    error[K027]: `.` is not a Cargo package: neither it nor a directory above it has a `Cargo.toml`
     |
     = help: run koze in a package, pass one with `--project DIR`, or create one with `koze new DIR`

    1 error; nothing was written
    ");
}

#[test]
fn no_directory() {
    assert_snapshot!(refused_with(&package(), &["build", "--project", "elsewhere"]), @"
    error[K027]: `elsewhere` is not a Cargo package: the directory does not exist
     |
     = help: run koze in a package, pass one with `--project DIR`, or create one with `koze new DIR`

    1 error; nothing was written
    ");
}

#[test]
fn a_virtual_workspace_names_its_members() {
    let project = Project::new();
    project.write("Cargo.toml", "[workspace]\nmembers = [\"app\", \"tools/*\"]\nresolver = \"3\"\n");
    for member in ["app", "tools/one"] {
        let name = member.rsplit('/').next().unwrap_or(member);
        project
            .write(
                format!("{member}/Cargo.toml"),
                format!("[package]\nname = \"{name}\"\nedition = \"2024\"\n"),
            )
            .write(format!("{member}/src/lib.rs"), "");
    }
    assert_snapshot!(refused(&project), @"
    error[K027]: `.` is not a Cargo package: it is a workspace of `app`, `tools/one`
     |
     = help: run koze in a package, pass one with `--project DIR`, or create one with `koze new DIR`

    1 error; nothing was written
    ");
}

#[test]
fn a_manifest_that_does_not_parse() {
    let project = package();
    project.write("Cargo.toml", "[package]\nname = app\n");
    assert_snapshot!(refused(&project), @"
    error[K034]: string values must be quoted, expected literal string
     --> Cargo.toml:2:8
      |
    2 | name = app
      |        ^^^
      |
      = help: correct the file, then run `koze build` again

    1 error; nothing was written
    ");
}

#[test]
fn a_package_without_a_name() {
    let project = package();
    project.write("Cargo.toml", "[package]\nversion = \"0.1.0\"\n");
    assert_snapshot!(refused(&project), @"
    error[K034]: `[package]` has no `name`
     --> Cargo.toml:1:1
      |
    1 | [package]
      | ^^^^^^^^^
      |
      = help: correct the file, then run `koze build` again

    1 error; nothing was written
    ");
}

/// Like cargo, koze uses the nearest manifest in a parent directory.
#[test]
fn a_subdirectory_of_the_package() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    let run = project.koze(&["build", "--project", "src/server"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(project.path("wrangler.jsonc").exists());
    assert!(built(&project).stdout.contains("nothing to do"));
}

#[test]
fn a_member_of_a_workspace_is_a_package() {
    let project = Project::new();
    project
        .write("Cargo.toml", "[workspace]\nmembers = [\"app\"]\nresolver = \"3\"\n")
        .write("package.json", "{ \"dependencies\": { \"@cloudflare/sandbox\": \"0.12.10\" } }\n")
        .write("app/Cargo.toml", "[package]\nname = \"app\"\nedition = \"2024\"\n")
        .write("app/src/lib.rs", "mod generated;\n");
    plain(&project, "app/src/shell.sandbox.rs", "ShellSandbox");
    let run = project.koze(&["build", "--project", "app"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(
        run.stdout.starts_with("1 sandbox in wrangler.jsonc, SDK 0.12.10 from ../package.json\n"),
        "{run:?}"
    );
    for made in ["app/wrangler.jsonc", "app/koze.lock", "app/src/generated/mod.rs"] {
        assert!(project.path(made).exists(), "{made}");
    }
    assert!(!project.path("koze.lock").exists() && !project.path("Cargo.lock").exists());
}
