//! `koze init`: sets up an existing package for koze.
//!
//! Adds whatever is missing and changes nothing that exists: the dependency, `mod generated;`, a first sandbox, and the
//! Worker's entry point and build command in the wrangler configuration.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use koze_edit::{Document, Edit, Format, path};
use koze_model::{Backend, Kind, sandbox};
use serde_json::Value;

use super::{add, backend, drafted, runtime};
use crate::args;
use crate::build::{self, Options};
use crate::discover::Project;
use crate::draft::Draft;
use crate::finding::{Findings, Place, Stop};
use crate::generate;
use crate::lock::Lock;
use crate::manifest;
use crate::paths;
use crate::rules::Rule;
use crate::sdk::{self, Sdk};
use crate::source::{module, split_mark};
use crate::wrangler::legacy::Legacy;
use crate::wrangler::locate::Config;
use crate::wrangler::scope::{self, Scope};
use crate::wrangler::settings::Settings;
use crate::write::input;

/// An empty `package.json`.
const PACKAGE_JSON: &str = "{\n  \"private\": true\n}\n";

pub(super) fn run(args: &args::Init) -> ExitCode {
    drafted::run(&args.edit, |project, options, findings| init_project(args, project, options, findings))
}

fn init_project(
    args: &args::Init,
    project: &Project,
    options: &mut Options,
    findings: &mut Findings,
) -> Result<Vec<String>, Stop> {
    let mut left = Vec::new();
    edit_manifest(args, project, &mut options.draft, &mut left, findings)?;
    declare_module(project, &mut options.draft, findings)?;
    let config = build::config(project, options, findings)?;
    let scopes = scope::all(&config, project, findings)?;
    let sandboxes = project.sandboxes(&Draft::default(), findings);
    findings.checked()?;
    let mut backends: Vec<Backend> =
        add::sandboxes_only(&sandboxes.list).map(|sandbox| sandbox.attributes.backend()).collect();
    let wanted = args.backend.map(Backend::from);
    let mut last = None;
    if sandboxes.list.is_empty() && Lock::read(project, findings)?.is_empty() {
        // As in an attribute: `koze new` creates Workers, this command changes those of others.
        let backend = wanted.unwrap_or(Backend::Sdk);
        last = Some(first_sandbox(backend, project, &config, &scopes, &mut options.draft, findings)?);
        backends.push(backend);
    } else if let Some(wanted) = wanted
        && backends.iter().any(|backend| *backend != wanted)
    {
        last = Some(format!(
            "note: `--backend` is for the first sandbox of a package: `koze migrate --backend {wanted}` moves those that are there"
        ));
    }
    let entry = project.dir.join(generate::ENTRY);
    let settings = Settings::of(&config, &scopes, &paths::relative(&entry, config.dir()));
    options.draft.settings = settings.edits;
    options.draft.notes.extend(settings.notes);
    left.extend(settings.left);

    if backends.contains(&Backend::Sdk) {
        add_sdk(project, options, findings)?;
        if sdk::installed(project, findings)?.is_none() {
            left.push(
                "next: npm install, which installs the sandbox SDK that the Worker's entry point imports"
                    .to_owned(),
            );
        }
    }
    left.extend(last);
    Ok(left)
}

/// Adds a sandbox, and returns what is left to the user.
fn first_sandbox(
    backend: Backend,
    project: &Project,
    config: &Config,
    scopes: &[Scope],
    draft: &mut Draft,
    findings: &mut Findings,
) -> Result<String, Stop> {
    // The class `Sandbox` has storage, which a new sandbox would orphan.
    if !Legacy::find(scopes).containers.is_empty() {
        return findings.fail(Rule::LegacyFirst { config: config.shown.clone() }, None);
    }
    let names = add::names(Kind::Sandbox, "shell", findings)?;
    let class = sandbox::class_of(&names);
    let name = add::container(&names, &class, project, config, scopes, findings)?;
    let keys = name.map(|name| format!("name = {name:?}")).into_iter().collect();
    let wanted = add::Wanted { names: &names, class: &class, keys, backend };
    add::create_sandbox(project, add::DIR, wanted, draft, findings)?;
    Ok(match backend {
        Backend::Native => backend::DOCKER.to_owned(),
        Backend::Managed => backend::BETA.to_owned(),
        Backend::Sdk => format!(
            "note: {}. `koze migrate --backend native` moves the sandbox to koze's own guest",
            sdk::maintenance()
        ),
    })
}

