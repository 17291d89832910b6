//! The agent's tools, on sandboxes of this machine.

use koze_core::Code;
use koze_core::{Profiles, Session};
use koze_local::Local;
use serde_json::{Value, json};

use crate::Test;
use crate::stage::{Stage, id, settings, within};

pub(crate) const TESTS: &[Test] = &[
    ("tools_shell", shell),
    ("tools_time_out", time_out),
    ("tools_files", files),
    ("tools_glob_stops_nothing_else", glob_blocks_nothing_else),
    ("tools_injection", injection),
    ("tools_transfer", transfer),
    ("tools_sandboxes", sandboxes),
    ("tools_at_most", at_most),
];

/// An agent with a session on its own provider. The stage holds the state directory.
struct Agent {
    session: Session<Local>,
    _state: tempfile::TempDir,
}

fn session() -> Agent {
    let Stage { local, state } = Stage::new();
    let profiles = Profiles::new(vec![settings().profile], "python").unwrap();
    Agent { session: Session::new(local, id("default").session, profiles), _state: state }
}

impl Agent {
    async fn call(&self, tool: &str, input: Value) -> (Value, bool) {
        let result = self.session.call_tool(tool, input).await;
        let content = serde_json::from_str(&result.content).unwrap_or(Value::String(result.content));
        (content, result.is_error)
    }

    async fn ok(&self, tool: &str, input: Value) -> Value {
        let (content, is_error) = self.call(tool, input).await;
        assert!(!is_error, "{tool}: {content}");
        content
    }
}

fn shell() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let session = session();
        let ran = session.ok("shell", json!({ "command": "pwd; echo oops >&2" })).await;
        assert_eq!(ran, json!({ "stdout": "/home/user\n", "stderr": "oops\n", "exit_code": 0 }));
        let (ran, is_error) = session.call("shell", json!({ "command": "cd /tmp; exit 3" })).await;
        assert_eq!((&ran["exit_code"], is_error), (&json!(3), true));
        let ran = session.ok("shell", json!({ "command": "pwd", "working_dir": "/tmp" })).await;
        assert_eq!(ran["stdout"], "/tmp\n", "each call starts in the default directory");
        let bytes = session.ok("shell", json!({ "command": "printf '\\377\\376'" })).await;
        assert_eq!((&bytes["stdout"], &bytes["stdout_encoding"]), (&json!("//4="), &json!("base64")));
        let (error, is_error) =
            session.call("shell", json!({ "command": "true", "working_dir": "/nowhere" })).await;
        assert!(is_error && error.as_str().is_some_and(|error| error.starts_with("not_found: ")), "{error}");
    })
}

fn time_out() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let session = session();
        let input = json!({ "command": "echo begun; sleep 60 & sleep 60", "timeout_ms": 2000 });
        let (ran, is_error) = session.call("shell", input).await;
        assert_eq!(
            (ran, is_error),
            (json!({ "stdout": "begun\n", "stderr": "", "exit_code": 124, "timed_out": true }), true)
        );
    })
}

fn files() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let session = session();
        let text = "héllo\n";
        session.ok("write_file", json!({ "path": "a/b.txt", "content": text })).await;
        session.ok("write_file", json!({ "path": "a/b.txt", "content": "more", "append": true })).await;
        let ran = session.ok("shell", json!({ "command": "cat a/b.txt" })).await;
        assert_eq!(ran["stdout"], "héllo\nmore");
        session
            .ok("shell", json!({ "command": "mkdir -p s/t && touch s/t/x.rs s/y.rs && ln -s y.rs s/l.rs" }))
            .await;
        let found = session.ok("glob", json!({ "pattern": "**/*.rs" })).await;
        assert_eq!(found, json!({ "files": ["s/l.rs", "s/t/x.rs", "s/y.rs"] }));
        let read = session.ok("read_file", json!({ "path": "a/b.txt", "offset": 3, "limit": 4 })).await;
        assert_eq!(read, json!({ "content": "llo\n", "size": 11, "truncated": true, "next_offset": 7 }));
    })
}

