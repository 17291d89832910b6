//! What stands above the tools, on sandboxes in memory: everything but running programs.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use koze_core::handle::Lifecycle;
use koze_core::provider::memory::Memory;
use koze_core::provider::{Profile, Size};
use koze_core::{Code, Family, Run, SessionId};
use koze_core::{Profiles, Session};
use serde_json::{Value, json};

fn session() -> Session<Memory> {
    let profile =
        Profile::new("shell", "docker.io/library/debian:13", Size { memory_mib: 256, disk_mb: 2000 });
    let session = SessionId::new("tenant", "session").unwrap();
    Session::new(Memory::new(), session, Profiles::new(vec![profile], "shell").unwrap())
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let minute = Duration::from_mins(1);
    runtime.block_on(async { tokio::time::timeout(minute, test).await }).expect("it came to an end");
}

fn code<T: std::fmt::Debug>(result: koze_core::Result<T>) -> Code {
    result.unwrap_err().code
}

#[test]
fn the_same_name_is_the_same_sandbox() {
    run(async {
        let session = session();
        let (one, two) = (session.get("a").await.unwrap(), session.get("a").await.unwrap());
        let other = session.get("b").await.unwrap();
        one.write_file("f", "text").await.unwrap();
        assert_eq!(two.read_file("/home/user/f").await.unwrap(), b"text");
        assert_eq!(code(other.read_file("f").await), Code::NotFound);
        assert_eq!(code(session.get("A").await), Code::InvalidInput);
        // Nothing runs in memory, and that is said.
        assert_eq!(code(one.exec("true").await), Code::Unsupported);
        assert!(!one.is_healthy().await);
        assert_eq!(code(one.browse(8080).await), Code::Unsupported);
    });
}

#[test]
fn a_destroyed_sandbox_stays_destroyed() {
    run(async {
        let session = session();
        let (one, two) = (session.get("a").await.unwrap(), session.get("a").await.unwrap());
        one.write_file("f", "1").await.unwrap();
        let tool = two.tool("read_file").unwrap();
        assert_eq!(two.state().await.unwrap().status, Lifecycle::Running);
        one.destroy().await.unwrap();
        assert_eq!(two.state().await.unwrap().status, Lifecycle::Destroyed);
        for result in
            [two.read_file("f").await.map(drop), two.destroy().await, two.write_file("f", "2").await]
        {
            assert_eq!(code(result), Code::NotFound);
        }
        let result = tool.call(json!({ "path": "f" })).await;
        assert!(result.is_error && result.content.starts_with("not_found: "), "{}", result.content);
        assert!(session.state().await.unwrap().sandboxes.is_empty(), "no call made it again");
        // One of the same name is another.
        let again = session.get("a").await.unwrap();
        assert_eq!(code(again.read_file("f").await), Code::NotFound);
        assert_eq!(again.state().await.unwrap().status, Lifecycle::Running);
        assert_eq!(two.state().await.unwrap().status, Lifecycle::Destroyed);
    });
}

#[test]
fn tools_of_one_sandbox_take_no_sandbox() {
    run(async {
        let session = session();
        let sandbox = session.get("a").await.unwrap();
        for name in ["shell", "read_file", "write_file", "glob", "browse"] {
            let tool = sandbox.tool(name).unwrap();
            let schema = &tool.definition().schema;
            assert_eq!(tool.definition().name, name);
            assert!(
                schema["properties"].as_object().is_some_and(|all| !all.contains_key("sandbox")),
                "{schema}"
            );
            let result = tool.call(json!({ "sandbox": "b" })).await;
            assert!(
                result.content.starts_with("invalid_input: unknown field `sandbox`"),
                "{}",
                result.content
            );
            assert!(tool.call(json!([1])).await.content.starts_with("invalid_input: "));
        }
        for name in ["sandbox_create", "sandbox_list", "transfer", "toString", ""] {
            assert_eq!(code(sandbox.tool(name)), Code::UnknownTool, "{name}");
        }
        let write = sandbox.tool("write_file").unwrap();
        assert!(!write.call(json!({ "path": "f", "content": "x" })).await.is_error);
        assert_eq!(sandbox.read_file("f").await.unwrap(), b"x");
    });
}

#[test]
fn a_session_has_all_tools() {
    run(async {
        let session = session();
        let tools = session.tools();
        let names: Vec<_> = tools.iter().map(|tool| tool.definition().name.clone()).collect();
        let expected = [
            "shell",
            "process_list",
            "process_output",
            "process_input",
            "process_kill",
            "read_file",
            "write_file",
            "glob",
            "browse",
            "sandbox_create",
            "sandbox_list",
            "transfer",
        ];
        assert_eq!(names, expected);
        let call = async |name: &str, input: Value| {
            let tool = tools.iter().find(|tool| tool.definition().name == name).unwrap();
            let result = tool.call(input).await;
            assert!(!result.is_error, "{}", result.content);
        };
        call("write_file", json!({ "path": "f", "content": "x" })).await;
        call(
            "transfer",
            json!({ "from_sandbox": "default", "from_path": "f", "to_sandbox": "b", "to_path": "g" }),
        )
        .await;
        assert_eq!(session.get("b").await.unwrap().read_file("g").await.unwrap(), b"x");
        assert_eq!(
            serde_json::to_value(session.state().await.unwrap()).unwrap(),
            json!({ "sandboxes": {
                "b": { "status": "running", "image": "shell" },
                "default": { "status": "running", "image": "shell" },
            } })
        );
    });
}

