//! Sandboxes whose root is an image, beside those that have this machine's programs, and how fast an image is unpacked.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use koze_core::provider::{LocalImage, Profile, Size};
use koze_core::{Profiles, Sandbox as _, Session, SessionId};
use koze_image::{Reference, Store};
use koze_local::Local;
use serde_json::{Value, json};

use super::loaded::list_loaded;
use super::{call, children, kib, row};

/// The name of the image of the sandboxes.
const NAME: &str = "localhost/bench:1";
/// The programs in it.
const PROGRAMS: [&str; 3] = ["bash", "sh", "true"];
/// What the image that is unpacked has of this machine: many small files, and some large ones.
const TREES: [&str; 3] = ["usr/bin", "usr/lib/python3", "usr/share/doc"];
/// How many sandboxes of one image live at once.
const MANY: usize = 100;

pub(super) async fn measure(quick: bool, rows: &mut Vec<Value>, notes: &mut Vec<String>) {
    let place = tempfile::tempdir().expect("a temporary directory");
    unpack(place.path(), if quick { 2 } else { 5 }, rows);
    let images = place.path().join("images");
    let saved = save(place.path(), Links::Followed, &list_programs());
    import(&images, &saved);
    let local =
        Local::new(place.path().join("state")).expect("sandboxes on this machine").with_images(images);
    run(&local, if quick { 20 } else { 100 }, rows).await;
    notes.push(many(&local, &place.path().join("state")).await);
}

/// Compares with `tar` and its `gzip`, which unpack the same layer.
fn unpack(place: &Path, runs: usize, rows: &mut Vec<Value>) {
    let trees: Vec<String> =
        TREES.into_iter().filter(|tree| Path::new("/").join(tree).exists()).map(str::to_owned).collect();
    let saved = save(place, Links::Kept, &trees);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for number in 0..=runs {
        let images = place.join(format!("unpacked-{number}"));
        rustix::fs::sync();
        let start = Instant::now();
        import(&images, &saved);
        ours.push(start.elapsed());
        fs::remove_dir_all(&images).expect("a directory");

        let into = place.join("by-tar");
        fs::create_dir(&into).expect("a directory");
        rustix::fs::sync();
        let start = Instant::now();
        tar(&["-xzf", "layer.tar.gz", "-C", "by-tar"], place);
        theirs.push(start.elapsed());
        fs::remove_dir_all(&into).expect("a directory");
    }
    rows.push(row("unpack an image of one layer", &ours[1..], "tar -xz of the layer", Some(&theirs[1..])));
}

/// Compares with sandboxes that have this machine's programs.
async fn run(local: &Local, runs: usize, rows: &mut Vec<Value>) {
    let [on_image, on_host] = [LocalImage::Stored, LocalImage::Host].map(|files| session(local, files, 2));
    let mut first = [Vec::new(), Vec::new()];
    let mut warm = [Vec::new(), Vec::new()];
    for _ in 0..=runs {
        for (index, session) in [&on_image, &on_host].into_iter().enumerate() {
            let input = || json!({ "command": "true", "sandbox": "new" });
            let start = Instant::now();
            call(session, "shell", input()).await;
            first[index].push(start.elapsed());
            let start = Instant::now();
            call(session, "shell", input()).await;
            warm[index].push(start.elapsed());
            session.sandbox("new").await.expect("it is there").destroy().await.expect("it goes");
        }
    }
    let peer = "the same on this machine's";
    rows.push(row("create on an image, first `true`", &first[0][1..], peer, Some(&first[1][1..])));
    rows.push(row("shell `true` on an image, warm", &warm[0][1..], peer, Some(&warm[1][1..])));
}

