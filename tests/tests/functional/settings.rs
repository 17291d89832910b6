//! The settings of an existing configuration that `koze init` changes, and those it leaves to the user.

use insta::assert_snapshot;
use koze_tests::{Project, Run, root};

use crate::common::{SHELL, built, package, plain, refused, refused_with, warned};

fn init(project: &Project) -> Run {
    init_with(project, &[])
}

fn init_with(project: &Project, more: &[&str]) -> Run {
    let runtime = root().join("runtime").display().to_string();
    project.koze(&[&["init", "--runtime-path", &runtime], more].concat())
}

/// Returns the notes about changes other than files.
fn notes(run: &Run) -> String {
    assert_eq!(run.code, 0, "{run:?}");
    let lines = run.stdout.lines();
    lines
        .filter(|line| line.contains(" in wrangler.") || line.contains(" of wrangler."))
        .skip(1)
        .fold(String::new(), |text, line| text + line + "\n")
}

/// A package with a sandbox and this configuration.
fn with(config: &str) -> Project {
    let project = package();
    plain(&project, SHELL, "ShellSandbox");
    project.write("wrangler.toml", config);
    project
}

#[test]
fn changed_settings_are_listed() {
    let project = with(
        "name = \"app\"\nmain = \"build/index.js\"\ncompatibility_date = \"2026-04-21\"\n\n[build]\ncommand = \"cargo install -q worker-build && worker-build --release\"\n",
    );
    assert_snapshot!(notes(&init(&project)), @"
    added `nodejs_compat` to `compatibility_flags` in wrangler.toml
    set `main` in wrangler.toml to `src/generated/worker.mjs`
    set `build.command` in wrangler.toml to `koze build --check && cargo install -q worker-build && worker-build --release`
    ");
    // Correct settings are neither changed nor listed.
    assert_eq!(notes(&init(&project)), "");
}

/// If an environment has its own command, that one is used there.
#[test]
fn the_commands_of_environments_are_guarded() {
    let project = with(
        r#"name = "app"
main = "build/index.js"
compatibility_date = "2026-04-21"
compatibility_flags = ["nodejs_compat"]
build = { command = "koze build --check && worker-build --release" }

[env.staging]
main = "./build/worker/shim.mjs"
build = { command = "worker-build --dev" } # quick

[env.list.build]
command = "make; worker-build"

[env.watched.build]
watch_dir = "lib"

[env.plain]
"#,
    );
    let run = init(&project);
    assert_snapshot!(notes(&run), @"
    set `main` in wrangler.toml to `src/generated/worker.mjs`
    set `env.staging.main` in wrangler.toml to `src/generated/worker.mjs`
    set `env.staging.build.command` in wrangler.toml to `koze build --check && worker-build --dev`
    set `env.watched.build.command` in wrangler.toml to `koze build --check && worker-build --release`
    next: start `env.list.build.command` in wrangler.toml with `koze build --check`, so that an outdated project is never deployed
    ");
    let config = project.read("wrangler.toml");
    assert!(
        config.contains("build = { command = \"koze build --check && worker-build --dev\" } # quick\n"),
        "{config}"
    );
    assert!(config.contains("[env.list.build]\ncommand = \"make; worker-build\"\n"), "{config}");
    assert!(
        config.contains("watch_dir = \"lib\"\ncommand = \"koze build --check && worker-build --release\"\n"),
        "{config}"
    );
    assert!(!config.contains("env.plain.build"), "{config}");
}

/// wrangler accepts either `main` or `site.entry-point`.
#[test]
fn the_entry_point_of_a_site() {
    let site = |entry: &str| {
        format!(
            "name = \"app\"\ncompatibility_date = \"2026-04-21\"\ncompatibility_flags = [\"nodejs_compat\"]\n\n[site]\nbucket = \"./public\" # files\nentry-point = \"{entry}\"\n"
        )
    };
    let project = with(&site("./build/index.js"));
    assert_snapshot!(notes(&init(&project)), @"
    set `main` in wrangler.toml to `src/generated/worker.mjs`
    set `build.command` in wrangler.toml to `koze build --check && worker-build --release`
    ");
    let config = project.read("wrangler.toml");
    assert!(config.contains("main = \"src/generated/worker.mjs\"\n"), "{config}");
    assert!(config.contains("[site]\nbucket = \"./public\" # files\n\n"), "{config}");

    // A custom entry point is kept, and no `main` is added.
    let project = with(&site("workers-site"));
    let run = init(&project);
    assert!(!project.read("wrangler.toml").contains("main ="), "{run:?}");
    assert_snapshot!(run.stderr, @r#"
    warning[K090]: `site.entry-point` is `workers-site`, which does not export the sandbox classes
     --> wrangler.toml:7:15
      |
    7 | entry-point = "workers-site"
      |               ^^^^^^^^^^^^^^
      |
      = help: `main` has replaced it: remove it and set `main` to `src/generated/worker.mjs`, or to a file of yours that contains `export * from` that entry

    1 warning
    "#);
    // An entry point that exports the classes is kept.
    let project = with(&site("entry.mjs"));
    project.write("entry.mjs", "export * from './src/generated/worker.mjs';\n");
    assert_eq!(init(&project).stderr, "");

    let project = with(&format!("main = \"src/generated/worker.mjs\"\n{}", site("workers-site")));
    assert_snapshot!(warned(&project), @r#"
    warning[K090]: `site.entry-point` is `workers-site` and `main` is `src/generated/worker.mjs`, but wrangler accepts only one of them
     --> wrangler.toml:8:15
      |
    8 | entry-point = "workers-site"
      |               ^^^^^^^^^^^^^^
      |
      = help: remove `site.entry-point`: `main` has replaced it

    1 warning
    "#);
}

#[test]
fn configurations_that_wrangler_does_not_find_by_default() {
    let text = "name = \"app\"\nmain = \"build/index.js\"\ncompatibility_date = \"2026-04-21\"\ncompatibility_flags = [\"nodejs_compat\"]\n";
    let project = package();
    plain(&project, SHELL, "ShellSandbox");
    project.write("wrangler.b.toml", text).write("wrangler.a.toml", text).write("wrangler-env.d.ts", "");
    assert_snapshot!(refused_with(&project, &["init"]), @"
    error[K091]: `wrangler.jsonc` does not exist, but `wrangler.a.toml` and `wrangler.b.toml` does
     |
     = help: choose the file that koze manages with `--config wrangler.a.toml`; `koze.lock` records it

    1 error; nothing was written
    ");
    assert!(refused(&project).starts_with("error[K091]"));

    assert_eq!(init_with(&project, &["--config", "wrangler.b.toml"]).code, 0);
    assert!(!project.path("wrangler.jsonc").exists());
    assert_eq!(project.read("wrangler.a.toml"), text);
    // The choice is recorded.
    assert!(built(&project).stdout.contains("nothing to do"));
    // The lock does not belong to the other configuration.
    assert_snapshot!(refused_with(&project, &["build", "--config", "wrangler.a.toml"]), @"
    error[K045]: `koze.lock` belongs to `wrangler.b.toml`: this file does not have the entries that koze wrote there
    --> wrangler.a.toml
     = help: koze manages one configuration of a package: run koze without `--config` to build `wrangler.b.toml`; to move to `wrangler.a.toml`, delete `koze.lock`, and also `wrangler.b.toml` if nothing was deployed from it: the next build adopts matching entries

    1 error; nothing was written
    ");
    // A copy of the recorded configuration has all of koze's entries.
    project.write("wrangler.c.toml", project.read("wrangler.b.toml"));
    assert_eq!(project.koze(&["build", "--config", "wrangler.c.toml"]).code, 0);
}

/// A configuration that wrangler finds by default takes precedence over other files.
#[test]
fn other_configurations_next_to_the_default() {
    let project =
        with("name = \"app\"\nmain = \"src/generated/worker.mjs\"\ncompatibility_date = \"2026-04-21\"\n");
    project.write("wrangler.test.jsonc", "{}").write("wrangler.json.bak", "");
    built(&project);
    assert_snapshot!(refused_with(&project, &["build", "--config", "wrangler.test.jsonc"]), @"
    error[K045]: `koze.lock` belongs to `wrangler.toml`: this file does not have the entries that koze wrote there
    --> wrangler.test.jsonc
     = help: koze manages one configuration of a package: run koze without `--config` to build `wrangler.toml`; to move to `wrangler.test.jsonc`, delete `koze.lock`, and also `wrangler.toml` if nothing was deployed from it: the next build adopts matching entries

    1 error; nothing was written
    ");
    // If the recorded file is deleted, what koze owned in it matters more than other candidates.
    fs_err::remove_file(project.path("wrangler.toml")).expect("it was there");
    assert!(refused(&project).starts_with("error[K058]"));
}

/// Files that must be committed must not be ignored by git.
#[test]
fn ignored_files_are_reported() {
    let next = |ignored: &[(&str, &str)]| {
        let project = package();
        plain(&project, SHELL, "ShellSandbox");
        for (file, text) in ignored {
            project.write(file, text);
        }
        let run = built(&project);
        run.stdout
            .lines()
            .filter(|line| line.starts_with("next:"))
            .fold(String::new(), |text, line| text + line + "\n")
    };
    assert_snapshot!(next(&[(".gitignore", "target\n# Made by tools.\ngenerated/\n*.lock\n")]), @"
    next: remove `generated/` from .gitignore, which hides `src/generated` from git
    next: remove `*.lock` from .gitignore, which hides `koze.lock` from git
    next: then commit these files, including `koze.lock`: a checkout without them does not build
    ");
    // As in git, the nearest file with a matching pattern counts, up to the repository.
    let commit = "next: commit these files, including `koze.lock`\n";
    for ignored in [
        &[(".gitignore", "/generated\n/target\n")][..],
        &[(".gitignore", "/src/generated/*\n!/src/generated/*.*\n")],
        &[("../.gitignore", "generated\n"), (".git/HEAD", "")],
        &[("../.gitignore", "generated\n")],
        &[(".gitignore", "*.rs\n"), ("src/.gitignore", "!*\n")],
    ] {
        assert_eq!(next(ignored), commit, "{ignored:?}");
    }
    let above = [("../.gitignore", "**/src/generated\n"), ("../.git/HEAD", "")];
    assert!(
        next(&above)
            .starts_with("next: remove `**/src/generated` from ../.gitignore, which hides `src/generated`")
    );
}
