//! The tools `script` of the Rust Worker in workerd: in its own isolate, and in a dynamic Worker.

mod browser;

use std::sync::Arc;

use koze_tests::conformance::http::{Http, Mcp, Options, play_all};
use koze_tests::conformance::{Capability, Host as _, ToolResult, origin, script_cases};
use koze_tests::root;
use serde_json::{Value, json};

use crate::built::wasm;
use crate::dev::run::Dev;
use crate::project::{self, Worker};
use crate::runs::link;
use crate::served::{Host, TOKEN};

/// What a Worker lacks.
const LACKS: &[(Capability, &str)] = &[
    (Capability::Restart, "no request ends a Worker"),
    (Capability::StatementTime, "statements of Durable Objects have no timeout"),
];

/// What one without a browser lacks, too.
const NO_BROWSER: (Capability, &str) = (Capability::Browser, "`browser = true` is not set");

/// Creates a project without sandboxes and its Rust Worker. With `loader`, it can load dynamic Workers.
fn worker(loader: Option<&str>) -> Worker {
    worker_with("internet = true\n", "script", loader)
}

/// Creates such a project with these keys in its table, and with this feature of the crate `koze`.
fn worker_with(keys: &str, feature: &str, loader: Option<&str>) -> Worker {
    let worker = project::fixture("scripts-only");
    let project = &worker.project;
    let manifest = project.read("Cargo.toml");
    let table = "[package.metadata.koze.script]\ndenied_hosts = [\"admin.example\"]\n";
    assert!(manifest.contains(table), "{manifest}");
    let manifest = manifest.replace(table, &format!("[package.metadata.koze.script]\n{keys}"));
    project.write(
        "Cargo.toml",
        manifest.replace("features = [\"script\"]", &format!("features = [{feature:?}]")),
    );
    if let Some(loader) = loader {
        let config = project.read("wrangler.toml");
        project.write("wrangler.toml", format!("{config}\n[[worker_loaders]]\nbinding = \"{loader}\"\n"));
    }
    let built = project.koze(&["build"]);
    assert_eq!(built.code, 0, "{built:?}");
    link(&wasm(&worker).expect("the Rust Worker"), &worker.build_dir());
    worker
}

fn serve(worker: &Worker, loader: Option<&str>) -> Host {
    let origin = format!("http://{}", origin::start());
    serve_with(worker, json!({ "origin": origin, "loader": loader }))
}

/// Serves it with these options of `serve.mjs`.
fn serve_with(worker: &Worker, mut options: Value) -> Host {
    options["vars"] = json!({ "KOZE_TOKEN": TOKEN, "KOZE_SECRET_KEY": "a-long-secret-0123" });
    let mut node = worker.project.node("node");
    node.arg(root().join("tests/tests/worker/scripted/serve.mjs"));
    node.args([worker.project.dir(), &worker.build_dir()]).arg(options.to_string());
    Host::run(node)
}

/// Runs the cases over HTTP.
fn conforms(name: &str, url: &str, lacks: &[(Capability, &str)]) {
    let host: Arc<dyn koze_tests::conformance::Host> = Arc::new(Http::new(url, TOKEN));
    play(name, &host, lacks);
}

/// Runs the cases over the Model Context Protocol. What receives its messages does not know where scripts run.
fn conforms_over_mcp(name: &str, url: &str, lacks: &[(Capability, &str)]) {
    let host: Arc<dyn koze_tests::conformance::Host> = Arc::new(Mcp(Http::new(url, TOKEN)));
    play(name, &host, lacks);
}

fn play(name: &str, host: &Arc<dyn koze_tests::conformance::Host>, lacks: &[(Capability, &str)]) {
    let lacks = lacks.iter().map(|(capability, why)| (*capability, (*why).to_owned())).collect();
    // `KOZE_TEST_CASES` selects some of them, to investigate a failure.
    let filter = std::env::var("KOZE_TEST_CASES").ok();
    let options = Options { lacks, at_once: Some(2), filter, ..Options::default() };
    let mut cases = script_cases();
    // It is about hosts that send no requests at all.
    cases.retain(|case| case.name != "script_without_a_network");
    assert!(play_all(name, host, cases, &options), "some cases have failed: see above");
}

#[test]
fn scripts_conform() {
    let worker = worker(None);
    let host = serve(&worker, None);
    let lacks = [LACKS, &[NO_BROWSER]].concat();
    conforms("scripts in a Worker", host.url(), &lacks);
    conforms_over_mcp("scripts in a Worker, MCP", host.url(), &lacks);
}

