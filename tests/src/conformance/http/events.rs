//! Tool calls of the family `workspace` as server-sent events, on a Worker or on `koze mcp --http`. The workspaces are those of
//! [`WORKSPACES`](crate::conformance::WORKSPACES).

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use ureq::{Agent, BodyReader};

use crate::{eventually, hang_up, sleeps};

/// The timeout of a request.
const TIMEOUT: Duration = Duration::from_mins(3);
/// More than all buffers on the way hold.
const MUCH: usize = 24 << 20;

/// A server, and a session of it.
pub struct Place<'a> {
    /// Its URL, without a path.
    pub url: &'a str,
    /// The bearer token.
    pub token: &'a str,
    /// The session.
    pub session: &'a str,
    /// Which clients it notices that have gone.
    pub notices: Notices,
}

/// Which clients a server notices that have gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notices {
    /// All.
    All,
    /// Those that reset their connection, as workerd does.
    Resets,
    /// Those that reset their connection while they receive events, as the proxy of `wrangler dev` does.
    Readers,
}

/// An event: its name and its data.
type Event = (String, String);

/// The events of a call.
struct Events(Lines<BufReader<BodyReader<'static>>>);

impl Place<'_> {
    fn url(&self, tool: &str) -> String {
        format!("{}/sessions/{}/tools/workspace__{tool}", self.url.trim_end_matches('/'), self.session)
    }

    fn post(&self, tool: &str, accept: &str, input: &Value) -> ureq::http::Response<ureq::Body> {
        let agent: Agent =
            Agent::config_builder().http_status_as_error(false).timeout_global(Some(TIMEOUT)).build().into();
        let request = agent
            .post(self.url(tool))
            .header("accept", accept)
            .header("authorization", format!("Bearer {}", self.token));
        request.send(input.to_string()).unwrap_or_else(|error| panic!("{tool}: {error}"))
    }

    /// Returns the body of a call as it is.
    fn plain(&self, tool: &str, input: &Value) -> String {
        let response = self.post(tool, "application/json", input);
        assert_eq!((response.status().as_u16(), kind(&response)), (200, "application/json"), "{tool}");
        response.into_body().read_to_string().expect("a text")
    }

    /// Returns the content of a call that succeeds.
    fn ok(&self, tool: &str, input: &Value) -> Value {
        let answer: Value = serde_json::from_str(&self.plain(tool, input)).expect("JSON");
        assert_eq!(answer["isError"], false, "{tool} {input}: {answer}");
        serde_json::from_str(answer["content"].as_str().expect("a text")).expect("JSON")
    }

    fn events(&self, tool: &str, input: &Value) -> Events {
        let response = self.post(tool, "text/event-stream", input);
        assert_eq!((response.status().as_u16(), kind(&response)), (200, "text/event-stream"), "{tool}");
        Events(BufReader::new(response.into_body().into_reader()).lines())
    }

    /// Sends a call, and does not read the response.
    fn sent(&self, tool: &str, accept: &str, input: &Value) -> TcpStream {
        let address = self.url.trim_start_matches("http://").trim_end_matches('/');
        let mut stream = TcpStream::connect(address).expect("it listens");
        let (input, url) = (input.to_string(), self.url(tool));
        let path = url.split_once(address).expect("a path").1;
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\naccept: {accept}\r\ncontent-length: {}\r\n\r\n",
            self.token,
            input.len()
        );
        stream.write_all((head + &input).as_bytes()).expect("all of it is sent");
        stream
    }

    fn exists(&self, path: &str) -> bool {
        self.plain("open__stat", &json!({ "path": path })).contains("\"isError\":false")
    }
}

fn kind(response: &ureq::http::Response<ureq::Body>) -> &str {
    let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok());
    kind.unwrap_or_default()
}

impl Iterator for Events {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let (mut name, mut data) = (String::new(), String::new());
        loop {
            let line = self.0.next()?.expect("the stream ends with its last event");
            match line.split_once(": ") {
                Some(("event", text)) => text.clone_into(&mut name),
                Some(("data", text)) => text.clone_into(&mut data),
                // A comment is followed by an empty line, too.
                None if line.is_empty() && name.is_empty() => {}
                None if line.is_empty() => return Some((name, data)),
                None if line.starts_with(':') => {}
                _ => panic!("{line}"),
            }
        }
    }
}

fn text(data: &str) -> String {
    let data: Value = serde_json::from_str(data).expect("JSON");
    data["text"].as_str().expect("a text").to_owned()
}

/// Checks the events of calls.
pub fn check_events(place: &Place<'_>) {
    output_while_it_runs(place);
    the_result_is_that_of_a_plain_call(place);
    a_slow_reader_loses_nothing(place);
    a_client_that_disconnects_ends_the_command(place);
    if place.notices != Notices::Readers {
        a_client_that_disconnects_interrupts_a_context(place);
    }
}

