//! The parts of a `Cargo.toml` that koze uses: the package's name and `package.metadata.koze`.

mod script;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use koze_core::journal::JournalSettings;
use koze_core::provider::LocalImage;
use koze_model::depth;
use koze_model::rules::{listed, nearest};
use toml_edit::{Document, Item, TableLike};

pub use self::script::ScriptTable;
use crate::finding::{Findings, Place, Stop};
use crate::rules::Rule;
use crate::source::{module, split_mark};
use crate::write::input;

/// The keys of `package.metadata.koze`; the crate `koze` itself has `sandbox-sdk`.
const KEYS: &[&str] = &["environments", "journal", "local", "registry", "sandbox-sdk", "script"];

/// The keys of `package.metadata.koze.journal`.
const JOURNAL_KEYS: &[&str] = &["enabled", "inputs", "results"];

/// The keys of `package.metadata.koze.local`.
const LOCAL_KEYS: &[&str] = &["image"];

/// The default library root.
pub const LIBRARY: &str = "src/lib.rs";

/// A manifest.
#[derive(Debug)]
pub struct Manifest {
    /// `package.name`; `None` if the manifest has no `[package]`.
    pub name: Option<String>,
    /// `package.metadata.koze.environments`: the environments that koze manages; `None` means all.
    pub environments: Option<Vec<String>>,
    /// `package.metadata.koze.registry`: whether the Worker records the sandboxes of its sessions.
    pub registry: bool,
    /// `package.metadata.koze.script`, if the project serves the tools `script`.
    pub script: Option<ScriptTable>,
    /// `package.metadata.koze.journal`: what the journal of tool calls records.
    pub journal: JournalSettings,
    /// `package.metadata.koze.local.image`: the files that new sandboxes have on this machine.
    pub local_image: LocalImage,
}

/// Reads a manifest.
///
/// # Errors
/// Returns [`Stop`] if it cannot be read or parsed, or has invalid koze metadata.
pub fn read(path: &Path, findings: &mut Findings) -> Result<Manifest, Stop> {
    let dir = path.parent().unwrap_or(path);
    let text = input::read_text_in(dir, path).or_else(|error| findings.io(&error))?;
    let place = |range| Some(Place { file: "Cargo.toml".to_owned(), text: Arc::from(text.as_str()), range });
    let document = match text.parse::<Document<String>>() {
        Ok(document) => document,
        Err(error) => {
            let message = error.message().trim().to_owned();
            return findings.fail(Rule::BadManifest { message }, place(error.span()));
        }
    };
    let Some(package) = document.get("package") else {
        let journal = JournalSettings::default();
        let local_image = LocalImage::default();
        return Ok(Manifest {
            name: None,
            environments: None,
            registry: false,
            script: None,
            journal,
            local_image,
        });
    };
    let Some(name) = package.get("name").and_then(Item::as_str) else {
        let message = "`[package]` has no `name`".to_owned();
        return findings.fail(Rule::BadManifest { message }, place(package.span()));
    };
    let koze = package.get("metadata").and_then(|metadata| metadata.get("koze"));
    let (mut environments, mut registry, mut scripts) = (None, false, None);
    let (mut journal, mut local_image) = (JournalSettings::default(), LocalImage::default());
    let mut wrong = Vec::new();
    for (key, value) in koze.and_then(Item::as_table_like).into_iter().flat_map(|table| table.iter()) {
        if !KEYS.contains(&key) {
            let near = nearest(key, KEYS).map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            let message = format!("`package.metadata.koze` has no key `{key}`{near}");
            findings.add(Rule::BadManifest { message }, place(value.span()));
        }
        if key == "environments" {
            let list = value.as_array().map(|list| list.iter().map(|name| name.as_str().map(str::to_owned)));
            environments = list.and_then(Iterator::collect);
            if environments.is_none() {
                let message = "`package.metadata.koze.environments` must be a list of names".to_owned();
                findings.add(Rule::BadManifest { message }, place(value.span()));
            }
        }
        if key == "registry" {
            registry = value.as_bool().unwrap_or_else(|| {
                let message = "`package.metadata.koze.registry` must be `true` or `false`".to_owned();
                findings.add(Rule::BadManifest { message }, place(value.span()));
                false
            });
        }
        if key == "journal" {
            journal = parse_journal(value, &mut wrong);
        }
        if key == "local" {
            local_image = parse_local(value, &mut wrong);
        }
        if key == "script" {
            scripts = Some(script::parse(value, &mut wrong));
        }
        for (message, span) in wrong.drain(..) {
            findings.add(Rule::BadManifest { message }, place(span));
        }
    }
    Ok(Manifest {
        name: Some(name.to_owned()),
        environments,
        registry,
        script: scripts,
        journal,
        local_image,
    })
}

/// A message, and where it belongs.
type Wrong = (String, Option<Range<usize>>);

