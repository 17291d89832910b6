//! The route `files` of `koze mcp --http`.

use std::io::Write as _;
use std::net::{Shutdown, TcpStream};

use crate::http::{bearer, send};
use crate::server::{Http, project};

const BELOW: &str = "/sessions/default/sandboxes/default/files";

/// A response: its status, its head, and its body.
type Told = (u16, String, String);

fn ask(server: &Http, method: &str, path: &str, headers: &str, body: &[u8]) -> Told {
    let host = format!("Host: {}\r\n{}", server.address(), bearer(server));
    let (status, answer) = send(server, &format!("{method} {path}"), &format!("{host}{headers}"), body);
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (status, head.to_lowercase(), body.to_owned())
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

#[test]
fn files_are_read_and_written() {
    let host = project();
    let server = Http::start(&host, &[]);
    let at = format!("{BELOW}/home/user/new%20dir/%C3%BC%25.txt");
    let put = |headers: &str, body: &str| ask(&server, "PUT", &at, headers, body.as_bytes());
    let get = |headers: &str| ask(&server, "GET", &at, headers, b"");

    assert_eq!(get("").0, 404, "a read creates no sandbox");
    let (status, head, _) = put("If-None-Match: *\r\n", "0123456789");
    let first = header(&head, "etag").expect("a tag").to_owned();
    assert_eq!(status, 201);
    assert_eq!(put("If-None-Match: *\r\n", "x").0, 412);
    let (status, head, body) = get("");
    assert_eq!((status, &*body, header(&head, "etag")), (200, "0123456789", Some(&*first)));
    assert_eq!(header(&head, "content-length"), Some("10"));
    assert_eq!(header(&head, "x-content-type-options"), Some("nosniff"));

    let (status, head, body) = get("Range: bytes=2-4\r\n");
    assert_eq!((status, &*body, header(&head, "content-range")), (206, "234", Some("bytes 2-4/10")));
    let (status, head, body) = get("Range: bytes=10-\r\n");
    assert_eq!((status, header(&head, "content-range")), (416, Some("bytes */10")));
    assert!(body.contains("range_not_satisfiable"), "{body}");
    assert_eq!(get(&format!("If-None-Match: {first}\r\n")).0, 304);
    let (status, head, body) = ask(&server, "HEAD", &at, "", b"");
    assert_eq!((status, &*body, header(&head, "content-length")), (200, "", Some("10")));

    let (status, head, _) = put(&format!("If-Match: {first}\r\n"), "new");
    assert_eq!(status, 204);
    assert_ne!(header(&head, "etag"), Some(&*first));
    let (status, _, body) = put(&format!("If-Match: {first}\r\n"), "lost");
    assert!(status == 412 && body.contains("precondition_failed"), "{status} {body}");
    assert_eq!(get(&format!("If-Match: {first}\r\n")).0, 412);
    assert_eq!(get(&format!("Range: bytes=0-0\r\nIf-Range: {first}\r\n")).2, "new");
    assert_eq!(put("", "").0, 204);
    assert_eq!(get("").2, "");
}

#[test]
fn what_cannot_be_read_or_written() {
    let host = project();
    let server = Http::start(&host, &[]);
    assert_eq!(ask(&server, "PUT", &format!("{BELOW}/home/user/f"), "", b"f").0, 201);
    for (method, path, headers, status, part) in [
        ("GET", format!("{BELOW}/home/user/missing"), "", 404, "not_found"),
        ("GET", format!("{BELOW}/home/user"), "", 400, "is_directory"),
        ("PUT", format!("{BELOW}/home/user"), "", 400, "is_directory"),
        ("PUT", format!("{BELOW}/home/user/new/"), "", 400, "is_directory"),
        ("GET", format!("{BELOW}/home/user/f/x"), "", 400, "not_a_directory"),
        ("PUT", format!("{BELOW}/usr/x"), "", 400, "permission_denied"),
        ("GET", format!("{BELOW}/a%00b"), "", 400, "NUL"),
        ("GET", format!("{BELOW}/a%FF"), "", 400, "UTF-8"),
        ("GET", BELOW.to_owned(), "", 400, "is_directory"),
        ("PUT", format!("{BELOW}/home/user/f"), "Content-Range: bytes 0-0/1\r\n", 400, "Content-Range"),
        ("POST", format!("{BELOW}/home/user/f"), "", 405, "GET, HEAD, PUT, DELETE"),
        ("GET", "/sessions/other/sandboxes/default/files/x".to_owned(), "", 404, "another session"),
        ("GET", "/sessions/default/sandboxes/none/files/x".to_owned(), "", 404, "no sandbox"),
        ("GET", "/sessions/default/sandboxes/No%20name/files/x".to_owned(), "", 400, "invalid_input"),
        ("GET", "/sessions/default/sandboxes/default/file/x".to_owned(), "", 404, "lists the routes"),
    ] {
        let (told, _, body) = ask(&server, method, &path, headers, b"x");
        assert!(told == status && body.contains(part), "{method} {path}: {told} {body}");
        assert!(!body.contains(".koze-upload") && !body.contains("state"), "{body}");
    }
    let (status, _) = send(&server, &format!("GET {BELOW}/x"), "Host: localhost\r\n", b"");
    assert_eq!(status, 401);
}

#[test]
fn a_body_that_is_cut_off_writes_nothing() {
    let host = project();
    let server = Http::start(&host, &[]);
    let at = format!("{BELOW}/home/user/whole/f");
    assert_eq!(ask(&server, "PUT", &at, "", b"before").0, 201);
    let mut stream = TcpStream::connect(server.address()).expect("it listens");
    let head = format!(
        "PUT {at} HTTP/1.1\r\nHost: {}\r\n{}Content-Length: 3000000\r\n\r\n",
        server.address(),
        bearer(&server)
    );
    stream.write_all(head.as_bytes()).expect("a head");
    stream.write_all(&vec![b'x'; 2_000_000]).expect("a part of the body");
    stream.shutdown(Shutdown::Both).expect("a connection");
    drop(stream);
    koze_tests::eventually("no staging file", || {
        let listed = host.koze(&["call", "shell", r#"{"command": "ls -A whole; cat whole/f"}"#]);
        listed.stdout.contains(r#""stdout":"f\nbefore""#)
    });
}

#[test]
fn links_are_followed_inside_the_sandbox_only() {
    let host = project();
    let server = Http::start(&host, &[]);
    assert_eq!(ask(&server, "PUT", &format!("{BELOW}/home/user/d/target"), "", b"1").0, 201);
    let command = r#"{"command": "chmod 750 d/target; ln -s d/target rel; ln -s /home/user/d/target abs; ln -s loop loop; ln -s / root"}"#;
    host.koze(&["call", "shell", command]);
    for name in ["rel", "abs", "root/home/user/d/target"] {
        assert_eq!(ask(&server, "PUT", &format!("{BELOW}/home/user/{name}"), "", name.as_bytes()).0, 204);
        assert_eq!(ask(&server, "GET", &format!("{BELOW}/home/user/d/target"), "", b"").2, name);
    }
    assert_eq!(ask(&server, "GET", &format!("{BELOW}/home/user/loop"), "", b"").0, 400);
    let kept = host.koze(&["call", "shell", r#"{"command": "readlink rel abs; stat -c %a d/target"}"#]);
    assert!(kept.stdout.contains(r"d/target\n/home/user/d/target\n750\n"), "{kept:?}");
}