/// The Rust Worker puts the value in place of the placeholder, and masks it in what the server returns.
#[test]
fn credentials_are_sent_by_the_worker() {
    let keys = "allowed_hosts = [\"other.example\"]\n\n[package.metadata.koze.script.credentials]\nKEY = { host = \"api.example\" }\n";
    let worker = worker_with(keys, "script", None);
    let host = serve(&worker, None);
    let run = |code: &str| call(&host, "s", "run_sandbox_code", &json!({ "code": code }));
    let fetch = |url: &str| {
        let code = format!(
            "const headers = {{ authorization: `Bearer ${{secrets.KEY}}` }};\n\
             return (await fetch('{url}', {{ headers }})).json()"
        );
        run(&code)
    };
    let (failed, held) = run("return secrets.KEY.slice(0, 10)");
    assert!(!failed && held["result"] == "koze_cred_", "{held}");
    let (failed, echo) = fetch("https://api.example/echo");
    assert!(!failed && echo.to_string().contains(&format!("Bearer {}\"", "*".repeat(18))), "{echo}");
    for (url, part) in [
        ("https://other.example/echo", "the placeholder of `KEY` was sent to other.example"),
        // A credential allows its host at port 443 only.
        ("http://api.example/echo", "scripts may not reach api.example"),
    ] {
        let (failed, refused) = fetch(url);
        assert!(failed && refused["error"].as_str().is_some_and(|error| error.contains(part)), "{refused}");
    }
}

#[test]
fn isolated_scripts_conform() {
    let loader = Some("LOADER");
    let worker = worker(loader);
    let host = serve(&worker, loader);
    conforms("scripts in a dynamic Worker", host.url(), &[LACKS, &[NO_BROWSER]].concat());
}

/// Under `koze dev --local`, requests leave from this machine, where they are checked.
#[test]
fn scripts_of_koze_dev_conform() {
    let worker = worker(None);
    worker.project.write(".dev.vars", format!("KOZE_TOKEN=\"{TOKEN}\"\n"));
    let dev = Dev::start(&worker);
    let lacks = [LACKS, &[NO_BROWSER, (Capability::Network, "no server has a public address here")]].concat();
    conforms("scripts of koze dev --local", &dev.url, &lacks);
    let host = Http::new(&dev.url, TOKEN);
    for url in ["http://127.0.0.1:9/", "http://localhost/", "http://[::ffff:169.254.169.254]/"] {
        let ToolResult { content, is_error } = host.call("s", "fetch_url", json!({ "url": url }));
        // In the words of this machine's policy.
        assert!(
            is_error && content.contains("scripts cannot reach private or local networks"),
            "{url}: {content}"
        );
    }
}

/// Calls a tool. Returns whether it failed, and its content.
fn call(host: &Host, session: &str, tool: &str, input: &Value) -> (bool, Value) {
    let answer = host.ask("POST", &format!("/sessions/{session}/tools/{tool}"), input.to_string().as_bytes());
    assert_eq!(answer.status, 200, "{answer:?}");
    let (failed, content) = (answer.json()["isError"] == true, answer.json()["content"].clone());
    let text = content.as_str().expect("a text");
    (failed, serde_json::from_str(text).unwrap_or_else(|_| text.into()))
}

#[test]
fn scripts_of_a_worker_are_its_own() {
    let worker = worker(None);
    let host = serve(&worker, None);
    are_bounded(&host);
    are_listed(&host);
    are_announced(&host);
    wait_for_their_turn(&host);
}

/// Scripts read the secrets of the Worker, end, and share nothing with other sessions.
fn are_bounded(host: &Host) {
    let run = |code: &str| call(host, "s", "run_sandbox_code", &json!({ "code": code }));
    assert_eq!(run("return Object.keys(secrets)"), (false, json!({ "result": ["KEY"], "logs": [] })));
    assert_eq!(run("return secrets.KEY.length"), (false, json!({ "result": 18, "logs": [] })));
    let (_, shown) = run("console.log(secrets.KEY); return [secrets.KEY, btoa(secrets.KEY)]");
    assert_eq!(shown, json!({ "result": ["[secret KEY]", "[secret KEY]"], "logs": ["[secret KEY]"] }));

    // A script that does not end, and others afterwards.
    let (failed, ended) = run("for (;;) {}");
    assert!(failed && ended["limit"] == "time", "{ended}");
    assert_eq!(run("1 + 1").1["result"], 2);

    // A script reaches neither the objects of other sessions nor koze's own tables.
    let sql = |session: &str, sql: &str| call(host, session, "db_sql", &json!({ "sql": sql }));
    assert!(!sql("s", "create table mine (a)").0);
    assert!(sql("t", "select * from mine").0);
    for table in ["store_values", "sandboxes", "_cf_KV", "_cf_METADATA"] {
        assert!(sql("s", &format!("select * from {table}")).0, "{table}");
    }
    let (_, schema) = call(host, "s", "db_schema", &json!({}));
    assert_eq!(schema["tables"].as_array().map(Vec::len), Some(1), "{schema}");

    // What makes the database too large is undone.
    let insert = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 110) \
                insert into mine select zeroblob(1000000) from n";
    let (failed, full) = sql("s", insert);
    assert!(
        failed && full.as_str().is_some_and(|full| full.starts_with("too_large: the database is full")),
        "{full}"
    );
    assert_eq!(sql("s", "select count(*) from mine").1["rows"], json!([[0]]));
}

