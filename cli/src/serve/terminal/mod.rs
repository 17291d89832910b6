//! The route `terminal`: the login shell of a sandbox on a pseudoterminal, which a WebSocket carries.
//!
//! | module | job |
//! |---|---|
//! | `relay` | passes bytes and messages between a socket and a shell |
//! | `local` | the shell of a sandbox on this machine |
//! | `pty` | reads and writes its terminal without blocking |

mod local;
mod pty;
mod relay;

use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{HeaderValue, UPGRADE};
use hyper::upgrade::OnUpgrade;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use koze_core::http::{Query, WindowSize};
use koze_core::{Code, Error};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::server::create_response_with_body;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

pub(super) use self::relay::{End, Input, Output, Printed, Shell};
use super::answer::{Answer, refuse_error, refused, whole};
use crate::mcp::supervised::Supervised;
use crate::session::exec::ExecError;

/// The maximum number of open terminals of a tenant.
const MAX_TERMINALS: usize = 16;
/// The maximum size of a message of the client, in bytes.
const MAX_MESSAGE: usize = 64 << 10;

/// The room for the open terminals of a tenant.
pub(super) struct Terminals(Arc<Semaphore>);

/// A request for a terminal, which has room.
pub(super) struct Handshake {
    /// The requested size.
    pub(super) size: WindowSize,
    answer: Answer,
    upgrade: OnUpgrade,
    permit: OwnedSemaphorePermit,
}

impl Terminals {
    pub(super) fn new() -> Self {
        Terminals(Arc::new(Semaphore::new(MAX_TERMINALS)))
    }

    /// Reads a request for a terminal.
    ///
    /// # Errors
    /// The response to a request that is refused.
    pub(super) fn read_request(
        &self,
        query: &Query,
        mut request: Request<Incoming>,
    ) -> Result<Handshake, Box<Answer>> {
        let answer = create_response_with_body(&request, || whole("")).map_err(|error| {
            let why = format!("this route is a WebSocket, which a request must ask for: {error}");
            let mut answer = refused(StatusCode::UPGRADE_REQUIRED, Code::InvalidInput.as_str(), &why);
            answer.headers_mut().insert(UPGRADE, HeaderValue::from_static("websocket"));
            answer
        })?;
        let size = WindowSize::from_query(query).map_err(refuse_error)?;
        let permit = Arc::clone(&self.0).try_acquire_owned().map_err(|_| {
            let message =
                format!("{MAX_TERMINALS} terminals are open, which is the maximum: close one, and try again");
            refuse_error(Error::new(Code::Unavailable, message))
        })?;
        Ok(Handshake { size, answer, upgrade: hyper::upgrade::on(&mut request), permit })
    }
}

impl Handshake {
    /// Passes the shell to the client, and returns the response. `usage` is held until the terminal is closed.
    pub(super) fn accept(
        self,
        shell: Shell<impl Output + 'static, impl Input + 'static>,
        usage: impl Send + 'static,
    ) -> Answer {
        let Handshake { answer, upgrade, permit, .. } = self;
        tokio::spawn(async move {
            let _used = (permit, usage);
            let Ok(upgraded) = upgrade.await else { return };
            let config = WebSocketConfig::default()
                .max_message_size(Some(MAX_MESSAGE))
                .max_frame_size(Some(MAX_MESSAGE))
                .read_buffer_size(MAX_MESSAGE);
            let socket =
                WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(config)).await;
            relay::pass(socket, shell).await;
        });
        answer
    }
}

/// Opens a shell, and answers with the handshake of the WebSocket. The shell is killed when the socket closes.
pub(super) async fn open(
    backend: Supervised,
    terminals: &Terminals,
    sandbox: &str,
    query: &Query,
    request: Request<Incoming>,
) -> Result<Answer, Answer> {
    let handshake = terminals.read_request(query, request).map_err(|answer| *answer)?;
    let WindowSize { cols, rows } = handshake.size;
    let opened = backend.client().open_shell(backend.profiles(), sandbox, (rows, cols)).await;
    let attending = opened.map_err(|error| match error {
        ExecError::NotStarted(error) | ExecError::Failed(error) => refuse_error(error),
    })?;
    let shell = local::open(attending).map_err(refuse_error)?;
    Ok(handshake.accept(shell, backend))
}
