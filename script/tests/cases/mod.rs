//! What scripts see and where they end. Every engine passes these cases: `super::send` runs a message in the one under test.

mod bounds;
mod host;
mod results;
mod web;

use koze_script::Limits;
use koze_script::protocol::{Failure, Start, ToScript};
use serde_json::Value;

use super::native::Ran;
use super::send;

fn start(start: Start) -> Ran {
    send(ToScript::Start(start))
}

fn short(time_ms: u64, code: &str) -> Ran {
    let limits = Limits { time_ms, ..Limits::default() };
    start(Start { code: code.into(), limits, ..Start::default() })
}

fn run(code: &str) -> Ran {
    short(10_000, code)
}

#[track_caller]
fn value(code: &str) -> Value {
    run(code).done.unwrap_or_else(|failure| panic!("{code}: {failure:?}"))
}

#[track_caller]
fn failure(code: &str) -> Failure {
    match run(code).done {
        Ok(value) => panic!("{code}: {value}"),
        Err(failure) => failure,
    }
}

#[track_caller]
fn fails_at(code: &str, message: &str, line: u32, column: u32) {
    let failure = failure(code);
    let place = failure.place.as_ref().map(|place| (place.line, place.column));
    assert_eq!((failure.message.as_str(), place), (message, Some((line, column))), "{code}");
}
