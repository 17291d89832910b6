//! Containers and guests that end, stop or never start: each call fails in time with a suitable error, the next call
//! works, and no call is performed twice.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use koze_tests::containers::{Engine, Image};
use koze_tests::{eventually, signal};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::calls::{MAX_CALL, bash, exec_for, one, open, sandbox, works};
use super::engine::engine;
use super::project::{managed_worker, plain_worker, start};
use crate::dev::run::Client;
use crate::project::Worker;

/// The time until it is known that an image cannot start, which is shorter than the time after which a call must be
/// retried.
const KNOWN: Duration = Duration::from_secs(50);

/// Counts the actions of programs in containers, independent of their lifetime.
struct Counter {
    port: u16,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Counter {
    fn start() -> Self {
        // The address under which containers see this machine exists only while one runs.
        let listener = TcpListener::bind(("0.0.0.0", 0)).expect("a port");
        let port = listener.local_addr().expect("its number").port();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let list = Arc::clone(&lines);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let mut line = String::new();
                let _ = BufReader::new(stream).read_line(&mut line);
                list.lock().unwrap_or_else(PoisonError::into_inner).push(line.trim().to_owned());
            }
        });
        Counter { port, lines }
    }

    /// Returns a command that reports a word from within a container, whose gateway is this machine.
    fn say(&self, word: &str) -> String {
        let gateway = "g=$(awk '$2 == \"00000000\" { print $3; exit }' /proc/net/route); \
                       a=$((16#${g:6:2})).$((16#${g:4:2})).$((16#${g:2:2})).$((16#${g:0:2}))";
        format!("{gateway}; echo {word} > /dev/tcp/$a/{}", self.port)
    }

    fn count(&self, word: &str) -> usize {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).iter().filter(|line| *line == word).count()
    }
}

/// Checks that a call fails with `unavailable` in time.
#[track_caller]
fn unavailable(answer: &Value, began: Instant) {
    assert_eq!(answer["error"]["code"], "unavailable", "{answer}");
    assert!(began.elapsed() < MAX_CALL, "it took {:?}: {answer}", began.elapsed());
}

/// Makes something happen to a sandbox's container during a long call.
fn meanwhile(dev: &Client, engine: &Engine, counter: &Counter, object: &str, happen: impl Fn(&str)) -> Value {
    let container = sandbox(dev, engine, object);
    let began = Instant::now();
    let answer = thread::scope(|scope| {
        let call = exec_for(&["bash", "-c", &format!("{}; sleep 1000", counter.say(object))], 20_000);
        let calling = scope.spawn(move || one(dev, object, &call));
        eventually("the call is under way", || counter.count(object) == 1);
        happen(&container);
        calling.join().expect("an answer")
    });
    unavailable(&answer, began);
    assert_eq!(answer["error"]["retryable"], false, "it was under way: {answer}");
    answer
}

#[test]
fn containers_that_end_or_stop() {
    let Some(engine) = engine() else { return };
    end_or_stop_containers(&plain_worker(&engine), &engine);
}

#[test]
fn managed_containers_that_end_or_stop() {
    let Some(engine) = engine() else { return };
    end_or_stop_containers(&managed_worker(&engine), &engine);
}

fn end_or_stop_containers(worker: &Worker, engine: &Engine) {
    let running = start(worker, engine);
    let dev = running.client();
    let counter = Counter::start();

    let killed = |container: &str| drop(engine.podman(&["kill", container]));
    meanwhile(&dev, engine, &counter, "killed", killed);
    works(&dev, "killed");

    let stopped = |container: &str| drop(engine.podman(&["stop", container]));
    meanwhile(&dev, engine, &counter, "stopped", stopped);
    works(&dev, "stopped");

    let guest_killed = |container: &str| {
        signal(engine.first_process(container).expect("the guest"), Signal::KILL);
    };
    meanwhile(&dev, engine, &counter, "guest-killed", guest_killed);
    works(&dev, "guest-killed");

    // Without a call in progress; the next call comes immediately: while the container is ending, and after it has
    // ended.
    let container = sandbox(&dev, engine, "idle");
    for end in [&["stop", "--time", "1"][..], &["kill"], &["rm", "--force", "--time", "0"]] {
        engine.podman(&[end, &[&*container]].concat());
        works(&dev, "idle");
    }

    // Calls fail while the container is silent; after a time, a new one is started.
    let paused = |container: &str| drop(engine.podman(&["pause", container]));
    meanwhile(&dev, engine, &counter, "paused", paused);
    eventually("another container", || {
        one(&dev, "paused", &bash("echo and on"))["value"]["stdout"]["base64"] == "YW5kIG9uCg=="
    });

    for object in ["killed", "stopped", "guest-killed", "paused"] {
        assert_eq!(counter.count(object), 1, "{object} was done again");
    }
}

