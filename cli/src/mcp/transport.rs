//! Reads and writes messages on two streams, one per line. Most messages are tool calls, which are decoded directly;
//! the SDK decodes all others.

use std::io;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::{SinkExt as _, StreamExt as _};
use koze_core::tool::message::{CallMessage, Message};
use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, ErrorData, JsonRpcError, MetaObject,
    RequestMetaObject,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::{JsonRpcMessageCodec, JsonRpcMessageCodecError, TransportWriter};
use serde_json::error::Category;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Mutex;
use tokio_util::bytes::{Bytes, BytesMut};
use tokio_util::codec::{Decoder, FramedRead, FramedWrite};

use super::{MAX_REQUEST, sealed};

type Read = RxJsonRpcMessage<RoleServer>;
type Written = TxJsonRpcMessage<RoleServer>;

/// The transport of a client on two streams.
pub(crate) struct Lines<R, W> {
    input: FramedRead<R, Splitter>,
    output: Arc<Mutex<Option<TransportWriter<RoleServer, W>>>>,
    /// The pending error response to an invalid line. Nothing more is read until it is written.
    refusing: Option<Pin<Box<dyn Future<Output = io::Result<()>> + Send>>>,
}

impl<R: AsyncRead, W: AsyncWrite> Lines<R, W> {
    pub(crate) fn new(input: R, output: W) -> Self {
        let output = FramedWrite::new(output, JsonRpcMessageCodec::default());
        let output = Arc::new(Mutex::new(Some(output)));
        Lines { input: FramedRead::new(input, Splitter::default()), output, refusing: None }
    }
}

impl<R, W> Transport<RoleServer> for Lines<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(&mut self, message: Written) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let output = Arc::clone(&self.output);
        async move {
            match output.lock().await.as_mut() {
                Some(output) => Ok(output.send(message).await?),
                None => Err(io::ErrorKind::NotConnected.into()),
            }
        }
    }

    /// Receives a message. Cancel safe: a later call resumes.
    async fn receive(&mut self) -> Option<Read> {
        loop {
            if let Some(refusing) = &mut self.refusing {
                let told = refusing.await;
                self.refusing = None;
                told.ok()?;
            }
            let refused = match self.input.next().await?.ok()? {
                Line::Whole(line) => match decode_message(&line) {
                    Ok(Some(message)) => return Some(message),
                    Ok(None) => continue,
                    Err(refused) => refused,
                },
                Line::TooLong => {
                    let text = format!("a message must have at most {} MiB", MAX_REQUEST >> 20);
                    invalid_request(text).into()
                }
            };
            self.refusing = Some(Box::pin(self.send(Written::Error(*refused))));
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.output.lock().await.take();
        Ok(())
    }
}

/// A received line, without its line ending.
#[derive(Debug, PartialEq)]
enum Line {
    Whole(Bytes),
    TooLong,
}

/// Splits input into lines. An unterminated line at the end of the input is dropped.
#[derive(Debug, Default)]
struct Splitter {
    /// How many bytes of the buffer have been searched.
    searched: usize,
    /// Whether the current line is too long and is being discarded.
    skipping: bool,
}

impl Decoder for Splitter {
    type Item = Line;
    type Error = io::Error;

    fn decode(&mut self, bytes: &mut BytesMut) -> io::Result<Option<Line>> {
        loop {
            let Some(end) = bytes[self.searched..].iter().position(|byte| *byte == b'\n') else {
                let too_long = self.skipping || bytes.len() > MAX_REQUEST;
                if too_long {
                    bytes.clear();
                }
                self.searched = bytes.len();
                let told = std::mem::replace(&mut self.skipping, too_long);
                return Ok((too_long && !told).then_some(Line::TooLong));
            };
            let line = bytes.split_to(self.searched + end + 1).freeze();
            self.searched = 0;
            if std::mem::take(&mut self.skipping) {
                continue;
            }
            let line = line.slice(..line.len() - 1);
            return Ok(Some(if line.len() > MAX_REQUEST { Line::TooLong } else { Line::Whole(line) }));
        }
    }

