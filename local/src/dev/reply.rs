//! Inputs and replies of operations.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::frame::Answer;
use koze_core::contract::{Done, Failure, Reason, Unopened};
use koze_core::error::{Code, Error};

pub(super) fn parse_input<T: DeserializeOwned>(input: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(input)
        .map_err(|error| invalid_input(format!("the input has the wrong type: {error}")))
}

pub(super) fn to_answer(value: &impl Serialize) -> Result<Answer, Failure> {
    let value = serde_json::to_value(value);
    let value = value.map_err(|error| to_failure(Error::new(Code::Internal, error.to_string())))?;
    Ok(Answer { value, bytes: Vec::new() })
}

pub(super) fn to_empty_answer(result: crate::Result<()>) -> Result<Answer, Failure> {
    result.map_err(to_failure)?;
    to_answer(&Done {})
}

pub(super) fn invalid_input(message: String) -> Failure {
    to_failure(Error::new(Code::InvalidInput, message))
}

/// It is unknown how much was done, so no failure is retryable.
pub(super) fn to_failure(error: Error) -> Failure {
    Failure { code: Reason::Code(error.code), message: error.message, retryable: false }
}

pub(super) fn unopened_failure() -> Failure {
    let message = "the sandbox was never opened, or was destroyed: open it first".to_owned();
    Failure { code: Reason::Unopened(Unopened::Unopened), message, retryable: false }
}
