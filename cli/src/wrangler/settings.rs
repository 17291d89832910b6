//! What `koze init` sets in a configuration beside the blocks of sandboxes: the Worker's entry and the build command.

use koze_edit::{Edit, Path, path};
use serde_json::{Value, json};

use super::locate::Config;
use super::scope::{Scope, dotted};

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

/// What `koze init` does about a configuration.
#[derive(Debug, Default)]
pub struct Settings {
    /// The edits.
    pub edits: Vec<Edit>,
    /// The same in words.
    pub notes: Vec<String>,
    /// What is left to the user.
    pub left: Vec<String>,
}

impl Settings {
    /// The settings of all levels; `entry` is the generated entry as seen from the configuration.
    pub fn of(config: &Config, scopes: &[Scope], entry: &str) -> Settings {
        let mut settings = Settings::default();
        for scope in scopes {
            settings.flag(scope, config);
            settings.main(scope, entry, config);
            settings.build(scope, config);
        }
        settings
    }

    fn set(&mut self, path: Path, text: &str, config: &Config) {
        self.notes.push(format!("set `{}` in {} to `{text}`", dotted(&path), config.shown));
        self.edits.push(Edit::Set { path, value: json!(text) });
    }

    /// Switches Node's modules on, which the sandbox SDK needs.
    fn flag(&mut self, scope: &Scope, config: &Config) {
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

    /// Makes the generated entry the Worker's, in place of what worker-build writes. The build itself says what to do
    /// where it is the user's own file.
    fn main(&mut self, scope: &Scope, entry: &str, config: &Config) {
        let main = scope.get("main").and_then(Value::as_str);
        let site = scope.get("site").and_then(|site| site.get("entry-point")).and_then(Value::as_str);
        let plain = |main: &'_ str| main.strip_prefix("./").unwrap_or(main).to_owned();
        let replaceable = |main: &str| BUILT.contains(&plain(main).as_str());
        match (main, site) {
            // An environment has the top level's.
            (None, _) if scope.environment.is_some() => {}
            (Some(main), _) if plain(main) == entry || !replaceable(main) => {}
            (None, Some(site)) if plain(site) != entry && !replaceable(site) => {}
            (None, Some(_)) => {
                // wrangler takes one of the two.
                let path = scope.path(&path!["site", "entry-point"]);
                self.notes.push(format!(
                    "removed `{}` from {}: `main` has replaced it",
                    dotted(&path),
                    config.shown
                ));
                self.edits.push(Edit::Remove { path });
                self.set(scope.path(&path!["main"]), entry, config);
            }
            _ => self.set(scope.path(&path!["main"]), entry, config),
        }
    }

    /// Lets the check come before the building of the Worker. An environment may have a command of its own.
    fn build(&mut self, scope: &Scope, config: &Config) {
        let build = scope.get("build");
        let inherits = build.is_none() && scope.environment.is_some();
        if inherits || build.is_some_and(|build| !build.is_object()) {
            // Of something else than an object, wrangler itself says what is wrong with it.
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
            None | Some("") => self.set(path, &format!("{CHECK} && {BUILD}"), config),
            Some(command) if command.contains("koze build") => {}
            // Before a list of commands, the check would guard the first one alone.
            Some(command) if command.contains([';', '|', '&', '\n']) && !is_chain(command) => {
                self.left.push(format!(
                    "next: start `{}` in {} with `{CHECK}`, so that an outdated project is never deployed",
                    dotted(&path),
                    config.shown
                ));
            }
            Some(command) => self.set(path, &format!("{CHECK} && {command}"), config),
        }
    }
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
