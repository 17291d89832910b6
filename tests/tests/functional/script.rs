//! The tools `script`, and `koze script`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{ChildStdin, ChildStdout, Stdio};

use insta::assert_snapshot;
use koze_tests::{Project, Run, Sandboxes};
use serde_json::{Value, json};

use crate::common::{package, printed, refused_with, sandboxes};

/// What enables the tools.
const TABLE: &str = "\n[package.metadata.koze.script]\n";

fn enable(project: &Project) {
    project.write("Cargo.toml", format!("{}{TABLE}", project.read("Cargo.toml")));
}

/// A package without sandboxes that serves the tools.
fn scripts() -> Sandboxes {
    let project = package();
    enable(&project);
    Sandboxes::of(project)
}

fn call(host: &Sandboxes, tool: &str, input: &Value) -> Run {
    host.koze(&["call", "--tools", "script", tool, &input.to_string()])
}

#[test]
fn they_need_no_sandbox() {
    let host = scripts();
    let run = host.koze(&["call", "run_sandbox_code", r#"{"code": "console.log('hi'); return 1 + 1"}"#]);
    assert_snapshot!(printed(&run), @r#"
    0
    {"result":2,"logs":["hi"]}
    "#);
    let run = host.koze(&["call", "run_sandbox_code", r#"{"code": "foo()"}"#]);
    assert_snapshot!(printed(&run), @r#"
    1
    {"error":"ReferenceError: foo is not defined","name":"ReferenceError","message":"foo is not defined","stack":"at <eval> (line 1, column 1)","line":1,"column":1,"logs":[]}
    "#);
    // Nothing of them needs a build, and listing the tools does not either.
    let listed = host.koze(&["tools"]);
    assert!(listed.stdout.contains("\"name\": \"run_sandbox_code\""), "{listed:?}");
}

#[test]
fn they_are_served_beside_sandboxes() {
    let host = sandboxes();
    let run = call(&host, "run_sandbox_code", &json!({ "code": "1" }));
    assert_snapshot!(printed(&run), @"
    1
    error[invalid_input]: this project does not serve the tools `script`: it serves agent. Add `[package.metadata.koze.script]` to its `Cargo.toml`. A Worker also needs `cargo add koze --features script` and `koze build`
    ");
    host.write("Cargo.toml", format!("{}{TABLE}", host.read("Cargo.toml")));
    assert_eq!(
        call(&host, "run_sandbox_code", &json!({ "code": "1" })).stdout,
        "{\"result\":1,\"logs\":[]}\n"
    );
    assert_eq!(host.shell("echo both"), "both\n");
    let both = host.koze(&["call", "--tools", "agent,script", "set_state", r#"{"key": "a", "value": 1}"#]);
    assert_eq!(both.stdout, "{\"ok\":true}\n", "{both:?}");
}

#[test]
fn files_are_run_and_tools_listed() {
    let host = scripts();
    let none = [host.koze(&["script", "tools"]), host.koze(&["script", "libs"])];
    assert_snapshot!(none.map(|run| printed(&run)).join("\n"), @"
    0
    no tools: this agent has created none

    0
    no libraries: this agent has created none
    ");
    host.write("good.js", "console.log('one')\nreturn { a: [1, 'ü'] }\n");
    assert_snapshot!(printed(&host.koze(&["script", "run", "good.js"])), @r#"
    0
    {
      "a": [
        1,
        "ü"
      ]
    }
    one
    "#);
    host.write("bad.js", "console.log('one')\nnull.x\n");
    assert_snapshot!(printed(&host.koze(&["script", "run", "bad.js"])), @"
    1
    one
    error: TypeError: cannot read property 'x' of null (bad.js:2:1)
    ");
    assert_snapshot!(printed(&host.koze(&["script", "run", "none.js"])), @"
    2
    error: none.js cannot be read: No such file or directory (os error 2)
    ");
    assert_eq!(host.piped("6 * 7", &["script", "run", "-"]).stdout, "42\n");
    let library = json!({ "name": "numbers", "code": "exports.a = 1", "description": "Numbers" });
    assert_eq!(call(&host, "create_library", &library).code, 0);
    let schema = json!({ "type": "object" });
    let tool =
        json!({ "name": "one", "description": "Returns 1.", "parameter_schema": schema, "code": "return 1" });
    assert_eq!(call(&host, "create_tool", &tool).code, 0);
    assert_eq!(call(&host, "one", &json!({})).stdout, "{\"result\":1,\"logs\":[]}\n");
    assert_eq!(call(&host, "disable_tool", &json!({ "name": "one" })).code, 0);
    let listed = host.koze(&["script", "tools"]).stdout;
    let words: Vec<&str> = listed.split_whitespace().filter(|word| !word.contains(':')).collect();
    assert_eq!(
        words,
        ["TOOL", "VERSION", "STATE", "UPDATED", "DESCRIPTION", "one", "1", "disabled", "Returns", "1."]
    );
    let listed: Value =
        serde_json::from_str(&host.koze(&["script", "libs", "--format", "json"]).stdout).expect("JSON");
    assert_eq!(listed["libraries"][0]["name"], "numbers");
}

/// An agent has what its namesake among the sessions has.
#[test]
fn an_agent_can_be_selected() {
    let host = scripts();
    let run = |arguments: &[&str]| printed(&host.piped("return state.get('key')", arguments));
    let set = |arguments: &[&str], value: &str| {
        let input = json!({ "key": "key", "value": value }).to_string();
        let run = host.koze(&[&["call", "--tools", "script", "set_state", &input], arguments].concat());
        assert_eq!(run.stdout, "{\"ok\":true}\n", "{run:?}");
    };
    set(&[], "of the session");
    set(&["--agent", "a"], "of a");
    assert_eq!(run(&["script", "run", "-"]), "0\n\"of the session\"\n");
    assert_eq!(run(&["script", "run", "-", "--agent", "a"]), "0\n\"of a\"\n");
    // Whatever the session is.
    assert_eq!(run(&["script", "run", "-", "--agent", "a", "--session", "b"]), "0\n\"of a\"\n");
    assert_eq!(run(&["script", "run", "-", "--session", "a"]), "0\n\"of a\"\n");
    assert_eq!(run(&["script", "run", "-", "--session", "b"]), "0\nnull\n");
    let library = json!({ "name": "mine", "code": "exports.a = 1" }).to_string();
    assert_eq!(host.koze(&["call", "--tools", "script", "--agent", "a", "create_library", &library]).code, 0);
    assert!(host.koze(&["script", "libs", "--agent", "a"]).stdout.contains("mine"));
    assert!(host.koze(&["script", "libs"]).stdout.starts_with("no libraries"));
    assert!(host.koze(&["script", "tools", "--agent", "a"]).stdout.starts_with("no tools"));

    assert_snapshot!(printed(&host.koze(&["script", "libs", "--agent", ""])), @"
    2
    error: --agent: a session ID must have 1 to 256 bytes and no control characters
    ");
    // Other tools have no agent.
    let host = sandboxes();
    assert_snapshot!(printed(&host.koze(&["call", "shell", "{}", "--agent", "a"])), @"
    2
    error: --agent selects an agent of the tools `script`: add `--tools script`, or use --session
    ");
}

/// What scripts may reach. No server is reached: the name does not exist, and the addresses are refused.
#[test]
fn hosts_are_those_of_the_table() {
    let host = scripts();
    let fetch = |url: &str| printed(&call(&host, "fetch_url", &json!({ "url": url })));
    assert_snapshot!(fetch("http://a.invalid/"), @"
    1
    permission_denied: scripts of this project may not reach the internet. To allow it, ask the user to set `internet = true`, or hosts in `allowed_hosts`, in `[package.metadata.koze.script]` of `Cargo.toml`
    ");
    let manifest = host.read("Cargo.toml");
    host.write(
        "Cargo.toml",
        format!("{manifest}allowed_hosts = [\"*.invalid\"]\ndenied_hosts = [\"b.invalid\"]\n"),
    );
    assert_snapshot!(fetch("http://a.invalid:81/"), @"
    1
    permission_denied: scripts may not reach port 81 of a.invalid: an entry of `allowed_hosts` in `[package.metadata.koze.script]` without a port allows ports 80 and 443; to allow this one, add `a.invalid:81`
    ");
    assert_snapshot!(fetch("http://b.invalid/"), @"
    1
    permission_denied: scripts may not reach b.invalid: `denied_hosts` in `[package.metadata.koze.script]` lists it
    ");
    assert_snapshot!(fetch("http://a.example/"), @"
    1
    permission_denied: scripts may not reach a.example: `allowed_hosts` in `[package.metadata.koze.script]` does not list it
    ");
    host.write("Cargo.toml", format!("{manifest}internet = true\n"));
    assert_snapshot!(fetch("http://127.0.0.1/"), @"
    1
    permission_denied: 127.0.0.1 is not on the internet: scripts cannot reach private or local networks, and no entry of `allowed_hosts` changes that
    ");
    host.write("fetch.js", "await fetch('http://[::1]:81/?key=secret')\n");
    assert_snapshot!(printed(&host.koze(&["script", "run", "fetch.js"])), @"
    1
    error: Error: ::1 is not on the internet: scripts cannot reach private or local networks, and no entry of `allowed_hosts` changes that (fetch.js:1:6)
    ");
    // An empty list allows no host, as in the attribute of a sandbox.
    host.write("Cargo.toml", format!("{manifest}internet = true\nallowed_hosts = []\n"));
    assert!(fetch("http://127.0.0.1/").contains("`[package.metadata.koze.script]`"));
    let journal = host.koze(&["sandboxes", "--egress"]).stdout;
    let rows =
        journal.lines().skip(1).map(|line| line.split_whitespace().skip(1).collect::<Vec<_>>().join(" "));
    assert_snapshot!(rows.collect::<Vec<_>>().join("\n"), @"
    default (scripts) a.invalid:81 - refused not in allowed_hosts
    default (scripts) b.invalid:80 - refused denied_hosts: b.invalid
    default (scripts) a.example:80 - refused not in allowed_hosts
    default (scripts) 127.0.0.1:80 - refused not on the internet
    default (scripts) ::1:81 - refused not on the internet
    ");
}

/// The browser of the supervisor, which all programs share. No server is reached: the addresses are refused.
#[test]
fn the_browser_is_an_option() {
    let host = scripts();
    let manifest = host.read("Cargo.toml");
    host.write("Cargo.toml", format!("{manifest}internet = true\n"));
    let open = || printed(&call(&host, "browser_navigate", &json!({ "url": "http://127.0.0.1/" })));
    assert_snapshot!(open(), @"
    1
    unsupported: this project has no browser for scripts: ask the user to set `browser = true`, and the hosts of the pages in `allowed_hosts`, in `[package.metadata.koze.script]` of `Cargo.toml`. A Worker also needs `cargo add koze --features browser` and `koze build`
    ");
    assert!(!host.koze(&["tools"]).stdout.contains("browser_"));
    host.write("Cargo.toml", format!("{manifest}internet = true\nbrowser = true\n"));
    assert!(host.koze(&["tools"]).stdout.contains("\"name\": \"browser_navigate\""));
    if let Err(missing) = koze_local::check_browser() {
        assert!(std::env::var_os("CI").is_none(), "the browser cannot be tested: {missing}");
        eprintln!("the browser is not started: {missing}");
        return;
    }
    assert_snapshot!(open(), @"
    1
    permission_denied: 127.0.0.1 is not on the internet: scripts cannot reach private or local networks, and no entry of `allowed_hosts` changes that. To open a server in a sandbox of this session, use the URL that `browse` returns
    ");
    host.write("browse.js", "await browser.navigate('http://[::1]:81/')\n");
    assert_snapshot!(printed(&host.koze(&["script", "run", "browse.js"])), @"
    1
    error: Error: ::1 is not on the internet: scripts cannot reach private or local networks, and no entry of `allowed_hosts` changes that. To open a server in a sandbox of this session, use the URL that `browse` returns (browse.js:1:14)
    ");
    let journal = host.koze(&["sandboxes", "--egress"]).stdout;
    let rows =
        journal.lines().skip(1).map(|line| line.split_whitespace().skip(1).collect::<Vec<_>>().join(" "));
    assert_snapshot!(rows.collect::<Vec<_>>().join("\n"), @"
    default (browser) 127.0.0.1:80 - refused not on the internet
    default (browser) ::1:81 - refused not on the internet
    ");
    assert!(!host.koze(&["sandboxes"]).stdout.contains("browser"), "it is no sandbox of the session");
}

#[test]
fn the_table_is_checked() {
    for (table, part) in [
        ("\n[package.metadata.koze]\nscript = true\n", "`package.metadata.koze.script` must be a table"),
        (
            "\n[package.metadata.koze.script]\nlibraries = true\n",
            "`package.metadata.koze.script` has no key `libraries`: it has `internet`, `allowed_hosts`, `denied_hosts`, `credentials`, `browser` and `worker`",
        ),
        (
            "\n[package.metadata.koze.script]\nbrowser = \"chromium\"\n",
            "script.browser` must be `true` or `false`",
        ),
        (
            "\n[package.metadata.koze.script]\nallowed_host = []\n",
            "has no key `allowed_host`; did you mean `allowed_hosts`?",
        ),
        (
            "\n[package.metadata.koze.script]\ninternet = \"yes\"\n",
            "script.internet` must be `true` or `false`",
        ),
        (
            "\n[package.metadata.koze.script]\nallowed_hosts = \"a.example\"\n",
            "script.allowed_hosts` must be a list of host names",
        ),
        (
            "\n[package.metadata.koze.script]\ndenied_hosts = [\"a.example\", \"https://b.example\"]\n",
            "\"https://b.example\" is not valid in `package.metadata.koze.script.denied_hosts`: write host names in lower case",
        ),
        ("\n[package.metadata.koze.script]\nallowed_hosts = [1]\n", "1 is not valid in"),
        ("\n[package.metadata.koze.script]\nworker = 0\n", "script.worker` must be `true` or `false`"),
        ("\n[package.metadata.koze.script]\ncredentials = []\n", "script.credentials` must be a table"),
        (
            "\n[package.metadata.koze.script.credentials]\nAPI_KEY = \"a.example\"\n",
            "script.credentials.API_KEY` must be a table: `{ host = \"api.example.com\" }`",
        ),
        ("\n[package.metadata.koze.script.credentials]\nAPI_KEY = {}\n", "API_KEY` has no `host`: write"),
        (
            "\n[package.metadata.koze.script.credentials]\nAPI_KEY = { host = \"https://a\" }\n",
            "API_KEY` has no valid `host`: write host names in lower case",
        ),
        (
            "\n[package.metadata.koze.script.credentials]\nA = { host = \"a.example\", head = \"b\" }\n",
            "credentials.A` has no key `head`; did you mean `header`?",
        ),
        (
            "\n[package.metadata.koze.script.credentials]\nA = { host = \"a.example\", basic = \"b\", query = \"c\" }\n",
            "goes in one place of a request: keep one of",
        ),
        (
            "\n[package.metadata.koze.script.credentials]\nA = { host = \"a.example\", header = \"Host\" }\n",
            "credentials.A`: `Host` is not a valid header of a credential",
        ),
        (
            "\n[package.metadata.koze.script.credentials]\nA = { host = \"a.example\", sigv4 = { region = \"b\" } }\n",
            "has no valid `sigv4`: it must be `{ region = \"eu-central-1\", service = \"s3\" }`",
        ),
    ] {
        let project = package();
        project.write("Cargo.toml", format!("{}{table}", project.read("Cargo.toml")));
        let stderr = refused_with(&project, &["build"]);
        assert!(stderr.contains(part), "{stderr}");
    }
}

/// A client that speaks the protocol by hand.
struct Client {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    next: u64,
}

impl Client {
    fn send(&mut self, message: &Value) {
        writeln!(self.input, "{message}").expect("the server reads");
    }

    /// Sends a request. Returns its result, and the methods of the notifications before it.
    fn ask(&mut self, method: &str, params: &Value) -> (Value, Vec<String>) {
        self.next += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params }));
        let mut notified = Vec::new();
        loop {
            let mut line = String::new();
            assert_ne!(self.output.read_line(&mut line).expect("the server writes"), 0, "the server ended");
            let message: Value = serde_json::from_str(&line).expect("JSON");
            match message["method"].as_str() {
                Some(method) => notified.push(method.to_owned()),
                None if message["id"] == self.next => return (message["result"].clone(), notified),
                None => panic!("{message}"),
            }
        }
    }
}

#[test]
fn created_tools_are_announced_to_clients() {
    let host = scripts();
    let mut command = host.command(&["mcp", "--tools", "script"]);
    let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("koze");
    let input = server.stdin.take().expect("a pipe");
    let output = BufReader::new(server.stdout.take().expect("a pipe"));
    let mut client = Client { input, output, next: 0 };
    let hello = json!({
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" },
    });
    let (told, _) = client.ask("initialize", &hello);
    assert_eq!(told["capabilities"]["tools"]["listChanged"], true, "{told}");
    client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    let has = |listed: &Value| {
        let tools = listed["tools"].as_array().expect("a list");
        tools.iter().find(|tool| tool["name"] == "double").cloned()
    };
    let (listed, _) = client.ask("tools/list", &json!({}));
    assert!(
        has(&listed).is_none() && listed["tools"].as_array().is_some_and(|tools| tools.len() == 20),
        "{listed}"
    );
    let input = json!({ "name": "fetch_url", "arguments": { "url": "http://a.invalid/" } });
    let (refused, _) = client.ask("tools/call", &input);
    assert_eq!(refused["isError"], true, "{refused}");
    assert!(
        refused["content"][0]["text"].as_str().is_some_and(|text| text.contains("`allowed_hosts`")),
        "{refused}"
    );
    let schema = json!({ "type": "object", "properties": { "n": { "type": "number" } }, "required": ["n"] });
    let tool = json!({ "name": "double", "description": "Double a number.", "parameter_schema": schema, "code": "return args.n * 2" });
    let (created, notified) = client.ask("tools/call", &json!({ "name": "create_tool", "arguments": tool }));
    assert_eq!(created["structuredContent"], json!({ "name": "double", "version": 1 }), "{created}");
    assert_eq!(notified, ["notifications/tools/list_changed"]);
    let (listed, _) = client.ask("tools/list", &json!({}));
    let found = has(&listed).expect("the new tool");
    assert_eq!((&found["description"], &found["inputSchema"]), (&json!("Double a number."), &schema));
    let (called, notified) = client.ask("tools/call", &json!({ "name": "double", "arguments": { "n": 21 } }));
    assert_eq!((&called["structuredContent"]["result"], notified.len()), (&json!(42), 0), "{called}");
    let (_, notified) =
        client.ask("tools/call", &json!({ "name": "disable_tool", "arguments": { "name": "double" } }));
    assert_eq!(notified, ["notifications/tools/list_changed"]);
    assert!(has(&client.ask("tools/list", &json!({})).0).is_none());

    // Values of secrets are masked here, too. A tool whose name contains one is not listed.
    let tool = |name: &str| json!({ "name": name, "description": "Uses long_secret_1.", "parameter_schema": { "type": "object" }, "code": "1" });
    for name in ["plain", "a_long_secret_1"] {
        client.ask("tools/call", &json!({ "name": "create_tool", "arguments": tool(name) }));
    }
    assert_eq!(host.piped("long_secret_1", &["secret", "set", "KEY"]).code, 0);
    let (listed, _) = client.ask("tools/list", &json!({}));
    let listed = listed["tools"].as_array().expect("a list");
    let created = listed.iter().filter(|tool| tool["description"].to_string().contains("Uses "));
    let created: Vec<_> = created.map(|tool| (&tool["name"], &tool["description"])).collect();
    assert_eq!(created, [(&json!("plain"), &json!("Uses [secret KEY]."))]);
    let (refused, _) =
        client.ask("tools/call", &json!({ "name": "create_tool", "arguments": tool("b_long_secret_1") }));
    let text = "invalid_input: the name contains the value of the secret `KEY`: choose another name";
    assert_eq!((&refused["isError"], &refused["content"][0]["text"]), (&json!(true), &json!(text)));
    // A call that fails changes nothing.
    let (refused, notified) =
        client.ask("tools/call", &json!({ "name": "delete_tool", "arguments": { "name": "none" } }));
    assert_eq!((&refused["isError"], notified.len()), (&json!(true), 0), "{refused}");
    drop(client);
    server.wait().expect("it ends with its client");
}

#[test]
fn secrets_reach_scripts_and_nothing_else() {
    const VALUE: &str = "sk-0123/456 789";
    let host = scripts();
    assert_snapshot!(printed(&host.koze(&["secret", "list"])), @"
    0
    no secrets: `koze secret set NAME` sets one
    ");
    assert_snapshot!(printed(&host.piped(&format!("{VALUE}\\n"), &["secret", "set", "KEY"])), @"
    0
    set KEY: scripts read it as secrets.KEY, unless it is declared as a credential
    ");
    assert_snapshot!(printed(&host.piped("short", &["secret", "set", "PIN"])), @"
    0
    set PIN: scripts read it as secrets.PIN, unless it is declared as a credential
    warning: the value has fewer than 8 characters, so it is not masked in results
    ");
    // The value cannot be an argument, where other users would see it.
    assert_eq!(host.koze(&["secret", "set", "KEY", VALUE]).code, 2);
    let listed: Value =
        serde_json::from_str(&host.koze(&["secret", "list", "--format", "json"]).stdout).expect("JSON");
    let names: Vec<&Value> =
        listed["secrets"].as_array().expect("a list").iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["KEY", "PIN"]);

    let run = |code: &str| {
        let run = call(&host, "run_sandbox_code", &json!({ "code": code }));
        assert!(!format!("{}{}", run.stdout, run.stderr).contains("0123"), "{code}: {run:?}");
        serde_json::from_str::<Value>(&run.stdout).expect("JSON")
    };
    // The control: the script has the value itself.
    let whole =
        run("return [secrets.KEY.length, secrets.KEY.slice(-3), secrets.PIN, Object.isFrozen(secrets)]");
    assert_eq!(whole["result"], json!([VALUE.len(), "789", "short", true]));
    let code = "console.log('key', { key: secrets.KEY }); await state.set('key', secrets.KEY); \
                await db.sql('CREATE TABLE t AS SELECT ? AS a', [secrets.KEY]); \
                return [secrets.KEY, { [secrets.KEY]: encodeURIComponent(secrets.KEY) }, btoa(secrets.KEY)]";
    assert_eq!(
        run(code),
        json!({
            "result": ["[secret KEY]", { "[secret KEY]": "[secret KEY]" }, "[secret KEY]"],
            "logs": ["key {\"key\":\"[secret KEY]\"}"],
        })
    );
    assert_eq!(run("throw new Error(`no ${secrets.KEY}`)")["error"], "Error: no [secret KEY]");
    // What a script has stored is masked by the tools that read it, too.
    let stored = call(&host, "get_state", &json!({ "key": "key" }));
    assert_eq!(stored.stdout, "{\"exists\":true,\"value\":\"[secret KEY]\"}\n");
    let stored = call(&host, "db_sql", &json!({ "sql": "SELECT a FROM t" }));
    assert!(stored.stdout.contains("\"[secret KEY]\""), "{stored:?}");

    // No process has it in its arguments or its environment.
    for id in host.supervisors() {
        for file in ["cmdline", "environ"] {
            let text = fs_err::read(format!("/proc/{id}/{file}")).unwrap_or_default();
            assert!(!String::from_utf8_lossy(&text).contains("0123"), "{file}");
        }
    }
    let state = host.state().expect("a state directory");
    let mode = fs_err::metadata(host.path(format!("{state}/secrets.json"))).expect("the file").permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o600);

    assert_eq!(host.koze(&["secret", "rm", "KEY"]).code, 0);
    assert_snapshot!(printed(&host.koze(&["secret", "rm", "KEY"])), @"
    1
    error[not_found]: there is no secret `KEY`: `koze secret list` lists them
    ");
    assert_eq!(run("return secrets.KEY === undefined")["result"], true);
}
