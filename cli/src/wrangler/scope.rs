//! The levels of a configuration: the top level, and every named environment.

use std::collections::HashMap;

use koze_edit::{Path, Step};
use serde_json::{Map, Value};

use super::locate::Config;
use crate::discover::Project;
use crate::finding::{Findings, Place, Stop};
use crate::rules::Rule;

/// A level of the configuration that has its own blocks.
#[derive(Debug, Clone)]
pub struct Scope<'a> {
    /// The environment; `None` is the top level.
    pub environment: Option<String>,
    /// The value of this level.
    pub value: &'a Value,
    /// The exports that apply to this level. An environment without its own inherits those of the top level.
    exports: Option<&'a Map<String, Value>>,
    /// The classes that these exports link to a container, by its name.
    linked: HashMap<&'a str, Vec<&'a str>>,
}

/// A link in `exports` from a class to a container.
#[derive(Debug, Clone)]
pub struct Link<'a> {
    /// The environment whose map has it; `None` is the top level.
    pub environment: Option<String>,
    /// The class.
    pub class: &'a str,
    /// The name of the container.
    pub name: &'a str,
    /// Its path in the configuration.
    pub path: Path,
}

impl<'a> Scope<'a> {
    /// Creates the top level of a configuration.
    pub fn top(root: &'a Value) -> Self {
        Self::new(None, root, declared_exports(root))
    }

    /// Creates a named environment of a configuration.
    pub fn of_environment(name: &str, value: &'a Value, root: &'a Value) -> Self {
        let exports = declared_exports(value).or_else(|| declared_exports(root));
        Self::new(Some(name.to_owned()), value, exports)
    }

    fn new(environment: Option<String>, value: &'a Value, exports: Option<&'a Map<String, Value>>) -> Self {
        let mut linked: HashMap<&str, Vec<&str>> = HashMap::new();
        for (class, entry) in exports.into_iter().flatten() {
            if let Some(container) = linked_container(entry) {
                linked.entry(container).or_default().push(class);
            }
        }
        Scope { environment, value, exports, linked }
    }

    /// Returns the class of a container: its `class_name`, or the class that `exports` links to its name.
    pub fn container_class(&self, container: &'a Value) -> Option<&'a str> {
        let text = |key: &str| container.get(key).and_then(Value::as_str);
        text("class_name").or_else(|| Some(self.links_to(text("name")?).first()?.class))
    }

    /// Returns the classes of this level that `exports` declare as deleted, renamed or transferred.
    pub fn tombstones(&self) -> Vec<&'a str> {
        let is_tombstone = |entry: &Value| {
            entry["type"] == "durable-object"
                && matches!(entry["state"].as_str(), Some("deleted" | "renamed" | "transferred"))
        };
        let all = self.exports.into_iter().flatten();
        all.filter(|(_, entry)| is_tombstone(entry)).map(|(class, _)| class.as_str()).collect()
    }

    /// Returns the link of a class that applies to this level.
    pub fn link(&self, class: &str) -> Option<Link<'a>> {
        let (class, entry) = self.exports?.get_key_value(class)?;
        let name = linked_container(entry)?;
        let environment = declared_exports(self.value).and(self.environment.clone());
        let level = environment.iter().flat_map(|name| [Step::from("env"), Step::from(name.as_str())]);
        let keys = [Step::from("exports"), Step::from(class.as_str()), Step::from("container")];
        Some(Link { class, name, path: level.chain(keys).collect(), environment })
    }

    /// Returns the links to a container that apply to this level.
    pub fn links_to(&self, name: &str) -> Vec<Link<'a>> {
        self.linked.get(name).into_iter().flatten().filter_map(|class| self.link(class)).collect()
    }

    /// Returns the path of a key at this level.
    pub fn path(&self, keys: &[Step]) -> Path {
        let mut path = match &self.environment {
            None => Vec::new(),
            Some(environment) => vec![Step::from("env"), Step::from(environment.as_str())],
        };
        path.extend_from_slice(keys);
        path
    }

    /// Returns the value of a key. Null counts as absent.
    pub fn get(&self, key: &str) -> Option<&'a Value> {
        self.value.get(key).filter(|value| !value.is_null())
    }

    /// Returns whether Node's modules are disabled at this level. An environment without flags inherits those of the
    /// top level.
    pub fn lacks_node(&self) -> bool {
        match self.get("compatibility_flags") {
            None => self.environment.is_none(),
            Some(Value::Array(flags)) => {
                !flags.iter().any(|flag| flag == "nodejs_compat" || flag == "nodejs_compat_v2")
            }
            // wrangler itself reports the invalid value.
            Some(_) => false,
        }
    }

    /// Returns the list at a key, or an empty one.
    pub fn list(&self, keys: &[&str]) -> &'a [Value] {
        let value = keys.iter().try_fold(self.value, |value, key| value.get(key));
        value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// Returns the name at this level of a container that is called `container` at the top level.
    pub fn container(&self, container: &str) -> String {
        match &self.environment {
            None => container.to_owned(),
            Some(environment) => {
                let suffix: String = environment
                    .to_lowercase()
                    .chars()
                    .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
                    .collect();
                format!("{container}-{suffix}")
            }
        }
    }
}

