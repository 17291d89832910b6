//! Attempts of a cloned repository to make koze write outside of it, wait for it, or run its programs.
//!
//! Each is a package in a temporary directory, next to a directory of the user, and is built or checked twice: as it is,
//! and without the protection, where it must change what is in the user's directory.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use koze_local::prove::Verdict;
use rustix::fs::{Mode, inotify};
use rustix::io::Errno;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::build::{self, Build, Options};
use crate::doctor::tools;
use crate::draft::Draft;
use crate::finding::Findings;
use crate::paths;
use crate::write::beneath;

/// An attempt.
pub(super) struct Attempt {
    /// Its name.
    pub(super) name: &'static str,
    /// What it attempts.
    pub(super) tries: &'static str,
    prepare: fn(&Place) -> io::Result<()>,
    /// What the user does in the package, with the protection left out or not.
    use_package: fn(&Place, bool),
}

/// All attempts.
pub(super) const ATTEMPTS: [Attempt; 5] = [
    Attempt {
        name: "journal_of_a_cloned_repository",
        tries: "create a file outside a package with a journal in it",
        prepare: forge_journal,
        use_package: build_package,
    },
    Attempt {
        name: "lock_of_a_cloned_repository",
        tries: "rewrite a configuration outside a package that its koze.lock names",
        prepare: forge_lock,
        use_package: build_package,
    },
    Attempt {
        name: "links_of_a_cloned_repository",
        tries: "create files outside a package through a symbolic link in it",
        prepare: link_generated,
        use_package: build_package,
    },
    Attempt {
        name: "pipe_of_a_cloned_repository",
        tries: "make koze open a pipe, on which it could wait without end, as the koze.lock of a package",
        prepare: make_pipe,
        use_package: build_beside_pipe,
    },
    Attempt {
        name: "program_of_a_cloned_repository",
        tries: "make `koze doctor` run a program of the package as Node",
        prepare: write_node,
        use_package: check_node,
    },
];

/// A package, and a directory of the user.
struct Place {
    package: PathBuf,
    user: PathBuf,
}

/// The pipe, in the package.
const PIPE: &str = "koze.lock";
const MANIFEST: &str = "[package]\nname = \"cloned\"\nversion = \"0.1.0\"\n\n[workspace]\n";
const SANDBOX: &str =
    "#[sandbox(backend = \"native\", image = \"debian:12-slim\")]\npub struct ShellSandbox;\n";

impl Attempt {
    /// Makes the attempt and its control in new directories in `dir`.
    pub(super) fn prove(&self, dir: &Path) -> Verdict {
        let outcome = || -> io::Result<Verdict> {
            if self.changes_the_users_files(dir, false)? {
                return Ok(Verdict::Open("files outside the package have changed".to_owned()));
            }
            let succeeds = self.changes_the_users_files(dir, true)?;
            let text = "it was refused, but without koze's protection, too";
            Ok(if succeeds { Verdict::Held } else { Verdict::NotTestable(text.to_owned()) })
        };
        outcome().unwrap_or_else(|error| Verdict::NotTestable(error.to_string()))
    }

    /// Uses the package. Returns whether the user's files have changed.
    fn changes_the_users_files(&self, dir: &Path, is_control: bool) -> io::Result<bool> {
        let dir = tempfile::tempdir_in(dir)?;
        let top = paths::canonical(dir.path())?;
        let place = Place { package: top.join("package"), user: top.join("user") };
        fs::create_dir_all(place.package.join("src"))?;
        fs::create_dir(&place.user)?;
        fs::write(place.package.join("Cargo.toml"), MANIFEST)?;
        fs::write(place.package.join("src/lib.rs"), "mod generated;\n")?;
        fs::write(place.package.join("src/shell.sandbox.rs"), SANDBOX)?;
        (self.prepare)(&place)?;
        let before = read_all(&place.user)?;
        (self.use_package)(&place, is_control);
        Ok(read_all(&place.user)? != before)
    }
}

/// Builds a package. A refused build is an error, which is what should happen.
fn build_package(place: &Place, is_control: bool) {
    let options = Options {
        project: place.package.clone(),
        config: None,
        sdk: None,
        draft: Draft::default(),
        write: true,
        worker: true,
        directory_lock: None,
        staged: true,
    };
    let build = || build::run(&options, &mut Build::default(), &mut Findings::new(false));
    let _ = if is_control { beneath::without_protection(build) } else { build() };
}

/// Returns the files of a directory.
fn read_all(dir: &Path) -> io::Result<BTreeMap<PathBuf, Vec<u8>>> {
    let files = walkdir::WalkDir::new(dir).into_iter().filter_map(Result::ok);
    let files = files.filter(|entry| entry.file_type().is_file());
    files.map(|entry| Ok((entry.path().to_owned(), fs::read(entry.path())?))).collect()
}

fn forge_journal(place: &Place) -> io::Result<()> {
    let content = "theirs";
    let staged = place.package.join(".new.abcdef.koze-tmp");
    fs::write(&staged, content)?;
    let digest = Sha256::digest(content);
    let hash = digest.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    let file = json!({ "path": place.user.join("new"), "staged": staged, "before": null, "after": hash });
    let journal = json!({ "package": place.package, "files": [file] });
    fs::write(place.package.join(".koze-journal"), journal.to_string())
}

fn forge_lock(place: &Place) -> io::Result<()> {
    fs::write(place.user.join("mine.jsonc"), "{ \"name\": \"mine\" }\n")?;
    fs::write(place.package.join("koze.lock"), "version = 1\nconfig = \"../user/mine.jsonc\"\n")
}

fn link_generated(place: &Place) -> io::Result<()> {
    symlink(&place.user, place.package.join("src/generated"))
}

fn make_pipe(place: &Place) -> io::Result<()> {
    Ok(rustix::fs::mkfifoat(rustix::fs::CWD, place.package.join(PIPE), Mode::RUSR | Mode::WUSR)?)
}

/// Builds a package. Leaves a file with the user if its pipe was opened.
fn build_beside_pipe(place: &Place, is_control: bool) {
    // If nobody can tell, the control does not succeed either.
    if let Ok(true) = opens_pipe(place, is_control) {
        let _ = fs::write(place.user.join("opened"), "");
    }
}

/// Builds a package. Returns whether its pipe was opened.
fn opens_pipe(place: &Place, is_control: bool) -> io::Result<bool> {
    let events = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC)?;
    inotify::add_watch(&events, place.package.join(PIPE), inotify::WatchFlags::OPEN)?;
    build_package(place, is_control);
    let mut buffer = [MaybeUninit::uninit(); 512];
    match inotify::Reader::new(&events, &mut buffer).next() {
        Ok(_) => Ok(true),
        Err(Errno::AGAIN) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Writes a program in place of Node that leaves a file with the user.
fn write_node(place: &Place) -> io::Result<()> {
    let bin = place.package.join("node_modules/.bin");
    fs::create_dir_all(&bin)?;
    let node = bin.join("node");
    fs::write(&node, "#!/bin/sh\ntouch \"${0%/node_modules/.bin/node}/../user/ran\"\necho v22.12.0\n")?;
    fs::set_permissions(&node, fs::Permissions::from_mode(0o755))
}

fn check_node(place: &Place, is_control: bool) {
    // `koze dev` may run the package's programs, because it runs the package.
    if is_control {
        let _ = tools::needed(&place.package, "");
    } else {
        let _ = tools::of_package(&place.package);
    }
}
