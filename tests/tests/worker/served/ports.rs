//! The ports of sandboxes, by host name.

use serde_json::{Value, json};

use super::host::{Answer, Host, TOKEN};

/// Returns the URL that `browse` returns to a client that uses this host.
fn browse(host: &Host, by: &str, port: u32) -> (bool, Value) {
    let input = json!({ "port": port }).to_string();
    let bearer = format!("Bearer {TOKEN}");
    let headers = [("host", by), ("authorization", bearer.as_str())];
    let answer = host.send("POST", "/sessions/s/tools/browse", &headers, input.as_bytes()).json();
    let content = answer["content"].as_str().expect("a text");
    let content = serde_json::from_str(content).unwrap_or_else(|_| json!(content));
    (answer["isError"] == true, content)
}

/// Returns the host name of a preview.
fn name(url: &Value) -> String {
    let url = url["url"].as_str().expect("a URL");
    url.strip_prefix("http://").and_then(|url| url.strip_suffix('/')).expect("a URL").to_owned()
}

#[test]
fn a_port_answers_at_its_url() {
    let host = Host::start();
    let (failed, url) = browse(&host, "agents.example:8787", 8080);
    assert!(!failed, "{url}");
    let name = name(&url);
    assert!(name.starts_with("8080-") && name.ends_with(".agents.example:8787"), "{name}");
    assert_eq!(browse(&host, "agents.example:8787", 8080).1, url, "the same for as long as it lives");
    let smuggled = [
        ("host", name.as_str()),
        ("koze-port", "3000"),
        ("koze-nonce", "aaaaaaaaaa"),
        ("Koze-Session", "other"),
        ("cf-container-target-port", "3000"),
        ("x-sandbox-name", "other"),
        ("x-mine", "yes"),
    ];
    let answer = host.send("PUT", "/a%20b?c=d&e", &smuggled, b"body");
    assert_eq!((answer.status, answer.header("x-of-the-port")), (201, Some("yes")), "{answer:?}");
    let seen = answer.json();
    assert_eq!(
        (&seen["method"], &seen["text"], &seen["class"]),
        (&json!("PUT"), &json!("body"), &json!("ShellSandbox"))
    );
    assert!(seen["url"].as_str().is_some_and(|url| url.ends_with("/a%20b?c=d&e")), "{seen}");
    assert_eq!((&seen["headers"]["koze-port"], &seen["headers"]["x-mine"]), (&json!("8080"), &json!("yes")));
    for header in ["koze-session", "cf-container-target-port", "x-sandbox-name"] {
        assert!(seen["headers"].get(header).is_none(), "{header} came through: {seen}");
    }
}

/// A client may send its token with all requests to the domain, but programs in a sandbox must not receive it.
#[test]
fn tokens_of_the_worker_do_not_reach_a_sandbox() {
    let host = Host::start();
    let name = name(&browse(&host, "agents.example", 8080).1);
    let bearer = format!("bearer  {TOKEN}");
    let cookie = format!("a=b; token={TOKEN}; c=d");
    let headers = [
        ("host", name.as_str()),
        ("authorization", bearer.as_str()),
        ("x-api-key", TOKEN),
        ("cookie", cookie.as_str()),
        ("x-mine", "yes"),
    ];
    let answer = host.send("GET", "/", &headers, b"");
    let seen = answer.json();
    assert_eq!((answer.status, &seen["headers"]["x-mine"]), (201, &json!("yes")), "{answer:?}");
    assert!(!seen.to_string().contains(TOKEN), "a token came through: {seen}");
    // The client's own credentials for the program are forwarded.
    let own = [("host", name.as_str()), ("authorization", "Bearer mine"), ("cookie", "a=b")];
    let seen = host.send("GET", "/", &own, b"").json();
    assert_eq!(
        (&seen["headers"]["authorization"], &seen["headers"]["cookie"]),
        (&json!("Bearer mine"), &json!("a=b"))
    );
}

