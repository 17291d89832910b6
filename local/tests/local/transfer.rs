//! Transfer between sandboxes of this machine, and of different providers.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use koze_core::provider::memory::Memory;
use koze_core::sandbox::Write;
use koze_core::{Code, Provider, Sandbox, transfer};
use koze_local::Local;

use crate::Test;
use crate::stage::{Stage, at, host, id, out, settings, sh, until, victim, within};

/// The argument that makes this program transfer until it is killed.
pub(crate) const TRANSFERS: &str = "--transfers";

pub(crate) const TESTS: &[Test] = &[
    ("transfer_keeps_the_tree", the_same_tree),
    ("transfer_of_many", many),
    ("transfer_of_changing_files", what_changes),
    ("transfer_of_links_that_change", links_that_change),
    ("transfer_of_unsupported_files", what_cannot_be),
    ("transfer_without_space", no_room),
    ("transfer_that_is_canceled", given_up),
    ("transfer_that_is_stopped", stopped),
    ("transfer_whose_program_is_killed", killed),
    ("transfer_between_providers", between_providers),
];

/// Describes a tree as text.
const SHOW: &str = "find . -printf '%P %y %m %l\\n' | LC_ALL=C sort | cat -v; find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | cat -v";

fn the_same_tree() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let (from, to) = (stage.open("a").await, stage.open("b").await);
        let make = "mkdir -p d/empty d/sub/deeper d/shut; head -c 3000000 /dev/urandom > d/sub/f; : > d/none; \
                    echo x > \"$(printf 'd/\\377')\"; echo x > \"d/$(printf 'a\\nb')\"; echo x > d/-rf; \
                    ln -s /etc/passwd d/out; ln -s nowhere d/sub/l; chmod 4751 d/sub/f; chmod 600 d/none; \
                    echo x > d/shut/f; chmod 500 d/shut; chmod 1777 d/empty";
        out(&from, make).await;
        let bytes = transfer(&from, "d", &to, "/workspace/new/e", true).await.unwrap();
        assert_eq!(bytes, 3_000_008);
        let shown = out(&from, &format!("cd d; {SHOW}")).await;
        let kept = shown.replace(" 4751 ", " 751 ").replace(" 1777 ", " 777 ");
        assert_ne!(kept, shown, "special permission bits are dropped");
        assert_eq!(out(&to, &format!("cd /workspace/new/e; {SHOW}")).await, kept);
        assert_eq!(
            out(&to, "ls -A /workspace/new; stat -c %U:%G /workspace/new/e/none").await,
            "e\nuser:user"
        );
        // A link as the source is followed; an existing file is replaced.
        out(&from, "ln -s d/-rf named; ln -s d dir").await;
        assert_eq!(transfer(&from, "named", &to, "/workspace/new/e/none", false).await.unwrap(), 2);
        assert_eq!(
            out(&to, "cat /workspace/new/e/none; stat -c %F /workspace/new/e/none").await,
            "x\nregular file"
        );
        assert_eq!(transfer(&from, "dir", &to, "f", true).await.unwrap(), 3_000_008);
        // Within one sandbox, and into itself.
        assert_eq!(transfer(&from, "d", &from, "d/sub/copy", true).await.unwrap(), 3_000_008);
        assert_eq!(
            out(&from, "ls -A d/sub d/sub/copy/sub").await,
            "d/sub:\ncopy\ndeeper\nf\nl\n\nd/sub/copy/sub:\ndeeper\nf\nl"
        );
        let proc = transfer(&from, "/proc/meminfo", &to, "status", false).await.unwrap();
        assert!(proc > 100, "{proc}");
    })
}

fn many() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let (from, to) = (stage.open("a").await, stage.open("b").await);
        out(
            &from,
            "mkdir -p t; cd t; for d in $(seq 20); do mkdir $d; (cd $d; seq 100 | split -l 1 -a 3); done",
        )
        .await;
        transfer(&from, "t", &to, "t", true).await.unwrap();
        assert_eq!(
            out(&to, "find t -type f | wc -l; find t -type f | xargs cat | sort -n | uniq -c | wc -l").await,
            "2000\n100"
        );
        // Too deep to hold open: it fails, and nothing is left.
        out(&from, "mkdir deep; cd deep; for i in $(seq 500); do mkdir d; cd d; done").await;
        let error = transfer(&from, "deep", &to, "deep", true).await.unwrap_err();
        assert_eq!(error.code, Code::TooLarge, "{error}");
        assert_eq!(out(&to, "ls -A").await, "t");
    })
}

