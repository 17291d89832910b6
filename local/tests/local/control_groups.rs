//! Control groups, and other protections against slowing down the machine.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, ExitCode};

use koze_core::Sandbox;
use koze_local::{Weakness, own_group};

use crate::Test;
use crate::stage::{Stage, command, is_root, out, settings, within};

/// The argument that makes this program move itself into the given group and enable controllers below it.
pub(crate) const GROUP: &str = "--alone-in-a-group";

pub(crate) const TESTS: &[Test] = &[
    ("a_supervisor_that_is_alone_moves_to_a_leaf", leaf),
    ("a_supervisor_that_is_not_alone_moves_no_process", not_alone),
    ("a_systemd_scope_is_used_as_a_delegated_group", scope),
    ("programs_are_killed_before_those_of_the_host", killed_first),
    ("control_programs_have_the_oom_priority_of_the_host", killed_as_late),
    ("processors_are_limited_by_the_kernel", processors),
    ("groups_of_version_2_have_all_limits", unified),
    ("many_busy_loops_yield_to_the_host", spinners),
    ("control_many_busy_loops_compete_with_the_host", spinners_beside),
];

/// Finds a version 2 mount with a free controller: the machine may use the others in version 1.
fn hierarchy() -> Option<(PathBuf, String)> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let point = mounts.lines().find(|line| line.contains(" - cgroup2 "))?.split(' ').nth(4)?.to_owned();
    let controllers = fs::read_to_string(Path::new(&point).join("cgroup.controllers")).ok()?;
    Some((point.into(), controllers.split_whitespace().next()?.to_owned()))
}

/// A group of this test, with a child group.
struct Own(PathBuf, String);

impl Own {
    /// Returns `None` for an unprivileged user, and if version 2 has no controller.
    fn new(name: &str) -> Option<Self> {
        if !is_root() {
            eprintln!("{name} is left out: groups for tests are made by root alone");
            return None;
        }
        let Some((point, controller)) = hierarchy() else {
            eprintln!("{name} is left out: there are no control groups of version 2 with a controller");
            return None;
        };
        fs::write(point.join("cgroup.subtree_control"), format!("+{controller}")).unwrap();
        let group = point.join(format!("koze-test-{name}-{}", std::process::id()));
        fs::create_dir(&group).unwrap();
        Some(Own(group, controller))
    }

    /// Returns the output of such a program without systemd.
    fn run(&self) -> String {
        self.run_with("/nonexistent")
    }

    fn run_with(&self, path: &str) -> String {
        let this = std::env::current_exe().unwrap();
        let mut run = Process::new(this);
        let output = run.arg(GROUP).arg(&self.0).arg(&self.1).env("PATH", path).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        for entry in fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let _ = fs::remove_dir(entry.path());
        }
        let _ = fs::remove_dir(&self.0);
    }
}

/// See [`GROUP`].
pub(crate) fn alone() -> ExitCode {
    let group = PathBuf::from(std::env::args_os().nth(2).unwrap());
    let controller = std::env::args().nth(3).unwrap();
    let own = || {
        let all = fs::read_to_string("/proc/self/cgroup").unwrap();
        all.lines().find_map(|line| line.strip_prefix("0::")?.rsplit('/').next().map(str::to_owned)).unwrap()
    };
    let me = std::process::id().to_string();
    fs::write(group.join("cgroup.procs"), &me).unwrap();
    let before = own();
    // The control: while this process is in it, the kernel refuses.
    let refused = fs::write(group.join("cgroup.subtree_control"), format!("+{controller}")).is_err();
    let opened = own_group(&controller);
    let counted = fs::read_to_string(group.join("cgroup.subtree_control")).unwrap();
    let moved = own() == format!("koze-{me}-supervisor");
    println!("{refused} {opened} {moved} {} {}", own() == before, counted.trim() == controller);
    ExitCode::SUCCESS
}

