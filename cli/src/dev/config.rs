//! Derives the configuration of a local run: the project's, relocated to another directory and without containers.

use serde_json::{Map, Value, json};

use crate::wrangler::settings::CHECK;

/// The values that replace or extend those of the project.
#[derive(Debug, Clone, Copy)]
pub struct Local<'a> {
    /// The path from the staging directory to that of the project's configuration: `../..`.
    pub up: &'a str,
    /// The entry point in the staging directory.
    pub main: &'a str,
    /// Variables to add at every level.
    pub vars: &'a [(&'a str, Value)],
}

/// Returns the entry point, relative to the configuration: the environment's own, or the top level's.
pub fn main<'v>(config: &'v Value, environment: Option<&str>) -> Option<&'v str> {
    let of = |level: &'v Value| level.get("main")?.as_str();
    let level = environment.and_then(|name| config.get("env")?.get(name));
    level.and_then(of).or_else(|| of(config))
}

/// Derives the configuration of a local run.
pub fn local(config: &Value, local: &Local) -> Value {
    let mut config = config.clone();
    let Value::Object(root) = &mut config else { return config };
    root.shift_remove("$schema");
    adapt_level(root, local);
    if let Some(Value::Object(environments)) = root.get_mut("env") {
        for environment in environments.values_mut().filter_map(Value::as_object_mut) {
            adapt_level(environment, local);
            environment.shift_remove("main");
        }
    }
    root.insert("main".to_owned(), json!(local.main));
    config
}

fn adapt_level(level: &mut Map<String, Value>, local: &Local) {
    // By default wrangler looks for modules next to the entry point, so point it to the project's.
    if level.get("find_additional_modules") == Some(&json!(true)) && !level.contains_key("base_dir") {
        let main = level.get("main").and_then(Value::as_str).unwrap_or_default();
        let dir = main.rsplit_once('/').map_or(".", |(dir, _)| dir).to_owned();
        level.insert("base_dir".to_owned(), json!(dir));
    }
    level.shift_remove("containers");
    // With a route, wrangler replaces the requested host by the route's, but previews are recognized by their host.
    level.shift_remove("route");
    level.shift_remove("routes");
    if let Some(Value::Object(dev)) = level.get_mut("dev") {
        dev.shift_remove("host");
    }
    for class in object_values(level.get_mut("exports")) {
        class.shift_remove("container");
    }
    if let Some(Value::Object(build)) = level.get_mut("build")
        && let Some(command) = build.get_mut("command")
    {
        if let Value::String(command) = command {
            *command = strip_check(command).to_owned();
        }
        build.entry("watch_dir").or_insert(json!("./src"));
    }
    for place in PATHS {
        for value in values_at(level, place) {
            lead_up(value, local.up);
        }
    }
    // Only paths change; other values are package names.
    for value in values_at(level, &["alias", "*"]) {
        if value.as_str().is_some_and(|name| name.starts_with('.')) {
            lead_up(value, local.up);
        }
    }
    // A name must not be both a variable and a secret.
    if let Some(Value::Array(required)) =
        level.get_mut("secrets").and_then(|secrets| secrets.get_mut("required"))
    {
        required.retain(|name| local.vars.iter().all(|(var, _)| name != var));
    }
    let vars = level.entry("vars").or_insert(json!({}));
    if let Value::Object(vars) = vars {
        vars.extend(local.vars.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    }
}

/// Removes the [`CHECK`] that guards a deployment from a build command. In a local run, koze rebuilds after each
/// change, and wrangler, which sees the same change, would exit if its first build failed on a stale file.
fn strip_check(command: &str) -> &str {
    match command.split_once("&&") {
        Some((check, rest)) if check.split_whitespace().eq(CHECK.split_whitespace()) => rest.trim_start(),
        _ => command,
    }
}

/// The settings that hold paths relative to the configuration; `*` matches each element of an object or array.
const PATHS: [&[&str]; 11] = [
    &["base_dir"],
    &["tsconfig"],
    &["assets", "directory"],
    &["site", "bucket"],
    &["site", "entry-point"],
    &["build", "watch_dir"],
    &["build", "watch_dir", "*"],
    &["wasm_modules", "*"],
    &["text_blobs", "*"],
    &["data_blobs", "*"],
    &["d1_databases", "*", "migrations_dir"],
];

/// Returns the values at a path of keys.
fn values_at<'v>(level: &'v mut Map<String, Value>, place: &[&str]) -> Vec<&'v mut Value> {
    let Some((first, rest)) = place.split_first() else { return Vec::new() };
    let mut found: Vec<&mut Value> = match *first {
        "*" => level.values_mut().collect(),
        key => level.get_mut(key).into_iter().collect(),
    };
    for key in rest {
        found = found
            .into_iter()
            .flat_map(|value| match (value, *key) {
                (Value::Object(object), "*") => object.values_mut().collect::<Vec<_>>(),
                (Value::Array(list), "*") => list.iter_mut().collect(),
                (Value::Object(object), key) => object.get_mut(key).into_iter().collect(),
                _ => Vec::new(),
            })
            .collect();
    }
    found
}