/// What many sandboxes of one image take.
async fn many(local: &Local, state: &Path) -> String {
    let session = session(local, LocalImage::Stored, MANY);
    let before = (slab(), disk(state));
    for number in 0..MANY {
        call(&session, "shell", json!({ "command": "true", "sandbox": format!("s{number}") })).await;
    }
    let guests: Vec<u64> = children().into_iter().map(|pid| kib(&format!("{pid}"), "RssAnon:")).collect();
    let (count, per) = (guests.len() as u64, MANY as u64);
    format!(
        "{MANY} sandboxes of one image: {} KB of memory of each guest's own, {} KB of kernel slab and {} KB of disk each",
        guests.iter().sum::<u64>() / count.max(1),
        slab().saturating_sub(before.0) / per,
        disk(state).saturating_sub(before.1) / per,
    )
}

fn session(local: &Local, files: LocalImage, at_most: usize) -> Session<Local> {
    let profile = Profile::new("shell", NAME, Size { memory_mib: 1024, disk_mb: 4000 });
    let profiles = Profiles::new(vec![profile], "shell").expect("one of them").with_local_image(files);
    let name = SessionId::new("bench", format!("{files:?}-{at_most}")).expect("a name");
    Session::new(local.clone(), name, profiles).with_max_sandboxes(at_most)
}

/// Returns the programs, their libraries and the loader, relative to the root.
fn list_programs() -> Vec<String> {
    let programs = PROGRAMS.map(|name| PathBuf::from("/usr/bin").join(name));
    let mut files = list_loaded(&programs);
    files.extend(programs);
    files.iter().map(|path| path.to_string_lossy().trim_start_matches('/').to_owned()).collect()
}

/// What becomes of symbolic links. Directories of this machine have links in circles, which must not be followed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Links {
    Kept,
    Followed,
}

/// Writes an archive as `docker save` does, with one layer of these files of this machine. Returns its path.
fn save(place: &Path, links: Links, files: &[String]) -> PathBuf {
    let mut args = vec!["-cf", "layer.tar", "-C", "/"];
    if links == Links::Followed {
        args.push("--dereference");
    }
    args.extend(files.iter().map(String::as_str));
    tar(&args, place);
    let digest = Command::new("sha256sum").arg("layer.tar").current_dir(place).output().expect("sha256sum");
    let digest = String::from_utf8(digest.stdout).expect("a text");
    let digest = digest.split(' ').next().expect("a digest");
    let gzip = Command::new("gzip").args(["-f", "layer.tar"]).current_dir(place).status();
    assert!(gzip.is_ok_and(|status| status.success()), "gzip");
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let rootfs = json!({ "type": "layers", "diff_ids": [format!("sha256:{digest}")] });
    let config = json!({ "os": "linux", "architecture": architecture, "rootfs": rootfs, "config": {} });
    let manifest = json!([{ "Config": "config.json", "RepoTags": [NAME], "Layers": ["layer.tar.gz"] }]);
    fs::write(place.join("config.json"), config.to_string()).expect("a file");
    fs::write(place.join("manifest.json"), manifest.to_string()).expect("a file");
    tar(&["-cf", "saved.tar", "manifest.json", "config.json", "layer.tar.gz"], place);
    place.join("saved.tar")
}

fn import(images: &Path, saved: &Path) {
    let name: Reference = NAME.parse().expect("a name");
    let store = Store::open(images).expect("a store");
    store.import(saved, Some(&name), &|_| {}).expect("an image");
}

fn tar(args: &[&str], place: &Path) {
    let done = Command::new("tar").args(args).current_dir(place).status();
    assert!(done.is_ok_and(|status| status.success()), "tar {args:?}");
}

/// The kernel's slab, in KiB.
fn slab() -> u64 {
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = memory.lines().find_map(|line| line.strip_prefix("Slab:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse().ok()).unwrap_or_default()
}

/// The disk that a directory takes, in KiB.
fn disk(directory: &Path) -> u64 {
    let measured = Command::new("du").args(["-sk"]).arg(directory).output().expect("du");
    let printed = String::from_utf8(measured.stdout).expect("a text");
    printed.split_whitespace().next().and_then(|text| text.parse().ok()).unwrap_or_default()
}
