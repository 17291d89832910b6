//! The settings that `koze init` changes outside the blocks of sandboxes: the entry point and the build command.

use koze_edit::{Edit, Path, path};
use serde_json::{Value, json};

use super::locate::Config;
use super::scope::{Scope, dotted};

/// The command to run before the Worker is built. It only checks, because wrangler reads its configuration before it
/// runs the command: a build at this point would deploy the old blocks.
pub const CHECK: &str = "koze build --check";

/// The compatibility flag that enables Node's modules.
const NODE: &str = "nodejs_compat";

/// The command that builds a Rust Worker.
const BUILD: &str = "worker-build --release";

/// The outputs of current and former versions of worker-build, which are a Worker's default `main`.
const BUILT: [&str; 3] = ["build/index.js", "build/worker/shim.mjs", "build/worker/index.js"];

/// Returns the Worker's build command: the environment's own, or the top level's.
pub fn build_command<'v>(config: &'v Value, environment: Option<&str>) -> Option<&'v str> {
    let of = |level: &'v Value| level.get("build").filter(|build| !build.is_null());
    let own = environment.and_then(|name| of(config.get("env")?.get(name)?));
    own.or_else(|| of(config))?.get("command")?.as_str()
}

/// The changes of `koze init` to a configuration.
#[derive(Debug, Default)]
pub struct Settings {
    /// The edits.
    pub edits: Vec<Edit>,
    /// Descriptions of the edits.
    pub notes: Vec<String>,
    /// The steps left to the user.
    pub left: Vec<String>,
}

impl Settings {
    /// Returns the settings of all levels; `entry` is the generated entry point, relative to the configuration.
    pub fn of(config: &Config, scopes: &[Scope], entry: &str) -> Settings {
        let mut settings = Settings::default();
        for scope in scopes {
            settings.add_node_flag(scope, config);
            settings.set_main(scope, entry, config);
            settings.add_check(scope, config);
        }
        settings
    }

    fn set_text(&mut self, path: Path, text: &str, config: &Config) {
        self.notes.push(format!("set `{}` in {} to `{text}`", dotted(&path), config.shown));
        self.edits.push(Edit::Set { path, value: json!(text) });
    }

    /// Enables Node's modules, which the SDK needs.
    fn add_node_flag(&mut self, scope: &Scope, config: &Config) {
        if !scope.lacks_node() {
            return;
        }
        let path = scope.path(&path!["compatibility_flags"]);
        self.notes.push(format!("added `{NODE}` to `{}` in {}", dotted(&path), config.shown));
        self.edits.push(match scope.value.get("compatibility_flags") {
            Some(Value::Null) => Edit::Set { path, value: json!([NODE]) },
            _ => Edit::Push { path, value: json!(NODE) },
        });
    }

    /// Replaces worker-build's output by the generated entry point. The build itself reports what to do about a user's
    /// own entry point.
    fn set_main(&mut self, scope: &Scope, entry: &str, config: &Config) {
        let main = scope.get("main").and_then(Value::as_str);
        let site = scope.get("site").and_then(|site| site.get("entry-point")).and_then(Value::as_str);
        let plain = |main: &'_ str| main.strip_prefix("./").unwrap_or(main).to_owned();
        let replaceable = |main: &str| BUILT.contains(&plain(main).as_str());
        match (main, site) {
            // An environment inherits that of the top level.
            (None, _) if scope.environment.is_some() => {}
            (Some(main), _) if plain(main) == entry || !replaceable(main) => {}
            (None, Some(site)) if plain(site) != entry && !replaceable(site) => {}
            (None, Some(_)) => {
                // wrangler accepts only one of the two.
                let path = scope.path(&path!["site", "entry-point"]);
                self.notes.push(format!(
                    "removed `{}` from {}: `main` has replaced it",
                    dotted(&path),
                    config.shown
                ));
                self.edits.push(Edit::Remove { path });
                self.set_text(scope.path(&path!["main"]), entry, config);
            }
            _ => self.set_text(scope.path(&path!["main"]), entry, config),
        }
    }

    /// Adds the check before the build command. An environment may have its own command.
    fn add_check(&mut self, scope: &Scope, config: &Config) {
        let build = scope.get("build");
        let inherits = build.is_none() && scope.environment.is_some();
        if inherits || build.is_some_and(|build| !build.is_object()) {
            // wrangler itself reports a value that is not an object.
            return;
        }
        let path = scope.path(&path!["build", "command"]);
        let command = build.and_then(|build| build.get("command")).and_then(Value::as_str);
        match command.map(str::trim) {
            None | Some("") if scope.value.get("build").is_some_and(Value::is_null) => {
                let command = format!("{CHECK} && {BUILD}");
                self.notes.push(format!("set `{}` in {} to `{command}`", dotted(&path), config.shown));
                let path = scope.path(&path!["build"]);
                self.edits.push(Edit::Set { path, value: json!({ "command": command }) });
            }
            None | Some("") => self.set_text(path, &format!("{CHECK} && {BUILD}"), config),
            Some(command) if command.contains("koze build") => {}
            // Before a list of commands, the check would guard only the first one.
            Some(command) if command.contains([';', '|', '&', '\n']) && !is_chain(command) => {
                self.left.push(format!(
                    "next: start `{}` in {} with `{CHECK}`, so that an outdated project is never deployed",
                    dotted(&path),
                    config.shown
                ));
            }
            Some(command) => self.set_text(path, &format!("{CHECK} && {command}"), config),
        }
    }
}

/// Returns whether commands are chained only by `&&`, so that a command in front guards them all.
fn is_chain(command: &str) -> bool {
    !command.replace("&&", "").contains([';', '|', '&', '\n'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_are_recognized() {
        assert!(is_chain("cargo install -q worker-build && worker-build --release"));
        for list in ["a; b", "a || b", "a & b", "a\nb", "a && b; c"] {
            assert!(!is_chain(list), "{list}");
        }
    }
}
