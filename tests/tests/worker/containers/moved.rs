//! Sandboxes that move to the backend `managed`, in place and side by side, with the state that workerd has stored.

use std::thread;

use koze_tests::containers::Engine;
use koze_tests::{eventually, signal};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::calls::{bash, exec_for, one, open, sandbox, works};
use super::engine::engine;
use super::images::{PLAIN, SDK, Variant};
use super::managed::decode;
use super::project::{one_sandbox, start};
use crate::dev::run::Client;
use crate::project::Worker;

/// Creates files of all kinds in each directory that is copied. Only root may create the last one in these images.
const FILL: &str = "cd /home/user && mkdir -p .config/deep 'a dir' empty && echo config > .config/deep/file \
    && echo text > 'a dir/ü' && ln -s /nowhere link && chmod 700 .config && echo > run && chmod 751 run \
    && echo work > /workspace/work \
    && if [ -w / ]; then mkdir -p /mnt/user-data/uploads && echo up > /mnt/user-data/uploads/up; fi";

/// Creates a file that takes long enough to copy, in a directory that is not the first one.
const FILL_LARGE: &str = "head -c 500000000 /dev/urandom > /workspace/large";

/// Digests the names, kinds, modes and contents of all files.
const DIGEST: &str = "cd / && list() { find home/user workspace mnt/user-data \"$@\" 2>/dev/null | sort; } \
    && list -printf '%p %y %m %l\\n' | sha256sum \
    && list -type f | while read -r file; do cat \"$file\"; done | sha256sum";

/// Returns the output of a script that may take a minute.
#[track_caller]
fn output(dev: &Client, object: &str, script: &str) -> String {
    let answer = one(dev, object, &exec_for(&["bash", "-c", script], 60_000));
    assert_eq!(answer["value"]["exitCode"], 0, "{object}: {answer}");
    decode(answer["value"]["stdout"]["base64"].as_str().expect("an output"))
}

/// Returns the object of the new class.
fn managed(object: &str) -> String {
    format!("SHELL_MANAGED_SANDBOX.{object}")
}

#[track_caller]
fn migrate(worker: &Worker, more: &[&str]) {
    let args = [&["migrate", "--backend", "managed", "shell"], more].concat();
    let run = worker.project.koze(&args);
    assert_eq!(run.code, 0, "{run:?}");
}

/// Returns the running container of an object, if there is one.
fn container(dev: &Client, engine: &Engine, object: &str) -> Option<String> {
    let id = dev.ask("return (await fetch(`${url}/id/${data}`)).text()", &json!(object));
    let id = id.as_str().expect("an id");
    engine.containers().into_iter().find(|name| name.ends_with(id))
}

/// Opens a sandbox and a port of it, and returns the nonce of the port, which is in the object's storage.
#[track_caller]
fn nonce(dev: &Client, object: &str, created: bool) -> Value {
    let answers = dev.call(object, &json!([open(), ["expose", { "port": 8080 }]]));
    assert_eq!(answers[0]["value"]["created"], created, "{answers:?}");
    assert_eq!(answers[1]["ok"], true, "{answers:?}");
    answers[1]["value"]["nonce"].clone()
}

#[test]
fn storage_stays_in_a_move_in_place() {
    let Some(engine) = engine() else { return };
    for variant in [&PLAIN, &SDK] {
        let worker = one_sandbox(variant, &engine);
        let running = start(&worker, &engine);
        let before = nonce(&running.client(), "a", true);
        output(&running.client(), "a", FILL);
        running.end();

        migrate(&worker, &[]);
        let running = start(&worker, &engine);
        let dev = running.client();
        assert_eq!(nonce(&dev, "a", false), before, "{}", variant.name);
        works(&dev, "a");
        // The files were in the container that has ended.
        assert_eq!(output(&dev, "a", "ls -A /workspace"), "", "{}", variant.name);
        running.end();
    }
}

#[test]
fn files_are_copied_in_a_move_side_by_side() {
    let Some(engine) = engine() else { return };
    for variant in [&PLAIN, &SDK] {
        move_side_by_side(variant, &engine);
    }
}

