//! A call whose client asks for progress: the response is a stream of events, progress notifications and then the response
//! of the protocol. Before it, a call that has changed the list of tools says so.

use std::pin::{Pin, pin};

use futures_util::future::{Either, select};
use futures_util::stream::unfold;
use futures_util::{Stream, StreamExt as _};
use koze_core::Session;
use koze_core::progress::events::event;
use koze_core::progress::notices::{INTERVAL, Notice, Notices};
use koze_core::progress::{self, Event, Progress};
use koze_core::time::sleep;
use koze_core::tool::instructions::Host;
use koze_core::tool::{Catalog, Families};
use serde_json::{Map, Value, json};
use worker::Response;

use super::{Ask, last_events, outcome};
use crate::cloudflare::Cloudflare;
use crate::serve::answer::Refusal;
use crate::serve::calls::stream_events;

/// Returns the token with which the parameters of a call ask for progress.
pub(super) fn token(params: &Map<String, Value>) -> Option<Value> {
    let token = params.get("_meta")?.get("progressToken")?;
    (token.is_string() || token.is_number()).then(|| token.clone())
}

/// Answers a call with events. `changes` is whether it changes the list of tools if it succeeds.
pub(super) fn answer<F: Families>(
    ask: Ask,
    token: Value,
    changes: bool,
    catalog: Catalog<F>,
    host: Host,
    session: Session<Cloudflare>,
) -> Result<Response, Refusal> {
    let (progress, reports) = Progress::channel();
    let session = session.with_progress(progress);
    let id = ask.id.clone();
    let call = async move { last_events(id, outcome(ask, &catalog, &host, &session).await, changes) };
    stream_events(told(progress::follow(call, reports), token))
}

/// A call that is being followed; `None` once its response is known.
type Followed<C> = Option<Pin<Box<C>>>;

fn told<C>(call: C, token: Value) -> impl Stream<Item = String>
where
    C: Stream<Item = Event<Result<String, serde_json::Error>>>,
{
    let notify = move |Notice { progress, message }| {
        let mut params = json!({ "progressToken": token, "progress": progress });
        if let Some(message) = message {
            params["message"] = message.into();
        }
        event("message", &json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params }))
    };
    let state: (Followed<C>, Notices) = (Some(Box::pin(call)), Notices::new());
    unfold((state, notify), |((call, mut notices), notify)| async move {
        let mut call = call?;
        loop {
            let notice = match select(call.next(), pin!(sleep(INTERVAL))).await {
                Either::Left((Some(Event::Output(chunk)), _)) => notices.output(&chunk),
                Either::Left((Some(Event::Done(Ok(last))), _)) => {
                    return Some((last, ((None, notices), notify)));
                }
                Either::Left((Some(Event::Done(Err(error))), _)) => {
                    worker::console_error!("koze: {error}");
                    return None;
                }
                Either::Left((None, _)) => return None,
                Either::Right(_) => Some(notices.still_running()),
            };
            if let Some(notice) = notice {
                return Some((notify(notice), ((Some(call), notices), notify)));
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens() {
        let token = |params: Value| match params {
            Value::Object(params) => token(&params),
            _ => panic!("an object"),
        };
        assert_eq!(token(json!({ "_meta": { "progressToken": 7 } })), Some(json!(7)));
        assert_eq!(token(json!({ "_meta": { "progressToken": "a" } })), Some(json!("a")));
        for params in [
            json!({}),
            json!({ "_meta": 1 }),
            json!({ "_meta": {} }),
            json!({ "_meta": { "progressToken": null } }),
            json!({ "_meta": { "progressToken": {} } }),
        ] {
            assert_eq!(token(params), None);
        }
    }
}
