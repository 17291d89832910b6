//! Runs the sandboxes of this machine as an unprivileged user if the tests run as root.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use koze_tests::conformance::Capability;

use crate::{Hosted, in_process};

/// The variable that marks the run of the unprivileged user, and the user and group IDs of `nobody`.
const PLAIN: &str = "KOZE_TEST_PLAIN";
const NOBODY: u32 = 65_534;

/// Slow cases are the same for every user, so they are left out.
pub(crate) const LOCAL: Hosted = Hosted {
    name: "local, as a plain user",
    lacks: &[Capability::Big, Capability::ManyFiles],
    start: in_process::start,
};

pub(crate) fn is_plain() -> bool {
    std::env::var_os(PLAIN).is_some()
}

pub(crate) fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|about| about.uid() == 0)
}

/// Runs the tests again, from a copy that the unprivileged user can execute.
pub(crate) fn run() -> ExitCode {
    let scratch = tempfile::tempdir().expect("a directory");
    let copy = scratch.path().join("conformance");
    let this = std::env::current_exe().expect("the path of the running test");
    std::fs::copy(this, &copy).expect("a copy");
    std::fs::set_permissions(scratch.path(), std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    let status = Command::new(copy)
        .args(std::env::args_os().skip(1))
        .env(PLAIN, "1")
        .env_remove("TMPDIR")
        .current_dir("/")
        .uid(NOBODY)
        .gid(NOBODY)
        .status()
        .expect("it starts");
    if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
