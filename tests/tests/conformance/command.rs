//! `koze call`: each call is a run of the binary, and the sandboxes live with the session's supervisor.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use koze_tests::conformance::{Capability, Host, IMAGES, ToolResult};
use koze_tests::{Project, koze};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::Hosted;

/// A supervisor ends by itself when it had nothing to do for so long, which no case waits for.
const IDLE: &str = "30000";

/// What takes long is the same by any way that leads to these sandboxes.
pub(crate) const HOST: Hosted = Hosted {
    name: "koze call",
    can: &[
        Capability::Exec,
        Capability::Expose,
        Capability::AtOnce,
        Capability::Sleep,
        Capability::Restart,
        Capability::LongInput,
    ],
    start: || Box::new(Called::new()),
};

struct Called {
    project: Project,
}

impl Called {
    fn new() -> Self {
        let project = Project::new();
        project
            .write("Cargo.toml", "[package]\nname = \"called\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
        project.write("package.json", "{ \"dependencies\": { \"@cloudflare/sandbox\": \"0.12.10\" } }");
        project.write("src/lib.rs", "");
        for (image, attribute) in [(IMAGES[0], "default"), (IMAGES[1], "variant = \"python\"")] {
            let name = format!("{}{}Sandbox", image[..1].to_uppercase(), &image[1..]);
            let text = format!("use koze::prelude::*;\n\n#[sandbox({attribute})]\npub struct {name};\n");
            project.write(format!("src/server/{image}.sandbox.rs"), text);
        }
        Called { project }
    }

    fn state(&self) -> PathBuf {
        self.project.path("state")
    }

    /// The supervisors on this project's state: nobody else has its path among his arguments.
    fn supervisors(&self) -> Vec<Pid> {
        let state = self.state().into_os_string().into_encoded_bytes();
        let processes = fs::read_dir("/proc").expect("it is mounted").flatten();
        let supervises = |pid: &Pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let mut arguments = line.split(|byte| *byte == 0);
            arguments.nth(1) == Some(b"supervise") && arguments.any(|argument| argument == state)
        };
        let pids = processes.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?));
        pids.filter(supervises).collect()
    }
}

impl Host for Called {
    fn call(&self, session: &str, tool: &str, input: Value) -> ToolResult {
        let mut child = koze()
            .arg("call")
            .arg(format!("--session={session}"))
            .arg("--project")
            .arg(self.project.dir())
            .arg("--state")
            .arg(self.state())
            .args(["--", tool, "-"])
            .env("KOZE_SUPERVISOR_IDLE_MS", IDLE)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("koze starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        stdin.write_all(input.to_string().as_bytes()).expect("it reads its input");
        drop(stdin);
        let output = child.wait_with_output().expect("it ends");
        let messages = String::from_utf8_lossy(&output.stderr);
        let is_error = match output.status.code() {
            Some(0) => false,
            Some(1) => true,
            _ => panic!("koze call {tool}: {}: {messages}", output.status),
        };
        assert!(messages.is_empty(), "koze call {tool}: {messages}");
        let content = String::from_utf8(output.stdout).expect("its output is text");
        let content = content.strip_suffix('\n').expect("its output ends with a line").to_owned();
        ToolResult { content, is_error }
    }

    /// With a signal that nobody can prepare for.
    fn restart(&self) {
        let supervisors = self.supervisors();
        assert!(!supervisors.is_empty(), "a supervisor runs");
        for pid in supervisors {
            kill_process(pid, Signal::KILL).expect("it runs");
        }
    }

    fn secrets(&self) -> Vec<String> {
        vec![self.project.dir().display().to_string()]
    }
}

impl Drop for Called {
    fn drop(&mut self) {
        for _ in 0..100 {
            let left = self.supervisors();
            for pid in &left {
                // It may just have ended.
                let _ = kill_process(*pid, Signal::KILL);
            }
            if left.is_empty() {
                break;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}
