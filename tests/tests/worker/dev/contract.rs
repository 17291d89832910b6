//! The contract, from workerd to a sandbox and back.

use std::thread;

use koze_tests::eventually;
use serde_json::{Value, json};

use super::run::{Client, Dev, worker};

fn bytes(text: &str) -> Value {
    use base64::Engine as _;
    json!({ "base64": base64::prelude::BASE64_STANDARD.encode(text) })
}

fn at(path: &str) -> Value {
    json!({ "root": "/", "path": path })
}

fn with(mut one: Value, more: Value) -> Value {
    let (Value::Object(one_fields), Value::Object(more)) = (&mut one, more) else { panic!("two objects") };
    one_fields.extend(more);
    one
}

fn exec(argv: &Value, more: Value) -> Value {
    let usual = json!({ "argv": argv, "workingDir": "/workspace", "env": [], "timeoutMs": 20_000, "maxOutput": 10_000 });
    with(usual, more)
}

#[expect(clippy::needless_pass_by_value, reason = "it is called with what `json!` makes")]
fn ok(value: Value) -> Value {
    json!({ "ok": true, "value": value })
}

/// Removes the time and the version of a file from an answer that contains them.
fn without_times(mut answer: Value) -> Value {
    let value = &mut answer["value"];
    let stat = if value["entries"].is_array() { &mut value["entries"][0]["stat"] } else { value };
    if stat["kind"].is_string() {
        let fields = stat.as_object_mut().expect("metadata");
        for key in ["mtime", "version"] {
            assert!(fields.remove(key).is_some_and(|number| number.is_u64()), "no {key}");
        }
    }
    answer
}

#[track_caller]
fn fails(answer: &Value, code: &str) {
    assert_eq!((&answer["ok"], &answer["error"]["code"]), (&json!(false), &json!(code)), "{answer}");
    assert_eq!(answer["error"]["retryable"], false, "{answer}");
}

#[test]
fn every_method_reaches_a_sandbox() {
    let worker = worker();
    let dev = Dev::start(&worker);
    unopened(&dev);
    files(&dev);
    programs(&dev);
    large(&dev);
    streams(&dev);
    streams_that_break_off(&dev);
    wrong_inputs(&dev);
    destroyed(&dev);
}

/// What `search` searches for.
fn searched(pattern: &str) -> Value {
    json!({
        "pattern": pattern, "ignoreCase": false, "include": null, "skipIgnored": false, "maxFileSize": 999,
        "binaryWithin": 999, "maxLineChars": 999, "maxLineBytes": 9, "maxMatches": 9, "maxSkipped": 9,
        "maxDirectories": 99, "maxEntries": 999, "timeoutMs": 60_000
    })
}

fn unopened(dev: &Dev) {
    let every = json!([
        ["exec", exec(&json!(["true"]), json!({}))],
        ["read", with(at("/workspace/a"), json!({ "offset": 0, "limit": 1 }))],
        ["write", with(at("/workspace/a"), json!({ "bytes": bytes("a"), "append": false }))],
        ["edit", with(at("/workspace/a"), json!({ "old": bytes("a"), "new": bytes("b"), "all": false }))],
        ["read_lines", with(at("/workspace/a"), json!({ "first": 1, "last": null, "maxChars": 9, "verbatim": false }))],
        ["search", with(at("/workspace"), json!({ "search": searched("a"), "call": null }))],
        ["list", at("/workspace")],
        ["stat", at("/workspace")],
        ["change", { "make_dir": at("/workspace/a") }],
        ["change", { "make_link": with(at("/workspace/a"), json!({ "target": "b" })) }],
        ["change", { "set_mode": with(at("/workspace/a"), json!({ "mode": 0o600 })) }],
        ["change", { "remove": at("/workspace/a") }],
        ["change", { "rename": { "from": at("/workspace/a"), "to": at("/workspace/b") } }],
        ["pack", with(at("/workspace/a"), json!({ "except": "" }))],
        ["unpack", with(at("/workspace/a"), json!({ "call": null }))],
        ["archive", at("/workspace/a")],
        ["extract", with(at("/workspace/a"), json!({ "call": null }))],
        ["expose", { "port": 8080 }],
    ]);
    for answer in dev.call("a", &every) {
        fails(&answer, "unopened");
    }
    let answers = dev.call(
        "a",
        &json!([
            ["status", {}],
            ["destroy", {}],
            ["open", { "sleepAfterMs": null }],
            ["open", { "sleepAfterMs": 1000 }],
            ["status", {}],
        ]),
    );
    let expected = [
        ok(json!({ "opened": false, "status": "sleeping" })),
        ok(json!({})),
        ok(json!({ "created": true })),
        ok(json!({ "created": false })),
        ok(json!({ "opened": true, "status": "running" })),
    ];
    assert_eq!(answers, expected);
    // Another object is another sandbox.
    fails(&dev.call("b", &json!([["stat", at("/workspace")]]))[0], "unopened");
}

