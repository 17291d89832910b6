//! The API above the tools, on sandboxes of this machine.

use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use koze_core::handle::Lifecycle;
use koze_core::{Code, Run};
use koze_core::{Profiles, Session};
use koze_local::Local;
use serde_json::{Value, json};

use crate::Test;
use crate::stage::{Stage, directories, id, settings, until, within};

pub(crate) const TESTS: &[Test] = &[
    ("api_run", run),
    ("api_run_canceled", canceled_run),
    ("api_handle", handle),
    ("api_history", history),
    ("api_sleeps", sleeps),
    ("api_watch", watch),
    ("api_note", note),
];

/// The second value holds the state directory.
pub(crate) fn session() -> (Session<Local>, tempfile::TempDir) {
    let Stage { local, state } = Stage::new();
    let profiles = Profiles::new(vec![settings().profile], "python").unwrap();
    (Session::new(local, id("default").session, profiles), state)
}

fn commands(all: &[&str], files: &[&str]) -> Run {
    Run {
        commands: all.iter().map(|&command| command.to_owned()).collect(),
        files: files.iter().map(|&file| file.to_owned()).collect(),
        ..Run::default()
    }
}

fn run() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let (session, _state) = session();
        let two = commands(&["echo one; printf '\\377' > f", "ls >&2; echo two > /tmp/g"], &["f", "/tmp/g"]);
        let ran = session.run(two).await.unwrap();
        assert_eq!((&ran.stdout[..], &ran.stderr[..], ran.exit_code), (&b"one\n"[..], &b"f\n"[..], 0));
        assert_eq!((&ran.files["f"][..], &ran.files["/tmp/g"][..]), (&b"\xff"[..], &b"two\n"[..]));
        // It stops at the first failing command and returns the output so far.
        let fails = commands(&["echo a > a", "echo b > b; exit 3", "echo c > c"], &["a", "b", "c"]);
        let ran = session.run(fails).await.unwrap();
        let files: Vec<_> = ran.files.keys().map(String::as_str).collect();
        assert_eq!((ran.exit_code, files), (3, vec!["a", "b"]));
        let late =
            Run { timeout: Duration::from_millis(300), ..commands(&["echo x; sleep 60", "echo y"], &[]) };
        let ran = session.run(late).await.unwrap();
        assert_eq!((&ran.stdout[..], ran.exit_code, ran.timed_out), (&b"x\n"[..], 124, true));
        let error = session.run(commands(&["true"], &["none"])).await.unwrap_err();
        assert_eq!(error.code, Code::NotFound);
        assert!(session.list().await.unwrap().is_empty());
    })
}

/// If the caller stops waiting, the command is killed and the sandbox destroyed, even while it is being created.
fn canceled_run() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let (session, state) = session();
        for wait in [0, 1, 2, 3, 5, 10, 50, 300] {
            let ran = session.run(commands(&["sleep 60"], &[]));
            assert!(tokio::time::timeout(Duration::from_millis(wait), ran).await.is_err());
        }
        until("all are gone", async || session.list().await.unwrap().is_empty()).await;
        until("their files are gone", async || directories(state.path()) == 0).await;
    })
}

fn handle() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let (session, _state) = session();
        let sandbox = session.get("a").await.unwrap();
        assert!(sandbox.is_healthy().await);
        sandbox.write_file("d/f", b"\xff\n").await.unwrap();
        let output = sandbox.exec("pwd; od -An -tx1 d/f; exit 7").await.unwrap();
        assert_eq!((&output.stdout[..], output.exit_code), (&b"/home/user\n ff 0a\n"[..], 7));
        assert_eq!(sandbox.exec("a\0b").await.unwrap_err().code, Code::InvalidInput);
        assert_eq!(session.get("a").await.unwrap().read_file("d/f").await.unwrap(), b"\xff\n");
        sandbox.destroy().await.unwrap();
        assert!(!sandbox.is_healthy().await);
        assert_eq!(sandbox.exec("true").await.unwrap_err().code, Code::NotFound);
    })
}

/// The history of a sandbox contains all its commands, from any handle, and is bounded.
fn history() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let (session, _state) = session();
        let sandbox = session.get("a").await.unwrap();
        let mut states = pin!(sandbox.subscribe());
        assert_eq!(states.next().await.unwrap().history.len(), 0);
        sandbox.exec("echo out; echo err >&2; exit 2").await.unwrap();
        let state = states.next().await.unwrap();
        assert_eq!(
            serde_json::to_value(&state.history).unwrap(),
            json!([{ "command": "echo out; echo err >&2; exit 2", "stdout": "out\n", "stderr": "err\n", "exit_code": 2, "timed_out": false }])
        );
        sandbox.tool("shell").unwrap().call(json!({ "command": "echo tool" })).await;
        let tools = session.tools();
        tools[0].call(json!({ "sandbox": "a", "command": "echo session" })).await;
        tools[0].call(json!({ "sandbox": "b", "command": "echo other" })).await;
        let state = sandbox.state().await.unwrap();
        let told: Vec<_> = state.history.iter().map(|ran| ran.stdout.as_str()).collect();
        assert_eq!(told, ["out\n", "tool\n", "session\n"]);
        for n in 0..60 {
            sandbox.exec(&format!("echo {n}; head -c 20000 /dev/zero | tr '\\0' x")).await.unwrap();
        }
        let state = sandbox.state().await.unwrap();
        assert_eq!((state.history.len(), state.history[0].stdout.len()), (50, 8192));
        assert!(state.history[49].command.starts_with("echo 59;"));
    })
}

/// Falling asleep is reported without a query.
fn sleeps() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let (session, _state) = session();
        session.create("a", None, None, Some(Duration::from_millis(300))).await.unwrap();
        let sandbox = session.get("a").await.unwrap();
        sandbox.exec("true").await.unwrap();
        let mut states = pin!(sandbox.subscribe());
        while states.next().await.unwrap().status != Lifecycle::Sleeping {}
        sandbox.exec("true").await.unwrap();
        assert_eq!(sandbox.state().await.unwrap().status, Lifecycle::Running);
        sandbox.destroy().await.unwrap();
        while states.next().await.unwrap().status != Lifecycle::Destroyed {}
        assert!(states.next().await.is_none());
    })
}

fn watch() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let (session, _state) = session();
        let sandbox = session.get("a").await.unwrap();
        let mut values = pin!(sandbox.watch_json::<Value>("c.json"));
        let writer = sandbox.clone();
        let writing = tokio::spawn(async move {
            for n in 1..=3 {
                writer.exec(&format!("sleep 0.6; echo '{{\"n\": {n}}}' > n; mv n c.json")).await.unwrap();
            }
        });
        for n in 1..=3 {
            assert_eq!(values.next().await, Some(Ok(json!({ "n": n }))));
        }
        writing.await.unwrap();
        session.destroy("a").await.unwrap();
        assert_eq!(values.next().await, None);
    })
}

fn note() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let (session, _state) = session();
        let tools = session.tools();
        let create = tools.iter().find(|tool| tool.definition().name == "sandbox_create").unwrap();
        let made: Value =
            serde_json::from_str(&create.call(json!({ "sandbox": "a" })).await.content).unwrap();
        assert!(made["note"].as_str().is_some_and(|note| note.contains("does not use the image")), "{made}");
    })
}
