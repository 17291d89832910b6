//! Snapshots in a Worker, whose archives are in workerd's R2, and their way to sandboxes on this machine and back.

use std::io::Write as _;
use std::net::TcpStream;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use fs_err as fs;
use koze_tests::{Project, Sandboxes, eventually, hang_up};
use serde_json::{Value, json};

use super::cancellation::ends;
use super::host::{Host, TOKEN};

fn own(host: &Host, action: &str, with: &str, body: &str) -> Result<String, String> {
    host.own("snapshot", &format!("session=s&action={action}&with={with}"), body)
}

/// Returns what the Worker says of a file with these bytes.
fn told(bytes: &[u8]) -> String {
    let sum = bytes.iter().fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(*byte)));
    format!("{} {sum}", bytes.len())
}

fn local() -> Sandboxes {
    let project = Project::new();
    project.write("Cargo.toml", "[package]\nname = \"local\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
    project.write("package.json", "{ \"dependencies\": { \"@cloudflare/sandbox\": \"0.12.10\" } }");
    project.write("src/lib.rs", "");
    let attribute = "#[sandbox(tools = [\"workspace\"], workspace(name = \"box\", shell, snapshot))]";
    let text = format!("use koze::prelude::*;\n\n{attribute}\npub struct BoxSandbox;\n");
    project.write("src/server/box.sandbox.rs", text);
    Sandboxes::of(project)
}

fn koze(local: &Sandboxes, args: &[&str]) -> String {
    let run = local.koze(&[&["snapshot"], args].concat());
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{args:?}");
    run.stdout.trim_end().to_owned()
}

fn call(local: &Sandboxes, operation: &str, input: &Value) -> Value {
    local.call(&format!("workspace__box__{operation}"), input, &["--tools", "workspace"])
}

#[test]
fn a_snapshot_is_restored_in_workerd() {
    let host = Host::with_bucket();
    own(&host, "write", "", "日本/a b").unwrap();
    let id = own(&host, "create", "", "").unwrap();
    own(&host, "write", "", "later").unwrap();
    let restored = own(&host, "restore", &id, "").unwrap();
    assert!(restored.starts_with("box-restored-"), "{restored}");
    assert_eq!(own(&host, "read", &restored, "日本/a b").unwrap(), told(b"content"));
    assert!(own(&host, "read", &restored, "later").unwrap_err().starts_with("not_found: "));
    assert_eq!(own(&host, "list", "", "").unwrap(), id);
    assert_eq!(own(&host, "remove", &id, "").unwrap(), "true");
    assert!(own(&host, "restore", &id, "").unwrap_err().starts_with("not_found: there is no snapshot"));
    assert_eq!(own(&host, "list", "", "").unwrap(), "");
}

fn shell(host: &Host, sandbox: &str, command: &str) -> String {
    let (failed, value) = host.call("s", "shell", &json!({ "sandbox": sandbox, "command": command }));
    assert!(!failed, "{value}");
    value["stdout"].as_str().expect("a text").to_owned()
}

/// Returns the restored sandboxes.
fn restored(host: &Host) -> Vec<String> {
    let (failed, list) = host.call("s", "sandbox_list", &json!({}));
    assert!(!failed, "{list}");
    let names = list["sandboxes"].as_array().expect("a list").iter();
    let names = names.map(|one| one["name"].as_str().expect("a name").to_owned());
    names.filter(|name| name.starts_with("box-restored-")).collect()
}

#[test]
fn a_snapshot_makes_the_same_number_of_calls_for_any_number_of_files() {
    let host = Host::with_bucket();
    own(&host, "write", "", "first").unwrap();
    let calls = |sandbox: &str| shell(&host, sandbox, "calls").parse::<u32>().expect("a number");
    let take = |files: u32| {
        shell(&host, "box", &format!("fill {files} /workspace"));
        let before = calls("box");
        let id = own(&host, "create", "", "").unwrap();
        let taken = calls("box") - before - 1;
        let restored = own(&host, "restore", &id, "").unwrap();
        let made = calls(&restored) - 1;
        let last = files - 1;
        let read = own(&host, "read", &restored, &format!("tree/d/{last}"));
        assert_eq!(read.unwrap(), told(last.to_string().as_bytes()));
        assert_eq!(shell(&host, &restored, "archives"), "1 1");
        (taken, made)
    };
    let few = take(20);
    assert_eq!(take(3000), few);
    assert!(few.0 <= 2 && few.1 <= 6, "{few:?}");
}

#[test]
fn a_restore_that_fails_leaves_no_sandbox() {
    let host = Host::with_bucket();
    own(&host, "write", "", "no-room").unwrap();
    let id = own(&host, "create", "", "").unwrap();
    let error = own(&host, "restore", &id, "").unwrap_err();
    assert_eq!(error, "too_large: the disk is full");
    assert_eq!(restored(&host), [""; 0]);
    // If its client is gone, the sandbox stops reading. A later restore destroys it.
    own(&host, "write", "", "slow").unwrap();
    let id = own(&host, "create", "", "").unwrap();
    let address = host.url().trim_start_matches("http://").trim_end_matches('/').to_owned();
    let mut stream = TcpStream::connect(address).expect("a connection");
    let head = format!(
        "POST /own/snapshot?session=s&action=restore&with={id} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {TOKEN}\r\n\
         content-length: 0\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("all of it is sent");
    let name = || restored(&host).pop();
    eventually("it is created", || name().is_some_and(|name| shell(&host, &name, "archives") == "1 1"));
    hang_up(stream);
    let name = name().expect("the sandbox");
    eventually("it ends", || ends(&host, "s", &name).ends_with("not extracted"));
}

#[test]
fn a_missing_bucket_is_named() {
    let bindings = json!({ "KOZE_TOKEN": super::host::TOKEN });
    let host = Host::with(&json!({ "bindings": bindings, "registry": true }));
    let missing = own(&host, "create", "", "").unwrap_err();
    let expected = "unsupported: the workspace `box` failed: it declares the capability `snapshot`, but the Worker has no R2 \
                    bucket `BLOBS`: add it to `r2_buckets`, and deploy again";
    assert_eq!(missing, expected);
    let missing = own(&Host::start(), "create", "", "").unwrap_err();
    assert!(missing.contains("set `registry = true`"), "{missing}");
}

/// The archive is large enough to be uploaded in parts.
#[test]
fn a_snapshot_of_this_machine_is_restored_in_workerd_and_back() {
    let (host, local) = (Host::with_bucket(), local());
    let fill = "mkdir -p src/日本; echo one > 'src/日本/a b'; head -c 12000000 /dev/urandom > large";
    call(&local, "run", &json!({ "command": fill }));
    let large = |workspace: Option<&str>| {
        let mut input = json!({ "command": "sha256sum < large" });
        if let Some(workspace) = workspace {
            input["workspace"] = workspace.into();
        }
        call(&local, "run", &input)["stdout"].clone()
    };
    let id = koze(&local, &["create"]);
    koze(&local, &["export", &id, "box.tar.zst"]);
    let archive = fs::read(local.path("box.tar.zst")).expect("the file");
    assert!(archive.len() > 12_000_000);

    let imported = own(&host, "import", "", &BASE64.encode(&archive)).unwrap();
    let restored = own(&host, "restore", &imported, "").unwrap();
    assert_eq!(own(&host, "read", &restored, "src/日本/a b").unwrap(), told(b"one\n"));
    let damaged = own(&host, "import", "", &BASE64.encode(&archive[..archive.len() - 1])).unwrap_err();
    assert!(damaged.starts_with("invalid_input: "), "{damaged}");
    assert_eq!(own(&host, "list", "", "").unwrap(), imported);

    // A snapshot of what was restored in workerd goes back, and has the same content.
    let again = own(&host, "create", &restored, "").unwrap();
    let bytes = BASE64.decode(own(&host, "export", &again, "").unwrap()).expect("base64");
    fs::write(local.path("back.tar.zst"), bytes).expect("it is written");
    let back = koze(&local, &["import", "back.tar.zst"]);
    let workspace = koze(&local, &["restore", &back]);
    assert_eq!(large(Some(&workspace)), large(None));
    let read = json!({ "path": "src/日本/a b", "workspace": workspace });
    assert_eq!(call(&local, "read_file", &read)["content"], "one\n");
}
