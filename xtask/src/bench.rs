//! `cargo xtask bench`: measures `koze build` as a whole process, from spawn to exit; sandboxes on this machine; scripts;
//! and the size and speed of a new project's Worker.
//!
//! Compared commands run interleaved, so that a temporary slowdown of the machine affects all of them alike. The
//! benchmark does not judge the numbers.

mod binary;
mod copies;
mod measure;
#[cfg(target_os = "linux")]
mod native;
mod peers;
mod project;
mod report;
mod sandboxes;
mod scripts;
#[cfg(target_os = "linux")]
mod sdk;
mod watch;
mod worker;

use std::path::{Path, PathBuf};
use std::process::Command;

use fs_err as fs;
use serde_json::json;

use crate::Result;
use measure::Samples;
use project::Project;
use report::{Report, Row};

/// The number of sandboxes and of environments in each project.
const SIZES: [(usize, usize); 6] = [(1, 0), (10, 0), (100, 0), (1000, 0), (100, 5), (1000, 5)];

/// The project for the slow peer and for the watcher.
const SMALL: (usize, usize) = (10, 0);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// 5 runs of each command instead of 20
    #[arg(long)]
    quick: bool,
    /// Also write the numbers to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Measure this binary instead of building one
    #[arg(long, value_name = "PATH")]
    koze: Option<PathBuf>,
    /// Measure only this part
    #[arg(long, value_name = "PART")]
    only: Option<Part>,
    /// Run the sandboxes of `sdk` in this image of the official server instead of the tests' stand-in: a file written by
    /// `docker save`, or a name that Docker knows
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// `koze build` and `koze build --watch`
    Build,
    /// Sandboxes on this machine
    Sandboxes,
    /// Scripts of agents, on this machine and in a Worker
    Script,
    /// The Worker of a new project: the size of its upload, and calls through it
    Worker,
    /// Sandboxes in containers, which only root on Linux can run
    Native,
    /// Sandboxes in containers of the SDK, on Linux
    Sdk,
}

/// The number of runs of each command; the first runs are discarded.
struct Runs {
    warm_up: usize,
    fast: usize,
    slow: usize,
}

impl Args {
    /// Returns whether to measure a part.
    fn is_asked(&self, part: Part) -> bool {
        self.only.is_none_or(|only| only == part)
    }
}

pub(crate) fn run(root: &Path, args: &Args) -> Result<()> {
    let runs = Runs { warm_up: 1, fast: if args.quick { 5 } else { 20 }, slow: 3 };
    let koze = match &args.koze {
        Some(path) => fs::canonicalize(path)?,
        None => binary::build(root)?,
    };
    let dir = tempfile::Builder::new().prefix("koze-bench-").tempdir()?;
    let mut numbers = json!({});
    if args.is_asked(Part::Build) {
        let report = builds(root, &koze, dir.path(), &runs)?;
        print!("{report}");
        numbers["build"] = report.json();
    }
    if args.is_asked(Part::Sandboxes) {
        let report = sandboxes::run(root, &koze, dir.path(), args.quick)?;
        print!("{report}");
        numbers["sandboxes"] = report.json();
    }
    if args.is_asked(Part::Script) {
        let report = scripts::on_this_machine(root, args.quick)?;
        print!("{report}");
        numbers["script"] = report.json();
        let report = scripts::in_a_worker(root, &koze, args.quick)?;
        print!("{report}");
        numbers["script_worker"] = report.json();
    }
    if args.is_asked(Part::Worker) {
        let report = worker::run(root, &koze, args.quick)?;
        print!("{report}");
        numbers["worker"] = report.json();
    }
    #[cfg(target_os = "linux")]
    if args.is_asked(Part::Native) {
        match native::run(root, &koze, dir.path(), args.quick) {
            Ok(report) => {
                print!("{report}");
                numbers["native"] = report.json();
            }
            Err(error) if args.only.is_none() => eprintln!("bench: no containers: {error}"),
            Err(error) => return Err(error),
        }
    }
    #[cfg(target_os = "linux")]
    if args.is_asked(Part::Sdk) {
        let report = sdk::run(root, &koze, args.image.as_deref(), args.quick)?;
        print!("{report}");
        numbers["sdk"] = report.json();
    }
    if let Some(file) = &args.json {
        fs::write(file, format!("{numbers:#}\n"))?;
    }
    Ok(())
}

fn builds(root: &Path, koze: &Path, dir: &Path, runs: &Runs) -> Result<Report> {
    let mut report = Report::new();
    for size in SIZES {
        let (sandboxes, environments) = size;
        let project = Project::new(dir, sandboxes, environments);
        eprintln!("bench: {sandboxes} sandboxes, {environments} environments");
        build(root, koze, &project, runs, &mut report)?;
        if size == SMALL {
            types(root, koze, &project, runs, &mut report)?;
            watch::latency(root, koze, &project, runs.fast.max(20), &mut report)?;
        }
    }
    Ok(report)
}

/// Measures `koze build` on a project that was never built, then without changes, then the peer, repeatedly.
fn build(root: &Path, koze: &Path, project: &Project, runs: &Runs, report: &mut Report) -> Result<()> {
    let [mut cold, mut idle, mut metadata] = [(); 3].map(|()| Samples::default());
    for run in 0..runs.warm_up + runs.fast {
        project.restore()?;
        let times = [
            measure::time(&mut koze_build(koze, project))?,
            measure::time(&mut koze_build(koze, project))?,
            measure::time(&mut peers::cargo_metadata(root, project))?,
        ];
        if run >= runs.warm_up {
            for (samples, time) in [&mut cold, &mut idle, &mut metadata].into_iter().zip(times) {
                samples.push(time);
            }
        }
    }
    if project.written()? == 0 {
        report.note(format!("`koze build` wrote no file into the project of size {}", project.sandboxes()));
    }
    let peer = metadata.median();
    for (case, samples) in [(report::COLD, cold), (report::IDLE, idle), (peers::CARGO_METADATA, metadata)] {
        report.push(Row::new(project, case, samples, peer));
    }
    Ok(())
}

/// Measures `koze build` without changes next to `wrangler types`, which generates types from the same blocks.
fn types(root: &Path, koze: &Path, project: &Project, runs: &Runs, report: &mut Report) -> Result<()> {
    if let Err(reason) = peers::wrangler_ready(root, project) {
        report.note(format!("`{}` was not run: {reason}", peers::WRANGLER_TYPES));
        return Ok(());
    }
    let [mut idle, mut wrangler] = [(); 2].map(|()| Samples::default());
    for run in 0..runs.warm_up + runs.slow {
        let times = [
            measure::time(&mut koze_build(koze, project))?,
            measure::time(&mut peers::wrangler_types(root, project)?)?,
        ];
        if run >= runs.warm_up {
            idle.push(times[0]);
            wrangler.push(times[1]);
        }
    }
    let peer = wrangler.median();
    report.push(Row::new(project, report::IDLE_AGAIN, idle, peer));
    report.push(Row::new(project, peers::WRANGLER_TYPES, wrangler, peer));
    Ok(())
}

fn koze_build(koze: &Path, project: &Project) -> Command {
    let mut command = Command::new(koze);
    command.args(["build", "--project"]).arg(project.dir()).current_dir(project.dir());
    command
}