    fn decode_eof(&mut self, bytes: &mut BytesMut) -> io::Result<Option<Line>> {
        let line = self.decode(bytes)?;
        if line.is_none() {
            bytes.clear();
        }
        Ok(line)
    }
}

/// Decodes the message in a line. Returns `None` for an empty line or a message that is not for a tool server.
fn decode_message(line: &[u8]) -> Result<Option<Read>, Box<JsonRpcError>> {
    // Some clients write a byte order mark, which JSON parsers may ignore.
    let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
    let replaced = match Message::read(line) {
        Message::Call(read) => return Ok(Some(to_request(read))),
        Message::DuplicateKey(error) => sealed::with_error(line, error),
        Message::TooLarge(error) => return Err(invalid_request(error.message).into()),
        Message::InvalidArguments(error) => return Err(error),
        Message::InvalidJson(_) | Message::Other => None,
    };
    let mut line = BytesMut::from(replaced.as_deref().unwrap_or(line));
    match JsonRpcMessageCodec::default().decode_eof(&mut line) {
        Ok(message) => Ok(message),
        // Its request ID is unknown. Two peers that each answer unreadable messages would loop forever.
        Err(JsonRpcMessageCodecError::Serde(error))
            if matches!(error.classify(), Category::Syntax | Category::Eof) =>
        {
            Ok(None)
        }
        Err(_) => Err(invalid_request("Invalid request".to_owned()).into()),
    }
}

/// Returns the error for a message whose ID is not known.
fn invalid_request(message: String) -> JsonRpcError {
    JsonRpcError::new(None, ErrorData::invalid_request(message, None))
}

