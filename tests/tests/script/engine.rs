//! The engine in WebAssembly, in one Node for all tests of this program.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

use koze_tests::{node_command, root};
use serde::Serialize;
use serde_json::{Value, json};

use crate::native::Ran;

/// Node, which ends when its input does.
struct Node {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    _child: Child,
}

/// Runs a message. The options are those of `host.mjs`.
#[track_caller]
pub(crate) fn run(message: &impl Serialize, options: &Value) -> Ran {
    static NODE: OnceLock<Mutex<Node>> = OnceLock::new();
    let node = NODE.get_or_init(|| Mutex::new(start()));
    let mut node = node.lock().unwrap_or_else(PoisonError::into_inner);
    let line = json!({ "message": message, "options": options }).to_string();
    writeln!(node.input, "{line}").expect("Node reads");
    let mut answer = String::new();
    node.output.read_line(&mut answer).expect("Node answers");
    let answer: Value = serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer:?}"));
    let logs = serde_json::from_value(answer["logs"].clone()).expect("lines");
    let done = serde_json::from_value(answer["result"].clone()).expect("a result");
    Ran { done, logs }
}

fn start() -> Node {
    let mut node = node_command("node");
    node.arg(root().join("tests/tests/script/host.mjs")).arg(root().join("templates/files"));
    node.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = node.spawn().expect("Node");
    let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    Node { input, output: BufReader::new(output), _child: child }
}
