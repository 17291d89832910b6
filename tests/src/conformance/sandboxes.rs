//! `sandbox_create`, `sandbox_list`, and the isolation of sessions.

use serde_json::{Value, json};

use super::Capability::{Exec, List, ManyCalls, Restart};
use super::session::Session;
use super::{Case, IMAGES, case};
use crate::STARTED;

pub(super) const CASES: &[Case] = &[
    case("a_sandbox_is_made_once", made_once),
    case("the_first_use_makes_one", first_use).needs(&[List]),
    case("names_and_images_there_are_not", not_there).needs(&[ManyCalls]),
    case("every_name_there_can_be", names),
    case("sandboxes_share_nothing", share_nothing),
    case("sandboxes_that_are_not_listed", not_listed).lacks(&[List]),
    case("sessions_share_nothing", sessions),
    case("a_session_has_so_many_at_most", at_most).needs(&[List]),
    case("sandboxes_of_programs_share_nothing", processes).needs(&[Exec]),
    case("what_is_stored_survives_a_restart", restart).needs(&[List, Restart]),
    case("files_of_programs_survive_a_restart", restart_exec).needs(&[Exec, Restart]),
];

#[track_caller]
fn created(session: &Session, input: Value) -> bool {
    let name = input["sandbox"].clone();
    let result = session.ok("sandbox_create", input);
    assert_eq!(result["sandbox"], name);
    result["created"].as_bool().expect("true or false")
}

fn made_once(session: &Session) {
    let [default, other, _] = IMAGES;
    let create = json!({ "sandbox": "py", "image": other });
    assert!(created(session, create.clone()));
    assert!(!created(session, create), "it is there already");
    by_reference(session, default, other);
    assert!(!created(session, json!({ "sandbox": "py" })), "whatever it is, where none is named");
    let error = session.err("sandbox_create", json!({ "sandbox": "py", "image": default }));
    assert!(error.starts_with("already_exists: ") && error.contains(other), "{error}");
    session.write("f", "1");
    assert!(!created(session, json!({ "sandbox": "default" })), "the first use has made it");
    assert!(created(session, json!({ "sandbox": "slow", "sleep_after_ms": 86_400_000 })));
}

/// Creates sandboxes by image reference, which is the path of the Dockerfile if there is one. Other images conflict.
fn by_reference(session: &Session, default: &str, other: &str) {
    let words = session.images();
    let mut same = Vec::new();
    for word in words.iter().filter(|word| ![default, other].contains(&word.as_str())) {
        let result = session.call("sandbox_create", json!({ "sandbox": "py", "image": word }));
        let unlike = result.is_error && result.content.starts_with("already_exists: ");
        assert!(!result.is_error || unlike, "{word}: {}", result.content);
        same.extend((!result.is_error).then_some(word));
    }
    assert!(!same.is_empty(), "no reference is that of `{other}`: {words:?}");
}

fn first_use(session: &Session) {
    let [default, other, _] = IMAGES;
    assert_eq!(session.ok("sandbox_list", json!({})), json!({ "sandboxes": [] }));
    session.write("f", "1");
    session.ok("write_file", json!({ "sandbox": "zz", "path": "f", "content": "2" }));
    created(session, json!({ "sandbox": "py", "image": other }));
    // A container starts only when it is first used.
    session.ok("write_file", json!({ "sandbox": "py", "path": "f", "content": "3" }));
    // What only looks creates nothing, and says what there is.
    for (tool, input) in [
        ("read_file", json!({ "sandbox": "pyy", "path": "f" })),
        ("glob", json!({ "sandbox": "pyy", "pattern": "*" })),
        ("browse", json!({ "sandbox": "pyy", "port": 8080 })),
        ("transfer", json!({ "from_sandbox": "pyy", "from_path": "f", "to_sandbox": "zz", "to_path": "g" })),
    ] {
        let error = session.err(tool, input);
        let says = "not_found: there is no sandbox `pyy`: there are `default`, `py`, `zz`. ";
        assert!(error.starts_with(says), "{tool}: {error}");
    }
    let transfer =
        json!({ "from_sandbox": "zz", "from_path": "f", "to_sandbox": "by-transfer", "to_path": "f" });
    session.ok("transfer", transfer);
    let one = |name: &str, image: &str| json!({ "name": name, "image": image, "status": "running" });
    let expected =
        [one("by-transfer", default), one("default", default), one("py", other), one("zz", default)];
    assert_eq!(session.ok("sandbox_list", json!({})), json!({ "sandboxes": expected }));
}

fn not_there(session: &Session) {
    let longer = "a".repeat(21);
    for name in
        ["", "A", "a_b", "-a", "a-", "-", "../x", "a/b", "a\n", "a b", "ä", "a.b", "a:b", "$(x)", &longer]
    {
        for (tool, mut input) in [
            ("sandbox_create", json!({})),
            ("shell", json!({ "command": "true" })),
            ("read_file", json!({ "path": "f" })),
            ("write_file", json!({ "path": "f", "content": "x" })),
            ("glob", json!({ "pattern": "*" })),
            ("browse", json!({ "port": 8080 })),
        ] {
            input["sandbox"] = name.into();
            session.fails(tool, input, "invalid_input");
        }
        for (from, to) in [(name, "b"), ("a", name)] {
            let input = json!({ "from_sandbox": from, "from_path": "f", "to_sandbox": to, "to_path": "f" });
            session.fails("transfer", input, "invalid_input");
        }
    }
    for image in ["", "node:22", "SHELL", "shell ", "../python", "docker.io/library/python:3", "$(id)"] {
        let error = session.err("sandbox_create", json!({ "sandbox": "c", "image": image }));
        assert!(error.starts_with("invalid_input: ") && error.contains("python"), "{image}: {error}");
    }
    for sleep in [json!(0), json!(999), json!(86_400_001), json!(-1), json!("1000")] {
        session.fails("sandbox_create", json!({ "sandbox": "c", "sleep_after_ms": sleep }), "invalid_input");
    }
    if session.can(List) {
        assert!(!session.sandboxes().iter().any(|name| name == "c"), "none of these made one");
    }
}

