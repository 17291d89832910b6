//! `koze doctor` with fake tools.

use std::os::unix::fs::PermissionsExt as _;

use insta::assert_snapshot;
use koze_tests::{Project, Run, koze};

use crate::common::{SHELL, built, document_of, package, plain, sandbox};

/// Creates a tool in the project's `tools` that runs this script.
fn tool(project: &Project, name: &str, script: &str) {
    let path = format!("tools/{name}");
    project.write(&path, format!("#!/bin/sh\n{script}\n"));
    let permissions = std::fs::Permissions::from_mode(0o755);
    fs_err::set_permissions(project.path(path), permissions).expect("a mode");
}

/// Creates all tools in working order.
fn machine(project: &Project) {
    tool(project, "node", "echo v22.12.0");
    tool(project, "docker", "echo 28.0.0");
    tool(project, "rustc", "echo /");
    tool(project, "worker-build", "exit 0");
    tool(project, "koze", "exit 0");
    project.write("node_modules/wrangler/package.json", "{ \"version\": \"4.164.0\" }");
}

/// Runs it with only the project's `tools` on the `PATH`.
fn doctor(project: &Project, args: &[&str]) -> Run {
    let mut command = koze();
    command.arg("doctor").args(args).env("PATH", project.path("tools")).env_remove("WRANGLER_DOCKER_BIN");
    command.env("KOZE_IMAGES", project.path("images"));
    let mut run = project.run(command);
    // This line depends on the user who runs the tests.
    run.stdout = run.stdout.split_inclusive('\n').filter(|line| !line.contains("  groups  ")).collect();
    // As this part does on the machine.
    if let Some((before, after)) = run.stdout.split_once("its programs (")
        && let Some((_, after)) = after.split_once(')')
    {
        run.stdout = format!("{before}its programs (VERSIONS){after}");
    }
    run
}

