//! Directories as archives over HTTP, from a Rust Worker in workerd to its sandboxes and back: what their guests read and
//! create passes through the Worker and its objects.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};

use koze_tests::{eventually, hang_up};
use serde_json::{Value, json};
use tar::{Archive, Builder, EntryType, Header};

use crate::dev::run::Dev;

/// What lists a tree: kinds, modes, names, targets and contents.
const LOOK: &str =
    "find . -printf '%y %m %P -> %l\\n' | LC_ALL=C sort; find . -type f -exec sha256sum {} + | LC_ALL=C sort";

struct Files<'d> {
    url: String,
    token: &'d str,
    agent: ureq::Agent,
}

impl Files<'_> {
    fn send(&self, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url))
            .header("authorization", format!("Bearer {}", self.token))
            .body(body.to_vec())
            .expect("a request");
        let response = self.agent.run(request).expect("an answer");
        let status = response.status().as_u16();
        let body = response.into_body().with_config().limit(1 << 30).read_to_vec().expect("a body");
        (status, body)
    }

    fn run(&self, command: &str) -> String {
        let input =
            json!({ "command": command, "working_dir": "/home/user/w", "max_output_chars": 1_048_576 });
        let input = input.to_string();
        let (status, answer) = self.send("POST", "/sessions/archives/tools/shell", input.as_bytes());
        let answer: Value = serde_json::from_slice(&answer).expect("JSON");
        let output = serde_json::from_str(answer["content"].as_str().expect("a text"));
        let output: Value = output.unwrap_or_else(|_| panic!("{status}: {answer}"));
        assert_eq!(output["exit_code"], 0, "{command}: {output}");
        output["stdout"].as_str().expect("a text").to_owned()
    }

    fn ask(&self, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
        self.send(method, &at(path), body)
    }

    /// Sends the beginning of a request whose body is longer.
    fn begin(&self, method: &str, path: &str, body: &[u8], length: usize) -> TcpStream {
        let address = self.url.trim_start_matches("http://").trim_end_matches('/');
        let mut stream = TcpStream::connect(address).expect("a connection");
        let head = format!(
            "{method} {} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\ncontent-length: {length}\r\n\r\n",
            at(path),
            self.token
        );
        stream.write_all(&[head.as_bytes(), body].concat()).expect("it is sent");
        stream
    }
}

fn at(path: &str) -> String {
    format!("/sessions/archives/sandboxes/default/files/home/user/w/{path}?archive=tar")
}

fn entry(kind: EntryType, name: &str, target: &str, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.as_old_mut().linkname[..target.len()].copy_from_slice(target.as_bytes());
    header.set_entry_type(kind);
    header.set_mode(0o640);
    header.set_size(size);
    header.set_cksum();
    header
}

fn archive(entries: &[(EntryType, &str, &str, &[u8])]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (kind, name, target, content) in entries {
        builder.append(&entry(*kind, name, target, content.len() as u64), *content).expect("an entry");
    }
    builder.into_inner().expect("an archive")
}

/// Checks the archives of a running Worker, in a session of its own.
pub(crate) fn conform(dev: &Dev<'_>, token: &str) {
    // An encoding, which an answer without a body may name as well, would hide the bytes that the Worker sends.
    let agent =
        ureq::Agent::config_builder().http_status_as_error(false).accept_encoding("identity").build().into();
    let files = Files { url: dev.url.clone(), token, agent };
    let begin = archive(&[(EntryType::Directory, "w/", "", b"")]);
    let path = "/sessions/archives/sandboxes/default/files/home/user/w?archive=tar";
    assert_eq!(files.send("PUT", path, &begin).0, 201);
    files.run("rmdir w");
    there_and_back(&files);
    refused(&files);
    broken_off(&files);
}

