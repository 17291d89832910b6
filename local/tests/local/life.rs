//! The lifecycle of sandboxes: creation, sleep, wakeup and destruction.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command as Process, ExitCode};
use std::time::{Duration, Instant};

use koze_core::sandbox::{Status, Write};
use koze_core::{Code, Provider, Sandbox};
use koze_local::Local;

use crate::Test;
use crate::stage::{Stage, at, command, directories, host, id, out, settings, sh, until, victim, within};

/// The argument that makes this program run a sandbox until it is killed; the state directory is read from standard
/// input.
pub(crate) const SUPERVISOR: &str = "--supervisor";

/// The argument that makes this program open a sandbox where the kernel denies namespaces.
pub(crate) const FORBIDDEN: &str = "--forbidden";

pub(crate) const TESTS: &[Test] = &[
    ("opened_once", opened_once),
    ("listed", listed),
    ("refused", refused),
    ("forbidden_namespaces", forbidden_namespaces),
    ("sleeps_and_wakes", sleeps_and_wakes),
    ("destroyed", destroyed),
    ("destroyed_with_any_content", destroyed_with_any_content),
    ("ends_with_its_provider", ends_with_its_provider),
    ("killed_supervisor_leaves_nothing", killed_supervisor_leaves_nothing),
    ("two_providers", two_providers),
    ("a_hundred", a_hundred),
];

/// Prints median durations: `cargo test -p koze-local --test local -- --measure`.
pub(crate) fn measure() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stage = Stage::new();
        let mut cold = Vec::new();
        for n in 0..50 {
            let start = Instant::now();
            let sandbox = stage.open(&format!("m{n}")).await;
            sandbox.exec(command(&["true"])).await.unwrap();
            cold.push(start.elapsed());
        }
        let sandbox = stage.open("m0").await;
        sandbox.write(at("/tmp/1k"), vec![1; 1024], Write::Replace).await.unwrap();
        let (mut warm, mut read) = (Vec::new(), Vec::new());
        for _ in 0..500 {
            let start = Instant::now();
            sandbox.exec(command(&["true"])).await.unwrap();
            warm.push(start.elapsed());
            let start = Instant::now();
            sandbox.read(at("/tmp/1k"), 0, 4096).await.unwrap();
            read.push(start.elapsed());
        }
        for (what, mut times) in [("create + true", cold), ("warm true", warm), ("read of 1 kB", read)] {
            times.sort();
            println!("{what}: p50 {:?}, p90 {:?}", times[times.len() / 2], times[times.len() * 9 / 10]);
        }
    });
}

/// The supervisor of the tests that kill one.
pub(crate) fn supervise() -> ExitCode {
    host(async |local| {
        let sandbox = local.open(&id("kept"), &settings()).await.unwrap().sandbox;
        let mark = "(setsid sleep 98761 > /dev/null 2>&1 &) ; sleep 98761 > /dev/null 2>&1 & echo kept > /workspace/file";
        sh(&sandbox, mark).await;
        // A stopped program, which lasts until its timeout.
        let mut stopped = command(&["sh", "-c", "kill -STOP $$"]);
        stopped.timeout = Duration::from_secs(1);
        assert_eq!(sandbox.exec(stopped).await.unwrap().exit_code, 124);
        println!("up");
        std::future::pending::<()>().await;
    })
}

fn supervisor(stage: &Stage) -> Child {
    let mut child = victim(stage, SUPERVISOR);
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "up\n");
    child
}

/// Returns the descendants of a process by parent, because orphans are reparented.
fn below(root: u32) -> Vec<u32> {
    let mut all = vec![root];
    let mut next = 0;
    while let Some(pid) = all.get(next) {
        for task in std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            all.extend(children.split_whitespace().map(|pid| pid.parse::<u32>().unwrap()));
        }
        next += 1;
    }
    all.split_off(1)
}

fn alive(pid: u32) -> bool {
    // An unreaped zombie does not count as a process.
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap().trim_start().starts_with('Z'))
}

fn opened_once() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let (mut created, mut sandboxes) = (0, Vec::new());
        let (name, settings) = (id("a"), settings());
        let (one, two, three) = tokio::join!(
            stage.local.open(&name, &settings),
            stage.local.open(&name, &settings),
            stage.local.open(&name, &settings)
        );
        for opened in [one, two, three] {
            let opened = opened.unwrap();
            created += u32::from(opened.created);
            sandboxes.push(opened.sandbox);
        }
        assert_eq!(created, 1);
        sandboxes[0].write(at("/tmp/x"), b"x".into(), Write::Replace).await.unwrap();
        assert_eq!(out(&sandboxes[2], "cat /tmp/x").await, "x");
        // Other settings do not change it.
        let mut other = settings.clone();
        other.profile.name = "other".into();
        let opened = stage.local.open(&name, &other).await.unwrap();
        assert_eq!((opened.created, &opened.profile[..]), (false, "python"));
        assert_eq!(out(&opened.sandbox, "cat /tmp/x").await, "x");
    })
}

