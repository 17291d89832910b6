//! A client of the guest of a container, for hosts in Rust.
//!
//! A [`Client`] is one authenticated connection. Any number of threads can make calls over it at once: a long call delays no
//! other. [`Client::ask`] makes a call and collects its output. [`Client::open`] starts a [`Call`], whose input and output
//! pass in pieces, in bounded memory, and which is canceled when it is dropped.
//!
//! The guest is not trusted: a violation of the protocol ends the connection, and no answer can make the client allocate
//! more than the limits of the protocol.
//!
//! Requests are written in camel case, which older guests do not read: see [`koze_protocol::operation`].
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use koze_guest::client::{Client, Error};
//! use koze_guest::container::frame::PORT;
//! use koze_guest::container::request::{Exited, Request, Size};
//! use koze_protocol::operation::{Exec, framed};
//!
//! # fn main() -> Result<(), Error> {
//! # let (address, token) = (std::net::Ipv4Addr::LOCALHOST, "");
//! let client = Client::connect((address, PORT).into(), token, Duration::from_secs(5))?;
//!
//! // A program, with its output in memory.
//! let request = Request::Exec(Exec {
//!     argv: vec!["uname".to_owned(), "-a".to_owned()],
//!     working_dir: "/".to_owned(),
//!     env: Vec::new(),
//!     timeout_ms: 10_000,
//!     max_output: 65_536,
//!     call: None,
//! });
//! let outcome = client.ask::<Exited>(&request)?;
//! println!("{}: {}", outcome.result.exit_code, String::from_utf8_lossy(&outcome.out));
//!
//! // A file of any size, in pieces.
//! let path = "/tmp/big".to_owned();
//! let call = client.open(&Request::Write(framed::Write { root: "/".to_owned(), path, append: false, offset: None }))?;
//! call.write_from(&mut std::fs::File::open("big").map_err(Error::Body)?)?;
//! call.end()?;
//! let size: Size = call.receive(&mut std::io::sink(), &mut std::io::sink())?;
//! assert!(size.size > 0);
//! # Ok(())
//! # }
//! ```

mod call;
mod error;
mod receive;
#[cfg(test)]
mod tests;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

pub use self::call::Call;
pub use self::error::Error;
use crate::calls::Calls;
pub use crate::calls::Event;
use crate::frame::{Decoder, Frame, Kind, MAX_FRAME, encode, encode_text};
use crate::request::{Hello, MAX_REQUEST, PROTOCOL, Request, Welcome};

/// An authenticated connection. Dropping it ends its calls.
#[derive(Debug)]
pub struct Client {
    socket: TcpStream,
    /// The number of the last call. Locked while a call or frame is written, so that numbers grow on the wire.
    last: Mutex<u32>,
    calls: Arc<Calls>,
    version: String,
}

/// The complete result of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome<T> {
    /// What the guest answered.
    pub result: T,
    /// The bytes of stream 1, such as standard output or the content of a file.
    pub out: Vec<u8>,
    /// The bytes of stream 2: standard error.
    pub err: Vec<u8>,
}

impl Client {
    /// Connects to a guest and authenticates with the token that it was started with.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if nothing listens there, and the errors of [`authenticate`](Self::authenticate).
    pub fn connect(address: SocketAddr, token: &str, timeout: Duration) -> Result<Self, Error> {
        let socket = TcpStream::connect_timeout(&address, timeout).map_err(Error::Unreachable)?;
        Client::authenticate(socket, token, timeout)
    }

    /// Authenticates over a socket that is connected to a guest.
    ///
    /// # Errors
    /// [`Error::Rejected`] if the guest closes the connection, as it does for a wrong token; [`Error::Timeout`] if it sends
    /// nothing; [`Error::Version`] if it speaks another version of the protocol.
    pub fn authenticate(socket: TcpStream, token: &str, timeout: Duration) -> Result<Self, Error> {
        crate::net::keep_alive(&socket).map_err(|error| Error::Unreachable(error.into()))?;
        let hello = Hello { token: token.to_owned(), protocol: PROTOCOL };
        let hello = serde_json::to_vec(&hello).map_err(Error::Request)?;
        (&socket).write_all(&encode(0, Kind::Hello, &hello)).map_err(|_| Error::Rejected)?;
        let mut decoder = Decoder::new(MAX_FRAME);
        let welcome = read_welcome(&socket, &mut decoder, timeout)?;
        let version = welcome.version.into_owned();
        if welcome.protocol != PROTOCOL {
            return Err(Error::Version { protocol: welcome.protocol, version });
        }
        let calls = Arc::new(Calls::default());
        let reader = socket.try_clone().map_err(Error::Unreachable)?;
        reader.set_read_timeout(None).map_err(Error::Unreachable)?;
        let table = Arc::clone(&calls);
        std::thread::Builder::new()
            .name("guest-client".to_owned())
            .spawn(move || receive::receive(&reader, decoder, &table))
            .map_err(Error::Unreachable)?;
        Ok(Client { socket, last: Mutex::new(0), calls, version })
    }

