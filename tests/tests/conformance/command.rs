//! `koze call`: each call runs the binary, and the session's supervisor keeps the sandboxes.

use std::io::Write as _;
use std::process::{Command, Stdio};

use koze_tests::conformance::{Capability, Host, IMAGES, ToolResult, WORKSPACES};
use koze_tests::{Project, Sandboxes, signal};
use rustix::process::Signal;
use serde_json::Value;

use crate::Hosted;

/// Slow cases are the same on every path to these sandboxes, so they are left out.
pub(crate) const HOST: Hosted = Hosted {
    name: "koze call",
    lacks: &[Capability::Big, Capability::ManyFiles, Capability::Limits, Capability::ManyCalls],
    start: || Box::new(Called::new()),
};

/// The message of a koze process that waits for a lock.
const WAITING: &str = "waiting for another koze process in this directory";

pub(crate) fn start_workspaces() -> Box<dyn Host> {
    Box::new(Called::workspaces())
}

pub(crate) struct Called {
    sandboxes: Sandboxes,
    /// Returns a command of the program under test.
    command: fn(&Sandboxes, &[&str]) -> Command,
    /// The only toolset, if its sandboxes serve another one than the agent's.
    toolset: Option<&'static str>,
}

impl Called {
    /// Serves the workspaces in place of the agent's sandboxes.
    fn workspaces() -> Self {
        let attribute = |(name, more): (&str, &str)| {
            let comma = if more.is_empty() { "" } else { ", " };
            (name.to_owned(), format!("tools = [\"workspace\"], workspace(name = \"{name}\"{comma}{more})"))
        };
        Called { toolset: Some("workspace"), ..Called::of(WORKSPACES.map(attribute).into()) }
    }

    fn new() -> Self {
        let attributes =
            [(IMAGES[0], "default, tools = [\"agent\", \"thread\"]"), (IMAGES[1], "variant = \"python\"")];
        Called::of(attributes.map(|(image, attribute)| (image.to_owned(), attribute.to_owned())).into())
    }

    /// Calls another program.
    pub(crate) fn with_command(self, command: fn(&Sandboxes, &[&str]) -> Command) -> Self {
        Called { command, ..self }
    }

    /// Creates a project with sandboxes: their names, and their attributes.
    pub(crate) fn of(sandboxes: Vec<(String, String)>) -> Self {
        let project = Project::new();
        project
            .write("Cargo.toml", "[package]\nname = \"called\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
        project.write("package.json", "{ \"dependencies\": { \"@cloudflare/sandbox\": \"0.12.10\" } }");
        project.write("src/lib.rs", "");
        for (image, attribute) in sandboxes {
            let name = format!("{}{}Sandbox", image[..1].to_uppercase(), &image[1..]);
            let text = format!("use koze::prelude::*;\n\n#[sandbox({attribute})]\npub struct {name};\n");
            project.write(format!("src/server/{image}.sandbox.rs"), text);
        }
        Called { sandboxes: Sandboxes::of(project), command: Sandboxes::command, toolset: None }
    }
}

impl Host for Called {
    fn call(&self, session: &str, tool: &str, input: Value) -> ToolResult {
        self.call_text(session, tool, &input.to_string())
    }

    fn call_text_of(&self, toolset: &str, session: &str, tool: &str, input: &str) -> ToolResult {
        let toolset = self.toolset.unwrap_or(toolset);
        let (session, toolset) = (format!("--session={session}"), format!("--tools={toolset}"));
        let mut child = (self.command)(&self.sandboxes, &["call", &session, &toolset, "--", tool, "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("koze starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        stdin.write_all(input.as_bytes()).expect("it reads its input");
        drop(stdin);
        let output = child.wait_with_output().expect("it ends");
        let messages = String::from_utf8_lossy(&output.stderr);
        let is_error = match output.status.code() {
            Some(0) => false,
            Some(1) => true,
            _ => panic!("koze call {tool}: {}: {messages}", output.status),
        };
        // Of many concurrent calls, some may report that they wait for others to read the project.
        let others = messages.lines().filter(|line| *line != WAITING).count();
        assert_eq!(others, 0, "koze call {tool}: {messages}");
        let content = String::from_utf8(output.stdout).expect("its output is text");
        let content = content.strip_suffix('\n').expect("its output ends with a line").to_owned();
        ToolResult { content, is_error }
    }

    /// Uses SIGKILL, which no process can handle.
    fn restart(&self) {
        let supervisors = self.sandboxes.supervisors();
        assert!(!supervisors.is_empty(), "a supervisor runs");
        for id in supervisors {
            signal(id, Signal::KILL);
        }
    }

    fn secrets(&self) -> Vec<String> {
        vec![self.sandboxes.dir().display().to_string()]
    }
}