#[test]
fn all_is_well() {
    let project = package();
    plain(&project, SHELL, "ShellSandbox");
    built(&project);
    machine(&project);
    let run = doctor(&project, &[]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    // The date may have passed.
    let stdout = run.stdout.replace("0.x got fixes", "0.x gets fixes");
    assert_snapshot!(stdout, @"
    ok       project       every file is in step
    warning  sdk           @cloudflare/sandbox 0.12.10, from package.json; 0.x gets fixes only until 2026-12-31, and deployed Workers keep running
                           1.0 has no `Sandbox` class: `koze migrate --backend native` moves sandboxes to koze's own guest, which does not need the SDK; it keeps the storage, and `--dry-run` shows the changes
    ok       images        1 of 1 are the SDK's, of its version 0.12.10
    ok       module        `src/lib.rs` declares `mod generated;`
    ok       flags         `nodejs_compat` is on
    ok       node          22.12.0
    ok       wrangler      4.164.0
    ok       docker        the engine is running, version 28.0.0
    ok       target        wasm32-unknown-unknown is installed
    ok       worker-build  on the PATH
    ok       koze          on the PATH
    ok       local         new sandboxes on this machine have its programs (VERSIONS) in place of those of their images: `shell`; `koze image pull` stores images of registries, and `koze image build` those of Dockerfiles
    ");
    assert_eq!(doctor(&project, &["--strict"]).code, 1, "a warning counts");
}

#[test]
fn a_machine_without_tools_and_an_outdated_project() {
    let project = package();
    plain(&project, SHELL, "ShellSandbox");
    built(&project);
    sandbox(&project, SHELL, "#[sandbox(max_instances = 2)]\npub struct ShellSandbox;");
    project.write("src/lib.rs", "");
    let run = doctor(&project, &[]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    let stdout = run.stdout.replace("0.x got fixes", "0.x gets fixes");
    assert_snapshot!(stdout, @"
    error    project       `wrangler.jsonc` and `koze.lock` not in step
                           run `koze build`
    warning  sdk           @cloudflare/sandbox 0.12.10, from package.json; 0.x gets fixes only until 2026-12-31, and deployed Workers keep running
                           1.0 has no `Sandbox` class: `koze migrate --backend native` moves sandboxes to koze's own guest, which does not need the SDK; it keeps the storage, and `--dry-run` shows the changes
    ok       images        1 of 1 are the SDK's, of its version 0.12.10
    warning  module        `src/lib.rs` does not declare `mod generated;`
                           run `koze init`, which declares it
    ok       flags         `nodejs_compat` is on
    error    node          not found
                           wrangler needs Node 22.12.0 or newer: install it, or run `npm install --save-dev node@22`
    error    wrangler      not installed in this project
                           run `npm install --save-dev wrangler`
    ok       docker        no engine is running; it is needed for `wrangler dev` with containers, but not to deploy prebuilt images
    error    target        no rustc answers
                           install rustup
    error    worker-build  not on the PATH, where `build.command` expects it
                           run `cargo install worker-build`
    warning  koze          not on the PATH, where `build.command` expects it
                           run `cargo install --path cli` in a checkout of koze
    ok       local         new sandboxes on this machine have its programs (VERSIONS) in place of those of their images: `shell`; `koze image pull` stores images of registries, and `koze image build` those of Dockerfiles
    ");
}

/// Only an account could say how many disks there are, and none is asked.
#[test]
fn saved_disks_are_bounded() {
    let project = package();
    let keeps = |more: &str| {
        format!(
            "#[sandbox(backend = \"managed\", image = \"cloudflare/debian-trixie\"{more})]\npub struct ShellSandbox;"
        )
    };
    let line = |run: &Run| run.stdout.lines().find(|line| line.contains("  disks  ")).map(str::to_owned);
    sandbox(&project, SHELL, &keeps(""));
    built(&project);
    machine(&project);
    assert_eq!(line(&doctor(&project, &[])), None);
    sandbox(&project, SHELL, &keeps(", keep_files = true"));
    built(&project);
    assert_snapshot!(line(&doctor(&project, &[])).unwrap_or_default(), @"ok       disks         `src/server/shell.sandbox.rs` with `keep_files`: a sandbox has one saved disk of at most 20 GB, which the platform deletes 30 days after it was saved or used; disks that a later one replaced, and those of destroyed sandboxes, exist until then, too");
}

#[test]
fn an_engine_is_needed_to_build_images() {
    let project = package();
    plain(&project, SHELL, "ShellSandbox");
    project.write("src/server/shell.Dockerfile", "FROM docker.io/cloudflare/sandbox:0.12.9\n");
    project.koze(&["build"]);
    machine(&project);
    tool(&project, "docker", "echo; exit 1");
    let run = doctor(&project, &[]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    let line = run.stdout.lines().find(|line| line.contains("docker")).unwrap_or_default();
    assert_eq!(
        line,
        "error    docker        no engine is running, but there are images to build for `src/server/shell.sandbox.rs`"
    );
    assert!(run.stderr.contains("warning[K033]"), "{}", run.stderr);
}

/// How engines answer the possible queries.
const DOCKER: &str = "case \"$*\" in
  'version --format {{.Server.Version}}' | 'info --format {{.ServerVersion}}') echo 28.2.2 ;;
  *) exit 1 ;;
esac";
const PODMAN: &str = "case \"$*\" in
  'version --format {{.Server.Version}}' | 'info --format {{.Version.Version}}') echo 4.3.1 ;;
  *) echo \"template: info:1:2: executing info: can't evaluate field\" >&2; exit 125 ;;
esac";
const NO_DAEMON: &str = "case $1 in
  info) echo; echo 'errors pretty printing info' >&2; exit 1 ;;
  *) echo 'Cannot connect to the Docker daemon at unix:///var/run/docker.sock.' >&2; exit 1 ;;
esac";

#[test]
fn an_engine_is_docker_or_podman() {
    let project = package();
    plain(&project, SHELL, "ShellSandbox");
    built(&project);
    machine(&project);
    for (script, says) in [
        (DOCKER, "the engine is running, version 28.2.2"),
        (PODMAN, "the engine is running, version 4.3.1"),
        (NO_DAEMON, "no engine is running; it is needed for `wrangler dev` with containers"),
    ] {
        tool(&project, "docker", script);
        let run = doctor(&project, &[]);
        assert!(run.stdout.contains(&format!("ok       docker        {says}")), "{}", run.stdout);
    }
}