fn leaf() -> Result<(), libtest_mimic::Failed> {
    let Some(group) = Own::new("leaf") else { return Ok(()) };
    let printed = group.run();
    if printed == "true true true false true\n" { Ok(()) } else { Err(printed.into()) }
}

fn not_alone() -> Result<(), libtest_mimic::Failed> {
    let Some(group) = Own::new("shared") else { return Ok(()) };
    let mut other = Process::new("sleep").arg("60").spawn()?;
    fs::write(group.0.join("cgroup.procs"), other.id().to_string())?;
    let printed = group.run();
    let there = fs::read_to_string(group.0.join("cgroup.procs"))?;
    let pid = other.id().to_string();
    other.kill()?;
    other.wait()?;
    assert_eq!(printed, "true false false true false\n");
    assert_eq!(there.trim(), pid, "it was moved");
    Ok(())
}

/// Tests have no systemd: a stand-in for its client does what systemd does.
fn scope() -> Result<(), libtest_mimic::Failed> {
    let Some(slice) = Own::new("slice") else { return Ok(()) };
    fs::write(slice.0.join("cgroup.subtree_control"), format!("+{}", slice.1))?;
    let programs = tempfile::tempdir()?;
    let script = format!(
        "#!/bin/sh -e\nfor last; do pid=$previous; previous=$last; done\ncase \"$*\" in *StartTransientUnit*koze-$pid.scope*Delegate*true*) ;; *) exit 1; esac\n\
         mkdir {0}/koze-$pid.scope\necho $pid > {0}/koze-$pid.scope/cgroup.procs\n",
        slice.0.display()
    );
    fs::write(programs.path().join("busctl"), script)?;
    fs::set_permissions(programs.path().join("busctl"), fs::Permissions::from_mode(0o755))?;
    // A login session's scope with a shell in it.
    let login = Own(slice.0.join("session-1.scope"), slice.1.clone());
    fs::create_dir(&login.0)?;
    let mut shell = Process::new("sleep").arg("60").spawn()?;
    fs::write(login.0.join("cgroup.procs"), shell.id().to_string())?;
    let path = format!("{}:{}", programs.path().display(), std::env::var("PATH")?);
    let without = login.run();
    let with = login.run_with(&path);
    shell.kill()?;
    shell.wait()?;
    for entry in fs::read_dir(&slice.0)?.flatten() {
        for below in fs::read_dir(entry.path()).into_iter().flatten().flatten() {
            let _ = fs::remove_dir(below.path());
        }
    }
    assert_eq!(without, "true false false true false\n", "the control: it stays where it is");
    assert_eq!(with, "true true true false false\n");
    Ok(())
}

fn killed_first() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let sandbox = Stage::new();
        let sandbox = sandbox.open("a").await;
        assert_eq!(out(&sandbox, "cat /proc/self/oom_score_adj").await, "1000");
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let rights = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap().trim();
        if u64::from_str_radix(rights, 16).unwrap() & (1 << 24) != 0 {
            // CAP_SYS_RESOURCE. An unprivileged user's programs may undo it: the kernel lets a process undo its own
            // increase.
            let taken = "echo 0 2> /dev/null > /proc/self/oom_score_adj; cat /proc/self/oom_score_adj";
            assert_eq!(out(&sandbox, taken).await, "1000");
        }
    })
}

fn killed_as_late() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::weakened(vec![Weakness::Limits]);
        let host = fs::read_to_string("/proc/self/oom_score_adj").unwrap();
        assert_eq!(out(&stage.open("a").await, "cat /proc/self/oom_score_adj").await, host.trim());
    })
}

