//! Finds a Worker's secrets in development.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::dotenv;

/// The secrets that hold bearer tokens.
const SECRETS: [&str; 2] = ["KOZE_TOKEN", "KOZE_TOKENS"];

/// Returns whether a Worker has a token in development, in the given environment or at the top level: as a variable of
/// its configuration, or in the files where wrangler looks for secrets.
pub fn have_token(config: &Value, environment: Option<&str>, dir: &Path) -> bool {
    let named = environment.and_then(|name| config.get("env")?.get(name));
    let level = named.unwrap_or(config);
    let secrets = level.get("secrets");
    // If the configuration names required secrets, wrangler loads no others.
    let taken = |name: &str| {
        let required =
            |secrets: &Value| secrets["required"].as_array().is_some_and(|all| all.contains(&name.into()));
        secrets.is_none_or(required)
    };
    SECRETS.iter().any(|name| {
        let is_var = level.get("vars").is_some_and(|vars| vars.get(*name).is_some());
        is_var || taken(name) && is_loaded(name, environment, dir, secrets.is_some())
    })
}

/// Returns whether wrangler loads a secret of this name: from `.dev.vars`, or else from the `.env` files and, if the
/// configuration names required secrets, from this program's environment.
fn is_loaded(name: &str, environment: Option<&str>, dir: &Path, named: bool) -> bool {
    let read = |file: &str| fs::read_to_string(dir.join(file)).ok();
    let says = |text: &String| dotenv::given(text, name).is_some();
    let of_environment = environment.map(|name| format!(".dev.vars.{name}"));
    if let Some(text) = of_environment.and_then(|file| read(&file)).or_else(|| read(".dev.vars")) {
        return says(&text);
    }
    let mut files = vec![".env".to_owned(), ".env.local".to_owned()];
    files.extend(
        environment.into_iter().flat_map(|name| [format!(".env.{name}"), format!(".env.{name}.local")]),
    );
    files.iter().filter_map(|file| read(file)).any(|text| says(&text))
        || named && std::env::var_os(name).is_some()
}

/// Returns the names of the files in which wrangler looks for secrets: `.dev.vars`, `.env`, and those of environments.
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
    fn the_projects_token_is_found_in_files() {
        for (files, environment, expected) in [
            (&[(".dev.vars", "A=1\n KOZE_TOKEN = x\n")][..], None, true),
            (&[(".dev.vars.staging", "export KOZE_TOKENS='{}'")], Some("staging"), true),
            (&[(".dev.vars.staging", "KOZE_TOKEN=x")], None, false),
            (&[(".dev.vars.staging", "KOZE_TOKEN=x")], Some("other"), false),
            (&[(".dev.vars", "KOZE_TOKEN=x")], Some("staging"), true),
            (&[(".dev.vars", "KOZE_TOKEN=x"), (".dev.vars.staging", "A=1")], Some("staging"), false),
            (&[(".env", "KOZE_TOKEN=")], None, true),
            (&[(".env", "KOZE_TOKEN=x"), (".dev.vars", "A=1")], None, false),
            (&[(".env.staging", "KOZE_TOKEN=x")], Some("staging"), true),
            (&[(".env.staging", "KOZE_TOKEN=x")], None, false),
            (&[(".env.local", "#KOZE_TOKEN=x\nMY_KOZE_TOKEN=x\nKOZE_TOKEN_X=y")], None, false),
            (&[(".environment", "KOZE_TOKEN=x")], None, false),
        ] {
            let dir = tempfile::tempdir().unwrap();
            for (file, text) in files {
                fs::write(dir.path().join(file), text).unwrap();
            }
            let found = have_token(&json!({}), environment, dir.path());
            assert_eq!(found, expected, "{files:?}, {environment:?}");
        }
    }

    #[test]
    fn the_projects_token_is_found_in_the_configuration() {
        let dir = tempfile::tempdir().unwrap();
        let config = json!({
            "vars": { "KOZE_TOKEN": "x" },
            "env": { "a": { "vars": { "KOZE_TOKENS": {} } }, "b": { "vars": { "TOKEN": "x" } } },
        });
        for (environment, expected) in [(None, true), (Some("a"), true), (Some("b"), false)] {
            assert_eq!(have_token(&config, environment, dir.path()), expected, "{environment:?}");
        }
    }

    #[test]
    fn only_named_secrets_are_loaded() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(".dev.vars"), "KOZE_TOKEN=x").unwrap();
        for (required, expected) in
            [(json!(["KOZE_TOKEN"]), true), (json!(["KEY"]), false), (json!(null), false)]
        {
            let config = json!({ "secrets": { "required": required } });
            assert_eq!(have_token(&config, None, dir.path()), expected, "{config}");
        }
    }
}
