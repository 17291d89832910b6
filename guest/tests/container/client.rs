//! A client of the guest, in place of the Durable Object.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use koze_guest::client::{self, Error};
use koze_guest::container::frame::{Kind, encode};
use koze_guest::container::request::{Exited, PROTOCOL, Request};
use koze_protocol::operation::Exec;
use serde_json::{Value, json};

pub(crate) use koze_guest::client::Event;

/// The timeout of every operation.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(2);

/// The client of the library, with requests as JSON, which may be wrong, and failures that end the test.
pub(crate) struct Client {
    client: client::Client,
    /// Its socket, for bytes that it would not send.
    raw: TcpStream,
}

/// A call.
pub(crate) struct Call<'a> {
    call: client::Call<'a>,
    pub(crate) number: u32,
}

/// The complete result of a call.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) answer: Value,
    pub(crate) out: Vec<u8>,
    pub(crate) err: Vec<u8>,
}

/// Opens a connection without authenticating.
pub(crate) fn connect(to: SocketAddr) -> TcpStream {
    let mut tried = TcpStream::connect(to);
    // On a busy machine, the kernel has been seen to find no route to itself for a moment.
    until(|| {
        let unreachable = tried.as_ref().is_err_and(|error| error.kind() == ErrorKind::HostUnreachable);
        if unreachable {
            tried = TcpStream::connect(to);
        }
        !unreachable
    });
    let socket = tried.unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    socket.set_nodelay(true).unwrap();
    socket
}

/// Returns the first frame.
pub(crate) fn hello(token: &str) -> Vec<u8> {
    encode(0, Kind::Hello, json!({ "token": token, "protocol": PROTOCOL }).to_string().as_bytes())
}

