//! `koze serve`: the sessions of several tenants.

use std::process::Command;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fs_err as fs;
use koze_tests::{Run, Sandboxes, eventually, root, run};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::http::{JSON, send};
use crate::server::{Http, TIMEOUT, project};

const ANN: &str = "the-token-of-ann";
const BOB: &str = "the-token-of-bob";
const OWN: &str = "the-token-of-the-default";

/// The secrets of a server for three tenants. The name of one is that of this machine's own sandboxes.
fn tokens() -> [(&'static str, String); 2] {
    let several = json!({ "ann": ANN, "local": BOB }).to_string();
    [("KOZE_TOKEN", OWN.to_owned()), ("KOZE_TOKENS", several)]
}

fn command(host: &Sandboxes, args: &[&str]) -> Command {
    let mut command = host.command(&[&["serve"], args].concat());
    command.env_remove("KOZE_TOKEN").env_remove("KOZE_TOKENS");
    command
}

fn start(host: &Sandboxes, args: &[&str]) -> Http {
    let mut command = command(host, args);
    command.envs(tokens());
    Http::serve(command, Some(OWN))
}

/// Adds a sandbox with the tools `thread`.
fn add_thread(host: &Sandboxes) {
    let sandbox = "use koze::prelude::*;\n\n#[sandbox(tools = [\"thread\"])]\npub struct DeskSandbox;\n";
    host.write("src/server/desk.sandbox.rs", sandbox);
    let run = host.koze(&["build"]);
    assert_eq!(run.code, 0, "{run:?}");
}

/// Sends a request with a token, and returns the status and the body.
fn ask(server: &Http, token: &str, request: &str, headers: &str, body: &str) -> (u16, String) {
    let headers = format!("Host: agents.example\r\nAuthorization: Bearer {token}\r\n{headers}");
    let (status, answer) = send(server, request, &headers, body.as_bytes());
    (status, answer.split_once("\r\n\r\n").expect("a head").1.to_owned())
}

fn get(server: &Http, token: &str, path: &str) -> (u16, Value) {
    let (status, body) = ask(server, token, &format!("GET {path}"), "", "");
    (status, serde_json::from_str(&body).unwrap_or(Value::String(body)))
}

/// Runs a command in the sandbox `default` of a session, and returns its output.
fn shell(server: &Http, token: &str, session: &str, command: &str) -> String {
    let input = json!({ "command": command }).to_string();
    let (status, body) = ask(server, token, &format!("POST /sessions/{session}/tools/shell"), "", &input);
    let result: Value = serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"));
    assert_eq!((status, &result["isError"]), (200, &json!(false)), "{result}");
    let output: Value =
        serde_json::from_str(result["content"].as_str().expect("text")).expect("the result of the tool");
    output["stdout"].as_str().expect("text").to_owned()
}

/// Runs a command in a thread. Returns the body of the answer, or `None` if the connection ends before.
fn call_meanwhile(server: &Http, session: &str, command: &str) -> JoinHandle<Option<String>> {
    let url = format!("http://{}/sessions/{session}/tools/shell", server.address());
    let input = json!({ "command": command }).to_string();
    thread::spawn(move || {
        let request = ureq::post(&url).header("authorization", format!("Bearer {ANN}"));
        request.send(input).and_then(|mut answer| answer.body_mut().read_to_string()).ok()
    })
}

fn sandboxes(server: &Http, token: &str, session: &str) -> Value {
    let (status, list) = get(server, token, &format!("/sessions/{session}/sandboxes"));
    assert_eq!(status, 200, "{list}");
    list["sandboxes"].as_array().expect("a list").iter().map(|sandbox| sandbox["name"].clone()).collect()
}

#[test]
fn tenants_share_nothing() {
    let host = project();
    let server = start(&host, &[]);
    for (token, text) in [(ANN, "ann"), (OWN, "own")] {
        assert_eq!(
            shell(&server, token, "s", &format!("echo {text} > secret; cat secret")),
            format!("{text}\n")
        );
    }
    let below = "/sessions/s/sandboxes/default";
    let argv = r#"{"argv": ["sleep", "600"]}"#;
    let (status, started) = ask(&server, ANN, &format!("POST {below}/processes"), "", argv);
    assert_eq!(status, 201, "{started}");
    let started: Value = serde_json::from_str(&started).expect("JSON");
    let id = started["id"].as_str().expect("an ID");

    // Bob uses the same names.
    assert_eq!(sandboxes(&server, BOB, "s"), json!([]));
    for path in [
        below.to_owned(),
        format!("{below}/files/home/user/secret"),
        format!("{below}/files/home/user?list"),
        format!("{below}/processes"),
        format!("{below}/processes/{id}"),
        format!("{below}/processes/{id}/events"),
    ] {
        let (status, answer) = get(&server, BOB, &path);
        assert_eq!((status, &answer["error"]["code"]), (404, &json!("not_found")), "{path}: {answer}");
        assert_ne!(get(&server, ANN, &format!("{below}/files/home/user/secret")).0, 404);
    }
    let kill = format!("POST {below}/processes/{id}/signal");
    assert_eq!(ask(&server, BOB, &kill, "", r#"{"signal": "KILL"}"#).0, 404);
    assert_eq!(ask(&server, BOB, &format!("DELETE {below}"), "", "").0, 404);
    let sessions = |token: &str| get(&server, token, "/sessions").1["sessions"].clone();
    let anns = sessions(ANN);
    assert_eq!(
        [&anns[0]["name"], &anns[0]["sandboxes"][0]["name"], &anns[0]["sandboxes"][0]["status"]],
        ["s", "default", "running"],
        "{anns}"
    );
    assert_eq!(sessions(BOB), json!([]));
    assert_eq!(get(&server, BOB, "/sessions/s/egress").1, json!({ "egress": [] }));
    assert_eq!(get(&server, BOB, "/sessions/s/egress?limit=0").0, 400);
    let (status, usage) = get(&server, ANN, "/sessions/s/usage");
    let used = &usage["usage"][0];
    assert_eq!((status, &used["sandbox"]), (200, &json!("default")), "{usage}");
    assert!(used["memory_bytes"].as_u64() > Some(0) && used["disk_bytes"].is_u64(), "{usage}");
    assert_eq!(get(&server, BOB, "/sessions/s/usage").1, json!({ "usage": [] }));
    let log = |token: &str| get(&server, token, "/sessions/s/log").1["calls"].clone();
    eventually("the call is recorded", || log(ANN)[0]["session"] == "s");
    assert_eq!(log(BOB), json!([]));

    // With a sandbox of its own, a tenant still sees neither files nor processes of the others.
    assert_eq!(shell(&server, BOB, "s", "ls -A; ps ax 2>&1 | grep -c '[s]leep 600'; true"), "0\n");
    assert_eq!(get(&server, BOB, &format!("{below}/processes/{id}")).0, 404);
    assert_eq!(get(&server, ANN, &format!("{below}/processes/{id}")).1["exit_code"], Value::Null);
    for (token, text) in [(ANN, "ann\n"), (OWN, "own\n")] {
        assert_eq!(shell(&server, token, "s", "cat secret"), text);
    }
    assert!(
        log(ANN).as_array().is_some_and(|calls| calls.iter().all(|call| !call.to_string().contains("own")))
    );

    // The commands on this machine show the sandboxes of the default tenant, and others with their directory.
    let names = |args: &[&str]| {
        let run = host.koze(&[&["sandboxes", "--format=json"], args].concat());
        let list: Value = serde_json::from_str(&run.stdout).expect("JSON");
        list["sandboxes"].as_array().map_or(0, Vec::len)
    };
    assert_eq!(names(&[]), 1);
    let (code, printed) = server.stop(Signal::TERM);
    assert_eq!(code, Some(0));
    let place =
        printed.lines().find_map(|line| line.strip_prefix("koze serve: tenant `ann`: ")).expect("a place");
    assert_eq!(names(&["--state", place]), 1);
}

#[test]
fn clients_of_the_protocol_belong_to_a_tenant_and_a_session() {
    let host = project();
    let server = start(&host, &[]);
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "a", "version": "1" } });
    let begin = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }).to_string();
    let headers = format!("Host: a\r\nAuthorization: Bearer {ANN}\r\n{JSON}");
    let (status, answer) = send(&server, "POST /mcp?session=one", &headers, begin.as_bytes());
    assert_eq!(status, 200, "{answer}");
    let line = answer.lines().find(|line| line.to_lowercase().starts_with("mcp-session-id:"));
    let known = format!("{JSON}{}\r\nMcp-Protocol-Version: 2025-06-18\r\n", line.expect("an ID"));
    let call = |token: &str, request: &str, more: &str, command: &str| {
        let params = json!({ "name": "shell", "arguments": { "command": command } });
        let call = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params }).to_string();
        ask(&server, token, request, &format!("{known}{more}"), &call)
    };
    let (status, answer) = call(ANN, "POST /mcp?session=one", "", "echo one > f; cat f");
    assert!(status == 200 && answer.contains("one"), "{status} {answer}");
    // The header has precedence, as in a Worker.
    let (status, _) = call(ANN, "POST /mcp?session=other", "Koze-Session: one\r\n", "cat f");
    assert_eq!(status, 200);
    // Nobody has such a client there. To end it ends nothing.
    assert!(call(BOB, "DELETE /mcp?session=one", "", "").0 < 500);
    for (token, request) in
        [(BOB, "POST /mcp?session=one"), (ANN, "POST /mcp?session=two"), (ANN, "POST /mcp")]
    {
        let (status, answer) = call(token, request, "", "cat f");
        assert!(status == 404 && !answer.contains("one"), "{request}: {status} {answer}");
    }
    assert_eq!(call(ANN, "POST /mcp?session=one", "", "cat f").0, 200);
    assert_eq!(shell(&server, ANN, "one", "cat f"), "one\n");
    assert_eq!(sandboxes(&server, ANN, "two"), json!([]));
}

