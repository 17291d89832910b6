//! Checks that a Worker has what the tools `script` need: the registry, which keeps their state, and the feature of the crate
//! `koze`.

use std::sync::Arc;

use toml_edit::{Document, Item};

use crate::discover::Project;
use crate::draft::Draft;
use crate::finding::{Findings, Place};
use crate::rules::Rule;
use crate::source::split_mark;
use crate::write::input;

/// The crate, and its features. That of the browser includes the other.
const NAME: &str = "koze";
const SCRIPT: &str = "script";
const BROWSER: &str = "browser";

/// Adds the findings about the manifest of a Worker that serves scripts, as the draft leaves it.
pub fn check(project: &Project, draft: &Draft, findings: &mut Findings) {
    let path = project.dir.join("Cargo.toml");
    let drafted = draft.file(&path).flatten().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let Some(text) = drafted.or_else(|| input::read_text_in(&project.dir, &path).ok()) else { return };
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
    // One finding, whose step is enough: the feature of the browser includes that of scripts.
    if project.worker_scripts().is_some_and(|scripts| scripts.browser) {
        if let Some(dependency) = find_lacking(&document, project, &[BROWSER]) {
            findings.add(Rule::BrowserWithoutFeature {}, place(dependency.span()));
        }
    } else if let Some(dependency) = find_lacking(&document, project, &[SCRIPT, BROWSER]) {
        findings.add(Rule::ScriptsWithoutFeature {}, place(dependency.span()));
    }
}

/// Returns the dependency if it lacks all of these features. Returns nothing if that cannot be known: the compiler will say it.
fn find_lacking<'d>(document: &'d Document<&str>, project: &Project, any: &[&str]) -> Option<&'d Item> {
    let declared = all_declared(document, NAME);
    let (_, first) = declared.first()?;
    let has = |(key, item): &(&str, &Item)| {
        has_feature(item, any) || (is_inherited(item) && has_inherited_feature(key, project, any))
    };
    (!declared.iter().any(has) && !is_mentioned(document, any)).then_some(*first)
}

/// Returns whether the workspace's dependency lists one of the features, or that is unknown.
fn has_inherited_feature(key: &str, project: &Project, any: &[&str]) -> bool {
    let Some(manifest) = find_workspace(project) else { return true };
    let Ok(manifest) = Document::parse(split_mark(&manifest).1) else { return true };
    let dependency =
        |manifest: &Item| manifest.get("dependencies")?.get(key).map(|one| has_feature(one, any));
    manifest.get("workspace").and_then(dependency).unwrap_or(true)
}

/// Returns whether a dependency lists one of the features.
fn has_feature(dependency: &Item, any: &[&str]) -> bool {
    let features = dependency.get("features").and_then(Item::as_array);
    features.is_some_and(|list| list.iter().filter_map(|one| one.as_str()).any(|one| any.contains(&one)))
}

/// Returns whether a feature of the package enables one of the crate's.
fn is_mentioned(document: &Document<&str>, any: &[&str]) -> bool {
    let features = document.get("features").and_then(Item::as_table_like);
    let mut enabled = features
        .into_iter()
        .flat_map(|features| features.iter())
        .filter_map(|(_, list)| list.as_array())
        .flatten();
    let of_the_crate =
        |one: &str| any.iter().any(|feature| one.replace('?', "") == format!("{NAME}/{feature}"));
    enabled.any(|one| one.as_str().is_some_and(of_the_crate))
}

/// Returns all declarations of a dependency, for every target or for some.
fn all_declared<'d>(document: &'d Document<&str>, name: &str) -> Vec<(&'d str, &'d Item)> {
    let targets = document.get("target").and_then(Item::as_table_like);
    let targets = targets
        .into_iter()
        .flat_map(|targets| targets.iter().filter_map(|(_, target)| target.get("dependencies")));
    let lists = document.get("dependencies").into_iter().chain(targets);
    let entries = lists.filter_map(Item::as_table_like).flat_map(|list| list.iter());
    entries.filter(|(key, item)| item.get("package").and_then(Item::as_str).unwrap_or(key) == name).collect()
}

/// Returns whether a dependency is that of the workspace.
fn is_inherited(item: &Item) -> bool {
    item.get("workspace").and_then(Item::as_bool) == Some(true)
}

/// Returns the manifest of the surrounding workspace.
fn find_workspace(project: &Project) -> Option<String> {
    project.dir.ancestors().find_map(|dir| {
        let text = input::read_text_in(dir, &dir.join("Cargo.toml")).ok()?;
        let is_root = Document::parse(split_mark(&text).1).ok()?.contains_key("workspace");
        is_root.then_some(text)
    })
}
