//! Where a Worker's secrets are in development.

use std::fs;
use std::path::Path;

/// The secrets that let clients in.
const SECRETS: [&str; 2] = ["KOZE_TOKEN", "KOZE_TOKENS"];

/// Whether the files beside a configuration, from which wrangler takes secrets in development, have a token.
pub fn have_token(dir: &Path) -> bool {
    files(dir).iter().any(|name| {
        let text = fs::read_to_string(dir.join(name)).unwrap_or_default();
        text.lines().any(|line| {
            let line = line.trim_start();
            let line = line.strip_prefix("export ").unwrap_or(line);
            line.split_once('=').is_some_and(|(name, _)| SECRETS.contains(&name.trim()))
        })
    })
}

/// The names of such files: `.dev.vars`, `.env`, and those of environments.
pub fn files(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let is_secret = |name: &String| {
        [".dev.vars", ".env"]
            .iter()
            .any(|stem| name.strip_prefix(stem).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
    };
    names.filter(is_secret).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(have_token(dir.path()), expected, "{file}: {text}");
        }
    }
}