fn listed() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let session = id("a").session;
        assert_eq!(stage.local.list(&session).await.unwrap(), []);
        for name in ["b", "a", "c-1"] {
            stage.open(name).await;
        }
        let list = stage.local.list(&session).await.unwrap();
        let shown: Vec<_> =
            list.iter().map(|info| (info.name.as_str(), &info.profile[..], info.status)).collect();
        assert_eq!(shown, ["a", "b", "c-1"].map(|name| (name, "python", Status::Running)));
        let other = koze_core::SessionId::new("tests", "other").unwrap();
        assert_eq!(stage.local.list(&other).await.unwrap(), []);
    })
}

fn refused() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let mut settings = settings();
        settings.profile.allowed_hosts = vec!["https://example.com".into()];
        let error = stage.local.open(&id("a"), &settings).await.unwrap_err();
        assert_eq!(error.code, Code::InvalidInput);
        assert_eq!(stage.local.list(&id("a").session).await.unwrap(), []);
    })
}

/// Opens a sandbox in the given state directory, and prints the result.
pub(crate) fn open_where_forbidden() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let local = Local::new(std::env::args_os().nth(2).unwrap()).unwrap();
        match local.open(&id("a"), &settings()).await {
            Ok(_) => println!("opened"),
            Err(error) => println!("{error}; {}", local.list(&id("a").session).await.unwrap().len()),
        }
    });
    ExitCode::SUCCESS
}

fn forbidden_namespaces() -> Result<(), libtest_mimic::Failed> {
    let scratch = tempfile::tempdir()?;
    // A namespace in which no others can be created; first the control, in which they can.
    for (most, wanted) in [("100", "opened\n"), ("0", "unavailable: the kernel refused namespaces")] {
        let script =
            format!("echo {most} > /proc/sys/user/max_user_namespaces && exec \"$0\" {FORBIDDEN} \"$1\"");
        let output = Process::new("unshare")
            .args(["--user", "--map-user=65534", "--map-group=65534", "--keep-caps", "sh", "-c", &script])
            .arg(std::env::current_exe()?)
            .arg(scratch.path().join(most))
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.starts_with(wanted), "{most}: {text} {}", String::from_utf8_lossy(&output.stderr));
        if most == "0" {
            assert!(text.contains("sysctl user.max_user_namespaces") && text.ends_with("; 0\n"), "{text}");
        }
    }
    Ok(())
}

fn sleeps_and_wakes() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let mut settings = settings();
        settings.sleep_after = Duration::from_millis(500);
        let sandbox = stage.local.open(&id("a"), &settings).await.unwrap().sandbox;
        out(&sandbox, "echo kept > /home/user/f; sleep 98763 > /dev/null 2>&1 &").await;
        assert_eq!(sandbox.status().await.unwrap(), Status::Running);
        // A call in progress keeps it awake.
        assert_eq!(out(&sandbox, "sleep 1.5; echo done").await, "done");
        until("it sleeps", async || sandbox.status().await.unwrap() == Status::Sleeping).await;
        assert_eq!(stage.local.list(&id("a").session).await.unwrap()[0].status, Status::Sleeping);
        // Querying its status does not wake it; a call does.
        assert_eq!(sandbox.status().await.unwrap(), Status::Sleeping);
        assert_eq!(
            out(&sandbox, "cat /home/user/f; ls -d /proc/[0-9]* | wc -l").await.lines().next(),
            Some("kept")
        );
        assert_eq!(sandbox.status().await.unwrap(), Status::Running);
        let seen = out(&sandbox, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '").await;
        assert!(!seen.contains("98763 "), "{seen}");
    })
}

fn destroyed() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        sandbox.write(at("/tmp/x"), b"x".into(), Write::Replace).await.unwrap();
        let left = || directories(stage.state.path());
        assert_eq!(left(), 1);
        let waiting = sandbox.clone();
        let waiting = tokio::spawn(async move { waiting.exec(command(&["sleep", "60"])).await });
        tokio::time::sleep(Duration::from_millis(200)).await;
        sandbox.destroy().await.unwrap();
        assert_eq!(waiting.await.unwrap().unwrap_err().code, Code::Unavailable);
        assert_eq!(left(), 0);
        assert_eq!(sandbox.stat(at("/tmp/x")).await.unwrap_err().code, Code::NotFound);
        assert_eq!(sandbox.destroy().await.unwrap_err().code, Code::NotFound);
        assert_eq!(stage.local.list(&id("a").session).await.unwrap(), []);
        let again = stage.local.open(&id("a"), &settings()).await.unwrap();
        assert!(again.created);
        assert_eq!(again.sandbox.stat(at("/tmp/x")).await.unwrap_err().code, Code::NotFound);
    })
}

