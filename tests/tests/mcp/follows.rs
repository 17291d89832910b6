//! A server whose project changes, and whose supervisor exits, while it runs.

use std::io::Write as _;

use koze_tests::eventually;
use serde_json::json;

use crate::lines::{Client, printed};
use crate::server::project;

#[test]
fn it_follows_changes_of_the_project() {
    let host = project();
    let file = "src/server/shell.sandbox.rs";
    let shut = host.read(file);
    host.write(file, shut.replace("#[sandbox(", "#[sandbox(internet = true, "));
    let mut client = Client::start(&host);
    let count = "env | grep -c -i '_proxy=http'; true";
    assert_eq!(client.shell(count), "4\n");
    host.write(file, &shut);
    assert_eq!(client.shell(count), "0\n");
    host.write(
        "src/server/node.sandbox.rs",
        "use koze::prelude::*;\n\n#[sandbox]\npub struct NodeSandbox;\n",
    );
    assert_eq!(host.koze(&["build"]).code, 0);
    let tools = client.ask("tools/list", &json!({}))["tools"].to_string();
    assert!(tools.contains("\"node\""), "{tools}");
    client.end();
}

#[test]
fn it_continues_after_its_supervisor_is_killed() {
    let host = project();
    let mut client = Client::start(&host);
    assert_eq!(client.shell("echo kept > file; cat file"), "kept\n");
    for _ in 0..2 {
        host.kill_supervisors();
        assert_eq!(client.shell("cat file"), "kept\n");
    }
    assert_eq!(host.shell("cat file"), "kept\n");
    client.end();
}

#[test]
fn a_call_whose_supervisor_is_killed_fails() {
    let host = project();
    let mut client = Client::start(&host);
    let long = client.command("touch running; sleep 600");
    client.say(&long);
    eventually("the command runs", || host.shell("ls").contains("running"));
    host.kill_supervisors();
    let answer = client.read_answer()["result"].clone();
    assert_eq!(answer["isError"], true, "{answer}");
    assert!(answer.to_string().contains("ended during the call"), "{answer}");
    assert_eq!(client.shell("ls"), "running\n");
    client.end();
}

#[test]
fn it_continues_after_its_supervisor_is_stopped() {
    let host = project();
    let mut client = Client::start(&host);
    assert_eq!(client.shell("echo here > file; cat file"), "here\n");
    assert_eq!(host.koze(&["destroy", "--all"]).code, 0);
    assert_eq!(client.shell("cat file || echo anew"), "anew\n");
    client.end();
}

/// An upgraded koze replaces the supervisor while a call runs and while half a request has arrived.
#[test]
fn nothing_is_lost_when_its_supervisor_is_replaced() {
    let host = project();
    let mut client = Client::start(&host);
    assert_eq!(client.shell("touch here; echo here"), "here\n");
    let supervisors = host.supervisors();
    let long = client.command("touch running; sleep 4; head -c 500000 /dev/zero | tr '\\0' x");
    client.say(&long);
    eventually("the command runs", || host.shell("ls").contains("running"));
    let [second, third] = ["second", "third"].map(|word| client.command(&format!("echo {word}")).to_string());
    let (half, rest) = second.split_at(second.len() / 2);
    client.requests.write_all(half.as_bytes()).expect("it reads");
    let other = r#"{"sandbox": "b", "command": "true"}"#;
    let other = host.run(host.other_build(&["call", "shell", other]));
    assert_eq!(other.code, 0, "{other:?}");
    assert!(host.supervisors().iter().any(|id| supervisors.contains(id)), "it still has to answer");
    assert_eq!(printed(&client.read_answer()), "x".repeat(500_000));
    writeln!(client.requests, "{rest}\n{third}").expect("it reads");
    // Both were requested by now, and may be answered in either order.
    let mut answers = [client.read_answer(), client.read_answer()];
    answers.sort_by_key(|answer| answer["id"].as_u64());
    assert_eq!(answers.each_ref().map(printed), ["second\n", "third\n"]);
    eventually("the first one has ended", || !host.supervisors().iter().any(|id| supervisors.contains(id)));
    assert_eq!(client.shell("ls"), "here\nrunning\n");
    client.end();
}
