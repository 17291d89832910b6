//! The project's version of the crate `worker`, with which the generated code must compile.

use insta::assert_snapshot;
use koze_tests::Project;

use crate::common::{built, shell, warned};

const PLAIN: &str = "#[sandbox]\npub struct ShellSandbox;";

fn with(dependencies: &str, lock: &[(&str, &str)]) -> Project {
    let project = shell(PLAIN);
    project.write("Cargo.toml", project.read("Cargo.toml") + "\n" + dependencies);
    if let [(chosen, _), ..] = lock {
        let mut text = format!(
            "version = 4\n\n[[package]]\nname = \"app\"\nversion = \"0.1.0\"\ndependencies = [\"{chosen}\"]\n"
        );
        for (_, version) in lock {
            text.push_str("\n[[package]]\nname = \"worker\"\n");
            text.push_str(&["version = \"", version, "\"\nsource = \"registry+x\"\n"].concat());
        }
        project.write("Cargo.lock", text);
    }
    project
}

#[test]
fn a_version_that_is_too_old_is_reported() {
    let project = with("[dependencies]\nworker = \"0.6\"\n", &[]);
    assert_snapshot!(warned(&project), @r#"
    warning[K081]: the crate `worker` is 0.6 in Cargo.toml, but the generated code needs 0.8.7
     --> Cargo.toml:9:10
      |
    9 | worker = "0.6"
      |          ^^^^^
      |
      = help: the Worker will not compile: raise it to "0.8.7" in Cargo.toml, by hand or with `koze init --raise-worker`; your own code may need changes

    1 warning
    "#);
    // The locked version is more exact.
    let project = with("[dependencies]\nworker = { version = \"0.4\" }\n", &[("worker", "0.4.2")]);
    let stderr = warned(&project);
    assert!(stderr.contains("warning[K081]: the crate `worker` is 0.4.2 in Cargo.lock, but"), "{stderr}");
    let run = project.koze(&["doctor"]);
    let line = "error    worker        0.4.2, from Cargo.lock; the generated code needs 0.8.7";
    assert!(run.code == 1 && run.stdout.contains(line), "{}", run.stdout);
}

#[test]
fn the_packages_own_version_counts() {
    let both = [("worker 0.6.7", "0.6.7"), ("", "0.8.7")];
    for dependency in [
        "worker = \"*\"",
        "worker = { git = \"https://example.com/worker\" }",
        "w = { package = \"worker\", version = \">=0.5\" }",
    ] {
        let project = with(&format!("[dependencies]\n{dependency}\n"), &both);
        let stderr = warned(&project);
        assert!(stderr.contains("the crate `worker` is 0.6.7 in Cargo.lock"), "{dependency}: {stderr}");
    }
    built(&with("[dependencies]\nworker = \"*\"\n", &[("worker 0.8.7", "0.6.7"), ("", "0.8.7")]));
}

#[test]
fn in_a_workspace() {
    for (version, fits) in [("0.8.7", true), ("0.6", false)] {
        let project = Project::new();
        project
            .write("Cargo.toml", format!("[workspace]\nmembers = [\"app\"]\n\n[workspace.dependencies]\nworker = \"{version}\"\n"))
            .write("app/Cargo.toml", "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\nworker.workspace = true\n")
            .write("app/src/lib.rs", "mod generated;\n")
            .write("app/package.json", "{ \"dependencies\": { \"@cloudflare/sandbox\": \"0.12.10\" } }\n")
            .write("app/src/server/shell.sandbox.rs", format!("use koze::prelude::*;\n\n{PLAIN}\n"));
        let run = project.koze(&["build", "--project", "app"]);
        assert_eq!((run.code, run.stderr.is_empty()), (0, fits), "{}", run.stderr);
        if !fits {
            assert!(
                run.stderr.contains("warning[K081]: the crate `worker` is 0.6 in ../Cargo.toml"),
                "{}",
                run.stderr
            );
            assert!(run.stderr.contains("raise it to \"0.8.7\" in ../Cargo.toml;"), "{}", run.stderr);
        }
    }
}

#[test]
fn a_compatible_or_unknown_version() {
    for dependencies in [
        "[dependencies]\nworker = \"0.8\"\n",
        "[dependencies]\nworker = { version = \"~0.8.9\" }\n",
        "[dependencies]\nworker = { path = \"../worker\" }\n",
        "[dev-dependencies]\nworker = \"0.6\"\n",
        "[dependencies]\nworker-kv = \"0.6\"\n",
    ] {
        built(&with(dependencies, &[]));
    }
    // Ignore a lock file that is older than the manifest.
    built(&with("[dependencies]\nworker = \"0.8\"\n", &[("worker", "0.6.7")]));
}
