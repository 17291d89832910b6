use std::net::{Ipv4Addr, TcpListener};
use std::thread::JoinHandle;

use serde_json::json;

use super::*;
use crate::frame::{CREDIT, PIECE, data_head};
use crate::message::Place;

const TIMEOUT: Duration = Duration::from_secs(10);

fn welcome(protocol: u32) -> Vec<u8> {
    encode(0, Kind::Welcome, json!({ "protocol": protocol, "version": "9.9.9" }).to_string().as_bytes())
}

fn data(stream: u8, bytes: &[u8]) -> Vec<u8> {
    [&data_head(1, stream, bytes.len())[..], bytes].concat()
}

/// Connects to a peer that sends these bytes and reads what it is sent until the client is gone. Keep its thread.
fn connect(bytes: Vec<u8>) -> (Result<Client, Error>, JoinHandle<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let peer = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        // The handshake comes before the answers to a call.
        let (first, rest) = bytes.split_at(bytes.len().min(welcome(PROTOCOL).len()));
        socket.write_all(first).unwrap();
        if rest.is_empty() {
            let _ = socket.shutdown(Shutdown::Write);
        } else {
            let mut decoder = Decoder::new(MAX_FRAME);
            loop {
                match decoder.next().unwrap() {
                    Some(frame) if frame.kind == Kind::Request => break,
                    Some(_) => continue,
                    None => {}
                }
                match socket.read(decoder.space()) {
                    Ok(0) | Err(_) => return,
                    Ok(read) => decoder.filled(read),
                }
            }
            let _ = socket.write_all(rest);
        }
        let _ = std::io::copy(&mut socket, &mut std::io::sink());
    });
    (Client::connect(address, "token", TIMEOUT), peer)
}

fn request() -> Request {
    Request::Stat(Place { root: "/".to_owned(), path: "/".to_owned() })
}

#[test]
fn other_peers_are_rejected() {
    assert!(matches!(connect(Vec::new()).0, Err(Error::Rejected)));
    let other = PROTOCOL + 1;
    let (client, _peer) = connect(welcome(other));
    assert!(
        matches!(client, Err(Error::Version { protocol, version }) if protocol == other && version == "9.9.9")
    );
    for bytes in [b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), encode(1, Kind::Answer, b"{}")] {
        assert!(matches!(connect(bytes).0, Err(Error::Violation(_))));
    }
    assert!(matches!(connect(encode(0, Kind::Welcome, b"{}")).0, Err(Error::Answer(_))));
}

#[test]
fn a_silent_peer_times_out() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let client = Client::connect(address, "token", Duration::from_millis(50));
    assert!(matches!(client, Err(Error::Timeout)));
}

#[test]
fn a_call_is_answered() {
    let answer = br#"{"ok": {"size": 7}}"#;
    let frames = [data(1, b"ab"), data(2, b"c"), data(1, b"d"), encode(1, Kind::Answer, answer)].concat();
    let (client, _peer) = connect([welcome(PROTOCOL), frames].concat());
    let outcome = client.unwrap().ask::<serde_json::Value>(&request()).unwrap();
    assert_eq!(outcome.result, json!({ "size": 7 }));
    assert_eq!((&outcome.out[..], &outcome.err[..]), (&b"abd"[..], &b"c"[..]));
    let failed = encode(1, Kind::Answer, br#"{"failed": {"why": "not_found", "text": "no"}}"#);
    let (client, _peer) = connect([welcome(PROTOCOL), failed].concat());
    let error = client.unwrap().ask::<serde_json::Value>(&request()).unwrap_err();
    assert!(matches!(error, Error::Failed(fault) if fault.text == "no"));
}

#[test]
fn violations_end_the_connection() {
    let much = data(1, &vec![0; PIECE]).repeat(CREDIT as usize / PIECE);
    let long = vec![encode(1, Kind::Answer, &vec![b' '; PIECE]); 20].concat();
    for (what, frames) in [
        ("more data than credit", [much, data(1, b"x")].concat()),
        ("data after the end", [encode(1, Kind::End, &[1]), data(1, b"x")].concat()),
        ("two ends", encode(1, Kind::End, &[1]).repeat(2)),
        ("a stream that does not exist", data(3, b"x")),
        ("data on its own stream", data(0, b"x")),
        ("credit for nothing", encode(1, Kind::Credit, &[0, 1, 0, 0, 0])),
        ("an endless answer", long),
        ("an answer that is not JSON", encode(1, Kind::Answer, b"{")),
        ("a request", encode(1, Kind::Request, b"{}")),
    ] {
        let (client, _peer) = connect([welcome(PROTOCOL), frames].concat());
        let client = client.unwrap();
        let call = client.open(&request()).unwrap();
        let error = loop {
            match call.next(Some(TIMEOUT)) {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::Violation(_)), "{what}: {error:?}");
        assert!(client.is_closed(), "{what}");
    }
}

#[test]
fn writes_wait_for_credit() {
    let (client, _peer) = connect([welcome(PROTOCOL), encode(1, Kind::Credit, &[0, 0, 0, 0, 0])].concat());
    // Credit of nothing is a violation, which also ends a write that waits.
    let client = client.unwrap();
    let call = client.open(&request()).unwrap();
    let error = call.write(&vec![0; 2 * CREDIT as usize]).unwrap_err();
    assert!(matches!(error, Error::Violation(_) | Error::Closed), "{error:?}");
    let error = client.open(&request()).unwrap_err();
    assert!(matches!(error, Error::Violation(_)), "{error:?}");
}

#[test]
fn long_requests_are_not_sent() {
    let (client, _peer) = connect([welcome(PROTOCOL), vec![0]].concat());
    assert!(matches!(client.unwrap().open_json(&vec![b' '; MAX_REQUEST + 1]), Err(Error::TooLong)));
}
