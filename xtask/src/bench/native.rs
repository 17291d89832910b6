//! Measures sandboxes in real containers: koze's guest next to the platform's own `exec` in the same container. The
//! measurements are in `tests/bench/native.mjs`.

use std::path::Path;
use std::process::Command;

use fs_err as fs;
use koze_tests::containers::Engine;

use super::project::Project;
use super::sandboxes::Report;
use crate::{Result, process};

const SANDBOX: &str =
    "use koze::prelude::*;\n\n#[sandbox(backend = \"native\", default)]\npub struct ShellSandbox;\n";

const MANAGED: &str = "use koze::prelude::*;\n\n#[sandbox(backend = \"managed\", keep_files = true)]\npub struct ManagedSandbox;\n";

/// The image names that wrangler would choose.
const IMAGE: &str = "localhost/koze-bench/shell:latest";
const MANAGED_IMAGE: &str = "localhost/koze-bench/managed:latest";

pub(super) fn run(root: &Path, koze: &Path, dir: &Path, quick: bool) -> Result<Report> {
    eprintln!("bench: sandboxes in containers");
    let engine = Engine::shared(&root.join("target/tmp/containers"))?;
    let project = Project::new(&dir.join("native"), 0, 0);
    project.restore()?;
    let server = project.dir().join("src/server");
    fs::write(server.join("shell.sandbox.rs"), SANDBOX)?;
    fs::write(server.join("shell.Dockerfile"), format!("FROM {}\n", engine.base().0))?;
    fs::write(server.join("managed.sandbox.rs"), MANAGED)?;
    fs::write(server.join("managed.Dockerfile"), format!("FROM {}\n", engine.base().0))?;
    let mut build = Command::new(koze);
    build.args(["build", "--project"]).arg(project.dir());
    process::stdout(&mut build, "see what it said above")?;
    let image_of = |name: &str, image: &str| -> Result<_> {
        let dockerfile = format!("src/generated/native/{name}.Dockerfile");
        Ok(engine.build(image, &fs::read_to_string(project.dir().join(dockerfile))?, &server))
    };
    let image = image_of("shell", IMAGE)?;
    let managed = image_of("managed", MANAGED_IMAGE)?;
    let tests = root.join("tests");
    let mut node = Command::new(tests.join("node_modules/.bin/node"));
    node.arg("bench/native.mjs").arg(project.dir()).arg(&image.0).arg(&managed.0).arg(&engine.sidecar().0);
    node.arg(if quick { "5" } else { "25" }).current_dir(&tests).envs(engine.env());
    let mut report =
        Report::of("Sandboxes in containers, compared with the platform's `exec` in the same one");
    report.add(&process::stdout(&mut node, "run `cargo xtask setup`")?)?;
    Ok(report)
}