#[test]
fn an_object_that_ends_during_a_call() {
    let Some(engine) = engine() else { return };
    let worker = plain_worker(&engine);
    let counter = Counter::start();
    let running = start(&worker, &engine);
    sandbox(&running.client(), &engine, "a");
    let dev = running.client();
    let call = exec_for(&["bash", "-c", &format!("{}; sleep 1000", counter.say("a"))], 20_000);
    thread::scope(|scope| {
        let calling = scope.spawn(|| one(&dev, "a", &call));
        eventually("the call is under way", || counter.count("a") == 1);
        // Kill workerd and its environment, so that nobody can answer the call.
        signal(running.id(), Signal::KILL);
        assert!(calling.join().is_err(), "somebody has answered");
    });
    drop(running);
    let running = start(&worker, &engine);
    works(&running.client(), "a");
    assert_eq!(counter.count("a"), 1, "it was done again");
}

#[test]
fn minimal_images() {
    let Some(engine) = engine() else { return };
    let worker = plain_worker(&engine);
    let running = start(&worker, &engine);
    let dev = running.client();
    // Only the guest, and a program for another architecture.
    let object = "BARE_SANDBOX.a";
    let calls = json!([
        open(),
        bash("true"),
        exec_for(&["/foreign"], 2_000),
        exec_for(&["/.koze/guest", "--version"], 2_000),
        ["write", { "root": "/", "path": "/tmp/a/b", "bytes": { "base64": "aGk=" }, "append": false }],
        ["read", { "root": "/", "path": "/tmp/a/b", "offset": 0, "limit": 10 }],
    ]);
    let answers = dev.call(object, &calls);
    assert_eq!(answers[1]["error"]["code"], "not_found", "{answers:?}");
    assert_eq!(answers[2]["ok"], false, "{answers:?}");
    assert_ne!(answers[2]["error"]["code"], "internal", "{answers:?}");
    assert_eq!(answers[3]["value"]["exitCode"], 0, "{answers:?}");
    assert_eq!(answers[5]["value"]["bytes"]["base64"], "aGk=", "{answers:?}");

    // The first process is a program for another architecture.
    let output = running.all_output();
    let image =
        output.split_whitespace().find(|word| word.contains("/shellsandbox:")).expect("wrangler's image");
    let kept = format!("localhost/koze-tests/kept-{}", image.replace(['/', ':'], "-"));
    engine.tag(&Image(image.to_owned()), &kept);
    let dockerfile = "FROM scratch\nCOPY foreign /.koze/guest\nEXPOSE 5693\nENTRYPOINT [\"/.koze/guest\"]\n";
    engine.build(image, dockerfile, &worker.project.path("src/server"));
    let began = Instant::now();
    let answers = dev.call("foreign", &json!([open(), bash("true")]));
    unavailable(&answers[1], began);
    let error = &answers[1]["error"];
    assert_eq!(error["retryable"], false, "no container of it will ever start: {answers:?}");
    assert!(began.elapsed() < KNOWN, "it took {:?}", began.elapsed());
    assert!(error["message"].as_str().is_some_and(|text| text.contains("cannot start")), "{error}");
    engine.tag(&Image(kept), image);
    works(&dev, "foreign");
}
