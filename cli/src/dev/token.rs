//! The bearer token of a Worker on this machine.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Returns the token stored in a directory, generating it on first use.
///
/// # Errors
/// Returns an error if the token can be neither read nor written, or if the system has no random numbers.
pub fn remembered(dir: &Path) -> io::Result<String> {
    let file = dir.join("dev-token");
    match fs::read_to_string(&file) {
        Ok(token) if token.len() == 64 => return Ok(token),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let token = generate()?;
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(file)?;
    file.write_all(token.as_bytes())?;
    Ok(token)
}

/// Returns a new token.
///
/// # Errors
/// Returns an error if the system has no random numbers.
pub fn generate() -> io::Result<String> {
    let mut random = [0; 32];
    getrandom::fill(&mut random)?;
    Ok(random.map(|byte| format!("{byte:02x}")).concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_persists() {
        let dir = tempfile::tempdir().unwrap();
        let token = remembered(dir.path()).unwrap();
        assert_eq!(token.len(), 64);
        assert_eq!(remembered(dir.path()).unwrap(), token);
        fs::write(dir.path().join("dev-token"), "cut off").unwrap();
        assert_ne!(remembered(dir.path()).unwrap(), token);
    }
}
