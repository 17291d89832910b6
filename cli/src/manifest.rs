//! What koze needs of a `Cargo.toml`: the package's name and `package.metadata.koze`.

use std::path::Path;
use std::sync::Arc;

use koze_model::Rule;
use koze_model::rules::nearest;
use toml_edit::{Document, Item};

use crate::finding::{Findings, Place, Stop};

/// The keys of `package.metadata.koze`; `sandbox-sdk` is that of the crate `koze` itself.
const KEYS: &[&str] = &["environments", "sandbox-sdk"];

/// A manifest.
#[derive(Debug)]
pub struct Manifest {
    /// `package.name`; `None` where the manifest has no `[package]`.
    pub name: Option<String>,
    /// `package.metadata.koze.environments`: the environments koze keeps in step; `None` means all of them.
    pub environments: Option<Vec<String>>,
}

/// Reads a manifest.
pub fn read(path: &Path, findings: &mut Findings) -> Result<Manifest, Stop> {
    let text = match fs_err::read_to_string(path) {
        Ok(text) => text,
        Err(error) => return findings.io(&error),
    };
    let place = |range| Some(Place { file: "Cargo.toml".to_owned(), text: Arc::from(text.as_str()), range });
    let document = match text.parse::<Document<String>>() {
        Ok(document) => document,
        Err(error) => {
            let message = error.message().trim().to_owned();
            return findings.fail(Rule::BadManifest { message }, place(error.span()));
        }
    };
    let Some(package) = document.get("package") else {
        return Ok(Manifest { name: None, environments: None });
    };
    let Some(name) = package.get("name").and_then(Item::as_str) else {
        let message = "`[package]` has no `name`".to_owned();
        return findings.fail(Rule::BadManifest { message }, place(package.span()));
    };
    let koze = package.get("metadata").and_then(|metadata| metadata.get("koze"));
    let mut environments = None;
    for (key, value) in koze.and_then(Item::as_table_like).into_iter().flat_map(|table| table.iter()) {
        if !KEYS.contains(&key) {
            let near =
                nearest(key, KEYS).map_or(String::new(), |near| format!("; the nearest one is `{near}`"));
            let message = format!("`package.metadata.koze` has no key `{key}`{near}");
            findings.add(Rule::BadManifest { message }, place(value.span()));
        }
        if key == "environments" {
            let list = value.as_array().map(|list| list.iter().map(|name| name.as_str().map(str::to_owned)));
            environments = list.and_then(Iterator::collect);
            if environments.is_none() {
                let message = "`package.metadata.koze.environments` takes a list of names".to_owned();
                findings.add(Rule::BadManifest { message }, place(value.span()));
            }
        }
    }
    Ok(Manifest { name: Some(name.to_owned()), environments })
}
