//! Processes: programs that run on after the call, and the connection, that started them.

use serde_json::{Value, json};

use crate::Test;
use crate::client::{Client, until};
use crate::stage::{How, Stage};

pub(crate) const TESTS: &[Test] = &[
    ("processes_outlive_their_connection", outlive),
    ("processes_wait_for_slow_readers", backpressure),
    ("processes_with_parts_without_number", alternating),
    ("processes_nobody_reads", nobody_reads),
    ("processes_are_bounded", bounded),
    ("processes_make_room", forgotten),
    ("processes_whose_readers_give_up", given_up),
    ("processes_whose_writers_give_up", writers),
    ("processes_on_a_terminal", terminal),
    ("processes_that_are_odd", odd),
    ("processes_beside_another_first_one", beside),
    ("processes_end_with_kill_all", kill_all),
];

const LONG: u64 = 60_000;

fn start(client: &Client, script: &str, more: Value) -> String {
    let answer = client.ok(&request(&["sh", "-c", script], more));
    answer["id"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

fn request(argv: &[&str], more: Value) -> Value {
    let mut what =
        json!({ "argv": argv, "cwd": "/", "terminal": null, "buffer": 65_536, "drop_oldest": false });
    let (Value::Object(fields), Value::Object(more)) = (&mut what, more) else { panic!("two objects") };
    fields.extend(more);
    json!({ "start": what })
}

fn read(id: &str, cursor: u64, limit: u64, wait_ms: u64) -> Value {
    json!({ "read_process": { "id": id, "cursor": cursor, "limit": limit, "wait_ms": wait_ms } })
}

fn write(id: &str, wait_ms: u64) -> Value {
    json!({ "write_process": { "id": id, "wait_ms": wait_ms } })
}

fn exit(client: &Client, id: &str) -> Value {
    client.ok(&json!({ "wait_process": { "id": id, "timeout_ms": LONG } }))["exit"].clone()
}

fn signal(client: &Client, id: &str, signal: i32) {
    assert_eq!(client.ok(&json!({ "signal_process": { "id": id, "signal": signal } })), json!({}));
}

/// All that a process writes on its two streams, and how it ended.
fn all(client: &Client, id: &str, limit: u64) -> ([Vec<u8>; 2], Value) {
    let (mut streams, mut cursor) = ([Vec::new(), Vec::new()], 0);
    loop {
        let done = client.ask(&read(id, cursor, limit, LONG));
        let answer = done.answer["ok"].clone();
        assert_eq!(answer["dropped"], 0, "{answer}");
        let mut rest = &done.out[..];
        for chunk in answer["chunks"].as_array().unwrap() {
            let (stream, length) = (chunk[0].as_u64().unwrap(), chunk[1].as_u64().unwrap());
            let (bytes, after) = rest.split_at(usize::try_from(length).unwrap());
            streams[usize::try_from(stream).unwrap() - 1].extend_from_slice(bytes);
            rest = after;
        }
        assert!(rest.is_empty());
        let next = answer["next"].as_u64().unwrap();
        assert!(next > cursor || !answer["exit"].is_null(), "the time was up: {answer}");
        cursor = next;
        if !answer["exit"].is_null() {
            return (streams, answer["exit"].clone());
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn outlive() {
    let stage = Stage::new();
    let first = stage.client();
    let id =
        start(&first, "echo one; read line; echo \"got $line\" >&2; exit 77", json!({ "label": "mine" }));
    assert_eq!(first.ask(&read(&id, 0, 100, LONG)).out, b"one\n");
    first.hang_up();
    let second = stage.client();
    let info = json!({ "id": id, "program": "sh", "terminal": false, "exit": null, "label": "mine" });
    assert_eq!(second.ok(&json!({ "process": { "id": id } })), info);
    assert_eq!(second.ask_with(&write(&id, LONG), b"this\n").ok(), json!({ "taken": 5 }));
    assert_eq!(exit(&second, &id), 77);
    let ([out, err], code) = all(&second, &id, 3);
    assert_eq!((&*text(&out), &*text(&err), code), ("one\n", "got this\n", json!(77)));
    let list: Value = serde_json::from_slice(&second.ask(&json!({ "processes": {} })).out).unwrap();
    assert_eq!((list[0]["id"].as_str(), &list[0]["exit"]), (Some(&*id), &json!(77)));
    assert_eq!(second.ask_with(&write(&id, LONG), b"x").why(), "invalid_input");
    signal(&second, &id, 9);
}

fn backpressure() {
    let stage = Stage::new();
    let client = stage.client();
    let id = start(&client, "seq 50000; seq 50000 >&2", json!({ "buffer": 4096 }));
    let waits = json!({ "wait_process": { "id": id, "timeout_ms": 300 } });
    assert_eq!(client.ok(&waits), json!({ "exit": null }));
    let ([out, err], code) = all(&client, &id, 5000);
    assert_eq!((out.len(), text(&out) == text(&err), code), (288_894, true, json!(0)));
    let id = start(&client, "seq 50000; exit 3", json!({ "buffer": 4096, "drop_oldest": true }));
    // A process that has ended may have left more in its pipe: its exit code follows all of that.
    let done = loop {
        let done = client.ask(&read(&id, 0, 1 << 20, LONG));
        if !done.answer["ok"]["exit"].is_null() {
            break done;
        }
    };
    assert_eq!(done.answer["ok"]["exit"], 3);
    assert!(done.out.ends_with(b"\n49999\n50000\n") && done.out.len() <= 4096);
    assert_eq!(done.answer["ok"]["dropped"].as_u64().unwrap() + done.out.len() as u64, 288_894);
}

/// Where the streams alternate, a part is a byte: an answer has no more of them than it takes.
fn alternating() {
    let stage = Stage::new();
    let client = stage.client();
    let script = "i=0; while [ $i -lt 20000 ]; do printf a; printf b >&2; i=$((i+1)); done";
    let id = start(&client, script, json!({ "buffer": 8 << 20 }));
    assert_eq!(exit(&client, &id), 0);
    let ([out, err], _) = all(&client, &id, 8 << 20);
    assert!(out == vec![b'a'; 20_000] && err == vec![b'b'; 20_000]);
}

fn nobody_reads() {
    let stage = Stage::new();
    let client = stage.client();
    let blocked = start(&client, "exec yes", json!({}));
    let drops = start(&client, "exec yes", json!({ "drop_oldest": true }));
    for _ in 0..20 {
        assert_eq!(client.sh("echo still here"), "still here");
    }
    for id in [blocked, drops] {
        assert!(!client.ask(&read(&id, 0, 1, LONG)).out.is_empty());
        signal(&client, &id, 9);
        assert_eq!(exit(&client, &id), 137);
        let done = client.ask(&read(&id, 0, 8 << 20, LONG));
        assert!(!done.out.is_empty() && done.out.len() <= 65_536);
    }
}

fn bounded() {
    let stage = Stage::new();
    let client = stage.client();
    let requests: Vec<_> = (0..200).map(|_| client.open(&request(&["sleep", "1000"], json!({})))).collect();
    let answers: Vec<_> = requests.into_iter().map(|call| call.outcome().answer).collect();
    let ids: Vec<_> = answers.iter().filter_map(|answer| answer["ok"]["id"].as_str()).collect();
    assert_eq!(ids.len(), 64);
    for answer in answers.iter().filter(|answer| answer["ok"].is_null()) {
        assert_eq!(answer["failed"]["why"], "unavailable", "{answer}");
    }
    for id in &ids {
        signal(&client, id, 15);
    }
    for id in &ids {
        assert_eq!(exit(&client, id), 143);
    }
    let large = || client.ask(&request(&["sleep", "1000"], json!({ "buffer": 8 << 20 })));
    for _ in 0..4 {
        large().ok();
    }
    assert_eq!(client.why(&request(&["true"], json!({ "buffer": 4096 }))), "unavailable");
}

/// What a forgotten process has left in the background goes on writing, and does not die of it.
fn forgotten() {
    let stage = Stage::new();
    let client = stage.client();
    let over = stage.path("over");
    let script = format!("(seq 100000; echo over > {over}) & exit 0");
    let id = start(&client, &script, json!({ "buffer": 4096 }));
    assert_eq!(exit(&client, &id), 0);
    assert_eq!(client.sh(&format!("sleep 0.3; test -e {over} || echo none")), "none");
    for _ in 0..70 {
        let id = start(&client, "true", json!({}));
        assert_eq!(exit(&client, &id), 0);
    }
    assert_eq!(client.why(&json!({ "process": { "id": id } })), "not_found");
    assert_eq!(client.why(&read(&id, 0, 1, 0)), "not_found");
    assert!(until(|| client.sh(&format!("test -e {over} && echo over || true")) == "over"));
}

/// A reader that is given up leaves the thread that waited to others.
fn given_up() {
    let stage = Stage::new();
    let client = stage.client();
    let id = start(&client, "exec cat", json!({}));
    for _ in 0..20 {
        let calls: Vec<_> = (0..60).map(|_| client.open(&read(&id, 0, 1, 3_600_000))).collect();
        for call in &calls {
            call.cancel();
        }
    }
    assert_eq!(client.sh("echo served"), "served");
    // Those that have hung up, too.
    let gone = stage.client();
    let polls: Vec<_> = (0..60).map(|_| gone.open(&read(&id, 0, 1, 3_600_000))).collect();
    gone.hang_up();
    drop(polls);
    let two = [client.open(&read(&id, 0, 9, LONG)), client.open(&read(&id, 0, 9, LONG))];
    assert_eq!(client.ask_with(&write(&id, LONG), b"ok").ok(), json!({ "taken": 2 }));
    for one in two {
        assert_eq!(one.outcome().out, b"ok");
    }
}

fn writers() {
    let stage = Stage::new();
    let client = stage.client();
    let id = start(&client, "exec sleep 1000", json!({}));
    let blocked = client.open(&write(&id, 3_600_000));
    blocked.write(&vec![0; 300_000]);
    // It has its turn once another one has none.
    assert!(until(|| client.ask_with(&write(&id, 0), b"x").ok() == json!({ "taken": 0 })));
    assert_eq!(client.ask_with(&write(&id, 200), b"x").ok(), json!({ "taken": 0 }));
    blocked.cancel();
    // What was taken of it stays, and the pipe is full.
    assert!(until(|| client.ask_with(&write(&id, 0), b"").ok() == json!({ "taken": 0 })));
    signal(&client, &id, 9);
    assert_eq!(exit(&client, &id), 137);
    assert_eq!(client.ask_with(&write(&id, LONG), b"x").why(), "invalid_input");
    let id = start(&client, "sleep 0.3; wc -c", json!({}));
    assert_eq!(client.ask_with(&write(&id, LONG), &vec![0; 2_000_000]).ok(), json!({ "taken": 2_000_000 }));
    client.ok(&json!({ "close_process": { "id": id } }));
    client.ok(&json!({ "close_process": { "id": id } }));
    assert_eq!(text(&all(&client, &id, 100).0[0]).trim(), "2000000");
}

fn terminal() {
    let stage = Stage::new();
    let client = stage.client();
    let on = json!({ "terminal": { "rows": 24, "columns": 80 } });
    let script = "trap 'stty size; exit 7' WINCH; tty; echo $TERM; while :; do sleep 0.05; done";
    let id = start(&client, script, on.clone());
    assert!(until(|| client.ask(&read(&id, 0, 1000, LONG)).out.ends_with(b"xterm-256color\r\n")));
    let resize =
        |rows: u16| client.ask(&json!({ "resize_process": { "id": id, "rows": rows, "columns": 132 } }));
    assert_eq!(resize(0).why(), "invalid_input");
    resize(40).ok();
    let ([out, err], code) = all(&client, &id, 1000);
    assert!(text(&out).starts_with("/dev/pts/") && text(&out).ends_with("\r\n40 132\r\n"), "{}", text(&out));
    assert_eq!((err.len(), code), (0, json!(7)));
    resize(50).ok();
    let id = start(&client, "echo up; exec cat", on.clone());
    assert!(until(|| client.ask(&read(&id, 0, 1000, LONG)).out == b"up\r\n"));
    assert_eq!(client.ask_with(&write(&id, LONG), b"\x03").ok(), json!({ "taken": 1 }));
    assert_eq!(exit(&client, &id), 130);
    let id = start(&client, "cat; seq 20000", on.clone());
    client.ok(&json!({ "close_process": { "id": id } }));
    assert!(all(&client, &id, 1 << 20).0[0].ends_with(b"\r\n19999\r\n20000\r\n"));
    // The terminal belongs to the process: the guest has none, and no other program uses it.
    let id = start(
        &client,
        "echo mine > /dev/tty; setsid sh -c 'echo x > /dev/tty' 2>/dev/null || echo refused",
        on,
    );
    assert_eq!(text(&all(&client, &id, 1000).0[0]), "mine\r\nrefused\r\n");
    assert_eq!(client.sh("echo x 2>/dev/null > /dev/tty || echo refused"), "refused");
}

fn odd() {
    let stage = Stage::new();
    let client = stage.client();
    let why = |argv: &[&str], more: Value| client.why(&request(argv, more));
    assert_eq!(why(&["no-such-program"], json!({})), "not_found");
    assert_eq!(why(&[], json!({})), "invalid_input");
    assert_eq!(why(&["true"], json!({ "cwd": "/nowhere" })), "not_found");
    assert_eq!(why(&["true"], json!({ "buffer": 4095 })), "invalid_input");
    assert_eq!(why(&["true"], json!({ "buffer": u64::MAX })), "invalid_input");
    assert_eq!(why(&["true"], json!({ "terminal": { "rows": 1, "columns": 0 } })), "invalid_input");
    let id = start(&client, "printf '\\377\\000'", json!({}));
    assert_eq!(exit(&client, &id), 0);
    assert_eq!(all(&client, &id, 10).0[0], b"\xff\0");
    for (cursor, limit) in [(3, 1), (u64::MAX, 1), (0, 0)] {
        assert_eq!(client.why(&read(&id, cursor, limit, LONG)), "invalid_input");
    }
    assert_eq!(client.ask(&read(&id, 0, u32::MAX.into(), u32::MAX.into())).out.len(), 2);
    for signal in [-1, 0, 99, i32::MAX] {
        let running = start(&client, "exec sleep 1000", json!({}));
        assert_eq!(
            client.why(&json!({ "signal_process": { "id": running, "signal": signal } })),
            "invalid_input"
        );
    }
    let resize = json!({ "resize_process": { "id": id, "rows": 1, "columns": 1 } });
    assert_eq!(client.why(&resize), "invalid_input");
    for unknown in ["", "x", "../../etc/passwd", &"0".repeat(32)] {
        assert_eq!(client.why(&json!({ "process": { "id": unknown } })), "not_found");
    }
}

fn beside() {
    let stage =
        How::new().arguments(&["--beside"]).before(&["sh", "-c", "\"$@\" && exec sleep 9886", "sh"]).start();
    let client = stage.client();
    let id = start(&client, "echo up; exec sleep 1000", json!({}));
    assert_eq!(client.ask(&read(&id, 0, 100, LONG)).out, b"up\n");
    signal(&client, &id, 15);
    assert_eq!(exit(&client, &id), 143);
}

fn kill_all() {
    let stage = Stage::new();
    let client = stage.client();
    let id = start(&client, "setsid sleep 1000 & exec sleep 1000", json!({}));
    client.ok(&json!({ "kill_all": {} }));
    assert_eq!(exit(&client, &id), 137);
    assert_eq!(all(&client, &id, 10).1, 137);
}
