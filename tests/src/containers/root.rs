//! Builds images from this machine's own programs: small, fast to build, and with enough of a Linux for every case.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use fs_err as fs;
use tempfile::TempDir;

use super::{Engine, Image};
use crate::binary;
use crate::process::run;

/// The version of the recipe. Increase it when the contents change.
const RECIPE: u32 = 6;

/// The programs to include, if this machine has them.
const PROGRAMS: &[&str] = &[
    "[",
    "awk",
    "base64",
    "basename",
    "bash",
    "cat",
    "chgrp",
    "chmod",
    "chown",
    "cmp",
    "comm",
    "cp",
    "curl",
    "cut",
    "date",
    "dd",
    "df",
    "diff",
    "dirname",
    "du",
    "echo",
    "env",
    "expr",
    "false",
    "find",
    "flock",
    "fold",
    "grep",
    "head",
    "hostname",
    "id",
    "install",
    "iptables-restore",
    "join",
    "kill",
    "link",
    "ln",
    "ls",
    "md5sum",
    "mkdir",
    "mkfifo",
    "mknod",
    "mktemp",
    "mount",
    "mv",
    "nice",
    "nl",
    "nohup",
    "nproc",
    "od",
    "openssl",
    "paste",
    "perl",
    "printenv",
    "printf",
    "pwd",
    "readlink",
    "realpath",
    "rm",
    "rmdir",
    "sed",
    "seq",
    "setpriv",
    "setsid",
    "sh",
    "sha256sum",
    "shuf",
    "sleep",
    "sort",
    "split",
    "stat",
    "stdbuf",
    "stty",
    "sync",
    "tac",
    "tail",
    "tar",
    "tee",
    "test",
    "timeout",
    "touch",
    "tr",
    "true",
    "truncate",
    "uname",
    "uniq",
    "unlink",
    "unshare",
    "wc",
    "which",
    "whoami",
    "xargs",
    "yes",
];

/// The extensions of `iptables-restore` for the sidecar's rules.
const TABLES: &str = "/usr/lib/x86_64-linux-gnu/xtables";
const TABLES_PARTS: [&str; 4] = ["libxt_REDIRECT.so", "libxt_standard.so", "libxt_tcp.so", "libxt_udp.so"];

/// The programs that an image must have.
const NEEDED: &[&str] = &[
    "awk",
    "bash",
    "curl",
    "find",
    "grep",
    "iptables-restore",
    "openssl",
    "perl",
    "sed",
    "setsid",
    "sha256sum",
    "stat",
];

/// The Perl modules for a server.
const PERL: &str =
    "use strict; use warnings; use Socket; print \"$_\\n\" for values %INC, @DynaLoader::dl_shared_objects";

const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\nuser:x:1000:1000:user:/home/user:/bin/bash\n";
const GROUP: &str = "root:x:0:\nuser:x:1000:\n";

const LIMIT: Duration = Duration::from_mins(3);

/// Builds a Linux with the user 1000, its home and `/workspace`.
pub(super) fn base(engine: &Engine) -> Image {
    let files = files(&program());
    let mut hasher = DefaultHasher::new();
    RECIPE.hash(&mut hasher);
    for (path, there) in &files {
        let about = fs::metadata(path).expect("a file");
        (path, there, about.len(), about.modified().expect("a time")).hash(&mut hasher);
    }
    let image = Image(format!("localhost/koze-tests/base:{:016x}", hasher.finish()));
    if !engine.has(&image) {
        let root = TempDir::new_in(engine.dir()).expect("a temporary directory");
        fill(&root.path().join("root"), &files);
        let tar = root.path().join("root.tar");
        let mut pack = Command::new("tar");
        pack.args(["--numeric-owner", "-cf"]).arg(&tar).arg("-C").arg(root.path().join("root")).arg(".");
        succeeds(pack);
        let tar = tar.to_str().expect("a path in Unicode");
        engine.podman(&["import", "--quiet", "--change", "USER 1000:1000", tar, &image.0]);
    }
    image
}

