//! The route `files` of the Worker.

use serde_json::json;

use super::host::{Answer, Host, TOKEN};

const AT: &str = "/sessions/s/sandboxes/default/files/home/user/new%20dir/%C3%BC%25.txt";

fn ask(host: &Host, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    let bearer = format!("Bearer {TOKEN}");
    let headers = [&[("authorization", &*bearer)], headers].concat();
    host.send(method, path, &headers, body)
}

#[test]
fn files_are_read_and_written() {
    let host = Host::start();
    let put = |headers: &[(&str, &str)], body: &[u8]| ask(&host, "PUT", AT, headers, body);
    let get = |headers: &[(&str, &str)]| ask(&host, "GET", AT, headers, b"");
    assert_eq!(get(&[]).refusal().0, 404);
    let made = put(&[("if-none-match", "*")], b"0123456789");
    assert_eq!(made.status, 201, "{made:?}");
    let first = made.header("etag").expect("a tag").to_owned();
    assert_eq!(put(&[("if-none-match", "*")], b"x").status, 412);
    let whole = get(&[]);
    assert_eq!((whole.status, &*whole.body, whole.header("etag")), (200, "0123456789", Some(&*first)));
    assert_eq!(whole.header("content-length"), Some("10"));
    let part = get(&[("range", "bytes=2-4")]);
    assert_eq!((part.status, &*part.body, part.header("content-range")), (206, "234", Some("bytes 2-4/10")));
    let none = get(&[("range", "bytes=10-")]);
    assert_eq!((none.status, none.header("content-range")), (416, Some("bytes */10")));
    assert_eq!(get(&[("if-none-match", &first)]).status, 304);
    let head = ask(&host, "HEAD", AT, &[], b"");
    assert_eq!((head.status, &*head.body, head.header("content-length")), (200, "", Some("10")));
    let new = put(&[("if-match", &first)], b"new");
    assert_eq!((new.status, new.header("etag") == Some(&*first)), (204, false));
    assert_eq!(put(&[("if-match", &first)], b"lost").refusal().0, 412);
    assert_eq!(get(&[]).body, "new");
    assert_eq!((put(&[], b"").status, &*get(&[]).body), (204, ""));
}

#[test]
fn large_files_and_refusals() {
    let host = Host::start();
    let at = "/sessions/s/sandboxes/default/files/home/user/large";
    let large = "0123456789abcdef".repeat(1 << 20);
    assert_eq!(ask(&host, "PUT", at, &[], large.as_bytes()).status, 201);
    let whole = ask(&host, "GET", at, &[], b"");
    assert!(whole.status == 200 && whole.body == large);
    let part = ask(&host, "GET", at, &[("range", "bytes=4194300-12582919")], b"");
    assert!(part.status == 206 && part.body == large[4_194_300..12_582_920]);
    for (method, path, headers, status) in [
        ("GET", "/sessions/s/sandboxes/none/files/x", &[][..], 404),
        ("GET", "/sessions/s/sandboxes/default/files/home/user", &[], 400),
        ("PUT", "/sessions/s/sandboxes/default/files/home/user", &[], 400),
        ("PUT", at, &[("content-range", "bytes 0-0/1")], 400),
        ("POST", at, &[], 405),
    ] {
        let told = ask(&host, method, path, headers, b"x").status;
        assert_eq!(told, status, "{method} {path}");
    }
    assert_eq!(host.send("GET", at, &[], b"").status, 401);
}

