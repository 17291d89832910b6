//! Receives frames, and passes them on to the calls that they belong to.

use std::io::{self, Read};
use std::net::{Shutdown, TcpStream};

use crate::calls::{Calls, Ended};
use crate::frame::{Decoder, Violation};

/// Receives frames until the connection ends.
pub(super) fn receive(socket: &TcpStream, decoder: Decoder, calls: &Calls) {
    let ended = receive_frames(socket, decoder, calls);
    calls.end(ended);
    let _ = socket.shutdown(Shutdown::Both);
}

fn receive_frames(mut socket: &TcpStream, mut decoder: Decoder, calls: &Calls) -> Ended {
    loop {
        loop {
            let passed = match decoder.next() {
                Ok(None) => break,
                Ok(Some(frame)) => calls.pass_on(&frame),
                Err(violation) => Err(violation),
            };
            if let Err(Violation(rule)) = passed {
                return Ended::Violation(rule);
            }
        }
        match socket.read(decoder.space()) {
            Ok(0) => return Ended::Closed,
            Ok(read) => decoder.filled(read),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Ended::Closed,
        }
    }
}
