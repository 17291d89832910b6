//! Measures sandboxes in the SDK's containers: the Worker of a new project next to a small one written by hand over the
//! same class, in `tests/bench/sdk`.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use koze_tests::containers::{Engine, Image};

use super::sandboxes::Report;
use super::worker::built::{self, Built};
use crate::{Result, process};

/// The image's name among those of the tests.
const IMAGE: &str = "localhost/koze-bench/official:latest";

pub(super) fn run(root: &Path, koze: &Path, image: Option<&str>, quick: bool) -> Result<Report> {
    eprintln!("bench: sandboxes in containers of the SDK");
    let built = Built::new(root, koze)?;
    // Run the bundle that wrangler would upload.
    built.dry_run(true)?;
    built.by_hand(&root.join("tests/bench/sdk/by-hand.ts"), "by-hand.mjs")?;
    let official = image.map(|image| official(root, image)).transpose()?;
    let mut node = built.tool("node")?;
    node.arg(root.join("tests/bench/sdk/run.mjs")).arg(built.dir()).arg(if quick { "20" } else { "100" });
    let about = match &official {
        Some((engine, image)) => {
            node.arg(&image.0).arg(&engine.sidecar().0).envs(engine.env());
            "The backend `sdk` over the official server, compared with a handwritten Worker over the same class"
        }
        None => {
            "The backend `sdk` over the stand-in of the tests, compared with a handwritten Worker over the same class"
        }
    };
    let mut report = Report::of(about);
    report.add(&process::stdout(&mut node, built::SETUP)?)?;
    Ok(report)
}

/// Returns an engine with the image of the official server, from a file written by `docker save` or by the image's name
/// in Docker.
fn official(root: &Path, image: &str) -> Result<(Arc<Engine>, Image)> {
    let engine = Engine::shared(&root.join("target/tmp/containers"))?;
    let dir = tempfile::Builder::new().prefix("koze-bench-image-").tempdir()?;
    let saved = dir.path().join("image.tar");
    let file = if Path::new(image).is_file() {
        Path::new(image)
    } else {
        let mut docker = Command::new("docker");
        docker.args(["image", "save", "--output"]).arg(&saved).arg(image);
        process::stdout(&mut docker, "install Docker, or name a file that `docker save` has written")?;
        &saved
    };
    let loaded = engine.load(file, IMAGE);
    Ok((engine, loaded))
}
