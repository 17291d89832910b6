//! The configuration as wrangler resolves it for one environment.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// How the configuration is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Jsonc,
    Toml,
}

impl Format {
    /// The file's name.
    pub(crate) fn file(self) -> &'static str {
        match self {
            Format::Jsonc => "wrangler.jsonc",
            Format::Toml => "wrangler.toml",
        }
    }

    /// The data in a text, or what is wrong with it.
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

/// What one Worker is deployed with: the top level, or a named environment.
///
/// `containers` and `durable_objects` are not inherited by an environment; `migrations` and `exports` are, and those
/// of an environment replace the top level's (wrangler's configuration schema, `RawEnvironment`).
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

/// The text at a key of an entry, empty where there is none.
pub(crate) fn text<'a>(entry: &'a Value, key: &str) -> &'a str {
    entry[key].as_str().unwrap_or_default()
}

/// The names of the environments, in the order of the file.
pub(crate) fn environments(config: &Value) -> Vec<String> {
    config["env"].as_object().map(|env| env.keys().cloned().collect()).unwrap_or_default()
}

/// Every list of migrations that stands in the file, by environment; the top level is the empty name.
pub(crate) fn lists(config: &Value) -> BTreeMap<String, Vec<Value>> {
    let here = config["migrations"].as_array().map(|list| (String::new(), list.clone()));
    let named = environments(config).into_iter().filter_map(|name| {
        let list = config["env"][&name]["migrations"].as_array()?.clone();
        Some((name, list))
    });
    here.into_iter().chain(named).collect()
}
