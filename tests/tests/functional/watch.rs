//! `koze build --watch`.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use koze_tests::{Project, koze};

use crate::common::{SHELL, package, plain, sandbox};

/// The timeout of a build.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A watching koze, which is killed on drop.
struct Watching {
    child: Child,
    lines: Receiver<String>,
}

impl Watching {
    fn start(project: &Project) -> Self {
        let mut command = koze();
        command.args(["build", "--watch"]).current_dir(project.path("")).env("NO_COLOR", "1");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("koze starts");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let (send, lines) = mpsc::channel();
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
        Watching { child, lines }
    }

    /// Waits for a build whose output satisfies a condition. A build that runs while a file is being written may fail,
    /// and is followed by another one.
    #[track_caller]
    fn until(&self, what: impl Fn(&str) -> bool) {
        let deadline = Instant::now() + TIMEOUT;
        let mut all = String::new();
        let mut text = String::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else { panic!("nothing more came after {all}") };
            all += &line;
            all.push('\n');
            if line.starts_with("watching") {
                if what(&text) {
                    return;
                }
                text.clear();
            } else {
                text += &line;
                text.push('\n');
            }
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn it_builds_after_each_change_of_an_input() {
    let project = package();
    let watching = Watching::start(&project);
    watching.until(|text| text.starts_with("no sandboxes"));
    let config = || project.read("wrangler.jsonc");

    plain(&project, SHELL, "ShellSandbox");
    watching.until(|text| text.contains("created wrangler.jsonc"));

    sandbox(&project, SHELL, "#[sandbox(max_instances = 3)]\npub struct ShellSandbox;");
    watching.until(|_| config().contains("\"max_instances\": 3"));

    project.write("src/server/shell.Dockerfile", "FROM docker.io/cloudflare/sandbox:0.12.10\n");
    watching.until(|_| config().contains("./src/server/shell.Dockerfile"));

    fs_err::remove_file(project.path("src/server/shell.Dockerfile")).expect("it was there");
    watching.until(|_| !config().contains("Dockerfile"));

    // npm creates one directory after the other.
    project.write("node_modules/@cloudflare/sandbox/package.json", "{ \"version\": \"0.12.9\" }\n");
    watching.until(|text| text.contains("SDK 0.12.9") && config().contains("sandbox:0.12.9"));

    // A manual edit of koze's key is reverted.
    let before = config();
    project.write("wrangler.jsonc", before.replace("\"max_instances\": 3", "\"max_instances\": 4"));
    watching.until(|_| config() == before);
}

#[test]
fn it_continues_after_errors() {
    let project = package();
    plain(&project, SHELL, "ShellSandbox");
    let watching = Watching::start(&project);
    watching.until(|text| text.contains("created wrangler.jsonc"));

    sandbox(&project, SHELL, "#[sandbox(\npub struct ShellSandbox;");
    // Errors are printed to standard error.
    watching.until(str::is_empty);
    plain(&project, SHELL, "ShellSandbox");
    watching.until(|text| text.contains("nothing to do"));

    let manifest = project.read("Cargo.toml");
    project.write("Cargo.toml", "[package");
    watching.until(str::is_empty);
    project.write("Cargo.toml", manifest);
    watching.until(|text| text.contains("nothing to do"));

    fs_err::remove_dir_all(project.path("src")).expect("it was there");
    watching.until(str::is_empty);
    plain(&project, SHELL, "ShellSandbox");
    watching.until(|text| text.contains("1 sandbox"));
    // The new directory is watched, too.
    sandbox(&project, SHELL, "#[sandbox(max_instances = 3)]\npub struct ShellSandbox;");
    watching.until(|_| project.read("wrangler.jsonc").contains("\"max_instances\": 3"));
}

#[test]
fn watch_and_check_are_exclusive() {
    let run = package().koze(&["build", "--watch", "--check"]);
    assert_eq!(run.code, 2, "{}", run.stdout);
}

#[test]
fn a_missing_directory() {
    let run = package().koze(&["build", "--watch", "--project", "nowhere"]);
    assert_eq!(run.code, 1, "{}", run.stdout);
    assert!(run.stderr.contains("nowhere"), "{}", run.stderr);
}
