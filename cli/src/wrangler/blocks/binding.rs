//! Reconciles the binding of a sandbox at one level.

use std::collections::BTreeSet;

use koze_edit::{Edit, Step};
use serde_json::{Value, json};

use super::{Outcome, Wanted};
use crate::finding::Findings;
use crate::wrangler::level::Level;
use crate::wrangler::locate::Config;
use crate::wrangler::scope::dotted;

impl Wanted<'_> {
    /// Reconciles the binding at one level; `moving` holds the indices of bindings that belong to sandboxes.
    pub fn reconcile_binding(
        &self,
        level: &Level,
        moving: &BTreeSet<usize>,
        config: &Config,
        findings: &mut Findings,
    ) -> Outcome {
        let class = self.sandbox.class.value.as_str();
        let binding = self.sandbox.names.binding.as_str();
        let keys = [Step::from("durable_objects"), Step::from("bindings")];
        let at = |index: usize, key: Option<&str>| {
            let mut path = level.scope.path(&keys);
            path.push(Step::from(index));
            path.extend(key.map(Step::from));
            path
        };
        let mut outcome = Outcome::default();
        let text = |index: usize, key: &str| level.bindings.list[index].get(key).and_then(Value::as_str);

        if let Some((index, script)) = elsewhere(class, level) {
            let name = text(index, "name").unwrap_or_default();
            let (message, remedy) = if name == binding {
                let remedy = "the class of a sandbox is in this Worker: remove `script_name`".to_owned();
                (format!("the binding `{binding}` belongs to another Worker"), remedy)
            } else {
                let remedy = format!(
                    "the class of a sandbox is in this Worker: remove `script_name`, or rename the struct in `{}` if you mean the class of `{script}`",
                    self.sandbox.file
                );
                (
                    format!("the binding `{name}` has the class `{class}` of another Worker, `{script}`"),
                    remedy,
                )
            };
            self.report_contradiction(message, &remedy, &at(index, Some("script_name")), config, findings);
            return outcome;
        }
        let own = self.own_binding(level);
        let named = level
            .bindings
            .named(binding)
            .iter()
            .find(|index| Some(**index) != own && !moving.contains(*index));
        if let Some(index) = named {
            let other = text(*index, "class_name").unwrap_or_default();
            let (message, remedy) = if other == class {
                (format!("duplicate binding `{binding}`"), "remove one of them".to_owned())
            } else {
                let remedy = format!(
                    "`{}` gives this binding to `{class}`: rename the file, or the binding",
                    self.sandbox.file
                );
                (format!("the binding `{binding}` has the class `{other}`"), remedy)
            };
            self.report_contradiction(message, &remedy, &at(*index, None), config, findings);
            return outcome;
        }
        if let Some(path) = level.others.get(binding) {
            let message = format!("`{binding}` is the name of a binding of another kind");
            let remedy = format!(
                "names must be unique in `env`: `{}` gives this one to `{class}`; rename the file or the other binding",
                self.sandbox.file
            );
            self.report_contradiction(message, &remedy, path, config, findings);
            return outcome;
        }
        match own {
            None => {
                let value = json!({ "name": binding, "class_name": class });
                outcome.edits.push(Edit::Push { path: level.scope.path(&keys), value });
            }
            Some(index) => {
                for (key, value) in [("name", binding), ("class_name", class)] {
                    if text(index, key) != Some(value) {
                        outcome.edits.push(Edit::Set { path: at(index, Some(key)), value: json!(value) });
                    }
                }
                if self.locked.is_none() && self.kept.is_none() {
                    outcome.adopted.push(format!("adopted the binding at `{}`", dotted(&at(index, None))));
                }
            }
        }
        // Other bindings of a renamed class would name a class that no longer exists.
        for index in self.old.map(|old| level.bindings.of_classes([old].into_iter())).unwrap_or_default() {
            if Some(index) != own && text(index, "script_name").is_none() {
                outcome.edits.push(Edit::Set { path: at(index, Some("class_name")), value: json!(class) });
            }
        }
        outcome
    }

    /// Returns the index of this sandbox's binding: the locked one, the one with its name and class, or any one of a
    /// renamed class.
    pub fn own_binding(&self, level: &Level) -> Option<usize> {
        let own = level.bindings.of_classes(self.classes());
        let named = |name: &str| own.iter().copied().find(|index| level.bindings.named(name).contains(index));
        let locked = self.locked.map(|locked| &locked.binding).or(self.kept.map(|kept| &kept.binding));
        locked
            .and_then(|binding| named(binding))
            .or_else(|| named(&self.sandbox.names.binding))
            .or_else(|| level.bindings.of_classes(self.old.into_iter()).first().copied())
    }
}

/// Returns a binding to a class of the same name in another Worker, with that Worker's name.
pub fn elsewhere<'a>(class: &str, level: &Level<'a>) -> Option<(usize, &'a str)> {
    let indices = level.bindings.of_classes([class].into_iter());
    indices.into_iter().find_map(|index| {
        let list: &'a [Value] = level.bindings.list;
        Some((index, list[index].get("script_name")?.as_str()?))
    })
}
