//! The tools over HTTP, and objects that misbehave.

use serde_json::{Value, json};

use super::host::{Host, TOKEN};

#[test]
fn definitions_in_each_dialect() {
    let host = Host::start();
    let names = |path: &str, name: &str, schema: &str| {
        let answer = host.ask("GET", path, b"");
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
        let tools = answer.json();
        for tool in tools.as_array().expect("a list") {
            assert!(tool.pointer(schema).is_some_and(Value::is_object), "{tool}");
        }
        let name = |tool: &Value| tool.pointer(name).and_then(Value::as_str).expect("a name").to_owned();
        tools.as_array().expect("a list").iter().map(name).collect::<Vec<_>>().join(" ")
    };
    let all = "shell process_list process_output process_input process_kill read_file write_file glob browse sandbox_create \
               sandbox_list transfer";
    assert_eq!(names("/tools", "/name", "/inputSchema"), all);
    assert_eq!(names("/tools?dialect=mcp", "/name", "/inputSchema"), all);
    assert_eq!(names("/tools?dialect=anthropic", "/name", "/input_schema"), all);
    assert_eq!(names("/tools?dialect=openai", "/function/name", "/function/parameters"), all);
    assert_eq!(names("/tools?dialect=openai-responses", "/name", "/parameters"), all);
    assert_eq!(names("/tools?tools=agent", "/name", "/inputSchema"), all);
    let both = host.ask("GET", "/tools?instructions", b"").json();
    let text = both["instructions"].as_str().expect("a text");
    assert!(
        text.contains("Programs: those of the image `") && text.contains("its files are deleted"),
        "{text}"
    );
    assert_eq!(both["tools"].as_array().map(Vec::len), Some(12));
    let thread = "bash ls read_file write_file str_replace glob grep";
    assert_eq!(names("/tools?tools=thread", "/name", "/inputSchema"), thread);
    for (method, path) in [("GET", "/tools"), ("POST", "/mcp"), ("POST", "/sessions/s/tools/shell")] {
        let (status, code, message) = host.ask(method, &format!("{path}?tools=workspace"), b"{}").refusal();
        let absent = "this project does not serve the tools `workspace`: it serves agent, thread. Add `workspace` to the `tools` of a \
                      `#[sandbox]`, and run `koze build`";
        assert_eq!((status, &*code, &*message), (400, "invalid_input", absent), "{path}");
    }
    let (status, code, message) = host.ask("GET", "/tools?dialect=latin", b"").refusal();
    assert_eq!((status, code.as_str()), (400, "invalid_input"));
    assert!(message.contains("mcp, anthropic, openai or openai-responses"), "{message}");
}

#[test]
fn tools_over_http() {
    let host = Host::start();
    let shell = |command: &str| host.call("s", "shell", &json!({ "command": command }));
    assert_eq!(shell("echo hello"), (false, json!({ "stdout": "hello\n", "stderr": "", "exit_code": 0 })));
    assert_eq!(shell("exit 3"), (true, json!({ "stdout": "", "stderr": "", "exit_code": 3 })));
    let binary = json!({ "stdout": "/wA=", "stdout_encoding": "base64", "stderr": "e", "exit_code": 0 });
    let (failed, value) = shell("binary");
    assert!(!failed && value == binary, "{value}");

    let input: Value = serde_json::from_str(&host.shell("s", "input")).expect("the input of a call");
    let expected = json!({
        "argv": ["/bin/bash", "--noprofile", "--norc", "-c", "--", "input", "bash"],
        "workingDir": "/home/user", "env": [], "timeoutMs": 30000, "maxOutput": 1 << 20, "call": null,
    });
    assert_eq!(input, expected);

    let content = "ü\u{0}\n".repeat(1000);
    let written = host.call("s", "write_file", &json!({ "path": "a b", "content": content }));
    assert_eq!(written, (false, json!({ "ok": true, "size": 4000 })));
    let read = host.call("s", "read_file", &json!({ "path": "a b", "offset": 3992 }));
    assert_eq!(read, (false, json!({ "content": "ü\u{0}\nü\u{0}\n", "size": 4000 })));
    let (failed, error) = host.call("s", "read_file", &json!({ "path": "none" }));
    assert_eq!((failed, error), (true, json!("not_found: /home/user/none does not exist")));

    for (tool, input, code) in [
        ("bash", json!({}), "unknown_tool: "),
        ("toString", json!({}), "unknown_tool: "),
        ("shell", json!([]), "invalid_input: "),
        ("shell", json!({ "command": 1 }), "invalid_input: "),
        (
            "sandbox_list",
            json!({}),
            "unsupported: this Worker does not record its sandboxes: set `registry = true`",
        ),
    ] {
        let (failed, error) = host.call("s", tool, &input);
        assert!(failed && error.as_str().is_some_and(|error| error.starts_with(code)), "{tool}: {error}");
    }
}

