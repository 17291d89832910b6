//! The Rust Worker of `docs/quick-start.md`, in a project that `koze new` creates: from a client's request to a program in
//! a sandbox on this machine.

use koze_tests::{page_blocks, root, run};
use serde_json::{Value, json};

use super::run::{Dev, command};
use crate::built::wasm;
use crate::project::{self, TIMEOUT, Worker};
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
    let mut source = page_blocks("quick-start.md");
    source.retain(|block| block.language == "rust");
    assert_eq!(source.len(), 1, "{source:?}");
    worker.project.write("src/lib.rs", &source[0].text);
    link(&wasm(&worker).expect("the Rust Worker"), &worker.build_dir());
    let dev = Dev::start(&worker);
    let output = dev.output();
    let token = output.split("Authorization: Bearer ").nth(1).and_then(|rest| rest.split_whitespace().next());
    let token = token.expect("a token");

    let own =
        "const response = await fetch(`${url}/python`); return [response.status, await response.text()];";
    assert_eq!(dev.ask(own, &json!({})), json!([200, "42\n"]));
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

/// Runs a command with `--url`, and returns its exit code, its output and its errors.
fn koze_at(dev: &Dev, worker: &Worker, token: &str, args: &[&str]) -> (i32, String, String) {
    let (name, rest) = args.split_first().expect("a command");
    let mut command = command(worker, &[&[name, "--url", &dev.url, "--session=s"], rest].concat());
    command.env("KOZE_TOKEN", token);
    let output = run(command, TIMEOUT);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().expect("an exit code"), text(&output.stdout), text(&output.stderr))
}

#[test]
fn the_command_line_works_with_the_sandboxes_of_a_worker() {
    let worker = project::made_native("remote");
    link(&wasm(&worker).expect("the Rust Worker"), &worker.build_dir());
    let dev = Dev::start(&worker);
    let output = dev.output();
    let token = output.split("Authorization: Bearer ").nth(1).and_then(|rest| rest.split_whitespace().next());
    let token = token.expect("a token");
    let koze = |args: &[&str]| koze_at(&dev, &worker, token, args);
    let printed = |args: &[&str]| {
        let (code, stdout, stderr) = koze(args);
        assert_eq!((code, stderr.as_str()), (0, ""), "{args:?}: {stdout}");
        stdout
    };

    assert_eq!(koze(&["exec", "default", "--", "true"]).0, 125, "there is no sandbox");
    assert!(printed(&["call", "shell", r#"{"command": "echo $((6 * 7))"}"#]).contains("42"));
    assert!(printed(&["sandboxes"]).starts_with("SANDBOX"));
    let script = "echo out; echo err >&2; exit 7";
    let ran = koze(&["exec", "default", "--", "sh", "-c", script]);
    assert_eq!(ran, (7, "out\n".to_owned(), "err\n".to_owned()));
    let bytes = printed(&["exec", "default", "--", "sh", "-c", "yes | head -c 3000000"]);
    assert_eq!((bytes.len(), &bytes[..4]), (3_000_000, "y\ny\n"));
    assert_eq!(printed(&["exec", "-t", "default", "--", "stty", "size"]), "24 80\r\n");
    assert_eq!(koze(&["exec", "default", "--", "no-such"]).0, 127);
    assert_eq!(koze(&["exec", "--timeout=0.5", "default", "--", "sleep", "60"]).0, 124);

    let script = "for i in 1 2 3; do echo $i; sleep 0.2; done";
    let id = printed(&["exec", "--detach", "default", "--", "sh", "-c", script]);
    assert_eq!(printed(&["logs", "-f", "default", id.trim_end()]), "1\n2\n3\n");
    let id = printed(&["exec", "--detach", "default", "--", "sleep", "60"]);
    printed(&["kill", "-s", "TERM", "default", id.trim_end()]);
    assert_eq!(printed(&["logs", "-f", "default", id.trim_end()]), "");
    assert!(printed(&["ps", "default"]).contains("exited (143)"));

    fs_err::write(worker.project.path("sent"), "sent\n").expect("a file");
    printed(&["cp", "sent", "default:tree/sent"]);
    printed(&["cp", "default:tree", "received"]);
    assert_eq!(worker.project.read("received/sent"), "sent\n");
    assert!(printed(&["inspect", "default"]).contains(r#""name": "default""#));
    assert!(printed(&["log"]).contains("shell"));
    assert_eq!(printed(&["destroy", "--all"]), "destroyed default\n");
}
