//! Protocol violations: they end the connection and its calls, and affect nothing else.

use std::io::Write;

use koze_guest::container::frame::{Kind, MAX_FRAME, PIECE, encode};
use serde_json::json;

use crate::Test;
use crate::client::{Client, at, connect, exec, hello, read, until, write};
use crate::stage::{Stage, TOKEN};

pub(crate) const TESTS: &[Test] = &[
    ("protocol_violations", rules),
    ("garbage", garbage),
    ("hostile_json", json_bombs),
    ("memory_is_bounded", memory),
    ("another_protocol", another_protocol),
];

fn credit(call: u32, stream: u8, bytes: u32) -> Vec<u8> {
    encode(call, Kind::Credit, &[&[stream][..], &bytes.to_le_bytes()].concat())
}

fn rules() {
    let stage = Stage::new();
    let other = stage.client();
    let running = other.open(&exec(&["sleep", "9885"]));
    let stat = |call| encode(call, Kind::Request, json!({ "stat": at("/") }).to_string().as_bytes());
    let long = |length: u32| [&length.to_le_bytes()[..], &[0; 64]].concat();
    let data = |call, bytes: &[u8]| encode(call, Kind::Data, bytes);
    let hostile: Vec<(&str, Vec<u8>)> = vec![
        ("no length at all", long(0)),
        ("too short a length", long(4)),
        ("too long a length", long(u32::try_from(MAX_FRAME).unwrap() + 1)),
        ("the longest length", long(u32::MAX)),
        ("a kind there is not", [&5_u32.to_le_bytes()[..], &1_u32.to_le_bytes(), &[8]].concat()),
        ("hello twice", hello(TOKEN)),
        ("a welcome", encode(0, Kind::Welcome, b"{}")),
        ("an answer", encode(1, Kind::Answer, b"{}")),
        ("call 0", stat(0)),
        ("one number twice", [stat(9), stat(9)].concat()),
        ("a number that goes down", [stat(9), stat(8)].concat()),
        ("data before a request", data(7, &[0, 1])),
        ("an end before a request", encode(7, Kind::End, &[0])),
        ("credit before a request", credit(7, 1, 1)),
        ("a cancel before a request", encode(7, Kind::Cancel, &[])),
        ("a request of more than a piece", encode(7, Kind::Request, &vec![b' '; PIECE + 1])),
    ];
    for (what, frames) in &hostile {
        let client = stage.client();
        client.send(frames);
        assert!(client.closes(), "{what}");
    }
    // In the middle of a running call.
    let writing = |frames: &dyn Fn(u32) -> Vec<u8>| {
        let client = stage.client();
        let call = client.open(&write(&stage.path("file"), false));
        client.send(&frames(call.number));
        assert!(client.closes());
    };
    writing(&|call| encode(call, Kind::Request, b"{}"));
    writing(&|call| data(call, &[1, 1]));
    writing(&|call| data(call, &[255]));
    writing(&|call| data(call, &[]));
    writing(&|call| data(call, &vec![0; PIECE + 2]));
    writing(&|call| data(call, &vec![0; PIECE + 1]).repeat(50));
    writing(&|call| encode(call, Kind::End, &[1]));
    writing(&|call| encode(call, Kind::Cancel, &[1]));
    writing(&|call| credit(call, 0, 1));
    writing(&|call| credit(call, 3, 1));
    writing(&|call| credit(call, 1, u32::MAX));
    writing(&|call| encode(call, Kind::Credit, &[1, 2]));
    let client = stage.client();
    let call = client.open(&read("/dev/zero", 0, 1));
    let _ = call.next();
    let sleeping = client.open(&exec(&["sleep", "9886"]));
    sleeping.data(b"it takes none");
    assert!(client.closes());
    let client = stage.client();
    let sleeping = client.open(&exec(&["sleep", "9886"]));
    client.send(&stat(sleeping.number));
    assert!(client.closes());
    assert!(until(|| stage.others() == ["sleep 9885 "]), "{:?}", stage.others());
    assert!(!stage.dir.path().join("file").exists());
    stage.printed("a connection was ended: received a second hello");
    running.cancel();
    assert_eq!(other.sh("echo on"), "on");
}

fn garbage() {
    let stage = Stage::new();
    // A deterministic sequence of numbers.
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    for round in 0..200 {
        let bytes: Vec<u8> = (0..random() % 3000).map(|_| random().to_le_bytes()[0]).collect();
        let client = stage.client();
        if round % 2 == 0 {
            client.send(&bytes);
        } else {
            // Well-formed frames.
            let kind = [Kind::Request, Kind::Data, Kind::End, Kind::Credit, Kind::Cancel][round / 2 % 5];
            client.send(&encode(1, kind, &bytes));
            client.send(&encode(1, kind, &bytes[..bytes.len().min(3)]));
        }
    }
    assert_eq!(stage.client().sh("echo on"), "on");
}

fn json_bombs() {
    let stage = Stage::new();
    let client = stage.client();
    let texts = [
        "[".repeat(100_000),
        "{\"a\":".repeat(100_000),
        format!("\"{}\"", "\\u0000".repeat(100_000)),
        format!(
            r#"{{"exec":{{"argv":[{}"x"],"cwd":"/","timeout_ms":1,"max_output":1}}}}"#,
            "\"\",".repeat(1_000_000)
        ),
        format!(r#"{{"read":{{"root":"/","path":"/","offset":{},"limit":1e999}}}}"#, "9".repeat(10_000)),
        r#"{"stat":{"root":"/","path":"/"},"stat":{"root":"/","path":"/"}}"#.to_owned(),
    ];
    for text in &texts {
        assert_eq!(client.open_text(text).outcome().answer["ok"], json!(null));
    }
    assert_eq!(client.sh("echo on"), "on");
    assert!(stage.peak() < 256 << 20, "{}", stage.peak());
}

fn memory() {
    let stage = Stage::new();
    // More incomplete requests than fit in the memory budget.
    let client = stage.client();
    for call in 1..=1024 {
        for _ in 0..40 {
            client.send(&encode(call, Kind::Request, &vec![b' '; PIECE]));
        }
        if client.closed() {
            break;
        }
    }
    assert!(client.closes());
    // More buffered writes than fit in the memory budget, all within their credit.
    let client = stage.client();
    let sleeping: Vec<_> = (0..64).map(|_| client.open(&exec(&["sleep", "9887"]))).collect();
    let calls: Vec<_> = (0..800)
        .map_while(|_| {
            let call = client.try_open(&write(&stage.path("file"), false).to_string()).ok()?;
            (0..4).for_each(|_| call.data(&vec![1; PIECE]));
            Some(call)
        })
        .collect();
    assert!(client.closes());
    drop((sleeping, calls));
    stage.nothing_runs();
    assert!(stage.peak() < 256 << 20, "{}", stage.peak());
    assert_eq!(stage.client().sh("echo on"), "on");
    assert!(!stage.dir.path().join("file").exists());
}

fn another_protocol() {
    let stage = Stage::new();
    let mut socket = connect(stage.address);
    let text = json!({ "token": TOKEN, "protocol": 3 }).to_string();
    socket.write_all(&encode(0, Kind::Hello, text.as_bytes())).unwrap();
    let mut all = Vec::new();
    std::io::Read::read_to_end(&mut socket, &mut all).unwrap();
    let welcome: serde_json::Value = serde_json::from_slice(&all[9..]).unwrap();
    assert_eq!(welcome["protocol"], 2);
    assert!(Client::new(stage.address, TOKEN).is_some());
}