/// Reads `package.metadata.koze.journal`.
fn parse_journal(value: &Item, wrong: &mut Vec<Wrong>) -> JournalSettings {
    let mut settings = JournalSettings::default();
    let Some(table) = parse_table("journal", value, wrong) else { return settings };
    for (key, value) in table.iter() {
        match key {
            "enabled" => settings.enabled = parse_bool("journal", key, value, wrong),
            "inputs" => settings.inputs = parse_bool("journal", key, value, wrong),
            "results" => settings.results = parse_bool("journal", key, value, wrong),
            _ => wrong.push((unknown_key("journal", key, JOURNAL_KEYS), value.span())),
        }
    }
    settings
}

/// Reads `package.metadata.koze.local`.
fn parse_local(value: &Item, wrong: &mut Vec<Wrong>) -> LocalImage {
    let mut image = LocalImage::default();
    let Some(table) = parse_table("local", value, wrong) else { return image };
    for (key, value) in table.iter() {
        match (key, value.as_str()) {
            ("image", Some("stored")) => image = LocalImage::Stored,
            ("image", Some("declared")) => image = LocalImage::Declared,
            ("image", Some("host")) => image = LocalImage::Host,
            ("image", _) => {
                let message =
                    "`package.metadata.koze.local.image` must be `\"stored\"`, `\"declared\"` or `\"host\"`";
                wrong.push((message.to_owned(), value.span()));
            }
            _ => wrong.push((unknown_key("local", key, LOCAL_KEYS), value.span())),
        }
    }
    image
}

/// Returns a value as the table of this name.
fn parse_table<'v>(name: &str, value: &'v Item, wrong: &mut Vec<Wrong>) -> Option<&'v dyn TableLike> {
    let table = value.as_table_like();
    if table.is_none() {
        let message =
            format!("`package.metadata.koze.{name}` must be a table: write `[package.metadata.koze.{name}]`");
        wrong.push((message, value.span()));
    }
    table
}

/// Returns the message about a key that a table does not have.
fn unknown_key(table: &str, key: &str, keys: &[&str]) -> String {
    let near = nearest(key, keys)
        .map_or_else(|| format!(": it has {}", listed(keys)), |near| format!("; did you mean `{near}`?"));
    format!("`package.metadata.koze.{table}` has no key `{key}`{near}")
}

/// Reads `true` or `false`.
fn parse_bool(table: &str, key: &str, value: &Item, wrong: &mut Vec<Wrong>) -> bool {
    value.as_bool().unwrap_or_else(|| {
        let message = format!("`package.metadata.koze.{table}.{key}` must be `true` or `false`");
        wrong.push((message, value.span()));
        false
    })
}

/// Returns whether a manifest depends on a package for every target, under any name.
pub fn depends(text: &str, package: &str) -> bool {
    let Ok(document) = text.parse::<Document<String>>() else { return false };
    let list = document.get("dependencies").and_then(Item::as_table_like);
    list.into_iter()
        .flat_map(|list| list.iter())
        .any(|(name, dependency)| dependency.get("package").and_then(Item::as_str).unwrap_or(name) == package)
}

/// Returns whether the package's library declares the generated module.
pub fn declares_generated(dir: &Path) -> bool {
    let text = input::read_text_in(dir, &dir.join(library(dir))).ok();
    let parsed = text.and_then(|text| depth::parse_file(&text).ok());
    parsed.is_some_and(|parsed| module::is_declared(&parsed, "generated"))
}

/// Returns whether a library has the crate type that worker-build needs, or `None` if the manifest does not set a crate
/// type.
pub fn is_of_a_worker(text: &str) -> Option<bool> {
    let document = text.parse::<Document<String>>().ok()?;
    let lib = document.get("lib")?;
    // cargo accepts both spellings.
    let kinds = lib.get("crate-type").or_else(|| lib.get("crate_type"))?.as_array()?;
    Some(kinds.iter().any(|kind| kind.as_str() == Some("cdylib")))
}

/// Returns the path of the library root: the one in the manifest, or the default.
pub fn library(dir: &Path) -> String {
    let named = || {
        let text = input::read_text_in(dir, &dir.join("Cargo.toml")).ok()?;
        let document = text.parse::<Document<String>>().ok()?;
        Some(document.get("lib")?.get("path")?.as_str()?.to_owned())
    };
    named().unwrap_or_else(|| LIBRARY.to_owned())
}

/// Returns a manifest with a dependency on the crate `koze`, if its value is given in TOML, and a library of the crate type
/// that worker-build needs, unless the manifest already sets one.
///
/// Adds lines without changing any; comments stay in their section.
///
/// # Errors
/// Returns a message if the manifest does not parse or contains something else in place of these entries.
pub fn of_a_worker(text: &str, koze: Option<&str>) -> Result<String, String> {
    let mut edited = text.to_owned();
    if let Some(value) = koze {
        let dependency = format!("koze = {value}");
        edited = with_line(&edited, "dependencies", &dependency)?;
    }
    if is_of_a_worker(text).is_none() {
        edited = with_line(&edited, "lib", "crate-type = [\"cdylib\", \"rlib\"]")?;
    }
    Ok(edited)
}