    /// Returns the version of koze that the guest was built from.
    pub fn guest_version(&self) -> &str {
        &self.version
    }

    /// Starts a call.
    ///
    /// # Errors
    /// If the connection has ended, or the request is too long.
    pub fn open(&self, request: &Request) -> Result<Call<'_>, Error> {
        self.open_json(&serde_json::to_vec(request).map_err(Error::Request)?)
    }

    /// Starts a call with a request that is JSON already.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_json(&self, request: &[u8]) -> Result<Call<'_>, Error> {
        if request.len() > MAX_REQUEST {
            return Err(Error::TooLong);
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let number = last.checked_add(1).ok_or(Error::Closed)?;
        let (sender, events) = channel();
        // A call that is dropped at this moment needs no events.
        let sink = move |event| drop(sender.send(event));
        self.calls.add(number, Box::new(sink))?;
        *last = number;
        self.write_bytes(&encode_text(number, Kind::Request, request))?;
        Ok(Call::new(self, number, events))
    }

    /// Makes a call without input, and collects its output.
    ///
    /// # Errors
    /// [`Error::Failed`] if the operation failed, and the errors of the connection.
    pub fn ask<T: DeserializeOwned>(&self, request: &Request) -> Result<Outcome<T>, Error> {
        collect(self.open(request)?)
    }

    /// Makes a call with input, and collects its output.
    ///
    /// # Errors
    /// As [`ask`](Self::ask), and [`Error::Body`] if the input cannot be read.
    pub fn ask_with<T: DeserializeOwned>(
        &self,
        request: &Request,
        input: &mut dyn Read,
    ) -> Result<Outcome<T>, Error> {
        let call = self.open(request)?;
        match call.write_from(input).and_then(|()| call.end()) {
            // The answer says why the guest did not wait for all of the input.
            Ok(()) | Err(Error::Answered) => collect(call),
            Err(error) => Err(error),
        }
    }

    /// Returns whether the connection has ended.
    pub fn is_closed(&self) -> bool {
        self.calls.is_closed()
    }

    /// Closes the connection. The guest cancels its calls.
    pub fn close(&self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// Sends a frame of a call.
    fn send(&self, call: u32, kind: Kind, payload: &[u8]) -> Result<(), Error> {
        let _one = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        self.write_bytes(&encode(call, kind, payload))
    }

    /// Writes whole frames. After an error, part of a frame may have been sent, so the connection ends.
    fn write_bytes(&self, frames: &[u8]) -> Result<(), Error> {
        (&self.socket).write_all(frames).map_err(|_| {
            self.close();
            Error::Closed
        })
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.close();
    }
}

fn collect<T: DeserializeOwned>(call: Call<'_>) -> Result<Outcome<T>, Error> {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let result = call.receive(&mut out, &mut err)?;
    Ok(Outcome { result, out, err })
}

/// Reads the first frame of the guest.
fn read_welcome(mut socket: &TcpStream, decoder: &mut Decoder, timeout: Duration) -> Result<Welcome, Error> {
    let until = Instant::now() + timeout;
    loop {
        if let Some(Frame { call, kind, payload }) = decoder.next()? {
            if (call, kind) != (0, Kind::Welcome) {
                return Err(Error::Violation("the first frame is not a welcome"));
            }
            return serde_json::from_slice(payload).map_err(Error::Answer);
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Error::Timeout);
        }
        socket.set_read_timeout(Some(left)).map_err(Error::Unreachable)?;
        match socket.read(decoder.space()) {
            Ok(0) => return Err(Error::Rejected),
            Ok(read) => decoder.filled(read),
            Err(error) => match error.kind() {
                std::io::ErrorKind::Interrupted
                | std::io::ErrorKind::WouldBlock
                | std::io::ErrorKind::TimedOut => {}
                _ => return Err(Error::Rejected),
            },
        }
    }
}
