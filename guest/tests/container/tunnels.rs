//! Connections between the host and programs over loopback ports. The test's own sockets are the programs: the guest shares the
//! network of the tests.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::thread;

use koze_guest::frame::CREDIT;
use serde_json::{Value, json};

use crate::Test;
use crate::client::{Call, Event, TIMEOUT};
use crate::stage::{How, Stage};

pub(crate) const TESTS: &[Test] = &[
    ("accepted_connections_carry_bytes_both_ways", both_ways),
    ("each_direction_of_a_connection_ends_alone", half_closes),
    ("connections_wait_for_credit", backpressure),
    ("a_cancel_closes_the_connection", cancels),
    ("a_reset_connection_ends_its_call", resets),
    ("servers_are_connected_to", connects),
    ("ports_that_cannot_be_used_are_errors", errors),
];

/// Returns a port that is free for a moment.
fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
}

fn port_of(request: &str, port: u16) -> Value {
    json!({ request: { "port": port } })
}

/// Waits until the connection of a call exists.
fn connected(call: &Call<'_>) {
    assert!(matches!(call.next(), Some(Event::End(2))));
}

/// Returns the bytes of stream 1 up to a length, and grants credit for them.
fn receive(call: &Call<'_>, length: usize) -> Vec<u8> {
    let mut all = Vec::new();
    while all.len() < length {
        match call.next() {
            Some(Event::Data(1, bytes)) => {
                call.credit(1, u32::try_from(bytes.len()).unwrap());
                all.extend(bytes);
            }
            Some(Event::Credit(_)) => {}
            other => panic!("{other:?} after {} bytes", all.len()),
        }
    }
    all
}

/// Starts a guest that listens on a port.
fn listening() -> (Stage, u16) {
    let stage = How::new().start();
    let port = free_port();
    let client = stage.client();
    // The second one changes nothing.
    for _ in 0..2 {
        assert_eq!(client.ok(&port_of("listen", port)), json!({}));
    }
    (stage, port)
}

fn both_ways() {
    let (stage, port) = listening();
    // The guest keeps the port for all connections of its host.
    let client = stage.client();
    for _ in 0..3 {
        let call = client.open(&port_of("accept", port));
        let mut program = connect(port);
        connected(&call);
        program.write_all(b"to the host").unwrap();
        assert_eq!(receive(&call, 11), b"to the host");
        call.write(b"to the program");
        let mut bytes = [0; 14];
        program.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"to the program");
    }
}

fn half_closes() {
    let (stage, port) = listening();
    let client = stage.client();
    // The program ends first.
    let call = client.open(&port_of("accept", port));
    let mut program = connect(port);
    connected(&call);
    program.write_all(b"all").unwrap();
    program.shutdown(Shutdown::Write).unwrap();
    assert_eq!(receive(&call, 3), b"all");
    assert!(matches!(call.next(), Some(Event::End(1))));
    call.write(b"answer");
    call.end();
    let mut text = String::new();
    program.read_to_string(&mut text).unwrap();
    assert_eq!(text, "answer");
    assert_eq!(call.outcome().ok(), json!({}));
    // The host ends first.
    let call = client.open(&port_of("accept", port));
    let mut program = connect(port);
    connected(&call);
    call.write(b"request");
    call.end();
    text.clear();
    program.read_to_string(&mut text).unwrap();
    assert_eq!(text, "request");
    program.write_all(b"rest").unwrap();
    drop(program);
    assert_eq!(receive(&call, 4), b"rest");
    assert_eq!(call.outcome().ok(), json!({}));
}

fn backpressure() {
    const SIZE: usize = 20 << 20;
    let (stage, port) = listening();
    let client = stage.client();
    let call = client.open(&port_of("accept", port));
    let program = connect(port);
    connected(&call);
    let mut writing = program.try_clone().unwrap();
    let writer =
        thread::spawn(move || writing.write_all(&vec![7; SIZE]).map(|()| writing.shutdown(Shutdown::Write)));
    // Without credit, the guest sends no more, and other calls are served.
    let mut sent = 0;
    while sent < CREDIT as usize {
        match call.next() {
            Some(Event::Data(1, bytes)) => sent += bytes.len(),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(client.sh("echo here"), "here");
    assert!(!writer.is_finished(), "the kernel does not buffer so much");
    call.credit(1, CREDIT);
    assert_eq!(sent + receive(&call, SIZE - sent).len(), SIZE);
    writer.join().unwrap().unwrap().unwrap();
    // In the other direction, the host waits for the program.
    let mut reading = program;
    let reader = thread::spawn(move || {
        let mut all = Vec::new();
        reading.read_to_end(&mut all).map(|_| all)
    });
    call.write(&vec![8; SIZE]);
    call.end();
    let all = reader.join().unwrap().unwrap();
    assert!(all.len() == SIZE && all.iter().all(|byte| *byte == 8), "{}", all.len());
    assert!(stage.peak() < 128 << 20, "{}", stage.peak());
}

fn cancels() {
    let (stage, port) = listening();
    let client = stage.client();
    // A call that was canceled while it waited takes no connection.
    let waiting = client.open(&port_of("accept", port));
    waiting.cancel();
    assert_eq!(client.sh("echo here"), "here");
    let call = client.open(&port_of("accept", port));
    let mut program = connect(port);
    connected(&call);
    // Its program reads nothing, so that both threads of the guest wait.
    call.data(&vec![0; CREDIT as usize / 8]);
    call.cancel();
    let mut rest = Vec::new();
    match program.read_to_end(&mut rest) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
    assert_eq!(client.sh("echo here"), "here");
}

fn resets() {
    let (stage, port) = listening();
    let client = stage.client();
    let call = client.open(&port_of("accept", port));
    let program = connect(port);
    connected(&call);
    rustix::net::sockopt::set_socket_linger(&program, Some(std::time::Duration::ZERO)).unwrap();
    drop(program);
    // Although the host has not ended its direction.
    assert_eq!(call.outcome().why(), "unavailable");
}

fn connects() {
    let stage = How::new().start();
    let client = stage.client();
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = server.local_addr().unwrap().port();
    let call = client.open(&port_of("connect", port));
    connected(&call);
    let (mut program, _) = server.accept().unwrap();
    program.write_all(b"first").unwrap();
    assert_eq!(receive(&call, 5), b"first");
    call.write(b"second");
    call.end();
    let mut text = String::new();
    program.read_to_string(&mut text).unwrap();
    assert_eq!(text, "second");
    drop(program);
    assert_eq!(call.outcome().ok(), json!({}));
    drop(server);
    assert_eq!(client.why(&port_of("connect", port)), "not_found");
}

fn errors() {
    let stage = How::new().start();
    let client = stage.client();
    let used = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = used.local_addr().unwrap().port();
    assert_eq!(client.why(&port_of("listen", port)), "unavailable");
    assert_eq!(client.why(&port_of("accept", port)), "invalid_input");
    assert_eq!(client.why(&json!({ "accept": { "port": 70000 } })), "invalid_input");
}
