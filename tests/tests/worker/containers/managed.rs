//! Containers that Durable Objects start: images and sizes, disks that outlast sleep, and what happens without them.

use std::time::{Duration, Instant};

use koze_tests::containers::Engine;
use koze_tests::eventually;
use serde_json::{Value, json};

use super::calls::{bash, one, sandbox, works};
use super::engine::engine;
use super::project::{managed_worker, start};
use crate::dev::run::Client;

/// The idle time: longer than a busy machine takes to find the container.
const IDLE_MS: u32 = 15_000;

#[track_caller]
fn stdout(dev: &Client, object: &str, script: &str) -> String {
    let answer = one(dev, object, &bash(script));
    let encoded =
        answer["value"]["stdout"]["base64"].as_str().unwrap_or_else(|| panic!("{object}: {answer}"));
    decode(encoded)
}

fn decode(base64: &str) -> String {
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::STANDARD.decode(base64).expect("base64");
    String::from_utf8(bytes).expect("text")
}

fn status(dev: &Client, object: &str) -> Value {
    one(dev, object, &json!(["status", {}]))["value"].clone()
}

/// Returns the images of saved disks.
fn saved_disks(engine: &Engine) -> Vec<String> {
    let images = engine.podman(&["images", "--all", "--format", "{{.ID}} {{.Repository}}"]);
    let saved = images.lines().filter(|line| line.contains("workerd-container-snap"));
    saved.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn objects_choose_image_and_size() {
    let Some(engine) = engine() else { return };
    let worker = managed_worker(&engine);
    let running = start(&worker, &engine);
    let dev = running.client();
    let open = |object: &str, more: Value| {
        let mut input = json!({ "sleepAfterMs": null });
        input.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        one(&dev, object, &json!(["open", input]))
    };
    // The first image is the default one, and the entrypoint of an image is not run.
    assert_eq!(open("first", json!({}))["value"], json!({ "created": true }));
    assert_eq!(stdout(&dev, "first", "echo $WHICH"), "one\n", "{}", engine.log());
    let created = open("second", json!({ "image": "two", "size": "standard-1" }));
    assert_eq!(created["value"], json!({ "created": true, "size": "standard-1" }));
    assert_eq!(stdout(&dev, "second", "echo $WHICH"), "two\n");
    let expected = json!({ "opened": true, "status": "running", "image": "two", "size": "standard-1" });
    assert_eq!(status(&dev, "second"), expected);
    // What a sandbox was created with stays.
    let again = open("second", json!({ "image": "one" }));
    assert_eq!(again["value"], json!({ "created": false, "size": "standard-1" }));

    let answers =
        dev.call("third", &json!([["open", { "sleepAfterMs": null, "image": "three" }], bash("true")]));
    let message = "the container has no image `three`: run `koze build`, and deploy";
    assert_eq!(answers[1]["error"], json!({ "code": "unavailable", "message": message, "retryable": false }));
    let sized =
        dev.call("fourth", &json!([["open", { "sleepAfterMs": null, "size": "huge" }], bash("true")]));
    let error = &sized[1]["error"];
    assert!(error["message"].as_str().is_some_and(|text| text.contains("does not have its size")), "{error}");

    // wrangler has built the image, and then it is gone.
    let images = engine.podman(&["images", "--format", "{{.Repository}}:{{.Tag}}"]);
    let lost: Vec<&str> = images.lines().filter(|name| name.contains("lost")).collect();
    assert!(!lost.is_empty(), "{images}");
    engine.podman(&[&["rmi", "--force"][..], &lost].concat());
    let began = Instant::now();
    let answers = dev.call("LOST_SANDBOX.a", &json!([["open", { "sleepAfterMs": null }], bash("true")]));
    let message = "the sandbox's container cannot start: the platform refused to run its image several times; see the Worker's log";
    assert_eq!(answers[1]["error"], json!({ "code": "unavailable", "message": message, "retryable": false }));
    // Nothing else has its name, so this is known sooner than with another policy.
    assert!(began.elapsed() < Duration::from_secs(25), "it took {:?}", began.elapsed());
}

#[test]
fn disks_outlast_sleep() {
    let Some(engine) = engine() else { return };
    let worker = managed_worker(&engine);
    let running = start(&worker, &engine);
    let dev = running.client();
    for (object, secret) in [("KEPT_SANDBOX.a", ""), ("PLATFORM_SANDBOX.a", "a secret")] {
        dev.call(object, &json!([["open", { "sleepAfterMs": IDLE_MS }]]));
        let write =
            "echo kept > /home/user/file; echo root > /tmp/file; sleep 1000 & disown; ls -d /workspace";
        assert_eq!(stdout(&dev, object, write), "/workspace\n", "{}", engine.log());
        eventually("it sleeps", || status(&dev, object)["status"] == "sleeping");
        let look = "cat /home/user/file /tmp/file; pgrep sleep; echo $SECRET";
        assert_eq!(stdout(&dev, object, look), format!("kept\nroot\n{secret}\n"), "{}", engine.log());
        // The second time, the disk that is saved was started from a saved one.
        stdout(&dev, object, "echo twice > /home/user/file");
        eventually("it sleeps again", || status(&dev, object)["status"] == "sleeping");
        assert_eq!(stdout(&dev, object, "cat /home/user/file"), "twice\n");
    }

    // A destroyed sandbox leaves nothing to the next one of its name.
    eventually("it sleeps", || status(&dev, "KEPT_SANDBOX.a")["status"] == "sleeping");
    dev.call("KEPT_SANDBOX.a", &json!([["destroy", {}], ["open", { "sleepAfterMs": IDLE_MS }]]));
    assert_eq!(stdout(&dev, "KEPT_SANDBOX.a", "ls /home/user | wc -l"), "0\n");

    // Without its disk, a sandbox fails instead of beginning with an empty one.
    eventually("it sleeps", || status(&dev, "PLATFORM_SANDBOX.a")["status"] == "sleeping");
    eventually("it sleeps", || status(&dev, "KEPT_SANDBOX.a")["status"] == "sleeping");
    let disks = saved_disks(&engine);
    assert!(!disks.is_empty(), "no disk was saved");
    for disk in disks {
        engine.podman(&["rmi", "--force", &disk]);
    }
    let lost = one(&dev, "PLATFORM_SANDBOX.a", &bash("true"));
    let message = lost["error"]["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("the disk of the sandbox, saved at "), "{lost}");
    assert!(message.ends_with("destroy the sandbox and create it again"), "{lost}");
    assert_eq!(lost["error"]["retryable"], false);
    dev.call("PLATFORM_SANDBOX.a", &json!([["destroy", {}], ["open", { "sleepAfterMs": null }]]));
    works(&dev, "PLATFORM_SANDBOX.a");
    sandbox(&dev, &engine, "PLATFORM_SANDBOX.a");
}