/// If the kernel supports it, two busy loops get at most one processor.
fn processors() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        let groups = out(&sandbox, "cat /proc/self/cgroup").await;
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let counted = is_root() && mounts.contains("rw,cpu") && groups.contains(":cpu");
        if !counted {
            eprintln!("processors_are_limited_by_the_kernel: left out, there is no controller to be had");
            return;
        }
        let cpu = mounts.lines().find(|line| line.contains(" - cgroup ") && line.contains("rw,cpu")).unwrap();
        let point = Path::new(cpu.split(' ').nth(4).unwrap());
        let mut limits = fs::read_dir(point).unwrap().flatten().filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            name.starts_with(&format!("koze-{}-", std::process::id())).then_some(())?;
            fs::read_to_string(entry.path().join("cpu.cfs_quota_us")).ok()
        });
        assert!(limits.any(|limit| limit.trim() == "100000"));
    })
}

/// Needs a machine with these controllers in version 2, and a group in which this program is alone.
fn unified() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        let me = std::process::id();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap();
        let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
        let Some(parent) = own.strip_suffix(&format!("koze-{me}-supervisor")) else {
            eprintln!(
                "groups_of_version_2_have_all_limits is left out: this machine has memory in version 1, or others are in \
                 this program's group (CONTRIBUTING.md says how to run it)"
            );
            return;
        };
        let parent = hierarchy().unwrap().0.join(parent);
        let groups = fs::read_dir(&parent).unwrap().flatten().map(|entry| entry.path());
        let read = |group: &Path, file: &str| fs::read_to_string(group.join(file)).unwrap_or_default();
        let is_sandbox = |group: &PathBuf| group.is_dir() && !read(group, "cgroup.procs").is_empty();
        let group = groups.filter(|group| !group.ends_with(format!("koze-{me}-supervisor"))).find(is_sandbox);
        let group = group.unwrap();
        let memory = u64::from(settings().profile.size.memory_mib) << 20;
        assert_eq!(read(&group, "memory.max").trim(), memory.to_string());
        assert_eq!(read(&group, "memory.swap.max").trim(), "0");
        assert_eq!(read(&group, "pids.max").trim(), "512");
        assert_eq!(read(&group, "cpu.max").trim(), "100000 100000");
        assert_eq!(out(&sandbox, "cat /proc/self/cgroup").await, "0::/", "it sees no other group");
        // Programs see this group, and not files that look like it.
        let seen =
            out(&sandbox, "cd /sys/fs/cgroup && cat memory.max cpu.max && grep -c . memory.current").await;
        assert_eq!(seen, format!("{memory}\n100000 100000\n1"));
    })
}

/// Starts more busy loops than processors, and waits until one has the given priority, for at most some seconds. It
/// checks from the host, because a program inside would be slowed down too.
async fn spins_at(stage: &Stage, mark: &str, priority: &str, looks: usize) -> bool {
    let sandbox = stage.open("a").await;
    let many = std::thread::available_parallelism().unwrap().get() * 8 + 8;
    let script = format!(": {mark}; for i in $(seq {many}); do (while :; do :; done) & done; wait");
    let running = tokio::spawn(async move { sandbox.exec(command(&["sh", "-c", &script])).await });
    let mut found = false;
    for _ in 0..looks {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        let all = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path()).filter(|path| {
            fs::read(path.join("cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(mark))
        });
        found = all.into_iter().any(|path| {
            let stat = fs::read_to_string(path.join("stat")).unwrap_or_default();
            stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(16)) == Some(priority)
        });
        if found {
            break;
        }
    }
    running.abort();
    found
}

/// Applies if the kernel does not limit CPU share; otherwise they keep their priority.
fn spinners() -> Result<(), libtest_mimic::Failed> {
    within(async {
        if is_root() {
            eprintln!("many_busy_loops_yield_to_the_host shows nothing as root: the kernel may limit them");
        } else {
            assert!(spins_at(&Stage::new(), "spinners-behind", "19", 300).await);
        }
    })
}

fn spinners_beside() -> Result<(), libtest_mimic::Failed> {
    within(async {
        assert!(!spins_at(&Stage::weakened(vec![Weakness::Processors]), "spinners-beside", "19", 40).await);
    })
}
