//! Which environment of the configuration wrangler takes where no argument names one.

use std::fs;
use std::path::Path;

use super::dotenv;

/// The variable that names it.
const NAME: &str = "CLOUDFLARE_ENV";
/// Where wrangler looks for it beside this program's own environment, in the directory that it runs in: the later one
/// counts.
const FILES: [&str; 2] = [".env", ".env.local"];

/// The environment that wrangler would take in this directory; nothing for the top level.
///
/// # Errors
/// Where a file names one in a way that only wrangler could tell.
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
    fn the_later_file_counts() {
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
