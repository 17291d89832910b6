//! The messages of a terminal, which a WebSocket carries.

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::route::Query;
use crate::error::{Code, Error, Result};
use crate::sandbox::process::check_size;

/// The size of a terminal's window, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WindowSize {
    /// The number of columns.
    pub cols: u16,
    /// The number of rows.
    pub rows: u16,
}

/// A text message of the client. Bytes that it types are binary messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum TerminalRequest {
    /// The window has another size.
    Resize(WindowSize),
    /// With `true`, no output is sent until a message with `false`, for clients that cannot stop reading.
    Pause(bool),
}

impl WindowSize {
    /// Reads the parameters `cols` and `rows`, which are 80 and 24 by default.
    ///
    /// # Errors
    /// [`Code::InvalidInput`] if one is not a number from 1 to 65535.
    pub fn from_query(query: &Query) -> Result<Self> {
        let number = |name: &str, default: u16| match query.get(name) {
            None => Ok(default),
            Some(text) => text.parse().ok().filter(|number| *number > 0).ok_or_else(|| {
                Error::new(Code::InvalidInput, format!("`{name}` must be a number from 1 to 65535"))
            }),
        };
        Ok(WindowSize { cols: number("cols", 80)?, rows: number("rows", 24)? })
    }
}

impl TerminalRequest {
    /// Parses a message.
    ///
    /// # Errors
    /// [`Code::InvalidInput`] if it is not one.
    pub fn parse(text: &str) -> Result<Self> {
        let request: Self = serde_json::from_str(text).map_err(|error| {
            let message = format!(
                "a text message must be {{\"resize\": {{\"cols\": 80, \"rows\": 24}}}} or {{\"pause\": true}}, and input a binary one: {error}"
            );
            Error::new(Code::InvalidInput, message)
        })?;
        if let TerminalRequest::Resize(WindowSize { cols, rows }) = request {
            check_size(rows, cols)?;
        }
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_validated() {
        let read = |pairs: &[(&str, &str)]| {
            let query = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            WindowSize::from_query(&query).ok().map(|size| (size.cols, size.rows))
        };
        assert_eq!(read(&[]), Some((80, 24)));
        assert_eq!(read(&[("cols", "100"), ("rows", "30")]), Some((100, 30)));
        for wrong in ["0", "-1", "65536", "", "a"] {
            assert_eq!(read(&[("rows", wrong)]), None, "{wrong}");
        }
    }

    #[test]
    fn messages_are_validated() {
        let resize = TerminalRequest::Resize(WindowSize { cols: 100, rows: 30 });
        assert_eq!(TerminalRequest::parse(r#"{"resize":{"cols":100,"rows":30}}"#).ok(), Some(resize));
        assert_eq!(TerminalRequest::parse(r#"{"pause":true}"#).ok(), Some(TerminalRequest::Pause(true)));
        for wrong in [
            "",
            "{}",
            r#"{"pause":1}"#,
            r#"{"resize":{"cols":100}}"#,
            r#"{"resize":{"cols":0,"rows":30}}"#,
            r#"{"resize":{"cols":70000,"rows":30}}"#,
            r#"{"resize":{"cols":1,"rows":1,"depth":1}}"#,
            r#"{"input":"a"}"#,
        ] {
            assert!(TerminalRequest::parse(wrong).is_err(), "{wrong}");
        }
    }
}