/// Builds the image of the sidecar that workerd starts next to each container.
pub(super) fn sidecar(engine: &Engine) -> Image {
    let program = program();
    let mut hasher = DefaultHasher::new();
    (RECIPE, &engine.base().0, fs::read(&program).expect("the program")).hash(&mut hasher);
    let image = Image(format!("localhost/koze-tests/sidecar:{:016x}", hasher.finish()));
    if engine.has(&image) {
        return image;
    }
    let context = TempDir::new_in(engine.dir()).expect("a temporary directory");
    fs::copy(program, context.path().join("sidecar")).expect("a copy");
    // The first process of a container ignores SIGTERM by default, and stopping it would time out.
    let dockerfile = format!(
        "FROM {}\nCOPY sidecar /sidecar\nUSER 0\nEXPOSE 39001\nSTOPSIGNAL SIGKILL\nENTRYPOINT [\"/sidecar\"]\n",
        engine.base().0
    );
    engine.build(&image.0, &dockerfile, context.path())
}

/// Builds the sidecar's program.
fn program() -> PathBuf {
    binary::built("koze-sidecar")
}

/// Returns the files of the image, as pairs of path on this machine and path in the image, with those that `sidecar`
/// needs.
fn files(sidecar: &Path) -> Vec<(PathBuf, PathBuf)> {
    let mut files = BTreeSet::new();
    for name in PROGRAMS {
        let Some(path) = which(name) else {
            assert!(!NEEDED.contains(name), "there is no `{name}` on this machine to make an image of");
            continue;
        };
        files.insert((path, Path::new("usr/bin").join(name)));
    }
    for part in TABLES_PARTS.map(|name| Path::new(TABLES).join(name)) {
        files.insert((part.clone(), below_usr(&part)));
    }
    let mut perl = Command::new("perl");
    perl.args(["-e", PERL]);
    for path in succeeds(perl).lines().map(PathBuf::from) {
        files.insert((path.clone(), below_usr(&path)));
    }
    let programs: Vec<_> = files.iter().map(|(path, _)| path.clone()).collect();
    files.extend(libraries(programs.iter().map(PathBuf::as_path).chain([sidecar])));
    files.into_iter().collect()
}

/// Returns the shared libraries of programs, as pairs of path on this machine and path in an image.
pub(super) fn libraries<'p>(programs: impl IntoIterator<Item = &'p Path>) -> Vec<(PathBuf, PathBuf)> {
    let mut ldd = Command::new("ldd");
    ldd.args(programs);
    // It fails for scripts and static programs, but still lists the libraries of the others.
    let printed = run(ldd, LIMIT).stdout;
    let printed = String::from_utf8_lossy(&printed);
    let lines = printed.lines().filter(|line| line.starts_with('\t'));
    let paths = lines.filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    paths.map(PathBuf::from).map(|path| (path.clone(), below_usr(&path))).collect()
}

/// Returns a file's path in the image, where `/bin`, `/lib` and the like are links.
fn below_usr(path: &Path) -> PathBuf {
    let path = path.strip_prefix("/").unwrap_or(path);
    if path.starts_with("usr") { path.to_owned() } else { Path::new("usr").join(path) }
}

/// Returns the path of a program on this machine, with links resolved.
fn which(name: &str) -> Option<PathBuf> {
    let dirs = ["/usr/bin", "/bin", "/usr/sbin", "/sbin"].map(Path::new);
    dirs.iter().find_map(|dir| fs::canonicalize(dir.join(name)).ok())
}

fn fill(root: &Path, files: &[(PathBuf, PathBuf)]) {
    for dir in ["dev", "etc", "home", "opt", "proc", "root", "run", "sys", "tmp", "usr/bin", "var/tmp"] {
        fs::create_dir_all(root.join(dir)).expect("a directory");
    }
    for name in ["bin", "lib", "lib32", "lib64", "sbin"] {
        symlink(format!("usr/{name}"), root.join(name)).expect("a link");
    }
    for (from, to) in files {
        let to = root.join(to);
        fs::create_dir_all(to.parent().expect("a directory above")).expect("a directory");
        fs::copy(from, to).expect("a copy");
    }
    fs::write(root.join("etc/passwd"), PASSWD).expect("a file");
    fs::write(root.join("etc/group"), GROUP).expect("a file");
    for dir in ["tmp", "var/tmp"] {
        fs::set_permissions(root.join(dir), PermissionsExt::from_mode(0o1777)).expect("its permissions");
    }
    for dir in ["home/user", "workspace"] {
        fs::create_dir_all(root.join(dir)).expect("a directory");
        chown(root.join(dir), Some(1000), Some(1000)).expect("its owner");
    }
}

/// Runs a command that must succeed, and returns its output.
pub(super) fn succeeds(command: Command) -> String {
    let line = format!("{command:?}");
    let output = run(command, LIMIT);
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
