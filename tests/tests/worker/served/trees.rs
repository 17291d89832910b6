//! Trees between objects, and archives of directories: streamed if the classes support it, and otherwise file by file.

use std::io::Write as _;
use std::net::TcpStream;
use std::thread;

use koze_tests::{eventually, hang_up};
use serde_json::{Value, json};

use super::cancellation::{Client, ends};
use super::files::archive;
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

fn at(sandbox: &str, path: &str) -> String {
    format!("/sessions/s/sandboxes/{sandbox}/files/home/user/{path}?archive=tar")
}

fn count(host: &Host, sandbox: &str) -> u32 {
    shell(host, sandbox, "calls").parse().expect("a number")
}

/// Returns the number of calls that archiving `tree` with this many files makes, and of those that create it elsewhere.
fn archive_calls(host: &Host, from: &str, to: &str, files: u32) -> (u32, u32) {
    shell(host, from, &format!("fill {files}"));
    let (before, expected) = (count(host, from), count(host, to));
    let got = host.ask("GET", &at(from, "tree"), b"");
    assert_eq!(got.status, 200, "{got:?}");
    let archived = count(host, from) - before - 1;
    let mut names: Vec<String> = tar::Archive::new(got.body.as_bytes())
        .entries()
        .expect("an archive")
        .map(|entry| String::from_utf8(entry.expect("an entry").path_bytes().into_owned()).expect("a name"))
        .collect();
    names.sort();
    let mut all: Vec<String> = (0..files).map(|number| format!("./d/{number}")).collect();
    all.extend(["./".to_owned(), "./d/".to_owned()]);
    all.sort();
    assert_eq!(names, all);
    let created = host.ask("PUT", &at(to, &format!("new/{files}")), got.body.as_bytes());
    assert_eq!(created.status, 201, "{created:?}");
    let created = count(host, to) - expected - 1;
    for number in [0, files - 1] {
        let path = format!("new/{files}/d/{number}");
        let (failed, value) = host.call("s", "read_file", &json!({ "sandbox": to, "path": path }));
        assert!(!failed && value["content"].as_str() == Some(&*number.to_string()), "{path}: {value}");
    }
    (archived, created)
}

#[test]
fn an_archive_makes_the_same_number_of_calls_for_any_number_of_files() {
    let host = Host::start();
    let few = archive_calls(&host, "a", "b", 20);
    assert_eq!(archive_calls(&host, "a", "b", 3000), few);
    assert_eq!(few.0, 1);
    assert!(
        few.1 <= 6,
        "{}: what is there, a staging directory, two for the archive, and its new name",
        few.1
    );
    assert_eq!((shell(&host, "a", "archives"), shell(&host, "b", "archives")), ("2 0".into(), "2 2".into()));
}

#[test]
fn without_archives_directories_are_archived_file_by_file() {
    let host = Host::start();
    let (failed, made) = host.call("s", "sandbox_create", &json!({ "sandbox": "py", "image": "python" }));
    assert!(!failed, "{made}");
    for (from, to) in [("a", "py"), ("py", "a")] {
        let (few, more) = (archive_calls(&host, from, to, 3), archive_calls(&host, from, to, 30));
        let (which, few, more) = if from == "py" { ("GET", few.0, more.0) } else { ("PUT", few.1, more.1) };
        assert!(more >= few + 27, "{which}: {few}, then {more}");
    }
    // The class has the methods, but its container does not.
    let tar = archive(&[(tar::EntryType::Regular, "f", b"content")]);
    assert_eq!(host.ask("PUT", &at("a", "old/new"), &tar).status, 201);
    let got = host.ask("GET", &at("a", "old/new"), b"");
    assert!(got.status == 200 && got.body.contains("content"), "{got:?}");
    assert_eq!(shell(&host, "a", "archives"), "6 2");
}

