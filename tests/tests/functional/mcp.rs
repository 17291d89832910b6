//! `koze mcp` where it cannot serve. `tests/mcp` tests the server itself.

use std::net::TcpListener;

use insta::assert_snapshot;
use koze_tests::{Project, Sandboxes};

use crate::common::{refused_with, sandboxes, shell};

fn output(host: &Sandboxes, args: &[&str], token: Option<&str>) -> String {
    let mut command = host.command(&[&["mcp"], args].concat());
    match token {
        Some(token) => command.env("KOZE_MCP_TOKEN", token),
        None => command.env_remove("KOZE_MCP_TOKEN"),
    };
    let run = host.run(command);
    assert_eq!(run.stdout, "", "the protocol alone");
    format!("{} {}", run.code, run.stderr)
}

#[test]
fn invalid_addresses() {
    let host = sandboxes();
    let mut all = String::new();
    for address in
        ["0.0.0.0:0", "[::]:0", "192.0.2.1:80", "localhost:8080", "127.0.0.1", "127.0.0.1:99999", "8080", ""]
    {
        all += &output(&host, &["--http", address], None);
    }
    assert_snapshot!(all, @"
    2 error: --http: 0.0.0.0:0 can be reached from elsewhere: the tools run commands, so they are served only on the loopback interface
    2 error: --http: [::]:0 can be reached from elsewhere: the tools run commands, so they are served only on the loopback interface
    2 error: --http: 192.0.2.1:80 can be reached from elsewhere: the tools run commands, so they are served only on the loopback interface
    2 error: --http: `localhost:8080` is not an address such as 127.0.0.1:8080
    2 error: --http: `127.0.0.1` is not an address such as 127.0.0.1:8080
    2 error: --http: `127.0.0.1:99999` is not an address such as 127.0.0.1:8080
    2 error: --http: `8080` is not an address such as 127.0.0.1:8080
    2 error: --http: `` is not an address such as 127.0.0.1:8080
    ");
}

#[test]
fn a_port_in_use() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("its address").to_string();
    let output = output(&sandboxes(), &["--http", &address], None).replace(&address, "[ADDRESS]");
    assert_snapshot!(output, @"1 error: --http: [ADDRESS] cannot be used: Address already in use (os error 98)");
}

#[test]
fn invalid_tokens() {
    let host = sandboxes();
    let expected = "1 error: KOZE_MCP_TOKEN is not a valid token: use at least 16 letters, digits and symbols, without spaces\n";
    for token in
        ["", "fifteen-letters", "sixteen letters and more", "sechzehn-Zeichen-äöü", "0123456789abcde\t"]
    {
        assert_eq!(output(&host, &["--http"], Some(token)), expected, "{token:?}");
    }
}

#[test]
fn invalid_origins() {
    let host = sandboxes();
    let mut all = String::new();
    for origin in ["localhost:6274", "null", "*", "http://a/path"] {
        all += &output(&host, &["--http", "--allow-origin", origin], None);
    }
    assert_snapshot!(all, @"
    2 error: --allow-origin: `localhost:6274` is not an origin such as http://localhost:6274
    2 error: --allow-origin: `null` is not an origin such as http://localhost:6274
    2 error: --allow-origin: `*` is not an origin such as http://localhost:6274
    2 error: --allow-origin: `http://a/path` is not an origin such as http://localhost:6274
    ");
    assert!(output(&host, &["--allow-origin", "http://a"], None).starts_with("2 error: "), "it is for HTTP");
}

#[test]
fn a_client_that_sends_nothing() {
    assert_snapshot!(output(&sandboxes(), &[], None), @"0");
}

#[test]
fn a_project_with_errors() {
    let stderr = refused_with(&shell("#[sandbox(max_instances = 0)]\npub struct S;"), &["mcp"]);
    assert!(stderr.starts_with("error[K013]"), "{stderr}");
    assert!(refused_with(&Project::new(), &["mcp"]).starts_with("error[K"));
}
