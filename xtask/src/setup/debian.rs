//! Installs Debian's packages for the tests: podman, its dependencies and the contents of the images for those with real
//! containers, Chromium for those of the browser, and MinGW and wine for those of the program of Windows.

use std::path::Path;
use std::process::Command;

use super::say;
use crate::{Result, process};

/// The packages, with a file of each. netavark and the DNS server are outside the `PATH`.
const PACKAGES: [(&str, &[&str]); 10] = [
    ("podman", &["/usr/bin/podman"]),
    ("runc", &["/usr/sbin/runc", "/usr/bin/runc"]),
    ("netavark", &["/usr/lib/podman/netavark", "/usr/libexec/podman/netavark"]),
    ("aardvark-dns", &["/usr/lib/podman/aardvark-dns", "/usr/libexec/podman/aardvark-dns"]),
    ("iptables", &["/usr/sbin/iptables"]),
    ("openssl", &["/usr/bin/openssl"]),
    // Needed by local sandboxes of an unprivileged user.
    ("uidmap", &["/usr/bin/newgidmap"]),
    // Sandboxes have the machine's Python.
    ("python3-pip", &["/usr/lib/python3/dist-packages/pip/__init__.py"]),
    // The browser of scripts.
    ("chromium-headless-shell", &["/usr/lib/chromium/chromium-headless-shell"]),
    ("libnss3-tools", &["/usr/bin/certutil"]),
];

/// Build and run the program of Windows, which is one for x86-64 (`tests/tests/windows`).
const WINDOWS: [(&str, &[&str]); 2] = [
    ("gcc-mingw-w64-x86-64-win32", &["/usr/bin/x86_64-w64-mingw32-gcc-win32"]),
    ("wine64", &["/usr/lib/wine/wine64"]),
];

const NO_APT: &str = "install them by hand";

/// Installs missing packages, as root on Debian. Otherwise prints what to install; the tests that need it report it,
/// too, and fail if `CI` is set.
pub(crate) fn install() -> Result<()> {
    if !cfg!(target_os = "linux") {
        say("containers, the browser of scripts and wine run on Linux only: their tests are left out");
        return Ok(());
    }
    let missing = missing();
    if missing.is_empty() {
        say("podman, Chromium, MinGW and wine are installed, and what they need");
        return Ok(());
    }
    let line = format!("apt-get install -y --no-install-recommends {}", missing.join(" "));
    if !Path::new("/usr/bin/apt-get").exists() || !is_root()? {
        say(&format!(
            "the tests with containers, a browser and the program of Windows need missing packages; as root, on Debian: {line}"
        ));
        return Ok(());
    }
    say(&line);
    if apt(&missing)? {
        return Ok(());
    }
    // The package lists may be missing or outdated.
    let status = process::status(Command::new("apt-get").arg("update"), NO_APT)?;
    if status.success() && apt(&missing)? {
        return Ok(());
    }
    Err(format!("`{line}` failed; apt says why above. Once that is mended, run `cargo xtask setup` again")
        .into())
}

fn apt(packages: &[&str]) -> Result<bool> {
    let mut apt = Command::new("apt-get");
    apt.args(["install", "-y", "--no-install-recommends", "-qq"]).args(packages);
    apt.env("DEBIAN_FRONTEND", "noninteractive");
    Ok(process::status(&mut apt, NO_APT)?.success())
}

fn missing() -> Vec<&'static str> {
    let there = |files: &&[&str]| files.iter().any(|file| Path::new(file).exists());
    let windows = if cfg!(target_arch = "x86_64") { &WINDOWS[..] } else { &[] };
    PACKAGES.iter().chain(windows).filter(|(_, files)| !there(files)).map(|(package, _)| *package).collect()
}

fn is_root() -> Result<bool> {
    Ok(process::stdout(Command::new("id").arg("-u"), "")? == "0")
}
