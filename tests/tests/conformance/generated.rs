//! The generated `handle_tool_call` of a project, compiled for this machine: a program that reads calls and prints
//! results, one per line.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use koze_tests::conformance::{AGENT, Capability, Host, ToolResult};
use koze_tests::generated_program;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::Hosted;

/// The limits and large data depend on the provider, which has its own run.
pub(crate) const HOST: Hosted = Hosted {
    name: "generated",
    lacks: &[Capability::Big, Capability::ManyFiles, Capability::Limits],
    start: || Box::new(Generated::new()),
};

/// The timeout of a call.
const TIMEOUT: Duration = Duration::from_mins(3);

struct Generated {
    program: Mutex<Program>,
    state: TempDir,
}

impl Generated {
    fn new() -> Self {
        let state = tempfile::tempdir().expect("a directory");
        Generated { program: Mutex::new(Program::start(&state)), state }
    }
}

impl Host for Generated {
    fn call(&self, session: &str, tool: &str, input: Value) -> ToolResult {
        self.ask(json!({ "session": session, "tool": tool, "input": input }))
    }

    fn call_text_of(&self, toolset: &str, session: &str, tool: &str, input: &str) -> ToolResult {
        let mut call = json!({ "session": session, "tool": tool, "text": input });
        // Without it, the program calls the generated function for the default toolset.
        if toolset != AGENT {
            call["toolset"] = toolset.into();
        }
        self.ask(call)
    }

    fn restart(&self) {
        let mut program = lock(&self.program);
        program.end();
        *program = Program::start(&self.state);
    }

    fn secrets(&self) -> Vec<String> {
        vec![self.state.path().display().to_string()]
    }
}

impl Generated {
    fn ask(&self, call: Value) -> ToolResult {
        // Hold the lock only while sending: answers may arrive in any order.
        let answer = lock(&self.program).ask(call);
        let answer = answer.recv_timeout(TIMEOUT).expect("the program answers");
        let content = answer["content"].as_str().expect("text").to_owned();
        ToolResult { content, is_error: answer["isError"].as_bool().expect("true or false") }
    }
}

/// The channels of pending calls, by ID.
type Waiting = Arc<Mutex<HashMap<u64, Sender<Value>>>>;

struct Program {
    child: Child,
    stdin: ChildStdin,
    waiting: Waiting,
    next: u64,
}

impl Program {
    fn start(state: &TempDir) -> Self {
        let mut child = Command::new(generated_program())
            .arg("local")
            .arg(state.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let (stdin, stdout) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
        let waiting = Waiting::default();
        let asked = Arc::clone(&waiting);
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let line = line.expect("text");
                let answer: Value =
                    serde_json::from_str(&line).unwrap_or_else(|_| panic!("no answer: {line}"));
                let who = answer["id"].as_u64().and_then(|id| lock(&asked).remove(&id));
                // The receiver is gone if the call timed out.
                let _ = who.map(|who| who.send(answer));
            }
        });
        Program { child, stdin, waiting, next: 0 }
    }

    fn ask(&mut self, mut call: Value) -> Receiver<Value> {
        let (answer, coming) = channel();
        self.next += 1;
        call["id"] = self.next.into();
        lock(&self.waiting).insert(self.next, answer);
        writeln!(self.stdin, "{call}").expect("the program reads");
        coming
    }

    /// Uses SIGKILL, which no process can handle.
    fn end(&mut self) {
        self.child.kill().expect("it is ours");
        self.child.wait().expect("it ends");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