/// A long search delays no other call, not even the destruction of its sandbox, and ends with its caller.
fn glob_blocks_nothing_else() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let session = std::sync::Arc::new(session());
        let long = "a".repeat(195);
        let make = format!("mkdir d && cd d && seq -f '%05.0f{long}' 20000 | xargs touch");
        session.ok("shell", json!({ "sandbox": "crowded", "command": make })).await;
        let found = session.ok("glob", json!({ "sandbox": "crowded", "pattern": "d/01234a*" })).await;
        assert_eq!(found, json!({ "files": [format!("d/01234{long}")] }));
        let searching = {
            let session = std::sync::Arc::clone(&session);
            let input = json!({ "sandbox": "crowded", "pattern": format!("**/{}b", "*a".repeat(500)) });
            tokio::spawn(async move { session.call("glob", input).await })
        };
        tokio::task::yield_now().await;
        for command in ["true"; 20] {
            session.ok("shell", json!({ "command": command })).await;
            session.ok("shell", json!({ "sandbox": "crowded", "command": command })).await;
        }
        session.session.destroy("crowded").await.unwrap();
        assert!(!searching.is_finished(), "it took no time at all");
        searching.abort();
        assert!(searching.await.unwrap_err().is_cancelled());
        let (error, _) = session.call("glob", json!({ "pattern": "*".repeat(1025) })).await;
        assert_eq!(error, "invalid_input: `pattern` must have 1 to 1024 bytes and no NUL");
    })
}

/// Text from a model is data: koze's shell never interprets its names and content.
fn injection() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let session = session();
        for nasty in
            ["$(touch /tmp/owned)", "`touch /tmp/owned`", "'; touch /tmp/owned; '", "-rf", "a\nb", "%n"]
        {
            session
                .ok("write_file", json!({ "path": format!("/home/user/{nasty}"), "content": nasty }))
                .await;
            let read = session.ok("read_file", json!({ "path": format!("/home/user/{nasty}") })).await;
            assert_eq!(read["content"], nasty);
            session.ok("glob", json!({ "pattern": "*", "cwd": "/home/user" })).await;
        }
        let ran = session.ok("shell", json!({ "command": "ls /tmp; ls | wc -l" })).await;
        assert!(!ran["stdout"].as_str().unwrap().contains("owned"), "{ran}");
    })
}

fn transfer() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let session = session();
        let make = "mkdir -p d/empty d/sub && head -c 3000000 /dev/urandom > d/sub/f && ln -s sub/f d/l && chmod 750 d/sub/f && sha256sum d/sub/f | cut -c1-64";
        let sum = session.ok("shell", json!({ "command": make })).await;
        let input = json!({ "from_sandbox": "default", "from_path": "d", "to_sandbox": "b", "to_path": "e", "recursive": true });
        assert_eq!(session.ok("transfer", input).await, json!({ "ok": true, "bytes": 3_000_000 }));
        let check =
            "test -d e/empty && stat -c %a e/sub/f && readlink e/l && sha256sum e/l | cut -c1-64; ls -A";
        let there = session.ok("shell", json!({ "sandbox": "b", "command": check })).await;
        let expected = format!("750\nsub/f\n{}e\n", sum["stdout"].as_str().unwrap());
        assert_eq!(there["stdout"], expected);
    })
}

fn sandboxes() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let session = session();
        let create = json!({ "sandbox": "b", "image": "python" });
        assert_eq!(session.ok("sandbox_create", create.clone()).await["created"], true);
        assert_eq!(session.ok("sandbox_create", create).await["created"], false);
        session.ok("shell", json!({ "command": "true" })).await;
        let list = session.ok("sandbox_list", json!({})).await;
        let names: Vec<&Value> =
            list["sandboxes"].as_array().unwrap().iter().map(|info| &info["name"]).collect();
        assert_eq!(names, ["b", "default"]);
        let url = session.ok("browse", json!({ "sandbox": "b", "port": 8080 })).await["url"].clone();
        assert!(url.as_str().is_some_and(|url| url.starts_with("http://8080-b-")), "{url}");
    })
}

/// The maximum applies even if all are created at once.
fn at_most() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let mut session = session();
        session.session = session.session.with_max_sandboxes(3);
        let session = std::sync::Arc::new(session);
        let makers = (0..8).map(|n| {
            let session = std::sync::Arc::clone(&session);
            tokio::spawn(async move { session.session.sandbox(&format!("s{n}")).await.map(drop) })
        });
        let mut made = Vec::new();
        for maker in makers.collect::<Vec<_>>() {
            made.push(maker.await.unwrap().map_err(|error| error.code));
        }
        assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 3, "{made:?}");
        assert!(made.iter().all(|made| matches!(made, Ok(()) | Err(Code::Unavailable))), "{made:?}");
        let list = session.session.list().await.unwrap();
        assert_eq!(list.len(), 3);
        session.session.destroy(list[0].name.as_str()).await.unwrap();
        session.session.sandbox("another").await.unwrap();
        assert_eq!(session.session.destroy("nobody").await.unwrap_err().code, Code::NotFound);
    })
}
