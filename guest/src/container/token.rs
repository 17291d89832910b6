//! The token of this start of the container: whoever says it first of all on a connection is the class.
//!
//! What runs in the sandbox must not come by it, with the guest's own user and as root. It stands in the environment for
//! as long as it takes the guest to get to its first lines; nothing else runs by then. Of the memory that the kernel
//! shows as `/proc/1/environ` it is wiped, and the memory as a whole is out of reach ([`shut`](super::shut)).
#![allow(unsafe_code, reason = "the memory of the environment has no safe API")]

use std::ffi::{CStr, c_char};
use std::ptr;

use subtle::ConstantTimeEq;

use super::shut::Weak;

/// The variable it comes in.
pub(super) const VARIABLE: &str = "KOZE_GUEST_TOKEN";
/// How long it is: 32 bytes in lower-case hex.
const LENGTH: usize = 64;

unsafe extern "C" {
    static mut environ: *mut *mut c_char;
}

/// The token. It is neither printed nor copied.
pub(super) struct Token([u8; LENGTH]);

impl Token {
    /// Takes it out of the environment and leaves nothing of it there; none where there is none, or it is no token.
    ///
    /// # Safety
    /// No other thread runs, and nobody keeps a pointer into the environment.
    pub(super) unsafe fn take(weak: Weak) -> Option<Self> {
        let mut token = None;
        // SAFETY: `environ` is a list of texts that end in NUL, with a null pointer at its end; this thread is the only one.
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
                // Without a copy of it anywhere else.
                token = <&[u8; LENGTH]>::try_from(value)
                    .ok()
                    .filter(|value| hex(*value))
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

    /// Whether it is this one. How long that takes says nothing but the length, which is no secret.
    pub(super) fn is(&self, said: &[u8]) -> bool {
        self.0.ct_eq(said).into()
    }
}

fn hex(value: &[u8]) -> bool {
    value.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_token_and_no_other() {
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
