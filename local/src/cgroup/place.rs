//! Determines where control groups are created. This happens once per process, which may have to move to another group
//! for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::scope;

/// The controllers that a group requires.
const NEEDED: [&str; 2] = ["memory", "pids"];
/// The optional controller.
const WANTED: &str = "cpu";

/// Directories in which groups can be created.
#[derive(Debug)]
pub(super) enum Place {
    /// Version 2: one hierarchy for all controllers.
    Unified {
        parent: PathBuf,
        /// Whether the CPU share can be limited.
        processors: bool,
    },
    /// Version 1: one hierarchy per controller.
    Legacy { memory: PathBuf, processes: PathBuf, processors: Option<PathBuf> },
}

/// Returns the place, or `None` if this process may not create groups.
pub(super) fn find_place() -> Option<&'static Place> {
    static PLACE: OnceLock<Option<Place>> = OnceLock::new();
    PLACE.get_or_init(detect_place).as_ref()
}

fn detect_place() -> Option<Place> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let place = own_group(&own, &mounts, &NEEDED);
    if let Some(parent) = place {
        remove_empty_groups(&parent);
        let processors = enable_controller(&parent, WANTED);
        return Some(Place::Unified { parent, processors });
    }
    let (memory, processes) = (legacy_group(&own, &mounts, "memory")?, legacy_group(&own, &mounts, "pids")?);
    let processors = legacy_group(&own, &mounts, "cpu");
    [Some(&memory), Some(&processes), processors.as_ref()]
        .into_iter()
        .flatten()
        .for_each(|parent| remove_empty_groups(parent));
    Some(Place::Legacy { memory, processes, processors })
}

/// Returns this process's version 2 group if groups can be created in it, or a systemd scope otherwise.
fn own_group(own: &str, mounts: &str, needed: &[&str]) -> Option<PathBuf> {
    let group = unified_group(own, mounts)?;
    if let Some(place) = enable_controllers(&group, needed) {
        return Some(place);
    }
    // A scope has the controllers of its hierarchy.
    let root = find_group(mounts, "/", |kind, _| kind == "cgroup2")?;
    if !offers_controllers(&root, needed) {
        return None;
    }
    enable_controllers(&unified_group(&scope::enter_scope(&group)?, mounts)?, needed)
}

/// The same for a test with its own group, and a controller that this machine leaves to version 2.
pub(super) fn own_group_for_test(controller: &str) -> bool {
    let read = |file| fs::read_to_string(Path::new("/proc/self").join(file)).unwrap_or_default();
    own_group(&read("cgroup"), &read("mountinfo"), &[controller]).is_some()
}

/// Enables controllers for the children of a version 2 group. A group with processes allows this only if it is the
/// root, so this process moves to a leaf if it is the only one.
fn enable_controllers(group: &Path, needed: &[&str]) -> Option<PathBuf> {
    if !offers_controllers(group, needed) {
        return None;
    }
    let enable = || needed.iter().all(|one| enable_controller(group, one));
    // The root group has no type.
    let kind = fs::read_to_string(group.join("cgroup.type")).ok();
    if kind.is_none() || has_enabled(group, needed) {
        return enable().then(|| group.to_owned());
    }
    let alone = || {
        fs::read_to_string(group.join("cgroup.procs"))
            .is_ok_and(|all| all.trim() == current_user().to_string())
    };
    if kind.as_deref().map(str::trim) != Some("domain") || !alone() {
        return None;
    }
    let leaf = group.join(format!("koze-{}-supervisor", current_user()));
    let enter = |group: &Path| fs::write(group.join("cgroup.procs"), current_user().to_string()).is_ok();
    fs::create_dir(&leaf).ok()?;
    if enter(&leaf) && enable() {
        return Some(group.to_owned());
    }
    // Restore the previous state. Controllers that were enabled meanwhile do no harm.
    for one in needed {
        let _ = fs::write(group.join("cgroup.subtree_control"), format!("-{one}"));
    }
    enter(group);
    let _ = fs::remove_dir(leaf);
    None
}

fn current_user() -> u32 {
    std::process::id()
}

fn offers_controllers(group: &Path, needed: &[&str]) -> bool {
    file_lists(&group.join("cgroup.controllers"), needed)
}

fn has_enabled(group: &Path, needed: &[&str]) -> bool {
    file_lists(&group.join("cgroup.subtree_control"), needed)
}

fn file_lists(file: &Path, needed: &[&str]) -> bool {
    let all = fs::read_to_string(file).unwrap_or_default();
    needed.iter().all(|one| all.split_whitespace().any(|other| other == *one))
}

/// Enables a controller for the children of a group, unless it is enabled.
fn enable_controller(group: &Path, controller: &str) -> bool {
    has_enabled(group, &[controller])
        || fs::write(group.join("cgroup.subtree_control"), format!("+{controller}")).is_ok()
}

/// Removes the empty groups of programs that have exited.
fn remove_empty_groups(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid =
            name.to_str().and_then(|name| name.strip_prefix("koze-")?.split_once('-')?.0.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Returns this process's group in the unified hierarchy (version 2).
fn unified_group(own: &str, mounts: &str) -> Option<PathBuf> {
    let group = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    find_group(mounts, group, |kind, _| kind == "cgroup2")
}

/// Returns this process's group in the hierarchy of a controller (version 1).
fn legacy_group(own: &str, mounts: &str, controller: &str) -> Option<PathBuf> {
    let group = own.lines().find_map(|line| {
        let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|one| one == controller).then_some(group)
    })?;
    find_group(mounts, group, |kind, options| {
        kind == "cgroup" && options.split(',').any(|one| one == controller)
    })
}

/// Returns the path of a group: `mountinfo` lists which part of the hierarchy is mounted where.
fn find_group(mounts: &str, group: &str, wanted: impl Fn(&str, &str) -> bool) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(3);
        let (root, point) = (left.next()?, left.next()?);
        let mut right = right.split(' ');
        let (kind, options) = (right.next()?, right.nth(1)?);
        if !wanted(kind, options) {
            return None;
        }
        let below = if root == "/" { group } else { group.strip_prefix(root)? };
        let path = Path::new(point).join(below.trim_start_matches('/'));
        path.is_dir().then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_group_is_mounted() {
        let own = "8:pids:/\n4:memory:/a\n1:cpu,cpuacct:/b\n0::/";
        let mounts = "36 35 0:31 / /tmp rw,relatime shared:9 - cgroup cgroup rw,memory\n\
                      37 35 0:32 / / rw - cgroup2 none rw";
        assert_eq!(legacy_group(own, mounts, "memory"), None, "/tmp/a is no directory");
        assert_eq!(legacy_group("4:memory:/", mounts, "memory"), Some("/tmp".into()));
        assert_eq!(legacy_group(own, mounts, "pids"), None);
        assert_eq!(unified_group(own, mounts), Some("/".into()));
    }
}