fn files(dev: &Dev) {
    // The permission bits of parent directories depend on the guest; those of files are as requested.
    let stat = |kind: &str, size: u64, mode: u32, target: Value| json!({ "kind": kind, "target": target, "size": size, "mode": mode });
    let answers = dev.call(
        "a",
        &json!([
            ["write", with(at("/workspace/d/a"), json!({ "bytes": { "base64": "AP8Kgg==" }, "append": false }))],
            ["write", with(at("/workspace/d/a"), json!({ "bytes": bytes("ä\n"), "append": true }))],
            ["read", with(at("/workspace/d/a"), json!({ "offset": 1, "limit": 3 }))],
            ["read", with(at("/workspace/d/a"), json!({ "offset": 100, "limit": 3 }))],
            ["change", { "set_mode": with(at("/workspace/d/a"), json!({ "mode": 0o640 })) }],
            ["change", { "make_link": with(at("/workspace/d/l"), json!({ "target": "nowhere at all" })) }],
            ["stat", at("/workspace/d/a")],
            ["stat", at("/workspace/d/l")],
            ["change", { "rename": { "from": at("/workspace/d/a"), "to": at("/workspace/d/b") } }],
            ["change", { "remove": at("/workspace/d/l") }],
            ["change", { "make_dir": at("/workspace/d") }],
            ["list", at("/workspace/d")],
            ["stat", at("/workspace/d/a")],
            ["stat", { "root": "/workspace", "path": "/workspace/../etc/passwd" }],
            ["search", with(at("/workspace/d"), json!({ "search": searched("a"), "call": null }))],
            ["search", with(at("/workspace/d"), json!({ "search": searched("("), "call": null }))],
        ]),
    );
    let expected = [
        ok(json!({ "size": 4 })),
        ok(json!({ "size": 7 })),
        ok(json!({ "bytes": { "base64": "/wqC" }, "size": 7 })),
        ok(json!({ "bytes": { "base64": "" }, "size": 7 })),
        ok(json!({})),
        ok(json!({})),
        ok(stat("file", 7, 0o640, Value::Null)),
        ok(stat("link", 14, 0o777, json!("nowhere at all"))),
        ok(json!({})),
        ok(json!({})),
        ok(json!({})),
        ok(json!({ "entries": [{ "name": "b", "stat": stat("file", 7, 0o640, Value::Null) }] })),
    ];
    let told: Vec<Value> = answers[..expected.len()].iter().cloned().map(without_times).collect();
    assert_eq!(told, expected);
    fails(&answers[12], "not_found");
    fails(&answers[13], "path_escape");
    assert_eq!(answers[14], ok(json!({ "matches": [], "skipped": [], "binary": ["b"], "end": "complete" })));
    fails(&answers[15], "invalid_input");
}

