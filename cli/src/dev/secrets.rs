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
    SECRETS.iter().any(|name| find_given(name, config, environment, dir).is_some())
}

/// Returns the value that a secret of a Worker has in development, if it has one.
///
/// # Errors
/// Returns a message if only wrangler can tell the value.
pub fn find_value(
    name: &str,
    config: &Value,
    environment: Option<&str>,
    dir: &Path,
) -> Result<Option<String>, String> {
    match find_given(name, config, environment, dir) {
        None => Ok(None),
        Some(Given::Var(Value::String(value))) => Ok(Some(value)),
        Some(Given::Var(_)) => {
            Err(format!("the variable {name} of the wrangler configuration is not a string"))
        }
        Some(Given::Line(given)) => match dotenv::plain(&given) {
            Some(value) => Ok(Some(value.to_owned())),
            None => Err(format!(
                "the value of {name} in the project's files is not plain: write it in single quotes on one line, without \
                 `$` and `\\`"
            )),
        },
    }
}

/// A secret as the project gives it.
enum Given {
    /// A variable of the configuration.
    Var(Value),
    /// The raw value in a file or the environment.
    Line(String),
}

/// Finds a secret. A file has precedence over a variable of the configuration, as for wrangler.
fn find_given(name: &str, config: &Value, environment: Option<&str>, dir: &Path) -> Option<Given> {
    let named = environment.and_then(|name| config.get("env")?.get(name));
    let level = named.unwrap_or(config);
    let secrets = level.get("secrets");
    // If the configuration names required secrets, wrangler loads no others.
    let required =
        |secrets: &Value| secrets["required"].as_array().is_some_and(|all| all.contains(&name.into()));
    let loaded =
        if secrets.is_none_or(required) { load(name, environment, dir, secrets.is_some()) } else { None };
    let variable = || level.get("vars").and_then(|vars| vars.get(name)).cloned().map(Given::Var);
    loaded.map(Given::Line).or_else(variable)
}

/// Returns the raw value of a secret that wrangler loads: from `.dev.vars`, or else from the `.env` files and, if the
/// configuration names required secrets, from this program's environment.
fn load(name: &str, environment: Option<&str>, dir: &Path, named: bool) -> Option<String> {
    let read = |file: &str| fs::read_to_string(dir.join(file)).ok();
    let find = |text: String| dotenv::given(&text, name).map(str::to_owned);
    let of_environment = environment.map(|name| format!(".dev.vars.{name}"));
    if let Some(text) = of_environment.and_then(|file| read(&file)).or_else(|| read(".dev.vars")) {
        return find(text);
    }
    let mut files = vec![".env".to_owned(), ".env.local".to_owned()];
    files.extend(
        environment.into_iter().flat_map(|name| [format!(".env.{name}"), format!(".env.{name}.local")]),
    );
    // The most specific file wins.
    let found = files.iter().rev().filter_map(|file| read(file)).find_map(find);
    found.or_else(|| std::env::var(name).ok().filter(|_| named))
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
    fn values_are_those_that_wrangler_loads() {
        let dir = tempfile::tempdir().unwrap();
        let value = |config: &Value, name| find_value(name, config, None, dir.path());
        let tokens = r#"{"a": "0123456789abcdef"}"#;
        let config = json!({ "vars": { "KOZE_TOKEN": "z", "KOZE_TOKENS": {} } });
        assert_eq!(value(&config, "KOZE_TOKEN"), Ok(Some("z".to_owned())));
        assert!(value(&config, "KOZE_TOKENS").unwrap_err().contains("is not a string"));
        fs::write(dir.path().join(".env"), "KOZE_TOKEN=x\nA=b\n").unwrap();
        fs::write(dir.path().join(".env.local"), "KOZE_TOKEN=\"y\" # mine\n").unwrap();
        assert_eq!(value(&config, "KOZE_TOKEN"), Ok(Some("y".to_owned())));
        assert_eq!(value(&json!({}), "KOZE_TOKENS"), Ok(None));
        let text = format!("KOZE_TOKENS='{tokens}'\nKOZE_TOKEN=$OTHER\n");
        fs::write(dir.path().join(".dev.vars"), text).unwrap();
        assert_eq!(value(&json!({}), "KOZE_TOKENS"), Ok(Some(tokens.to_owned())));
        assert!(value(&json!({}), "KOZE_TOKEN").unwrap_err().contains("is not plain"));
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