#[test]
fn requests_need_a_token_of_a_tenant() {
    let host = project();
    let server = start(&host, &[]);
    let status =
        |request: &str, headers: &str| send(&server, request, &format!("Host: a\r\n{headers}"), b"").0;
    for request in
        ["GET /tools", "GET /sessions/s/sandboxes", "POST /mcp", "GET /openapi.json", "GET /none", "POST /"]
    {
        for header in
            ["", "Authorization: Bearer the-token-of-eve\r\n", "Authorization: Basic the-token-of-ann\r\n"]
        {
            let expected = if request == "POST /" { 405 } else { 401 };
            assert_eq!(status(request, header), expected, "{request} {header}");
        }
    }
    let (status, about) = send(&server, "GET /", "Host: a\r\n", b"");
    assert!(status == 200 && about.contains("POST   /mcp"), "{about}");
    let page = format!("Host: a\r\nOrigin: http://evil.example\r\nAuthorization: Bearer {ANN}\r\n");
    assert_eq!(send(&server, "GET /tools", &page, b"").0, 403);
    for (path, code) in [
        ("/none", 404),
        ("/sessions//sandboxes", 400),
        ("/sessions/a%0Ab/log", 400),
        ("/sessions/%FF/log", 400),
    ] {
        assert_eq!(get(&server, ANN, path).0, code, "{path}");
    }
}