fn programs(dev: &Dev) {
    let script = "printf '\\0\\377'; printf \"$V\" >&2; pwd; exit 7";
    let answers = dev.call(
        "a",
        &json!([
            [
                "exec",
                exec(&json!(["sh", "-c", script]), json!({ "env": [["V", "a b\n"]], "workingDir": "/tmp" }))
            ],
            // A program that exceeds its timeout is killed, and its output is kept.
            ["exec", exec(&json!(["sh", "-c", "echo begun; sleep 86399"]), json!({ "timeoutMs": 2000 }))],
            [
                "exec",
                exec(&json!(["sh", "-c", "ps ax 2>/dev/null | grep -c 'slee[p] 86399'; true"]), json!({}))
            ],
            ["exec", exec(&json!(["no-such-program"]), json!({}))],
            ["exec", exec(&json!(["seq", "100000"]), json!({ "maxOutput": 1000 }))],
        ]),
    );
    let output = |stdout: Value, stderr: &str, code: i32, timed_out: bool| {
        ok(json!({ "stdout": stdout, "stderr": bytes(stderr), "exitCode": code, "timedOut": timed_out }))
    };
    assert_eq!(answers[0], output(json!({ "base64": "AP8vdG1wCg==" }), "a b\n", 7, false));
    assert_eq!(answers[1], output(bytes("begun\n"), "", 124, true));
    assert!(!koze_tests::sleeps("86399"), "the command that took too long goes on");
    assert_eq!(answers[2]["ok"], true, "{}", answers[2]);
    fails(&answers[3], "not_found");
    let kept = answers[4]["value"]["stdout"]["base64"].as_str().expect("bytes").len();
    assert!(kept <= 1000_usize.div_ceil(3) * 4, "{kept}");
}

fn large(dev: &Dev) {
    let answer = dev.ask("return (await fetch(`${url}/pieces/a`, { method: 'POST' })).json()", &json!(null));
    let largest = 8 << 20;
    let expected = json!({
        "written": ok(json!({ "size": largest })),
        "appended": ok(json!({ "size": largest + 1 })),
        "same": true,
        "size": largest + 1,
        "rest": true,
        "refused": ["invalid_input", "invalid_input"],
    });
    assert_eq!(answer, expected);
}

/// Copies from object `a` to `c`.
fn copy(dev: &Client<'_>, source: &str, target: &str, milliseconds: u32) -> Value {
    let script = "const body = JSON.stringify(data);
        return (await fetch(`${url}/copy/a/c`, { method: 'POST', body })).json();";
    let [pack, unpack] =
        [with(at(source), json!({ "except": "" })), with(at(target), json!({ "call": "a copy" }))];
    dev.ask(script, &json!({ "pack": pack, "unpack": unpack, "pace": milliseconds }))
}

fn run(dev: &Dev, object: &str, script: &str) -> Value {
    dev.call(object, &json!([["exec", exec(&json!(["bash", "-c", script]), json!({}))]])).remove(0)["value"]
        ["stdout"]
        .clone()
}

fn streams(dev: &Dev) {
    dev.call("c", &json!([["open", { "sleepAfterMs": null }]]));
    let look = "find . -printf '%y %m %p %l\\n' | LC_ALL=C sort | md5sum; cat d/* | md5sum";
    let make = "mkdir -p t/d t/empty; cd t; for n in {1..500}; do echo $n >d/$n; done; head -c 3000000 /dev/urandom >d/big
        ln -s nowhere link; echo >$'odd\\n\\xff'; chmod 750 d/big; chmod 555 d; ";
    let before = run(dev, "a", &format!("{make}{look}"));
    let client = dev.client();
    let copied = copy(&client, "/workspace/t", "/workspace/u/v", 0);
    assert_eq!(copied["value"], json!({ "bytes": 3_000_000 + 1893 }), "{copied}");
    assert_eq!(run(dev, "c", &format!("cd u/v; {look}")), before);
    // Errors at the beginning and in the middle of a stream, and at its destination.
    run(dev, "a", "mkdir p; head -c 500000 /dev/zero >p/a; mkfifo p/pipe; truncate -s 1G large");
    for (from, to, code) in [
        ("/workspace/none", "/workspace/x", "not_found"),
        ("/workspace/p", "/workspace/x", "unsupported"),
        ("/workspace/t/link", "/workspace/x", "not_found"),
        ("/workspace/p/a", "/workspace/u", "already_exists"),
        ("/workspace/p/a", "relative", "invalid_input"),
        // The call fails long before the whole stream was read.
        ("/workspace/large", "/workspace/u", "already_exists"),
    ] {
        fails(&copy(&client, from, to, 0), code);
    }
    assert_eq!(run(dev, "c", "ls -A"), bytes("u\n"), "nothing is left");
}

