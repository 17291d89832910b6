//! The input of `koze call`.

use std::io::Read as _;
use std::process::ExitCode;

use koze_core::tool::{Input, ReadError};

use super::show;

/// Parses the input as JSON, or returns the tool's error for invalid JSON. `-` reads standard input.
pub(super) fn parse(text: &str) -> Result<koze_core::Result<Input>, ExitCode> {
    let read = match text {
        "-" => {
            let mut read = String::new();
            let done = std::io::stdin().lock().read_to_string(&mut read);
            done.map_err(|error| show::usage(&format!("standard input cannot be read: {error}")))?;
            read
        }
        text => text.to_owned(),
    };
    match Input::read(read.as_bytes()).map_err(ReadError::into_tool_error) {
        Ok(input) => Ok(Ok(input)),
        Err(Ok(error)) => Ok(Err(error)),
        Err(Err(error)) => Err(show::usage(&format!(
            "the input is not valid JSON: {error}. Example: '{{\"command\": \"ls\"}}'"
        ))),
    }
}
