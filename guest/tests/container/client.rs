//! A client of the guest, in place of the Durable Object.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use koze_guest::container::frame::{CREDIT, Decoder, Kind, MAX_FRAME, PIECE, encode, encode_text};
use koze_guest::container::request::PROTOCOL;
use serde_json::{Value, json};

/// The timeout of every operation.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(2);

/// An event of a call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Event {
    Data(u8, Vec<u8>),
    End(u8),
    Credit(u32),
    Answer(Value),
}

type Calls = Arc<Mutex<Option<HashMap<u32, Sender<Event>>>>>;

/// An authenticated connection.
pub(crate) struct Client {
    socket: TcpStream,
    writing: Mutex<u32>,
    calls: Calls,
}

/// A call.
pub(crate) struct Call<'a> {
    client: &'a Client,
    pub(crate) number: u32,
    events: Receiver<Event>,
    /// Events that arrived while others were awaited.
    early: RefCell<VecDeque<Event>>,
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

/// Receives the next frame.
fn frame(socket: &mut TcpStream, decoder: &mut Decoder) -> Option<(u32, Kind, Vec<u8>)> {
    loop {
        if let Some(frame) = decoder.next().expect("the guest sends frames") {
            return Some((frame.call, frame.kind, frame.payload.to_vec()));
        }
        match socket.read(decoder.space()) {
            Ok(0) | Err(_) => return None,
            Ok(read) => decoder.filled(read),
        }
    }
}

impl Client {
    /// Connects and authenticates.
    pub(crate) fn new(to: SocketAddr, token: &str) -> Option<Self> {
        let mut socket = connect(to);
        socket.write_all(&hello(token)).unwrap();
        let mut decoder = Decoder::new(MAX_FRAME);
        let (call, kind, payload) = frame(&mut socket, &mut decoder)?;
        let welcome: Value = serde_json::from_slice(&payload).unwrap();
        assert_eq!((call, kind), (0, Kind::Welcome));
        assert_eq!(welcome, json!({ "protocol": PROTOCOL, "version": env!("CARGO_PKG_VERSION") }));
        let calls: Calls = Arc::new(Mutex::new(Some(HashMap::new())));
        let (mut reads, known) = (socket.try_clone().unwrap(), Arc::clone(&calls));
        reads.set_read_timeout(None).unwrap();
        std::thread::spawn(move || {
            let mut answers: HashMap<u32, Vec<u8>> = HashMap::new();
            while let Some((call, kind, payload)) = frame(&mut reads, &mut decoder) {
                let event = match kind {
                    Kind::Data => Event::Data(payload[0], payload[1..].to_vec()),
                    Kind::End => Event::End(payload[0]),
                    Kind::Credit => {
                        assert_eq!(payload[0], 0);
                        Event::Credit(u32::from_le_bytes(payload[1..].try_into().unwrap()))
                    }
                    Kind::Answer => {
                        let text = answers.entry(call).or_default();
                        text.extend(&payload);
                        if payload.len() == PIECE {
                            continue;
                        }
                        Event::Answer(serde_json::from_slice(&answers.remove(&call).unwrap()).unwrap())
                    }
                    other => panic!("the guest sends no {other:?}"),
                };
                // A canceled call gets no further events.
                if let Some(to) = known.lock().unwrap().as_ref().and_then(|calls| calls.get(&call)) {
                    let _ = to.send(event);
                }
            }
            *known.lock().unwrap() = None;
        });
        Some(Client { socket, writing: Mutex::new(0), calls })
    }

    /// Sends arbitrary bytes.
    pub(crate) fn send(&self, bytes: &[u8]) {
        let _one = self.writing.lock().unwrap();
        // If the guest has closed the connection, reading detects it.
        let _ = (&self.socket).write_all(bytes);
    }

    /// Opens a call.
    pub(crate) fn open(&self, request: &Value) -> Call<'_> {
        self.open_text(&request.to_string())
    }

    /// The same with an arbitrary text.
    pub(crate) fn open_text(&self, request: &str) -> Call<'_> {
        let (to, events) = channel();
        let mut last = self.writing.lock().unwrap();
        *last += 1;
        if let Some(calls) = self.calls.lock().unwrap().as_mut() {
            calls.insert(*last, to);
        }
        let _ = (&self.socket).write_all(&encode_text(*last, Kind::Request, request.as_bytes()));
        Call { client: self, number: *last, events, early: RefCell::default() }
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
        let done = self.ask(&exec(&["sh", "-c", script]));
        assert_eq!(done.answer["ok"]["exit_code"], 0, "{script}: {done:?}");
        String::from_utf8(done.out).unwrap().trim_end().to_owned()
    }

    /// Returns whether the guest closes the connection.
    pub(crate) fn closes(&self) -> bool {
        until(|| self.closed())
    }

    /// Returns whether the connection is closed.
    pub(crate) fn closed(&self) -> bool {
        self.calls.lock().unwrap().is_none()
    }

    /// Closes the connection.
    pub(crate) fn hang_up(&self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.hang_up();
    }
}

impl Call<'_> {
    /// Sends bytes on stream 0, waiting for credit.
    pub(crate) fn write(&self, bytes: &[u8]) {
        let mut credit = CREDIT as usize;
        for piece in bytes.chunks(PIECE) {
            while credit < piece.len() {
                match self.next() {
                    Some(Event::Credit(more)) => credit += more as usize,
                    // The call was already answered or canceled.
                    other => return self.early.borrow_mut().extend(other),
                }
            }
            credit -= piece.len();
            self.data(piece);
        }
    }

    /// Sends bytes on stream 0 without waiting for credit.
    pub(crate) fn data(&self, bytes: &[u8]) {
        self.client.send(&encode(self.number, Kind::Data, &[&[0], bytes].concat()));
    }

    /// Ends stream 0.
    pub(crate) fn end(&self) {
        self.client.send(&encode(self.number, Kind::End, &[0]));
    }

    /// Grants credit for a stream.
    pub(crate) fn credit(&self, stream: u8, bytes: u32) {
        let payload = [&[stream][..], &bytes.to_le_bytes()].concat();
        self.client.send(&encode(self.number, Kind::Credit, &payload));
    }

    /// Cancels the call.
    pub(crate) fn cancel(&self) {
        self.client.send(&encode(self.number, Kind::Cancel, &[]));
    }

    /// Returns the next event, or `None` if the connection is closed.
    pub(crate) fn next(&self) -> Option<Event> {
        self.wait(TIMEOUT)
    }

    /// The same with a timeout.
    pub(crate) fn wait(&self, time: Duration) -> Option<Event> {
        let early = self.early.borrow_mut().pop_front();
        early.or_else(|| self.events.recv_timeout(time).ok())
    }

    /// Waits for the complete result, granting credit.
    pub(crate) fn outcome(self) -> Outcome {
        let mut all = [Vec::new(), Vec::new()];
        let mut ended = Vec::new();
        loop {
            match self.next().expect("the guest answers") {
                Event::Data(stream, bytes) => {
                    assert!(!ended.contains(&stream), "data after the end of its stream");
                    all[usize::from(stream) - 1].extend(&bytes);
                    self.credit(stream, u32::try_from(bytes.len()).unwrap());
                }
                Event::End(stream) => ended.push(stream),
                Event::Credit(_) => {}
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