fn there_and_back(files: &Files<'_>) {
    files.run(
        "mkdir -p t/empty t/d/sub t/shut '日本/ü'; cd t; for n in $(seq 3000); do echo $n > d/$n; done; printf x > 'd/日本 ü'
         head -c 3000000 /dev/urandom > d/sub/large; : > none; ln -s d/1 link; ln -s nowhere/at/all loose; mkfifo pipe
         echo 3 > shut/f; chmod 400 none; chmod 777 empty; chmod 555 shut; chmod 750 .",
    );
    let (status, tar) = files.ask("GET", "t", b"");
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&tar));
    let mut read = Archive::new(&*tar);
    let names = read.entries().expect("an archive").map(|entry| {
        String::from_utf8(entry.expect("an entry").path_bytes().into_owned()).expect("a name in Unicode")
    });
    let names: Vec<String> = names.collect();
    // The files, five directories with the archived one, and the links.
    assert_eq!(names.len(), 3004 + 5 + 2, "{}", names[names.len() - 5..].join(" "));
    assert!(names.iter().any(|name| name == "./d/日本 ü") && !names.iter().any(|name| name.contains("pipe")));
    let (status, told) = files.ask("PUT", "%E6%97%A5%E6%9C%AC/new/u", &tar);
    assert_eq!((status, &*told), (201, &b""[..]), "{}", String::from_utf8_lossy(&told));
    files.run("rm t/pipe");
    assert_eq!(files.run(&format!("cd 日本/new/u; {LOOK}")), files.run(&format!("cd t; {LOOK}")));
    // An empty directory is replaced, one that is not is an error.
    assert_eq!(files.ask("PUT", "%E6%97%A5%E6%9C%AC/%C3%BC", &tar).0, 204);
    // A response that comes before the end of a large body may be lost with the connection.
    let (status, told) = files.ask("PUT", "t", &archive(&[(EntryType::Regular, "f", "", b"")]));
    assert!(status == 400 && String::from_utf8_lossy(&told).contains("already_exists"), "{status}");
    assert_eq!(files.ask("HEAD", "t", b""), (200, Vec::new()));
    files.run("chmod 755 */shut */*/shut */*/*/shut; rm -r t 日本");
}

fn refused(files: &Files<'_>) {
    files.run("mkdir a; echo 1 > a/f");
    let file = EntryType::Regular;
    let content = vec![1; 200_000];
    let first = (file, "first", "", &content[..]);
    let whole = archive(&[first, (file, "second", "", &[2; 2000])]);
    for (body, part) in [
        (archive(&[first, (file, "../x", "", b"x")]), "`../x` leads outside"),
        (archive(&[first, (EntryType::Symlink, "l", "/etc/passwd", b"")]), "`l` is a link to `/etc/passwd`"),
        (archive(&[first, (EntryType::Link, "h", "first", b"")]), "`h` is a hard link"),
        (whole[..202_000].to_vec(), "ends within the entry `second`"),
        (whole[..whole.len() - 1024 - 2048 - 512].to_vec(), "ends after the entry `first`"),
        (entry(file, "huge", "", 1 << 50).as_bytes().to_vec(), "ends within the entry `huge`"),
        (vec![0x1f; 600], "not a tar archive"),
    ] {
        let (status, told) = files.ask("PUT", "up", &body);
        let told = String::from_utf8_lossy(&told);
        assert!(status == 400 && told.contains(part), "{part}: {status} {told}");
        assert!(!told.contains(".koze-transfer") && !told.contains("state"), "{told}");
    }
    for (path, status, part) in [
        ("none", 404, "not_found"),
        ("a/f", 400, "not_a_directory"),
        ("../../../proc", 400, "permission_denied"),
    ] {
        let (got, told) = files.ask("GET", path, b"");
        let told = String::from_utf8_lossy(&told);
        assert!(got == status && told.contains(part), "{path}: {got} {told}");
    }
    assert_eq!(files.run("ls -A; rm -r a"), "a\n", "nothing is left");
}

fn broken_off(files: &Files<'_>) {
    // A client that is gone in the middle, and one that has sent only a part.
    files.run("mkdir t; truncate -s 1G t/large");
    let mut stream = files.begin("GET", "t", b"", 0);
    let mut begin = vec![0; 100_000];
    stream.read_exact(&mut begin).expect("it begins");
    assert!(begin.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&begin[..200]));
    hang_up(stream);
    files.run("rm -r t");

    let tar = archive(&[(EntryType::Regular, "large", "", &vec![7; 4 << 20])]);
    let stream = files.begin("PUT", "up", &tar[..2 << 20], tar.len());
    eventually("it begins", || !files.run("ls .koze-transfer-*/large 2>/dev/null; true").is_empty());
    stream.shutdown(Shutdown::Write).expect("the end of what is sent");
    eventually("it ends", || files.ask("GET", "up", b"").0 == 404);
    drop(stream);
    // It stays usable, and can be repeated.
    assert_eq!(files.ask("PUT", "up", &tar).0, 201);
    assert_eq!(files.run("stat -c %s up/large"), "4194304\n");
}
