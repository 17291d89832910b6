//! Paths as a model or a host writes them.

use crate::error::{Code, Error, Result};
use crate::sandbox::Place;

/// Where relative paths start.
pub(crate) const HOME: &str = "/home/user";

/// The longest path, in bytes.
const LONGEST: usize = 4096;

/// A path: absolute, or relative to [`HOME`]. What it leads to is found inside the sandbox.
pub(crate) fn absolute(text: &str) -> Result<String> {
    let wrong = |why: &str| Err(Error::new(Code::InvalidInput, format!("a path {why}")));
    if text.is_empty() {
        return wrong("is not empty");
    }
    if text.contains('\0') {
        return wrong("holds no NUL");
    }
    let path = if text.starts_with('/') { text.to_owned() } else { format!("{HOME}/{text}") };
    if path.len() > LONGEST {
        return wrong(&format!("has {LONGEST} bytes at most"));
    }
    Ok(path)
}

/// A path confined to the sandbox alone.
pub(crate) fn anywhere(path: &str) -> Place<'_> {
    Place { root: "/", path }
}