fn names(session: &Session) {
    let longest = "a".repeat(20);
    let all = ["a", "0", "a-b", "a--b", "0-9", "default", "constructor", "proto", &longest];
    for name in all {
        assert!(created(session, json!({ "sandbox": name })), "{name}");
        session.ok("write_file", json!({ "sandbox": name, "path": "f", "content": name }));
    }
    if session.can(List) {
        assert_eq!(session.sandboxes().len(), all.len());
    }
    for name in all {
        let read = session.ok("read_file", json!({ "sandbox": name, "path": "f" }));
        assert_eq!(read["content"], name);
    }
}

fn share_nothing(session: &Session) {
    for path in ["/home/user/f", "/tmp/f", "/workspace/f"] {
        session.ok("write_file", json!({ "sandbox": "a", "path": path, "content": "mine" }));
        session.fails("read_file", json!({ "sandbox": "b", "path": path }), "not_found");
    }
    session.ok("sandbox_create", json!({ "sandbox": "b" }));
    let found = session.ok("glob", json!({ "sandbox": "b", "pattern": "**/f", "cwd": "/home" }));
    assert_eq!(found["files"], json!([]));
}

/// A host without a list says so, and how to enable one.
fn not_listed(session: &Session) {
    session.write("f", "1");
    let error = session.err("sandbox_list", json!({}));
    assert!(error.starts_with("unsupported: ") && error.contains("registry = true"), "{error}");
}

/// With naive joining, session `x:b` with sandbox `c` would equal session `x` with sandbox `b:c`.
fn sessions(session: &Session) {
    let name = session.name();
    let names = [
        format!("{name}:b"),
        name.to_owned(),
        format!("{name},1:b"),
        format!("{name}-b"),
        format!("{name}:b:c"),
        format!("{name}/b"),
        format!("{name} b"),
    ];
    for (index, name) in names.iter().enumerate() {
        let one = session.other(name);
        for sandbox in ["c", "b-c", "default"] {
            let content = format!("{index}{sandbox}");
            one.ok("write_file", json!({ "sandbox": sandbox, "path": "f", "content": content }));
        }
    }
    for (index, name) in names.iter().enumerate() {
        let one = session.other(name);
        if session.can(List) {
            assert_eq!(one.sandboxes(), ["b-c", "c", "default"], "{name}");
        }
        for sandbox in ["c", "b-c", "default"] {
            let read = one.ok("read_file", json!({ "sandbox": sandbox, "path": "f" }));
            assert_eq!(read["content"], format!("{index}{sandbox}"), "{name}");
        }
    }
}

fn at_most(session: &Session) {
    for number in 0..20 {
        assert!(created(session, json!({ "sandbox": format!("s{number}") })));
    }
    session.fails("sandbox_create", json!({ "sandbox": "one-more" }), "unavailable");
    session.fails("write_file", json!({ "sandbox": "one-more", "path": "f", "content": "" }), "unavailable");
    session.ok("write_file", json!({ "sandbox": "s19", "path": "f", "content": "2" }));
    assert!(!created(session, json!({ "sandbox": "s0" })));
    assert_eq!(session.sandboxes().len(), 20);
    let elsewhere = session.other(&format!("{}-elsewhere", session.name()));
    assert!(created(&elsewhere, json!({ "sandbox": "one-more" })), "another session has its own");
}

fn processes(session: &Session) {
    let start = format!("sleep 98721 > /dev/null 2>&1 & {STARTED}; echo x > /dev/shm/x 2> /dev/null; true");
    session.out_in("a", &start);
    let look = "for p in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $p; echo; done 2> /dev/null | grep -c '^sleep 9872[1]' || true";
    assert_eq!((session.out_in("a", look), session.out_in("b", look)), ("1".to_owned(), "0".to_owned()));
    assert_eq!(session.out_in("b", "ls -A /dev/shm /tmp /workspace 2> /dev/null | grep -c x || true"), "0");
}

fn restart(session: &Session) {
    let [default, other, _] = IMAGES;
    created(session, json!({ "sandbox": "py", "image": other }));
    session.write("f", "kept");
    session.restart();
    let list = session.ok("sandbox_list", json!({}));
    let known: Vec<_> = list["sandboxes"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| (&one["name"], &one["image"]))
        .collect();
    assert_eq!(known, [(&json!("default"), &json!(default)), (&json!("py"), &json!(other))]);
    assert!(!created(session, json!({ "sandbox": "py" })));
    session.fails("sandbox_create", json!({ "sandbox": "py", "image": default }), "already_exists");
    assert_eq!(session.read("f"), "kept");
}

fn restart_exec(session: &Session) {
    session.out(&format!("echo kept > f; chmod 750 f; ln -s f l; sleep 98722 > /dev/null 2>&1 & {STARTED}"));
    session.restart();
    assert_eq!(session.out("cat l; stat -c %a f"), "kept\n750");
    assert_eq!(session.out("cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'sleep [9]8722' || true"), "0");
}