#[test]
fn an_image_of_another_version() {
    let project = package();
    sandbox(
        &project,
        SHELL,
        "#[sandbox(image = \"docker.io/cloudflare/sandbox:0.12.9\")]\npub struct ShellSandbox;",
    );
    built(&project);
    machine(&project);
    let run = doctor(&project, &[]);
    assert!(
        run.stdout.contains(
            "warning  images        the image of `src/server/shell.sandbox.rs` does not have the version 0.12.10"
        ),
        "{}",
        run.stdout
    );
}

#[test]
fn a_project_with_errors() {
    let project = package();
    sandbox(&project, SHELL, "#[sandbox(imgae = \"x\")]\npub struct ShellSandbox;");
    machine(&project);
    let run = doctor(&project, &[]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("error[K010]"), "{}", run.stderr);
    assert!(run.stdout.starts_with("error    project       it does not build\n"), "{}", run.stdout);
}

#[test]
fn the_projects_tools_come_first_and_old_ones_are_reported() {
    let project = package();
    plain(&project, SHELL, "ShellSandbox");
    built(&project);
    machine(&project);
    tool(&project, "node", "echo v20.20.2");
    let line =
        |run: &Run| run.stdout.lines().find(|line| line.contains("node ")).unwrap_or_default().to_owned();
    assert_eq!(line(&doctor(&project, &[])), "error    node          v20.20.2");
    // They are somebody else's programs, which are not run.
    tool(&project, "../node_modules/.bin/node", "touch was-run; echo v22.13.1");
    let unknown =
        "warning  node          the project's own in `node_modules/.bin`, of a version that is not recorded";
    assert_eq!(line(&doctor(&project, &[])), unknown);
    project.write("node_modules/node/package.json", "{ \"version\": \"22.13.1\" }");
    assert_eq!(line(&doctor(&project, &[])), "ok       node          22.13.1");
    assert!(!project.path("was-run").exists());
}

