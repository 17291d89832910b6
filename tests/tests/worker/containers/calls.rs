//! Calls of a class's methods, through a Worker that hands them on.

use std::time::Duration;

use koze_tests::containers::Engine;
use serde_json::{Value, json};

use crate::dev::run::Client;

/// How long a call may take that asks for two seconds: the class waits so long for an answer that does not come.
pub(super) const LONGEST: Duration = Duration::from_secs(90);

pub(super) fn exec_for(argv: &[&str], timeout_ms: u64) -> Value {
    json!(["kozeExec", { "argv": argv, "workingDir": "/", "env": [], "timeoutMs": timeout_ms, "maxOutput": 1000 }])
}

pub(super) fn bash(script: &str) -> Value {
    exec_for(&["bash", "-c", script], 2_000)
}

pub(super) fn open() -> Value {
    json!(["kozeOpen", { "sleepAfterMs": null }])
}

/// What one call gives.
pub(super) fn one(dev: &Client, object: &str, call: &Value) -> Value {
    dev.call(object, &json!([call])).remove(0)
}

/// A command works, perhaps in another container, and nobody has to say it again.
#[track_caller]
pub(super) fn works(dev: &Client, object: &str) {
    let answer = one(dev, object, &bash("echo and on"));
    assert_eq!(answer["value"]["stdout"]["base64"], "YW5kIG9uCg==", "{object}: {answer}");
}

/// A sandbox, and the container that runs for it.
pub(super) fn sandbox(dev: &Client, engine: &Engine, object: &str) -> String {
    let answers = dev.call(object, &json!([open(), bash("true")]));
    assert_eq!(answers[1]["value"]["exitCode"], 0, "{object}: {answers:?}\n{}", engine.log());
    let id = dev.ask("return (await fetch(`${url}/id/${data}`)).text()", &json!(object));
    let id = id.as_str().expect("an id");
    engine.containers().into_iter().find(|name| name.ends_with(id)).expect("its container")
}
