//! Where a Worker's secrets are in development.

use std::fs;
use std::path::Path;

use serde_json::Value;

/// The secrets that let clients in.
const SECRETS: [&str; 2] = ["KOZE_TOKEN", "KOZE_TOKENS"];

/// Whether a Worker finds a token in development: among the variables of its configuration, in this program's own
/// environment, where wrangler looks into it for the secrets that the configuration names, or in the files beside it.
pub fn have_token(config: &Value, dir: &Path) -> bool {
    let environments = config.get("env").and_then(Value::as_object);
    let mut levels = std::iter::once(config).chain(environments.into_iter().flat_map(|all| all.values()));
    let said = |level: &Value| {
        let is_var = |name: &&str| level.get("vars").is_some_and(|vars| vars.get(*name).is_some());
        let is_set = |name: &&str| level.get("secrets").is_some() && std::env::var_os(name).is_some();
        SECRETS.iter().any(|name| is_var(name) || is_set(name))
    };
    levels.any(said) || in_files(dir)
}

fn in_files(dir: &Path) -> bool {
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
    use serde_json::json;

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
            assert_eq!(have_token(&json!({}), dir.path()), expected, "{file}: {text}");
        }
    }

    #[test]
    fn a_token_in_the_configuration() {
        let dir = tempfile::tempdir().unwrap();
        for (config, expected) in [
            (json!({ "vars": { "KOZE_TOKEN": "x" } }), true),
            (json!({ "env": { "a": { "vars": { "KOZE_TOKENS": {} } } } }), true),
            (json!({ "vars": { "TOKEN": "x" }, "env": {} }), false),
        ] {
            assert_eq!(have_token(&config, dir.path()), expected, "{config}");
        }
    }
}
