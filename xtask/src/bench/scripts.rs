//! Measures scripts: on this machine, next to other engines of JavaScript, and in a Worker. `local/benches/script.rs` and
//! `tests/bench/script` measure; this module reports.

use std::path::Path;

use super::sandboxes::{self, Report};
use super::worker::Upload;
use super::worker::built::{self, Built};
use crate::{Result, process, setup};

/// Measures the processes of this machine.
pub(super) fn on_this_machine(root: &Path, quick: bool) -> Result<Report> {
    let mut report = Report::of("Scripts on this machine, interleaved with their peers");
    eprintln!("bench: scripts on this machine");
    let dir = root.join("tests/bench/script");
    // The addon of isolated-vm is in its package; its install script would compile one for this machine's own Node.
    setup::npm::install_peers(&dir)?;
    let node = root.join("tests/node_modules/.bin/node");
    let peers = [Path::new("--peers"), &node, &dir.join("peers.mjs")];
    report.add(&sandboxes::measured(root, "script", quick, &peers)?)?;
    Ok(report)
}

/// Measures the Worker of a new project with scripts.
pub(super) fn in_a_worker(root: &Path, koze: &Path, quick: bool) -> Result<Report> {
    let mut report = Report::of("Scripts in workerd, interleaved with a call that runs none");
    eprintln!("bench: scripts in a Worker");
    let without = Upload::read("without scripts", &Built::new(root, koze)?.dry_run(true)?)?;
    let built = Built::with_scripts(root, koze)?;
    let with = Upload::read("with scripts", &built.dry_run(true)?)?;
    let mut node = built.tool("node")?;
    node.arg(root.join("tests/bench/script/worker.mjs")).arg(built.dir());
    node.arg(if quick { "200" } else { "2000" });
    report.add(&process::stdout(&mut node, built::SETUP)?)?;
    report.note(format!(
        "the upload of a new project's Worker has {:.0} KiB with gzip, {:.0} KiB more than without scripts",
        with.gzipped,
        with.gzipped - without.gzipped
    ));
    Ok(report)
}
