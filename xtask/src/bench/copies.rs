//! Compares `koze cp` with `cp`, for a file of 1 GiB.

use std::path::Path;
use std::process::Command;

use fs_err as fs;
use serde_json::{Value, json};

use super::measure;
use super::project::Project;
use crate::{Result, process};

/// The size of the file in bytes.
const SIZE: u64 = 1 << 30;

/// Returns the rows of a report.
pub(super) fn run(koze: &Path, dir: &Path, quick: bool) -> Result<Value> {
    let project = Project::new(&dir.join("cp"), 1, 0);
    project.restore()?;
    let (state, file, copy) = (dir.join("cp-state"), dir.join("file"), dir.join("copy"));
    let koze_in = |args: &[&str]| {
        let mut command = Command::new(koze);
        command.args(args).arg("--project").arg(project.dir());
        if args != ["build"] {
            command.arg("--state").arg(&state);
        }
        command
    };
    let ask = |args: &[&str]| process::stdout(&mut koze_in(args), "see what it said above");
    ask(&["build"])?;
    // Not zeros, which some file systems do not store.
    let mut random = fs::File::open("/dev/urandom")?;
    std::io::copy(&mut std::io::Read::take(&mut random, SIZE), &mut fs::File::create(&file)?)?;
    let (from, to) = (file.to_string_lossy().into_owned(), copy.to_string_lossy().into_owned());
    let mut cp = Command::new("cp");
    cp.args([&file, &copy]);
    let [mut cp_us, mut in_us, mut out_us] = [(); 3].map(|()| Vec::new());
    for _ in 0..if quick { 3 } else { 9 } {
        for (times, command) in [
            (&mut cp_us, &mut cp),
            (&mut in_us, &mut koze_in(&["cp", &from, "default:file"])),
            (&mut out_us, &mut koze_in(&["cp", "default:file", &to])),
        ] {
            // Replacing a file would need room for two.
            let _ = fs::remove_file(&copy);
            times.push(measure::time(command)?.as_secs_f64() * 1e6);
        }
        ask(&["call", "shell", r#"{"command": "rm file"}"#])?;
    }
    ask(&["destroy", "--all"])?;
    let row = |case: &str, us: &[f64]| json!({ "case": case, "us": us, "peer": "cp", "peer_us": cp_us });
    Ok(json!({ "rows": [row("koze cp of 1 GiB, in", &in_us), row("koze cp of 1 GiB, out", &out_us)] }))
}
