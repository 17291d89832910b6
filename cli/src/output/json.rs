//! The document of `--format json`.
//!
//! The files in `schema` describe it for other programs and are made from these types: `KOZE_BLESS=1 cargo test -p
//! koze-cli schema` writes them anew.

use std::collections::BTreeMap;

use koze_model::image::ImageSource;
use serde::Serialize;

use crate::build::Build;
use crate::doctor::Check;
use crate::finding::{self, Findings};
use crate::plan::Planned;
use crate::write;

pub mod proof;
#[cfg(test)]
mod schema;

/// What `koze build` and all commands that build print with `--format json`: what was found, what changed, what is
/// wrong. A run that stops early leaves null or empty what it did not reach.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
struct Document<'a> {
    /// The package's directory, absolute; null where no package was found.
    project: Option<String>,
    /// The wrangler configuration, relative to the package.
    config: Option<&'a str>,
    /// The version of `@cloudflare/sandbox`; null where it was not looked for.
    sdk: Option<Sdk<'a>>,
    /// The sandboxes, in the order of their files.
    sandboxes: Vec<Sandbox<'a>>,
    /// Every file that koze writes, in the order of writing. Empty where nothing could be planned.
    changes: Vec<Change<'a>>,
    /// What was found wrong, in the order it was found.
    diagnostics: Vec<Diagnostic<'a>>,
}

/// What `koze doctor` prints with `--format json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
struct Examination<'a> {
    /// What was looked at.
    checks: &'a [Check],
    /// What a build would find wrong.
    diagnostics: Vec<Diagnostic<'a>>,
}

/// The version of `@cloudflare/sandbox`, and what said so.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
struct Sdk<'a> {
    /// An exact version.
    #[cfg_attr(test, schemars(regex(pattern = r"^\d+\.\d+\.\d+")))]
    version: &'a str,
    /// The file that answered, relative to the package, or the crate.
    source: &'a str,
}

/// A sandbox.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
struct Sandbox<'a> {
    /// Its file, relative to the package.
    file: &'a str,
    /// Its binding in the Worker's environment.
    binding: &'a str,
    /// Its class.
    class: &'a str,
    /// Its container application at the top level of the configuration.
    container: &'a str,
    /// Its image at the top level: a reference, or the path of a Dockerfile relative to the configuration; with the
    /// backend `native`, the one that koze's guest is added to.
    image: &'a str,
    /// What decided the image.
    image_source: Source,
    /// What runs behind the class.
    backend: Backend,
    /// Its image in each named environment that koze keeps in step, by the environment's name.
    environments: BTreeMap<&'a str, &'a str>,
}

/// What runs behind a class.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
enum Backend {
    /// Cloudflare's Sandbox SDK.
    Sdk,
    /// koze's own guest.
    Native,
}

/// What decided an image.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
enum Source {
    /// The key `image`.
    Attribute,
    /// The key `variant`.
    Variant,
    /// A Dockerfile of the sandbox's name beside its source.
    SiblingDockerfile,
    /// Nothing: it is the image of the SDK version.
    Default,
    /// The entry was in the configuration before koze, with an image of its own.
    Configuration,
}

/// A file that koze writes.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
struct Change<'a> {
    /// The file, relative to the package.
    path: &'a str,
    /// What was done to it; with `--check`, `--dry-run` and `koze list`, what would be.
    action: Action,
}

/// What is done to a file.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
enum Action {
    /// There was no file.
    Create,
    /// Its bytes differ.
    Update,
    /// It is in step.
    Unchanged,
    /// It goes.
    Remove,
}

/// Something that is wrong.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
struct Diagnostic<'a> {
    /// Its stable code, which `koze explain` knows.
    #[cfg_attr(test, schemars(regex(pattern = r"^K\d{3}$")))]
    code: &'a str,
    /// Whether it stopped the run.
    level: Level,
    /// What is wrong.
    message: String,
    /// The file it is in, relative to the package; null where no file is to blame.
    file: Option<&'a str>,
    /// The line, from 1; null where the file as a whole is meant.
    #[cfg_attr(test, schemars(range(min = 1)))]
    line: Option<usize>,
    /// The column in characters, from 1.
    #[cfg_attr(test, schemars(range(min = 1)))]
    column: Option<usize>,
    /// What to do next.
    help: String,
}

/// How bad it is.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
enum Level {
    /// Nothing was written.
    Error,
    /// The run went on.
    Warning,
}

/// One document: what was found, what changed, what is wrong.
///
/// # Panics
/// Never: the document is plain data.
pub fn render(build: &Build, findings: &Findings) -> String {
    let document = Document {
        project: build.project.as_ref().map(|dir| dir.to_string_lossy().into_owned()),
        config: build.config.as_deref(),
        sdk: build.sdk.as_ref().map(|sdk| Sdk { version: &sdk.version, source: &sdk.source }),
        sandboxes: build.sandboxes.iter().map(sandbox).collect(),
        changes: build.plan.iter().flat_map(|plan| &plan.changes).map(|change| of(change, build)).collect(),
        diagnostics: diagnostics(findings),
    };
    text(&document)
}

/// The document of `koze doctor`.
///
/// # Panics
/// Never: the document is plain data.
pub fn examination(checks: &[Check], findings: &Findings) -> String {
    text(&Examination { checks, diagnostics: diagnostics(findings) })
}

fn text(document: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(document).expect("plain data");
    format!("{text}\n")
}

fn diagnostics(findings: &Findings) -> Vec<Diagnostic<'_>> {
    findings.iter().map(|finding| diagnostic(finding, findings)).collect()
}

fn sandbox(sandbox: &Planned) -> Sandbox<'_> {
    Sandbox {
        file: &sandbox.file,
        binding: &sandbox.binding,
        class: &sandbox.class,
        container: &sandbox.container,
        image: &sandbox.image,
        image_source: match sandbox.image_source {
            ImageSource::Attribute => Source::Attribute,
            ImageSource::Variant => Source::Variant,
            ImageSource::SiblingDockerfile => Source::SiblingDockerfile,
            ImageSource::Default => Source::Default,
            ImageSource::Configuration => Source::Configuration,
        },
        backend: match sandbox.backend {
            koze_model::Backend::Sdk => Backend::Sdk,
            koze_model::Backend::Native => Backend::Native,
        },
        environments: sandbox
            .environments
            .iter()
            .map(|(name, image)| (name.as_str(), image.as_str()))
            .collect(),
    }
}

fn of<'a>(change: &'a write::Change, build: &Build) -> Change<'a> {
    let action = match change.action() {
        write::Action::Create => Action::Create,
        write::Action::Update => Action::Update,
        write::Action::Remove => Action::Remove,
        // What an interrupted run had left to be written was written by this one, before it looked.
        write::Action::Unchanged if build.finished.contains(&change.shown) => Action::Update,
        write::Action::Unchanged => Action::Unchanged,
    };
    Change { path: &change.shown, action }
}

fn diagnostic<'a>(finding: &'a finding::Finding, findings: &Findings) -> Diagnostic<'a> {
    let place = finding.place.as_ref();
    let at = place.and_then(finding::Place::line_column);
    Diagnostic {
        code: finding.rule.code(),
        level: match findings.level(finding) {
            koze_model::Level::Error => Level::Error,
            koze_model::Level::Warning => Level::Warning,
        },
        message: finding.rule.message(),
        file: place.map(|place| place.file.as_str()),
        line: at.map(|(line, _)| line),
        column: at.map(|(_, column)| column),
        help: finding.rule.help(),
    }
}
