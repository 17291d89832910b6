//! Random tokens, of which knowledge is the permission to use something.

use data_encoding::HEXLOWER;
use koze_core::error::{Code, Error, Result};

/// The length of a token in bytes.
const TOKEN: usize = 16;

/// Creates a token: 128 random bits in hexadecimal.
///
/// # Errors
/// [`Code::Internal`] if the system has no source of random numbers.
pub fn create_token() -> Result<String> {
    let mut bytes = [0; TOKEN];
    getrandom::fill(&mut bytes).map_err(|error| {
        Error::new(Code::Internal, "the system has no source of random numbers").with_source(error)
    })?;
    Ok(HEXLOWER.encode(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_differ() {
        let (one, other) = (create_token().unwrap(), create_token().unwrap());
        assert!(one != other && one.len() == 32);
    }
}
