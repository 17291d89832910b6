//! Errors of tool calls and of operations on sandboxes.

mod source;

use std::fmt;

pub use koze_protocol::Code;
use serde::{Deserialize, Serialize};

use self::source::Source;

/// An error of a tool call. Its message states the problem and the remedy. It never contains host paths, secrets or stack
/// traces.
///
/// Its [source](std::error::Error::source) may contain them. It is for the logs of the host: no result of a tool includes
/// it, it is not serialized, and it does not matter for equality. A Worker keeps it with the feature `tracing` of `koze`
/// only.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Error {
    /// The kind of the error.
    pub code: Code,
    /// One sentence for the model or person that made the call.
    pub message: String,
    #[serde(skip)]
    source: Source,
}

impl Error {
    /// Creates an error.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Error { code, message: message.into(), source: Source::default() }
    }

    /// Adds the error that caused this one.
    #[must_use]
    pub fn with_source(self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Error { source: Source::new(source), ..self }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.get()
    }
}

impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        (self.code, &self.message) == (other.code, &other.message)
    }
}

impl Eq for Error {}

/// The result of an operation on a sandbox.
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod tests {
    use std::error::Error as _;
    use std::io;

    use super::*;
    use crate::ToolResult;
    use crate::tool::{Reply, mcp};

    #[test]
    fn a_source_is_kept_and_stays_on_the_host() {
        let cause = io::Error::new(io::ErrorKind::PermissionDenied, "/host/secret");
        let error = Error::new(Code::Internal, "the sandbox cannot be started").with_source(cause);
        let source = error.source().and_then(|source| source.downcast_ref::<io::Error>()).unwrap();
        assert_eq!(source.kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(error.clone().source().unwrap().to_string(), "/host/secret");
        assert_eq!(error, Error::new(Code::Internal, "the sandbox cannot be started"));
        let failed = || Err::<Reply, _>(error.clone());
        for text in [
            error.to_string(),
            serde_json::to_string(&error).unwrap(),
            serde_json::to_string(&ToolResult::from(failed())).unwrap(),
            serde_json::to_string(&mcp::reply(failed())).unwrap(),
        ] {
            assert!(text.contains("cannot be started") && !text.contains("/host"), "{text}");
        }
    }
}
