use serde_json::{Value, json};

use crate::http::{Body, Request, Resource, answer_request};
use crate::id::SessionId;
use crate::profiles::Profiles;
use crate::provider::memory::Memory;
use crate::provider::{Profile, Size};
use crate::session::Session;
use crate::tool::{All, Family};
use crate::workspace::{SnapshotConfig, WorkspaceConfig};

/// A session whose workspaces have these names. All but `plain` have at most three snapshots.
fn session(names: &[&str]) -> Session<Memory> {
    let profile = |name: &&str| {
        let snapshot = SnapshotConfig { max_count: 3, ..SnapshotConfig::default() };
        let snapshot = (**name != *"plain").then_some(snapshot);
        Profile {
            tools: vec![Family::Workspace],
            workspace: Some(WorkspaceConfig { snapshot, ..WorkspaceConfig::new(*name) }),
            ..Profile::new(*name, "debian:trixie-slim", Size { memory_mib: 256, disk_mb: 1000 })
        }
    };
    let profiles = Profiles::new(names.iter().map(profile).collect(), names[0]).unwrap();
    Session::new(Memory::new(), SessionId::new("t", "s").unwrap(), profiles)
}

fn ask<F: crate::tool::Families>(session: &Session<Memory>, request: &str, body: &str) -> (u16, Value) {
    let (method, path) = request.split_once(' ').unwrap();
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let pair = |pair: &str| pair.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    let request = Request {
        method: method.to_owned(),
        resource: Resource::Snapshots,
        path: path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect(),
        query: query.split('&').filter_map(pair).collect(),
        last_event_id: None,
        body: body.into(),
    };
    let response = pollster::block_on(answer_request::<F, _>(session, request));
    let Body::Json(text) = response.body else { panic!("events") };
    (response.status, serde_json::from_str(&text).unwrap())
}

fn write(session: &Session<Memory>, sandbox: Option<&str>, text: &str) {
    pollster::block_on(async {
        let workspaces = session.workspaces();
        let workspace = match sandbox {
            Some(sandbox) => workspaces.restored("box", sandbox).await.unwrap(),
            None => workspaces.get("box").await.unwrap(),
        };
        workspace.fs().unwrap().write("f", text.as_bytes().to_vec()).await.unwrap();
    });
}

fn read_file(session: &Session<Memory>, sandbox: &str) -> String {
    pollster::block_on(async {
        let workspace = session.workspaces().restored("box", sandbox).await.unwrap();
        String::from_utf8(workspace.fs().unwrap().read("f").await.unwrap()).unwrap()
    })
}

