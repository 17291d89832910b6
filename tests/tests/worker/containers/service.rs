//! Services in containers of their own images, without koze's guest.

use koze_tests::containers::Engine;
use koze_tests::eventually;
use serde_json::{Value, json};

use super::engine::engine;
use super::project::{service_worker, start};
use crate::dev::run::Client;

/// Sends a request to a service, and returns status, body and the header `retry-after`.
fn fetch(dev: &Client, object: &str, path: &str) -> Value {
    let script = "const response = await fetch(`${url}/fetch/${data[0]}${data[1]}`);
        return [response.status, await response.text(), response.headers.get('retry-after')]";
    dev.ask(script, &json!([object, path]))
}

/// Returns whether the container of an object runs.
fn runs(dev: &Client, engine: &Engine, object: &str) -> bool {
    let id = dev.ask("return (await fetch(`${url}/id/${data}`)).text()", &json!(object));
    let id = id.as_str().expect("an id");
    engine.containers().iter().any(|name| name.ends_with(id))
}

#[track_caller]
fn is_served(dev: &Client, engine: &Engine, object: &str, path: &str) {
    let answer = fetch(dev, object, path);
    let body = answer[1].as_str().unwrap_or_default();
    assert_eq!(answer[0], 200, "{object}: {answer}\n{}", engine.log());
    assert!(body.starts_with(&format!("GET {path} HTTP/1.1\r\n")), "{object}: {answer}");
    assert!(body.to_lowercase().contains("x-forwarded-proto: http\r\n"), "{object}: {answer}");
}

#[test]
fn a_service_starts_with_its_first_request_and_sleeps() {
    let Some(engine) = engine() else { return };
    let worker = service_worker(&engine, "15s");
    let running = start(&worker, &engine);
    let dev = running.client();
    for object in ["BLOG_CONTAINER.one", "TOOL_CONTAINER.one"] {
        assert!(!runs(&dev, &engine, object), "{object} runs before its first request");
        is_served(&dev, &engine, object, "/first?a=b");
        is_served(&dev, &engine, object, "/second");
        assert!(runs(&dev, &engine, object), "{object} does not run");

        let bodies = "const body = 'x'.repeat(300_000);
            const response = await fetch(`${url}/fetch/${data}/upload`, { method: 'POST', body });
            return (await response.text()).endsWith(body)";
        assert_eq!(dev.ask(bodies, &json!(object)), true, "{object}: a long body");
        let socket = "const socket = new WebSocket(`${url.replace('http', 'ws')}/fetch/${data}/socket`);
            await new Promise((done, fail) => { socket.onopen = done; socket.onerror = fail; });
            const answer = new Promise((done) => { socket.onmessage = ({ data }) => done(data); });
            socket.send('a message');
            const received = await answer;
            const closed = new Promise((done) => { socket.onclose = done; });
            socket.close(1000);
            await closed;
            return received";
        assert_eq!(dev.ask(socket, &json!(object)), "a message", "{object}");

        let answer = fetch(&dev, object, "/nothing");
        assert_eq!(answer, json!([502, "The service does not answer\n", null]), "{object}");
        eventually("it sleeps", || !runs(&dev, &engine, object));
        is_served(&dev, &engine, object, "/after");
    }
}

#[test]
fn a_service_that_cannot_start_is_unavailable() {
    let Some(engine) = engine() else { return };
    let worker = service_worker(&engine, "1m");
    let running = start(&worker, &engine);
    let answer = fetch(&running.client(), "BROKEN_CONTAINER.one", "/");
    assert_eq!(answer, json!([503, "The service is not available yet\n", "5"]), "{}", engine.log());
}
