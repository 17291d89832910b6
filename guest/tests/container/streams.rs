//! Concurrent calls on one connection, credit and cancellation.

use std::fs;
use std::time::Duration;

use koze_guest::container::frame::{CREDIT, PIECE};
use serde_json::{Value, json};

use crate::Test;
use crate::client::{Call, Client, Event, at, exec, read, until, write};
use crate::stage::{Stage, names};

pub(crate) const TESTS: &[Test] = &[
    ("many_calls_at_once", many),
    ("more_calls_than_run_at_once", more_than_are_worked_on),
    ("a_client_that_does_not_read_blocks_no_other", credit),
    ("credit_is_granted_for_consumed_data", credit_for_writes),
    ("cancel_in_the_middle_of_each_kind", cancelled),
    ("connection_lost_in_the_middle_of_each_kind", lost),
    ("answered_calls_ignore_late_frames", late),
];

fn many() {
    let stage = Stage::new();
    let client = stage.client();
    fs::write(stage.path("file"), vec![b'x'; 500_000]).unwrap();
    std::thread::scope(|scope| {
        for n in 0..64 {
            let (client, stage) = (&client, &stage);
            scope.spawn(move || match n % 4 {
                0 => assert_eq!(client.sh(&format!("sleep 0.1; echo {n}")), n.to_string()),
                1 => assert_eq!(client.ask(&read(&stage.path("file"), 0, 1 << 20)).out.len(), 500_000),
                2 => {
                    let bytes = vec![n; 600_000];
                    let path = stage.path(&format!("new-{n}"));
                    client.ask_with(&write(&path, false), &bytes).ok();
                    assert!(fs::read(&path).unwrap() == bytes);
                }
                _ => assert_eq!(client.ok(&json!({ "stat": at("/") }))["kind"], "directory"),
            });
        }
    });
}

fn more_than_are_worked_on() {
    let stage = Stage::new();
    let client = stage.client();
    let sleeping: Vec<_> = (0..128).map(|_| client.open(&exec(&["sleep", "9882"]))).collect();
    assert!(until(|| stage.others().len() == 128), "{}", stage.others().len());
    let threads = stage.threads();
    // These wait without starting and without threads. A request to kill all programs does not wait.
    let waiting: Vec<_> = (0..500).map(|_| client.open(&exec(&["true"]))).collect();
    let writes = client.open(&write(&stage.path("file"), false));
    writes.write(&vec![7; 200_000]);
    writes.end();
    let given_up = client.open(&write(&stage.path("given-up"), false));
    given_up.end();
    given_up.cancel();
    assert_eq!(waiting[0].wait(Duration::from_millis(300)), None);
    assert_eq!((stage.others().len(), stage.threads() <= threads), (128, true));
    sleeping[0].cancel();
    for call in waiting {
        assert_eq!(call.outcome().ok()["exit_code"], 0);
    }
    assert_eq!(writes.outcome().ok(), json!({ "size": 200_000 }));
    assert_eq!(names(stage.dir.path()), ["file"]);
    // The limit is per connection.
    assert_eq!(stage.client().sh("echo on"), "on");
    let kill = client.open(&json!({ "kill_all": {} }));
    kill.outcome().ok();
    for call in sleeping.into_iter().skip(1) {
        assert_eq!(call.outcome().ok()["exit_code"], 137);
    }
}

/// Returns how much a call sends without further credit.
fn comes(call: &Call<'_>) -> usize {
    let mut all = 0;
    while let Some(event) = call.wait(Duration::from_millis(if all < CREDIT as usize { 20_000 } else { 200 }))
    {
        match event {
            Event::Data(1, bytes) => all += bytes.len(),
            other => panic!("{other:?}"),
        }
    }
    all
}

fn credit() {
    let stage = Stage::new();
    let client = stage.client();
    fs::File::create(stage.path("file")).unwrap().set_len(10 << 20).unwrap();
    let reads: Vec<_> = (0..20).map(|_| client.open(&read(&stage.path("file"), 0, u64::MAX))).collect();
    for call in &reads {
        assert_eq!(comes(call), CREDIT as usize);
    }
    let mut much = exec(&["head", "-c", "5000000", "/dev/zero"]);
    much["exec"]["max_output"] = json!(5_000_000);
    let runs = client.open(&much);
    assert_eq!(comes(&runs), CREDIT as usize);
    assert_eq!(client.sh("echo on"), "on");
    reads[3].credit(1, 5);
    assert_eq!(reads[3].next(), Some(Event::Data(1, vec![0; 5])));
    // Credit is per call.
    assert_eq!(reads[4].wait(Duration::from_millis(100)), None);
    runs.credit(1, 10_000_000);
    let rest = runs.outcome();
    assert_eq!(rest.out.len(), 5_000_000 - CREDIT as usize);
    for call in reads {
        call.credit(1, 100 << 20);
        assert_eq!(call.outcome().ok(), json!({ "size": 10 << 20 }));
    }
}

