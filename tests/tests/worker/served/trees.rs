//! Trees between objects: streamed if both classes support it, and otherwise file by file.

use std::io::Write as _;
use std::net::TcpStream;
use std::thread;

use koze_tests::{eventually, hang_up};
use serde_json::{Value, json};

use super::cancellation::{Client, ends};
use super::host::{Host, TOKEN};

fn input(from: &str, from_path: &str, to: &str, to_path: &str) -> Value {
    json!({ "from_sandbox": from, "from_path": from_path, "to_sandbox": to, "to_path": to_path, "recursive": true })
}

fn shell(host: &Host, sandbox: &str, command: &str) -> String {
    let (failed, value) = host.call("s", "shell", &json!({ "sandbox": sandbox, "command": command }));
    assert!(!failed, "{command}: {value}");
    value["stdout"].as_str().expect("a text").to_owned()
}

/// Returns the number of calls to both sandboxes that a transfer of `d` with this many files makes.
fn calls(host: &Host, from: &str, to: &str, files: u32) -> u32 {
    shell(host, from, &format!("fill {files}"));
    shell(host, to, "true");
    let calls = || -> u32 {
        [from, to].map(|sandbox| shell(host, sandbox, "calls").parse::<u32>().expect("a number")).iter().sum()
    };
    let before = calls();
    let to_path = format!("copies/{files}");
    let (failed, value) = host.call("s", "transfer", &input(from, "tree", to, &to_path));
    let size: usize = (0..files).map(|number| number.to_string().len()).sum();
    assert_eq!((failed, value), (false, json!({ "ok": true, "bytes": size })));
    // Two of the calls were made to get the number.
    let calls = calls() - before - 2;
    for number in [0, files - 1] {
        let path = format!("copies/{files}/d/{number}");
        let (failed, value) = host.call("s", "read_file", &json!({ "sandbox": to, "path": path }));
        assert!(!failed && value["content"].as_str() == Some(&*number.to_string()), "{path}: {value}");
    }
    calls
}

#[test]
fn a_stream_makes_the_same_number_of_calls_for_any_number_of_files() {
    let host = Host::start();
    let few = calls(&host, "a", "b", 20);
    assert_eq!(calls(&host, "a", "b", 2000), few);
    assert!(few <= 6, "{few}: what is there, what is not yet there, two for the stream, and its new name");
}

#[test]
fn without_streams_trees_are_copied_file_by_file() {
    let host = Host::start();
    let (failed, made) = host.call("s", "sandbox_create", &json!({ "sandbox": "py", "image": "python" }));
    assert!(!failed, "{made}");
    for (from, to) in [("a", "py"), ("py", "a")] {
        let (few, more) = (calls(&host, from, to, 3), calls(&host, from, to, 30));
        assert!(more >= few + 3 * 27, "{from} to {to}: {few}, then {more}");
    }
    // The class has the methods, but currently rejects them.
    let (failed, value) = host.call("s", "transfer", &input("a", "tree", "b", "old/tree"));
    assert!(!failed, "{value}");
    assert_eq!(
        host.call("s", "read_file", &json!({ "sandbox": "b", "path": "old/tree/d/7" })).1["content"],
        "7"
    );
}

#[test]
fn a_failed_transfer_is_reported_and_leaves_nothing() {
    let host = Host::start();
    shell(&host, "a", "fill 1000");
    for path in ["secret", "torn"] {
        host.call("s", "write_file", &json!({ "sandbox": "a", "path": path, "content": "x".repeat(2000) }));
    }
    for (from, to, code) in [
        ("secret", "to", "permission_denied: "),
        ("torn", "to", "unavailable: "),
        ("none", "to", "not_found: "),
    ] {
        let (failed, error) = host.call("s", "transfer", &input("a", from, "b", to));
        let text = error.as_str().unwrap_or_default();
        assert!(failed && text.starts_with(code) && !text.contains("/a/path"), "{from}: {error}");
        // The message does not contain the staging path.
        assert!(!text.contains(".koze"), "{error}");
    }
    assert_eq!(ends(&host, "s", "b"), "not unpacked");
    assert!(host.call("s", "glob", &json!({ "sandbox": "b", "pattern": "**/*", "cwd": "/" })).0);
    // If the receiver is not ready yet, the transfer is retried with a new stream.
    let (failed, value) = host.call("s", "transfer", &input("a", "tree", "b", "starting/tree"));
    assert!(!failed, "{value}");
    assert_eq!(value["bytes"], 10 + 180 + 2700);
}

#[test]
fn a_cancelled_transfer_ends_on_both_sides() {
    let host = Host::start();
    shell(&host, "a", "fill 1000");
    let unread = "/home/user/tree not read";
    let both = || (ends(&host, "s", "a"), ends(&host, "s", "b"));

    let client = Client::new(&host, "s");
    let slow = input("a", "tree", "b", "slow/tree");
    thread::scope(|scope| {
        let call = scope.spawn(|| client.call(&json!(7), "transfer", &slow));
        eventually("it has come", || shell(&host, "b", "unpacks") == "1");
        client.cancel(&json!(7));
        assert_eq!(call.join().expect("a result")["isError"], true);
    });
    eventually("both have ended", || both() == (unread.to_owned(), "not unpacked".to_owned()));

    let address = host.url().trim_start_matches("http://").trim_end_matches('/').to_owned();
    let mut stream = TcpStream::connect(address).expect("a connection");
    let body = slow.to_string();
    let length = body.len();
    let head = format!(
        "POST /sessions/s/tools/transfer HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {TOKEN}\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all(format!("{head}{body}").as_bytes()).expect("all of it is sent");
    eventually("it has come", || shell(&host, "b", "unpacks") == "2");
    hang_up(stream);
    let twice = (format!("{unread}, {unread}"), "not unpacked, not unpacked".to_owned());
    eventually("both have ended again", || both() == twice);
}
