//! Inputs and replies of operations.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::frame::Answer;
use koze_core::contract::{Done, Failure, Reason, Unopened};
use koze_core::error::{Code, Error};

pub(super) fn read<T: DeserializeOwned>(input: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(input).map_err(|error| invalid(format!("the input has the wrong type: {error}")))
}

pub(super) fn answer(value: &impl Serialize) -> Result<Answer, Failure> {
    let value = serde_json::to_value(value);
    let value = value.map_err(|error| failure(Error::new(Code::Internal, error.to_string())))?;
    Ok(Answer { value, bytes: Vec::new() })
}

pub(super) fn done(result: crate::Result<()>) -> Result<Answer, Failure> {
    result.map_err(failure)?;
    answer(&Done {})
}

pub(super) fn invalid(message: String) -> Failure {
    failure(Error::new(Code::InvalidInput, message))
}

/// It is unknown how much was done, so no failure is retryable.
pub(super) fn failure(error: Error) -> Failure {
    Failure { code: Reason::Code(error.code), message: error.message, retryable: false }
}

pub(super) fn unopened() -> Failure {
    let message = "the sandbox was never opened, or was destroyed: open it first".to_owned();
    Failure { code: Reason::Unopened(Unopened::Unopened), message, retryable: false }
}
