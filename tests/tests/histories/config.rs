//! Resolves the configuration for one environment, as wrangler does.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// The format of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Jsonc,
    Toml,
}

impl Format {
    /// Returns the file's name.
    pub(crate) fn file(self) -> &'static str {
        match self {
            Format::Jsonc => "wrangler.jsonc",
            Format::Toml => "wrangler.toml",
        }
    }

    /// Parses a text.
    pub(crate) fn parse(self, text: &str) -> Result<Value, String> {
        let text = text.trim_start_matches('\u{feff}');
        match self {
            Format::Jsonc => {
                jsonc_parser::parse_to_serde_value::<Value>(text, &jsonc_parser::ParseOptions::default())
                    .map_err(|error| error.to_string())
            }
            Format::Toml => toml_edit::de::from_str(text).map_err(|error| error.to_string()),
        }
    }
}

/// The configuration of one Worker: the top level, or a named environment.
///
/// Environments do not inherit `containers` and `durable_objects`. They inherit `migrations` and `exports` unless they
/// have their own (wrangler's configuration schema, `RawEnvironment`).
#[derive(Debug, Clone, Default)]
pub(crate) struct Level {
    pub(crate) containers: Vec<Value>,
    pub(crate) bindings: Vec<Value>,
    pub(crate) migrations: Vec<Value>,
    pub(crate) exports: Map<String, Value>,
}

impl Level {
    pub(crate) fn of(config: &Value, environment: &str) -> Level {
        let here = if environment.is_empty() { config } else { &config["env"][environment] };
        let inherited = |key: &str| here.get(key).or_else(|| config.get(key)).cloned().unwrap_or_default();
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        Level {
            containers: list(&here["containers"]),
            bindings: list(&here["durable_objects"]["bindings"]),
            migrations: list(&inherited("migrations")),
            exports: inherited("exports").as_object().cloned().unwrap_or_default(),
        }
    }
}

/// Returns the text at a key of an entry, or an empty one.
pub(crate) fn text<'a>(entry: &'a Value, key: &str) -> &'a str {
    entry[key].as_str().unwrap_or_default()
}

/// Returns the names of the environments, in the order of the file.
pub(crate) fn environments(config: &Value) -> Vec<String> {
    config["env"].as_object().map(|env| env.keys().cloned().collect()).unwrap_or_default()
}

/// Returns every list of migrations in the file, by environment; the top level is the empty name.
pub(crate) fn lists(config: &Value) -> BTreeMap<String, Vec<Value>> {
    let here = config["migrations"].as_array().map(|list| (String::new(), list.clone()));
    let named = environments(config).into_iter().filter_map(|name| {
        let list = config["env"][&name]["migrations"].as_array()?.clone();
        Some((name, list))
    });
    here.into_iter().chain(named).collect()
}
