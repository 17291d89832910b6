//! The program of Windows under wine, in a prefix below `target/tmp` that nothing else uses.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fs_err as fs;

/// Where Debian and Ubuntu install wine.
const WINE: &str = "/usr/lib/wine/wine64";
const SERVER: &str = "/usr/lib/wine/wineserver";
/// The directory of the program, next to that of the tests' own files.
const PROGRAMS: &str = "../x86_64-pc-windows-gnu/debug";

/// A running wine. It ends when this is dropped, with every program in it.
pub(crate) struct Wine {
    /// Keeps other tests of this checkout out of the prefix.
    _lock: File,
}

impl Wine {
    /// Returns what is missing to run the program.
    pub(crate) fn missing() -> Option<String> {
        if !Path::new(WINE).exists() {
            return Some("wine64 is not installed: run `cargo xtask setup`".to_owned());
        }
        let program = koze();
        let Ok(built) = fs::metadata(&program).and_then(|metadata| metadata.modified()) else {
            return Some("there is no koze.exe: run `cargo xtask platforms`".to_owned());
        };
        let newer = |source: &PathBuf| {
            let changed = fs::metadata(source).and_then(|metadata| metadata.modified());
            changed.is_ok_and(|changed| changed > built)
        };
        let source = sources(&program).into_iter().find(newer)?;
        Some(format!("koze.exe is older than {}: run `cargo xtask platforms`", source.display()))
    }

    /// Starts wine, and creates its prefix if it does not exist.
    pub(crate) fn start() -> Wine {
        fs::create_dir_all(prefix()).expect("a directory for wine");
        let lock = fs::File::create(prefix().with_extension("lock")).expect("a file to lock").into_file();
        lock.lock().expect("the lock of wine's prefix");
        // A run that was killed, or whose start failed, leaves its server behind. No other run has this prefix.
        end_server();
        if !boots() {
            end_server();
            let _ = fs::remove_dir_all(prefix());
            fs::create_dir_all(prefix()).expect("a directory for wine");
            assert!(boots(), "wine cannot create its prefix, not even a second time");
        }
        Wine { _lock: lock }
    }

    /// Returns a command for the program.
    pub(crate) fn koze() -> Command {
        let mut command = with_prefix(WINE);
        command.arg(koze());
        command
    }

    /// Returns the directory that is drive `C:`.
    pub(crate) fn drive() -> PathBuf {
        prefix().join("drive_c")
    }
}

impl Drop for Wine {
    fn drop(&mut self) {
        end_server();
    }
}

fn prefix() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("wine")
}

fn koze() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(PROGRAMS).join("koze.exe")
}

/// Starts the server, and creates the prefix. Returns whether both succeeded.
fn boots() -> bool {
    let succeeds = |mut command: Command| command.status().is_ok_and(|status| status.success());
    let [mut server, mut boot] = [quiet(SERVER), quiet(WINE)];
    // Without a server that stays, wine's services would start again with each program, and hold its outputs.
    server.arg("-p60");
    boot.args(["wineboot", "--init"]);
    succeeds(server) && succeeds(boot)
}

/// Ends the server of the prefix, with every program in it.
fn end_server() {
    let _ = quiet(SERVER).arg("-k").status();
    let _ = quiet(SERVER).arg("-w").status();
}

/// Returns a command that leaves this process's streams alone: what it starts stays.
fn quiet(program: &str) -> Command {
    let mut command = with_prefix(program);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn with_prefix(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env("WINEPREFIX", prefix()).env("WINEDEBUG", "-all").env_remove("DISPLAY");
    // Wine would ask to install what these need.
    command.env("WINEDLLOVERRIDES", "mscoree=;mshtml=");
    // A user's shell does not have them, and the program must not find this workspace through them.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CARGO") {
            command.env_remove(name);
        }
    }
    command
}

/// Returns the files from which cargo built a program, which it lists next to it.
fn sources(program: &Path) -> Vec<PathBuf> {
    let list =
        fs::read_to_string(program.with_extension("d")).expect("cargo's list of the program's sources");
    let list = list.split_once(": ").map(|(_, list)| list).unwrap_or_default();
    // A space in a path is escaped.
    let list = list.replace("\\ ", "\0");
    list.split_whitespace().map(|path| PathBuf::from(path.replace('\0', " "))).collect()
}
