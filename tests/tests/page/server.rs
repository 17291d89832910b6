//! A project, and `koze ui` in it.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use koze_tests::{Project, Sandboxes, root};
use rustix::process::Signal;

/// The timeout for koze to print its URL, and to end.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Creates a project whose sandbox may reach one host, which does not exist.
pub(crate) fn project() -> Sandboxes {
    let project = Project::new();
    let runtime = root().join("runtime");
    let runtime = runtime.to_str().expect("a path in Unicode");
    let new = project.koze(&["new", ".", "--name", "agents", "--backend", "sdk", "--runtime-path", runtime]);
    assert_eq!(new.code, 0, "{new:?}");
    let sandbox =
        "use koze::prelude::*;\n\n#[sandbox(allowed_hosts = [\"a.invalid\"])]\npub struct ShellSandbox;\n";
    project.write("src/server/shell.sandbox.rs", sandbox);
    let build = project.koze(&["build"]);
    assert_eq!(build.code, 0, "{build:?}");
    Sandboxes::of(project)
}

/// `koze ui`, which is killed on drop.
pub(crate) struct Ui {
    child: Child,
    /// The URL of the page, with the token.
    pub(crate) url: String,
    /// The rest of its output.
    rest: mpsc::Receiver<String>,
}

impl Ui {
    /// Starts it at a free port.
    pub(crate) fn start(host: &Sandboxes, args: &[&str]) -> Self {
        Ui::run(host.command(&[&["ui"], args].concat()))
    }

    /// Starts it with a command.
    pub(crate) fn run(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("koze starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let (send, lines) = mpsc::channel();
        thread::spawn(move || {
            let mut line = String::new();
            let _ = stderr.read_line(&mut line);
            let _ = send.send(line);
            let mut rest = String::new();
            let _ = stderr.read_to_string(&mut rest);
            let _ = send.send(rest);
        });
        // Construct it first, so that the child is killed even if its output is unexpected.
        let mut ui = Ui { child, url: String::new(), rest: lines };
        let line = ui.rest.recv_timeout(TIMEOUT).expect("koze prints a URL");
        let url = line.strip_prefix("koze ui: ").unwrap_or_else(|| panic!("{line}"));
        url.trim_end().clone_into(&mut ui.url);
        ui
    }

    /// Returns the host of the page, such as `koze-ui.localhost:8080`.
    pub(crate) fn host(&self) -> &str {
        let (host, _) = self.url.trim_start_matches("http://").split_once("/#token=").expect("a token");
        host
    }

    /// Returns the token.
    pub(crate) fn token(&self) -> &str {
        self.url.split_once("#token=").expect("a token").1
    }

    /// Returns its port.
    pub(crate) fn port(&self) -> u16 {
        self.host().rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port")
    }

    /// Stops it as Ctrl-C does, and returns its exit code and the rest of its output.
    pub(crate) fn stop(mut self) -> (Option<i32>, String) {
        koze_tests::signal(i32::try_from(self.child.id()).expect("a process ID"), Signal::INT);
        let rest = self.rest.recv_timeout(TIMEOUT).expect("the end of its output");
        (self.child.wait().expect("a child").code(), rest)
    }
}

impl Drop for Ui {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
