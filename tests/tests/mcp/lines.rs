//! A minimal client of `koze mcp`: lines over pipes.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use koze_tests::Sandboxes;
use serde_json::{Value, json};

/// The client.
pub(crate) struct Client {
    server: Child,
    pub(crate) requests: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    id: u64,
    /// How the server introduced itself.
    pub(crate) introduction: Value,
}

impl Client {
    pub(crate) fn start(host: &Sandboxes) -> Self {
        Self::with_capabilities(host, &json!({}))
    }

    /// Starts a client that offers these capabilities.
    pub(crate) fn with_capabilities(host: &Sandboxes, capabilities: &Value) -> Self {
        let mut command = host.command(&["mcp"]);
        let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let requests = server.stdin.take().expect("a pipe");
        let answers = BufReader::new(server.stdout.take().expect("a pipe")).lines();
        let mut client = Client { server, requests, answers, id: 0, introduction: Value::Null };
        let about = json!({ "protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": { "name": "t", "version": "1" } });
        client.introduction = client.ask("initialize", &about);
        client.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client
    }

    pub(crate) fn say(&mut self, message: &Value) {
        writeln!(self.requests, "{message}").expect("it reads");
    }

    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> Value {
        let request = self.request(method, params);
        self.say(&request);
        self.read_answer()["result"].clone()
    }

    pub(crate) fn request(&mut self, method: &str, params: &Value) -> Value {
        self.id += 1;
        json!({ "jsonrpc": "2.0", "id": self.id, "method": method, "params": params })
    }

    /// Returns the next message.
    pub(crate) fn read_answer(&mut self) -> Value {
        let answer = self.answers.next().expect("an answer").expect("a line");
        serde_json::from_str(&answer).expect("JSON")
    }

    /// Sends a request that runs a command.
    pub(crate) fn command(&mut self, command: &str) -> Value {
        let arguments = json!({ "command": command, "max_output_chars": 1_048_576 });
        self.request("tools/call", &json!({ "name": "shell", "arguments": arguments }))
    }

    /// Returns the output of a command.
    pub(crate) fn shell(&mut self, command: &str) -> Value {
        let request = self.command(command);
        self.say(&request);
        printed(&self.read_answer())
    }

    pub(crate) fn end(mut self) {
        drop(self.requests);
        assert!(self.server.wait().expect("it ends").success());
    }
}

/// Returns the output in the answer to a command.
pub(crate) fn printed(answer: &Value) -> Value {
    answer["result"]["structuredContent"]["stdout"].clone()
}
