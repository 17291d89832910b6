//! The sandboxes of a server: the requests of the page are sent there with the token, which the browser never sees.

use std::io::Read;

use futures_util::stream;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{
    ACCEPT, ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderName, HeaderValue,
    IF_MATCH, IF_NONE_MATCH, IF_RANGE, LAST_MODIFIED, RANGE,
};
use hyper::{Request, Response, StatusCode};
use koze_client::{Client, Forwarded};
use koze_core::http::{Route, SandboxEntry, SessionEntry, SessionList, SessionSandbox, find_route};
use koze_core::{Code, Error, Result};
use tokio::sync::mpsc;

use super::super::answer::{Answer, Body, json_text, refuse, refuse_error, refused};
use super::super::body::read_body;
use super::super::terminal::Terminals;
use super::shell::RemoteShells;

/// The headers of requests that the page needs.
const REQUEST_HEADERS: [HeaderName; 6] =
    [ACCEPT, IF_MATCH, IF_NONE_MATCH, IF_RANGE, RANGE, HeaderName::from_static("last-event-id")];
/// The headers of responses that the page needs.
const RESPONSE_HEADERS: [HeaderName; 6] =
    [ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, LAST_MODIFIED];
/// How much of a body is read at once, in bytes.
const PIECE: usize = 64 << 10;
/// How many pieces wait for a slow browser.
const AHEAD: usize = 2;

/// The sandboxes of a server.
pub(crate) struct Remote {
    client: Client,
    /// The session that the page shows of a server without a list of its sessions, as a Worker.
    session: String,
    terminals: Terminals,
    shells: RemoteShells,
}

impl Remote {
    pub(crate) fn new(client: Client, session: String) -> Self {
        Remote { client, session, terminals: Terminals::new(), shells: RemoteShells::default() }
    }

    /// Returns the open shells.
    pub(crate) fn shells(&self) -> RemoteShells {
        self.shells.clone()
    }

    /// Opens a shell in a sandbox of the server, and answers with the handshake of the WebSocket.
    pub(super) async fn open_terminal(&self, request: Request<Incoming>) -> Answer {
        let uri = request.uri();
        let (session, sandbox, query) = match find_route(request.method().as_str(), uri.path(), uri.query()) {
            Ok((Route::Terminal { session, sandbox }, query)) => (session, sandbox, query),
            Ok(_) => unreachable!("the request is one for a terminal"),
            Err(refusal) => return refuse(refusal),
        };
        let handshake = match self.terminals.read_request(&query, request) {
            Ok(handshake) => handshake,
            Err(answer) => return *answer,
        };
        let (session, shells, size) = (self.client.session(session), self.shells.clone(), handshake.size);
        match run_blocking(move || shells.open(&session, &sandbox, size)).await {
            Ok(shell) => handshake.accept(shell, ()),
            Err(error) => refuse_error(error),
        }
    }

    /// Sends a request to the server, and returns its response.
    pub(super) async fn forward(&self, request: Request<Incoming>) -> Answer {
        let is_list = request.uri().path() == "/sessions";
        let (parts, body) = request.into_parts();
        let body = match read_body(body).await {
            Ok(body) => body,
            Err(answer) => return answer,
        };
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let headers: Vec<_> = REQUEST_HEADERS
            .iter()
            .filter_map(|name| Some((name.clone(), parts.headers.get(name)?.to_str().ok()?.to_owned())))
            .collect();
        let client = self.client.clone();
        let sent = run_blocking(move || {
            let headers: Vec<_> =
                headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            client.forward(parts.method.as_str(), &path, &headers, &body)
        });
        match sent.await {
            Ok(Forwarded { status: 501, .. }) if is_list => self.list_session().await,
            Ok(forwarded) => to_answer(forwarded),
            Err(error) => refuse_error(error),
        }
    }

    /// Answers with the only session that is known of a Worker.
    async fn list_session(&self) -> Answer {
        let session = self.client.session(&self.session);
        let sandboxes = match run_blocking(move || session.sandboxes()).await {
            Ok(list) => list.sandboxes,
            // A Worker without the registry does not list them.
            Err(error) if error.code == Code::Unsupported => Vec::new(),
            Err(error) => return refuse_error(error),
        };
        let sandboxes = sandboxes.into_iter().map(to_session_sandbox).collect();
        let session = SessionEntry { name: self.session.clone(), sandboxes, ..SessionEntry::default() };
        let list = SessionList { sessions: vec![session] };
        json_text(StatusCode::OK, serde_json::to_vec(&list).expect("a list is plain data"))
    }
}

fn to_session_sandbox(SandboxEntry { name, image, status, .. }: SandboxEntry) -> SessionSandbox {
    SessionSandbox { name, image, status, created: None, used: 0 }
}

async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| Error::new(Code::Internal, "the request could not be sent").with_source(error))?
}

/// Returns the response of the server, with the headers that the page needs.
fn to_answer(Forwarded { status, headers, body }: Forwarded) -> Answer {
    let Ok(status) = StatusCode::from_u16(status) else {
        return refused(StatusCode::BAD_GATEWAY, "unavailable", "the server sent an invalid status");
    };
    let mut answer = Response::new(stream_body(body));
    *answer.status_mut() = status;
    for (name, value) in headers {
        let known = RESPONSE_HEADERS.iter().find(|known| **known == name.as_str());
        if let (Some(name), Ok(value)) = (known, HeaderValue::from_str(&value)) {
            answer.headers_mut().insert(name, value);
        }
    }
    answer
}

/// Reads a body on a thread, as fast as the browser does.
fn stream_body(mut body: impl Read + Send + 'static) -> Body {
    let (send, mut pieces) = mpsc::channel(AHEAD);
    tokio::task::spawn_blocking(move || {
        loop {
            let mut piece = vec![0; PIECE];
            let read = body.read(&mut piece).map(|read| {
                piece.truncate(read);
                Bytes::from(piece)
            });
            let is_last = read.as_ref().map_or(true, Bytes::is_empty);
            // The browser needs no more.
            if send.blocking_send(read.map(Frame::data)).is_err() || is_last {
                return;
            }
        }
    });
    let pieces = stream::poll_fn(move |context| pieces.poll_recv(context));
    StreamBody::new(pieces).boxed()
}