/// Returns whether the peer closes the connection.
pub(crate) fn closes(socket: &mut TcpStream) -> bool {
    let mut rest = Vec::new();
    match socket.read_to_end(&mut rest) {
        Ok(_) => true,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

impl Client {
    /// Connects and authenticates.
    pub(crate) fn new(to: SocketAddr, token: &str) -> Option<Self> {
        let socket = connect(to);
        let raw = socket.try_clone().unwrap();
        match client::Client::authenticate(socket, token, TIMEOUT) {
            Ok(client) => {
                assert_eq!(client.guest_version(), env!("CARGO_PKG_VERSION"));
                Some(Client { client, raw })
            }
            Err(Error::Rejected) => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Sends arbitrary bytes.
    pub(crate) fn send(&self, bytes: &[u8]) {
        // If the guest has closed the connection, reading detects it.
        let _ = (&self.raw).write_all(bytes);
    }

    /// Opens a call.
    pub(crate) fn open(&self, request: &Value) -> Call<'_> {
        self.open_text(&request.to_string())
    }

    /// The same with an arbitrary text.
    pub(crate) fn open_text(&self, request: &str) -> Call<'_> {
        self.try_open(request).unwrap()
    }

    /// The same, of a connection that the guest may have closed.
    pub(crate) fn try_open(&self, request: &str) -> Result<Call<'_>, Error> {
        let call = self.client.open_json(request.as_bytes())?;
        Ok(Call { number: call.number(), call })
    }

    /// Sends a request with its input, and waits for the complete result.
    pub(crate) fn ask_with(&self, request: &Value, input: &[u8]) -> Outcome {
        let call = self.open(request);
        call.write(input);
        call.end();
        call.outcome()
    }

    /// The same without input.
    pub(crate) fn ask(&self, request: &Value) -> Outcome {
        self.open(request).outcome()
    }

    /// Returns the result of a successful request.
    pub(crate) fn ok(&self, request: &Value) -> Value {
        self.ask(request).ok()
    }

    /// Returns the error code of a failed request.
    pub(crate) fn why(&self, request: &Value) -> String {
        self.ask(request).why()
    }

    /// Runs a shell script. Returns its output without the last newline.
    pub(crate) fn sh(&self, script: &str) -> String {
        let request = Request::Exec(Exec {
            argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
            working_dir: "/".to_owned(),
            env: Vec::new(),
            timeout_ms: 60_000,
            max_output: 1 << 20,
            call: None,
        });
        let done = self.client.ask::<Exited>(&request).unwrap();
        assert_eq!(done.result.exit_code, 0, "{script}: {done:?}");
        String::from_utf8(done.out).unwrap().trim_end().to_owned()
    }

    /// Returns whether the guest closes the connection.
    pub(crate) fn closes(&self) -> bool {
        until(|| self.closed())
    }

    /// Returns whether the connection is closed.
    pub(crate) fn closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Closes the connection.
    pub(crate) fn hang_up(&self) {
        self.client.close();
    }
}

impl Call<'_> {
    /// Sends bytes on stream 0, waiting for credit.
    pub(crate) fn write(&self, bytes: &[u8]) {
        match self.call.write(bytes) {
            // The call was already answered or canceled.
            Ok(()) | Err(Error::Answered | Error::Closed) => {}
            Err(error) => panic!("{error}"),
        }
    }

    /// Sends bytes on stream 0 without waiting for credit.
    pub(crate) fn data(&self, bytes: &[u8]) {
        let _ = self.call.write_piece(bytes);
    }

    /// Ends stream 0.
    pub(crate) fn end(&self) {
        let _ = self.call.end();
    }

    /// Grants credit for a stream.
    pub(crate) fn credit(&self, stream: u8, bytes: u32) {
        let _ = self.call.grant(stream, bytes);
    }

    /// Cancels the call.
    pub(crate) fn cancel(&self) {
        let _ = self.call.cancel();
    }

    /// Returns the next event, or `None` if the connection is closed.
    pub(crate) fn next(&self) -> Option<Event> {
        self.wait(TIMEOUT)
    }

    /// The same with a timeout.
    pub(crate) fn wait(&self, time: Duration) -> Option<Event> {
        match self.call.next(Some(time)) {
            Ok(event) => Some(event),
            Err(Error::Answered | Error::Closed | Error::Timeout) => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Waits for the complete result, granting credit.
    pub(crate) fn outcome(self) -> Outcome {
        let mut all = [Vec::new(), Vec::new()];
        loop {
            match self.next().expect("the guest answers") {
                Event::Data(stream, bytes) => {
                    all[usize::from(stream) - 1].extend(&bytes);
                    self.credit(stream, u32::try_from(bytes.len()).unwrap());
                }
                Event::End(_) | Event::Credit(_) => {}
                Event::Answer(answer) => {
                    assert_eq!(self.wait(Duration::ZERO), None, "the answer is the last event of a call");
                    let [out, err] = all;
                    return Outcome { answer, out, err };
                }
            }
        }
    }
}

impl Outcome {
    pub(crate) fn ok(self) -> Value {
        assert!(self.answer["ok"].is_object(), "{:?}", self.answer);
        self.answer["ok"].clone()
    }

    pub(crate) fn why(self) -> String {
        self.answer["failed"]["why"].as_str().unwrap_or_else(|| panic!("{:?}", self.answer)).to_owned()
    }
}

/// Returns a request to run a program in `/`, with a long timeout.
pub(crate) fn exec(argv: &[&str]) -> Value {
    json!({ "exec": { "argv": argv, "cwd": "/", "env": [], "timeout_ms": 60_000, "max_output": 1 << 20 } })
}

/// Returns an unconfined path.
pub(crate) fn at(path: &str) -> Value {
    json!({ "root": "/", "path": path })
}

/// Returns a request to write a file.
pub(crate) fn write(path: &str, append: bool) -> Value {
    json!({ "write": { "root": "/", "path": path, "append": append } })
}

/// Returns a request to read part of a file.
pub(crate) fn read(path: &str, offset: u64, limit: u64) -> Value {
    json!({ "read": { "root": "/", "path": path, "offset": offset, "limit": limit } })
}

/// Waits for a condition within the timeout.
pub(crate) fn until(mut what: impl FnMut() -> bool) -> bool {
    let end = std::time::Instant::now() + TIMEOUT;
    while std::time::Instant::now() < end {
        if what() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}
