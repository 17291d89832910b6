//! Validation of paths in tool input.

use crate::error::{Code, Error, Result};
use crate::sandbox::Place;

/// The base of relative paths.
pub const HOME: &str = "/home/user";

/// The longest path, in bytes.
const LONGEST: usize = 4096;

/// Returns an absolute path; a relative one starts at [`HOME`]. It is resolved inside the sandbox.
pub fn absolute(text: &str) -> Result<String> {
    let wrong = |why: &str| Err(Error::new(Code::InvalidInput, format!("a path {why}")));
    if text.is_empty() {
        return wrong("must not be empty");
    }
    if text.contains('\0') {
        return wrong("must not contain NUL");
    }
    let path = if text.starts_with('/') { text.to_owned() } else { format!("{HOME}/{text}") };
    if path.len() > LONGEST {
        return wrong(&format!("must have at most {LONGEST} bytes"));
    }
    Ok(path)
}

/// Returns a path that is confined only to the sandbox.
pub fn anywhere(path: &str) -> Place<'_> {
    Place { root: "/", path }
}
