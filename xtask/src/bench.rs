//! `cargo xtask bench`: how long `koze build` takes, as a person meets it: a process, from spawn to exit; how fast
//! sandboxes on this machine are; and how small and quick the Worker of a new project is.
//!
//! What is compared runs interleaved, so that a slow minute of the machine meets all of it alike.
//! Nothing here judges a number.

mod binary;
mod measure;
#[cfg(target_os = "linux")]
mod native;
mod peers;
mod project;
mod report;
mod sandboxes;
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

/// How many sandboxes the projects have, and how many environments.
const SIZES: [(usize, usize); 6] = [(1, 0), (10, 0), (100, 0), (1000, 0), (100, 5), (1000, 5)];

/// The project that the slow peer is run on, and that is watched.
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
    /// A part alone
    #[arg(long, value_name = "PART")]
    only: Option<Part>,
    /// Run the sandboxes of `sdk` in this image of the official server, in place of the tests' stand-in for it: a file that
    /// `docker save` has written, or a name that Docker knows
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
    /// The Worker of a new project: the size of its upload, and calls through it
    Worker,
    /// Sandboxes in containers, which only root on Linux can run
    Native,
    /// Sandboxes in containers of the SDK, on Linux
    Sdk,
}

/// How often each command runs; the first runs of all are thrown away.
struct Runs {
    warm_up: usize,
    fast: usize,
    slow: usize,
}

impl Args {
    /// Whether a part is to be measured.
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

/// `koze build` on a project never built, then with nothing to do, then the peer; and again.
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

/// `koze build` with nothing to do beside `wrangler types`, the peer that makes types from the same blocks.
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
