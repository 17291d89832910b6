//! The limits that programs see: those of the sandbox, in place of what the host has.

use std::fs;

use koze_core::Sandbox;

use crate::Test;
use crate::stage::{Stage, command, out, sh, until, within};

pub(crate) const TESTS: &[Test] = &[
    ("memory_is_that_of_the_sandbox", memory),
    ("memory_in_use_is_not_free", used),
    ("free_shows_the_limit", free),
    ("nproc_shows_the_limit", nproc),
    ("a_group_shows_the_limits", group),
    ("no_group_of_the_host_is_visible", no_group_of_the_host),
];

/// The memory of the sandboxes in KiB.
const MEMORY_KIB: u64 = 192 << 10;

fn memory() -> Result<(), libtest_mimic::Failed> {
    within(async {
        // The control: the host has more.
        assert!(field(&fs::read_to_string("/proc/meminfo").unwrap(), "MemTotal") > MEMORY_KIB);
        let stage = Stage::new();
        let sandbox = stage.sized(192, 200).await;
        let text = out(&sandbox, "cat /proc/meminfo").await;
        assert_eq!(field(&text, "MemTotal"), MEMORY_KIB);
        assert_eq!(field(&text, "SwapTotal"), 0);
        for part in ["MemFree", "MemAvailable"] {
            assert!((MEMORY_KIB / 2..=MEMORY_KIB).contains(&field(&text, part)), "{text}");
        }
        // As the kernel writes it.
        assert!(text.starts_with("MemTotal:         196608 kB\n"), "{text}");
        assert_ne!(sh(&sandbox, "echo x > /proc/meminfo").await.exit_code, 0);
    })
}

/// A program with 60 MiB sees them as used, and the next one sees them as free.
fn used() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.sized(192, 200).await;
        // It has a buffer of this size until its output is read. The monitor may be late.
        let available = "sed -n 's/MemAvailable: *\\([0-9]*\\) kB/\\1/p' /proc/meminfo";
        let seen = format!("until [ $({available}) -lt $((132 * 1024)) ]; do sleep 0.1; done");
        let look = "cat /proc/meminfo; echo \"Group: $(($(cat /sys/fs/cgroup/memory.current) / 1024)) kB\"";
        let hold =
            format!("dd if=/dev/zero bs=60M count=1 status=none | {{ {seen}; {look}; cat > /dev/null; }}");
        let text = out(&sandbox, &hold).await;
        let available = field(&text, "MemAvailable");
        assert!((60_000..MEMORY_KIB - (60 << 10)).contains(&available), "{text}");
        assert_eq!(field(&text, "MemTotal"), MEMORY_KIB);
        assert!((60 << 10..MEMORY_KIB).contains(&field(&text, "Group")), "{text}");
        until("the memory is free again", async || {
            let text = out(&sandbox, "cat /proc/meminfo").await;
            field(&text, "MemAvailable") > MEMORY_KIB - (20 << 10)
        })
        .await;
    })
}

/// Returns a field of `/proc/meminfo` in KiB.
fn field(text: &str, name: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap();
    value.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

fn free() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.sized(192, 200).await;
        let output = sandbox.exec(command(&["free", "--kibi"])).await;
        let Ok(output) = output else {
            eprintln!("free_shows_the_limit is left out: this machine has no `free`");
            return;
        };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let total = text.lines().find_map(|line| line.strip_prefix("Mem:")?.split_whitespace().next());
        assert_eq!(total, Some(&*MEMORY_KIB.to_string()), "{text}");
    })
}

fn nproc() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.sized(192, 200).await;
        let share = out(&sandbox, "cat /sys/fs/cgroup/cpu.max").await;
        let count = out(&sandbox, "nproc").await;
        if share == "100000 100000" {
            assert_eq!(count, "1");
        } else {
            assert_eq!(share, "max 100000");
            let host = std::thread::available_parallelism().unwrap();
            assert_eq!(count, host.to_string(), "nothing limits the processors");
        }
    })
}

fn group() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.sized(192, 200).await;
        let files =
            ["memory.max", "memory.swap.max", "pids.max"].map(|name| format!("/sys/fs/cgroup/{name}"));
        let text = out(&sandbox, &format!("cat {}", files.join(" "))).await;
        assert_eq!(text, format!("{}\n0\n512", MEMORY_KIB << 10));
        let controllers = out(&sandbox, "cat /sys/fs/cgroup/cgroup.controllers").await;
        assert!(controllers.split(' ').any(|name| name == "memory"), "{controllers}");
        // Runtimes find it in the table of mounts, unless the host has no groups of version 2.
        let host = fs::read_to_string("/proc/self/cgroup").unwrap();
        if host.lines().any(|line| line.starts_with("0::")) {
            let mounts = out(&sandbox, "grep -- ' - cgroup' /proc/self/mountinfo").await;
            assert_eq!(mounts.lines().count(), 1, "{mounts}");
            let fields: Vec<_> = mounts.split(' ').collect();
            assert_eq!(fields[3..5], ["/", "/sys/fs/cgroup"], "{mounts}");
            assert!(mounts.contains(" - cgroup2 cgroup2 "), "{mounts}");
            for option in ["ro", "nosuid", "nodev", "noexec"] {
                assert!(fields[5].split(',').any(|other| other == option), "{option}: {mounts}");
            }
        }
    })
}

fn no_group_of_the_host() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        assert_eq!(out(&sandbox, "ls /sys; ls /sys/fs").await, "fs\ncgroup");
        assert_eq!(out(&sandbox, "find /sys/fs/cgroup -mindepth 1 -type d").await, "");
        assert_eq!(out(&sandbox, "grep -v ':/$' /proc/self/cgroup; :").await, "", "its group is the root");
        // The numbers of groups on the host.
        let counts = out(&sandbox, "tail -n +2 /proc/cgroups | cut -f 3 | sort -u").await;
        assert_eq!(counts, "1");
        let writable = "for file in /sys/fs/cgroup/* /proc/cgroups; do ( : >> $file ) 2> /dev/null && echo $file; done; :";
        assert_eq!(out(&sandbox, writable).await, "");
        for change in
            ["mkdir /sys/fs/cgroup/x", "chmod 777 /sys/fs/cgroup", "touch /sys/fs/cgroup/memory.max"]
        {
            assert_ne!(sh(&sandbox, change).await.exit_code, 0, "{change}");
        }
    })
}
