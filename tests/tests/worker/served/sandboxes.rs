//! The routes for sandboxes and their files. Those for processes need programs: see `dev::whole`.

use koze_tests::root;
use serde_json::{Value, json};

use super::host::Host;

#[test]
fn sandboxes_are_created_listed_and_described() {
    let persist = tempfile::tempdir().expect("a directory");
    let host = Host::with_registry(&persist);
    let get = |path: &str| host.ask("GET", &format!("/sessions/s/sandboxes{path}"), b"");
    assert_eq!(get("").json(), json!({ "sandboxes": [] }));
    let create = |body: &str| host.ask("POST", "/sessions/s/sandboxes", body.as_bytes());
    let created = create(r#"{"name": "a", "image": "python"}"#);
    assert_eq!((created.status, created.json()), (201, json!({ "name": "a", "created": true })));
    assert_eq!(create(r#"{"name": "a"}"#).status, 200);
    assert_eq!(create(r#"{"name": "a", "image": "shell"}"#).refusal().1, "already_exists");
    let list = get("").json();
    assert_eq!(
        (&list["sandboxes"][0]["name"], &list["sandboxes"][0]["image"]),
        (&json!("a"), &json!("python"))
    );
    assert_eq!(get("/a").json()["image"], "python");
    assert_eq!(get("/none").status, 404);
    assert_eq!(get("/a/nothing").status, 404);
    assert_eq!(host.send("GET", "/sessions/s/sandboxes", &[], b"").status, 401);
}

#[test]
fn a_worker_without_a_registry_describes_sandboxes() {
    let host = Host::start();
    assert!(!host.call("s", "write_file", &json!({ "path": "f", "content": "text" })).0);
    let described = host.ask("GET", "/sessions/s/sandboxes/default", b"");
    assert_eq!((described.status, &described.json()["name"]), (200, &json!("default")), "{described:?}");
    assert_eq!(host.ask("GET", "/sessions/s/sandboxes", b"").status, 501, "it has no list");
    for path in
        ["/sessions", "/sessions/s/egress", "/sessions/s/usage", "/sessions/s/sandboxes/default/terminal"]
    {
        let answer = host.ask("GET", path, b"");
        assert_eq!((answer.status, &answer.json()["error"]["code"]), (501, &json!("unsupported")), "{path}");
    }
}

#[test]
fn files_are_listed_described_and_removed() {
    let host = Host::start();
    for path in ["d/b", "d/a c"] {
        assert!(!host.call("s", "write_file", &json!({ "path": path, "content": "text" })).0);
    }
    let at = |path: &str| format!("/sessions/s/sandboxes/default/files/home/user/{path}");
    let list = host.ask("GET", &at("d?list"), b"").json();
    let names: Vec<&Value> =
        list["entries"].as_array().expect("a list").iter().map(|entry| &entry["name"]).collect();
    assert_eq!(names, ["a c", "b"]);
    let stat = host.ask("GET", &at("d/a%20c?stat"), b"").json();
    assert_eq!((&stat["name"], &stat["kind"], &stat["size"]), (&json!("a c"), &json!("file"), &json!(4)));
    assert_eq!(host.ask("DELETE", &at("d/b"), b"").json(), json!({ "ok": true }));
    assert_eq!(host.ask("GET", &at("d?list"), b"").json()["entries"].as_array().map(Vec::len), Some(1));
}

#[test]
fn the_routes_are_described() {
    let document = fs_err::read_to_string(root().join("core/src/http/openapi.json")).expect("the document");
    let answer = Host::start().ask("GET", "/openapi.json", b"");
    assert_eq!((answer.status, answer.body), (200, document));
}
