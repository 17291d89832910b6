//! A scope of systemd's: a group that is delegated to this process, where the one that it was started in is shared with
//! others, as that of a login is.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long systemd may take: it is some milliseconds.
const PATIENCE: Duration = Duration::from_secs(3);

/// Has systemd move this process to a scope of its own, and gives what the process's groups are then. A service is left where
/// it is: systemd would take it for ended. Where systemd does not answer, nothing changes.
pub(super) fn enter(group: &Path) -> Option<String> {
    if group.extension()? != "scope" {
        return None;
    }
    let (me, root) = (std::process::id().to_string(), rustix::process::geteuid().is_root());
    let unit = format!("koze-{me}.scope");
    let mut call = Command::new("busctl");
    // A library for the bus would be much code for one call, and systemd brings its own client.
    call.arg(if root { "--system" } else { "--user" }).args(["--timeout=3", "--quiet", "call"]);
    call.args(["org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager"]);
    call.args(["StartTransientUnit", "ssa(sv)a(sa(sv))", &unit, "fail", "3"]);
    call.args(["Description", "s", "koze sandboxes", "Delegate", "b", "true", "PIDs", "au", "1", &me, "0"]);
    let status = call.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?;
    if !status.success() {
        return None;
    }
    // The answer says that there is a job, not that it is done.
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        if own.lines().any(|line| line.starts_with("0::") && line.ends_with(&unit)) {
            return Some(own);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    None
}
