//! A tool call as server-sent events: `stdout` and `stderr` with the text that its programs print, and then `result`.

use std::collections::VecDeque;
use std::pin::{Pin, pin};
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::stream::unfold;
use futures_util::{Stream as Events, StreamExt as _};
use serde::Serialize;
use serde_json::json;

use super::{Event, Texts};
use crate::maybe_send::MaybeSend;
use crate::sandbox::process::Stream;
use crate::time::sleep;

/// The media type of server-sent events.
pub const MEDIA_TYPE: &str = "text/event-stream";
/// The headers of such a response. Nothing on its way may keep it back.
pub const HEADERS: [(&str, &str); 2] =
    [("content-type", MEDIA_TYPE), ("cache-control", "no-store, no-transform")];
/// How long nothing may be sent. A comment then keeps the connection open, and shows whether the client is still there.
const SILENCE: Duration = Duration::from_secs(5);
/// The comment.
pub(crate) const COMMENT: &str = ":\n\n";

/// Returns whether an `Accept` header names the media type.
pub fn are_accepted(accept: &str) -> bool {
    let is_named =
        |range: &str| range.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(MEDIA_TYPE);
    accept.split(',').any(is_named)
}

/// Returns an event. Its data is JSON, which has no line breaks.
pub fn event(name: &str, data: &impl Serialize) -> String {
    // Plain data, which can always be serialized.
    event_of_json(name, &serde_json::to_string(data).unwrap_or_default())
}

/// Returns an event with data that is JSON already.
pub fn event_of_json(name: &str, data: &str) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

/// Returns a call as events. A reader that is slow slows the program down. Dropping the stream drops the call.
pub fn events<T: Serialize + MaybeSend + 'static>(
    call: impl Events<Item = Event<T>> + MaybeSend + 'static,
) -> impl Events<Item = String> + MaybeSend + 'static {
    encode_events(call, SILENCE)
}

fn encode_events<T: Serialize + MaybeSend + 'static>(
    call: impl Events<Item = Event<T>> + MaybeSend + 'static,
    silence: Duration,
) -> impl Events<Item = String> + MaybeSend + 'static {
    let state =
        State { call: Some(Box::pin(call)), texts: Texts::default(), ready: VecDeque::new(), silence };
    unfold(state, |mut state| async move {
        let next = state.next().await?;
        Some((next, state))
    })
}

struct State<C> {
    /// `None` once the result is known.
    call: Option<Pin<Box<C>>>,
    texts: Texts,
    ready: VecDeque<String>,
    silence: Duration,
}

impl<T: Serialize, C: Events<Item = Event<T>>> State<C> {
    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Some(ready);
            }
            let call = self.call.as_mut()?;
            match select(call.next(), pin!(sleep(self.silence))).await {
                Either::Left((Some(Event::Output(chunk)), _)) => {
                    self.ready
                        .extend(self.texts.decode(&chunk).map(|text| output_event(chunk.stream, &text)));
                }
                Either::Left((Some(Event::Done(result)), _)) => {
                    self.call = None;
                    self.ready.extend(self.texts.finish().map(|(stream, text)| output_event(stream, &text)));
                    self.ready.push_back(event("result", &result));
                }
                Either::Left((None, _)) => return None,
                Either::Right(_) => return Some(COMMENT.to_owned()),
            }
        }
    }
}

fn output_event(stream: Stream, text: &str) -> String {
    let name = match stream {
        Stream::Stdout => "stdout",
        Stream::Stderr => "stderr",
    };
    event(name, &json!({ "text": text }))
}

#[cfg(test)]
mod tests {
    use futures_util::stream::iter;

    use super::*;
    use crate::sandbox::process::Chunk;
    use crate::tool::ToolResult;

    #[test]
    fn output_and_then_the_result() {
        let print = |stream, bytes: &[u8]| Event::Output(Chunk { stream, bytes: bytes.to_vec() });
        let result = ToolResult { content: "{\"a\":\"\u{2028}\\r\\n\"}".into(), is_error: true };
        let call = [
            print(Stream::Stdout, b"a\r\n\xc3"),
            print(Stream::Stderr, b"data: b\n\n"),
            print(Stream::Stdout, b"\xa4"),
            print(Stream::Stderr, b"\xf0\x9f"),
            Event::Done(result.clone()),
        ];
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let told: Vec<String> = runtime.block_on(events(iter(call)).collect());
        let expected = [
            "event: stdout\ndata: {\"text\":\"a\\r\\n\"}\n\n".to_owned(),
            "event: stderr\ndata: {\"text\":\"data: b\\n\\n\"}\n\n".to_owned(),
            "event: stdout\ndata: {\"text\":\"ä\"}\n\n".to_owned(),
            "event: stderr\ndata: {\"text\":\"\u{fffd}\"}\n\n".to_owned(),
            format!("event: result\ndata: {}\n\n", serde_json::to_string(&result).unwrap()),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn silence_is_filled() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let call = futures_util::stream::pending::<Event<ToolResult>>();
            let mut events = pin!(encode_events(call, Duration::from_millis(1)));
            assert_eq!(events.next().await.as_deref(), Some(COMMENT));
            assert_eq!(events.next().await.as_deref(), Some(COMMENT));
        });
    }

    #[test]
    fn accepted_types() {
        for accept in ["text/event-stream", "application/json, Text/Event-Stream;q=0.5"] {
            assert!(are_accepted(accept), "{accept}");
        }
        for accept in ["", "*/*", "text/*", "application/json", "text/event-streams"] {
            assert!(!are_accepted(accept), "{accept}");
        }
    }
}