#[test]
fn the_tools_are_those_that_a_request_asks_for() {
    let host = project();
    add_thread(&host);
    let names = |server: &Http, token: &str, query: &str| {
        let (status, tools) = get(server, token, &format!("/tools{query}"));
        assert_eq!(status, 200, "{tools}");
        let name =
            |tool: &Value| tool["name"].as_str().or(tool["function"]["name"].as_str()).map(str::to_owned);
        tools.as_array().expect("a list").iter().filter_map(name).collect::<Vec<_>>()
    };
    for server in [start(&host, &[]), Http::start(&host, &[])] {
        let token = &server.token;
        let agent = names(&server, token, "");
        assert!(agent.iter().any(|name| name == "sandbox_create"), "{agent:?}");
        assert_eq!(names(&server, token, "?dialect=openai"), agent);
        let thread = names(&server, token, "?tools=thread");
        assert!(
            thread.iter().any(|name| name == "bash") && !thread.contains(&"sandbox_create".to_owned()),
            "{thread:?}"
        );
        let (_, both) = get(&server, token, "/tools?instructions&tools=thread");
        assert!(both["instructions"].as_str().is_some_and(|text| text.len() > 100), "{both}");
        assert_eq!(get(&server, token, "/tools?dialect=none").0, 400);
        assert_eq!(get(&server, token, "/tools?tools=none").0, 400);
        // Calls, and the Model Context Protocol.
        let input = r#"{"description": "x", "command": "echo $((6 * 7))"}"#;
        let (_, answer) = ask(&server, token, "POST /sessions/default/tools/bash", "", input);
        assert!(answer.contains("unknown_tool"), "{answer}");
        let (status, answer) =
            ask(&server, token, "POST /sessions/default/tools/bash?tools=thread", "", input);
        assert!(status == 200 && answer.contains("42"), "{answer}");
        let headers = format!(
            "Host: localhost\r\nAuthorization: Bearer {token}\r\n{JSON}Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\n"
        );
        let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientInfo": { "name": "a", "version": "1" }, "io.modelcontextprotocol/clientCapabilities": {} });
        let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "_meta": meta } })
            .to_string();
        for (query, has) in [("", false), ("?tools=thread", true)] {
            let (status, answer) = send(&server, &format!("POST /mcp{query}"), &headers, list.as_bytes());
            assert!(status == 200 && answer.contains("\"bash\"") == has, "{answer}");
        }
        assert_eq!(ask(&server, token, "POST /mcp?tools=none", JSON, &list).0, 400);
    }
    // A request cannot ask for more than the server was started with.
    let server = start(&host, &["--tools", "thread"]);
    assert!(names(&server, OWN, "").iter().any(|name| name == "bash"));
    let (status, answer) = get(&server, OWN, "/tools?tools=agent");
    assert!(
        status == 400 && answer["error"]["message"].as_str().is_some_and(|text| text.contains("--tools")),
        "{answer}"
    );
}

