//! A server that runs while its project changes.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::server::project;

#[test]
fn it_follows_the_files_of_the_project() {
    let host = project();
    let file = "src/server/shell.sandbox.rs";
    let shut = host.read(file);
    host.write(file, shut.replace("#[sandbox(", "#[sandbox(internet = true, "));
    let mut command = host.command(&["mcp"]);
    let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut requests = server.stdin.take().expect("a pipe");
    let mut answers = BufReader::new(server.stdout.take().expect("a pipe")).lines();
    let mut ask = |id: u8, method: &str, params: Value| {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        writeln!(requests, "{request}").expect("it reads");
        if id == 1 {
            writeln!(requests, "{}", json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))
                .expect("it reads");
        }
        let answer = answers.next().expect("an answer").expect("a line");
        serde_json::from_str::<Value>(&answer).expect("JSON")["result"].clone()
    };
    let about = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    ask(1, "initialize", about);
    let count =
        json!({ "name": "shell", "arguments": { "command": "env | grep -c -i '_proxy=http'; true" } });
    assert_eq!(ask(2, "tools/call", count.clone())["structuredContent"]["stdout"], "4\n");
    host.write(file, &shut);
    assert_eq!(ask(3, "tools/call", count)["structuredContent"]["stdout"], "0\n");
    host.write(
        "src/server/node.sandbox.rs",
        "use koze::prelude::*;\n\n#[sandbox]\npub struct NodeSandbox;\n",
    );
    assert_eq!(host.koze(&["build"]).code, 0);
    let tools = ask(4, "tools/list", json!({}))["tools"].to_string();
    assert!(tools.contains("\"node\""), "{tools}");
    drop(requests);
    assert!(server.wait().expect("it ends").success());
}
