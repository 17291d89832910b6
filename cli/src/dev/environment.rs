//! Determines the environment that wrangler selects if no argument names one.

use std::fs;
use std::path::Path;

use super::dotenv;

/// The variable that names the environment.
const NAME: &str = "CLOUDFLARE_ENV";
/// The files that wrangler reads the variable from, next to its own environment, in its working directory. The later
/// file wins.
const FILES: [&str; 2] = [".env", ".env.local"];

/// Returns the environment that wrangler would select in this directory, or `None` for the top level.
///
/// # Errors
/// Returns a message if a file names the environment in a way that only wrangler can interpret.
pub fn found(dir: &Path) -> Result<Option<String>, String> {
    let own = std::env::var(NAME).ok();
    let name = match own {
        Some(name) => Some(name),
        None => in_files(dir)?,
    };
    Ok(name.filter(|name| !name.is_empty()))
}

fn in_files(dir: &Path) -> Result<Option<String>, String> {
    for file in FILES.iter().rev() {
        let text = fs::read_to_string(dir.join(file)).unwrap_or_default();
        if let Some(given) = dotenv::given(&text, NAME) {
            let unclear = || {
                format!(
                    "{file}: koze cannot tell which environment `{NAME}={given}` means: set it to the name of an environment, or pass `--env`"
                )
            };
            return dotenv::plain(given).map(|name| Some(name.to_owned())).ok_or_else(unclear);
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_later_file_wins() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(in_files(dir.path()), Ok(None));
        fs::write(dir.path().join(".env"), "CLOUDFLARE_ENV=one\n").unwrap();
        assert_eq!(in_files(dir.path()), Ok(Some("one".to_owned())));
        fs::write(dir.path().join(".env.local"), "A=1\nCLOUDFLARE_ENV='two'\n").unwrap();
        assert_eq!(in_files(dir.path()), Ok(Some("two".to_owned())));
        fs::write(dir.path().join(".env.local"), "CLOUDFLARE_ENV=$STAGE\n").unwrap();
        let unclear = in_files(dir.path()).unwrap_err();
        assert!(unclear.starts_with(".env.local: ") && unclear.contains("--env"), "{unclear}");
    }
}