#[test]
fn sessions_work_at_the_same_time() {
    let host = project();
    let server = start(&host, &[]);
    for session in ["one", "two"] {
        shell(&server, ANN, session, &format!("echo {session} > name"));
    }
    // It ends only when the other session was answered.
    let waiting = call_meanwhile(
        &server,
        "one",
        "for i in $(seq 600); do test -e end && break; sleep 0.1; done; cat name",
    );
    assert_eq!(shell(&server, ANN, "two", "cat name; ls"), "two\nname\n");
    let (status, _) = ask(&server, ANN, "PUT /sessions/one/sandboxes/default/files/home/user/end", "", "");
    assert_eq!(status, 201);
    let begun = Instant::now();
    let answer = waiting.join().expect("no panic").expect("an answer");
    assert!(answer.contains("one\\\\n") && begun.elapsed() < Duration::from_secs(30), "{answer}");
}

#[test]
fn a_server_that_starts_again_finds_the_sandboxes() {
    let host = project();
    let server = start(&host, &[]);
    shell(&server, ANN, "s", "echo kept > f");
    let processes = "/sessions/s/sandboxes/default/processes";
    let argv = r#"{"argv": ["sleep", "600"]}"#;
    assert_eq!(ask(&server, ANN, &format!("POST {processes}"), "", argv).0, 201);
    // What runs is canceled with the server, as for a client that disconnects.
    let waiting = call_meanwhile(&server, "s", "echo > begun; sleep 600");
    eventually("the call has begun", || {
        get(&server, ANN, "/sessions/s/sandboxes/default/files/home/user/begun").0 == 200
    });
    let (code, _) = server.stop(Signal::INT);
    assert_eq!(code, Some(0));
    assert_eq!(waiting.join().expect("no panic"), None, "it is cut off");

    let server = start(&host, &[]);
    assert_eq!(sandboxes(&server, ANN, "s"), json!(["default"]));
    assert_eq!(shell(&server, ANN, "s", "cat f"), "kept\n");
    let (_, list) = get(&server, ANN, processes);
    assert_eq!(list["processes"][0]["program"], "sleep", "{list}");
    assert_eq!(list["processes"][0].get("exit_code"), None, "it still runs: {list}");
    assert_eq!(shell(&server, ANN, "s", "ps ax 2>/dev/null | grep -c '[s]leep 600'"), "1\n");
}

#[test]
fn the_sessions_in_use_are_bounded() {
    let host = project();
    let server = start(&host, &["--max-sessions", "1"]);
    shell(&server, ANN, "one", "true");
    for _ in 0..2 {
        let (status, answer) = get(&server, ANN, "/sessions/two/sandboxes");
        assert!(status == 503 && answer.to_string().contains("1 sessions are in use"), "{status} {answer}");
        // Those of another tenant do not count, and the one in use goes on.
        assert_eq!(sandboxes(&server, BOB, "two"), json!([]));
        assert_eq!(sandboxes(&server, ANN, "one"), json!(["default"]));
    }
    host.kill_supervisors();
    // Its socket may be closed a moment later.
    eventually("there is room", || get(&server, ANN, "/sessions/two/sandboxes").0 == 200);
    let run = host.koze(&["serve", "--max-sessions", "0"]);
    assert_eq!(run.code, 2, "{run:?}");
}

