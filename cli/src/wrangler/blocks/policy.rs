//! The scheduling policy of a container: who starts it, and so which keys its entry has.

use koze_edit::{Path, Step};
use koze_model::Backend;
use serde_json::{Map, Value};

use super::Wanted;
use crate::finding::{Finding, Findings};
use crate::rules::Rule;
use crate::wrangler::locate::Config;

/// The policy under which the Durable Object starts its container, with an image and a size of its choice.
pub(crate) const DURABLE_OBJECT: &str = "durable_object";

/// The keys of an entry with this policy, all that wrangler 4.164.0 accepts.
const KEYS: [&str; 8] = [
    "name",
    "class_name",
    "scheduling_policy",
    "images",
    "observability",
    "ssh",
    "authorized_keys",
    "unsafe",
];

impl Wanted<'_> {
    /// Checks that an entry at `path` has the policy of the sandbox's backend, and only keys of this policy. `owned` are
    /// the keys that koze wrote, and rewrites.
    ///
    /// | the entry | the backend | result |
    /// |---|---|---|
    /// | `durable_object` | `sdk` or `native` | K078 |
    /// | another policy, and not koze's | `managed` | K078 |
    /// | another policy, and koze's | `managed` | the application gets a new name, as its policy cannot change |
    /// | `durable_object` and a key that this policy does not have | `managed` | K100 |
    pub(super) fn check_policy(
        &self,
        entry: &Map<String, Value>,
        path: &Path,
        owned: &dyn Fn(&str) -> bool,
        config: &Config,
        findings: &mut Findings,
    ) {
        let policy = entry.get("scheduling_policy").and_then(Value::as_str);
        let at = |key: &str| [path.clone(), vec![Step::from(key)]].concat();
        let mut add = |rule: Rule, path: Path| {
            let also = vec![(self.place.clone(), "the sandbox".to_owned())];
            findings.push(Finding { rule, place: Some(config.place(&path)), also });
        };
        let class = self.sandbox.class.value.clone();
        let backend = self.sandbox.attributes.backend();
        let name = self.sandbox.names.base.clone();
        if policy == Some(DURABLE_OBJECT) && backend != Backend::Managed {
            add(Rule::SchedulingPolicy { class, backend }, at("scheduling_policy"));
        } else if backend == Backend::Managed {
            if policy != Some(DURABLE_OBJECT) && self.locked.is_none() {
                add(Rule::DefaultPolicy { class, name }, path.clone());
                return;
            }
            let refused = entry.keys().filter(|key| !KEYS.contains(&key.as_str()) && !owned(key));
            for key in refused {
                add(Rule::NotOfPolicy { key: key.clone(), class: class.clone() }, at(key));
            }
        }
    }
}