#[test]
fn snapshots_form_a_tree() {
    let session = session(&["box", "plain"]);
    assert_eq!(ask::<All>(&session, "GET /", ""), (200, json!({ "snapshots": [], "sandboxes": [] })));
    write(&session, None, "first");
    let (status, first) = ask::<All>(&session, "POST /", "");
    assert_eq!(status, 201, "{first}");
    let id = first["id"].as_str().unwrap();
    assert_eq!(
        [&first["workspace"], &first["session"], &first["contents"], &first["expired"], &first["parent"]],
        [
            &json!("box"),
            &json!("s"),
            &json!({ "entries": 1, "bytes": 5, "skipped": 0 }),
            &json!(false),
            &Value::Null
        ]
    );
    assert_eq!(ask::<All>(&session, &format!("GET /{id}"), "").1, first);
    write(&session, None, "second");
    let (status, branch) = ask::<All>(&session, &format!("POST /{id}/branch"), "{}");
    let name = branch["sandbox"].as_str().unwrap();
    assert!(status == 201 && name.starts_with("box-branch-"), "{branch}");
    assert_eq!([&branch["workspace"], &branch["snapshot"]], [&json!("box"), &json!(id)]);
    assert_eq!(read_file(&session, name), "first");
    let (status, restored) = ask::<All>(&session, &format!("POST /{id}/restore"), r#"{"workspace": "box"}"#);
    assert!(status == 201 && restored["sandbox"].as_str().unwrap().starts_with("box-restored-"));

    // A snapshot of the new sandbox has the first one as its parent.
    write(&session, Some(name), "third");
    let wanted = json!({ "sandbox": name }).to_string();
    let (status, second) = ask::<All>(&session, "POST /", &wanted);
    assert_eq!((status, &second["parent"]), (201, &json!(id)));
    let (_, list) = ask::<All>(&session, "GET /", "");
    assert_eq!(list["snapshots"], json!([first, second]));
    let sandboxes = list["sandboxes"].as_array().unwrap();
    assert_eq!(sandboxes.len(), 2, "{list}");
    assert!(sandboxes.contains(&json!({ "name": name, "workspace": "box", "snapshot": id })), "{list}");

    // Destroyed sandboxes and removed snapshots are not listed.
    pollster::block_on(session.destroy(name)).unwrap();
    let removed = format!("DELETE /{id}");
    assert_eq!(ask::<All>(&session, &removed, ""), (200, json!({ "ok": true })));
    assert_eq!(ask::<All>(&session, &removed, "").0, 404);
    let (_, list) = ask::<All>(&session, "GET /?workspace=box", "");
    assert_eq!(list["snapshots"], json!([second]));
    assert_eq!(list["sandboxes"][0]["name"], restored["sandbox"]);
    assert_eq!(list["sandboxes"].as_array().unwrap().len(), 1);
}

#[test]
fn requests_that_are_not_valid_are_refused() {
    let session = session(&["box", "plain"]);
    let none = format!("snap_{}", "0".repeat(32));
    for (request, body, status) in [
        ("PUT /", "", 405),
        ("POST /", "[", 400),
        ("POST /", r#"{"wrokspace": "box"}"#, 400),
        ("POST /", r#"{"workspace": "none"}"#, 404),
        ("POST /", r#"{"workspace": "plain"}"#, 501),
        ("POST /", r#"{"sandbox": "box"}"#, 404),
        ("POST /", r#"{"sandbox": "../b"}"#, 400),
        ("GET /?workspace=none", "", 404),
        ("GET /x", "", 400),
        ("DELETE /x", "", 400),
        ("POST /x", "", 405),
        ("POST /x/restore", "", 400),
        ("GET /x/branch", "", 405),
        ("POST /x/export", "", 404),
        (&format!("GET /{none}"), "", 404),
        (&format!("DELETE /{none}"), "", 404),
        (&format!("POST /{none}/restore"), "", 404),
        (&format!("POST /{none}/restore"), r#"{"workspace": "box"}"#, 404),
        (&format!("POST /{none}/restore"), r#"{"session": "other"}"#, 400),
    ] {
        let (given, answer) = ask::<All>(&session, request, body);
        assert_eq!(given, status, "{request} {body}: {answer}");
        assert!(answer["error"]["message"].is_string(), "{answer}");
    }
    // The limit of the session is an error with its figures.
    write(&session, None, "x");
    for _ in 0..3 {
        assert_eq!(ask::<All>(&session, "POST /", "").0, 201);
    }
    let (status, full) = ask::<All>(&session, "POST /", "");
    assert!(status == 503 && full.to_string().contains("max_count"), "{status} {full}");
}

#[test]
fn a_workspace_is_selected_if_there_are_several() {
    let session = session(&["box", "other"]);
    let (status, answer) = ask::<All>(&session, "POST /", "");
    assert_eq!(status, 400);
    assert_eq!(
        answer["error"]["message"],
        "several workspaces have snapshots: set `workspace` to one of box, other"
    );
    write(&session, None, "x");
    let (status, taken) = ask::<All>(&session, "POST /", r#"{"workspace": "box"}"#);
    assert_eq!(status, 201);
    // A snapshot knows its workspace.
    let id = taken["id"].as_str().unwrap();
    assert_eq!(ask::<All>(&session, &format!("POST /{id}/branch"), "").0, 201);
    let of_other = format!("POST /{id}/branch");
    assert_eq!(ask::<All>(&session, &of_other, r#"{"workspace": "other"}"#).0, 404);
    assert_eq!(
        ask::<All>(&session, "GET /?workspace=other", "").1,
        json!({ "snapshots": [], "sandboxes": [] })
    );
}

#[test]
fn hosts_and_projects_without_snapshots_say_so() {
    for session in [session(&["plain"]), session(&["box"])] {
        let is_declared = session.workspaces().names() == ["box"];
        let (status, answer) = if is_declared {
            // A Worker whose tools have no workspaces.
            ask::<(crate::tool::agent::Agent,)>(&session, "GET /", "")
        } else {
            ask::<All>(&session, "GET /", "")
        };
        assert_eq!((status, &answer["error"]["code"]), (501, &json!("unsupported")), "{answer}");
    }
}