/// A call that changes the list of tools says so before its response, to clients that accept events.
fn are_announced(host: &Host) {
    let sent = |tool: &str, arguments: &Value, accept: &str, meta: Value| {
        let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string();
        let bearer = format!("Bearer {TOKEN}");
        let headers = [("authorization", &*bearer), ("accept", accept), ("koze-session", "announced")];
        let answer = host.send("POST", "/mcp", &headers, body.as_bytes());
        assert_eq!(answer.status, 200, "{answer:?}");
        let kind = answer.header("content-type").unwrap_or_default().to_owned();
        let data = answer.body.lines().filter_map(|line| line.strip_prefix("data: "));
        let mut messages: Vec<Value> = data.map(|data| serde_json::from_str(data).expect("JSON")).collect();
        if kind == "application/json" {
            messages.push(answer.json());
        }
        let last = messages.pop().expect("a response");
        let methods =
            messages.iter().map(|message| message["method"].as_str().unwrap_or_default().to_owned());
        (kind, methods.collect::<Vec<_>>(), last["result"]["isError"] == true)
    };
    let (json, events) = ("application/json", "text/event-stream");
    let both = "application/json, text/event-stream";
    let changed = || vec!["notifications/tools/list_changed".to_owned()];
    let tool = |name: &str| json!({ "name": name, "description": "d", "parameter_schema": { "type": "object" }, "code": "1" });
    let created = sent("create_tool", &tool("told"), both, json!({}));
    assert_eq!(created, (events.to_owned(), changed(), false));
    let progress = sent("disable_tool", &json!({ "name": "told" }), both, json!({ "progressToken": 7 }));
    assert_eq!(progress, (events.to_owned(), changed(), false));
    // Nothing has changed, or the client takes JSON only.
    assert_eq!(sent("create_tool", &tool("told"), both, json!({})), (json.to_owned(), Vec::new(), true));
    assert_eq!(sent("list_tools", &json!({}), both, json!({})), (json.to_owned(), Vec::new(), false));
    assert_eq!(sent("create_tool", &tool("silent"), json, json!({})), (json.to_owned(), Vec::new(), false));
}

/// Created tools are in the definitions at once.
fn are_listed(host: &Host) {
    let tool = json!({ "name": "mine", "description": "Uses a-long-secret-0123.", "parameter_schema": { "type": "object" }, "code": "1" });
    assert_eq!(call(host, "s", "create_tool", &tool).1, json!({ "name": "mine", "version": 1 }));
    let list = |session: &str| {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string();
        let headers = [
            ("authorization", &*format!("Bearer {TOKEN}")),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("koze-session", session),
        ];
        let answer = host.send("POST", "/mcp", &headers, body.as_bytes());
        assert_eq!(answer.status, 200, "{answer:?}");
        let tools = answer.json()["result"]["tools"].clone();
        let mine = tools.as_array().expect("a list").iter().find(|tool| tool["name"] == "mine").cloned();
        mine.map(|tool| tool["description"].clone())
    };
    // The values of secrets are masked, as in results.
    assert_eq!([list("s"), list("t")], [Some("Uses [secret KEY].".into()), None]);
}

/// More scripts of different agents, and so objects, than an isolate runs at once.
fn wait_for_their_turn(host: &Host) {
    let code = "await new Promise((done) => setTimeout(done, 200)); return 1";
    std::thread::scope(|scope| {
        let run = |agent| call(host, &format!("agent-{agent}"), "run_sandbox_code", &json!({ "code": code }));
        let runs: Vec<_> = (0..30).map(|agent| scope.spawn(move || run(agent))).collect();
        for run in runs {
            assert_eq!(run.join().expect("it ran"), (false, json!({ "result": 1, "logs": [] })));
        }
    });
}
