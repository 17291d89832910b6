//! Requests to ports of a sandbox, through its object.

use koze_tests::{eventually, root};
use serde_json::{Value, json};

use super::run::{Dev, worker};

/// Starts a server that echoes its requests.
fn serve(dev: &Dev, object: &str, port: u16) {
    let program = fs_err::read_to_string(root().join("tests/tests/worker/echo.pl")).expect("the server");
    let exec = |script: &str| {
        json!(["exec", {
            "argv": ["bash", "-c", script, "bash", program, port.to_string()], "workingDir": "/workspace", "env": [],
            "timeoutMs": 20_000, "maxOutput": 10_000,
        }])
    };
    let start = exec("perl -e \"$1\" \"$2\" > log 2>&1 &");
    let calls = json!([["open", { "sleepAfterMs": null }], start]);
    assert_eq!(dev.call(object, &calls)[1]["value"]["exitCode"], 0);
    let listens = json!([exec("exec 3<> \"/dev/tcp/127.0.0.1/$2\"")]);
    eventually("the server listens", || dev.call(object, &listens)[0]["value"]["exitCode"] == 0);
}

fn get(dev: &Dev, path: &str) -> Value {
    let script = "const headers = { 'x-mine': '1', 'koze-token': 'a', 'koze-object': 'b', 'koze-operation': 'destroy', \
        'koze-host': 'c', authorization: 'Bearer mine' };
        const response = await fetch(url + data, { method: 'POST', body: 'the body', headers });
        return [response.status, await response.text(), response.headers.get('x-powered-by')];";
    dev.ask(script, &json!(path))
}

#[test]
fn an_exposed_port_answers() {
    let worker = worker();
    let dev = Dev::start(&worker);
    serve(&dev, "a", 8080);
    let closed = json!([404, "koze: this address is not a preview URL\n", null]);
    for path in ["/port/a/8080/", "/port/a/3000/", "/port/a/x/", "/port/a//", "/fetch/a/", "/port/b/8080/"] {
        assert_eq!(get(&dev, path), closed, "{path}");
    }
    let (nonce, other) = (expose(&dev, 8080), expose(&dev, 8081));
    assert_eq!(expose(&dev, 8080), nonce, "another one, for a port that is open");
    for port in [
        "8080".to_owned(),
        "8080.".to_owned(),
        "8080.undefined".to_owned(),
        format!("8080.{other}"),
        format!("8080.{nonce}a"),
        format!("8081.{nonce}"),
        format!("8082.{nonce}"),
        format!("08080%20.{nonce}"),
    ] {
        assert_eq!(get(&dev, &format!("/port/a/{port}/")), closed, "{port}");
    }
    let of_another = format!("/port/b/8080.{nonce}/");
    for path in ["/fetch/a/", &of_another] {
        assert_eq!(get(&dev, path), closed, "{path}");
    }

    let answer = get(&dev, &format!("/port/a/8080.{nonce}/one%2Ftwo//three?q=%20a"));
    assert_eq!((&answer[0], &answer[2]), (&json!(200), &json!("perl")), "{answer}");
    let output = answer[1].as_str().expect("a text").to_lowercase();
    assert!(output.starts_with("post /one%2ftwo//three?q=%20a http/1.1\r\n"), "{output}");
    assert!(output.ends_with("\r\n\r\nthe body"), "{output}");
    let host = dev.url.strip_prefix("http://").expect("a URL");
    for line in [format!("host: {host}"), "x-mine: 1".to_owned(), "authorization: bearer mine".to_owned()] {
        assert!(output.contains(&format!("\r\n{line}\r\n")), "{line}: {output}");
    }
    assert!(!output.contains("\r\nkoze-"), "{output}");

    // Nothing listens there.
    let answer = get(&dev, &format!("/port/a/8081.{other}/"));
    assert_eq!(answer[0], 502, "{answer}");

    websocket(&dev, &nonce);

    // Destroying the sandbox closes the port, also for a later sandbox with the same name that opens it again.
    let before = format!("/port/a/8080.{nonce}/");
    let calls = json!([["destroy", {}], ["open", { "sleepAfterMs": null }]]);
    assert_eq!(dev.call("a", &calls)[1]["value"]["created"], true);
    assert_eq!(get(&dev, &before), closed);
    serve(&dev, "a", 8080);
    let nonce = expose(&dev, 8080);
    assert_eq!(get(&dev, &before), closed);
    assert_eq!(get(&dev, &format!("/port/a/8080.{nonce}/"))[0], 200);
}

/// Opens a port of `a`, and returns the nonce.
fn expose(dev: &Dev, port: u16) -> String {
    let answer = dev.call("a", &json!([["expose", { "port": port }]])).remove(0);
    answer["value"]["nonce"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

fn websocket(dev: &Dev, nonce: &str) {
    let script = "const socket = new WebSocket(url.replace('http', 'ws') + `/port/a/8080.${data}/socket`);
        socket.binaryType = 'arraybuffer';
        const next = () => new Promise((done, failed) => {
          socket.onmessage = (event) => done(event.data);
          socket.onerror = () => failed(new Error('the socket broke'));
          socket.onclose = () => failed(new Error('the socket was closed'));
        });
        await new Promise((done, failed) => { socket.onopen = done; socket.onerror = () => failed(new Error('no socket')); });
        socket.send('a text, ä');
        const text = await next();
        socket.send(new Uint8Array([0, 255, 10]));
        const bytes = [...new Uint8Array(await next())];
        const closed = new Promise((done) => { socket.onclose = done; });
        socket.close(1000);
        await closed;
        return [text, bytes];";
    assert_eq!(dev.ask(script, &json!(nonce)), json!(["a text, ä", [0, 255, 10]]));
}
