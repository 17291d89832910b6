//! The route `files` of `koze mcp --http` with `archive=tar`.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};

use tar::{Archive, Builder, EntryType, Header};

use crate::http::{bearer, send, send_bytes};
use crate::server::{Http, project};

const BELOW: &str = "/sessions/default/sandboxes/default/files/home/user";

fn ask(server: &Http, method: &str, path: &str, headers: &str, body: &[u8]) -> (u16, String) {
    let host = format!("Host: {}\r\n{}", server.address(), bearer(server));
    send(server, &format!("{method} {path}"), &format!("{host}{headers}"), body)
}

/// Returns the body of a response that has no length.
fn get(server: &Http, path: &str) -> (String, Vec<u8>) {
    let host = format!("Host: {}\r\n{}", server.address(), bearer(server));
    let (status, answer) = send_bytes(server, &format!("GET {path}"), &host, b"");
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8_lossy(&answer[..end]).to_lowercase();
    assert_eq!(status, 200, "{head} {}", String::from_utf8_lossy(&answer[end..]));
    assert!(head.contains("transfer-encoding: chunked"), "{head}");
    let (mut body, mut rest) = (Vec::new(), &answer[end + 4..]);
    loop {
        let line = rest.windows(2).position(|two| two == b"\r\n").expect("a chunk");
        let length = usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
        if length == 0 {
            return (head, body);
        }
        body.extend(&rest[line + 2..line + 2 + length]);
        rest = &rest[line + 4 + length..];
    }
}

/// Returns the files of an archive and the targets of its links.
fn files(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in Archive::new(archive).entries().expect("an archive") {
        let mut entry = entry.expect("an entry");
        let name = String::from_utf8(entry.path_bytes().into_owned()).expect("a name in Unicode");
        let mut content = Vec::new();
        entry.read_to_end(&mut content).expect("its content");
        if let Some(target) = entry.link_name_bytes() {
            content = target.into_owned();
        }
        assert!(files.insert(name, content).is_none());
    }
    files
}

fn header(kind: EntryType, name: &str, target: &str, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.as_old_mut().linkname[..target.len()].copy_from_slice(target.as_bytes());
    header.set_entry_type(kind);
    header.set_mode(0o750);
    header.set_size(size);
    header.set_cksum();
    header
}

fn archive(entries: &[(EntryType, &str, &str, &[u8])]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (kind, name, target, content) in entries {
        builder.append(&header(*kind, name, target, content.len() as u64), *content).expect("an entry");
    }
    builder.into_inner().expect("an archive")
}

#[test]
fn a_directory_comes_in_and_goes_out() {
    let host = project();
    let server = Http::start(&host, &[]);
    assert_eq!(
        ask(&server, "GET", &format!("{BELOW}/up?archive=tar"), "", b"").0,
        404,
        "it creates no sandbox"
    );
    let large: Vec<u8> = (0..3_000_001_u32).map(|number| number.to_le_bytes()[1]).collect();
    let tar = archive(&[
        (EntryType::Directory, "d/", "", b""),
        (EntryType::Regular, "d/a b", "", b"content"),
        (EntryType::Symlink, "d/l", "../large", b""),
        (EntryType::Regular, "large", "", &large),
        (EntryType::Directory, "empty/", "", b""),
    ]);
    let at = format!("{BELOW}/new/%C3%BC?archive=tar");
    let (status, told) = ask(&server, "PUT", &at, "", &tar);
    assert_eq!(status, 201, "{told}");
    let (status, told) = ask(&server, "PUT", &at, "", &tar);
    assert!(status == 400 && told.contains("already_exists") && told.contains("/home/user/new/ü"), "{told}");
    let command = r#"{"command": "cd new/ü; stat -c '%a %F %n' d empty 'd/a b'; readlink d/l; cmp large d/l && mkdir ../dir && ls -A .."}"#;
    let listed = host.koze(&["call", "shell", command]);
    let expected = r"750 directory d\n750 directory empty\n750 regular file d/a b\n../large\ndir\nü\n";
    assert!(listed.stdout.contains(expected), "{listed:?}");

    let (head, body) = get(&server, &at);
    assert!(head.contains("content-type: application/x-tar"), "{head}");
    let listed = files(&body);
    let names: Vec<&str> = listed.keys().map(String::as_str).collect();
    assert_eq!(names, ["./", "./d/", "./d/a b", "./d/l", "./empty/", "./large"]);
    assert_eq!((&*listed["./d/a b"], &*listed["./d/l"]), (&b"content"[..], &b"../large"[..]));
    assert!(listed["./large"] == large);
    let (status, head) = ask(&server, "HEAD", &at, "", b"");
    assert!(status == 200 && head.ends_with("\r\n\r\n") && head.contains("application/x-tar"), "{head}");

    // What goes out comes in again, into a directory that is empty.
    let (status, told) = ask(&server, "PUT", &format!("{BELOW}/new/dir?archive=tar"), "", &body);
    assert_eq!(status, 204, "{told}");
    assert_eq!(files(&get(&server, &format!("{BELOW}/new/dir?archive=tar")).1), listed);
}