/// Returns a tool call as the SDK represents it, with its input as text.
fn to_request(CallMessage { id, tool, meta, input }: CallMessage) -> Read {
    let params = CallToolRequestParams::new(tool).with_arguments(sealed::seal(input));
    let mut request = CallToolRequest::new(params);
    if let Some(meta) = meta {
        request.extensions.insert(RequestMetaObject(MetaObject(meta)));
    }
    Read::request(ClientRequest::CallToolRequest(request), id)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rmcp::model::RequestId;
    use serde_json::{Value, json};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::time::timeout;

    use super::*;

    /// Decodes a call without the SDK.
    fn ours(message: &Value) -> Option<Read> {
        match Message::read(message.to_string().as_bytes()) {
            Message::Call(read) => Some(to_request(read)),
            _ => None,
        }
    }

    /// Decodes a message with the SDK.
    fn read(message: &Value) -> Read {
        serde_json::from_value(message.clone()).unwrap()
    }

    #[test]
    fn a_call_decodes_as_the_sdk_would_decode_it() {
        for params in [
            json!({ "name": "shell", "arguments": { "command": "true", "x": [1, 1.5, null, { "ä": "\u{0}" }] } }),
            json!({ "name": "shell", "arguments": {}, "_meta": { "progressToken": 7, "a/b": {} } }),
            json!({ "name": "shell" }),
        ] {
            for id in [json!(1), json!("one")] {
                let message = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
                let parts = |read: Read| {
                    let (request, id) = read.into_request().unwrap();
                    let ClientRequest::CallToolRequest(call) = request else { panic!("{request:?}") };
                    let meta = call.extensions.get::<RequestMetaObject>().cloned();
                    let input = sealed::open(call.params.arguments.unwrap_or_default()).unwrap();
                    (id, call.params.name, meta, input.text().to_owned())
                };
                assert_eq!(parts(ours(&message).unwrap()), parts(read(&message)), "{message}");
            }
        }
    }

    #[test]
    fn unusual_calls_are_left_to_the_sdk() {
        let plain =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "shell" } });
        assert!(ours(&plain).is_some());
        for (pointer, value) in [
            ("/jsonrpc", json!("1.0")),
            ("/id", json!(null)),
            ("/id", json!({})),
            ("/method", json!("tools/list")),
            ("/params", json!([])),
            ("/params/name", json!(1)),
            ("/params", json!({ "name": "shell", "arguments": [] })),
            ("/params", json!({ "name": "shell", "_meta": 1 })),
            ("/params", json!({ "name": "shell", "requestState": "x" })),
        ] {
            let mut message = plain.clone();
            *message.pointer_mut(pointer).unwrap() = value;
            assert!(ours(&message).is_none(), "{message}");
        }
        let mut more = plain;
        more["more"] = json!(1);
        assert!(ours(&more).is_none());
    }

    #[test]
    fn invalid_lines_are_rejected() {
        for line in ["", "\r", "nonsense", "{"] {
            assert!(matches!(decode_message(line.as_bytes()), Ok(None)), "{line}");
        }
        let many =
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":[{}0]}}"#, "[0],".repeat(20_000));
        for line in ["1", r#"{"jsonrpc":"2.0","id":1}"#, &many] {
            assert!(decode_message(line.as_bytes()).is_err(), "{line}");
        }
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        for line in [format!("\u{feff}{ping}"), format!("{ping}\r"), ping.to_owned()] {
            assert!(matches!(decode_message(line.as_bytes()), Ok(Some(_))), "{line}");
        }
    }

    #[test]
    fn a_duplicate_key_is_reported_after_a_byte_order_mark_too() {
        let line = "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"shell\",\
                    \"arguments\":{\"command\":\"a\",\"command\":\"b\"}}}";
        let (request, _) = decode_message(line.as_bytes()).unwrap().unwrap().into_request().unwrap();
        let ClientRequest::CallToolRequest(call) = request else { panic!("{request:?}") };
        let error = sealed::open(call.params.arguments.unwrap()).unwrap_err();
        assert!(error.message.starts_with("duplicate key `command`"), "{error}");
    }

    #[test]
    fn lines_are_split_unchanged() {
        let (mut splitter, mut bytes) = (Splitter::default(), BytesMut::new());
        let whole = |text: &'static str| Line::Whole(Bytes::from_static(text.as_bytes()));
        let mut feed = |more: &[u8]| {
            bytes.extend_from_slice(more);
            std::iter::from_fn(|| splitter.decode(&mut bytes).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(feed(b"on"), []);
        assert_eq!(feed(b"e\n\ntwo\nth"), [whole("one"), whole(""), whole("two")]);
        assert_eq!(feed(b"ree\n"), [whole("three")]);
        let most = vec![b'x'; MAX_REQUEST];
        assert_eq!(feed(&most), []);
        assert_eq!(feed(b"\n").len(), 1, "as long as it may be");
        // An overlong line is reported once, and the next line is not lost.
        assert_eq!(feed(&most), []);
        assert_eq!(feed(b"x"), [Line::TooLong]);
        assert_eq!(feed(&most), []);
        assert_eq!(feed(b"\nnext\n"), [whole("next")]);
        assert_eq!(feed(&[&most[..], b"x\nnext\nno end"].concat()), [Line::TooLong, whole("next")]);
        assert!(splitter.decode_eof(&mut bytes).unwrap().is_none() && bytes.is_empty());
    }

    #[test]
    fn invalid_messages_are_answered_before_more_is_read() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (input, mut client) = tokio::io::duplex(1 << 20);
            let (output, mut told) = tokio::io::duplex(16);
            let mut lines = Lines::new(input, output);
            client.write_all("1\n".repeat(1000).as_bytes()).await.unwrap();
            client.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}\n").await.unwrap();
            // Nobody reads the responses, so it blocks on the first one, however often it is polled.
            for _ in 0..3 {
                assert!(timeout(Duration::from_millis(10), lines.receive()).await.is_err());
                assert!(lines.refusing.is_some());
            }
            let reader = tokio::spawn(async move {
                let mut printed = String::new();
                told.read_to_string(&mut printed).await.unwrap();
                printed
            });
            let (_, id) = lines.receive().await.unwrap().into_request().unwrap();
            assert_eq!(id, RequestId::Number(7));
            lines.close().await.unwrap();
            drop(lines);
            let printed = reader.await.unwrap();
            assert_eq!(printed.lines().count(), 1000);
            for line in printed.lines() {
                let error: Value = serde_json::from_str(line).unwrap();
                assert_eq!(error["error"]["message"], "Invalid request");
            }
        });
    }
}
