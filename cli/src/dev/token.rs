//! The bearer token of a Worker that runs on this machine.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// The secrets that let clients in.
const SECRETS: [&str; 2] = ["KOZE_TOKEN", "KOZE_TOKENS"];

/// Whether the files beside a configuration, from which wrangler takes secrets in development, have a token.
pub fn given(dir: &Path) -> bool {
    secret_files(dir).iter().any(|name| {
        let text = fs::read_to_string(dir.join(name)).unwrap_or_default();
        text.lines().any(|line| {
            let line = line.trim_start();
            let line = line.strip_prefix("export ").unwrap_or(line);
            line.split_once('=').is_some_and(|(name, _)| SECRETS.contains(&name.trim()))
        })
    })
}

/// The names of such files: `.dev.vars`, `.env`, and those of environments.
pub fn secret_files(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let is_secret = |name: &String| {
        [".dev.vars", ".env"]
            .iter()
            .any(|stem| name.strip_prefix(stem).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
    };
    names.filter(is_secret).collect()
}

/// The token that is remembered in a directory; the first time a new one.
///
/// # Errors
/// Where it can be neither read nor written, or the system has no random numbers.
pub fn remembered(dir: &Path) -> io::Result<String> {
    let file = dir.join("dev-token");
    match fs::read_to_string(&file) {
        Ok(token) if token.len() == 64 => return Ok(token),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut random = [0; 32];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    let token = random.map(|byte| format!("{byte:02x}")).concat();
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(file)?;
    file.write_all(token.as_bytes())?;
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_stays() {
        let dir = tempfile::tempdir().unwrap();
        let token = remembered(dir.path()).unwrap();
        assert_eq!(token.len(), 64);
        assert_eq!(remembered(dir.path()).unwrap(), token);
        fs::write(dir.path().join("dev-token"), "cut off").unwrap();
        assert_ne!(remembered(dir.path()).unwrap(), token);
    }

    #[test]
    fn a_token_of_the_projects_own() {
        for (file, text, expected) in [
            (".dev.vars", "A=1\n KOZE_TOKEN = x\n", true),
            (".dev.vars.staging", "export KOZE_TOKENS='{}'", true),
            (".env", "KOZE_TOKEN=", true),
            (".env.local", "#KOZE_TOKEN=x\nMY_KOZE_TOKEN=x\nKOZE_TOKEN_X=y", false),
            (".environment", "KOZE_TOKEN=x", false),
        ] {
            let dir = tempfile::tempdir().unwrap();
            fs::write(dir.path().join(file), text).unwrap();
            assert_eq!(given(dir.path()), expected, "{file}: {text}");
        }
    }
}