/// Adds a line to a section. Appends the section if it does not exist.
fn with_line(text: &str, section: &str, line: &str) -> Result<String, String> {
    let document: Document<String> =
        text.parse().map_err(|error: toml_edit::TomlError| error.message().trim().to_owned())?;
    // The parser's offsets do not count a byte order mark.
    let (mark, _) = split_mark(text);
    let mark = if document.raw().len() < text.len() { mark.len() } else { 0 };
    let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let ended = |text: &str| if text.is_empty() || text.ends_with('\n') { "" } else { newline };
    let table = match document.get(section) {
        None => {
            let apart = if text.trim().is_empty() { "" } else { newline };
            return Ok(format!("{text}{}{apart}[{section}]{newline}{line}{newline}", ended(text)));
        }
        Some(Item::Table(table)) if !table.is_dotted() && table.span().is_some() => table,
        Some(_) => {
            return Err(format!(
                "`{section}` is not a section `[{section}]`: make it one, then run `koze init` again"
            ));
        }
    };
    // After the section's last key; subtables with their own headers may be elsewhere.
    let entries = table.iter().filter(|(_, item)| item.is_value());
    let last = entries.filter_map(|(_, item)| item.span()).map(|span| span.end).max();
    let end = mark + last.or(table.span().map(|span| span.end)).unwrap_or_default();
    let at = text[end..].find('\n').map_or(text.len(), |newline| end + newline + 1);
    let (head, tail) = text.split_at(at);
    Ok(format!("{head}{}{line}{newline}{tail}", ended(head)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "{ path = \"../koze\" }";
    const PLAIN: &str = "[package] # mine\nname = \"a\"\n\n[dependencies]\nworker = \"0.8\"   # the Worker\n";

    #[test]
    fn dependency_and_library_are_added() {
        assert_eq!(
            of_a_worker(PLAIN, Some(PATH)).unwrap(),
            "[package] # mine\nname = \"a\"\n\n[dependencies]\nworker = \"0.8\"   # the Worker\nkoze = { path = \"../koze\" }\n\n[lib]\ncrate-type = [\"cdylib\", \"rlib\"]\n"
        );
    }

    #[test]
    fn existing_entries_are_kept() {
        let text = of_a_worker(PLAIN, Some(PATH)).unwrap();
        assert_eq!(of_a_worker(&text, None).unwrap(), text);
        assert!(depends(&text, "koze") && !depends(PLAIN, "koze"));
        assert!(depends("[dependencies.koze]\nversion = \"1\"\n", "koze"));
        assert!(depends("[dependencies]\nk = { package = \"koze\", version = \"1\" }\n", "koze"));
        assert!(!depends("[target.'cfg(unix)'.dependencies]\nkoze = \"1\"\n", "koze"));
        let old = "[lib]\ncrate_type = [\"cdylib\"]\n";
        assert_eq!(of_a_worker(old, None).unwrap(), old);
    }

    #[test]
    fn comments_stay_in_their_section() {
        let text =
            "[dependencies]\nworker = \"0.8\"\n# serde = \"1\"\n\n[dependencies.other]\npath = \"x\"\n# end";
        assert_eq!(
            of_a_worker(text, Some("{ path = \"x\" }")).unwrap(),
            "[dependencies]\nworker = \"0.8\"\nkoze = { path = \"x\" }\n# serde = \"1\"\n\n[dependencies.other]\npath = \"x\"\n# end\n\n[lib]\ncrate-type = [\"cdylib\", \"rlib\"]\n"
        );
        let empty = "[dependencies] # none\n# yet\n";
        assert!(
            of_a_worker(empty, Some("{ path = \"x\" }"))
                .unwrap()
                .starts_with("[dependencies] # none\nkoze = { path = \"x\" }\n# yet\n")
        );
        let spread = "[dependencies]\nworker = { version = \"0.8\", features = [\n  \"d1\",\n] } # w";
        assert!(of_a_worker(spread, Some("{ path = \"x\" }")).unwrap().contains("] } # w\nkoze = "));
    }

    #[test]
    fn line_endings_and_byte_order_mark_are_kept() {
        let text = format!("\u{feff}{}", PLAIN.replace('\n', "\r\n"));
        let edited = of_a_worker(&text, Some("{ path = \"x\" }")).unwrap();
        assert!(edited.starts_with(text.trim_end()), "{edited:?}");
        assert_eq!(edited.matches('\n').count(), edited.matches("\r\n").count(), "{edited:?}");
    }

    #[test]
    fn a_non_table_in_place_of_a_section_is_an_error() {
        for text in ["dependencies = 1\n", "dependencies = { a = \"1\" }\n", "dependencies.a = \"1\"\n", "["]
        {
            assert!(of_a_worker(text, Some("{ path = \"x\" }")).is_err(), "{text}");
        }
    }
}
