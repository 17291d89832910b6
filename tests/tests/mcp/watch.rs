//! Changes to files as server-sent events: `GET …/files/*path?watch`.

use std::io::{BufRead as _, BufReader, Lines};

use serde_json::{Value, json};
use ureq::{Agent, BodyReader};

use crate::http::{bearer, send};
use crate::server::{Http, TIMEOUT, project};

/// The events of a response.
struct Events(Lines<BufReader<BodyReader<'static>>>);

impl Events {
    fn open(server: &Http, path: &str) -> Self {
        let agent: Agent = Agent::config_builder().timeout_global(Some(TIMEOUT)).build().into();
        let url = format!("http://{}/sessions/default/sandboxes/{path}", server.address());
        let request = agent.get(url).header("authorization", format!("Bearer {}", server.token));
        let response = request.call().expect("a response");
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Events(BufReader::new(response.into_body().into_reader()).lines())
    }

    /// Returns the next event: its name and its data.
    fn next(&mut self) -> Option<(String, Value)> {
        let mut name = String::new();
        loop {
            let line = self.0.next()?.expect("the events go on");
            match line.split_once(": ") {
                Some(("event", text)) => text.clone_into(&mut name),
                Some(("data", text)) => return Some((name, serde_json::from_str(text).expect("JSON"))),
                _ => assert!(line.is_empty() || line == ":", "{line}"),
            }
        }
    }

    /// Returns the name of the next event, its path, and the kind of what is there.
    fn change(&mut self) -> [String; 3] {
        let (name, data) = self.next().expect("an event");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        [name, text(&data["path"]), text(&data["entry"]["kind"])]
    }
}

fn shell(server: &Http, command: &str) {
    let headers = format!("Host: localhost\r\n{}", bearer(server));
    let input = json!({ "command": command }).to_string();
    let (status, answer) = send(server, "POST /sessions/default/tools/shell", &headers, input.as_bytes());
    assert!(status == 200 && answer.contains(r#""isError":false"#), "{answer}");
}

#[test]
fn changes_of_programs_are_reported_in_order() {
    let host = project();
    let server = Http::start(&host, &[]);
    shell(&server, "mkdir -p d/sub; echo 1 > d/sub/a; ln -s a d/sub/link");
    let mut events = Events::open(&server, "default/files/home/user/d?watch");
    assert_eq!(events.next(), Some(("ready".into(), json!({ "entries": 4 }))));
    let mut changes = |command: &str, expected: &[[&str; 3]]| {
        shell(&server, command);
        for change in expected {
            assert_eq!(events.change(), *change, "{command}");
        }
    };
    changes("echo 12 >> d/sub/a", &[["changed", "/home/user/d/sub/a", "file"]]);
    // The size stays.
    changes("printf 'x' | dd of=d/sub/a conv=notrunc", &[["changed", "/home/user/d/sub/a", "file"]]);
    changes("chmod 700 d/sub", &[["changed", "/home/user/d/sub", "directory"]]);
    changes(
        "mv d/sub 'd/ä b'",
        &[
            ["removed", "/home/user/d/sub/link", ""],
            ["removed", "/home/user/d/sub/a", ""],
            ["removed", "/home/user/d/sub", ""],
            ["created", "/home/user/d/ä b", "directory"],
            ["created", "/home/user/d/ä b/a", "file"],
            ["created", "/home/user/d/ä b/link", "link"],
        ],
    );
    // Changes elsewhere are not reported.
    changes("echo 1 > other; echo 1 > d/new", &[["created", "/home/user/d/new", "file"]]);
    let headers = format!("Host: localhost\r\n{}", bearer(&server));
    assert_eq!(send(&server, "DELETE /sessions/default/sandboxes/default", &headers, b"").0, 200);
    let (name, data) = events.next().expect("the last event");
    assert_eq!((name.as_str(), &data["code"]), ("error", &json!("not_found")), "{data}");
    assert_eq!(events.next(), None);
}

#[test]
fn what_cannot_be_watched_is_an_error() {
    let host = project();
    let server = Http::start(&host, &[]);
    let headers = format!("Host: localhost\r\n{}", bearer(&server));
    let status = |path: &str| {
        let request = format!("GET /sessions/default/sandboxes/{path}");
        let (status, answer) = send(&server, &request, &headers, b"");
        let body: Value =
            serde_json::from_str(answer.split_once("\r\n\r\n").expect("a head").1).expect("JSON");
        (status, body["error"]["code"].as_str().expect("a code").to_owned())
    };
    let error = |status: u16, code: &str| (status, code.to_owned());
    assert_eq!(status("default/files/home/user?watch"), error(404, "not_found"), "no sandbox is created");
    shell(&server, "mkdir many; cd many; mkdir $(seq 1100)");
    assert_eq!(status("default/files/home/user?watch"), error(400, "too_large"));
    assert_eq!(status("default/files/home/user?watch=x"), error(400, "invalid_input"));
    // It is awaited.
    let mut events = Events::open(&server, "default/files/home/user/later/x?watch=true");
    assert_eq!(events.next(), Some(("ready".into(), json!({ "entries": 0 }))));
    shell(&server, "mkdir later; echo 1 > later/x");
    assert_eq!(events.change(), ["created", "/home/user/later/x", "file"]);
}