#[test]
fn an_archive_that_fails_is_reported_and_leaves_nothing() {
    let host = Host::start();
    let large = "x".repeat(500_000);
    for path in ["refused/f", "torn/f"] {
        host.call("s", "write_file", &json!({ "sandbox": "a", "path": path, "content": "x" }));
        let input = json!({ "sandbox": "a", "path": format!("large/{path}"), "content": large });
        host.call("s", "write_file", &input);
    }
    for (path, status, text) in [
        ("refused", 400, "permission_denied"),
        ("refused/f", 400, "not_a_directory"),
        ("none", 404, "not_found"),
    ] {
        let told = host.ask("GET", &at("a", path), b"");
        assert!(told.status == status && told.body.contains(text), "{path}: {told:?}");
        assert!(!told.body.contains("/a/path"), "{told:?}");
    }
    // A response that has begun is cut off, without the chunk that ends it.
    for path in ["large/refused", "large/torn"] {
        let output = host.raw("GET", &at("a", path), b"\r\n");
        // If that happens early, workerd does not even send its head.
        assert!(output.is_empty() || output.starts_with("HTTP/1.1 200"), "{path}: {output:.300}");
        assert!(!output.ends_with("\r\n0\r\n\r\n"), "{path}: {}", output.len());
    }
    let whole = host.raw("GET", &at("a", "large"), b"\r\n");
    assert!(whole.ends_with("\r\n0\r\n\r\n"), "{}", whole.len());

    let file = tar::EntryType::Regular;
    let rest = vec![b'x'; 3 << 20];
    for (name, status, text) in
        [("no-room", 400, "too_large: the disk is full"), ("forgotten", 500, "was not read to its end")]
    {
        let tar = archive(&[(file, name, b"x"), (file, "rest", &rest)]);
        let told = host.ask("PUT", &at("b", "up"), &tar);
        assert!(told.body.contains(text.rsplit(": ").next().unwrap_or_default()), "{name}: {told:?}");
        assert_eq!(told.status, status, "{told:?}");
        assert_eq!(host.ask("GET", &at("b", "up"), b"").status, 404, "{name}");
    }
    // The source of the archive fails after a part of it was sent.
    let tar = archive(&[(file, "first", &rest), (file, "../x", b"x")]);
    let told = host.ask("PUT", &at("b", "up"), &tar);
    assert!(told.status == 400 && told.body.contains("`../x` leads outside"), "{told:?}");
    assert!(ends(&host, "s", "b").ends_with("not extracted"), "{}", ends(&host, "s", "b"));
    assert_eq!(host.ask("GET", &at("b", "up"), b"").status, 404);
}

#[test]
fn an_archive_whose_client_is_gone_ends() {
    let host = Host::start();
    let address = host.url().trim_start_matches("http://").trim_end_matches('/').to_owned();
    let request = |method: &str, path: &str, body: &[u8], length: usize| {
        let mut stream = TcpStream::connect(&address).expect("a connection");
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {TOKEN}\r\ncontent-length: {length}\r\n\r\n"
        );
        stream.write_all(&[head.as_bytes(), body].concat()).expect("it is sent");
        stream
    };
    // More than is on its way.
    shell(&host, "a", "fill 20000");
    let reads = request("GET", &at("a", "tree"), b"", 0);
    eventually("it has come", || shell(&host, "a", "archives") == "1 0");
    hang_up(reads);
    eventually("it has ended", || ends(&host, "s", "a") == "/home/user/tree not archived");

    let file = tar::EntryType::Regular;
    let tar = archive(&[(file, "slow", b"x"), (file, "rest", &vec![b'x'; 1 << 20])]);
    let writes = request("PUT", &at("b", "up"), &tar, tar.len());
    eventually("it has come", || shell(&host, "b", "archives") == "1 1");
    hang_up(writes);
    eventually("it has ended", || ends(&host, "s", "b").ends_with("not extracted"));
    // A body that stops in the middle.
    let tar = archive(&[(file, "rest", &vec![b'x'; 1 << 20])]);
    let writes = request("PUT", &at("b", "up"), &tar[..500_000], tar.len());
    eventually("it has come", || shell(&host, "b", "archives") == "2 2");
    hang_up(writes);
    eventually("it has ended", || ends(&host, "s", "b").matches("not extracted").count() == 2);
    assert_eq!(host.ask("GET", &at("b", "up"), b"").status, 404);
}
