//! Validation of paths in tool input.

use crate::error::{Code, Error, Result};

/// A path and the directory that it is confined to.
pub type Place<'a> = koze_protocol::Place<&'a str>;

/// The base of relative paths.
pub const HOME: &str = "/home/user";

/// The directories of a thread.
pub const USER_DATA: &str = "/mnt/user-data";

/// The directory that a thread works in.
pub const THREAD_WORKSPACE: &str = "/mnt/user-data/workspace";

/// The longest path, in bytes.
const MAX_LENGTH: usize = 4096;

/// Returns an absolute path; a relative one starts at [`HOME`]. It is resolved inside the sandbox.
pub fn absolute(text: &str) -> Result<String> {
    absolute_from(HOME, text)
}

/// Returns an absolute path; a relative one starts at a directory. It is resolved inside the sandbox.
pub fn absolute_from(directory: &str, text: &str) -> Result<String> {
    let is_complete = text.is_empty() || text.starts_with('/');
    let path = if is_complete { text.to_owned() } else { format!("{directory}/{text}") };
    check(&path)?;
    Ok(path)
}

/// Checks that a text can be a path.
pub fn check(path: &str) -> Result<()> {
    let wrong = |why: &str| Err(Error::new(Code::InvalidInput, format!("a path {why}")));
    if path.is_empty() {
        return wrong("must not be empty");
    }
    if path.contains('\0') {
        return wrong("must not contain NUL");
    }
    if path.len() > MAX_LENGTH {
        return wrong(&format!("must have at most {MAX_LENGTH} bytes"));
    }
    Ok(())
}

/// Returns a path that is confined only to the sandbox.
pub fn anywhere(path: &str) -> Place<'_> {
    Place { root: "/", path }
}