#[test]
fn a_url_does_not_reach_a_later_sandbox_with_the_same_name() {
    let host = Host::start();
    let open = || name(&browse(&host, "agents.example", 8080).1);
    let get = |name: &str| host.send("GET", "/", &[("host", name)], b"");
    // The Worker's signature is valid, but the object rejects the nonce.
    let is_closed = |answer: &Answer| answer.status == 404 && answer.body == "no such port";
    let first = open();
    assert_eq!((get(&first).status, open()), (201, first.clone()));
    let bearer = format!("Bearer {TOKEN}");
    let gone = host.send("DELETE", "/sessions/s/sandboxes/default", &[("authorization", &bearer)], b"");
    assert_eq!(gone.status, 200, "{gone:?}");
    assert!(is_closed(&get(&first)), "{:?}", get(&first));
    let second = open();
    assert_eq!(get(&second).status, 201);
    assert!(is_closed(&get(&first)), "{:?}", get(&first));
    // The new nonce with the signature of the old one.
    let label = |name: &str| name.split_once('.').expect("a hostname").0.to_owned();
    let (old, new) = (label(&first), label(&second));
    let at = new.len() - 10;
    let mixed = get(&format!("{}{}.agents.example", &old[..at], &new[at..]));
    assert_eq!((mixed.status, mixed.refusal().1.as_str()), (404, "not_found"), "{mixed:?}");
}

#[test]
fn a_port_that_was_not_opened_is_not_reachable() {
    let host = Host::start();
    let (_, url) = browse(&host, "agents.example", 8080);
    let name = name(&url);
    let parts: Vec<&str> = name.splitn(3, ['-', '.']).collect();
    let [_, label, rest] = parts[..] else { panic!("{name}") };
    let (token, _) = rest.split_once('.').expect("a token");
    let other = |token: &str| {
        let first = if token.starts_with('a') { 'b' } else { 'a' };
        format!("{first}{}", &token[1..])
    };
    let get = |name: &str| host.send("GET", "/", &[("host", name)], b"");
    assert_eq!(get(&name).status, 201);
    let missing = |answer: &Answer| answer.status == 404 && answer.refusal().1 == "not_found";
    for wrong in [
        format!("8081-{label}-{token}.agents.example"),
        format!("3000-{label}-{token}.agents.example"),
        format!("8080-{}-{token}.agents.example", other(label)),
        format!("8080-{label}-{}.agents.example", other(token)),
        format!("8080-{label}-{}{}.agents.example", &token[..16], other(&token[16..])),
    ] {
        let answer = get(&wrong);
        assert!(missing(&answer), "{wrong}: {answer:?}");
    }
    // Other host names reach the Worker itself.
    let other = format!("8080-{label}.agents.example");
    assert_eq!(host.send("GET", "/tools", &[("host", &other)], b"").status, 401, "{other}");
    for port in [80, 70000] {
        let (failed, error) = browse(&host, "agents.example", port);
        assert!(failed && error.as_str().is_some_and(|error| error.starts_with("invalid_input")), "{error}");
    }
}

#[test]
fn hosts_without_previews_explain_what_to_do() {
    let host = Host::start();
    for (by, what) in [
        ("agents.me.workers.dev", "a custom domain with a wildcard route"),
        ("127.0.0.1:8787", "call the Worker by a hostname"),
    ] {
        let (failed, error) = browse(&host, by, 8080);
        let error = error.as_str().expect("a text");
        assert!(failed && error.starts_with("unsupported: ") && error.contains(what), "{error}");
    }
    let options = json!({ "bindings": { "KOZE_TOKEN": TOKEN, "KOZE_PREVIEW_HOST": "previews.example" } });
    let host = Host::with(&options);
    let (failed, url) = browse(&host, "agents.me.workers.dev", 8080);
    assert!(!failed && name(&url).ends_with(".previews.example"), "{url}");
}

#[test]
fn web_sockets_are_forwarded() {
    let host = Host::start();
    let (_, url) = browse(&host, "agents.example", 8080);
    let headers = "upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    // A masked frame with the text `hi`, and a close frame.
    let frames = [0x81, 0x82, 0, 0, 0, 0, b'h', b'i', 0x88, 0x80, 0, 0, 0, 0];
    let answer = host.upgrade(&name(&url), headers, &frames);
    assert!(answer.starts_with("HTTP/1.1 101 ") && answer.contains("8080: hi"), "{answer}");
}
