//! Snapshots over HTTP, and `koze snapshot --url`.

use fs_err as fs;
use koze_tests::{Run, Sandboxes, run};
use serde_json::{Value, json};

use crate::http::{bearer, send};
use crate::server::{Http, TIMEOUT, project};

const BOX: &str = "use koze::prelude::*;\n\n\
    #[sandbox(tools = [\"workspace\"], workspace(name = \"box\", shell, snapshot(bucket = \"BACKUPS\", max_count = 3)))]\n\
    pub struct BoxSandbox;\n";

/// Starts a server of a project whose workspace `box` has snapshots.
fn start() -> (Sandboxes, Http) {
    let host = project();
    host.write("src/server/box.sandbox.rs", BOX);
    let run = host.koze(&["build"]);
    assert_eq!(run.code, 0, "{run:?}");
    let server = Http::start(&host, &[]);
    (host, server)
}

/// Sends a request below the session, and returns the status and the JSON of the response.
fn ask(server: &Http, request: &str, body: &Value) -> (u16, Value) {
    let (method, path) = request.split_once(' ').expect("a method");
    let headers = format!("Host: localhost\r\n{}", bearer(server));
    let request = format!("{method} /sessions/default{path}");
    let (status, answer) = send(server, &request, &headers, body.to_string().as_bytes());
    let text = answer.split_once("\r\n\r\n").expect("a head").1;
    (status, serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {answer}")))
}

/// Runs a command in the workspace, or in a sandbox that was created from a snapshot.
fn run_in(server: &Http, workspace: Option<&str>, command: &str) -> String {
    let mut input = json!({ "command": command });
    if let Some(workspace) = workspace {
        input["workspace"] = workspace.into();
    }
    let (status, result) = ask(server, "POST /tools/workspace__box__run?tools=workspace", &input);
    assert_eq!((status, &result["isError"]), (200, &json!(false)), "{result}");
    let output: Value = serde_json::from_str(result["content"].as_str().expect("text")).expect("JSON");
    output["stdout"].as_str().expect("text").to_owned()
}

#[test]
fn snapshots_are_taken_restored_and_removed_over_http() {
    let (_host, server) = start();
    let empty = json!({ "snapshots": [], "sandboxes": [] });
    assert_eq!(ask(&server, "GET /snapshots", &Value::Null), (200, empty));
    run_in(&server, None, "echo first > f");
    let (status, first) = ask(&server, "POST /snapshots", &json!({}));
    assert_eq!((status, &first["contents"]["entries"]), (201, &json!(1)), "{first}");
    let id = first["id"].as_str().expect("an ID");
    run_in(&server, None, "echo second > f");

    let (status, branch) = ask(&server, &format!("POST /snapshots/{id}/branch"), &json!({}));
    let name = branch["sandbox"].as_str().expect("a name");
    assert!(status == 201 && name.starts_with("box-branch-"), "{branch}");
    assert_eq!(run_in(&server, Some(name), "cat f; echo third > f"), "first\n");
    let (status, second) = ask(&server, "POST /snapshots", &json!({ "sandbox": name }));
    assert_eq!((status, &second["parent"]), (201, &json!(id)), "{second}");
    let (status, restored) = ask(
        &server,
        &format!("POST /snapshots/{}/restore", second["id"].as_str().expect("an ID")),
        &json!({ "workspace": "box" }),
    );
    assert_eq!(status, 201, "{restored}");
    assert_eq!(run_in(&server, restored["sandbox"].as_str(), "cat f"), "third\n");
    assert_eq!(run_in(&server, None, "cat f"), "second\n");

    let (_, list) = ask(&server, "GET /snapshots", &Value::Null);
    assert_eq!(list["snapshots"], json!([first, second]));
    let origin = |name: &Value| {
        let sandboxes = list["sandboxes"].as_array().expect("a list");
        sandboxes.iter().find(|sandbox| sandbox["name"] == *name).map(|found| found["snapshot"].clone())
    };
    assert_eq!(origin(&branch["sandbox"]), Some(first["id"].clone()), "{list}");
    assert_eq!(origin(&restored["sandbox"]), Some(second["id"].clone()), "{list}");
    let remove = format!("DELETE /snapshots/{id}");
    assert_eq!(ask(&server, &remove, &Value::Null), (200, json!({ "ok": true })));
    assert_eq!(ask(&server, &remove, &Value::Null).0, 404);
    assert_eq!(run_in(&server, Some(name), "cat f"), "third\n", "a sandbox outlives its snapshot");
}

#[test]
fn the_command_works_on_a_server() {
    let (host, server) = start();
    fs::create_dir(host.path("elsewhere")).expect("a directory");
    let koze = |args: &[&str]| {
        let url = format!("--url=http://{}", server.address());
        let mut command = host.command(&[&["snapshot"], args, &[url.as_str()]].concat());
        command.current_dir(host.path("elsewhere")).env("KOZE_TOKEN", &server.token);
        let output = run(command, TIMEOUT);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        let code = output.status.code().expect("an exit code");
        Run { code, stdout: text(output.stdout), stderr: text(output.stderr) }
    };
    let ok = |args: &[&str]| {
        let run = koze(args);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{args:?}: {}", run.stdout);
        run.stdout.trim_end().to_owned()
    };
    assert_eq!(ok(&["list"]), "no snapshots: `koze snapshot create` takes one");
    run_in(&server, None, "echo first > f");
    let id = ok(&["create"]);
    assert!(id.starts_with("snap_"), "{id}");
    let branch = ok(&["branch", &id]);
    assert_eq!(run_in(&server, Some(&branch), "cat f"), "first\n");
    assert!(ok(&["restore", &id, "--workspace", "box"]).starts_with("box-restored-"));
    // The list is the same as on this machine.
    assert_eq!(
        ok(&["list", "--format", "json"]),
        host.koze(&["snapshot", "list", "--format", "json"]).stdout.trim_end()
    );
    assert_eq!(ok(&["list"]), host.koze(&["snapshot", "list"]).stdout.trim_end());
    assert_eq!(ok(&["rm", &id]), format!("removed {id}"));
    for (args, code, says) in [
        (&["rm", id.as_str()][..], 1, "error[not_found]: there is no snapshot"),
        (&["restore", "x"], 1, "error[invalid_input]: a snapshot's ID must be"),
        (&["create", "--workspace", "none"], 1, "error[not_found]: the workspace `none` failed"),
        (&["export", &id, "x.tar.zst"], 2, "error: --url: a server neither exports nor imports"),
        (&["import", "x.tar.zst"], 2, "error: --url: a server neither exports nor imports"),
    ] {
        let run = koze(args);
        assert!(run.code == code && run.stderr.starts_with(says), "{args:?}: {run:?}");
    }
}
