//! What a sandbox sees of the host and of other sandboxes, and what its tools and errors reveal.

use koze_core::{Code, Sandbox};

use crate::Test;
use crate::stage::{STARTED, Stage, at, command, out, sh, within};

pub(crate) const TESTS: &[Test] = &[
    ("host_files_are_out_of_sight", host_files_are_out_of_sight),
    ("others_are_out_of_sight", others_are_out_of_sight),
    ("no_rights", no_rights),
    ("its_own_loopback_is_up", its_own_loopback_is_up),
    ("the_guest_is_out_of_reach", the_guest_is_out_of_reach),
    ("errors_hold_no_host_path", errors_hold_no_host_path),
];

fn host_files_are_out_of_sight() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        // The control: it exists on the host.
        assert!(std::fs::metadata("/etc/shadow").is_ok());
        let host = stage.state.path().to_str().unwrap();
        for path in [
            "/etc/shadow",
            "/root",
            "/opt",
            "/boot",
            "/sys/kernel",
            "/dev/kmsg",
            "/dev/mem",
            "/run/dbus",
            "/var/run/docker.sock",
            host,
        ] {
            assert_eq!(sandbox.stat(at(path)).await.unwrap_err().code, Code::NotFound, "{path}");
        }
        assert_eq!(out(&sandbox, "ls /home; ls -A /home/user /tmp").await, "user\n/home/user:\n\n/tmp:");
        for top in out(&sandbox, "ls -A /").await.lines() {
            let known = [
                "bin",
                "dev",
                "etc",
                "home",
                "lib",
                "lib32",
                "lib64",
                "libx32",
                "mnt",
                "proc",
                "run",
                "sbin",
                "sys",
                "tmp",
                "usr",
                "var",
                "workspace",
            ];
            assert!(known.contains(&top), "{top}");
        }
        // Nothing of the host is writable.
        for path in ["/usr/x", "/etc/passwd", "/bin/x", "/dev/x", "/proc/sys/kernel/core_pattern", "/x"] {
            assert_ne!(sh(&sandbox, &format!("echo x > {path}")).await.exit_code, 0, "{path}");
        }
        assert_eq!(out(&sandbox, "echo x > /dev/null; echo x > /dev/shm/x; cat /dev/shm/x").await, "x");
    })
}

fn others_are_out_of_sight() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let (one, two) = (stage.open("one").await, stage.open("two").await);
        let start = "echo secret > /tmp/secret; echo secret > /dev/shm/secret; sleep 9881 > /dev/null 2>&1 &";
        out(&one, &format!("{start} {STARTED}")).await;
        assert_eq!(
            out(&one, "cat /proc/*/cmdline | tr '\\0' ' ' | grep -o 'sleep [9]881'").await,
            "sleep 9881"
        );
        let seen = out(&two, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '; ls -A /tmp /dev/shm /workspace").await;
        assert!(!seen.contains("9881") && !seen.contains("secret"), "{seen}");
        let count = out(&two, "ls -d /proc/[0-9]* | wc -l").await;
        assert!(count.parse::<u32>().unwrap() < 8, "{count}");
        // Nor does it see its host: the first process is the guest.
        assert_eq!(out(&two, "cat /proc/self/status | grep NSpid | wc -w").await, "2");
    })
}

fn no_rights() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        let status =
            out(&sandbox, "grep -E 'Cap|NoNewPrivs|Seccomp:|^Groups' /proc/self/status | tr '\\t' ' '").await;
        for line in status.lines() {
            let value = line.rsplit(' ').next().unwrap();
            match line.split(':').next().unwrap() {
                "NoNewPrivs" => assert_eq!(value, "1"),
                "Seccomp" => assert_eq!(value, "2"),
                "Groups" => {}
                _ => assert_eq!(value, "0000000000000000", "{line}"),
            }
        }
        assert_eq!(status.lines().count(), 8);
        // The user of the sandbox is never the host's root.
        let map = out(&sandbox, "tr -s ' ' < /proc/self/uid_map").await;
        let map: Vec<_> = map.split_whitespace().collect();
        assert_eq!((map[0], map[2]), ("1000", "1"));
        assert_ne!(map[1], "0");
        assert!(
            sh(&sandbox, "find /usr -xdev -perm -4000 -exec {} --version \\; ; id -u")
                .await
                .stdout
                .ends_with(b"1000\n")
        );
    })
}

fn its_own_loopback_is_up() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        assert_eq!(out(&sandbox, "grep -c : /proc/net/dev").await, "1");
        // Refused at once; without an interface it would be unreachable.
        let connect = "exec 3<>/dev/tcp/127.0.0.1/9";
        let output = sandbox.exec(command(&["bash", "-c", connect])).await.unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(error.contains("Connection refused"), "{error}");
    })
}

fn the_guest_is_out_of_reach() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        for path in [
            "/proc/1/environ",
            "/proc/1/fd/3",
            "/proc/1/exe",
            "/proc/1/mem",
            "/proc/1/root/etc/passwd",
            "/proc/1/cwd/etc/passwd",
        ] {
            assert_ne!(sh(&sandbox, &format!("head -c 1 {path}")).await.exit_code, 0, "{path}");
            // Nor through the guest itself.
            for path in [path.to_owned(), path.replace("/1/", "/self/")] {
                let code = sandbox.read(at(&path), 0, 10).await.unwrap_err().code;
                assert!(matches!(code, Code::PermissionDenied | Code::InvalidInput), "{path}: {code}");
                let code = sandbox
                    .write(at(&path), vec![1], koze_core::sandbox::Write::Append)
                    .await
                    .unwrap_err()
                    .code;
                assert!(matches!(code, Code::PermissionDenied | Code::InvalidInput), "{path}: {code}");
            }
        }
        // Signals from inside do not reach it.
        sh(&sandbox, "for s in TERM KILL STOP INT HUP USR1 SEGV CHLD; do kill -$s 1; done").await;
        sh(&sandbox, "kill -9 -1").await;
        assert_eq!(out(&sandbox, "echo still here").await, "still here");
    })
}

fn errors_hold_no_host_path() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        let host = stage.state.path().to_str().unwrap();
        let errors = [
            sandbox.read(at("/nowhere"), 0, 1).await.unwrap_err(),
            sandbox.remove(at("/tmp")).await.unwrap_err(),
            sandbox.list(at("/proc/1/fd")).await.unwrap_err(),
            sandbox.exec(command(&["/no/such"])).await.unwrap_err(),
        ];
        for error in errors {
            assert!(!error.to_string().contains(host) && !error.to_string().contains("/files/"), "{error}");
        }
    })
}
