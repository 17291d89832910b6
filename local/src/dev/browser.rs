//! The browsers of scripts in a Worker under `koze dev --local`: a WebSocket carries the messages of a browser on this machine, which
//! is behind koze's proxy as for local scripts. koze's own messages are those of the generated `script-guard.mjs`.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use serde_json::json;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use super::frame::Answer;
use super::reply::to_empty_answer;
use super::{Shared, bad_request, header_text};
use koze_core::contract::Failure;
use koze_core::error::Error;
use koze_core::id::SessionId;
use koze_core::provider::ScriptProvider as _;
use koze_core::script::{Egress, MAX_MESSAGE, Wire};
use koze_egress::http::{self, After, Body, Refusal};

/// The methods of the generated class `KozeScripts`.
pub(super) const CONNECT: &str = "kozeBrowser";
pub(super) const CLOSE: &str = "kozeCloseBrowser";

/// The header with the ID of the agent's object.
const AGENT: &str = "koze-agent";
/// The header with the rest of the input: percent-encoded JSON.
const INPUT: &str = "koze-browser";
/// The maximum duration of a connection: longer than any call.
const LONGEST: Duration = Duration::from_mins(1);

#[derive(Deserialize)]
struct Input {
    egress: Egress,
    time_ms: u64,
}

impl Shared {
    /// Connects to the browser of an agent.
    pub(super) async fn browse(
        &self,
        mut request: Request<Incoming>,
        after: After,
    ) -> std::result::Result<Response<Body>, Refusal> {
        let headers = request.headers();
        let agent = self.agent(headers)?;
        let input: Vec<u8> = percent_decode_str(header_text(headers, INPUT).unwrap_or_default()).collect();
        let Input { egress, time_ms } =
            serde_json::from_slice(&input).map_err(|_| bad_request("`koze-browser` has the wrong type"))?;
        let key =
            headers.get(header::SEC_WEBSOCKET_KEY).ok_or_else(|| bad_request("this is no WebSocket"))?;
        let accept = derive_accept_key(key.as_bytes());
        let accept = HeaderValue::from_str(&accept).map_err(|_| bad_request("the key is not valid"))?;
        let time = Duration::from_millis(time_ms);
        // Without a session, because the previews of a Worker are its own URLs.
        let provider = &self.provider.0;
        let wire = match provider.browsers.open(provider, None, &agent, &egress, time).await {
            Ok(wire) => wire,
            Err(error) => return Ok(refused_response(&error)),
        };
        let upgrade = hyper::upgrade::on(&mut request);
        after.set(async move {
            let Ok(upgraded) = upgrade.await else { return };
            let config = WebSocketConfig::default()
                .max_message_size(Some(MAX_MESSAGE))
                .max_frame_size(Some(MAX_MESSAGE));
            let socket =
                WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(config)).await;
            let _ = timeout(LONGEST, pass_messages(socket, wire)).await;
        });
        let mut response = http::empty_response(StatusCode::SWITCHING_PROTOCOLS);
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
        Ok(response)
    }

    /// Ends the browser of an agent.
    pub(super) async fn close(
        &self,
        headers: &HeaderMap,
    ) -> std::result::Result<std::result::Result<Answer, Failure>, Refusal> {
        let agent = self.agent(headers)?;
        Ok(to_empty_answer(self.provider.close_browser(&agent).await))
    }

    /// Returns the agent of an object, in the session of the Worker's sandboxes, whose egress journal then lists its requests.
    fn agent(&self, headers: &HeaderMap) -> std::result::Result<SessionId, Refusal> {
        let object = header_text(headers, AGENT)
            .filter(|id| id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let object = object.ok_or_else(|| bad_request("`koze-agent` must be the ID of an object"))?;
        SessionId::new(object, self.session.session()).map_err(|error| bad_request(&error.message))
    }
}

/// Forwards messages until one side ends.
async fn pass_messages(
    mut socket: WebSocketStream<impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin>,
    mut wire: impl Wire,
) {
    let mut told = 0;
    loop {
        let received = tokio::select! {
            message = socket.next() => match message {
                Some(Ok(Message::Text(text))) => match wire.send(text.as_str().to_owned()) {
                    Ok(()) => continue,
                    Err(error) => Err(error),
                },
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
                _ => return,
            },
            received = wire.receive(LONGEST) => received,
        };
        let refusals = wire.refusals();
        for refusal in refusals.iter().skip(told) {
            let params = json!({ "host": refusal.host, "port": refusal.port, "code": refusal.code, "message": refusal.message });
            if send_notice(&mut socket, "Koze.refused", &params).await.is_err() {
                return;
            }
        }
        told = refusals.len();
        match received {
            Ok(Some(text)) => {
                if socket.send(Message::text(text)).await.is_err() {
                    return;
                }
            }
            Ok(None) => {}
            Err(Error { code, message, .. }) => {
                let _ = send_notice(&mut socket, "Koze.ended", &json!({ "code": code, "message": message }))
                    .await;
                let _ = socket.close(None).await;
                return;
            }
        }
    }
}

/// Sends one of koze's own messages. Its method is the first key.
async fn send_notice(
    socket: &mut WebSocketStream<impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin>,
    method: &str,
    params: &serde_json::Value,
) -> tokio_tungstenite::tungstenite::Result<()> {
    socket.send(Message::text(format!("{{\"method\":{method:?},\"params\":{params}}}"))).await
}

/// Returns the response for a browser that cannot be connected to.
fn refused_response(error: &Error) -> Response<Body> {
    let body = json!({ "code": error.code, "message": error.message }).to_string();
    let body = Full::new(Bytes::from(body)).map_err(|never| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
