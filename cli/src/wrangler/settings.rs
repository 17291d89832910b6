//! What `koze init` sets in a configuration beside the blocks of sandboxes: the Worker's entry and the build command.

use serde_json::{Value, json};

use super::document::{Edit, path};
use super::locate::Config;
use super::scope::Scope;

/// What comes before the building of the Worker: wrangler reads its configuration before it runs the command, so
/// building there would deploy stale blocks.
pub const CHECK: &str = "koze build --check";

/// The flag that switches Node's modules on.
const NODE: &str = "nodejs_compat";

/// What builds a Rust Worker.
const BUILD: &str = "worker-build --release";

/// What worker-build writes, in its present and its former versions: a Worker's `main` where nobody wrote another.
const BUILT: [&str; 3] = ["build/index.js", "build/worker/shim.mjs", "build/worker/index.js"];

/// The command that wrangler builds the Worker by: that of an environment, where it has one.
pub fn build_command<'v>(config: &'v Value, environment: Option<&str>) -> Option<&'v str> {
    let of = |level: &'v Value| level.get("build").filter(|build| !build.is_null());
    let own = environment.and_then(|name| of(config.get("env")?.get(name)?));
    own.or_else(|| of(config))?.get("command")?.as_str()
}

/// The edits, and what is left to the user; `entry` is the generated entry as seen from the configuration.
pub fn edits(config: &Config, scopes: &[Scope], entry: &str) -> (Vec<Edit>, Vec<String>) {
    let value = config.document.value();
    let mut edits: Vec<Edit> = scopes.iter().filter_map(flag).collect();
    let mut left = Vec::new();
    let mut set = |path, value: Value| edits.push(Edit::Set { path, value });

    let main = value.get("main").and_then(Value::as_str);
    match main.map(|main| main.strip_prefix("./").unwrap_or(main)) {
        Some(main) if main == entry => {}
        // The build itself says what to do where `main` is the user's own file.
        Some(main) if !BUILT.contains(&main) => {}
        _ => set(path!["main"], json!(entry)),
    }

    let build = value.get("build").filter(|build| !build.is_null());
    if build.is_some_and(|build| !build.is_object()) {
        // wrangler itself says what is wrong with it.
        return (edits, left);
    }
    let command = build.and_then(|build| build.get("command")).and_then(Value::as_str);
    match command.map(str::trim) {
        None | Some("") if value.get("build").is_some_and(Value::is_null) => {
            set(path!["build"], json!({ "command": format!("{CHECK} && {BUILD}") }));
        }
        None | Some("") => set(path!["build", "command"], json!(format!("{CHECK} && {BUILD}"))),
        Some(command) if command.contains("koze build") => {}
        // Before a list of commands, the check would guard the first one alone.
        Some(command) if command.contains([';', '|', '&', '\n']) && !is_chain(command) => left.push(format!(
            "next: let `build.command` in {} begin with `{CHECK}`, so that nothing is deployed that is not in step",
            config.shown
        )),
        Some(command) => set(path!["build", "command"], json!(format!("{CHECK} && {command}"))),
    }
    (edits, left)
}

/// The edit that switches Node's modules on at a level, which the sandbox SDK needs.
fn flag(scope: &Scope) -> Option<Edit> {
    if !scope.lacks_node() {
        return None;
    }
    let path = scope.path(&path!["compatibility_flags"]);
    Some(match scope.value.get("compatibility_flags") {
        Some(Value::Null) => Edit::Set { path, value: json!([NODE]) },
        _ => Edit::Push { path, value: json!(NODE) },
    })
}

/// Whether commands are chained by `&&` alone, so that one more in front guards them all.
fn is_chain(command: &str) -> bool {
    !command.replace("&&", "").contains([';', '|', '&', '\n'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains() {
        assert!(is_chain("cargo install -q worker-build && worker-build --release"));
        for list in ["a; b", "a || b", "a & b", "a\nb", "a && b; c"] {
            assert!(!is_chain(list), "{list}");
        }
    }
}