fn output_while_it_runs(place: &Place<'_>) {
    let wait = |file: &str| format!("until test -e {file}; do sleep 0.02; done");
    let command = format!("printf 'ä\\n'; printf e >&2; {}; printf done; exit 3", wait("told"));
    let mut events = place.events("open__run", &json!({ "command": command }));
    let mut seen = [events.next().expect("an event"), events.next().expect("another one")];
    seen.sort();
    let expected = [("stderr", "{\"text\":\"e\"}"), ("stdout", "{\"text\":\"ä\\n\"}")];
    assert_eq!(seen, expected.map(|(name, data)| (name.to_owned(), data.to_owned())));
    place.ok("open__write_file", &json!({ "path": "told", "content": "" }));
    assert_eq!(events.next(), Some(("stdout".to_owned(), "{\"text\":\"done\"}".to_owned())));
    let (name, data) = events.next().expect("the result");
    assert_eq!(name, "result");
    let data: Value = serde_json::from_str(&data).expect("JSON");
    let content: Value = serde_json::from_str(data["content"].as_str().expect("a text")).expect("JSON");
    assert_eq!(data["isError"], true);
    assert_eq!(
        [&content["stdout"], &content["stderr"], &content["exit_code"]],
        [&json!("ä\ndone"), &json!("e"), &json!(3)],
        "{content}"
    );
    assert_eq!(events.next(), None);
}

fn the_result_is_that_of_a_plain_call(place: &Place<'_>) {
    for (tool, input) in [
        ("open__ls", json!({ "path": "none" })),
        ("open__write_file", json!({ "path": "a/ü", "content": "\u{2028}\r\n\"" })),
        ("open__read_file", json!({ "path": "a/ü" })),
        ("open__run", json!({ "command": 1 })),
        ("strict__run", json!({ "command": "date" })),
        ("none__run", json!({})),
        ("code__run_code", json!({ "code": "print(1)\n2", "language": "python" })),
    ] {
        let events: Vec<Event> = place.events(tool, &input).collect();
        assert_eq!(events, [("result".to_owned(), place.plain(tool, &input))], "{tool} {input}");
    }
}

fn a_slow_reader_loses_nothing(place: &Place<'_>) {
    let command = format!("head -c {MUCH} /dev/zero | tr '\\0' x; touch over");
    let mut events = place.events("open__run", &json!({ "command": command }));
    let first = events.next().expect("an event");
    std::thread::sleep(Duration::from_secs(2));
    assert!(!place.exists("over"), "the program did not wait for its reader");
    let (mut count, mut last) = (text(&first.1).len(), String::new());
    for (name, data) in events {
        if name == "stdout" {
            count += text(&data).len();
        }
        last = name;
    }
    assert_eq!((count, last.as_str()), (MUCH, "result"));
    assert!(place.exists("over"));
}

fn a_client_that_disconnects_ends_the_command(place: &Place<'_>) {
    // Each has a time of its own, by which it is found on this machine, also among those of other places at the same time.
    static SLEEPS: AtomicU64 = AtomicU64::new(0);
    let base = u64::from(std::process::id()) * 1_000 + 7_000_000_000;
    let mut ways = vec![("text/event-stream", true)];
    if place.notices != Notices::Readers {
        ways.push(("application/json", true));
    }
    if place.notices == Notices::All {
        ways.extend([("text/event-stream", false), ("application/json", false)]);
    }
    for (accept, resets) in ways {
        let seconds = (base + SLEEPS.fetch_add(1, Ordering::Relaxed)).to_string();
        let command = format!("trap '' INT TERM HUP; echo; sleep {seconds}; touch survived");
        let stream = place.sent("open__run", accept, &json!({ "command": command }));
        eventually("the command runs", || sleeps(&seconds));
        if resets {
            hang_up(stream);
        } else {
            drop(stream);
        }
        eventually(&format!("the command of {accept} is gone (reset: {resets})"), || !sleeps(&seconds));
    }
    assert!(!place.exists("survived"));
}

/// The variables survive.
fn a_client_that_disconnects_interrupts_a_context(place: &Place<'_>) {
    let created = place.ok("code__create_code_context", &json!({ "language": "python" }));
    let context = &created["context_id"];
    let code = "import time\nx = 41\nopen('begun', 'w').close()\nwhile True: time.sleep(0.01)";
    let input = json!({ "context_id": context, "code": code, "timeout_ms": 600_000 });
    let stream = place.sent("code__run_in_code_context", "application/json", &input);
    eventually("the code runs", || {
        place.plain("code__stat", &json!({ "path": "begun" })).contains("\"isError\":false")
    });
    hang_up(stream);
    let next = json!({ "context_id": context, "code": "x + 1", "timeout_ms": 60_000 });
    let ran = place.ok("code__run_in_code_context", &next);
    assert_eq!(ran["outputs"][0]["text"], "42", "{ran}");
    place.ok("code__delete_code_context", &json!({ "context_id": context }));
}