/// Rewrites a relative path so that it leads to the same file from the staging directory.
fn lead_up(value: &mut Value, up: &str) {
    if let Value::String(path) = value
        && !path.starts_with('/')
    {
        *path = format!("{up}/{path}");
    }
}

fn object_values(value: Option<&mut Value>) -> impl Iterator<Item = &mut Map<String, Value>> {
    let object = value.and_then(Value::as_object_mut);
    object.into_iter().flat_map(Map::values_mut).filter_map(Value::as_object_mut)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(config: &Value) -> Value {
        let vars = [("TOKEN", json!("t"))];
        local(config, &Local { up: "../..", main: "entry.mjs", vars: &vars })
    }

    #[test]
    fn paths_lead_to_the_same_files() {
        let config = json!({
            "$schema": "./node_modules/wrangler/config-schema.json",
            "name": "app",
            "main": "src/generated/worker.mjs",
            "build": { "command": "make", "cwd": "sub" },
            "assets": { "directory": "./public", "binding": "ASSETS" },
            "alias": { "a": "./a.mjs", "b": "c" },
            "tsconfig": "/etc/tsconfig.json",
            "d1_databases": [{ "binding": "DB", "migrations_dir": "migrations" }],
        });
        let expected = json!({
            "name": "app",
            "main": "entry.mjs",
            "build": { "command": "make", "cwd": "sub", "watch_dir": "../.././src" },
            "assets": { "directory": "../.././public", "binding": "ASSETS" },
            "alias": { "a": "../.././a.mjs", "b": "c" },
            "tsconfig": "/etc/tsconfig.json",
            "d1_databases": [{ "binding": "DB", "migrations_dir": "../../migrations" }],
            "vars": { "TOKEN": "t" },
        });
        assert_eq!(made(&config), expected);
        let watched = |dirs: Value| {
            let config = made(&json!({ "build": { "command": "make", "watch_dir": dirs } }));
            config["build"]["watch_dir"].clone()
        };
        assert_eq!(watched(json!(["a", "b/c"])), json!(["../../a", "../../b/c"]));
        assert_eq!(watched(json!("a")), json!("../../a"));
    }

    #[test]
    fn the_build_command_omits_the_check() {
        for (command, unchecked) in [
            ("koze build --check && worker-build --release", "worker-build --release"),
            ("koze  build --check &&a && b; c", "a && b; c"),
            ("koze build && worker-build", "koze build && worker-build"),
            ("koze build --check; a && b", "koze build --check; a && b"),
            ("koze build --check", "koze build --check"),
            ("a && koze build --check && b", "a && koze build --check && b"),
        ] {
            let config = json!({ "build": { "command": command }, "env": { "a": { "build": { "command": command } } } });
            let made = made(&config);
            assert_eq!(made["build"]["command"], unchecked);
            assert_eq!(made["env"]["a"]["build"]["command"], unchecked);
        }
    }

    #[test]
    fn containers_are_removed() {
        let class = json!({ "type": "durable-object", "storage": "sqlite", "container": "x" });
        let config = json!({
            "containers": [{ "class_name": "A" }],
            "exports": { "A": class },
            "env": { "staging": { "containers": [], "vars": { "B": "1" }, "main": "other.mjs" } },
        });
        let expected = json!({
            "exports": { "A": { "type": "durable-object", "storage": "sqlite" } },
            "env": { "staging": { "vars": { "B": "1", "TOKEN": "t" } } },
            "vars": { "TOKEN": "t" },
            "main": "entry.mjs",
        });
        assert_eq!(made(&config), expected);
    }

    #[test]
    fn routes_are_removed() {
        let config = json!({
            "routes": ["example.com/*"],
            "dev": { "port": 1, "host": "example.com" },
            "env": { "a": { "route": "a.example.com/*" } },
        });
        let expected = json!({
            "dev": { "port": 1 },
            "env": { "a": { "vars": { "TOKEN": "t" } } },
            "vars": { "TOKEN": "t" },
            "main": "entry.mjs",
        });
        assert_eq!(made(&config), expected);
    }

    #[test]
    fn a_variable_is_not_a_required_secret() {
        let config = json!({ "secrets": { "required": ["TOKEN", "KEY"] } });
        assert_eq!(made(&config)["secrets"], json!({ "required": ["KEY"] }));
    }

    #[test]
    fn modules_are_found_next_to_the_projects_entry() {
        let config = json!({ "main": "src/index.js", "find_additional_modules": true });
        assert_eq!(made(&config)["base_dir"], "../../src");
        let config = json!({ "main": "index.js", "base_dir": "lib", "find_additional_modules": true });
        assert_eq!(made(&config)["base_dir"], "../../lib");
    }

    #[test]
    fn an_environment_may_have_its_own_entry() {
        let config = json!({ "main": "a", "env": { "b": { "main": "b" }, "c": {} } });
        assert_eq!(main(&config, None), Some("a"));
        assert_eq!(main(&config, Some("b")), Some("b"));
        assert_eq!(main(&config, Some("c")), Some("a"));
        assert_eq!(main(&json!({}), None), None);
    }
}
