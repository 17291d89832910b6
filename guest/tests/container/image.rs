//! Minimal images, and the committed guest.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use flate2::read::GzDecoder;
use serde_json::json;

use crate::Test;
use crate::client::{at, exec, write};
use crate::stage::{How, Stage, is_root};

pub(crate) const TESTS: &[Test] = &[
    ("an_image_with_only_the_guest", nothing_else),
    ("a_container_without_proc", no_proc),
    ("the_committed_guest_is_of_this_version", committed),
    ("an_unprivileged_user", plain_user),
];

/// Writes the guest that `koze build` adds to images.
fn copied(to: &Path) {
    let packed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../templates/files/guest/koze-guest-x86_64.gz");
    let packed = fs::File::open(packed).expect("run `cargo xtask guest`");
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    std::io::copy(&mut GzDecoder::new(packed), &mut fs::File::create(to).unwrap()).unwrap();
    fs::set_permissions(to, fs::Permissions::from_mode(0o755)).unwrap();
}

fn committed() {
    let dir = tempfile::tempdir().unwrap();
    let guest = dir.path().join("guest");
    copied(&guest);
    let (code, out, _) = How::new().binary(&guest).arguments(&["--version"]).run();
    let version = concat!("koze-guest ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!((code, &*out), (Some(0), version), "run `cargo xtask guest`");
    let stage = How::new().binary(&guest).start();
    let client = stage.client();
    assert_eq!(client.sh("echo on"), "on");
    client.ask_with(&write(&stage.path("file"), false), &vec![7; 500_000]).ok();
    assert_eq!(fs::read(stage.path("file")).unwrap(), vec![7; 500_000]);
    // A release build does not support leaving out protections.
    let weak = How::new().binary(&guest).weak("memory,environment,capabilities").start();
    let environment = format!("/proc/{}/environ", weak.pid().as_raw_pid());
    let readable = fs::read_to_string(environment).unwrap_or_default();
    assert!(!readable.contains(crate::stage::TOKEN));
}

/// An image without a shell, libraries, or directories other than those that every container has.
fn nothing_else() {
    let image = tempfile::tempdir().unwrap();
    let root = image.path();
    for directory in ["proc", "dev"] {
        fs::create_dir(root.join(directory)).unwrap();
    }
    fs::write(root.join("dev/null"), "").unwrap();
    copied(&root.join(".koze/guest"));
    let stage = How::new()
        .clear()
        .unshare([format!("--root={}", root.display()), "--mount-proc=/proc".into()])
        .binary("/.koze/guest")
        .start();
    let client = stage.client();
    let version = client.ask(&exec(&["/.koze/guest", "--version"]));
    assert_eq!(version.out, concat!("koze-guest ", env!("CARGO_PKG_VERSION"), "\n").as_bytes());
    assert_eq!(client.why(&exec(&["sh", "-c", "true"])), "not_found");
    client.ask_with(&write("/home/user/file", false), b"abc").ok();
    client.ask_with(&write("/home/user/file", true), &vec![b'd'; 2_000_000]).ok();
    assert_eq!(client.ok(&json!({ "stat": at("/home/user/file") }))["size"], 2_000_003);
    assert_eq!(fs::metadata(root.join("home/user/file")).unwrap().len(), 2_000_003);
    client.ok(&json!({ "remove": at("/home") }));
    assert!(!root.join("home").exists());
}

fn no_proc() {
    let gone = ["sh", "-c", "while umount -l /proc 2> /dev/null; do :; done; exec \"$0\""];
    let stage = How::new().before(&gone).start();
    stage.printed("the container has no /proc");
    let answer = stage.client().ask(&exec(&["true"])).answer;
    assert_eq!(answer["failed"]["why"], "unsupported");
    assert!(answer["failed"]["text"].as_str().unwrap().contains("/proc"), "{answer}");
}

/// An image whose user is not root.
fn plain_user() {
    if !is_root() {
        // The other tests then cover this.
        return;
    }
    let user = ["setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups", "--"];
    let stage: Stage = How::new().before(&user).start();
    fs::set_permissions(stage.dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let client = stage.client();
    assert_eq!(
        client.sh("id -u; id -g; grep -E 'Cap(Prm|Eff)|NoNewPrivs' /proc/self/status | cut -f2"),
        ["1000", "1000", "0000000000000000", "0000000000000000", "1",].join("\n")
    );
    client.ask_with(&write(&stage.path("file"), false), b"abc").ok();
    assert_eq!(client.why(&json!({ "remove": at("/etc/passwd") })), "permission_denied");
}