fn destroyed_with_any_content() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        let script = "cd /tmp; mkdir -p a/b/c; touch a/b/c/f; chmod 0 a/b/c a/b a; ln -s / root; mkfifo p
                      cd /workspace; i=0; while [ $i -lt 400 ]; do mkdir d; cd -P d; i=$((i+1)); done; chmod 0 /workspace";
        out(&sandbox, script).await;
        sandbox.destroy().await.unwrap();
        assert_eq!(directories(stage.state.path()), 0);
    })
}

fn ends_with_its_provider() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        out(&sandbox, "sleep 98762 > /dev/null 2>&1 &").await;
        let mark = || {
            below(std::process::id()).into_iter().filter(|pid| {
                std::fs::read(format!("/proc/{pid}/cmdline"))
                    .is_ok_and(|line| line.starts_with(b"sleep\x0098762"))
            })
        };
        until("it is there", async || mark().count() == 1).await;
        let Stage { local, state } = stage;
        drop((local, sandbox));
        until("all of it is gone", async || mark().count() == 0).await;
        drop(state);
    })
}

fn killed_supervisor_leaves_nothing() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let mut child = supervisor(&stage);
        let all = below(child.id());
        assert!(all.len() >= 3, "{all:?}");
        // While it runs, no other program can use the sandbox.
        let opened = stage.local.open(&id("kept"), &settings()).await.unwrap();
        assert!(!opened.created);
        assert_eq!(opened.sandbox.status().await.unwrap(), Status::Running);
        let refused = opened.sandbox.read(at("/workspace/file"), 0, 10).await.unwrap_err();
        assert_eq!(refused.code, Code::Unavailable);
        child.kill().unwrap();
        child.wait().unwrap();
        tokio::time::sleep(Duration::from_millis(500)).await;
        let left: Vec<_> = all
            .iter()
            .filter(|pid| alive(**pid))
            .map(|pid| std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default())
            .collect();
        assert!(left.is_empty(), "{left:#?}");
        // Its files still exist, and the sandbox can now be used.
        assert_eq!(out(&opened.sandbox, "cat /workspace/file").await, "kept");
        assert_eq!(stage.local.list(&id("kept").session).await.unwrap().len(), 1);
    })
}

fn two_providers() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let other = Local::new(stage.state.path()).unwrap();
        let (name, settings) = (id("a"), settings());
        let (one, two) = tokio::join!(stage.local.open(&name, &settings), other.open(&name, &settings));
        let created =
            [&one, &two].into_iter().filter(|opened| opened.as_ref().is_ok_and(|opened| opened.created));
        assert_eq!(created.count(), 1);
        // Different sandboxes do not interfere.
        let mine = stage.open("mine").await;
        let theirs = other.open(&id("theirs"), &settings).await.unwrap().sandbox;
        assert_eq!(
            (out(&mine, "hostname").await, out(&theirs, "hostname").await),
            ("mine".into(), "theirs".into())
        );
        let listed = other.list(&name.session).await.unwrap();
        assert_eq!(listed.iter().map(|info| info.name.as_str()).collect::<Vec<_>>(), ["a", "mine", "theirs"]);
        assert!(listed.iter().all(|info| info.status == Status::Running));
        // A sandbox that one provider releases is available to the other, with its files.
        out(&theirs, "echo from there > /workspace/f").await;
        drop((theirs, other, two));
        assert_eq!(out(&stage.open("theirs").await, "cat /workspace/f").await, "from there");
        drop(one);
    })
}

fn a_hundred() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = std::sync::Arc::new(Stage::new());
        let opened = (0..100).map(|n| {
            let stage = std::sync::Arc::clone(&stage);
            tokio::spawn(async move {
                let sandbox = stage.open(&format!("s{n}")).await;
                let calls = (0..10).map(|_| out(&sandbox, "hostname"));
                for call in calls.collect::<Vec<_>>() {
                    assert_eq!(call.await, format!("s{n}"));
                }
                sandbox
            })
        });
        let mut all = Vec::new();
        for sandbox in opened.collect::<Vec<_>>() {
            all.push(sandbox.await.unwrap());
        }
        assert_eq!(all.len(), 100);
    })
}