/// The container of both classes restarts after the first piece. The class of `py` is older than offsets, and creates the
/// file again.
#[test]
fn a_file_that_has_lost_its_beginning_is_not_written() {
    let host = Host::start();
    let large = "0123456789abcdef".repeat(1 << 20);
    let create = json!({ "sandbox": "py", "image": "python" });
    assert_eq!(host.call("s", "sandbox_create", &create).1["created"], true);
    for sandbox in ["default", "py"] {
        let of = format!("/sessions/s/sandboxes/{sandbox}/files/home/user");
        let other = format!("{of}/other");
        assert_eq!(ask(&host, "PUT", &other, &[], b"there").status, 201);
        let at = format!("{of}/restarts/large");
        // Of the body, little is left when the Worker answers: a client that still sends much of it may
        // find the connection closed, and not see the answer.
        let pieces = &large.as_bytes()[..(8 << 20) + 1000];
        let refused = ask(&host, "PUT", &at, &[], pieces);
        let (status, code, _) = refused.refusal();
        assert_eq!((status, &*code), (503, "unavailable"), "{refused:?}");
        assert!(refused.body.contains("`/home/user/restarts/large`") || sandbox == "default", "{refused:?}");
        assert!(refused.body.contains("its first part is gone"), "{refused:?}");
        assert_eq!(ask(&host, "GET", &at, &[], b"").status, 404, "{sandbox}");
        assert_eq!(ask(&host, "GET", &other, &[], b"").status, 404, "the container has restarted");
        // A large `write_file` of the tools is one call, and several of the class.
        let write = json!({ "sandbox": sandbox, "path": "/home/user/restarts/large", "content": large });
        let (failed, error) = host.call("s", "write_file", &write);
        let error = error.as_str().unwrap_or_default();
        assert!(failed && error.contains("its first part is gone"), "{sandbox}: {error}");
        assert_eq!(ask(&host, "GET", &at, &[], b"").status, 404, "{sandbox}");
        // The staging file is removed, after the answer.
        let rest = format!("{of}/restarts?archive=tar");
        let is_empty = || ask(&host, "GET", &rest, &[], b"").status == 404;
        for _ in 0..500 {
            if is_empty() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert!(is_empty(), "{sandbox}");
    }
}

/// Returns a tar archive with one entry of each name.
pub(super) fn archive(entries: &[(tar::EntryType, &str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (kind, name, content) in entries {
        let mut header = tar::Header::new_gnu();
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(*kind);
        header.set_mode(0o640);
        header.set_size(content.len() as u64);
        header.set_cksum();
        builder.append(&header, *content).expect("an entry");
    }
    builder.into_inner().expect("an archive")
}

#[test]
fn directories_are_archives() {
    use tar::EntryType::{Char, Regular};
    let host = Host::start();
    let below = "/sessions/s/sandboxes/default/files/home/user";
    let at = format!("{below}/new/%C3%BC?archive=tar");
    assert_eq!(ask(&host, "GET", &at, &[], b"").refusal().0, 404);
    let large = vec![b'x'; 3 << 20];
    let tar = archive(&[(Regular, "d/a b", b"content"), (Regular, "large", &large)]);
    let made = ask(&host, "PUT", &at, &[], &tar);
    assert_eq!((made.status, made.body.as_str()), (201, ""));
    assert_eq!(ask(&host, "GET", &format!("{below}/new/%C3%BC/d/a%20b"), &[], b"").body, "content");
    let whole = ask(&host, "GET", &at, &[], b"");
    assert_eq!((whole.status, whole.header("content-type")), (200, Some("application/x-tar")));
    let mut files = Vec::new();
    for entry in tar::Archive::new(whole.body.as_bytes()).entries().expect("an archive") {
        let entry = entry.expect("an entry");
        files.push((String::from_utf8(entry.path_bytes().into_owned()).unwrap(), entry.size()));
    }
    files.sort();
    let file = |name: &str, size| (name.to_owned(), size);
    assert!(files.contains(&file("./d/a b", 7)) && files.contains(&file("./large", 3 << 20)), "{files:?}");
    assert_eq!(ask(&host, "HEAD", &at, &[], b"").status, 200);
    // A response that comes before the end of a large body may be lost with the connection.
    let tar = archive(&[(Regular, "d/a b", b"content")]);
    let hostile = format!("{below}/none?archive=tar");
    for (method, path, headers, body, status, part) in [
        ("PUT", &at, &[][..], &tar, 400, "is not empty"),
        ("PUT", &hostile, &[("if-none-match", "*")], &tar, 400, "`if-none-match` is not supported"),
        ("PUT", &hostile, &[], &tar[..515].to_vec(), 400, "ends within the entry `d/a b`"),
        (
            "PUT",
            &hostile,
            &[],
            &archive(&[(Regular, "a", b"a"), (Regular, "../b", b"b")]),
            400,
            "`../b` leads outside",
        ),
        (
            "PUT",
            &hostile,
            &[],
            &archive(&[(Regular, "a", b"a"), (Char, "null", b"")]),
            400,
            "`null` is a device",
        ),
        ("PUT", &hostile, &[], &vec![b'x'; 600], 400, "not a tar archive"),
        ("GET", &hostile, &[], &Vec::new(), 404, "not_found"),
        ("GET", &format!("{below}/x?archive=zip"), &[], &Vec::new(), 400, "use `archive=tar`"),
    ] {
        let told = ask(&host, method, path, headers, body);
        assert!(told.status == status && told.body.contains(part), "{method} {path}: {told:?}");
    }
    assert_eq!(ask(&host, "GET", &hostile, &[], b"").status, 404);
}
