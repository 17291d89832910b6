//! The token of this start of the container. A client that sends it first on a connection is the Durable Object class.
//!
//! Programs in the sandbox must not obtain it, neither as the guest's own user nor as root. It is in the environment
//! until the guest runs its first lines; no other process runs by then. The guest wipes it from the memory that the
//! kernel shows as `/proc/1/environ`, and protects its memory as a whole ([`harden`](super::harden)).
#![allow(unsafe_code, reason = "the memory of the environment has no safe API")]

use std::ffi::{CStr, c_char};
use std::ptr;

use subtle::ConstantTimeEq;

use super::harden::Weak;

/// The environment variable that contains it.
pub(super) const VARIABLE: &str = "KOZE_GUEST_TOKEN";
/// Its length: 32 bytes in lowercase hexadecimal.
const LENGTH: usize = 64;

unsafe extern "C" {
    static mut environ: *mut *mut c_char;
}

/// The token. It is never printed or copied.
pub(super) struct Token([u8; LENGTH]);

impl Token {
    /// Removes the token from the environment and wipes it there. Returns `None` if it is missing or malformed.
    ///
    /// # Safety
    /// No other thread runs, and no pointer into the environment is kept.
    pub(super) unsafe fn take(weak: Weak) -> Option<Self> {
        let mut token = None;
        // SAFETY: `environ` is a null-terminated array of NUL-terminated strings, and this is the only thread.
        unsafe {
            let mut from = environ;
            let mut to = from;
            while !from.is_null() && !(*from).is_null() {
                let text = *from;
                from = from.add(1);
                let bytes = CStr::from_ptr(text).to_bytes();
                let value = bytes.strip_prefix(VARIABLE.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
                let Some(value) = value else {
                    *to = text;
                    to = to.add(1);
                    continue;
                };
                // This leaves no other copy of it.
                token = <&[u8; LENGTH]>::try_from(value)
                    .ok()
                    .filter(|value| is_hex(*value))
                    .map(|value| Token(*value));
                if weak.environment {
                    *to = text;
                    to = to.add(1);
                    continue;
                }
                for place in 0..bytes.len() {
                    ptr::write_volatile(text.add(place), 0);
                }
            }
            if !to.is_null() {
                *to = ptr::null_mut();
            }
        }
        token
    }

    /// Compares in constant time. The time reveals only the length, which is not secret.
    pub(super) fn is(&self, given: &[u8]) -> bool {
        self.0.ct_eq(given).into()
    }
}

fn is_hex(value: &[u8]) -> bool {
    value.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_right_token() {
        let token = Token([b'a'; LENGTH]);
        assert!(token.is(&[b'a'; LENGTH]));
        for place in 0..LENGTH {
            let mut other = [b'a'; LENGTH];
            other[place] = b'b';
            assert!(!token.is(&other));
        }
        assert!(!token.is(&[b'a'; LENGTH - 1]) && !token.is(&[b'a'; LENGTH + 1]) && !token.is(b""));
    }
}
