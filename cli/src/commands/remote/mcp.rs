//! `koze mcp` on a server: passes the messages of a client on standard input and output to the server.

use std::io::{self, BufRead as _, Write as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

use koze_client::{McpClient, Session};
use koze_core::Error;
use serde_json::{Value, json};

use crate::args;
use crate::commands::show;

/// The error code of JSON-RPC for a server that failed.
const SERVER_ERROR: i64 = -32000;

/// Runs `koze mcp`.
pub(super) fn run(session: &Session, args: &args::Mcp) -> Result<ExitCode, ExitCode> {
    if args.http.is_some() {
        return Err(show::usage("--http serves the sandboxes on this machine: leave it out with --url"));
    }
    let client = Arc::new(session.mcp(args.offer.tools.as_deref()));
    let mut calls = Vec::new();
    for line in io::stdin().lock().lines() {
        let message =
            line.map_err(|error| show::failure(&format!("standard input cannot be read: {error}")))?;
        if message.trim().is_empty() {
            continue;
        }
        // The answer to `initialize` has what every later request must carry.
        if is_call(&message) {
            let client = Arc::clone(&client);
            calls.retain(|call: &thread::JoinHandle<()>| !call.is_finished());
            let started = thread::Builder::new().spawn(move || pass(&client, &message));
            calls.push(
                started
                    .map_err(|error| show::failure(&format!("the system is out of resources: {error}")))?,
            );
        } else {
            pass(&client, &message);
        }
    }
    // The client may have closed its output before it has read the last answers.
    for call in calls {
        let _ = call.join();
    }
    // Nobody waits for it.
    let _ = client.close();
    Ok(ExitCode::SUCCESS)
}

/// Returns whether a message may take long: others could not be sent meanwhile, such as one that cancels it.
fn is_call(message: &str) -> bool {
    let method = serde_json::from_str::<Value>(message).ok();
    method.as_ref().and_then(|message| message.get("method")).is_some_and(|method| method == "tools/call")
}

/// Sends a message to the server, and prints its answers.
fn pass(client: &McpClient, message: &str) {
    let answers = match client.send(message) {
        Ok(answers) => answers,
        Err(error) => return report(message, &error),
    };
    for answer in answers {
        match answer {
            Ok(answer) => {
                client.note_answer(&answer);
                print(&answer);
            }
            Err(error) => return report(message, &error),
        }
    }
}

/// Answers a request that could not be passed on with an error. Nobody waits for the answer to another message.
fn report(message: &str, error: &Error) {
    let id = serde_json::from_str::<Value>(message).ok().and_then(|message| message.get("id").cloned());
    match id {
        Some(id) => {
            let error = json!({ "code": SERVER_ERROR, "message": error.message });
            print(&json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string());
        }
        None => show::err(&format!("koze mcp: {}\n", error.message)),
    }
}

/// Prints a message as a line.
fn print(message: &str) {
    let mut stdout = io::stdout().lock();
    // JSON has no line breaks that matter.
    let line = message.replace(['\n', '\r'], " ");
    // A client that is gone needs no answer.
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}
