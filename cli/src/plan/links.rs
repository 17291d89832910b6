//! Keeps the links from classes to containers: `container` of an entry in `exports` names a container of the level.

use std::collections::BTreeMap;

use koze_edit::Step;
use serde_json::Value;

use super::fate::Fate;
use super::sandbox::Planning;
use crate::finding::{Finding, Findings, Place};
use crate::rules::Rule;
use crate::wrangler::level::Level;
use crate::wrangler::locate::Config;
use crate::wrangler::scope::{Link, dotted};

/// The links to change: the environment whose map has the link, the class there, and the container's new name. `None`
/// removes the link.
#[derive(Default)]
pub(super) struct Links(BTreeMap<(Option<String>, String), Option<String>>);

impl Links {
    /// Returns the links to change in the map of one level.
    pub(super) fn changes_at(&self, environment: Option<&String>) -> BTreeMap<String, Option<String>> {
        let is_here = |((owner, _), _): &(&(Option<String>, String), _)| owner.as_ref() == environment;
        self.0.iter().filter(is_here).map(|((_, class), name)| (class.clone(), name.clone())).collect()
    }

    /// Compares the links that apply to a level with its containers, after those were reconciled:
    ///
    /// | the container of the class | the link | what happens |
    /// |---|---|---|
    /// | keeps the name of the link | | nothing |
    /// | had that name, and koze renames it | declared at this level | the link follows |
    /// | is removed, and the class stays | declared at this level | the link is removed |
    /// | has another name, or another class has a link to it | | an error |
    /// | has another name | inherited from the top level | an error: a link cannot differ between environments |
    pub(super) fn reconcile(
        &mut self,
        level: &Level,
        sandboxes: &[Planning],
        fate: &Fate,
        config: &Config,
        findings: &mut Findings,
    ) {
        let scope = level.scope;
        for planning in sandboxes {
            self.reconcile_class(level, planning, config, findings);
        }
        for locked in &fate.shelved {
            let link = scope.link(&locked.class).filter(|link| link.environment == scope.environment);
            if let Some(link) = link {
                self.0.insert((link.environment, link.class.to_owned()), None);
            }
        }
    }

    fn reconcile_class(
        &mut self,
        level: &Level,
        planning: &Planning,
        config: &Config,
        findings: &mut Findings,
    ) {
        let scope = level.scope;
        let wanted = &planning.wanted;
        let own = level.containers.of_classes(wanted.classes()).first().copied();
        // Only for findings: most builds need no places, which are found in the structure of the whole configuration.
        let place =
            || own.map(|index| config.place(&scope.path(&[Step::from("containers"), Step::from(index)])));
        let present = own.and_then(|index| level.containers.list[index].get("name").and_then(Value::as_str));
        let is_other = |link: &Link| !wanted.classes().any(|class| class == link.class);
        if let Some(other) = present.and_then(|name| scope.links_to(name).into_iter().find(is_other)) {
            let message = format!(
                "`exports` links the class `{}` to the container `{}`, which belongs to `{}`",
                other.class, other.name, wanted.sandbox.class.value
            );
            let remedy = "a container has one class: remove `container` here, or give it the name of another container";
            findings.push(contradiction(message, remedy.to_owned(), &other, place(), planning, config));
        }
        let Some(link) = wanted.classes().find_map(|class| scope.link(class)) else { return };
        let Some(entry) = planning.entries.get(&scope.environment) else { return };
        let key = (link.environment.clone(), link.class.to_owned());
        let linked = self.0.get(&key).cloned().flatten().unwrap_or_else(|| link.name.to_owned());
        if entry.container == linked {
            return;
        }
        let is_declared_here = link.environment == scope.environment;
        if is_declared_here && present == Some(link.name) && !entry.container.is_empty() {
            self.0.insert(key, Some(entry.container.clone()));
            return;
        }
        let containers = dotted(&scope.path(&[Step::from("containers")]));
        let found = match entry.container.as_str() {
            "" => format!("its entry in `{containers}` has no `name`"),
            name => format!("its entry in `{containers}` is `{name}`"),
        };
        let message =
            format!("`exports` links the class `{}` to the container `{linked}`, but {found}", link.class);
        let remedy = if is_declared_here {
            "make both the same, or remove `container` here and write `class_name` in the container"
                .to_owned()
        } else {
            format!(
                "`{containers}` inherits this link: remove `container` here and write `class_name` in the containers, or give this environment `exports` of its own"
            )
        };
        findings.push(contradiction(message, remedy, &link, place(), planning, config));
    }
}

/// Returns a finding at a link, which shows the container too, or the sandbox if there is no container.
fn contradiction(
    message: String,
    remedy: String,
    link: &Link,
    container: Option<Place>,
    planning: &Planning,
    config: &Config,
) -> Finding {
    let also = match container {
        Some(place) => (place, "the container".to_owned()),
        None => (planning.wanted.place.clone(), "the sandbox".to_owned()),
    };
    Finding {
        rule: Rule::Contradiction { message, remedy },
        place: Some(config.place(&link.path)),
        also: vec![also],
    }
}