/// Files that grow, shrink, appear and disappear during the copy: each arrives complete, and the copy ends.
fn what_changes() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let (from, to) = (stage.open("a").await, stage.open("b").await);
        let change = "mkdir d; head -c 4000000 /dev/zero > d/g; head -c 4000000 /dev/zero > d/s; echo ready > ready; \
                      while [ ! -e stop ]; do head -c 65536 /dev/zero >> d/g; truncate -s 1000 d/s; truncate -s 3000000 d/s; \
                      for i in 1 2 3 4 5 6 7 8; do echo $i > d/$i; mkdir -p d/k$i; done; rm -rf d/[1-8] d/k*; \
                      truncate -s 4000000 d/g; done";
        let changer = from.clone();
        let changing = tokio::spawn(async move { sh(&changer, change).await });
        until("the changer runs", async || from.stat(at("/home/user/ready")).await.is_ok()).await;
        for n in 0..30 {
            let bytes = transfer(&from, "d", &to, &format!("d{n}"), true).await.unwrap();
            assert!(bytes >= 4_000_000, "{bytes}");
            out(&to, &format!("rm -r d{n}")).await;
        }
        from.write(at("/home/user/stop"), Vec::new(), Write::Replace).await.unwrap();
        assert_eq!(changing.await.unwrap().exit_code, 0);
        assert_eq!(out(&to, "ls -A").await, "");
    })
}

/// A program swaps a directory for a link to elsewhere, in either sandbox: nothing is copied from there or to there.
fn links_that_change() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let (from, to) = (stage.open("a").await, stage.open("b").await);
        let stop = Arc::new(AtomicBool::new(false));
        let swap = "mkdir -p d/x y; echo inside > d/x/f; ln -s /etc z; ln -s /etc/passwd d/pw; echo ready > ready; \
                    while [ ! -e stop ]; do mv -T d/x y/x; mv -T z d/x; mv -T d/x z; mv -T y/x d/x; done";
        out(&to, "mkdir /tmp/secret").await;
        let mut swapping = Vec::new();
        for (sandbox, script) in [
            (&from, swap.to_owned()),
            (&to, "mkdir t y; ln -s /tmp/secret z; echo ready > ready; while [ ! -e stop ]; do mv -T t y/t; mv -T z t; mv -T t z; mv -T y/t t; done".to_owned()),
        ] {
            let sandbox = sandbox.clone();
            swapping.push(tokio::spawn({
                let sandbox = sandbox.clone();
                async move { sh(&sandbox, &script).await }
            }));
            until("the swapper runs", async || sandbox.stat(at("/home/user/ready")).await.is_ok()).await;
        }
        let mut done = 0;
        for n in 0..60 {
            // If the parent directory is missing at that moment, the copy fails, and nothing more.
            let path = format!("t/n{n}");
            done += u32::from(transfer(&from, "d", &to, &path, true).await.is_ok());
        }
        stop.store(true, Ordering::Relaxed);
        for sandbox in [&from, &to] {
            sandbox.write(at("/home/user/stop"), Vec::new(), Write::Replace).await.unwrap();
        }
        for swapping in swapping {
            swapping.await.unwrap();
        }
        assert!(done > 0);
        // A copy may end up behind a link within its own sandbox: that is what its owner created.
        let came = "cd /; find home tmp -type f -not -name ready -not -name stop | xargs cat | sort -u; find home tmp -name passwd";
        assert_eq!(out(&to, came).await, "inside");
    })
}

