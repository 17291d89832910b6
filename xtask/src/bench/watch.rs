//! Measures `koze build --watch`, from saving a sandbox file to the changed configuration on disk.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use fs_err as fs;

use super::measure::{self, Samples};
use super::peers;
use super::project::Project;
use super::report::{self, Report, Row};
use crate::Result;

/// The polling interval of the configuration.
const POLL: Duration = Duration::from_millis(1);

/// The timeout for a change.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The pause before each save, so that the watcher is idle.
const REST: Duration = Duration::from_millis(300);

/// Kills the watcher on drop.
struct Watcher(Child);

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Saves a sandbox file repeatedly, replacing the whole file as editors do.
pub(super) fn latency(
    root: &Path,
    koze: &Path,
    project: &Project,
    runs: usize,
    report: &mut Report,
) -> Result<()> {
    let debounce = debounce(root)?;
    project.restore()?;
    let mut command = Command::new(koze);
    command.args(["build", "--watch", "--project"]).arg(project.dir());
    let watcher = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let mut watcher = Watcher(watcher);
    wait(&mut watcher, &project.dir().join("koze.lock"), "S000")?;
    let [mut whole, mut rest, mut metadata] = [(); 3].map(|()| Samples::default());
    // Discard the first run, in which the program has only just started watching.
    for run in 0..=runs {
        let wanted = run + 2;
        let saved = project.dir().with_extension("saved");
        fs::write(&saved, Project::source(0, &format!("(max_instances = {wanted})")))?;
        fs::File::open(&saved)?.sync_all()?;
        thread::sleep(REST);
        let start = Instant::now();
        fs::rename(&saved, project.file(0))?;
        wait(&mut watcher, &project.dir().join("wrangler.jsonc"), &format!("\"max_instances\": {wanted}\n"))?;
        let time = start.elapsed();
        let peer = measure::time(&mut peers::cargo_metadata(root, project))?;
        if run > 0 {
            whole.push(time);
            rest.push(time.saturating_sub(debounce));
            metadata.push(peer);
        }
    }
    let peer = metadata.median();
    report.push(Row::new(project, report::WATCH, whole, peer));
    report.push(Row::new(project, report::WATCH_REST, rest, peer));
    report.note(format!(
        "`--watch` waits {} ms after the last change; a save is a rename, and the configuration is read every ms",
        debounce.as_millis()
    ));
    Ok(())
}

/// Waits until a file contains a text.
fn wait(watcher: &mut Watcher, file: &Path, text: &str) -> Result<()> {
    let start = Instant::now();
    while start.elapsed() < TIMEOUT {
        if fs::read_to_string(file).is_ok_and(|content| content.contains(text)) {
            return Ok(());
        }
        if let Some(status) = watcher.0.try_wait()? {
            return Err(format!("`koze build --watch` ended: {status}").into());
        }
        thread::sleep(POLL);
    }
    Err(format!("`koze build --watch` did not write {text:?} to {} in {TIMEOUT:?}", file.display()).into())
}

/// Reads the debounce interval from the source of koze, which does not report it.
fn debounce(root: &Path) -> Result<Duration> {
    let source = fs::read_to_string(root.join("cli/src/watch.rs"))?;
    let millis = source
        .split_once("DEBOUNCE: Duration = Duration::from_millis(")
        .and_then(|(_, rest)| rest.split_once(')')?.0.parse().ok());
    Ok(Duration::from_millis(millis.ok_or("cli/src/watch.rs has no `DEBOUNCE` in milliseconds")?))
}
