//! Checks that a Worker has what the tools `script` need: the registry, which keeps their state, and the feature of the crate
//! `koze`.

use std::sync::Arc;

use toml_edit::{Document, Item};

use crate::discover::Project;
use crate::draft::Draft;
use crate::finding::{Findings, Place};
use crate::rules::Rule;
use crate::source::split_mark;
use crate::worker_crate::{all_declared, is_inherited, workspace};

/// The crate, and its feature.
const NAME: &str = "koze";
const FEATURE: &str = "script";

/// Adds the findings about the manifest of a Worker that serves scripts, as the draft leaves it.
pub fn check(project: &Project, draft: &Draft, findings: &mut Findings) {
    let path = project.dir.join("Cargo.toml");
    let drafted = draft.file(&path).flatten().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let Some(text) = drafted.or_else(|| fs_err::read_to_string(&path).ok()) else { return };
    let text = split_mark(&text).1;
    let Ok(document) = Document::parse(text) else { return };
    let place = |range| Some(Place { file: "Cargo.toml".to_owned(), text: Arc::from(text), range });
    if !project.registry {
        let table = ["metadata", "koze", "script"]
            .into_iter()
            .try_fold(document.get("package"), |item, key| item.map(|item| item.get(key)));
        let range = table.flatten().and_then(Item::span);
        findings.add(Rule::ScriptsWithoutRegistry {}, place(range));
    }
    if let Some(dependency) = lacking(&document, project) {
        findings.add(Rule::ScriptsWithoutFeature {}, place(dependency.span()));
    }
}

/// Returns the dependency if it lacks the feature. Returns nothing if that cannot be known: the compiler will say it.
fn lacking<'d>(document: &'d Document<&str>, project: &Project) -> Option<&'d Item> {
    let declared = all_declared(document, NAME);
    let (_, first) = declared.first()?;
    let has = |(key, item): &(&str, &Item)| lists(item) || (is_inherited(item) && inherits(key, project));
    (!declared.iter().any(has) && !is_mentioned(document)).then_some(*first)
}

/// Returns whether the workspace's dependency lists the feature, or nobody knows.
fn inherits(key: &str, project: &Project) -> bool {
    let Some((_, text)) = workspace(project) else { return true };
    let Ok(manifest) = Document::parse(split_mark(&text).1) else { return true };
    let dependency = |manifest: &Item| manifest.get("dependencies")?.get(key).map(lists);
    manifest.get("workspace").and_then(dependency).unwrap_or(true)
}

/// Returns whether a dependency lists the feature.
fn lists(dependency: &Item) -> bool {
    let features = dependency.get("features").and_then(Item::as_array);
    features.is_some_and(|list| list.iter().any(|one| one.as_str() == Some(FEATURE)))
}

/// Returns whether a feature of the package enables that of the crate.
fn is_mentioned(document: &Document<&str>) -> bool {
    let features = document.get("features").and_then(Item::as_table_like);
    let mut enabled = features
        .into_iter()
        .flat_map(|features| features.iter())
        .filter_map(|(_, list)| list.as_array())
        .flatten();
    enabled.any(|one| one.as_str().is_some_and(|one| one.replace('?', "") == format!("{NAME}/{FEATURE}")))
}
