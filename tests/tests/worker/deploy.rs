//! `wrangler deploy --dry-run`: runs the build command, bundles the entry point, and lists bindings and containers.

use std::fmt::Write as _;
use std::process::Output;

use fs_err as fs;
use koze_tests::run;

use crate::project::{self, STUB, Sandbox, TIMEOUT, Worker};
use crate::wrangler::{self, Container, Resolved};

/// The build command of a configuration that koze created. It prevents deploying outdated entries.
const BUILD: &str = "koze build --check && worker-build --release";

/// Runs it for an environment; the bundle is in `dist`.
pub(crate) fn dry_run(worker: &Worker, config: &Resolved) -> Output {
    let mut command = worker.tool("wrangler");
    command.args(["deploy", "--dry-run", "--outdir", "dist"]);
    // Pass it even if it is empty. Otherwise wrangler warns if the configuration has environments.
    command.arg(format!("--env={}", config.environment));
    // Those that their objects own have Dockerfiles in `images`.
    let is_built = |container: &Container| container.image.is_empty() || container.image.starts_with('/');
    if config.containers.iter().any(is_built) {
        // Otherwise wrangler would build the Dockerfile with Docker.
        command.arg("--containers-rollout=none");
    }
    run(command, TIMEOUT)
}

#[test]
fn wrangler_lists_every_binding_and_container() {
    for worker in project::all() {
        let sandboxes = worker.sandboxes();
        for config in wrangler::resolve(&worker) {
            prepare(&worker, &config, &sandboxes);
            let place = format!("{}, environment {:?}", worker.name, config.environment);
            let output = dry_run(&worker, &config);
            let stdout = String::from_utf8_lossy(&output.stdout);
            let stderr = String::from_utf8_lossy(&output.stderr);
            let all = format!("{place}\n{stdout}\n{stderr}");
            assert!(output.status.success(), "{all}");
            let lines: Vec<_> = stdout.lines().map(str::trim).collect();
            for (binding, class) in &config.bindings {
                // The Worker that has the class may follow its name.
                let binding = format!("env.{binding} ({class}");
                assert!(lines.iter().any(|line| line.starts_with(&binding)), "no {binding}\n{all}");
            }
            for container in &config.containers {
                // The image of a container that its object owns is not in its entry.
                let line = match container.image.as_str() {
                    "" => format!("- {} (durable_object)", container.class),
                    image => format!("- {} ({image})", container.name),
                };
                assert!(lines.contains(&line.as_str()), "no {line}\n{all}");
            }
        }
    }
}

/// Makes the stub export the classes that belong to no sandbox, as the Rust Worker would.
fn prepare(worker: &Worker, config: &Resolved, sandboxes: &[Sandbox]) {
    let mut stub = STUB.to_owned();
    for (_, class) in &config.bindings {
        // That of scripts is not in the Rust Worker, either.
        if class != "KozeScripts" && !sandboxes.iter().any(|sandbox| sandbox.class == *class) {
            let _ = writeln!(stub, "export class {class} {{}}");
        }
    }
    fs::write(worker.build_dir().join("index.js"), &stub).expect("the stub");
    if config.build.is_none() {
        // Otherwise the build command puts it there.
        worker.project.write("build/index.js", stub);
    }
}

#[test]
fn a_new_project_is_built_by_its_command() {
    let worker = project::made("commanded");
    let config = &wrangler::resolve(&worker)[0];
    assert_eq!(config.build.as_deref(), Some(BUILD));
    prepare(&worker, config, &worker.sandboxes());
    assert!(!worker.project.path("build").exists());
    assert!(dry_run(&worker, config).status.success());
    // Only the stand-in for worker-build creates it.
    assert!(worker.project.path("build/index.js").exists());
}

#[test]
fn outdated_entries_stop_a_deployment() {
    let worker = project::made("stale");
    let config = &wrangler::resolve(&worker)[0];
    let file = "src/server/shell.sandbox.rs";
    let changed = worker.project.read(file).replace("#[sandbox(", "#[sandbox(max_instances = 3, ");
    worker.project.write(file, changed);
    let output = dry_run(&worker, config);
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success(), "{stdout}");
    assert!(stdout.contains("not in step: run `koze build`"), "{stdout}");
    assert!(!worker.project.path("build").exists(), "worker-build ran all the same");
}
