//! Finds one of several by the beginning of its ID.

use koze_core::{Code, Error, Result};

/// Returns the process whose ID begins with a text, if there is one.
///
/// # Errors
/// [`Code::InvalidInput`] if there are several.
pub(crate) fn find_process<T>(
    mut processes: Vec<T>,
    to_id: impl Fn(&T) -> &str,
    beginning: &str,
) -> Result<Option<T>> {
    processes.retain(|process| !beginning.is_empty() && to_id(process).starts_with(beginning));
    if processes.len() > 1 {
        let message = format!("several processes have IDs that begin with `{beginning}`: write more of it");
        return Err(Error::new(Code::InvalidInput, message));
    }
    Ok(processes.pop())
}