fn credit_for_writes() {
    let stage = Stage::new();
    let client = stage.client();
    let call = client.open(&write(&stage.path("file"), false));
    let mut given = 0;
    for _ in 0..CREDIT as usize / 4 / PIECE {
        call.data(&vec![1; PIECE]);
    }
    while given == 0 {
        match call.next().unwrap() {
            Event::Credit(credit) => given += credit,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(given, CREDIT / 4);
    // Many frames of one byte.
    for _ in 0..2000 {
        call.data(&[2]);
    }
    call.end();
    assert_eq!(call.outcome().ok(), json!({ "size": CREDIT / 4 + 2000 }));
}

/// Starts every kind of long call: a program, a write, an append in memory and in a file, a read, a list, an archive, and
/// unread output.
fn middles<'a>(stage: &Stage, client: &'a Client) -> Vec<Call<'a>> {
    fs::write(stage.path("old"), "old").unwrap();
    fs::File::create(stage.path("long")).unwrap().set_len(10 << 20).unwrap();
    fs::create_dir(stage.path("many")).unwrap();
    for n in 0..3000 {
        fs::write(stage.path(&format!("many/{n}-{}", "n".repeat(200))), "").unwrap();
    }
    let program = client.open(&exec(&["sh", "-c", "setsid sleep 9883 & (sleep 9883 &); sleep 9883"]));
    assert!(until(|| stage.others().iter().filter(|line| line.starts_with("sleep")).count() == 3));
    let writes = [("old", false), ("old", true), ("new", false), ("new", true)].map(|(name, append)| {
        let call = client.open(&write(&stage.path(name), append));
        call.write(&vec![1; if name == "new" { 20 << 20 } else { 3 << 20 }]);
        call
    });
    let mut much = exec(&["head", "-c", "5000000", "/dev/zero"]);
    much["exec"]["max_output"] = json!(5_000_000);
    let list = json!({ "list": at(&stage.path("many")) });
    let archive = json!({ "archive": at(&stage.path("many")) });
    let taken = [read(&stage.path("long"), 0, u64::MAX), list, archive, much].map(|what| client.open(&what));
    for call in &taken {
        assert_eq!(comes(call), CREDIT as usize);
    }
    // Wait until the writes are in progress.
    assert!(until(|| names(stage.dir.path()).iter().any(|name| name.starts_with(".koze"))));
    [program].into_iter().chain(writes).chain(taken).collect()
}

/// Checks that nothing of them remains.
fn nothing_left(stage: &Stage, descriptors: Option<usize>) {
    stage.nothing_runs();
    assert!(until(|| names(stage.dir.path()) == ["long", "many", "old"]), "{:?}", names(stage.dir.path()));
    assert_eq!(fs::read(stage.path("old")).unwrap(), b"old");
    assert!(until(|| stage.descriptors() <= descriptors), "{descriptors:?} {:?}", stage.descriptors());
    assert!(until(|| stage.threads() < 20), "{}", stage.threads());
}

fn cancelled() {
    let stage = Stage::new();
    let client = stage.client();
    let before = stage.descriptors();
    let calls = middles(&stage, &client);
    for call in &calls {
        call.cancel();
        call.cancel();
        // Late frames are not a violation.
        call.credit(1, 10);
    }
    nothing_left(&stage, before);
    assert_eq!(client.sh("echo on"), "on");
    for call in &calls {
        assert!(
            !matches!(call.wait(Duration::ZERO), Some(Event::Answer(Value::Object(answer))) if answer.contains_key("ok"))
        );
    }
}

fn lost() {
    let stage = Stage::new();
    drop(stage.client());
    let before = stage.descriptors();
    let client = stage.client();
    let calls = middles(&stage, &client);
    // Background processes keep running.
    client.hang_up();
    nothing_left(&stage, before);
    drop(calls);
    let client = stage.client();
    client.sh("sleep 9884 > /dev/null 2>&1 &");
    drop(client);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(stage.others(), ["sleep 9884 "]);
}

fn late() {
    let stage = Stage::new();
    let client = stage.client();
    // It fails at once, while its data is still in flight.
    let call = client.open(&write("/proc/nowhere/file", false));
    assert!(matches!(call.next(), Some(Event::Answer(_))));
    call.data(&[1; 1000]);
    call.end();
    call.end();
    call.credit(1, 5);
    call.cancel();
    assert_eq!(client.sh("echo on"), "on");
}
