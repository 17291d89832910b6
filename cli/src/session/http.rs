//! HTTP requests for the sandboxes of a session, which the supervisor answers: see [`koze_core::http`].

use futures_util::{Stream, StreamExt as _, stream};
use koze_core::http::{self, Body, Request};
use koze_core::tool::All;
use koze_core::{Profiles, Result};
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::Mutex as AsyncMutex;

use super::client::{Client, Stream as Connection, ended, odd};
use super::host::Host;
use super::message::{Act, Answer, Ask};
use super::wire;
use crate::provider::MachineProvider;

/// The response to a request.
pub struct Responded {
    /// The status.
    pub status: u16,
    /// The header `Allow`.
    pub allow: Option<String>,
    /// The body.
    pub body: RespondedBody,
}

/// The body of a response.
pub enum RespondedBody {
    /// JSON.
    Json(String),
    /// Events follow.
    Events(EventConnection),
}

/// The connection on which the events of a response arrive.
pub struct EventConnection(Connection);

impl EventConnection {
    /// Returns the events. They end early if the supervisor does.
    pub fn into_events(self) -> impl Stream<Item = String> + Send + 'static {
        stream::unfold(self.0, |mut connection| async move {
            match wire::receive::<Answer>(&mut connection).await {
                Ok(Some(Answer::Event(event))) => Some((event, connection)),
                _ => None,
            }
        })
    }
}

impl Client {
    /// Answers an HTTP request for the sandboxes.
    ///
    /// # Errors
    /// Returns the errors of the supervisor. Those of the request are responses.
    pub async fn respond(&self, profiles: Profiles, request: Request) -> Result<Responded> {
        let mut stream = self.begin(Ask::Do(Act::Http { profiles, request })).await?;
        match wire::receive::<Answer>(&mut stream).await {
            Ok(Some(Answer::Responded { status, allow, json })) => {
                let events = || RespondedBody::Events(EventConnection(stream));
                Ok(Responded { status, allow, body: json.map_or_else(events, RespondedBody::Json) })
            }
            Ok(Some(Answer::Failed(error))) => Err(error),
            Ok(Some(_)) => Err(odd()),
            Ok(None) | Err(_) => Err(ended()),
        }
    }
}

/// Answers a request. Events are sent until there are no more or the client is gone.
pub(super) async fn answer_request(
    host: &Host<impl MachineProvider>,
    profiles: Profiles,
    request: Request,
    write: &AsyncMutex<OwnedWriteHalf>,
) -> Result<Answer> {
    let session = host.session(profiles).await?;
    let http::Response { status, allow, body } = http::answer_request::<All, _>(&session, request).await;
    let allow = allow.map(str::to_owned);
    let mut events = match body {
        Body::Json(json) => return Ok(Answer::Responded { status, allow, json: Some(json) }),
        Body::Events(events) => events,
    };
    send(write, &Answer::Responded { status, allow, json: None }).await?;
    while let Some(event) = events.next().await {
        send(write, &Answer::Event(event)).await?;
    }
    Ok(Answer::Done)
}

async fn send(write: &AsyncMutex<OwnedWriteHalf>, answer: &Answer) -> Result<()> {
    wire::send(&mut *write.lock().await, answer).await.map_err(|_| ended())
}