fn what_cannot_be() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let (from, to) = (stage.open("a").await, stage.open("b").await);
        out(&from, "mkdir d e g; mkfifo d/pipe; echo x > e/shut; chmod 0 e/shut; echo x > f; chmod 0 g")
            .await;
        out(&to, "mkdir d; echo x > f").await;
        for (path, target, recursive, code) in [
            ("d", "x", true, Code::Unsupported),
            ("d", "x", false, Code::IsDirectory),
            ("d/pipe", "x", false, Code::Unsupported),
            ("e", "x", true, Code::PermissionDenied),
            ("g", "x", true, Code::PermissionDenied),
            ("none", "x", true, Code::NotFound),
            ("f", "d", false, Code::IsDirectory),
            ("f", "/", false, Code::IsDirectory),
            ("f", "f/x", false, Code::NotADirectory),
            ("f", "/usr/x", false, Code::PermissionDenied),
            ("/home/user/", "d", true, Code::AlreadyExists),
            ("f", "", false, Code::InvalidInput),
            ("a\0", "x", false, Code::InvalidInput),
        ] {
            let error = transfer(&from, path, &to, target, recursive).await.unwrap_err();
            assert_eq!(error.code, code, "{path} {target}: {error}");
            assert!(!error.message.contains("koze-transfer"), "{error}");
            assert_eq!(out(&to, "ls -A . d").await, ".:\nd\nf\n\nd:", "{path} {target}");
        }
    })
}

fn no_room() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let from = stage.open("a").await;
        let to = stage.sized(256, 20).await;
        out(&from, "mkdir d; head -c 15000000 /dev/zero > d/a; cp d/a d/b; head -c 25000000 /dev/zero > f")
            .await;
        for (path, recursive) in [("d", true), ("f", false)] {
            let error = transfer(&from, path, &to, "x", recursive).await.unwrap_err();
            assert_eq!(error.code, Code::TooLarge, "{error}");
            assert_eq!(out(&to, "ls -A; echo still here").await, "still here", "{error}");
        }
        assert_eq!(transfer(&from, "d/a", &to, "x", false).await.unwrap(), 15_000_000);
        let error = transfer(&from, "d/b", &to, "y", false).await.unwrap_err();
        assert_eq!(error.code, Code::TooLarge, "{error}");
        assert_eq!(out(&to, "ls -A").await, "x");
    })
}

/// A copy that is dropped at any moment leaves neither files nor processes.
fn given_up() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let (from, to) = (stage.open("a").await, stage.open("b").await);
        out(&from, "mkdir d; cd d; for i in $(seq 8); do head -c 10000000 /dev/zero > $i; done").await;
        for wait in [0, 1, 3, 10, 20] {
            let copy = transfer(&from, "d", &to, "x", true);
            if tokio::time::timeout(Duration::from_millis(wait), copy).await.is_ok() {
                out(&to, "rm -r x").await;
            }
        }
        until("nothing is left", async || out(&to, "ls -A").await.is_empty()).await;
        // The guest, and the shell with its program.
        for sandbox in [&from, &to] {
            until("the guests are idle", async || out(sandbox, "ls -d /proc/[0-9]* | wc -l").await == "4")
                .await;
        }
        assert_eq!(transfer(&from, "d", &to, "x", true).await.unwrap(), 80_000_000);
    })
}

/// Programs in a sandbox can stop the packing process, but the caller does not wait for it.
fn stopped() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let (from, to) = (stage.open("from").await, stage.open("to").await);
        out(&from, "head -c 30000000 /dev/zero > large").await;
        // The packing process is a new child of the first process.
        let stop = "known=$(echo /proc/[0-9]*); while :; do for p in /proc/[0-9]*; do case \" $known \" in *\" $p \"*) ;; *) \
            grep -qs '^PPid:.1$' $p/status && [ ${p#/proc/} != $$ ] && kill -STOP ${p#/proc/};; esac; done; done";
        out(&from, &format!("sh -c '{}' > /dev/null 2>&1 &", stop.replace('\'', "'\\''"))).await;
        let mut answered = None;
        for number in 0..200 {
            let copied = transfer(&from, "large", &to, &format!("copy{number}"), false).await;
            if let Err(error) = copied {
                answered = Some(error);
                break;
            }
            // It finished before it was found.
            to.remove(at(&format!("/home/user/copy{number}"))).await.unwrap();
        }
        let error = answered.expect("it was stopped once");
        assert_eq!(error.code, Code::Unavailable, "{error}");
    })
}

