//! `sandbox_create`, `sandbox_list`, and what a session is.

use koze::Code;
use koze::provider::memory::Memory;
use serde_json::json;

use crate::{session, session_on};

#[test]
fn a_sandbox_is_made_once() {
    let session = session();
    let create = json!({ "sandbox": "py", "image": "python" });
    assert_eq!(session.ok("sandbox_create", create.clone()), json!({ "sandbox": "py", "created": true }));
    assert_eq!(session.ok("sandbox_create", create), json!({ "sandbox": "py", "created": false }));
    let by_reference = json!({ "sandbox": "py", "image": "docker.io/cloudflare/sandbox:0.12.10-python" });
    assert_eq!(session.ok("sandbox_create", by_reference)["created"], false);
    assert_eq!(session.ok("sandbox_create", json!({ "sandbox": "py" }))["created"], false);
    let other = session.err("sandbox_create", json!({ "sandbox": "py", "image": "shell" }));
    assert!(other.starts_with("already_exists: ") && other.contains("`python`"), "{other}");
}

#[test]
fn the_first_use_makes_one() {
    let session = session();
    session.write("f", "1");
    session.ok("write_file", json!({ "sandbox": "other", "path": "f", "content": "2" }));
    session.ok("sandbox_create", json!({ "sandbox": "py", "image": "python" }));
    assert_eq!(
        session.ok("sandbox_list", json!({})),
        json!({ "sandboxes": [
            { "name": "default", "image": "shell", "status": "running" },
            { "name": "other", "image": "shell", "status": "running" },
            { "name": "py", "image": "python", "status": "running" },
        ] })
    );
    assert_eq!(session.read("f"), "1", "each has files of its own");
}

#[test]
fn names_and_images_that_there_are_not() {
    let session = session();
    for name in ["", "A", "a_b", "-a", "a-", "../x", "a\n", "012345678901234567890"] {
        let error = session.err("sandbox_create", json!({ "sandbox": name }));
        assert!(error.starts_with("invalid_input: "), "{name:?}: {error}");
        let error = session.err("read_file", json!({ "sandbox": name, "path": "f" }));
        assert!(error.starts_with("invalid_input: "), "{name:?}: {error}");
    }
    let error = session.err("sandbox_create", json!({ "sandbox": "a", "image": "node:22" }));
    assert_eq!(error, "invalid_input: there is no image `node:22`: the images are shell, python");
}

#[test]
fn sessions_and_tenants_share_nothing() {
    let provider = Memory::new();
    let sessions =
        [("a:b", "c"), ("a", "b:c"), ("a", "b")].map(|(tenant, id)| session_on(provider.clone(), tenant, id));
    for (index, session) in sessions.iter().enumerate() {
        session.write("f", &index.to_string());
    }
    for (index, session) in sessions.iter().enumerate() {
        assert_eq!(session.read("f"), index.to_string());
        assert_eq!(session.ok("sandbox_list", json!({}))["sandboxes"].as_array().map(Vec::len), Some(1));
    }
    let again = session_on(provider, "a", "b:c");
    assert_eq!(again.read("f"), "1", "the same session finds what it left");
}

#[test]
fn a_session_has_so_many_at_most() {
    let mut session = session();
    session.pool = session.pool.with_at_most(2);
    session.write("f", "1");
    session.ok("sandbox_create", json!({ "sandbox": "b" }));
    assert!(session.err("sandbox_create", json!({ "sandbox": "c" })).starts_with("unavailable: "));
    session.ok("write_file", json!({ "sandbox": "b", "path": "f", "content": "2" }));
}

#[test]
fn a_destroyed_one_is_gone() {
    let mut session = session();
    session.pool = session.pool.with_at_most(1);
    session.write("f", "1");
    let destroy = |name: &str| pollster::block_on(session.pool.destroy(name));
    assert_eq!(destroy("default"), Ok(()));
    assert_eq!(session.ok("sandbox_list", json!({})), json!({ "sandboxes": [] }));
    for (name, code) in [("default", Code::NotFound), ("other", Code::NotFound), ("A", Code::InvalidInput)] {
        assert_eq!(destroy(name).map_err(|error| error.code), Err(code), "{name}");
    }
    assert_eq!(session.ok("sandbox_list", json!({})), json!({ "sandboxes": [] }), "none was made for it");
    assert_eq!(session.ok("sandbox_create", json!({ "sandbox": "b" }))["created"], true, "it does not count");
}
