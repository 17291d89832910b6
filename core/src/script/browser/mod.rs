//! The browser of an agent: a small client of the `DevTools` protocol, over a connection of the provider.
//!
//! Each call attaches to the page of the browser and detaches at its end. So there is no state between calls, and a call that
//! is dropped leaves nothing behind.
//!
//! | module | job |
//! |---|---|
//! | `perform` | one call, from the connection to the result |
//! | `wire` | the connection to a browser |
//! | `client` | commands and events |
//! | `page` | the page: attaches to it, and replaces one that does not respond |
//! | `navigate` | opens pages |
//! | `act` | clicks and types |
//! | `read` | text, HTML, values of code, and pictures |

#[cfg(feature = "browser")]
mod act;
#[cfg(feature = "browser")]
mod client;
#[cfg(feature = "browser")]
mod navigate;
#[cfg(feature = "browser")]
mod page;
#[cfg(feature = "browser")]
mod perform;
#[cfg(feature = "browser")]
mod read;
#[cfg(all(test, feature = "browser"))]
mod tests;
mod wire;

#[cfg(feature = "browser")]
pub(crate) use self::perform::browse;
#[cfg(feature = "script")]
pub(crate) use self::wire::no_browser_error;
pub(crate) use self::wire::unsupported_error;
pub use self::wire::{MAX_MESSAGE, NoBrowser, Refusal, Wire};

#[cfg(feature = "browser")]
use std::time::Duration;

#[cfg(feature = "browser")]
use crate::error::{Code, Error};

/// The timeout of a call, including the start of the browser. It is shorter than the 30 s of a script.
#[cfg(feature = "browser")]
const TIME: Duration = Duration::from_secs(25);
/// The timeout for an element to appear, in milliseconds.
#[cfg(feature = "browser")]
const ELEMENT_MS: u64 = 5000;

/// Adds the selector and the next step to the error of an element.
#[cfg(feature = "browser")]
fn of_element(selector: &str, mut error: Error) -> Error {
    let next = match error.code {
        Code::NotFound => ". Read the HTML of the page, and select another element",
        Code::Unavailable => ". Look at the page first, for example for a dialog to close",
        Code::InvalidInput => "",
        _ => return error,
    };
    error.message = format!("`{}`: {}{next}", client::beginning_of(selector), error.message);
    error
}