fn streams_that_break_off(dev: &Dev) {
    dev.call("c", &json!([["change", { "make_dir": at("/workspace/in") }]]));
    for how in ["cancel", "destroy"] {
        // More than can be copied at this pace during the test.
        run(dev, "a", "mkdir -p s; truncate -s 1G s/file");
        let client = dev.client();
        let answer = thread::scope(|scope| {
            let copying = scope.spawn(|| copy(&client, "/workspace/s", "/workspace/in/to", 5));
            eventually("its beginning", || run(dev, "c", "ls in") == bytes("to\n"));
            match how {
                "cancel" => dev.call("c", &json!([[how, { "call": "a copy" }]])),
                _ => dev.call("a", &json!([[how, {}], ["open", { "sleepAfterMs": null }]])),
            };
            copying.join().expect("an answer")
        });
        fails(&answer, "unavailable");
        eventually("nothing is left", || run(dev, "c", "ls -A in") == bytes(""));
    }
    dev.call("c", &json!([["destroy", {}]]));
}

fn wrong_inputs(dev: &Dev) {
    for port in [0, 80, 1023] {
        fails(&dev.call("a", &json!([["expose", { "port": port }]]))[0], "invalid_input");
    }
    // Only the SDK's own containers reserve this port.
    assert_eq!(dev.call("a", &json!([["expose", { "port": 3000 }]]))[0]["ok"], true);
    let wrong = [
        json!(["expose", { "port": 65_536 }]),
        json!(["exec", {}]),
        json!(["constructor", {}]),
        json!(["stat", { "root": 1, "path": [] }]),
        json!(["open", { "sleepAfterMs": -1 }]),
    ];
    for answer in dev.call("a", &json!(wrong)) {
        fails(&answer, "invalid_input");
    }
    // Messages must not contain host paths.
    let here = "/state/koze";
    let all = dev.call(
        "a",
        &json!([
            ["stat", at("/no/such/file")],
            ["read", with(at("/workspace"), json!({ "offset": 0, "limit": 1 }))]
        ]),
    );
    assert!(all.iter().all(|answer| answer["ok"] == false && !answer.to_string().contains(here)), "{all:?}");
}

fn destroyed(dev: &Dev) {
    let answers = dev.call(
        "a",
        &json!([
            ["expose", { "port": 8080 }],
            ["destroy", {}],
            ["status", {}],
            ["stat", at("/workspace")],
            ["destroy", {}],
            ["open", { "sleepAfterMs": 200 }],
            ["list", at("/workspace")],
        ]),
    );
    assert_eq!(answers[2], ok(json!({ "opened": false, "status": "sleeping" })));
    fails(&answers[3], "unopened");
    assert_eq!(answers[5], ok(json!({ "created": true })));
    assert_eq!(answers[6], ok(json!({ "entries": [] })), "files of the one before");
    // It sleeps after the requested idle time, and its object reports that.
    eventually("it sleeps", || {
        dev.call("a", &json!([["status", {}]])) == [ok(json!({ "opened": true, "status": "sleeping" }))]
    });
}