#[test]
fn a_duplicate_key_is_refused() {
    let host = Host::start();
    let send = |body: &str| host.ask("POST", "/sessions/s/tools/shell", body.as_bytes());
    let answer = send(r#"{"command":"echo 1","command":"echo 2"}"#);
    assert_eq!(answer.status, 200, "{answer:?}");
    let (failed, text) = (answer.json()["isError"].clone(), answer.json()["content"].clone());
    assert_eq!(failed, true);
    assert!(
        text.as_str().is_some_and(|text| text.starts_with("invalid_input: duplicate key `command` ")),
        "{text}"
    );
    // Invalid JSON is never a valid input.
    assert_eq!(send(r#"{"command":"echo 1","sandbox""#).status, 400);
}

#[test]
fn sessions_and_sandboxes_have_separate_objects() {
    let host = Host::start();
    host.call("a", "write_file", &json!({ "path": "f", "content": "of a" }));
    for (session, sandbox) in [("b", "default"), ("a", "other"), ("a%2Fb", "default"), ("a%20", "default")] {
        let (failed, error) = host.call(session, "read_file", &json!({ "path": "f", "sandbox": sandbox }));
        assert!(failed && error.as_str().is_some_and(|error| error.starts_with("not_found")), "{error}");
    }
    assert_eq!(host.call("%61", "read_file", &json!({ "path": "f" })).1["content"], "of a");
}

#[test]
fn each_image_has_its_class() {
    let host = Host::start();
    let class = |session: &str, sandbox: &str| {
        host.call(session, "shell", &json!({ "sandbox": sandbox, "command": "class" })).1["stdout"].clone()
    };
    let create = |sandbox: &str, image: &str| {
        host.call("s", "sandbox_create", &json!({ "sandbox": sandbox, "image": image }))
    };
    assert_eq!(create("py", "python"), (false, json!({ "sandbox": "py", "created": true })));
    assert_eq!(create("py", "python"), (false, json!({ "sandbox": "py", "created": false })));
    assert_eq!(class("s", "py"), "PythonSandbox");
    assert_eq!(class("s", "default"), "ShellSandbox");
    let (failed, error) = create("py", "shell");
    assert!(failed && error.as_str().is_some_and(|error| error.starts_with("already_exists: ")), "{error}");
    let (failed, error) = create("x", "perl");
    assert!(failed && error.as_str().is_some_and(|error| error.starts_with("invalid_input: ")), "{error}");
    let slow = json!({ "sandbox": "slow", "sleep_after_ms": 5000 });
    assert!(!host.call("s", "sandbox_create", &slow).0);
    let opened =
        host.call("s", "shell", &json!({ "sandbox": "slow", "command": "opened" })).1["stdout"].clone();
    assert_eq!(opened, "{\"sleepAfterMs\":5000}");
}

/// A call to a known sandbox makes one call to its object, and no other.
#[test]
fn a_warm_call_is_one_call() {
    let host = Host::start();
    let calls = || host.shell("s", "calls").parse::<u32>().expect("a number");
    let first = calls();
    assert_eq!([calls(), calls()], [first + 1, first + 2]);
}

#[test]
fn a_sandbox_destroyed_from_outside_is_opened_again() {
    let host = Host::start();
    host.call("s", "sandbox_create", &json!({ "sandbox": "py", "image": "python" }));
    let shell = |command: &str| host.call("s", "shell", &json!({ "sandbox": "py", "command": command }));
    shell("forget");
    assert_eq!(shell("class"), (false, json!({ "stdout": "PythonSandbox", "stderr": "", "exit_code": 0 })));
}

#[test]
fn a_sandbox_is_destroyed() {
    for registry in [false, true] {
        let persist = tempfile::tempdir().expect("a directory");
        let host = if registry { Host::with_registry(&persist) } else { Host::start() };
        for sandbox in ["a", "b"] {
            let write = json!({ "sandbox": sandbox, "path": "f", "content": "text" });
            assert!(!host.call("s", "write_file", &write).0);
        }
        let destroy = |session: &str, sandbox: &str| {
            host.ask("DELETE", &format!("/sessions/{session}/sandboxes/{sandbox}"), b"")
        };
        assert_eq!(destroy("other", "a").refusal().0, 404, "a session has its own");
        let answer = destroy("s", "a");
        assert_eq!((answer.status, answer.json()), (200, json!({ "ok": true })));
        let read = |sandbox: &str| host.call("s", "read_file", &json!({ "sandbox": sandbox, "path": "f" }));
        assert!(!read("b").0);
        let (code, refused) = (404, "there is no sandbox `a` in this session".to_owned());
        assert_eq!(destroy("s", "a").refusal(), (code, "not_found".to_owned(), refused));
        assert!(read("a").0, "it was created again, without files");
        assert_eq!(destroy("s", "A").refusal().0, 400);
        assert_eq!(host.send("DELETE", "/sessions/s/sandboxes/b", &[], b"").status, 401);
        assert!(!read("b").0, "a request without a token destroys nothing");
    }
}

#[test]
fn retryable_errors_are_retried() {
    let host = Host::start();
    assert_eq!(host.shell("s", "busy 3"), "at last");
    let calls = || host.shell("s", "calls").parse::<u32>().expect("a number");
    let before = calls();
    let (failed, error) = host.call("s", "shell", &json!({ "command": "refuse" }));
    assert_eq!((failed, error), (true, json!("unavailable: no container is free")));
    assert_eq!(calls(), before + 2, "a failure that is not retryable is final");
}

#[test]
fn exceptions_are_not_revealed() {
    let host = Host::start();
    let (failed, error) = host.call("s", "shell", &json!({ "command": "throw a secret" }));
    assert!(failed, "{error}");
    assert_eq!(error, "internal: the sandbox's class failed: see the Worker's log");
    let (failed, error) = host.call("s", "shell", &json!({ "command": "nothing" }));
    let error = error.as_str().expect("a text");
    assert!(
        failed && error.starts_with("internal: `exec` of the sandbox's class returned an unexpected answer"),
        "{error}"
    );
    // The Worker still works.
    assert_eq!(host.shell("s", "echo on"), "on\n");
}

#[test]
fn large_files_are_transferred_in_pieces() {
    let host = Host::start();
    let part = "0123456789abcdef".repeat((9 << 20) / 16);
    let write = |append: bool| {
        host.call("s", "write_file", &json!({ "path": "large", "content": part, "append": append }))
    };
    assert_eq!(write(false), (false, json!({ "ok": true, "size": 9 << 20 })));
    assert_eq!(write(true), (false, json!({ "ok": true, "size": 18 << 20 })));
    let (failed, read) =
        host.call("s", "read_file", &json!({ "path": "large", "offset": 16, "limit": 12 << 20 }));
    assert!(!failed && read["size"] == 18 << 20 && read["next_offset"] == (12 << 20) + 16);
    let content = read["content"].as_str().expect("a text");
    assert!(
        content.len() == 12 << 20 && content.as_bytes().chunks(16).all(|line| line == b"0123456789abcdef")
    );
    // No temporary file is left.
    assert_eq!(host.call("s", "read_file", &json!({ "path": "large", "limit": 1 })).1["content"], "0");
}

#[test]
fn invalid_requests() {
    let host = Host::start();
    let refused = |method: &str, path: &str, body: &[u8]| {
        let answer = host.ask(method, path, body);
        assert_eq!(answer.header("content-type"), Some("application/json"), "{answer:?}");
        let (status, code, _) = answer.refusal();
        let allow = answer.header("allow").map(str::to_owned);
        (status, code, allow)
    };
    let is = |status, code: &str, allow: Option<&str>| (status, code.to_owned(), allow.map(str::to_owned));
    assert_eq!(refused("GET", "/nothing", b""), is(404, "not_found", None));
    assert_eq!(refused("POST", "/tools", b""), is(405, "method_not_allowed", Some("GET")));
    assert_eq!(refused("GET", "/sessions/s/tools/shell", b""), is(405, "method_not_allowed", Some("POST")));
    assert_eq!(refused("POST", "/", b""), is(405, "method_not_allowed", Some("GET")));
    for session in ["", "%00", "a%0Ab", &"a".repeat(257)] {
        let path = format!("/sessions/{session}/tools/shell");
        assert_eq!(refused("POST", &path, b"{}"), is(400, "invalid_input", None), "{session}");
    }
    assert_eq!(refused("POST", "/sessions/%FF/tools/shell", b"{}"), is(400, "invalid_input", None));
    for body in [&b""[..], b"{", b"\xff", b"{} {}"] {
        assert_eq!(refused("POST", "/sessions/s/tools/shell", body), is(400, "invalid_input", None));
    }
}

#[test]
fn the_size_of_a_body_is_limited() {
    const MAX_BODY: usize = 32 << 20;
    let host = Host::start();
    let body = |length: usize| {
        let content = "a".repeat(length - "{'path':'f','content':''}".len());
        format!("{{\"path\":\"f\",\"content\":\"{content}\"}}")
    };
    let path = "/sessions/s/tools/write_file";
    let answer = host.ask("POST", path, body(MAX_BODY).as_bytes());
    assert!(answer.status == 200 && answer.json()["isError"] == false, "{answer:?}");
    // With a content length, the body need not be sent.
    let header = format!("content-length: {}\r\n\r\n", MAX_BODY + 1);
    let refused = host.raw("POST", path, header.as_bytes());
    assert!(refused.starts_with("HTTP/1.1 413 ") && refused.contains("too_large"), "{refused}");
    let body = body(MAX_BODY + 1);
    let chunked = format!("transfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let refused = host.raw("POST", path, chunked.as_bytes());
    assert!(refused.starts_with("HTTP/1.1 413 ") && refused.contains("too_large"), "{refused}");
}

#[test]
fn calls_need_a_token() {
    let (a, b) = ("the token of the tenant a", "the token of the tenant b");
    let tokens = json!({ "a": a, "b": b }).to_string();
    let host = Host::with(&json!({ "bindings": { "KOZE_TOKENS": tokens } }));
    let call = |header: Option<&str>, tool: &str, input: Value| {
        let headers: Vec<(&str, &str)> = header.map(|header| ("authorization", header)).into_iter().collect();
        host.send("POST", &format!("/sessions/s/tools/{tool}"), &headers, input.to_string().as_bytes())
    };
    let bearer = |token: &str| format!("bearer {token}");
    let written = call(Some(&bearer(a)), "write_file", json!({ "path": "f", "content": "of a" }));
    assert_eq!(written.status, 200, "{written:?}");
    let seen = |token: &str| call(Some(&bearer(token)), "read_file", json!({ "path": "f" })).json();
    assert_eq!(
        (&seen(a)["isError"], &seen(b)["isError"]),
        (&json!(false), &json!(true)),
        "b has a session s of its own"
    );
    for header in
        [None, Some(""), Some("Bearer"), Some("Bearer x"), Some("Basic YTpi"), Some(a), Some(&bearer(TOKEN))]
    {
        let answer = call(header, "shell", json!({ "command": "echo" }));
        assert_eq!(
            (answer.refusal().0, answer.header("www-authenticate")),
            (401, Some("Bearer")),
            "{header:?}"
        );
        // Without a token, the existing paths are not revealed.
        let headers: Vec<(&str, &str)> = header.map(|header| ("authorization", header)).into_iter().collect();
        assert_eq!(host.send("GET", "/nothing", &headers, b"").status, 401);
    }
    let about = host.send("GET", "/", &[], b"");
    assert!(
        about.status == 200 && about.body.contains("koze") && !about.body.contains("token of the"),
        "{about:?}"
    );
}

#[test]
fn without_a_configured_token_the_worker_serves_nothing() {
    for bindings in [json!({}), json!({ "KOZE_TOKEN": "short" }), json!({ "KOZE_TOKENS": "{}" })] {
        let host = Host::with(&json!({ "bindings": bindings }));
        for (method, path) in [
            ("GET", "/"),
            ("GET", "/tools"),
            ("POST", "/sessions/s/tools/shell"),
            ("POST", "/mcp"),
            ("GET", "/x"),
        ] {
            let (status, code, message) = host.ask(method, path, b"").refusal();
            assert_eq!((status, code.as_str()), (503, "unavailable"), "{path}");
            assert!(message.contains("wrangler secret put KOZE_TOKEN"), "{message}");
        }
    }
}
