//! A systemd scope: a group that is delegated to this process, if it shares its initial group with others, like that of
//! a login session.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The timeout for systemd, which usually takes a few milliseconds.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Asks systemd to move this process to its own scope, and returns the new groups of the process. A service is not
/// moved, because systemd would consider it stopped. If systemd does not answer, nothing changes.
pub(super) fn enter_scope(group: &Path) -> Option<String> {
    if group.extension()? != "scope" {
        return None;
    }
    let (me, root) = (std::process::id().to_string(), rustix::process::geteuid().is_root());
    let unit = format!("koze-{me}.scope");
    let mut call = Command::new("busctl");
    // A D-Bus library would be much code for one call, and systemd has its own client.
    call.arg(if root { "--system" } else { "--user" }).args(["--timeout=3", "--quiet", "call"]);
    call.args(["org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager"]);
    call.args(["StartTransientUnit", "ssa(sv)a(sa(sv))", &unit, "fail", "3"]);
    call.args(["Description", "s", "koze sandboxes", "Delegate", "b", "true", "PIDs", "au", "1", &me, "0"]);
    let status = call.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?;
    if !status.success() {
        return None;
    }
    // The reply only confirms the job, not its completion.
    let until = Instant::now() + TIMEOUT;
    while Instant::now() < until {
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        if own.lines().any(|line| line.starts_with("0::") && line.ends_with(&unit)) {
            return Some(own);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    None
}
