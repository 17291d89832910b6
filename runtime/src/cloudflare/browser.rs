//! The browsers of agents, which their objects hold. A WebSocket to an object carries the messages of the `DevTools` protocol, and koze's
//! own, whose methods begin with `Koze.`. Whether the object uses a browser of the platform or another server makes no difference here.

use std::fmt;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use worker::js_sys::Function;
use worker::send::{SendFuture, SendWrapper};
use worker::wasm_bindgen::JsCast;
use worker::wasm_bindgen::closure::Closure;
use worker::web_sys::{self, EventTarget, MessageEvent};
use worker::{Method, Request, WebSocket, console_error};

use super::script::Scripts;
use koze_core::error::{Code, Error, Result};
use koze_core::maybe_send::MaybeSend;
use koze_core::script::{Egress, Refusal, Wire};
use koze_core::time::{Start, millis, sleep};

/// The header with the allowed hosts and the timeout.
const HEADER: &str = "koze-browser";
/// The beginning of koze's own messages. Other messages are not parsed.
const KOZE: &str = r#"{"method":"Koze."#;

/// A connection to the browser of an agent.
pub(super) struct Connection {
    socket: WebSocket,
    incoming: UnboundedReceiver<Option<String>>,
    refusals: Vec<Refusal>,
    /// The reason why the browser has ended, if the object has sent one.
    ended: Option<Error>,
    listeners: SendWrapper<Listeners>,
}

/// The callbacks of the WebSocket. `None` marks its end.
struct Listeners {
    message: Closure<dyn FnMut(MessageEvent)>,
    end: Closure<dyn FnMut()>,
}

/// The error of an object.
#[derive(Deserialize)]
struct Failed {
    code: Code,
    message: String,
}

/// One of koze's own messages.
#[derive(Deserialize)]
#[serde(tag = "method", content = "params")]
enum Told {
    #[serde(rename = "Koze.refused")]
    Refused { host: String, port: u16, code: Code, message: String },
    #[serde(rename = "Koze.ended")]
    Ended { code: Code, message: String },
}

impl Scripts {
    /// Connects to the browser of the agent.
    pub(super) async fn open_browser(&self, egress: &Egress, time: Duration) -> Result<Connection> {
        let input = json!({ "egress": egress, "time_ms": millis(time) }).to_string();
        let ask = async || {
            let mut request = Request::new("https://koze/browser", Method::Get)?;
            let headers = request.headers_mut()?;
            headers.set("upgrade", "websocket")?;
            headers.set(HEADER, &utf8_percent_encode(&input, NON_ALPHANUMERIC).to_string())?;
            let mut response = self.stub()?.fetch_with_request(request).await?;
            if response.status_code() != 101 {
                return response.text().await.map(Err);
            }
            let socket = response.websocket().ok_or("no WebSocket")?;
            Connection::new(socket).map(Ok)
        };
        match ask().await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(text)) => {
                let failed = serde_json::from_str(&text);
                let Failed { code, message } = failed.map_err(|error| lost().with_source(error))?;
                Err(Error::new(code, message))
            }
            Err(error) => {
                console_error!("koze: an agent's object does not connect to the browser: {error}");
                Err(lost())
            }
        }
    }
}

impl Connection {
    fn new(socket: WebSocket) -> worker::Result<Self> {
        let (sender, incoming) = unbounded_channel();
        let end = sender.clone();
        let listeners = Listeners {
            message: Closure::new(move |event: MessageEvent| drop(sender.send(event.data().as_string()))),
            end: Closure::new(move || drop(end.send(None))),
        };
        let connection = Connection {
            socket,
            incoming,
            refusals: Vec::new(),
            ended: None,
            listeners: SendWrapper::new(listeners),
        };
        let target = AsRef::<EventTarget>::as_ref(AsRef::<web_sys::WebSocket>::as_ref(&connection.socket));
        for (kind, listener) in connection.listeners.0.all() {
            target.add_event_listener_with_callback(kind, listener)?;
        }
        connection.socket.accept()?;
        Ok(connection)
    }

    /// Takes one of koze's own messages.
    fn take(&mut self, told: Told) {
        match told {
            Told::Refused { host, port, code, message } => {
                self.refusals.push(Refusal { host, port, code, message });
            }
            Told::Ended { code, message } => self.ended = Some(Error::new(code, message)),
        }
    }

    fn ended(&self) -> Error {
        self.ended.as_ref().map_or_else(lost, |ended| Error::new(ended.code, ended.message.clone()))
    }

    async fn next(&mut self, wait: Duration) -> Result<Option<String>> {
        let start = Start::now();
        loop {
            let left = wait.saturating_sub(start.elapsed());
            let received = match select(pin!(self.incoming.recv()), pin!(sleep(left))).await {
                Either::Left((received, _)) => received.flatten(),
                Either::Right(_) => return Ok(None),
            };
            let Some(text) = received else { return Err(self.ended()) };
            if !text.starts_with(KOZE) {
                return Ok(Some(text));
            }
            if let Ok(told) = serde_json::from_str(&text) {
                self.take(told);
            }
        }
    }
}

impl Wire for Connection {
    fn send(&mut self, message: String) -> Result<()> {
        self.socket.send_with_str(message).map_err(|_| self.ended())
    }

    fn receive(&mut self, wait: Duration) -> impl Future<Output = Result<Option<String>>> + MaybeSend {
        SendFuture::new(self.next(wait))
    }

    fn refusals(&self) -> Vec<Refusal> {
        self.refusals.clone()
    }
}

impl Listeners {
    fn all(&self) -> [(&'static str, &Function); 3] {
        let end = self.end.as_ref().unchecked_ref();
        [("message", self.message.as_ref().unchecked_ref()), ("close", end), ("error", end)]
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let target = AsRef::<EventTarget>::as_ref(AsRef::<web_sys::WebSocket>::as_ref(&self.socket));
        for (kind, listener) in self.listeners.0.all() {
            let _ = target.remove_event_listener_with_callback(kind, listener);
        }
        // If this fails, the connection is already closed.
        let _ = self.socket.close(Some(1000), Some(""));
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

/// Returns the error for a connection that ended for an unknown reason.
fn lost() -> Error {
    let message = "the browser has ended: navigate again, which starts a new one";
    Error::new(Code::Unavailable, message)
}
