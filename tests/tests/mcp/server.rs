//! A project, and servers for its tools.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use koze_tests::{Project, Sandboxes, root};
use rustix::process::Signal;
use serde_json::{Value, json};

/// The timeout of a client.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(2);
/// The timeout for a server to print its address.
const START_TIMEOUT: Duration = Duration::from_mins(1);

/// Creates a project with the sandboxes `shell` and `python`.
pub(crate) fn project() -> Sandboxes {
    let project = Project::new();
    let runtime = root().join("runtime");
    let runtime = runtime.to_str().expect("a path in Unicode");
    for args in [
        &["new", ".", "--name", "agents", "--backend", "sdk", "--runtime-path", runtime][..],
        &["add", "python", "--variant", "python"],
    ] {
        let run = project.koze(args);
        assert_eq!(run.code, 0, "{run:?}");
    }
    Sandboxes::of(project)
}

/// Returns how a client starts a server on standard input and output.
pub(crate) fn stdio(host: &Sandboxes) -> Value {
    let command = host.command(&["mcp"]);
    json!({
        "command": command.get_program().to_str(),
        "args": ["mcp"],
        "cwd": host.dir(),
        "env": BTreeMap::from(host.env()),
    })
}

/// An HTTP server, which is killed on drop.
pub(crate) struct Http {
    child: Child,
    /// Its endpoint.
    pub(crate) url: String,
    /// The bearer token.
    pub(crate) token: String,
    /// The rest of its output.
    lines: mpsc::Receiver<String>,
}

impl Http {
    /// Starts a server that generates its token.
    pub(crate) fn start(host: &Sandboxes, args: &[&str]) -> Self {
        let mut command = host.command(&[&["mcp", "--http"], args].concat());
        command.env_remove("KOZE_MCP_TOKEN");
        Http::run(command, None)
    }

    /// Starts a server; `token` is the configured one, if any.
    pub(crate) fn run(command: Command, token: Option<&str>) -> Self {
        Http::start_as("koze mcp: ", command, token)
    }

    /// Starts `koze serve` at a free port; `token` is a configured one, if there is any.
    pub(crate) fn serve(mut command: Command, token: Option<&str>) -> Self {
        command.args(["--port", "0"]);
        Http::start_as("koze serve: ", command, token)
    }

    /// Starts a server, which begins each line with a prefix.
    fn start_as(prefix: &str, mut command: Command, token: Option<&str>) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("koze starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let (send, lines) = mpsc::channel();
        let wanted = if token.is_some() { 1 } else { 2 };
        thread::spawn(move || {
            for _ in 0..wanted {
                let mut line = String::new();
                let _ = stderr.read_line(&mut line);
                let _ = send.send(line);
            }
            let mut rest = String::new();
            let _ = stderr.read_to_string(&mut rest);
            let _ = send.send(rest);
        });
        // Construct it first, so that the child is killed even if its output is unexpected.
        let mut server = Http { child, url: String::new(), token: String::new(), lines };
        server.url = server.line(&format!("{prefix}http://")).replacen(prefix, "", 1);
        server.token = token.map_or_else(
            || {
                let line = server.line(&format!("{prefix}Authorization: Bearer "));
                line.rsplit(' ').next().unwrap_or_default().to_owned()
            },
            str::to_owned,
        );
        server
    }

    fn line(&self, expected: &str) -> String {
        let line = self.lines.recv_timeout(START_TIMEOUT).expect("koze says where it listens");
        assert!(line.starts_with(expected), "{line}");
        line.trim_end().to_owned()
    }

    /// Returns how a client connects to it.
    pub(crate) fn place(&self) -> Value {
        json!({ "url": self.url, "token": self.token })
    }

    /// Returns its address, such as `127.0.0.1:8080`.
    pub(crate) fn address(&self) -> &str {
        self.url.trim_start_matches("http://").trim_end_matches("/mcp")
    }

    /// Returns its process ID.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal, and returns its exit code and its output after the address.
    pub(crate) fn stop(mut self, signal: Signal) -> (Option<i32>, String) {
        koze_tests::signal(i32::try_from(self.id()).expect("a process ID"), signal);
        let printed = self.lines.recv_timeout(START_TIMEOUT).expect("the end of what it says");
        (self.child.wait().expect("a child").code(), printed)
    }

    /// Stops it, and returns its output after the address.
    pub(crate) fn end(mut self) -> String {
        let _ = self.child.kill();
        self.lines.recv_timeout(START_TIMEOUT).expect("the end of what it says")
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
