//! Drops the supplementary groups of an unprivileged user, so that a sandbox cannot read what they may read on the
//! host.
//!
//! Only root may drop groups, because a file may deny access to a group. An administrator can allow it to a user with
//! subordinate groups (`/etc/subgid`) and `newgidmap`, root's helper for group maps.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::Groups;

/// The possible paths of the helper. `PATH` is not searched.
const HELPERS: &[&str] = &["/usr/bin/newgidmap", "/run/wrappers/bin/newgidmap"];
/// The ID of the subordinate group in the sandbox, where nothing belongs to it.
const SUBORDINATE: u32 = 64_999;

/// Writes a process's group map so that it may drop its supplementary groups. Returns false, and writes nothing, if
/// this user has none, or the system does not allow it.
pub(super) fn write_group_map(process: u32, inside: u32, group: u32) -> bool {
    static WAY: OnceLock<Option<(&str, u32)>> = OnceLock::new();
    let Some((helper, subordinate)) =
        *WAY.get_or_init(|| has_others(group).then(find_helper).and_then(Result::ok))
    else {
        return false;
    };
    let numbers = [process, inside, group, 1, SUBORDINATE, subordinate, 1];
    let status = Command::new(helper)
        .args(numbers.map(|number| number.to_string()))
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

fn has_others(group: u32) -> bool {
    rustix::process::getgroups().is_ok_and(|all| all.iter().any(|other| other.as_raw() != group))
}

/// Returns what happens to this user's supplementary groups in a sandbox.
pub(in super::super) fn groups_in_sandbox() -> Groups {
    let group = rustix::process::getegid().as_raw();
    if rustix::process::geteuid().is_root() || !has_others(group) {
        return Groups::Dropped;
    }
    find_helper().map_or_else(|kept| kept, |_| Groups::Dropped)
}

/// Returns the helper and a subordinate group of this user, or what is missing.
fn find_helper() -> Result<(&'static str, u32), Groups> {
    let helper = HELPERS.iter().find(|path| Path::new(path).exists()).ok_or(Groups::NoHelper)?;
    let user = rustix::process::getuid().as_raw();
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let groups = fs::read_to_string("/etc/subgid").unwrap_or_default();
    let subordinate = subordinate_group(user, &users, &groups).ok_or(Groups::NoSubordinate)?;
    Ok((helper, subordinate))
}

/// Returns the first subordinate group of a user, listed by name or ID.
fn subordinate_group(user: u32, users: &str, groups: &str) -> Option<u32> {
    let number = user.to_string();
    let name = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == number).then_some(name)
    });
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        let whose = fields.next()?;
        let first = fields.next()?.parse().ok()?;
        let some = fields.next()?.trim().parse::<u32>().ok()? > 0;
        (some && (whose == number || Some(whose) == name)).then_some(first)
    })
}

#[cfg(test)]
mod tests {
    use super::subordinate_group;

    #[test]
    fn subordinate_groups_of_a_user() {
        let users = "root:x:0:0::/:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n";
        let groups = "bob:100000:65536\nann:165536:65536\n";
        assert_eq!(subordinate_group(1000, users, groups), Some(165_536));
        assert_eq!(subordinate_group(1000, "", "1000:7:1\n"), Some(7));
        assert_eq!(subordinate_group(1001, users, groups), None);
        assert_eq!(subordinate_group(1000, users, "ann:7:0\nnonsense\n"), None);
    }
}
