//! Supplementary groups of an unprivileged user. Dropping them requires `newgidmap` and an entry in `/etc/subgid`,
//! which here is a test file in a private mount namespace.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::{Command, ExitCode};

use koze_core::Provider;
use koze_local::{Internet, Weakness, prove};

use crate::NOBODY as USER;
use crate::stage::{id, is_root, open_to_all, settings, sh, within};

/// The argument that makes this program read a file from a sandbox; the state directory, the file's directory, and
/// whether the groups are kept follow.
pub(crate) const READER: &str = "--read-as-a-member";

/// A supplementary group.
const OTHER: u32 = 54_322;

/// Both tests require root, to become a user with such groups.
pub(crate) fn trials(kind: &str) -> Vec<libtest_mimic::Trial> {
    let trial = |name: &str, groups: &'static str, read: bool| {
        let run = move || {
            assert_eq!(read_with(groups), if read { "read" } else { "refused" });
            Ok(())
        };
        libtest_mimic::Trial::test(name, run).with_kind(kind).with_ignored_flag(!is_root())
    };
    if !is_root() {
        eprintln!("escape_by_another_group and its control are left out: they take root");
    }
    vec![trial("escape_by_another_group", "give-up", false), trial("control_by_another_group", "keep", true)]
}

fn read_with(groups: &str) -> String {
    let scratch = tempfile::tempdir().unwrap();
    open_to_all(scratch.path());
    let path = |name: &str| scratch.path().join(name);
    fs::copy(std::env::current_exe().unwrap(), path("program")).unwrap();
    fs::write(path("subgid"), format!("{USER}:700000:1000\n")).unwrap();
    for name in ["seen", "state"] {
        fs::create_dir(path(name)).unwrap();
        open_to_all(&path(name));
    }
    chown(path("state"), Some(USER), Some(USER)).unwrap();
    fs::write(path("seen").join("secret"), "read").unwrap();
    fs::set_permissions(path("seen").join("secret"), fs::Permissions::from_mode(0o640)).unwrap();
    chown(path("seen").join("secret"), Some(0), Some(OTHER)).unwrap();

    // A process that another test is just starting may still have the file open for writing, which prevents its execution. Only
    // this script has the copy open.
    let script = format!(
        "cp program copy && mount --bind subgid /etc/subgid && exec setpriv --reuid {USER} --regid {USER} --groups {OTHER} ./copy \"$@\""
    );
    let run = Command::new("unshare")
        .args(["--mount", "sh", "-c", &script, "sh", READER])
        .args([&path("state"), &path("seen")])
        .arg(groups)
        .current_dir(scratch.path())
        .env_remove("TMPDIR")
        .output()
        .unwrap();
    assert!(run.status.success(), "{run:?} (newgidmap is there? `cargo xtask setup` installs uidmap)");
    String::from_utf8(run.stdout).unwrap().trim_end().to_owned()
}

/// Prints whether a sandbox can read the file.
pub(crate) fn read() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(2).collect();
    let seen = arguments[1].clone();
    let mut weak = vec![Weakness::File(seen.clone().into())];
    if arguments[2] == "keep" {
        weak.push(Weakness::Groups);
    }
    let local = prove::weakened(&arguments[0], Internet::default(), weak).unwrap();
    let done = within(async move {
        let sandbox = local.open(&id("a"), &settings()).await.unwrap().sandbox;
        let read = sh(&sandbox, &format!("cat {seen}/secret")).await;
        println!("{}", if read.exit_code == 0 { "read" } else { "refused" });
    });
    if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
