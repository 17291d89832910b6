//! The engine of this process, with a host whose answers are fixed.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use koze_script::native::{Received, Wire, serve};
use koze_script::protocol::{Browse, Call, Failure, FromScript, Json, ToScript};
use serde_json::{Value, json};

/// A host that has one script run, and answers its calls from a table.
#[derive(Clone, Default)]
struct Script(Rc<Inner>);

#[derive(Default)]
struct Inner {
    inbox: RefCell<VecDeque<ToScript>>,
    logs: RefCell<Vec<String>>,
    done: RefCell<Option<Result<Json, Failure>>>,
    state: RefCell<BTreeMap<String, Value>>,
}

impl Wire for Script {
    fn send(&self, message: FromScript) {
        match message {
            FromScript::Log(line) => self.0.logs.borrow_mut().push(line),
            FromScript::Done(done) => *self.0.done.borrow_mut() = Some(done),
            FromScript::Timer(_) => {}
            FromScript::Call { id, call } => {
                let value = call.value().unwrap();
                let mut state = self.0.state.borrow_mut();
                let result: Result<Value, String> = match serde_json::from_value(value).unwrap() {
                    Call::StateGet { key } => Ok(state.get(&key).cloned().unwrap_or_default()),
                    Call::StateSet { key, value } => {
                        state.insert(key, value);
                        Ok(Value::Null)
                    }
                    Call::StateDelete { key } => Ok(state.remove(&key).is_some().into()),
                    Call::StateKeys { prefix } => {
                        Ok(state.keys().filter(|key| key.starts_with(&prefix)).cloned().collect())
                    }
                    Call::Fetch(fetch) if fetch.url == "http://never" => return,
                    Call::Fetch(fetch) if fetch.url == "http://text" => {
                        Ok(json!({ "status": 200, "url": "http://text", "headers": {}, "body": "text" }))
                    }
                    Call::Fetch(fetch) => Ok(json!({
                        "status": 200, "url": fetch.url, "headers": { "content-type": "application/json" },
                        "body": serde_json::to_string(&fetch).unwrap(),
                    })),
                    Call::Browser(browse) => match serde_json::from_value(browse.clone()).unwrap() {
                        Browse::Click { .. } | Browse::Type { .. } | Browse::Close {} => Ok(Value::Null),
                        _ => Ok(browse),
                    },
                    Call::DbSql { .. } | Call::DbSchema {} => Err("no database".to_owned()),
                };
                let result = result.as_ref().map(Json::from).map_err(Clone::clone);
                self.0.inbox.borrow_mut().push_back(ToScript::Answer { id, result });
            }
        }
    }

    fn receive(&self, time: Option<Duration>) -> Received {
        if let Some(message) = self.0.inbox.borrow_mut().pop_front() {
            return Received::Message(message);
        }
        if self.0.done.borrow().is_some() {
            return Received::End;
        }
        std::thread::sleep(time.expect("a script waits for an answer or a timer"));
        Received::Nothing
    }
}

/// What a script did.
#[derive(Debug, PartialEq)]
pub(crate) struct Ran {
    pub(crate) done: Result<Value, Failure>,
    pub(crate) logs: Vec<String>,
}

/// Runs a message in the engine of this process.
pub(crate) fn send(message: ToScript) -> Ran {
    let script = Script::default();
    script.0.inbox.borrow_mut().push_back(message);
    serve(script.clone()).unwrap();
    let done = script.0.done.borrow_mut().take().expect("the script ended");
    Ran { done: done.map(|done| done.value().unwrap()), logs: script.0.logs.take() }
}