impl Scope<'_> {
    /// Returns the name that wrangler derives for an unnamed container; `root` is the whole configuration.
    pub fn default_container(&self, class: &str, root: &Value) -> Option<String> {
        let name = self.get("name").or_else(|| root.get("name")).and_then(Value::as_str)?;
        let suffix = self.environment.as_ref().map_or(String::new(), |environment| format!("-{environment}"));
        Some(format!("{name}-{class}{suffix}").to_lowercase().replace(' ', "-"))
    }
}

/// Returns the container that an entry of `exports` links to its class.
fn linked_container(entry: &Value) -> Option<&str> {
    entry.get("container").filter(|_| entry["type"] == "durable-object")?.as_str()
}

/// Returns the exports that a level declares. Null counts as absent.
fn declared_exports(value: &Value) -> Option<&Map<String, Value>> {
    value.get("exports").and_then(Value::as_object)
}

/// Returns the top level and the environments that koze manages. Reports those with an invalid form.
pub fn all<'a>(
    config: &'a Config,
    project: &Project,
    findings: &mut Findings,
) -> Result<Vec<Scope<'a>>, Stop> {
    let root = config.document.value();
    let mut scopes = vec![Scope::top(root)];
    match root.get("env").filter(|env| !env.is_null()) {
        None => {}
        Some(Value::Object(environments)) => {
            for (name, value) in environments {
                let wanted = project.environments.as_ref().is_none_or(|list| list.contains(name));
                if wanted {
                    scopes.push(Scope::of_environment(name, value, root));
                }
            }
        }
        Some(_) => report_shape(config, &[Step::from("env")], "an object", findings),
    }
    for name in project.environments.iter().flatten() {
        if !scopes.iter().any(|scope| scope.environment.as_ref() == Some(name)) {
            let message = format!(
                "`package.metadata.koze.environments` names `{name}`, which `{}` does not have",
                config.shown
            );
            findings.add(Rule::BadManifest { message }, Some(Place::file("Cargo.toml")));
        }
    }
    for scope in &scopes {
        check_blocks(config, scope, findings);
    }
    findings.checked()?;
    Ok(scopes)
}

/// Checks the form of the blocks that koze edits.
fn check_blocks(config: &Config, scope: &Scope, findings: &mut Findings) {
    if !scope.value.is_object() {
        return report_shape(config, &scope.path(&[]), "an object", findings);
    }
    let mut lists = vec![vec![Step::from("containers")], vec![Step::from("migrations")]];
    match scope.value.get("durable_objects") {
        None => {}
        Some(Value::Object(_)) => lists.push(vec![Step::from("durable_objects"), Step::from("bindings")]),
        Some(_) => report_shape(config, &scope.path(&[Step::from("durable_objects")]), "an object", findings),
    }
    for keys in lists {
        let value = keys.iter().try_fold(scope.value, |value, step| match step {
            Step::Key(key) => value.get(key),
            Step::Index(index) => value.get(index),
        });
        match value {
            None => {}
            // wrangler treats null as absent here, but not inside `durable_objects`.
            Some(Value::Null) if keys.len() == 1 => {}
            Some(Value::Array(elements)) => {
                for (index, element) in elements.iter().enumerate() {
                    let path = || [scope.path(&keys), vec![Step::Index(index)]].concat();
                    if !element.is_object() {
                        report_shape(config, &path(), "an object", findings);
                    }
                    for key in ["name", "class_name", "image"] {
                        if element.get(key).is_some_and(|value| !value.is_string()) {
                            let path = [path(), vec![Step::from(key)]].concat();
                            report_shape(config, &path, "a string", findings);
                        }
                    }
                }
            }
            Some(_) => report_shape(config, &scope.path(&keys), "an array", findings),
        }
    }
    match scope.get("exports") {
        None | Some(Value::Object(_)) => {}
        Some(_) => report_shape(config, &scope.path(&[Step::from("exports")]), "an object", findings),
    }
}

fn report_shape(config: &Config, path: &[Step], expected: &'static str, findings: &mut Findings) {
    findings.add(Rule::ConfigShape { path: dotted(path), expected }, Some(config.place(path)));
}

/// Formats a path for messages: `env.staging.containers[0]`.
pub fn dotted(path: &[Step]) -> String {
    use std::fmt::Write as _;
    path.iter().fold(String::new(), |mut text, step| {
        let _ = match step {
            Step::Key(key) if text.is_empty() => write!(text, "{key}"),
            Step::Key(key) => write!(text, ".{key}"),
            Step::Index(index) => write!(text, "[{index}]"),
        };
        text
    })
}