#[test]
fn commands_use_the_sandboxes_with_a_url() {
    let host = project();
    let server = start(&host, &[]);
    let koze = |token: &str, args: &[&str]| {
        let (name, rest) = args.split_first().expect("a command");
        let url = format!("--url=http://{}", server.address());
        let mut command = host.command(&[&[name, url.as_str(), "--session=s"], rest].concat());
        command.env("KOZE_TOKEN", token);
        let output = run(command, TIMEOUT);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        Run {
            code: output.status.code().expect("a code"),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    };
    let printed = |args: &[&str]| {
        let run = koze(ANN, args);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{args:?}: {}", run.stdout);
        run.stdout
    };
    assert!(printed(&["call", "shell", r#"{"command": "echo $((6 * 7))"}"#]).contains("42"));
    assert_eq!(printed(&["sandboxes"]), "SANDBOX  IMAGE  STATUS\ndefault  shell  running\n");
    host.write("x", "text");
    printed(&["cp", "x", "default:x"]);
    assert_eq!(printed(&["exec", "default", "--", "cat", "x"]), "text");
    assert_eq!(printed(&["cp", "default:x", "-"]), "text");
    eventually("the call is recorded", || printed(&["log", "--json"]).contains(r#""client":"koze call""#));
    let run = koze(BOB, &["exec", "default", "--", "cat", "x"]);
    assert!(run.code == 125 && run.stderr.contains("no sandbox `default`"), "{run:?}");
    let run = koze("the-token-of-eve", &["sandboxes"]);
    assert!(run.code == 1 && run.stderr.contains("not one of this server's"), "{run:?}");
    assert_eq!(printed(&["destroy", "default"]), "destroyed default\n");
}

#[test]
fn tokens_are_those_of_the_worker() {
    let host = project();
    // Without one, koze remembers a new one, and listens only on this machine.
    let server = Http::serve(command(&host, &[]), None);
    assert_eq!(get(&server, &server.token, "/sessions/s/sandboxes").0, 200);
    let token = server.token.clone();
    let (_, printed) = server.stop(Signal::TERM);
    assert!(printed.contains("neither KOZE_TOKEN nor KOZE_TOKENS is set"), "{printed}");
    let server = Http::serve(command(&host, &[]), None);
    assert_eq!(server.token, token);
    assert_eq!(server.stop(Signal::TERM).0, Some(0));
    let refused = |args: &[&str], variable: Option<(&str, &str)>| {
        let mut command = command(&host, args);
        command.args(["--port", "0"]).envs(variable);
        let output = run(command, TIMEOUT);
        (output.status.code(), String::from_utf8(output.stderr).expect("text"))
    };
    let (code, why) = refused(&["--host", "0.0.0.0"], None);
    assert!(code == Some(2) && why.contains("clients need a token"), "{code:?} {why}");
    let (code, why) = refused(&[], Some(("KOZE_TOKEN", "short")));
    assert!(
        code == Some(1) && why.contains("KOZE_TOKEN cannot be used: a token must have at least 16"),
        "{why}"
    );

    host.write(".dev.vars", format!("KOZE_TOKENS='{{\"ann\": \"{ANN}\"}}'\n"));
    let server = Http::serve(command(&host, &[]), Some(ANN));
    assert_eq!(get(&server, ANN, "/tools").0, 200);
    assert_eq!(get(&server, &token, "/tools").0, 401);
    let (_, printed) = server.stop(Signal::TERM);
    assert!(!printed.contains(ANN), "{printed}");
    // The environment replaces the files.
    let mut with_own = command(&host, &[]);
    with_own.env("KOZE_TOKEN", OWN);
    let server = Http::serve(with_own, Some(OWN));
    assert_eq!((get(&server, OWN, "/tools").0, get(&server, ANN, "/tools").0), (200, 401));
    shell(&server, OWN, "s", "true");
    for supervisor in host.supervisors() {
        let environment = fs::read_to_string(format!("/proc/{supervisor}/environ")).expect("its environment");
        assert!(!environment.contains(OWN));
    }
}

#[test]
fn deerflow_works_without_a_worker() {
    let host = project();
    add_thread(&host);
    let server = start(&host, &[]);
    let mut check = Command::new("python3");
    // Without bytecode next to the sources.
    check.args(["-B", "check.py"]).current_dir(root().join("examples/deerflow"));
    check.env("KOZE_URL", format!("http://{}", server.address())).env("KOZE_TOKEN", ANN);
    let output = run(check, TIMEOUT);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ok\n");
}