#[test]
fn a_run_that_cannot_be_leaves_no_sandbox() {
    run(async {
        let session = session().with_max_sandboxes(1);
        let of = |commands: &[&str], files: &[&str]| Run {
            commands: commands.iter().map(|&command| command.to_owned()).collect(),
            files: files.iter().map(|&file| file.to_owned()).collect(),
            ..Run::default()
        };
        assert_eq!(code(session.run(of(&["true"], &[])).await), Code::Unsupported);
        assert_eq!(code(session.run(of(&[], &["none"])).await), Code::NotFound);
        assert_eq!(code(session.run(of(&[], &["a\0"])).await), Code::InvalidInput);
        let profile = Run { profile: Some("none".into()), ..Run::default() };
        assert_eq!(code(session.run(profile).await), Code::InvalidInput);
        assert_eq!(session.run(Run::default()).await.unwrap(), koze_core::Outcome::default());
        assert!(session.state().await.unwrap().sandboxes.is_empty());
        session.get("a").await.unwrap();
        assert_eq!(code(session.run(Run::default()).await), Code::Unavailable);
    });
}

async fn next<T>(stream: &mut (impl Stream<Item = T> + Unpin)) -> Option<T> {
    stream.next().await
}

#[test]
fn a_file_is_watched_before_it_exists_and_after() {
    run(async {
        let session = session();
        let sandbox = session.get("a").await.unwrap();
        let mut contents = pin!(sandbox.watch_text("f"));
        // Nothing is said while there is nothing.
        let early = tokio::time::timeout(Duration::from_millis(600), contents.next()).await;
        assert!(early.is_err(), "{early:?}");
        sandbox.write_file("f", "one").await.unwrap();
        assert_eq!(next(&mut contents).await, Some(Ok("one".to_owned())));
        sandbox.write_file("f", "one").await.unwrap();
        let same = tokio::time::timeout(Duration::from_millis(600), contents.next()).await;
        assert!(same.is_err(), "the same is no change: {same:?}");
        sandbox.write_file("f", b"\xff").await.unwrap();
        assert_eq!(next(&mut contents).await.map(code), Some(Code::Binary));
        sandbox.write_file("f", "two").await.unwrap();
        assert_eq!(next(&mut contents).await, Some(Ok("two".to_owned())));
        let place = koze_core::sandbox::Place { root: "/", path: "/home/user/f" };
        koze_core::Sandbox::remove(sandbox.sandbox().unwrap(), place).await.unwrap();
        assert_eq!(next(&mut contents).await.map(code), Some(Code::NotFound));
        sandbox.destroy().await.unwrap();
        assert_eq!(next(&mut contents).await, None);
    });
}

#[test]
fn a_file_is_watched_as_json() {
    run(async {
        let session = session();
        let sandbox = session.get("a").await.unwrap();
        sandbox.write_file("f", r#"{"port": 3000}"#).await.unwrap();
        let mut values = pin!(sandbox.watch_json::<Value>("f"));
        assert_eq!(next(&mut values).await, Some(Ok(json!({ "port": 3000 }))));
        sandbox.write_file("f", r#"{"port":"#).await.unwrap();
        assert_eq!(next(&mut values).await.map(code), Some(Code::InvalidInput));
        let mut bad = pin!(sandbox.watch("a\0b"));
        assert_eq!(next(&mut bad).await.map(code), Some(Code::InvalidInput), "errors are items");
        sandbox.destroy().await.unwrap();
        assert!(next(&mut values).await.is_none() && next(&mut bad).await.is_none());
    });
}

#[test]
fn subscribers_learn_of_the_end() {
    run(async {
        let session = session();
        let sandbox = session.get("a").await.unwrap();
        let mut states = pin!(sandbox.subscribe());
        let first = next(&mut states).await.unwrap();
        assert_eq!(
            serde_json::to_value(first).unwrap(),
            json!({ "status": "running", "history": [], "preview_url": null })
        );
        session.destroy("a").await.unwrap();
        assert_eq!(next(&mut states).await.map(|state| state.status), Some(Lifecycle::Destroyed));
        assert_eq!(next(&mut states).await, None);
    });
}

#[test]
fn a_session_has_the_tools_of_each_toolset() {
    run(async {
        let mut profile =
            Profile::new("shell", "docker.io/library/debian:13", Size { memory_mib: 256, disk_mb: 2000 });
        profile.tools = vec![Family::Agent, Family::Thread];
        let id = SessionId::new("tenant", "session").unwrap();
        let session = Session::new(Memory::new(), id, Profiles::new(vec![profile], "shell").unwrap());
        let thread = session.toolset("thread").unwrap();
        let find = |name: &str| thread.iter().find(|tool| tool.definition().name == name).unwrap();
        let path = "/mnt/user-data/workspace/f";
        let input = json!({ "description": "Write", "path": path, "content": "text" });
        assert_eq!(find("write_file").call(input).await.content, "OK");
        let input = json!({ "description": "Read", "path": path });
        assert_eq!(find("read_file").call(input).await.content, "text");
        assert!(thread.iter().all(|tool| tool.definition().name != "shell"));
        assert!(
            session.tools().iter().any(|tool| tool.definition().name == "shell"),
            "the default is `agent`"
        );
        assert_eq!(code(session.toolset("workspace")), Code::InvalidInput);
        assert_eq!(code(session.toolset("agent,thread")), Code::InvalidInput);
    });
}
