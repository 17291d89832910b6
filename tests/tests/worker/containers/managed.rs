//! Containers that Durable Objects start: images and sizes, disks that outlast sleep, and what happens without them.

use std::time::{Duration, Instant};

use fs_err as fs;
use koze_tests::containers::Engine;
use koze_tests::eventually;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::calls::{bash, one, sandbox, works};
use super::engine::engine;
use super::project::{managed_worker, start, start_wrangler};
use crate::dev::run::Client;
use crate::project::{TIMEOUT, Worker};

/// Counts the programs `sleep 1000`, without a program that only some images have.
const SLEEPERS: &str = "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -o 'sleep [1]000' | wc -l";

/// The idle time: longer than a busy machine takes to find the container.
const IDLE_MS: u32 = 15_000;

#[track_caller]
fn stdout(dev: &Client, object: &str, script: &str) -> String {
    let answer = one(dev, object, &bash(script));
    let encoded =
        answer["value"]["stdout"]["base64"].as_str().unwrap_or_else(|| panic!("{object}: {answer}"));
    decode(encoded)
}

pub(super) fn decode(base64: &str) -> String {
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
        assert!(status(&dev, object).get("saved").is_none(), "no disk was saved");
        eventually("it sleeps", || status(&dev, object)["status"] == "sleeping");
        let saved = &status(&dev, object)["saved"];
        assert!(saved["bytes"].as_u64() > Some(0) && saved["savedAt"].as_u64() > Some(0), "{saved}");
        let look = format!("cat /home/user/file /tmp/file; {SLEEPERS}; echo $SECRET");
        let woken = one(&dev, object, &bash(&look));
        let printed = woken["value"]["stdout"]["base64"].as_str().unwrap_or_default();
        assert_eq!(decode(printed), format!("kept\nroot\n0\n{secret}\n"), "{woken}\n{}", engine.log());
        assert_eq!(woken["value"]["ended"], true, "{woken}");
        let ended = one(&dev, object, &json!(["take_ended", {}]));
        assert_eq!(ended["value"], json!({ "ended": { "programs": ["sleep 1000"], "count": 1 } }));
        // The second time, the disk that is saved was started from a saved one.
        stdout(&dev, object, "echo twice > /home/user/file");
        eventually("it sleeps again", || status(&dev, object)["status"] == "sleeping");
        assert_eq!(stdout(&dev, object, "cat /home/user/file"), "twice\n");
    }

    // A destroyed sandbox leaves nothing to the next one of its name.
    eventually("it sleeps", || status(&dev, "KEPT_SANDBOX.a")["status"] == "sleeping");
    dev.call("KEPT_SANDBOX.a", &json!([["destroy", {}], ["open", { "sleepAfterMs": IDLE_MS }]]));
    assert!(status(&dev, "KEPT_SANDBOX.a").get("saved").is_none(), "its disk is another sandbox's");
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

/// How long it may take until a save is tried again, and the sandbox then sleeps.
const AGAIN: Duration = Duration::from_mins(3);

#[test]
fn a_disk_that_cannot_be_saved_keeps_its_container() {
    let Some(engine) = engine() else { return };
    let worker = managed_worker(&engine);
    let running = start(&worker, &engine);
    let dev = running.client();
    let object = "KEPT_SANDBOX.unsaved";
    dev.call(object, &json!([["open", { "sleepAfterMs": IDLE_MS }]]));
    let container = sandbox(&dev, &engine, object);
    engine.refuse_disk(&container);
    stdout(&dev, object, "echo kept > /home/user/file; sleep 1000 > /dev/null 2>&1 &");
    until("the save is refused", || engine.refused_disks(&container) > 0);
    // Everything is as before: the container, its files and its programs.
    let before = status(&dev, object);
    assert_eq!((&before["status"], before.get("saved")), (&json!("running"), None));
    let look = format!("cat /home/user/file; {SLEEPERS}; echo changed > /home/user/file");
    let answer = one(&dev, object, &bash(&look));
    let printed = answer["value"]["stdout"]["base64"].as_str().unwrap_or_default();
    assert_eq!(decode(printed), "kept\n1\n", "{answer}");
    assert!(answer["value"].get("ended").is_none(), "nothing has ended: {answer}");
    assert!(engine.containers().contains(&container));
    // A later save succeeds, and has what was written since.
    engine.save_disk(&container);
    until("it sleeps", || status(&dev, object)["status"] == "sleeping");
    assert!(status(&dev, object)["saved"]["bytes"].as_u64() > Some(0));
    assert_eq!(stdout(&dev, object, "cat /home/user/file"), "changed\n");
}

