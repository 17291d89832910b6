//! Sleeping sandboxes: the container and its disk are deleted, and the next call starts another one.

use koze_tests::eventually;
use serde_json::{Value, json};

use super::calls::{bash, one, open, sandbox};
use super::engine::engine;
use super::project::{plain_worker, start};
use crate::dev::run::Client;

/// The idle time: longer than a busy machine takes to find the container.
const IDLE_MS: u32 = 15_000;

/// Returns the status of an open sandbox.
fn status(dev: &Client, object: &str) -> Value {
    let status = one(dev, object, &json!(["status", {}]));
    assert_eq!(status["value"]["opened"], true, "{object}: {status}");
    status["value"]["status"].clone()
}

#[test]
fn a_sleeping_sandbox_wakes_up_empty() {
    let Some(engine) = engine() else { return };
    let worker = plain_worker(&engine);
    let running = start(&worker, &engine);
    let dev = running.client();
    let runs = |container: &str| engine.containers().iter().any(|name| name == container);
    let object = "sleepy";
    let write = "echo scratch > /home/user/file; echo scratch > /tmp/file";
    let answers = dev.call(object, &json!([["open", { "sleepAfterMs": IDLE_MS }], bash(write)]));
    assert_eq!(answers[1]["value"]["exitCode"], 0, "{answers:?}\n{}", engine.log());
    let container = sandbox(&dev, &engine, object);
    assert_eq!(status(&dev, object), "running");

    eventually("it sleeps", || status(&dev, object) == "sleeping");
    assert!(!runs(&container), "its container is there");
    // Neither a status query nor a request to a port wakes it.
    let preview = "const { port, nonce, object } = data;
        const response = await fetch(`${url}/port/${object}/${port}.${nonce}/`);
        return [response.status, await response.text()]";
    let exposed = one(&dev, object, &json!(["expose", { "port": 8080 }]));
    let nonce = &exposed["value"]["nonce"];
    let answer = dev.ask(preview, &json!({ "object": object, "port": 8080, "nonce": nonce }));
    assert_eq!(answer, json!([503, "The sandbox is asleep\n"]));
    assert_eq!(one(&dev, object, &open())["value"]["created"], false);
    assert_eq!(status(&dev, object), "sleeping");
    assert!(!runs(&container), "it was woken");

    // The same object gets a new container with the same name and the usual directories.
    let look = bash("cat /home/user/file /tmp/file; ls -d /home/user /workspace");
    let answer = one(&dev, object, &look);
    assert_eq!(answer["value"]["stdout"]["base64"], "L2hvbWUvdXNlcgovd29ya3NwYWNlCg==", "{answer}");
    assert_eq!(status(&dev, object), "running");
    assert_eq!(sandbox(&dev, &engine, object), container);
    eventually("it sleeps again", || status(&dev, object) == "sleeping");
}
