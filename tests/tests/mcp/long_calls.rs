//! Calls that take long: clients that know tasks get one in place of the result.

use std::thread::sleep;
use std::time::Duration;

use koze_tests::Sandboxes;
use serde_json::{Value, json};

use crate::http;
use crate::lines::{Client, printed};
use crate::server::{Http, project};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";
/// Longer than the server waits before it answers with a task.
const LONG: &str = "sleep 4; echo done";

fn start(host: &Sandboxes) -> Client {
    Client::with_capabilities(host, &json!({ "extensions": { EXTENSION: {} } }))
}

/// Asks about a task until it has ended.
fn wait_for_end(id: &Value, mut ask: impl FnMut(&Value) -> Value) -> Value {
    for _ in 0..600 {
        let task = ask(&json!({ "taskId": id }));
        if task["status"] != "working" {
            return task;
        }
        sleep(Duration::from_millis(100));
    }
    panic!("the task {id} does not end");
}

/// Calls `shell` with a command that takes long, and returns the ID of the task.
fn start_task(client: &mut Client, command: &str) -> Value {
    let request = client.command(command);
    client.say(&request);
    let answer = client.read_answer()["result"].clone();
    assert_eq!(answer["resultType"], "task", "{answer}");
    assert_eq!(answer["status"], "working", "{answer}");
    answer["taskId"].clone()
}

#[test]
fn a_long_call_is_a_task() {
    let host = project();
    let mut client = start(&host);
    assert_eq!(client.shell("echo soon"), "soon\n", "the result of a short call is its answer");
    let id = start_task(&mut client, LONG);
    assert_eq!(client.shell("echo meanwhile"), "meanwhile\n");
    let ended = wait_for_end(&id, |params| client.ask("tasks/get", params));
    assert_eq!(ended["status"], "completed", "{ended}");
    assert_eq!(printed(&ended), "done\n", "{ended}");
    // The journal has both, as of every client.
    assert!(host.koze(&["log"]).stdout.contains("sleep 4"));
    for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
        let request = client.request(method, &json!({ "taskId": "none", "inputResponses": {} }));
        client.say(&request);
        let answer = client.read_answer();
        assert_eq!(answer["error"]["code"], -32602, "{method}: {answer}");
    }
    client.end();
}

#[test]
fn a_task_is_canceled() {
    let host = project();
    let mut client = start(&host);
    let id = start_task(&mut client, "echo > begun; sleep 600");
    client.ask("tasks/cancel", &json!({ "taskId": id }));
    let ended = wait_for_end(&id, |params| client.ask("tasks/get", params));
    assert_eq!(ended["status"], "cancelled", "{ended}");
    assert_eq!(client.shell("ls; ps ax 2>/dev/null | grep -c '[s]leep 600'"), "begun\n0\n");
    client.end();
}

#[test]
fn other_clients_wait_for_the_result() {
    let host = project();
    let mut client = Client::start(&host);
    assert_eq!(client.shell(LONG), "done\n");
    let request = client.request("tasks/get", &json!({ "taskId": "none" }));
    client.say(&request);
    let answer = client.read_answer();
    assert_eq!(answer["error"]["code"], -32021, "it says which capability is missing: {answer}");
    client.end();
}

#[test]
fn a_task_outlives_its_request() {
    let host = project();
    let server = Http::start(&host, &[]);
    let capabilities = json!({ "extensions": { EXTENSION: {} } });
    let ask =
        |method: &str, params: Value| http::ask(&server, &capabilities, method, params)["result"].clone();
    let task = ask("tools/call", json!({ "name": "shell", "arguments": { "command": LONG } }));
    assert_eq!(task["resultType"], "task", "{task}");
    let ended = wait_for_end(&task["taskId"], |params| ask("tasks/get", params.clone()));
    assert_eq!(printed(&ended), "done\n", "{ended}");
}