#[test]
fn a_saved_disk_gets_a_newer_guest() {
    let Some(engine) = engine() else { return };
    let worker = managed_worker(&engine);
    let current = program(&worker);
    replace_with_older_guest(&worker);
    let older = program(&worker);
    assert_ne!(guest_name(&older), guest_name(&current));
    let objects = ["KEPT_SANDBOX.upgraded", "PLATFORM_SANDBOX.upgraded"];
    // What serves is the first process; an image's own guest has a name without a digest.
    let look = "ls /.koze; tr '\\0' '\\n' < /proc/1/cmdline | head -n 1";
    {
        let running = start_wrangler(&worker, &engine);
        let dev = running.client();
        for object in objects {
            dev.call(object, &json!([["open", { "sleepAfterMs": IDLE_MS }]]));
            stdout(&dev, object, "echo kept > /home/user/file; echo kept > /tmp/file");
        }
        let name = guest_name(&older);
        assert_eq!(stdout(&dev, objects[1], look), format!("{name}\n/.koze/{name}\n"));
        for object in objects {
            until("it sleeps", || status(&dev, object)["status"] == "sleeping");
        }
        running.end();
    }
    // The next deployment has the guest of this koze.
    fs::write(worker.project.path(GUEST_MODULE), module(&current)).expect("the module");
    let running = start_wrangler(&worker, &engine);
    let dev = running.client();
    let name = guest_name(&current);
    for object in objects {
        assert!(status(&dev, object)["saved"]["bytes"].as_u64() > Some(0), "{object}");
        let printed = stdout(&dev, object, &format!("cat /home/user/file /tmp/file; {look}"));
        let own = if object == objects[0] { "guest\n" } else { "" };
        assert_eq!(printed, format!("kept\nkept\n{own}{name}\n/.koze/{name}\n"), "{object}");
        // It is on the disk that is saved next, and not sent again.
        until("it sleeps", || status(&dev, object)["status"] == "sleeping");
        assert_eq!(stdout(&dev, object, "cat /tmp/file"), "kept\n");
        assert_eq!(stdout(&dev, object, look), format!("{own}{name}\n/.koze/{name}\n"), "{object}");
    }
}

/// The generated module with the guest.
const GUEST_MODULE: &str = "src/generated/koze/koze-guest.mjs";

/// Returns the guest in the project's module, in base64.
fn program(worker: &Worker) -> String {
    let text = worker.project.read(GUEST_MODULE);
    let (_, rest) = text.split_once("PROGRAM = \"").expect("the program");
    rest.split_once('"').expect("its end").0.to_owned()
}

fn module(program: &str) -> String {
    format!("export const PROGRAM = \"{program}\";\n")
}

/// Puts a guest into the project's module that does the same and is another program, as that of another koze is.
fn replace_with_older_guest(worker: &Worker) {
    let script = "const { gunzipSync, gzipSync } = require('node:zlib');
        const guest = gunzipSync(Buffer.from(require('node:fs').readFileSync(process.argv[1], 'utf8'), 'base64'));
        process.stdout.write(gzipSync(Buffer.concat([guest, Buffer.from('an older koze')])).toString('base64'))";
    worker.project.write("program.txt", program(worker));
    let mut node = worker.tool("node");
    node.args(["-e", script]).arg(worker.project.path("program.txt"));
    let output = koze_tests::run(node, TIMEOUT);
    assert!(output.status.success(), "{output:?}");
    let older = String::from_utf8(output.stdout).expect("base64");
    fs::write(worker.project.path(GUEST_MODULE), module(&older)).expect("the module");
}

/// Returns the name under which the class sends a guest.
fn guest_name(program: &str) -> String {
    let digest = Sha256::digest(program.as_bytes());
    let hex: Vec<String> = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("guest-{}", hex.concat())
}

/// Waits longer than other tests do: for an idle time, or for the next attempt to save a disk.
fn until(what: &str, come: impl Fn() -> bool) {
    let deadline = Instant::now() + AGAIN;
    while !come() {
        assert!(Instant::now() < deadline, "not within {AGAIN:?}: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}
