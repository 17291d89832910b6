//! The route `log` of `koze mcp --http`: the journal of tool calls.

use koze_tests::eventually;
use serde_json::{Value, json};

use crate::http::{bearer, body_of, send};
use crate::server::{Http, project};

fn ask(server: &Http, method: &str, path: &str, headers: &str, body: &str) -> (u16, Value) {
    let host = format!("Host: {}\r\n{}{headers}", server.address(), bearer(server));
    let (status, answer) = send(server, &format!("{method} {path}"), &host, body.as_bytes());
    (status, body_of(&answer))
}

#[test]
fn the_journal_of_the_session_is_served() {
    let host = project();
    let server = Http::start(&host, &[]);
    let page = |query: &str| ask(&server, "GET", &format!("/sessions/default/log{query}"), "", "");
    assert_eq!(page(""), (200, json!({ "calls": [], "next": 0 })));
    for command in ["echo 1", "echo 2"] {
        let input = json!({ "command": command }).to_string();
        let agent = "User-Agent: an-agent/1\r\n";
        assert_eq!(ask(&server, "POST", "/sessions/default/tools/shell", agent, &input).0, 200);
    }
    eventually("the calls are recorded", || page("").1["next"] == 2);
    let (_, all) = page("");
    let part =
        |call: &Value| json!([&call["id"], &call["client"], &call["input"]["command"], &call["outcome"]]);
    let calls: Vec<Value> = all["calls"].as_array().expect("a list").iter().map(part).collect();
    assert_eq!(calls, [json!([1, "an-agent/1", "echo 1", "ok"]), json!([2, "an-agent/1", "echo 2", "ok"])]);
    assert_eq!(page("?limit=1").1["calls"][0]["id"], 2);
    assert_eq!(page("?since=0&limit=1").1["calls"][0]["id"], 1);
    assert_eq!(page("?since=2").1, json!({ "calls": [], "next": 2 }));

    assert_eq!(page("?limit=0").0, 400);
    assert_eq!(ask(&server, "GET", "/sessions/other/log", "", "").0, 404);
    assert_eq!(ask(&server, "POST", "/sessions/default/log", "", "").0, 405);
    let host = format!("Host: {}\r\n", server.address());
    assert_eq!(send(&server, "GET /sessions/default/log", &host, b"").0, 401);
}
