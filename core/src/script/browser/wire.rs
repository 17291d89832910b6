//! The connection to a browser, which a provider opens.

use std::future::Future;
use std::time::Duration;

use crate::error::{Code, Error, Result};
use crate::maybe_send::MaybeSend;

/// The longest message of a browser in bytes. A provider ends a browser that sends a longer one.
pub const MAX_MESSAGE: usize = 16 << 20;

/// A connection to the browser of an agent. Its messages are those of the `DevTools` protocol: JSON, with the sessions of targets
/// in the messages.
pub trait Wire: MaybeSend {
    /// Sends a message. Returns before it has arrived.
    ///
    /// # Errors
    /// [`Code::Unavailable`] if the browser has ended.
    fn send(&mut self, message: String) -> Result<()>;

    /// Returns the next message, or `None` if none arrives within `wait`. Dropping the future loses no message.
    ///
    /// # Errors
    /// [`Code::Unavailable`] if the browser has ended, and [`Code::TooLarge`] if its message is longer than [`MAX_MESSAGE`].
    fn receive(&mut self, wait: Duration) -> impl Future<Output = Result<Option<String>>> + MaybeSend;

    /// Returns the requests that were refused since this connection was opened, the oldest first.
    fn refusals(&self) -> Vec<Refusal> {
        Vec::new()
    }

    /// Returns the next step after a certificate of an unknown authority, if the provider has one.
    fn authority_hint(&self) -> Option<&str> {
        None
    }
}

/// A request of a browser that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The host, as in a URL.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The code of the error.
    pub code: Code,
    /// Why it was refused.
    pub message: String,
}

/// The connection of a provider without browsers. It is never created.
#[derive(Debug)]
#[doc(hidden)]
pub enum NoBrowser {}

impl Wire for NoBrowser {
    fn send(&mut self, _: String) -> Result<()> {
        match *self {}
    }

    async fn receive(&mut self, _: Duration) -> Result<Option<String>> {
        match *self {}
    }
}

/// Returns the error of a project without a browser.
#[cfg(feature = "script")]
pub(crate) fn no_browser_error() -> Error {
    let text = "this project has no browser for scripts: ask the user to set `browser = true`, and the hosts of the pages in \
                `allowed_hosts`, in `[package.metadata.koze.script]` of `Cargo.toml`. A Worker also needs `cargo add koze --features \
                browser` and `koze build`";
    Error::new(Code::Unsupported, text)
}

/// Returns the error of a provider without browsers.
pub(crate) fn unsupported_error() -> Error {
    let text = "this provider has no browser for scripts: use koze on a Linux machine, or a Worker whose dependency `koze` has the \
                feature `browser`";
    Error::new(Code::Unsupported, text)
}
