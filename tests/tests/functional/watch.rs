//! `koze build --watch`.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use koze_tests::{Project, koze};

use crate::common::{SHELL, package, plain, sandbox};

/// Far more than a build takes: a hang ends in a message.
const PATIENCE: Duration = Duration::from_secs(30);

/// A watching koze, which ends with the test.
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

    /// What is printed until the next build is done.
    fn built(&self) -> String {
        let deadline = Instant::now() + PATIENCE;
        let mut text = String::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line =
                self.lines.recv_timeout(left).unwrap_or_else(|_| panic!("nothing more came after {text:?}"));
            if line.starts_with("watching") {
                return text;
            }
            text += &line;
            text.push('\n');
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
fn it_builds_after_each_change_of_what_it_reads() {
    let project = package();
    let watching = Watching::start(&project);
    assert!(watching.built().starts_with("no sandboxes"));

    plain(&project, SHELL, "ShellSandbox");
    assert!(watching.built().contains("created wrangler.jsonc"));

    sandbox(&project, SHELL, "#[sandbox(max_instances = 3)]\npub struct ShellSandbox;");
    assert!(watching.built().contains("updated wrangler.jsonc"));
    assert!(project.read("wrangler.jsonc").contains("\"max_instances\": 3"));

    project.write("src/server/shell.Dockerfile", "FROM docker.io/cloudflare/sandbox:0.12.10\n");
    watching.built();
    assert!(project.read("wrangler.jsonc").contains("./src/server/shell.Dockerfile"));

    fs_err::remove_file(project.path("src/server/shell.Dockerfile")).expect("it was there");
    watching.built();

    // npm makes one directory after the other.
    project.write("node_modules/@cloudflare/sandbox/package.json", "{ \"version\": \"0.12.9\" }\n");
    assert!(watching.built().contains("SDK 0.12.9"));
    assert!(project.read("wrangler.jsonc").contains("sandbox:0.12.9"));

    // A key that is not koze's to keep goes as it came.
    let config = project.read("wrangler.jsonc");
    project.write("wrangler.jsonc", config.replace("\"max_instances\": 3", "\"max_instances\": 4"));
    watching.built();
    assert_eq!(project.read("wrangler.jsonc"), config);
}

#[test]
fn it_survives_a_broken_state() {
    let project = package();
    plain(&project, SHELL, "ShellSandbox");
    let watching = Watching::start(&project);
    watching.built();

    sandbox(&project, SHELL, "#[sandbox(\npub struct ShellSandbox;");
    assert_eq!(watching.built(), "", "errors go to standard error");
    plain(&project, SHELL, "ShellSandbox");
    assert!(watching.built().contains("nothing to do"));

    let manifest = project.read("Cargo.toml");
    project.write("Cargo.toml", "[package");
    assert_eq!(watching.built(), "");
    project.write("Cargo.toml", manifest);
    assert!(watching.built().contains("nothing to do"));

    fs_err::remove_dir_all(project.path("src")).expect("it was there");
    assert_eq!(watching.built(), "");
    plain(&project, SHELL, "ShellSandbox");
    assert!(watching.built().contains("1 sandbox"));
    sandbox(&project, SHELL, "#[sandbox(max_instances = 3)]\npub struct ShellSandbox;");
    assert!(watching.built().contains("updated wrangler.jsonc"), "the new directory is watched as well");
}

#[test]
fn it_watches_or_checks() {
    let run = package().koze(&["build", "--watch", "--check"]);
    assert_eq!(run.code, 2, "{}", run.stdout);
}

#[test]
fn a_directory_that_there_is_not() {
    let run = package().koze(&["build", "--watch", "--project", "nowhere"]);
    assert_eq!(run.code, 1, "{}", run.stdout);
    assert!(run.stderr.contains("nowhere"), "{}", run.stderr);
}
