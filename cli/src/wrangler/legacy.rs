//! The pattern of earlier versions: a hand-written container of the SDK's own class, `Sandbox`.

use serde_json::Value;

use super::scope::Scope;

/// The class. Sandboxes of koze cannot have this name.
pub const CLASS: &str = "Sandbox";

/// The entries of the class in a configuration.
#[derive(Debug)]
pub struct Legacy<'a> {
    /// Its containers, at all levels.
    pub containers: Vec<&'a Value>,
    /// The names of its bindings.
    pub bindings: Vec<&'a str>,
}

impl<'a> Legacy<'a> {
    /// Finds the entries at all levels.
    pub fn find(scopes: &[Scope<'a>]) -> Self {
        let of_class = |list: &'a [Value]| {
            list.iter().filter(|entry| entry.get("class_name").and_then(Value::as_str) == Some(CLASS))
        };
        let containers = scopes.iter().flat_map(|scope| of_class(scope.list(&["containers"]))).collect();
        let bindings = scopes.iter().flat_map(|scope| of_class(scope.list(&["durable_objects", "bindings"])));
        let mut bindings: Vec<&str> =
            bindings.filter_map(|binding| binding.get("name").and_then(Value::as_str)).collect();
        bindings.sort_unstable();
        bindings.dedup();
        Legacy { containers, bindings }
    }
}
