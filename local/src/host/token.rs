//! Random tokens, of which knowledge is the permission to use something.

use std::fmt::Write;

use rustix::rand::{GetRandomFlags, getrandom};

use koze_core::error::{Code, Error, Result};

/// The length of a token in bytes.
const TOKEN: usize = 16;

/// Creates a token: 128 random bits in hexadecimal.
pub(crate) fn create_token() -> Result<String> {
    let mut bytes = [0; TOKEN];
    let filled = getrandom(&mut bytes[..], GetRandomFlags::empty());
    if filled != Ok(TOKEN) {
        return Err(Error::new(Code::Internal, "the system has no source of random numbers"));
    }
    Ok(bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
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
