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
        let mut containers = Vec::new();
        let mut bindings = Vec::new();
        for scope in scopes {
            let of_class = |container: &&Value| scope.container_class(container) == Some(CLASS);
            containers.extend(scope.list(&["containers"]).iter().filter(of_class));
            let of_class = |binding: &&Value| binding["class_name"] == CLASS;
            let of_class = scope.list(&["durable_objects", "bindings"]).iter().filter(of_class);
            bindings.extend(of_class.filter_map(|binding| binding.get("name").and_then(Value::as_str)));
        }
        bindings.sort_unstable();
        bindings.dedup();
        Legacy { containers, bindings }
    }
}