#[test]
fn json_output() {
    let project = package();
    plain(&project, SHELL, "ShellSandbox");
    built(&project);
    machine(&project);
    let run = doctor(&project, &["--format", "json"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let document = document_of("doctor", &run);
    let names: Vec<&str> = document["checks"]
        .as_array()
        .expect("checks")
        .iter()
        .filter_map(|check| check["name"].as_str())
        .filter(|name| *name != "groups")
        .collect();
    assert_eq!(
        names,
        [
            "project",
            "sdk",
            "images",
            "module",
            "flags",
            "node",
            "wrangler",
            "docker",
            "target",
            "worker-build",
            "koze",
            "local"
        ]
    );
    assert_eq!(document["checks"][0]["status"], "ok");
    assert_eq!(document["diagnostics"], serde_json::json!([]));
}

#[test]
fn an_environment_without_node() {
    let project = package();
    plain(&project, SHELL, "ShellSandbox");
    built(&project);
    machine(&project);
    let config = project.read("wrangler.jsonc");
    let env = "\"env\": { \"a\": { \"compatibility_flags\": [] } },\n  \"containers\"";
    project.write("wrangler.jsonc", config.replace("\"containers\"", env));
    project.koze(&["build"]);
    let run = doctor(&project, &[]);
    let line = "error    flags         no `nodejs_compat` in `env.a.compatibility_flags` of wrangler.jsonc";
    assert!(run.code == 1 && run.stdout.contains(line), "{}", run.stdout);
}

/// A tool that hangs counts as missing, and its descendants are not waited for.
#[test]
fn a_tool_that_hangs() {
    let project = package();
    plain(&project, SHELL, "ShellSandbox");
    built(&project);
    machine(&project);
    tool(&project, "docker", "exec /bin/sleep 60");
    let run = doctor(&project, &[]);
    assert!(run.stdout.contains("ok       docker        no engine is running"), "{}", run.stdout);
}

/// The doctor and `koze deploy` agree on how a build command obtains worker-build.
#[test]
fn a_build_command_may_install_its_own_tools() {
    let project = package();
    plain(&project, SHELL, "ShellSandbox");
    built(&project);
    machine(&project);
    fs_err::remove_file(project.path("tools/worker-build")).expect("it was there");
    let usual = "koze build --check && worker-build --release";
    let config = project.read("wrangler.jsonc");
    assert!(config.contains(usual), "{config}");
    for (command, says) in [
        (
            r#"cargo install -q \"worker-build@^0.8\" && worker-build --release"#,
            "ok       worker-build  `build.command` installs it",
        ),
        (
            "worker-build --release",
            "error    worker-build  not on the PATH, where `build.command` expects it",
        ),
        (
            "./tools.sh && worker-build --release",
            "warning  worker-build  not on the PATH, where `build.command` expects it",
        ),
        ("make", "warning  worker-build  not on the PATH\n"),
    ] {
        project.write("wrangler.jsonc", config.replace(usual, command));
        let run = doctor(&project, &[]);
        assert!(run.stdout.contains(says), "{command}: {}", run.stdout);
    }
    // wrangler runs the command with the project's own programs on the PATH.
    tool(&project, "../node_modules/.bin/worker-build", "exit 0");
    let run = doctor(&project, &[]);
    assert!(run.stdout.contains("ok       worker-build  on the PATH"), "{}", run.stdout);
}

/// worker-build adds the target to rustup's toolchains itself.
#[test]
fn a_target_that_worker_build_adds() {
    let project = package();
    plain(&project, SHELL, "ShellSandbox");
    built(&project);
    machine(&project);
    tool(&project, "rustc", "echo /nowhere/.rustup/toolchains/stable/lib/rustlib");
    let says = |status: &str| {
        let run = doctor(&project, &[]);
        assert!(
            run.stdout.contains(&format!("{status} target        no wasm32-unknown-unknown")),
            "{}",
            run.stdout
        );
    };
    says("error   ");
    tool(&project, "rustup", "exit 0");
    says("warning ");
}

/// rustup reports that the toolchain that the package pins is missing.
#[test]
fn a_toolchain_that_is_not_installed() {
    let project = package();
    plain(&project, SHELL, "ShellSandbox");
    built(&project);
    machine(&project);
    let lines = |run: &Run| {
        let mut lines = run.stdout.lines().skip_while(|line| !line.contains("target "));
        format!("{}\n{}", lines.next().unwrap_or_default(), lines.next().unwrap_or_default())
    };
    // It is run in the package's directory, and must not download anything.
    let rustup = "test -e rust-toolchain.toml || { echo /; exit; }
test \"$RUSTUP_AUTO_INSTALL\" = 0 || { echo /; exit; }
echo \"error: toolchain '1.60.0-x86_64-unknown-linux-gnu' is not installed\" >&2
echo 'help: run `rustup toolchain install`' >&2
exit 1";
    tool(&project, "rustc", rustup);
    assert!(lines(&doctor(&project, &[])).starts_with("ok       target "));
    project.write("rust-toolchain.toml", "[toolchain]\nchannel = \"1.60.0\"\n");
    let run = doctor(&project, &[]);
    assert_eq!(run.code, 1);
    assert_snapshot!(lines(&run), @"
    error    target        rustc does not run here: toolchain '1.60.0-x86_64-unknown-linux-gnu' is not installed
                           `rust-toolchain.toml` requires it: run `rustup toolchain install 1.60.0 --target wasm32-unknown-unknown`
    ");
    let elsewhere = Project::new();
    let mut command = koze();
    command.args(["doctor", "--project"]).arg(project.dir()).env("PATH", project.path("tools"));
    assert_eq!(lines(&elsewhere.run(command)), lines(&run));

    project.write("rust-toolchain.toml", "# Ours.\n");
    assert_snapshot!(lines(&doctor(&project, &[])), @"
    error    target        rustc does not run here: toolchain '1.60.0-x86_64-unknown-linux-gnu' is not installed
                           run `rustup show` in the package to see what selects the toolchain, then `rustup toolchain install` with its name and `--target wasm32-unknown-unknown`
    ");
    fs_err::remove_file(project.path("tools/rustc")).expect("it was there");
    assert_snapshot!(lines(&doctor(&project, &[])), @"
    error    target        no rustc answers
                           install rustup
    ");
}
