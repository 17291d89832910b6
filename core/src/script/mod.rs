//! Scripts of agents: what a provider runs, and what answers their calls.
//!
//! | module | job |
//! |---|---|
//! | `state` | the state of an agent: values by key |
//! | `sources` | its libraries and tools, with their versions |
//! | `answers` | answers the calls of a script |
//! | `network` | the hosts that scripts may reach, and one exchange of `fetch` |
//! | `credentials`, `injection` | the secrets that scripts do not have; puts them into requests |
//! | `fetch` | `fetch` itself: validates requests, follows redirects |
//! | `browser` | the browser: a client of the `DevTools` protocol |
//! | `url` | URLs |

#[cfg(feature = "script")]
pub(crate) mod answers;
pub(crate) mod browser;
pub(crate) mod credentials;
#[cfg(feature = "script")]
pub(crate) mod fetch;
#[cfg(feature = "script")]
pub(crate) mod injection;
pub(crate) mod network;
#[cfg(feature = "script")]
pub(crate) mod sources;
#[cfg(feature = "script")]
pub(crate) mod state;
#[cfg(feature = "script")]
pub(crate) mod url;

use std::future::Future;

use serde_json::Value;

pub use koze_script::Limits;
pub use koze_script::limits::Limit;
pub use koze_script::protocol::{
    Browse, Call, Check, Failure, Fetch, Json, Method, Place, Secrets, Start, WaitUntil,
};

pub use self::browser::{MAX_MESSAGE, NoBrowser, Refusal, Wire};
pub use self::credentials::ScriptCredentials;
pub use self::network::{Egress, Exchange, Exchanged};
use crate::error::{Code, Error};
use crate::json::check_values;
use crate::maybe_send::{MaybeSend, MaybeSync};

/// The fewest characters of a secret's value that is masked in results. Shorter values occur in ordinary text.
pub const SHORTEST_MASKED: usize = 8;

/// What precedes the name of a script's secret in the name of a Worker's secret.
pub const SECRET_PREFIX: &str = "KOZE_SECRET_";

/// Answers the calls of a script.
pub trait Calls: MaybeSync {
    /// Answers a call. Several can be in progress at the same time. The future is dropped when the script ends.
    ///
    /// # Errors
    /// The message of the error that the script gets.
    fn call(&self, call: Call) -> impl Future<Output = Result<Value, String>> + MaybeSend;

    /// Decodes a call, and answers it.
    ///
    /// # Errors
    /// The message of the error that the script gets.
    fn answer(&self, call: &Json) -> impl Future<Output = Result<Json, String>> + MaybeSend {
        async move {
            check_values(call.text()).map_err(|error| error.message)?;
            let call = read(call.text().as_bytes()).map_err(|error| wrong_arguments(&error))?;
            self.call(call).await.map(|answer| Json::from(&answer))
        }
    }
}

/// The answers for source that is only compiled, and calls nothing.
#[doc(hidden)]
#[derive(Debug)]
pub struct NoCalls;

impl Calls for NoCalls {
    async fn call(&self, _: Call) -> Result<Value, String> {
        Err("nothing is run".to_owned())
    }
}

/// A query of an agent's database.
#[derive(Debug, Clone, PartialEq)]
pub enum Query {
    /// One statement: returns the rows, or what it changed.
    Sql {
        /// The statement.
        sql: String,
        /// The values of its parameters. A BLOB is `{"base64": TEXT}`.
        params: Vec<Value>,
    },
    /// Returns the tables, views and indexes.
    Schema,
}

/// What a script did.
#[derive(Debug, Clone, PartialEq)]
pub struct Ran {
    /// Its result, or the error that ended it.
    pub result: Result<Value, Failure>,
    /// The lines of its log, also of a script that failed.
    pub logs: Vec<String>,
}

impl Ran {
    /// Returns what a script did, from its messages.
    pub fn new(result: Result<Json, Failure>, logs: Vec<String>) -> Self {
        let decode = |result: Json| {
            check_values(result.text()).map_err(|error| Failure::new(error.message))?;
            let failure = |error| Failure::new(format!("the result cannot be read: {error}"));
            result.value().map_err(failure)
        };
        Ran { result: result.and_then(decode), logs }
    }
}

/// Reads a value from JSON. It is any value first: each type that is read from text itself adds a kilobyte to a Worker.
///
/// # Errors
/// If the text is not valid JSON, or not that of such a value.
#[doc(hidden)]
pub fn read<T: serde::de::DeserializeOwned>(text: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice(text).and_then(serde_json::from_value)
}

/// Returns the message for a call that cannot be decoded.
fn wrong_arguments(error: &serde_json::Error) -> String {
    format!("wrong arguments: {error}")
}

/// Encodes a value for the store.
#[cfg(feature = "script")]
fn encode_value(value: &impl serde::Serialize) -> crate::error::Result<Vec<u8>> {
    serde_json::to_vec(value)
        .map_err(|error| Error::new(Code::Internal, "the value cannot be stored").with_source(error))
}

/// Returns the error of a provider that cannot run scripts.
pub(crate) fn unsupported_error() -> Error {
    Error::new(Code::Unsupported, "this provider does not run scripts: use koze on a Linux machine")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Answers a call with itself.
    struct Echo;

    impl Calls for Echo {
        async fn call(&self, call: Call) -> Result<Value, String> {
            serde_json::to_value(call).map_err(|error| error.to_string())
        }
    }

    fn answer(call: &Value) -> Result<Value, String> {
        pollster::block_on(Echo.answer(&Json::from(call))).map(|answer| answer.value().unwrap())
    }

    #[test]
    fn calls_are_decoded() {
        for call in [
            json!({ "state_get": { "key": "a" } }),
            json!({ "db_schema": {} }),
            json!({ "browser": { "close": {} } }),
        ] {
            assert_eq!(answer(&call), Ok(call.clone()));
        }
        for (call, part) in [
            (json!({ "state_get": {} }), "missing field `key`"),
            (json!({ "state_get": { "key": 1 } }), "invalid type: integer `1`, expected a string"),
            (json!({ "state_get": { "key": "a", "agent": "b" } }), "unknown field `agent`"),
            (
                json!({ "fetch": { "url": "https://a.example", "method": "TRACE" } }),
                "unknown variant `TRACE`",
            ),
            (json!({ "state_get": { "key": "a" }, "db_schema": {} }), "expected map with a single key"),
            (json!({ "exec": {} }), "unknown variant `exec`"),
            (json!("state_get"), "invalid type: unit variant, expected struct variant"),
        ] {
            let error = answer(&call).unwrap_err();
            assert!(error.starts_with("wrong arguments: ") && error.contains(part), "{call}: {error}");
        }
    }

    #[test]
    fn a_result_that_is_no_text_is_a_failure() {
        let result = Ran::new(Ok(Json::new(r#""\ud800""#.to_owned()).unwrap()), Vec::new()).result;
        assert!(result.unwrap_err().message.starts_with("the result cannot be read: "));
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        let result = Ran::new(Ok(Json::new(deep).unwrap()), Vec::new()).result;
        assert!(result.unwrap_err().message.contains("recursion limit"));
    }
}
