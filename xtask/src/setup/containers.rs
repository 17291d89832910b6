//! What runs the real containers of the tests, from Debian's packages: podman and what it needs, and what is in the containers.

use std::path::Path;
use std::process::Command;

use super::say;
use crate::{Result, process};

/// A file of each package. netavark and the DNS server lie where only podman looks for them.
const PACKAGES: [(&str, &[&str]); 7] = [
    ("podman", &["/usr/bin/podman"]),
    ("runc", &["/usr/sbin/runc", "/usr/bin/runc"]),
    ("netavark", &["/usr/lib/podman/netavark", "/usr/libexec/podman/netavark"]),
    ("aardvark-dns", &["/usr/lib/podman/aardvark-dns", "/usr/libexec/podman/aardvark-dns"]),
    ("iptables", &["/usr/sbin/iptables"]),
    ("openssl", &["/usr/bin/openssl"]),
    // For the local sandboxes of a plain user.
    ("uidmap", &["/usr/bin/newgidmap"]),
];

const NO_APT: &str = "install them by hand";

/// Installs what is missing, as root on a Debian; elsewhere it says what to install: the tests that need it say so, too,
/// and fail where `CI` is set.
pub(crate) fn install() -> Result<()> {
    if !cfg!(target_os = "linux") {
        say("containers run on Linux alone: their tests are left out");
        return Ok(());
    }
    let missing = missing();
    if missing.is_empty() {
        say("podman is installed, and what it needs");
        return Ok(());
    }
    let line = format!("apt-get install -y --no-install-recommends {}", missing.join(" "));
    if !Path::new("/usr/bin/apt-get").exists() || !is_root()? {
        say(&format!("the tests with containers need what is not here; as root, on Debian: {line}"));
        return Ok(());
    }
    say(&line);
    if apt(&missing)? {
        return Ok(());
    }
    // The lists may be missing, or older than the packages.
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
    PACKAGES.iter().filter(|(_, files)| !there(files)).map(|(package, _)| *package).collect()
}

fn is_root() -> Result<bool> {
    Ok(process::stdout(Command::new("id").arg("-u"), "")? == "0")
}
