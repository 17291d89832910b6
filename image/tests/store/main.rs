//! The store from outside: images from files, hostile ones above all. If root runs the tests, they run again as nobody.
#![cfg(target_os = "linux")]

mod archives;
mod builds;
mod hostile;
mod imports;
mod place;
mod pulls;
mod registry;

use std::process::Command;

/// A plain user unpacks differently: it does not own the files of others, and modes apply to it.
#[test]
fn everything_again_as_nobody() {
    use std::os::unix::process::CommandExt as _;

    if !rustix::process::geteuid().is_root() {
        return;
    }
    let place = tempfile::Builder::new().prefix("koze-image-nobody-").tempdir().unwrap();
    let program = place.path().join("tests");
    // Nobody may not reach the build directory.
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    place::open_to_all(place.path());
    place::open_to_all(&program);
    let mut again = Command::new(&program);
    again.args(["--skip", "everything_again_as_nobody"]).current_dir(place.path());
    again.env("TMPDIR", place.path()).env("HOME", place.path()).uid(65534).gid(65534);
    let done = again.output().unwrap();
    let output = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{output}\n{}", String::from_utf8_lossy(&done.stderr));
    assert!(output.contains("test result: ok."), "{output}");
}
