//! The Worker that `koze new` creates, with its Rust: from a client's request to a program in a sandbox on this
//! machine.

use koze_tests::root;
use serde_json::{Value, json};

use super::run::Dev;
use crate::built::wasm;
use crate::project;
use crate::runs::link;

/// Calls a tool of the session `s`, and returns the status, whether it failed, and the result.
fn call(dev: &Dev, token: &str, tool: &str, input: &Value) -> Value {
    let script = "const headers = { authorization: `Bearer ${data.token}` };
        const body = JSON.stringify(data.input);
        // Use a host name, because previews are its subdomains.
        const named = url.replace('127.0.0.1', 'localhost');
        const response = await fetch(`${named}/sessions/s/tools/${data.tool}`, { method: 'POST', headers, body });
        const answer = await response.json();
        if (response.status !== 200) return [response.status];
        let content = answer.content;
        try { content = JSON.parse(content); } catch {}
        return [response.status, answer.isError, content];";
    dev.ask(script, &json!({ "token": token, "tool": tool, "input": input }))
}

#[test]
fn the_rust_worker_works_in_sandboxes_of_this_machine() {
    let worker = project::made_native("whole");
    link(&wasm(&worker).expect("the Rust Worker"), &worker.build_dir());
    let dev = Dev::start(&worker);
    let output = dev.output();
    let token = output.split("Authorization: Bearer ").nth(1).and_then(|rest| rest.split_whitespace().next());
    let token = token.expect("a token");

    assert_eq!(call(&dev, "a wrong token of 16", "shell", &json!({ "command": "true" })), json!([401]));
    let shell = |command: &str| {
        let answer = call(&dev, token, "shell", &json!({ "command": command }));
        assert_eq!((&answer[0], &answer[1]), (&json!(200), &json!(false)), "{answer}");
        answer[2].clone()
    };
    assert_eq!(shell("echo $((6 * 7)) > answer; cat answer")["stdout"], "42\n");
    let read = call(&dev, token, "read_file", &json!({ "path": "answer" }));
    assert_eq!((&read[0], &read[1]), (&json!(200), &json!(false)), "{read}");
    let missing = call(&dev, token, "read_file", &json!({ "path": "nothing" }));
    assert_eq!(missing[1], true, "{missing}");

    let program = fs_err::read_to_string(root().join("tests/tests/worker/echo.pl")).expect("the server");
    let written = call(&dev, token, "write_file", &json!({ "path": "echo.pl", "content": program }));
    assert_eq!(written[1], false, "{written}");
    let serve = "perl echo.pl 8080 > log 2>&1 & for n in $(seq 100); do \
                 (exec 3<> /dev/tcp/127.0.0.1/8080) 2> /dev/null && exit 0; sleep 0.1; done; exit 1";
    assert_eq!(shell(serve)["exit_code"], 0);
    let browse = call(&dev, token, "browse", &json!({ "port": 8080 }));
    assert_eq!(browse[1], false, "{browse}");
    // Connect to the Worker's port directly, because not every system resolves names below `localhost`.
    let script = "const { request } = await import('node:http');
        const { port } = new URL(url);
        return await new Promise((done, failed) => {
          const headers = { host: data.host, 'koze-port': '3000', 'koze-nonce': 'aaaaaaaaaa' };
          const sent = request({ host: '127.0.0.1', port, path: '/a?b', headers }, async (response) => {
            let text = '';
            for await (const piece of response) text += piece;
            done([response.statusCode, text]);
          });
          sent.on('error', failed).end();
        });";
    let preview = browse[2]["url"].as_str().expect("a URL");
    let host = preview.trim_start_matches("http://").trim_end_matches('/');
    assert!(host.starts_with("8080-"), "{host}");
    let answer = dev.ask(script, &json!({ "host": host }));
    let text = answer[1].as_str().expect("a text").to_lowercase();
    assert_eq!(answer[0], 200, "{answer}");
    assert!(
        text.starts_with("get /a?b http/1.1\r\n") && text.contains(&format!("host: {host}\r\n")),
        "{text}"
    );
    let guessed = host.replacen("8080", "8081", 1);
    assert_ne!(dev.ask(script, &json!({ "host": guessed }))[0], 200);

    // A new sandbox with the same name and port has another URL, and the old one does not reach it.
    let destroy = "const headers = { authorization: `Bearer ${data}` };
        const response = await fetch(`${url}/sessions/s/sandboxes/default`, { method: 'DELETE', headers });
        return response.status;";
    assert_eq!(dev.ask(destroy, &json!(token)), 200);
    let written = call(&dev, token, "write_file", &json!({ "path": "echo.pl", "content": program }));
    assert_eq!((&written[1], &shell(serve)["exit_code"]), (&json!(false), &json!(0)), "{written}");
    let browse = call(&dev, token, "browse", &json!({ "port": 8080 }));
    let next = browse[2]["url"].as_str().expect("a URL").trim_start_matches("http://").trim_end_matches('/');
    assert_ne!(next, host);
    assert_eq!(dev.ask(script, &json!({ "host": next }))[0], 200);
    assert_eq!(dev.ask(script, &json!({ "host": host }))[0], 404);
}
