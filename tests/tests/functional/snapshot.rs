//! `koze snapshot`.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use insta::assert_snapshot;
use koze_tests::{Project, Run, Sandboxes};
use serde_json::{Value, json};

/// A project whose workspaces are `box`, with at most three snapshots, and `plain`, without snapshots.
fn host() -> Sandboxes {
    let project = Project::new();
    project.write("Cargo.toml", "[package]\nname = \"called\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
    project.write("package.json", "{ \"dependencies\": { \"@cloudflare/sandbox\": \"0.12.10\" } }");
    project.write("src/lib.rs", "");
    for (name, keys) in [("box", "snapshot(bucket = \"BACKUPS\", max_count = 3), shell"), ("plain", "shell")]
    {
        let class = format!("{}{}Sandbox", name[..1].to_uppercase(), &name[1..]);
        let text = format!(
            "use koze::prelude::*;\n\n#[sandbox(tools = [\"workspace\"], workspace({keys}))]\npub struct {class};\n"
        );
        project.write(format!("src/server/{name}.sandbox.rs"), text);
    }
    Sandboxes::of(project)
}

fn call(host: &Sandboxes, operation: &str, input: &Value) -> Value {
    host.call(&format!("workspace__box__{operation}"), input, &["--tools", "workspace"])
}

#[track_caller]
fn ok(host: &Sandboxes, args: &[&str]) -> String {
    let run = host.koze(&[&["snapshot"], args].concat());
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{args:?}");
    run.stdout.trim_end().to_owned()
}

#[track_caller]
fn refused(host: &Sandboxes, args: &[&str]) -> String {
    let Run { code, stdout, stderr } = host.koze(&[&["snapshot"], args].concat());
    assert_eq!((code, stdout.as_str()), (1, ""), "{args:?}");
    stderr
}

fn list(host: &Sandboxes) -> Vec<Value> {
    let list: Value = serde_json::from_str(&ok(host, &["list", "--format", "json"])).expect("JSON");
    list["snapshots"].as_array().expect("a list").clone()
}

#[test]
fn listing_creates_nothing() {
    let host = host();
    assert_snapshot!(ok(&host, &["list"]), @"no snapshots: `koze snapshot create` takes one");
    assert!(host.state().is_none());
    assert!(host.supervisors().is_empty());
}

#[test]
fn a_snapshot_travels_through_a_file_to_another_session() {
    let host = host();
    call(&host, "write_file", &json!({ "path": "日本/a b", "content": "content" }));
    let links = "ln -s '日本/a b' link; mkdir empty; truncate -s 2M sparse; mkfifo pipe; chmod 751 日本; echo x > '日本/a b'x";
    call(&host, "run", &json!({ "command": links }));
    let id = ok(&host, &["create"]);
    let listed = &list(&host)[0];
    assert_eq!(listed["id"], id.as_str());
    assert_eq!(listed["contents"], json!({ "entries": 6, "bytes": 2_097_161, "skipped": 1 }));
    assert_eq!((&listed["expired"], &listed["session"]), (&json!(false), &json!("default")));
    let words = ok(&host, &["list"]);
    assert!(words.starts_with("SNAPSHOT") && words.contains(&id) && words.ends_with("never"), "{words}");

    let file = host.dir().join("box.tar.zst");
    let path = file.to_str().expect("a path in Unicode");
    assert!(ok(&host, &["export", &id, path]).starts_with("wrote [PROJECT]/box.tar.zst, "));
    let other = ["--session", "other"];
    let imported = ok(&host, &[&["import", path], &other[..]].concat());
    assert_ne!(imported, id);
    let restored = ok(&host, &[&["restore", &imported], &other[..]].concat());
    assert!(restored.starts_with("box-restored-"), "{restored}");
    let run = |command: &str| {
        let input = json!({ "command": command, "workspace": restored });
        let with = ["--tools", "workspace", "--session", "other"];
        host.call("workspace__box__run", &input, &with)["stdout"].as_str().expect("a text").to_owned()
    };
    let expected = "content\nempty\nlink\nsparse\n日本\n751\n644\n2097152\n日本/a b\n";
    let look = "cat link; echo; ls; stat -c %a 日本 sparse; stat -c %s sparse; readlink link; test -d empty";
    assert_eq!(run(look), expected);

    // A damaged file adds nothing.
    let bytes = fs::read(&file).expect("the file");
    for damaged in
        [&bytes[..bytes.len() - 1], &bytes[..100], &b"text"[..], &[bytes.as_slice(), b"x"].concat()]
    {
        fs::write(&file, damaged).expect("it is written");
        let error = refused(&host, &["import", path]);
        assert!(error.starts_with("error[invalid_input]: "), "{error}");
    }
    assert_eq!(list(&host).len(), 1);
    // An export that fails leaves no file, and what was there stays.
    let error = refused(&host, &["export", &imported, path]);
    assert!(error.starts_with("error[not_found]: there is no snapshot"), "{error}");
    assert_eq!(fs::read(&file).expect("the file"), [bytes.as_slice(), b"x"].concat());

    let branch = ok(&host, &["branch", &id]);
    assert!(branch.starts_with("box-branch-"), "{branch}");
    assert_eq!(ok(&host, &["rm", &id]), format!("removed {id}"));
    let error = refused(&host, &["rm", &id]);
    assert!(error.starts_with("error[not_found]: the workspace `box` has no snapshot"), "{error}");
    assert_snapshot!(ok(&host, &["list"]), @"no snapshots: `koze snapshot create` takes one");
}

#[test]
fn a_workspace_is_selected() {
    let host = host();
    assert_snapshot!(refused(&host, &["list", "--workspace", "plain"]), @"error[not_found]: no workspace `plain` has snapshots: it is one of box");
    assert_snapshot!(refused(&host, &["restore", "x"]), @"error[invalid_input]: a snapshot's ID must be `snap_` and 32 lowercase hexadecimal digits: use one that `snapshot` returned");
    assert_snapshot!(refused(&host, &["import", "none"]), @"error[invalid_input]: `none` cannot be read: No such file or directory (os error 2)");
}

/// Runs a command, and kills the supervisor once it has begun. Returns whether the command failed.
fn interrupted(host: &Sandboxes, args: &[&str], begun: impl Fn() -> bool) -> bool {
    let mut command = host.command(&[&["snapshot"], args].concat());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("koze starts");
    let pause = Duration::from_millis(1);
    let deadline = Instant::now() + Duration::from_mins(1);
    while !begun() && Instant::now() < deadline {
        thread::sleep(pause);
    }
    host.kill_supervisors();
    !child.wait_with_output().expect("it ends").status.success()
}

/// Returns the archives and layers of the store, complete and incomplete ones.
fn kept(host: &Sandboxes) -> usize {
    let Some(state) = host.state() else { return 0 };
    let sessions = fs::read_dir(host.path(state).join("sessions")).expect("sessions").flatten();
    let places = sessions.flat_map(|session| ["blobs", "layers"].map(|place| session.path().join(place)));
    let entries = places.filter_map(|place| fs::read_dir(place).ok()).flatten().flatten();
    entries.filter(|entry| entry.file_name() != "lock").count()
}

fn sandboxes(host: &Sandboxes) -> Vec<String> {
    let state = host.path(host.state().expect("there are sandboxes")).join("sessions");
    let sessions = fs::read_dir(state).expect("sessions").flatten();
    sessions
        .flat_map(|session| koze_local::Local::look(session.path()).expect("its sandboxes"))
        .map(|(_, info)| info.name.to_string())
        .collect()
}

/// SIGKILL in the middle of a snapshot and of a restore.
#[test]
fn a_killed_supervisor_leaves_nothing_half() {
    let host = host();
    let fill = "for i in $(seq 800); do head -c 20000 /dev/urandom > f$i; done";
    call(&host, "run", &json!({ "command": fill }));
    let sum = || {
        let sum = "cat f* | sha256sum; ls -la | grep -c f";
        call(&host, "run", &json!({ "command": sum }))["stdout"].as_str().expect("a text").to_owned()
    };
    let before = sum();
    // A quick machine may be done before it is killed.
    let is_interrupted = (0..10).any(|_| {
        if interrupted(&host, &["create"], || kept(&host) > 0) {
            return true;
        }
        for snapshot in list(&host) {
            ok(&host, &["rm", snapshot["id"].as_str().expect("an ID")]);
        }
        false
    });
    assert!(is_interrupted, "it was killed in the middle");
    assert_eq!(list(&host), Vec::<Value>::new());
    assert_eq!(sum(), before);
    let id = ok(&host, &["create"]);
    assert_eq!((list(&host).len(), kept(&host)), (1, 1), "what was half is deleted");

    // An archive is unpacked, which takes a while.
    let exported = host.path("box.tar.zst");
    let path = exported.to_str().expect("a path in Unicode");
    ok(&host, &["export", &id, path]);
    let id = ok(&host, &["import", path]);
    let restored = || sandboxes(&host).into_iter().find(|name| name.starts_with("box-restored-"));
    assert!(interrupted(&host, &["restore", &id], || restored().is_some()), "it was killed in the middle");
    let half = restored().expect("the sandbox exists");
    let input = json!({ "path": ".", "workspace": half }).to_string();
    let run = host.koze(&["call", "workspace__box__ls", &input, "--tools", "workspace"]);
    assert!(run.code == 1 && run.stdout.starts_with("not_found: "), "it is not handed out: {run:?}");
    assert_eq!(sum(), before);
    let whole = ok(&host, &["restore", &id]);
    let input = json!({ "command": "cat f* | sha256sum; ls -la | grep -c f", "workspace": whole });
    assert_eq!(call(&host, "run", &input)["stdout"], before);
}

/// A small file system for the state of koze. Dropping it unmounts it.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: PathBuf, size: &str) -> Self {
        fs::create_dir_all(&at).expect("a directory");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size},mode=700"), "tmpfs"]).arg(&at);
        assert!(mount.status().expect("mount runs").success(), "only root can mount a file system");
        SmallDisk(at)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily, because a supervisor may still use it.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// A snapshot and an import that do not fit on the disk of this machine.
