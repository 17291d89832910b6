//! What koze needs of a `Cargo.toml`: the package's name and `package.metadata.koze`.

use std::path::Path;
use std::sync::Arc;

use koze_model::Rule;
use koze_model::rules::nearest;
use toml_edit::{Array, Document, DocumentMut, InlineTable, Item, Table, Value, value};

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

/// Whether a manifest has a dependency, by itself or for a target.
pub fn depends(text: &str, name: &str) -> bool {
    let Ok(document) = text.parse::<Document<String>>() else { return false };
    let lists = |table: &Item| table.get("dependencies").is_some_and(|list| list.get(name).is_some());
    let targets = document.get("target").and_then(Item::as_table_like);
    lists(document.as_item())
        || targets.is_some_and(|targets| targets.iter().any(|(_, target)| lists(target)))
}

/// The path of the library's root, where the manifest names one.
pub fn library(dir: &Path) -> Option<String> {
    let text = fs_err::read_to_string(dir.join("Cargo.toml")).ok()?;
    let document = text.parse::<Document<String>>().ok()?;
    Some(document.get("lib")?.get("path")?.as_str()?.to_owned())
}

/// A manifest with the dependency on the crate `koze` at a path, where one is given, and with a library of the kind
/// that worker-build takes.
///
/// # Errors
/// Where it does not parse, or has something else where these belong.
pub fn of_a_worker(text: &str, koze: Option<&str>) -> Result<String, String> {
    // toml_edit writes neither carriage returns nor a byte order mark.
    let (mark, body) = text.strip_prefix('\u{feff}').map_or(("", text), |body| ("\u{feff}", body));
    let crlf = body.contains("\r\n");
    let mut document: DocumentMut =
        body.parse().map_err(|error: toml_edit::TomlError| error.message().trim().to_owned())?;
    let form = |key: &str| format!("`{key}` is not a table");
    if document.get("lib").is_none_or(|lib| lib.get("crate-type").is_none()) {
        let lib = document.entry("lib").or_insert(Item::Table(Table::new()));
        let lib = lib.as_table_like_mut().ok_or_else(|| form("lib"))?;
        lib.insert("crate-type", value(Array::from_iter(["cdylib", "rlib"])));
    }
    if let Some(path) = koze {
        let list = document.entry("dependencies").or_insert(Item::Table(Table::new()));
        let list = list.as_table_like_mut().ok_or_else(|| form("dependencies"))?;
        list.insert("koze", value(InlineTable::from_iter([("path", Value::from(path))])));
    }
    let printed = document.to_string();
    let printed = if crlf { printed.replace("\r\n", "\n").replace('\n', "\r\n") } else { printed };
    Ok(format!("{mark}{printed}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "[package] # mine\nname = \"a\"\n\n[dependencies]\nworker = \"0.8\"   # the Worker\n";

    #[test]
    fn a_dependency_and_a_library() {
        assert_eq!(
            of_a_worker(PLAIN, Some("../koze")).unwrap(),
            "[package] # mine\nname = \"a\"\n\n[dependencies]\nworker = \"0.8\"   # the Worker\nkoze = { path = \"../koze\" }\n\n[lib]\ncrate-type = [\"cdylib\", \"rlib\"]\n"
        );
    }

    #[test]
    fn what_is_there_stays() {
        let text = of_a_worker(PLAIN, Some("../koze")).unwrap();
        assert_eq!(of_a_worker(&text, None).unwrap(), text);
        assert!(depends(&text, "koze") && !depends(PLAIN, "koze"));
        assert!(depends("[target.'cfg(unix)'.dependencies]\nkoze = \"1\"\n", "koze"));
        assert!(depends("[dependencies.koze]\nversion = \"1\"\n", "koze"));
    }

    #[test]
    fn line_ends_and_a_byte_order_mark_stay() {
        let text = format!("\u{feff}{}", PLAIN.replace('\n', "\r\n"));
        let edited = of_a_worker(&text, Some("x")).unwrap();
        assert!(edited.starts_with(text.trim_end()), "{edited:?}");
        assert_eq!(edited.matches('\n').count(), edited.matches("\r\n").count(), "{edited:?}");
    }

    #[test]
    fn what_is_no_table_is_an_error() {
        assert_eq!(
            of_a_worker("dependencies = 1\n[lib]\ncrate-type = []\n", Some("x")).unwrap_err(),
            "`dependencies` is not a table"
        );
        assert!(of_a_worker("[", None).is_err());
    }
}
