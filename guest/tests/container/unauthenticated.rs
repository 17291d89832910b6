//! Unauthenticated connections, and too many authenticated ones.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use koze_guest::container::frame::{Kind, encode};
use serde_json::json;

use crate::Test;
use crate::client::{Client, closes, connect, exec, hello, until};
use crate::stage::{Stage, TOKEN};

pub(crate) const TESTS: &[Test] = &[
    ("a_wrong_token_gets_no_answer", wrong_token),
    ("other_first_frames_get_no_answer", something_else),
    ("a_hello_in_pieces", in_pieces),
    ("idle_connections_time_out", slow),
    ("the_oldest_unauthenticated_connection_is_dropped", oldest_goes),
    ("a_thousand_unauthenticated_connections", thousand),
    ("the_oldest_of_nine_connections_is_closed", nine),
];

fn wrong_token() {
    let stage = Stage::new();
    let other = |place: usize| {
        let mut token = TOKEN.to_owned().into_bytes();
        token[place] = if token[place] == b'0' { b'1' } else { b'0' };
        String::from_utf8(token).unwrap()
    };
    let mut tokens = vec![
        String::new(),
        "0".into(),
        TOKEN[1..].into(),
        TOKEN[..63].into(),
        format!("{TOKEN}0"),
        format!("{TOKEN}\0"),
        format!(" {TOKEN}"),
        TOKEN.to_uppercase(),
        "0".repeat(64),
    ];
    tokens.extend([0, 1, 31, 32, 62, 63].map(other));
    for token in tokens {
        assert!(Client::new(stage.address, &token).is_none(), "{token}");
    }
    assert_eq!(stage.client().sh("echo on"), "on");
}

fn something_else() {
    let stage = Stage::new();
    let stat = json!({ "stat": { "root": "/", "path": "/" } }).to_string();
    for (what, bytes) in [
        ("HTTP", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec()),
        ("a request first", encode(1, Kind::Request, stat.as_bytes())),
        ("hello of a call", encode(1, Kind::Hello, &hello(TOKEN)[9..])),
        ("no JSON", encode(0, Kind::Hello, TOKEN.as_bytes())),
        ("no token", encode(0, Kind::Hello, br#"{"protocol":1}"#)),
        ("no text", encode(0, Kind::Hello, br#"{"protocol":1,"token":[1]}"#)),
        ("a long hello", encode(0, Kind::Hello, &[&hello(TOKEN)[9..], &[b' '; 2000]].concat())),
        ("a long length", u32::MAX.to_le_bytes().to_vec()),
        ("no length", vec![0; 4]),
    ] {
        let mut socket = connect(stage.address);
        socket.write_all(&bytes).unwrap();
        assert!(closes(&mut socket), "{what}");
    }
    assert_eq!(stage.client().sh("echo on"), "on");
}

fn in_pieces() {
    let stage = Stage::new();
    let mut socket = connect(stage.address);
    for byte in hello(TOKEN) {
        socket.write_all(&[byte]).unwrap();
    }
    let mut first = [0; 9];
    std::io::Read::read_exact(&mut socket, &mut first).unwrap();
    assert_eq!(first[8], Kind::Welcome as u8);
    // Together with the frames that follow.
    let mut socket = connect(stage.address);
    let list = json!({ "stat": { "root": "/", "path": "/" } }).to_string();
    socket.write_all(&[hello(TOKEN), encode(1, Kind::Request, list.as_bytes())].concat()).unwrap();
    let mut bytes = Vec::new();
    let answered = |bytes: &[u8]| bytes.windows(9).any(|part| part == b"directory");
    while !answered(&bytes) {
        let mut more = [0; 100];
        let read = std::io::Read::read(&mut socket, &mut more).unwrap();
        assert!(read > 0);
        bytes.extend(&more[..read]);
    }
}

fn slow() {
    let stage = Stage::new();
    let mut silent = connect(stage.address);
    let mut trickles = connect(stage.address);
    let writes = trickles.try_clone().unwrap();
    let trickle = std::thread::spawn(move || {
        let mut writes = writes;
        // Bytes keep arriving, but never a whole frame.
        for byte in hello(TOKEN).into_iter().take(60) {
            if writes.write_all(&[byte]).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(500));
        }
    });
    assert!(closes(&mut silent) && closes(&mut trickles));
    trickle.join().unwrap();
    assert_eq!(stage.client().sh("echo on"), "on");
}

fn oldest_goes() {
    let stage = Stage::new();
    let mut all: Vec<TcpStream> = (0..16).map(|_| connect(stage.address)).collect();
    let mut first = all.remove(0);
    all.push(connect(stage.address));
    assert!(closes(&mut first));
    // The other sixteen are still open: each can authenticate.
    for socket in &mut all {
        socket.write_all(&hello(TOKEN)).unwrap();
        std::io::Read::read_exact(socket, &mut [0; 9]).unwrap();
    }
}

fn thousand() {
    let stage = Stage::new();
    let client = stage.client();
    let (threads, descriptors) = (stage.threads(), stage.descriptors());
    let mut all = Vec::new();
    for n in 0..1000 {
        let mut socket = connect(stage.address);
        if n % 3 == 0 {
            // It may already be closed.
            let _ = socket.write_all(&hello(TOKEN)[..20]);
        }
        all.push(socket);
        assert!(n % 100 > 0 || client.sh("echo on") == "on");
    }
    let most = descriptors.map(|before| before + 20);
    assert!(until(|| stage.descriptors() <= most), "{descriptors:?} {:?}", stage.descriptors());
    assert!(stage.threads() <= threads && stage.peak() < 48 << 20);
    // A client that authenticates at once is still accepted.
    assert_eq!(stage.client().sh("echo in"), "in");
    let mut open = 0;
    for socket in &mut all {
        socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        open += usize::from(!closes(socket));
    }
    assert!(open <= 16, "{open}");
}

fn nine() {
    let stage = Stage::new();
    let first = stage.client();
    let running = first.open(&exec(&["sleep", "9888"]));
    let others: Vec<_> = (0..7).map(|_| stage.client()).collect();
    assert_eq!(first.sh("echo on"), "on");
    let ninth = stage.client();
    assert!(first.closes());
    stage.nothing_runs();
    drop(running);
    for client in others.iter().chain([&ninth]) {
        assert_eq!(client.sh("echo on"), "on");
    }
}
