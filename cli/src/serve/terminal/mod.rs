//! The route `terminal`: the login shell of a sandbox on a pseudoterminal, which a WebSocket carries.
//!
//! | module | job |
//! |---|---|
//! | `relay` | passes bytes and messages between the socket and the terminal |
//! | `pty` | reads and writes the terminal without blocking |

mod pty;
mod relay;

use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{HeaderValue, UPGRADE};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use koze_core::http::{Query, WindowSize};
use koze_core::{Code, Error};
use tokio::sync::Semaphore;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::server::create_response_with_body;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use super::answer::{Answer, refuse_error, refused, whole};
use crate::mcp::supervised::Supervised;
use crate::session::exec::ExecError;

/// The maximum number of open terminals of a tenant.
pub(super) const MAX_TERMINALS: usize = 16;
/// The maximum size of a message of the client, in bytes.
const MAX_MESSAGE: usize = 64 << 10;

/// Opens a shell, and answers with the handshake of the WebSocket. The shell is killed when the socket closes.
pub(super) async fn answer(
    backend: Supervised,
    terminals: &Arc<Semaphore>,
    sandbox: &str,
    query: &Query,
    mut request: Request<Incoming>,
) -> Result<Answer, Answer> {
    let handshake = create_response_with_body(&request, || whole("")).map_err(|error| {
        let why = format!("this route is a WebSocket, which a request must ask for: {error}");
        let mut answer = refused(StatusCode::UPGRADE_REQUIRED, Code::InvalidInput.as_str(), &why);
        answer.headers_mut().insert(UPGRADE, HeaderValue::from_static("websocket"));
        answer
    })?;
    let WindowSize { cols, rows } = WindowSize::from_query(query).map_err(refuse_error)?;
    let permit = Arc::clone(terminals).try_acquire_owned().map_err(|_| {
        let message =
            format!("{MAX_TERMINALS} terminals are open, which is the maximum: close one, and try again");
        refuse_error(Error::new(Code::Unavailable, message))
    })?;
    let opened = backend.client().open_shell(backend.profiles(), sandbox, (rows, cols)).await;
    let shell = opened.map_err(|error| match error {
        ExecError::NotStarted(error) | ExecError::Failed(error) => refuse_error(error),
    })?;
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        // Both count as used until the terminal is closed.
        let _used = (permit, backend);
        let Ok(upgraded) = upgrade.await else { return };
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_MESSAGE))
            .max_frame_size(Some(MAX_MESSAGE))
            .read_buffer_size(MAX_MESSAGE);
        let socket =
            WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(config)).await;
        relay::pass(socket, shell).await;
    });
    Ok(handshake)
}