fn move_side_by_side(variant: &Variant, engine: &Engine) {
    // The containers of the other variant may still run, and are found by the name of their object, too.
    let object = variant.name;
    let worker = one_sandbox(variant, engine);
    let running = start(&worker, engine);
    let before = nonce(&running.client(), object, true);
    running.end();

    migrate(&worker, &["--side-by-side"]);
    let running = start(&worker, engine);
    let dev = running.client();
    assert_eq!(nonce(&dev, object, false), before, "the old class keeps its storage");
    output(&dev, object, FILL);
    let files = output(&dev, object, DIGEST);
    dev.call(&managed(object), &json!([open()]));
    assert_eq!(output(&dev, &managed(object), DIGEST), files, "{}", running.all_output());

    // They are separate from now on, and are copied once.
    output(&dev, &managed(object), "echo new > /home/user/new && rm /home/user/run");
    assert_eq!(output(&dev, object, DIGEST), files);
    output(&dev, object, "echo old > /home/user/old");
    assert_eq!(output(&dev, &managed(object), "cd /home/user; ls new old run 2>/dev/null || true"), "new\n");
    let container_of_copy = container(&dev, engine, &managed(object)).expect("its container");
    engine.podman(&["kill", &container_of_copy]);
    eventually("it has ended", || container(&dev, engine, &managed(object)).is_none());
    assert_eq!(output(&dev, &managed(object), "ls -A /workspace"), "");

    // A destroyed sandbox leaves nothing to the next one of its name, and neither does the old one.
    dev.call(&managed(object), &json!([["destroy", {}], open()]));
    assert_eq!(output(&dev, &managed(object), "ls -A /workspace"), "");

    // The old object of this name was never opened, and that one is asleep: neither is started.
    dev.call("asleep", &json!([open()]));
    for object in ["unknown", "asleep"] {
        dev.call(&managed(object), &json!([open()]));
        works(&dev, &managed(object));
        assert_eq!(container(&dev, engine, object), None, "{object} was started");
    }
    running.end();
}

/// Interrupts the copy of a sandbox once a part of its files has arrived. Returns the answer of the call that waited for it.
fn interrupt(dev: &Client, engine: &Engine, object: &str, happen: impl FnOnce(&str)) -> Option<Value> {
    let object = managed(object);
    dev.call(&object, &json!([open()]));
    thread::scope(|scope| {
        let calling = scope.spawn(|| one(dev, &object, &bash("true")));
        let arrived =
            |name: &str| engine.ask(&["exec", name, "test", "-s", "/workspace/large"]).status.success();
        eventually("there is a container", || container(dev, engine, &object).is_some());
        let copy = container(dev, engine, &object).expect("its container");
        eventually("a part has arrived", || arrived(&copy));
        happen(&copy);
        calling.join().ok()
    })
}

#[test]
fn interrupted_copies_begin_again() {
    let Some(engine) = engine() else { return };
    let worker = one_sandbox(&PLAIN, &engine);
    migrate(&worker, &["--side-by-side"]);
    let running = start(&worker, &engine);
    let dev = running.client();
    let fill = |object: &str| {
        sandbox(&dev, &engine, object);
        output(&dev, object, FILL);
        output(&dev, object, FILL_LARGE);
        output(&dev, object, DIGEST)
    };
    let unavailable = |answer: Option<Value>| {
        let answer = answer.expect("an answer");
        assert_eq!(answer["error"]["code"], "unavailable", "the copy was not interrupted: {answer}");
    };

    // The new container ends: the old one still has everything.
    let files = fill("new-ends");
    let killed = |copy: &str| drop(engine.podman(&["kill", copy]));
    unavailable(interrupt(&dev, &engine, "new-ends", killed));
    assert_eq!(output(&dev, &managed("new-ends"), DIGEST), files, "{}", running.all_output());
    assert_eq!(output(&dev, "new-ends", DIGEST), files);
    dev.call("new-ends", &json!([["destroy", {}]]));

    // The old container ends, and its files with it: the new one does not keep half of them.
    fill("old-ends");
    let old = container(&dev, &engine, "old-ends").expect("its container");
    unavailable(interrupt(&dev, &engine, "old-ends", |_| drop(engine.podman(&["kill", &old]))));
    let left = "ls -A /home/user /workspace; find /mnt/user-data -type f 2>/dev/null || true";
    assert_eq!(output(&dev, &managed("old-ends"), left), "/home/user:\n\n/workspace:\n");

    // workerd ends. The containers may outlast it.
    let files = fill("all-ends");
    let ended = interrupt(&dev, &engine, "all-ends", |_| signal(running.id(), Signal::KILL));
    assert!(ended.is_none(), "somebody has answered: {ended:?}");
    drop(running);
    let running = start(&worker, &engine);
    let dev = running.client();
    let status = one(&dev, "all-ends", &json!(["status", {}]));
    let copied = output(&dev, &managed("all-ends"), DIGEST);
    if status["value"]["status"] == "running" {
        assert_eq!(copied, files);
    } else {
        assert_eq!(output(&dev, &managed("all-ends"), left), "/home/user:\n\n/workspace:\n");
    }
    running.end();
}
