//! The messages of a client on two streams, one a line. A call of a tool is most of them, so it is read at once, as what
//! it is; all others are left to the SDK.

use std::io;
use std::sync::Arc;

use futures_util::{SinkExt as _, StreamExt as _};
use koze::tool;
use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, ErrorData, MetaObject, RequestId,
    RequestMetaObject,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::{JsonRpcMessageCodec, JsonRpcMessageCodecError, TransportWriter};
use serde_json::Value;
use serde_json::error::Category;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Mutex;
use tokio_util::bytes::BytesMut;
use tokio_util::codec::{AnyDelimiterCodec, AnyDelimiterCodecError, Decoder as _, FramedRead, FramedWrite};

use super::{MAX_REQUEST, once};

type Read = RxJsonRpcMessage<RoleServer>;
type Written = TxJsonRpcMessage<RoleServer>;

/// A client on two streams.
pub(crate) struct Lines<R, W> {
    input: FramedRead<R, AnyDelimiterCodec>,
    output: Arc<Mutex<Option<TransportWriter<RoleServer, W>>>>,
}

impl<R: AsyncRead, W: AsyncWrite> Lines<R, W> {
    pub(crate) fn new(input: R, output: W) -> Self {
        let lines = AnyDelimiterCodec::new_with_max_length(b"\n".to_vec(), b"\n".to_vec(), MAX_REQUEST);
        let output = FramedWrite::new(output, JsonRpcMessageCodec::default());
        Lines { input: FramedRead::new(input, lines), output: Arc::new(Mutex::new(Some(output))) }
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

    async fn receive(&mut self) -> Option<Read> {
        loop {
            let refused = match self.input.next().await {
                Some(Ok(line)) => match message(&line) {
                    Ok(Some(message)) => return Some(message),
                    Ok(None) => continue,
                    Err(refused) => refused,
                },
                Some(Err(AnyDelimiterCodecError::MaxChunkLengthExceeded)) => {
                    // After an error, the stream says once that it ends, and goes on behind the long line.
                    let _ = self.input.next().await;
                    ErrorData::invalid_request(
                        format!("a message has {} MiB at most", MAX_REQUEST >> 20),
                        None,
                    )
                }
                Some(Err(AnyDelimiterCodecError::Io(_))) | None => return None,
            };
            // By itself: whoever waits here for a message may give up waiting.
            tokio::spawn(self.send(Written::error(refused, None)));
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.output.lock().await.take();
        Ok(())
    }
}

/// The message in a line; nothing where it has none, or one that is not for a server of tools.
fn message(line: &[u8]) -> Result<Option<Read>, ErrorData> {
    let twice = match tool::read(line) {
        Ok(value) => match call(value) {
            Some(call) => return Ok(Some(call)),
            None => None,
        },
        Err(tool::Unread::Twice(_)) => once::marked(line),
        Err(tool::Unread::NoJson(_)) => None,
    };
    let mut line = BytesMut::from(twice.as_deref().unwrap_or(line));
    line.extend_from_slice(b"\n");
    match JsonRpcMessageCodec::default().decode(&mut line) {
        Ok(message) => Ok(message),
        // Whose it was cannot be known, and two who each answer what they cannot read would never end.
        Err(JsonRpcMessageCodecError::Serde(error))
            if matches!(error.classify(), Category::Syntax | Category::Eof) =>
        {
            Ok(None)
        }
        Err(_) => Err(ErrorData::invalid_request("Invalid request", None)),
    }
}

/// A call of a tool, as clients write them; nothing where it is anything else.
fn call(message: Value) -> Option<Read> {
    let Value::Object(mut message) = message else { return None };
    if message.remove("jsonrpc")? != "2.0" || message.remove("method")? != "tools/call" {
        return None;
    }
    let id: RequestId = serde_json::from_value(message.remove("id")?).ok()?;
    let Value::Object(mut fields) = message.remove("params")? else { return None };
    let Value::String(name) = fields.remove("name")? else { return None };
    let mut params = CallToolRequestParams::new(name);
    match fields.remove("arguments") {
        Some(Value::Object(arguments)) => params = params.with_arguments(arguments),
        None => {}
        Some(_) => return None,
    }
    let mut request = CallToolRequest::new(params);
    match fields.remove("_meta") {
        Some(Value::Object(meta)) => {
            request.extensions.insert(RequestMetaObject(MetaObject(meta)));
        }
        None => {}
        Some(_) => return None,
    }
    let known = fields.is_empty() && message.is_empty();
    known.then(|| Read::request(ClientRequest::CallToolRequest(request), id))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::io::AsyncReadExt as _;

    use super::*;

    /// As the SDK reads it.
    fn read(message: &Value) -> Read {
        serde_json::from_value(message.clone()).unwrap()
    }

    #[test]
    fn a_call_is_what_the_sdk_would_have_read() {
        for params in [
            json!({ "name": "shell", "arguments": { "command": "true", "x": [1, 1.5, null, { "ä": "\u{0}" }] } }),
            json!({ "name": "shell", "arguments": {}, "_meta": { "progressToken": 7, "a/b": {} } }),
            json!({ "name": "shell" }),
        ] {
            for id in [json!(1), json!("one")] {
                let message = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
                let [ours, theirs] = [call(message.clone()).unwrap(), read(&message)];
                let [ours, theirs] = [ours, theirs].map(|message| message.into_request().unwrap());
                let meta = |request: &ClientRequest| match request {
                    ClientRequest::CallToolRequest(call) => {
                        call.extensions.get::<RequestMetaObject>().cloned()
                    }
                    _ => panic!("{request:?}"),
                };
                assert_eq!((meta(&ours.0), &ours.1), (meta(&theirs.0), &theirs.1), "{message}");
                let written = |request| serde_json::to_value(request).unwrap();
                assert_eq!(written(ours.0), written(theirs.0), "{message}");
            }
        }
    }

    #[test]
    fn what_is_no_plain_call_is_left_to_the_sdk() {
        let plain =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "shell" } });
        assert!(call(plain.clone()).is_some());
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
            assert!(call(message.clone()).is_none(), "{message}");
        }
        let mut more = plain;
        more["more"] = json!(1);
        assert!(call(more).is_none());
    }

    #[test]
    fn lines_that_are_no_message() {
        for line in ["", "\r", "nonsense", "{"] {
            assert!(matches!(message(line.as_bytes()), Ok(None)), "{line}");
        }
        for line in ["1", r#"{"jsonrpc":"2.0","id":1}"#] {
            assert!(message(line.as_bytes()).is_err(), "{line}");
        }
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        for line in [format!("\u{feff}{ping}"), format!("{ping}\r"), ping.to_owned()] {
            assert!(matches!(message(line.as_bytes()), Ok(Some(_))), "{line}");
        }
    }

    #[test]
    fn behind_a_line_that_is_too_long_it_goes_on() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let ping = |id| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}\n");
            let long = "x".repeat(MAX_REQUEST + 1);
            let input = format!("{}{long}\n1\n{}", ping(1), ping(2));
            let (output, mut told) = tokio::io::duplex(1 << 16);
            let mut lines = Lines::new(input.as_bytes(), output);
            for id in [1, 2] {
                let (_, found) = lines.receive().await.unwrap().into_request().unwrap();
                assert_eq!(found, RequestId::Number(id));
            }
            assert!(lines.receive().await.is_none());
            tokio::task::yield_now().await;
            lines.close().await.unwrap();
            drop(lines);
            let mut said = String::new();
            told.read_to_string(&mut said).await.unwrap();
            let said: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            let said: Vec<_> = said.iter().map(|error| &error["error"]["message"]).collect();
            assert_eq!(said, ["a message has 64 MiB at most", "Invalid request"]);
        });
    }
}