#[test]
fn a_hostile_archive_creates_nothing() {
    let host = project();
    let server = Http::start(&host, &[]);
    let first = (EntryType::Regular, "first", "", &b"1"[..]);
    let file = EntryType::Regular;
    let mut cases: Vec<(Vec<u8>, &str)> = [
        ((file, "/tmp/x", "", &b"x"[..]), "`/tmp/x` has an absolute name"),
        ((file, "../x", "", b"x"), "`../x` leads outside"),
        ((EntryType::Symlink, "l", "/etc/passwd", b""), "`l` is a link to `/etc/passwd`"),
        ((EntryType::Symlink, "l", "../x", b""), "`l` is a link to `../x`"),
        ((EntryType::Link, "h", "first", b""), "`h` is a hard link"),
        ((EntryType::Char, "null", "", b""), "`null` is a device"),
        ((EntryType::Fifo, "pipe", "", b""), "`pipe` is a pipe"),
        ((EntryType::GNUSparse, "sparse", "", b""), "`sparse` is a sparse file"),
        ((file, "./first", "", b"2"), "`first` occurs more than once"),
        ((file, "first/x", "", b"x"), "`first/x` is below `first`"),
    ]
    .into_iter()
    .map(|(entry, message)| (archive(&[first, entry]), message))
    .collect();
    let whole = archive(&[first, (file, "second", "", &[2; 2000])]);
    cases.push((whole[..3000].to_vec(), "ends within the entry `second`"));
    cases.push((whole[..1024].to_vec(), "ends after the entry `first`"));
    cases.push((header(file, "huge", "", 1 << 50).as_bytes().to_vec(), "/huge"));
    cases.push((header(file, "huge", "", u64::MAX).as_bytes().to_vec(), "`huge` has a size"));
    cases.push((vec![0x1f; 600], "not a tar archive"));
    cases.push((Vec::new(), "no entry and no end"));
    for (body, message) in cases {
        let (status, told) = ask(&server, "PUT", &format!("{BELOW}/up?archive=tar"), "", &body);
        assert!(status == 400 && told.contains(message), "{message}: {told}");
        assert!(!told.contains(".koze-transfer") && !told.contains("state"), "{told}");
    }
    let listed = host.koze(&["call", "shell", r#"{"command": "ls -A /home/user; ls /tmp; echo end"}"#]);
    assert!(listed.stdout.contains(r#""stdout":"end\n""#), "{listed:?}");
}

#[test]
fn archives_fill_existing_directories() {
    let host = project();
    let server = Http::start(&host, &[]);
    let archive = |entries: &[(EntryType, &str, &str, &[u8])]| archive(entries);
    let first = archive(&[(EntryType::Regular, "d/a", "", b"1"), (EntryType::Regular, "b", "", b"1")]);
    // Neither a mount point nor its parent can be replaced.
    for directory in ["/home/user", "/workspace", "/tmp"] {
        let at = format!("{}{directory}?archive=tar", BELOW.trim_end_matches("/home/user"));
        let (status, body) = ask(&server, "PUT", &at, "", &first);
        assert_eq!(status, 204, "{directory}: {body}");
        let (status, body) = ask(&server, "PUT", &at, "", &first);
        assert!(status == 400 && body.contains("merge=true"), "{body}");
        let second = archive(&[(EntryType::Regular, "d/c", "", b"2"), (EntryType::Regular, "b", "", b"2")]);
        assert_eq!(ask(&server, "PUT", &format!("{at}&merge=true"), "", &second).0, 204);
        // Where a directory and a file meet, nothing is merged.
        for (conflict, code) in [("d", "is_directory"), ("b/x", "not_a_directory")] {
            let entries =
                [(EntryType::Regular, "new", "", &b"3"[..]), (EntryType::Regular, conflict, "", b"3")];
            let (status, body) = ask(&server, "PUT", &format!("{at}&merge=true"), "", &archive(&entries));
            assert!(status == 400 && body.contains(code), "{conflict}: {body}");
        }
        let command = format!("cd {directory}; ls -A; cat d/a d/c b");
        let listed = host.koze(&["call", "shell", &format!(r#"{{"command": "{command}"}}"#)]);
        assert!(listed.stdout.contains(r#""stdout":"b\nd\n122""#), "{directory}: {listed:?}");
    }
    let (status, body) = ask(&server, "PUT", &format!("{BELOW}/d?archive=tar&merge=yes"), "", &first);
    assert!(status == 400 && body.contains("`merge=yes`"), "{body}");
}

#[test]
fn what_cannot_be_archived_or_created() {
    let host = project();
    let server = Http::start(&host, &[]);
    assert_eq!(ask(&server, "PUT", &format!("{BELOW}/f"), "", b"f").0, 201);
    let tar = archive(&[(EntryType::Regular, "x", "", b"x")]);
    for (method, path, headers, status, part) in [
        ("GET", "f?archive=tar", "", 400, "not_a_directory"),
        ("PUT", "f?archive=tar", "", 400, "not_a_directory"),
        ("GET", "none?archive=tar", "", 404, "not_found"),
        ("GET", "f?archive=zip", "", 400, "use `archive=tar`"),
        ("PUT", "d?archive=tar", "If-Match: *\r\n", 400, "`if-match` is not supported"),
        ("PUT", "d?archive=tar", "Content-Range: bytes 0-0/1\r\n", 400, "`content-range` is not supported"),
        ("POST", "d?archive=tar", "", 405, "GET, HEAD, PUT, DELETE"),
        ("PUT", "../../usr/x?archive=tar", "", 400, "permission_denied"),
        ("GET", "../..?archive=tar", "", 400, "permission_denied"),
        ("GET", "d?archive=%FF", "", 400, "UTF-8"),
    ] {
        let (told, body) = ask(&server, method, &format!("{BELOW}/{path}"), headers, &tar);
        assert!(told == status && body.contains(part), "{method} {path}: {told} {body}");
    }
    // Without `archive`, other parameters are ignored as before.
    assert_eq!(ask(&server, "GET", &format!("{BELOW}/f?x=y"), "", b"").0, 200);
    let listed = host.koze(&["call", "shell", r#"{"command": "ls -A"}"#]);
    assert!(listed.stdout.contains(r#""stdout":"f\n""#), "{listed:?}");
}

#[test]
fn an_archive_that_is_cut_off_creates_nothing() {
    let host = project();
    let server = Http::start(&host, &[]);
    assert_eq!(ask(&server, "PUT", &format!("{BELOW}/in/f"), "", b"before").0, 201);
    let tar = archive(&[
        (EntryType::Regular, "a", "", b"a"),
        (EntryType::Regular, "b", "", &vec![b'x'; 3_000_000]),
    ]);
    let mut stream = TcpStream::connect(server.address()).expect("it listens");
    let head = format!(
        "PUT {BELOW}/in/d?archive=tar HTTP/1.1\r\nHost: {}\r\n{}Content-Length: {}\r\n\r\n",
        server.address(),
        bearer(&server),
        tar.len()
    );
    stream.write_all(head.as_bytes()).expect("a head");
    stream.write_all(&tar[..2_000_000]).expect("a part of the body");
    stream.shutdown(Shutdown::Both).expect("a connection");
    drop(stream);
    koze_tests::eventually("no staging directory", || {
        let listed = host.koze(&["call", "shell", r#"{"command": "ls -A in; cat in/f"}"#]);
        listed.stdout.contains(r#""stdout":"f\nbefore""#)
    });
}
