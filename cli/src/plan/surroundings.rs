//! Warns about settings that koze does not write but that break the project.

use koze_edit::{Edit, Step};

use super::Inputs;
use crate::finding::Findings;
use crate::rules::Rule;
use crate::wrangler::legacy;
use crate::wrangler::level::Level;
use crate::wrangler::locate::Config;
use crate::write::input;
use crate::{generate, paths};

/// Warns about settings that koze does not write but that break the project.
pub(super) fn check(inputs: &Inputs, level: &Level, findings: &mut Findings) {
    let Inputs { project, config, sandboxes, .. } = inputs;
    let declared = sandboxes.list.iter().filter_map(|sandbox| sandbox.attributes.renamed_from.as_ref());
    let mut renamed = declared.map(|old| &old.value).chain(inputs.draft.renames.iter().map(|(old, _)| old));
    if !renamed.any(|old| old == legacy::CLASS) {
        check_legacy(level, config, findings);
    }
    check_date(inputs, level, findings);
    let entry = project.dir.join(generate::ENTRY);
    let at = level.scope.path(&[Step::from("main")]);
    if inputs.draft.settings.iter().any(|edit| matches!(edit, Edit::Set { path, .. } if *path == at)) {
        return;
    }
    let main = level.scope.get("main").and_then(|main| main.as_str());
    if check_site(inputs, level, main, findings) {
        return;
    }
    if level.scope.environment.is_some() && main.is_none() {
        return;
    }
    if !main.is_some_and(|main| has_class_exports(inputs, main)) {
        let entry = paths::relative(&entry, config.dir());
        let mut place = config.place(&at);
        if main.is_none() {
            place.range = None;
        }
        findings.add(Rule::MainElsewhere { main: main.map(str::to_owned), entry }, Some(place));
    }
}

/// Returns whether a file named in the configuration exports the sandbox classes.
fn has_class_exports(inputs: &Inputs, main: &str) -> bool {
    let path = paths::normal(&inputs.config.dir().join(main));
    let re_exports = |text: String| text.contains("generated/worker.mjs");
    path == inputs.project.dir.join(generate::ENTRY) || input::read_text(&path).is_ok_and(re_exports)
}

/// Warns about the entry point of a site, which is the Worker's if there is no `main`. Returns whether there is one.
fn check_site(inputs: &Inputs, level: &Level, main: Option<&str>, findings: &mut Findings) -> bool {
    let site = level.scope.get("site").filter(|_| level.scope.environment.is_none());
    let Some(site) = site.and_then(|site| site.get("entry-point")?.as_str()) else { return false };
    if main.is_some() || !has_class_exports(inputs, site) {
        let entry = paths::relative(&inputs.project.dir.join(generate::ENTRY), inputs.config.dir());
        let rule = Rule::SiteEntryPoint { site: site.to_owned(), main: main.map(str::to_owned), entry };
        let path = level.scope.path(&[Step::from("site"), Step::from("entry-point")]);
        findings.add(rule, Some(inputs.config.place(&path)));
    }
    true
}

/// Warns about a container of the class of earlier versions.
pub(super) fn check_legacy(level: &Level, config: &Config, findings: &mut Findings) {
    if let Some(index) = level.containers.of_classes([legacy::CLASS].into_iter()).first() {
        let path = level.scope.path(&[Step::from("containers"), Step::from(*index)]);
        findings.add(Rule::LegacySandbox {}, Some(config.place(&path)));
    }
}

/// The compatibility date from which workerd intercepts a container's HTTPS traffic.
const INTERCEPTION: &str = "2026-04-21";

/// Checks the compatibility date: an egress policy is enforced only if traffic is intercepted. Environments inherit the
/// date of the top level.
fn check_date(inputs: &Inputs, level: &Level, findings: &mut Findings) {
    let policy = inputs.sandboxes.list.iter().any(|sandbox| sandbox.attributes.has_egress_policy());
    let date = level.scope.get("compatibility_date").and_then(|date| date.as_str());
    if !policy || (level.scope.environment.is_some() && date.is_none()) {
        return;
    }
    // Dates in this format sort alphabetically.
    if date.is_none_or(|date| date < INTERCEPTION) {
        let mut place = inputs.config.place(&level.scope.path(&[Step::from("compatibility_date")]));
        if date.is_none() {
            place.range = None;
        }
        let rule = Rule::DateTooOld { date: date.map(str::to_owned), needed: INTERCEPTION };
        findings.add(rule, Some(place));
    }
}
