//! A server whose project changes, and whose supervisor exits, while it runs.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use koze_tests::{Sandboxes, eventually};
use serde_json::{Value, json};

use crate::server::project;

/// A minimal client: lines over pipes.
struct Client {
    server: Child,
    requests: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    id: u64,
}

impl Client {
    fn start(host: &Sandboxes) -> Self {
        let mut command = host.command(&["mcp"]);
        let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let requests = server.stdin.take().expect("a pipe");
        let answers = BufReader::new(server.stdout.take().expect("a pipe")).lines();
        let mut client = Client { server, requests, answers, id: 0 };
        let about = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        client.ask("initialize", &about);
        client.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client
    }

    fn say(&mut self, message: &Value) {
        writeln!(self.requests, "{message}").expect("it reads");
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        let request = self.request(method, params);
        self.say(&request);
        self.answer()["result"].clone()
    }

    fn request(&mut self, method: &str, params: &Value) -> Value {
        self.id += 1;
        json!({ "jsonrpc": "2.0", "id": self.id, "method": method, "params": params })
    }

    /// Returns the next message.
    fn answer(&mut self) -> Value {
        let answer = self.answers.next().expect("an answer").expect("a line");
        serde_json::from_str(&answer).expect("JSON")
    }

    /// Sends a request that runs a command.
    fn command(&mut self, command: &str) -> Value {
        let arguments = json!({ "command": command, "max_output_chars": 1_048_576 });
        self.request("tools/call", &json!({ "name": "shell", "arguments": arguments }))
    }

    /// Returns the output of a command.
    fn shell(&mut self, command: &str) -> Value {
        let request = self.command(command);
        self.say(&request);
        printed(&self.answer())
    }

    fn end(mut self) {
        drop(self.requests);
        assert!(self.server.wait().expect("it ends").success());
    }
}

/// Returns the output in the answer to a command.
fn printed(answer: &Value) -> Value {
    answer["result"]["structuredContent"]["stdout"].clone()
}

#[test]
fn it_follows_changes_of_the_project() {
    let host = project();
    let file = "src/server/shell.sandbox.rs";
    let shut = host.read(file);
    host.write(file, shut.replace("#[sandbox(", "#[sandbox(internet = true, "));
    let mut client = Client::start(&host);
    let count = "env | grep -c -i '_proxy=http'; true";
    assert_eq!(client.shell(count), "4\n");
    host.write(file, &shut);
    assert_eq!(client.shell(count), "0\n");
    host.write(
        "src/server/node.sandbox.rs",
        "use koze::prelude::*;\n\n#[sandbox]\npub struct NodeSandbox;\n",
    );
    assert_eq!(host.koze(&["build"]).code, 0);
    let tools = client.ask("tools/list", &json!({}))["tools"].to_string();
    assert!(tools.contains("\"node\""), "{tools}");
    client.end();
}

#[test]
fn it_continues_after_its_supervisor_is_killed() {
    let host = project();
    let mut client = Client::start(&host);
    assert_eq!(client.shell("echo kept > file; cat file"), "kept\n");
    for _ in 0..2 {
        host.kill_supervisors();
        assert_eq!(client.shell("cat file"), "kept\n");
    }
    assert_eq!(host.shell("cat file"), "kept\n");
    client.end();
}

#[test]
fn a_call_whose_supervisor_is_killed_fails() {
    let host = project();
    let mut client = Client::start(&host);
    let long = client.command("touch running; sleep 600");
    client.say(&long);
    eventually("the command runs", || host.shell("ls").contains("running"));
    host.kill_supervisors();
    let answer = client.answer()["result"].clone();
    assert_eq!(answer["isError"], true, "{answer}");
    assert!(answer.to_string().contains("ended during the call"), "{answer}");
    assert_eq!(client.shell("ls"), "running\n");
    client.end();
}

#[test]
fn it_continues_after_its_supervisor_is_stopped() {
    let host = project();
    let mut client = Client::start(&host);
    assert_eq!(client.shell("echo here > file; cat file"), "here\n");
    assert_eq!(host.koze(&["destroy", "--all"]).code, 0);
    assert_eq!(client.shell("cat file || echo anew"), "anew\n");
    client.end();
}

/// An upgraded koze replaces the supervisor while a call runs and while half a request has arrived.
#[test]
fn nothing_is_lost_when_its_supervisor_is_replaced() {
    let host = project();
    let mut client = Client::start(&host);
    assert_eq!(client.shell("touch here; echo here"), "here\n");
    let supervisors = host.supervisors();
    let long = client.command("touch running; sleep 4; head -c 500000 /dev/zero | tr '\\0' x");
    client.say(&long);
    eventually("the command runs", || host.shell("ls").contains("running"));
    let [second, third] = ["second", "third"].map(|word| client.command(&format!("echo {word}")).to_string());
    let (half, rest) = second.split_at(second.len() / 2);
    client.requests.write_all(half.as_bytes()).expect("it reads");
    let other = r#"{"sandbox": "b", "command": "true"}"#;
    let other = host.run(host.other_build(&["call", "shell", other]));
    assert_eq!(other.code, 0, "{other:?}");
    assert!(host.supervisors().iter().any(|id| supervisors.contains(id)), "it still has to answer");
    assert_eq!(printed(&client.answer()), "x".repeat(500_000));
    writeln!(client.requests, "{rest}\n{third}").expect("it reads");
    // Both were requested by now, and may be answered in either order.
    let mut answers = [client.answer(), client.answer()];
    answers.sort_by_key(|answer| answer["id"].as_u64());
    assert_eq!(answers.each_ref().map(printed), ["second\n", "third\n"]);
    eventually("the first one has ended", || !host.supervisors().iter().any(|id| supervisors.contains(id)));
    assert_eq!(client.shell("ls"), "here\nrunning\n");
    client.end();
}
