//! Calls methods of a class through a forwarding Worker.

use std::time::Duration;

use koze_tests::containers::Engine;
use serde_json::{Value, json};

use crate::dev::run::Client;

/// The maximum duration of a call with a timeout of two seconds, including the time that the class waits for an answer.
pub(super) const MAX_CALL: Duration = Duration::from_secs(90);

pub(super) fn exec_for(argv: &[&str], timeout_ms: u64) -> Value {
    json!(["exec", { "argv": argv, "workingDir": "/", "env": [], "timeoutMs": timeout_ms, "maxOutput": 1000 }])
}

pub(super) fn bash(script: &str) -> Value {
    exec_for(&["bash", "-c", script], 2_000)
}

pub(super) fn open() -> Value {
    json!(["open", { "sleepAfterMs": null }])
}

/// Makes one call.
pub(super) fn one(dev: &Client, object: &str, call: &Value) -> Value {
    dev.call(object, &json!([call])).remove(0)
}

/// Checks that a command works without a retry, perhaps in another container.
#[track_caller]
pub(super) fn works(dev: &Client, object: &str) {
    let answer = one(dev, object, &bash("echo and on"));
    assert_eq!(answer["value"]["stdout"]["base64"], "YW5kIG9uCg==", "{object}: {answer}");
}

/// Opens a sandbox, and returns its container.
pub(super) fn sandbox(dev: &Client, engine: &Engine, object: &str) -> String {
    let answers = dev.call(object, &json!([open(), bash("true")]));
    assert_eq!(answers[1]["value"]["exitCode"], 0, "{object}: {answers:?}\n{}", engine.log());
    let id = dev.ask("return (await fetch(`${url}/id/${data}`)).text()", &json!(object));
    let id = id.as_str().expect("an id");
    engine.containers().into_iter().find(|name| name.ends_with(id)).expect("its container")
}
