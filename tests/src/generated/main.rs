//! Runs the tools of a generated project: reads one call per line of standard input, `{"session","tool","input"}`, or
//! with `text` in place of `input` for a raw input, and with `toolset` if it is not the default, and prints one result per line, `{"content","isError"}`. Calls run
//! concurrently; the result of a call with an `id` has the same `id`.
#![deny(warnings, clippy::all, clippy::pedantic)]

mod generated;

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::rc::Rc;

use koze::provider::memory::Memory;
use koze::tool::{All, Catalog, ReadError};
use koze::{Session, Provider, SessionId};
use koze_local::Local;
use serde_json::{Value, json};

fn main() {
    koze_local::init();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["memory"] => run(&Memory::new()),
        ["local", state] => run(&Local::new(state).expect("a state directory")),
        _ => {
            eprintln!("takes `memory`, or `local` and a state directory");
            std::process::exit(2);
        }
    }
}

fn run<P: Provider + Clone + 'static>(provider: &P) {
    let (send, mut lines) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let _ = send.send(line.expect("text"));
        }
    });
    let tasks = tokio::task::LocalSet::new();
    tasks.spawn_local({
        let provider = provider.clone();
        async move {
            let mut sessions: HashMap<String, Rc<Session<P>>> = HashMap::new();
            while let Some(line) = lines.recv().await {
                let mut call: Value = serde_json::from_str(&line).expect("a call is JSON");
                let session = call["session"].as_str().expect("a session").to_owned();
                let session = sessions.entry(session).or_insert_with_key(|session| {
                    let id = SessionId::new("tests", session).expect("a name of a session");
                    Rc::new(Session::new(provider.clone(), id, generated::profiles()))
                });
                let (session, input) = (Rc::clone(session), call["input"].take());
                tokio::task::spawn_local(async move {
                    let tool = call["tool"].as_str().expect("a tool");
                    let input = match call["text"].as_str() {
                        Some(text) => koze::tool::read(text.as_bytes()),
                        None => Ok(input),
                    };
                    let result = match input {
                        Ok(input) => match call["toolset"].as_str() {
                            None => generated::handle_tool_call(&session, tool, input).await,
                            toolset => Catalog::<All>::select(session.profiles(), toolset)
                                .expect("a toolset of the project")
                                .call(&session, tool, input)
                                .await
                                .into(),
                        },
                        Err(ReadError::DuplicateKey(error) | ReadError::TooManyValues(error)) => {
                            Err(error).into()
                        }
                        Err(ReadError::InvalidJson(error)) => panic!("{call}: {error}"),
                    };
                    let mut answer = json!({ "content": result.content, "isError": result.is_error });
                    if let Some(id) = call.get("id") {
                        answer["id"] = id.clone();
                    }
                    // Lock standard output, so that lines are not interleaved.
                    writeln!(std::io::stdout().lock(), "{answer}").expect("standard output");
                });
            }
        }
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(tasks);
}
