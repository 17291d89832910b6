//! Credentials of sandboxes in containers: a server on this machine's loopback address sees the values, and no sandbox does.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::thread;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use koze_sidecar::Authority;
use rustls::{ServerConnection, StreamOwned};
use serde_json::json;

use super::calls::{exec_for, open, sandbox};
use super::engine::engine;
use super::project::{credentials_worker, start_among};

const API: &str = "api.test";
/// The value, as `.dev.vars` has it.
pub(super) const VALUE: &str = "the-value-of-the-key";

/// Starts a server with TLS that answers each request with its head, and with `x-echo`. Returns its port.
fn serve_echo(authority: &Authority) -> u16 {
    let tls = authority.server(&[API]).expect("its certificate");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("its number").port();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let tls = Arc::clone(&tls);
            thread::spawn(move || {
                let session = ServerConnection::new(tls).expect("a session");
                echo(StreamOwned::new(session, stream));
            });
        }
    });
    port
}

fn echo(mut stream: impl Read + Write) {
    let mut reader = BufReader::new(&mut stream);
    let head: Vec<String> =
        reader.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
    let number = |name: &str| -> usize {
        let value = |line: &String| line.to_ascii_lowercase().strip_prefix(name)?.trim().parse().ok();
        head.iter().find_map(value).unwrap_or(0)
    };
    let mut body = vec![0; number("content-length:")];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    // The values of the test are in it, once in the head and once in the body.
    let sent =
        format!("{}\n{}{}", head.join("\n"), String::from_utf8_lossy(&body), ".".repeat(number("x-length:")));
    let encoded = STANDARD.encode(head.join("\n"));
    let answer = format!(
        "HTTP/1.1 200 OK\r\nx-echo: {}\r\nx-code: {encoded}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{sent}",
        head.first().map_or("", String::as_str),
        sent.len()
    );
    let _ = stream.write_all(answer.as_bytes());
}

#[test]
fn credentials_are_sent_and_never_seen() {
    let Some(engine) = engine() else { return };
    let authority = Authority::new().expect("an authority");
    let port = serve_echo(&authority);
    let worker = credentials_worker(&engine, API, port);
    let running = start_among(&worker, &engine, &[API], authority.certificate());
    let dev = running.client();
    sandbox(&dev, &engine, "first");

    let run = |script: &str| -> (i64, String) {
        let mut call = exec_for(&["bash", "-c", script], 60_000);
        call[1]["maxOutput"] = json!(1 << 20);
        let answers = dev.call("KEYED_SANDBOX.a", &json!([open(), call]));
        let answer = &answers[1]["value"];
        let text = |name: &str| {
            let bytes = STANDARD.decode(answer[name]["base64"].as_str().unwrap_or_default()).expect("base64");
            String::from_utf8_lossy(&bytes).into_owned()
        };
        (answer["exitCode"].as_i64().unwrap_or(-1), text("stdout") + &text("stderr"))
    };
    // Sends lines of a request, and prints the response.
    let send_as = |method: &str, target: &str, headers: &str| {
        run(&format!(
            "{{ printf '{method} %s HTTP/1.1\\r\\nHost: {API}:{port}\\r\\nConnection: close\\r\\n' \"{target}\"; \
             printf '%s\\r\\n' {headers} ''; sleep 2; }} | \
             openssl s_client -quiet -verify_return_error -servername {API} -verify_hostname {API} -connect {API}:443 2>/dev/null"
        ))
    };

    let send = |target: &str, headers: &str| send_as("GET", target, headers);

    let (_, environment) = run("env; cat /proc/1/environ 2>/dev/null");
    assert!(environment.contains("API_KEY=koze_cred_") && !environment.contains(VALUE), "{environment}");

    // The server got the value: what it returns is masked, with the same length.
    let stars = "*".repeat(VALUE.len());
    let (_, answer) = send("/v1/items", "\"Authorization: Bearer $API_KEY\"");
    assert!(
        answer.contains("200 OK")
            && answer.to_ascii_lowercase().contains(&format!("authorization: bearer {stars}")),
        "{answer}"
    );
    assert!(!answer.contains(VALUE) && !answer.contains(&STANDARD.encode(VALUE)[..20]), "{answer}");
    let (_, answer) = send("/maps?a=b&key=$MAPS", "'X-Length: 3000000'");
    assert!(
        answer.contains(&format!("x-echo: GET /maps?a=b&key={stars}")),
        "{}",
        &answer[..500.min(answer.len())]
    );
    assert!(answer.len() < (1 << 20) + 1000 && !answer.contains(VALUE));

    // Bodies are passed on, chunk by chunk, and not searched.
    let with_body = "\"Authorization: Bearer $API_KEY\" 'Content-Length: 17' '' 'with $API_KEY too'";
    let (_, answer) = send_as("POST", "/v1/items", with_body);
    assert!(answer.contains("POST /v1/items") && answer.contains("with $API_KEY too"), "{answer}");
    assert!(answer.contains(&stars) && !answer.contains(VALUE), "{answer}");

    // It goes nowhere else.
    for (target, headers, part) in [
        ("/v1/items", "\"X-Other: $API_KEY\"", "in the header `x-other`"),
        ("/v1/items?key=$API_KEY", "'A: b'", "in the URL"),
        ("/v1/items", "\"Authorization: Bearer $MAPS\"", "in the header `authorization`"),
        ("/other", "'A: b'", "`allowed_hosts` has only"),
        ("/v1/items/%2e%2e/%2e%2e/other", "'A: b'", "`allowed_hosts` has only"),
        ("/v1/items", "\"Authorization: Bearer $UNSET\"", "`wrangler secret put UNSET`"),
    ] {
        let (_, answer) = send(target, headers);
        assert!(answer.contains("403") && answer.contains(part), "{target} {headers}: {answer}");
    }
    // The journal of the sandbox says so to the program's caller.
    let (code, text) = run(&format!(
        "printf 'GET /other HTTP/1.1\\r\\nHost: {API}:{port}\\r\\nConnection: close\\r\\n\\r\\n' | \
         openssl s_client -quiet -servername {API} -connect {API}:443 2>/dev/null; sleep 1; exit 3"
    ));
    assert!(
        code == 3
            && text
                .contains(&format!("egress_refused: the network policy of the sandbox refused {API}:{port}")),
        "{text}"
    );
}