#[test]
fn a_full_disk_leaves_nothing_half() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("left out: only root can mount a small file system");
        return;
    }
    let other = host();
    call(&other, "run", &json!({ "command": "head -c 6000000 /dev/urandom > large" }));
    let id = ok(&other, &["create"]);
    let file = other.path("large.tar.zst");
    let file = file.to_str().expect("a path in Unicode");
    ok(&other, &["export", &id, file]);

    let host = host();
    let _disk = SmallDisk::mount(host.path("state"), "6m");
    call(&host, "run", &json!({ "command": "head -c 4000000 /dev/urandom > f" }));
    let sum = || call(&host, "run", &json!({ "command": "sha256sum f" }))["stdout"].clone();
    let before = sum();
    for args in [&["create"][..], &["import", file]] {
        let error = refused(&host, args);
        assert!(error.starts_with("error["), "{error}");
        assert!(!error.contains(host.dir().to_str().unwrap()), "{error}");
        assert_eq!((list(&host), kept(&host)), (Vec::new(), 0), "{args:?}: {error}");
        assert_eq!(sum(), before);
    }
    // What fits is still taken.
    call(&host, "run", &json!({ "command": "truncate -s 1000000 f" }));
    ok(&host, &["create"]);
    assert_eq!(list(&host).len(), 1);
}
