//! A stage of a Dockerfile that is being built: its image so far, and its settings.

use koze_image::{DEFAULT_PATH, Image};
use serde_json::{Map, Value, json};

/// The shell of commands that are texts.
const SHELL: [&str; 2] = ["/bin/sh", "-c"];

/// A stage that is being built.
pub(super) struct State {
    /// `None` is an image without files and settings.
    pub(super) image: Option<Image>,
    /// The `config` section of its configuration.
    pub(super) settings: Map<String, Value>,
    pub(super) args: Vec<(String, String)>,
    /// Whether the stage has a `CMD`, which an `ENTRYPOINT` then leaves alone.
    pub(super) has_command: bool,
}

impl State {
    /// Begins a stage on an image.
    pub(super) fn new(image: Option<Image>, settings: Map<String, Value>) -> Self {
        State { image, settings, args: Vec::new(), has_command: false }
    }

    /// Returns the value of a variable. `ENV` comes before `ARG`.
    pub(super) fn find_variable(&self, name: &str) -> Option<String> {
        let found = self.find_in_env(name).or_else(|| find_value(&self.args, name));
        // Programs have this one, too, if the image sets none.
        found.or_else(|| (name == "PATH").then(|| DEFAULT_PATH.to_owned()))
    }

    /// Returns the value of an environment variable of the image.
    pub(super) fn find_in_env(&self, name: &str) -> Option<String> {
        let variables = self.settings.get("Env")?.as_array()?;
        let mut pairs = variables.iter().filter_map(|variable| variable.as_str()?.split_once('='));
        pairs.find(|(known, _)| *known == name).map(|(_, value)| value.to_owned())
    }

    /// Sets an environment variable of the image.
    pub(super) fn set_variable(&mut self, name: &str, value: &str) {
        let mut variables = self.settings.get("Env").and_then(Value::as_array).cloned().unwrap_or_default();
        let is_it =
            |variable: &Value| variable.as_str().is_some_and(|text| text.split('=').next() == Some(name));
        let new = json!(format!("{name}={value}"));
        match variables.iter_mut().find(|variable| is_it(variable)) {
            Some(known) => *known = new,
            None => variables.push(new),
        }
        self.settings.insert("Env".to_owned(), Value::Array(variables));
    }

    /// Returns a section of the settings that has names.
    pub(super) fn section(&mut self, name: &str) -> &mut Map<String, Value> {
        let value = self.settings.entry(name).or_insert_with(|| json!({}));
        if !value.is_object() {
            *value = json!({});
        }
        value.as_object_mut().expect("it was just set")
    }

    /// Returns the working directory.
    pub(super) fn working_dir(&self) -> String {
        let directory = self.settings.get("WorkingDir").and_then(Value::as_str).unwrap_or_default();
        if directory.is_empty() { "/".to_owned() } else { directory.to_owned() }
    }

    /// Returns the command of the shell for a text.
    pub(super) fn to_shell_argv(&self, text: String) -> Vec<String> {
        let shell = self.settings.get("Shell").and_then(Value::as_array);
        let declared =
            shell.map(|words| words.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>());
        let mut argv = declared.unwrap_or_else(|| SHELL.map(str::to_owned).to_vec());
        argv.push(text);
        argv
    }
}

/// Returns the last value of a name.
pub(super) fn find_value(pairs: &[(String, String)], name: &str) -> Option<String> {
    pairs.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.clone())
}