/// Transfers until it is killed.
pub(crate) fn transfer_on() -> ExitCode {
    host(async |local| {
        let open = async |name: &str| local.open(&id(name), &settings()).await.unwrap().sandbox;
        let (from, to) = (open("from").await, open("to").await);
        sh(&from, "mkdir -p d && cd d && truncate -s 50M a b c").await;
        loop {
            transfer(&from, "d", &to, "copy", true).await.unwrap();
            to.remove(at("/home/user/copy")).await.unwrap();
        }
    })
}

/// The staging files of a killed program are removed at the next start of the sandbox.
fn killed() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        // Between two transfers nothing is left, so at least one kill must hit the middle of a transfer.
        let mut left = false;
        for _ in 0..20 {
            let mut child = victim(&stage, TRANSFERS);
            until("it transfers", async || beside(&stage) > 0).await;
            child.kill().unwrap();
            child.wait().unwrap();
            left |= beside(&stage) > 0;
            let to = stage.open("to").await;
            let there = out(&to, "ls -A").await;
            assert!(["", "copy"].contains(&there.as_str()), "{there}");
            out(&to, "rm -rf copy").await;
            assert_eq!((beside(&stage), notes(&stage)), (0, 0));
            to.destroy().await.unwrap();
            if left {
                break;
            }
        }
        assert!(left, "no kill was in the middle");
        // A completed transfer is not removed.
        let (from, to) = (stage.open("from").await, stage.open("to").await);
        assert_eq!(transfer(&from, "d/a", &to, "copy", false).await.unwrap(), 50 << 20);
        assert_eq!(notes(&stage), 0);
        drop((from, to));
        // Unreadable records do not keep a sandbox from starting.
        for sandbox in std::fs::read_dir(stage.state.path()).unwrap().flatten() {
            let notes = sandbox.path().join("passing");
            if notes.exists() {
                std::fs::create_dir(notes.join("directory")).unwrap();
                std::fs::write(notes.join("cut"), b"/home/user/\xc3").unwrap();
                std::fs::write(notes.join("empty"), "").unwrap();
            }
        }
        assert_eq!(notes(&stage), 3);
        drop(stage.local);
        let again = Local::new(stage.state.path()).unwrap();
        let to = again.open(&id("to"), &settings()).await.unwrap().sandbox;
        assert_eq!(out(&to, "ls -A").await, "copy");
    })
}

/// Counts incomplete transfers in the homes of all sandboxes, from the host.
fn beside(stage: &Stage) -> usize {
    in_sandboxes(stage, "files/home").filter(|name| name.starts_with(".koze-transfer-")).count()
}

/// Counts the recorded paths for the next start of a sandbox.
fn notes(stage: &Stage) -> usize {
    in_sandboxes(stage, "passing").count()
}

/// Returns the content of one of each sandbox's own directories on the host.
fn in_sandboxes(stage: &Stage, path: &'static str) -> impl Iterator<Item = String> {
    let sandboxes = std::fs::read_dir(stage.state.path()).unwrap().flatten();
    let files = sandboxes.filter_map(move |sandbox| std::fs::read_dir(sandbox.path().join(path)).ok());
    files.flat_map(|files| files.flatten().map(|file| file.file_name().to_string_lossy().into_owned()))
}

fn between_providers() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let local = stage.open("a").await;
        let memory = Memory::new().open(&id("m"), &settings()).await.unwrap().sandbox;
        out(&local, "mkdir -p d/empty; head -c 3000000 /dev/urandom > d/f; chmod 750 d/f; ln -s f d/l").await;
        assert_eq!(transfer(&local, "d", &memory, "e", true).await.unwrap(), 3_000_000);
        assert_eq!(transfer(&memory, "e", &local, "f", true).await.unwrap(), 3_000_000);
        let shown = out(&local, &format!("cd d; {SHOW}")).await;
        assert_eq!(out(&local, &format!("cd f; {SHOW}")).await, shown);
        // More than fits in the other.
        out(&local, "mkdir g; cp d/f g/a; head -c 17000000 /dev/zero > g/b").await;
        let error = transfer(&local, "g", &memory, "g", true).await.unwrap_err();
        assert_eq!(error.code, Code::TooLarge, "{error}");
        let names: Vec<_> =
            memory.list(at("/home/user")).await.unwrap().into_iter().map(|e| e.name).collect();
        assert_eq!(names, ["e"]);
    })
}