/// Adds the dependency and the library target of a Worker.
fn edit_manifest(
    args: &args::Init,
    project: &Project,
    draft: &mut Draft,
    left: &mut Vec<String>,
    findings: &mut Findings,
) -> Result<(), Stop> {
    let path = project.dir.join("Cargo.toml");
    let text = input::read_text_in(&project.dir, &path).or_else(|error| findings.io(&error))?;
    let dependency = if manifest::depends(&text, "koze") {
        None
    } else {
        let runtime = runtime::find(args.runtime_path.as_deref(), findings)?;
        Some(runtime.dependency(&project.dir))
    };
    let edited = match manifest::of_a_worker(&text, dependency.as_deref()) {
        Ok(edited) => edited,
        Err(message) => return findings.fail(Rule::BadManifest { message }, Some(Place::file("Cargo.toml"))),
    };
    if manifest::is_of_a_worker(&edited) == Some(false) {
        left.push("next: add `cdylib` to `crate-type` in Cargo.toml, which worker-build needs".to_owned());
    }
    if edited != text {
        draft.edit(path, text, edited);
    }
    Ok(())
}

/// Adds the SDK to `package.json` if nothing determines its version yet.
fn add_sdk(project: &Project, options: &mut Options, findings: &mut Findings) -> Result<(), Stop> {
    if sdk::find(project, findings)?.is_some() {
        return Ok(());
    }
    let path = project.dir.join("package.json");
    let there = match input::read_text_in(&project.dir, &path) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return findings.io(&error),
    };
    let text = there.clone().unwrap_or_else(|| PACKAGE_JSON.to_owned());
    // The search for the SDK has already reported invalid JSON.
    let Ok(document) = Document::parse(Format::Jsonc, text) else { return Ok(()) };
    for (key, value) in std::iter::once(("package.json", document.value()))
        .chain(document.value().get("dependencies").map(|value| ("dependencies", value)))
    {
        if !value.is_object() {
            let message = format!("`{key}` is not an object");
            return findings.fail(Rule::BadManifest { message }, Some(Place::file("package.json")));
        }
    }
    let named = |kind: &str| document.value().get(kind).is_some_and(|list| list.get(sdk::PACKAGE).is_some());
    if ["dependencies", "devDependencies", "optionalDependencies"].into_iter().any(named) {
        // `package.json` has a range, but nothing is installed: the build explains what to do.
        return Ok(());
    }
    let edit = Edit::Set { path: path!["dependencies", sdk::PACKAGE], value: Value::from(sdk::RECOMMENDED) };
    let edited = document.apply(&[edit]);
    match there {
        Some(text) => options.draft.edit(path, text, edited),
        None => options.draft.create(path, edited),
    }
    options.sdk = Some(Sdk { version: sdk::RECOMMENDED.to_owned(), source: "package.json".to_owned() });
    Ok(())
}

/// Adds `mod generated;` to the library.
fn declare_module(project: &Project, draft: &mut Draft, findings: &mut Findings) -> Result<(), Stop> {
    let file = manifest::library(&project.dir);
    let path = project.dir.join(&file);
    let text = match input::read_text_in(&project.dir, &path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return findings.fail(Rule::NoLibrary { file }, None);
        }
        Err(error) => return findings.io(&error),
    };
    let (mark, body) = split_mark(&text);
    match module::declare(body, "generated") {
        Ok(edited) if edited == body => {}
        Ok(edited) => draft.edit(path, text.as_str(), format!("{mark}{edited}")),
        Err(error) => {
            let range = Some(error.span().byte_range());
            let place = Place { file, text: Arc::from(body), range };
            return findings.fail(koze_model::Rule::NotRust { message: error.to_string() }, Some(place));
        }
    }
    // Rust resolves `mod generated;` relative to the library's root file.
    if Path::new(&file).parent() != Some(Path::new("src")) {
        return findings.fail(Rule::NoLibrary { file: manifest::LIBRARY.to_owned() }, None);
    }
    Ok(())
}
