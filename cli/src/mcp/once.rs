//! Calls of tools whose input has a key twice. Who reads messages for the protocol takes the last of the two and tells
//! nobody, so such a call is found before: in place of its input stands what is wrong with it, and the server says so.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use koze::tool::{self, Unread};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, ReadBuf};

use super::MAX_REQUEST;

/// No tool takes this: the error of an input in place of it.
const TWICE: &str = "koze:twice";

/// How much is read at once, in bytes.
const CHUNK: usize = 16 << 10;

/// The message to read in place of one that calls a tool with a key twice; nothing where that is not so.
pub(crate) fn marked(message: &[u8]) -> Option<Vec<u8>> {
    let Err(Unread::Twice(error)) = tool::read(message) else { return None };
    let mut message: Value = serde_json::from_slice(message).ok()?;
    if message.get("method")? != "tools/call" {
        return None;
    }
    message.get_mut("params")?.as_object_mut()?.insert("arguments".into(), json!({ TWICE: error }));
    serde_json::to_vec(&message).ok()
}

/// What is wrong with an input, where that stands in its place.
pub(crate) fn mark(input: &Map<String, Value>) -> Option<koze::Error> {
    serde_json::from_value(input.get(TWICE)?.clone()).ok()
}

/// The lines of a client, with those that are marked.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    inner: R,
    /// What came, and is no whole line yet.
    line: Vec<u8>,
    /// What goes on, and how much of it has gone.
    ready: Vec<u8>,
    gone: usize,
}

impl<R> Lines<R> {
    pub(crate) fn new(inner: R) -> Self {
        Lines { inner, line: Vec::new(), ready: Vec::new(), gone: 0 }
    }

    /// Lets go on what came: whole lines, and what has no end or is too long for a message, which is another's to say.
    fn take(&mut self, ended: bool) {
        let whole = self.line.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        for line in self.line[..whole].split_inclusive(|byte| *byte == b'\n') {
            match marked(line) {
                Some(mut marked) => {
                    marked.push(b'\n');
                    self.ready.append(&mut marked);
                }
                None => self.ready.extend_from_slice(line),
            }
        }
        self.line.drain(..whole);
        if ended || self.line.len() > MAX_REQUEST {
            self.ready.append(&mut self.line);
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Lines<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let left = &self.ready[self.gone..];
            if !left.is_empty() {
                let taken = left.len().min(buffer.remaining());
                buffer.put_slice(&left[..taken]);
                self.gone += taken;
                return Poll::Ready(Ok(()));
            }
            self.ready.clear();
            self.gone = 0;
            let mut chunk = [0; CHUNK];
            let mut chunk = ReadBuf::new(&mut chunk);
            ready!(Pin::new(&mut self.inner).poll_read(context, &mut chunk))?;
            let ended = chunk.filled().is_empty();
            self.line.extend_from_slice(chunk.filled());
            // A line that goes on is looked through once it has ended.
            if ended || chunk.filled().contains(&b'\n') || self.line.len() > MAX_REQUEST {
                self.take(ended);
            }
            if ended && self.ready.is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    const TWO: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"shell","arguments":{"command":"a","command":"b"}}}"#;

    #[test]
    fn a_call_with_a_key_twice_is_marked() {
        let marked: Value = serde_json::from_slice(&marked(TWO.as_bytes()).unwrap()).unwrap();
        assert_eq!((&marked["id"], &marked["params"]["name"]), (&json!(1), &json!("shell")));
        let error = mark(marked["params"]["arguments"].as_object().unwrap()).unwrap();
        assert!(error.to_string().starts_with("invalid_input: the key `command` stands twice"), "{error}");
        assert!(mark(json!({ "command": "a" }).as_object().unwrap()).is_none());
    }

    #[test]
    fn all_else_is_as_it_was() {
        for text in [
            TWO.replace("\"command\":\"b\"", "\"x\":1"),
            TWO.replace("tools/call", "ping"),
            "{".to_owned(),
            String::new(),
        ] {
            assert_eq!(marked(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn lines_go_on_as_they_came() {
        let long = "x".repeat(3 * CHUNK);
        let text = format!("one\n\n{long}\n{TWO}\nafter\nno end");
        let mut read = String::new();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(Lines::new(text.as_bytes()).read_to_string(&mut read)).unwrap();
        let marked = String::from_utf8(marked(TWO.as_bytes()).unwrap()).unwrap();
        assert_eq!(read, text.replace(TWO, &marked));
    }
}
