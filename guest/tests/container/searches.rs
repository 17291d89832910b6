//! Searches of trees. What they find is tested where it is implemented; these cases test the way there, and its limits.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Test;
use crate::client::{Client, at};
use crate::stage::Stage;

pub(crate) const TESTS: &[Test] = &[
    ("searches", searches),
    ("searches_that_are_refused", refused),
    ("searches_in_little_memory", large),
    ("searches_that_are_canceled", canceled),
];

fn search(path: &str, pattern: &str) -> Value {
    json!({ "search": { "root": "/", "path": path, "search": {
        "pattern": pattern, "ignoreCase": false, "include": null, "skipIgnored": false, "maxFileSize": 16 << 20,
        "binaryWithin": 16 << 20, "maxLineChars": 16 << 20, "maxLineBytes": 100, "maxMatches": 1000, "maxSkipped": 9,
        "maxDirectories": 1000, "maxEntries": 100_000, "timeoutMs": 60_000
    } } })
}

fn found(client: &Client, request: &Value) -> Value {
    serde_json::from_slice(&client.ask(request).out).expect("JSON")
}

fn searches() {
    let stage = Stage::new();
    let client = stage.client();
    fs::create_dir(stage.path("sub")).unwrap();
    fs::write(stage.path("sub/file"), "one\r\ntw\u{20ac}\n").unwrap();
    fs::write(stage.path("b"), "\0").unwrap();
    fs::write(stage.path("a"), "x").unwrap();
    let expected = json!({
        "matches": [{ "path": "sub/file", "number": 2, "text": "tw\u{20ac}" }],
        "skipped": [], "binary": ["b"], "end": "complete"
    });
    assert_eq!(found(&client, &search(&stage.path(""), "^tw.$")), expected);
    // The token of the guest is nowhere to be found.
    let all = found(&client, &search("/proc", "KOZE_GUEST"));
    assert_eq!(all["matches"], json!([]), "{all}");
}

fn refused() {
    let stage = Stage::new();
    let client = stage.client();
    for (request, why) in [
        (search(&stage.path(""), "("), "invalid_input"),
        (search(&stage.path("nothing"), "a"), "not_found"),
        (search("/dev/zero", "a"), "invalid_input"),
        (search("/proc/self", "a"), "permission_denied"),
        (json!({ "search": at("/") }), "invalid_input"),
    ] {
        assert_eq!(client.why(&request), why, "{request}");
    }
}

/// Many large files at once.
fn large() {
    let stage = Stage::new();
    let client = stage.client();
    for number in 0..16 {
        fs::write(stage.path(&number.to_string()), vec![b'x'; 12 << 20]).unwrap();
    }
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let found = found(&client, &search(&stage.path(""), "x"));
                assert_eq!(found["matches"].as_array().map(Vec::len), Some(16));
            });
        }
    });
    assert!(stage.peak() < 96 << 20, "{}", stage.peak());
}

fn canceled() {
    let stage = Stage::new();
    let client = stage.client();
    for number in 0..8 {
        fs::write(stage.path(&number.to_string()), vec![b'x'; 12 << 20]).unwrap();
    }
    let start = Instant::now();
    // It has to look at every character of every line for each of its states.
    let canceled = client.open(&search(&stage.path(""), "(a|x){1,200}(b|x){1,200}y"));
    canceled.cancel();
    assert_eq!(client.ok(&json!({ "stat": at(&stage.path("0")) }))["size"], 12 << 20);
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
}
