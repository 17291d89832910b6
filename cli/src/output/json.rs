//! The document of `--format json`.
//!
//! The files in `schema` describe it for other programs. To regenerate them from these types, run `KOZE_BLESS=1 cargo
//! test
//! -p koze-cli schema`.

use std::collections::BTreeMap;

use koze_model::image::ImageSource;
use serde::Serialize;

use crate::build::{self, Build};
use crate::doctor::Check;
use crate::finding::{self, Findings};
use crate::own::Own;
use crate::plan::Planned;
use crate::write;

pub mod proof;
#[cfg(test)]
mod schema;

/// The output of `koze build`, and of all commands that build, with `--format json`: what was found, what changed, and
/// the diagnostics. If a run stops early, the parts that it did not reach are null or empty.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
struct Document<'a> {
    /// The absolute path of the package's directory; null if no package was found.
    project: Option<String>,
    /// The wrangler configuration, relative to the package.
    config: Option<&'a str>,
    /// The version of `@cloudflare/sandbox`; null if it was not determined.
    sdk: Option<Sdk<'a>>,
    /// The sandboxes and containers, in the order of their files.
    sandboxes: Vec<Sandbox<'a>>,
    /// The scripts of agents; null if the project does not serve the tools `script`.
    scripts: Option<Scripts>,
    /// Every file that koze writes, in the order of writing. Empty if nothing could be planned.
    changes: Vec<Change<'a>>,
    /// The diagnostics, in the order they were found.
    diagnostics: Vec<Diagnostic<'a>>,
}

/// The output of `koze doctor` with `--format json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
struct Examination<'a> {
    /// The checks.
    checks: &'a [Check],
    /// The diagnostics of a build.
    diagnostics: Vec<Diagnostic<'a>>,
}

/// The version of `@cloudflare/sandbox`, and what determined it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
struct Sdk<'a> {
    /// An exact version.
    #[cfg_attr(test, schemars(regex(pattern = r"^\d+\.\d+\.\d+")))]
    version: &'a str,
    /// The file that determined it, relative to the package, or the crate.
    source: &'a str,
}

/// A sandbox, or a container that runs a service.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
struct Sandbox<'a> {
    /// What its file declares.
    kind: Kind,
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
    /// Where the image was configured.
    image_source: Source,
    /// The backend.
    backend: Backend,
    /// Its image in each named environment that koze manages, by the environment's name.
    environments: BTreeMap<&'a str, &'a str>,
}

/// The scripts of agents.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
struct Scripts {
    /// The class that runs them in the Worker; null if they run on this machine only.
    class: Option<&'static str>,
    /// Its binding in the Worker's environment; null if they run on this machine only.
    binding: Option<&'static str>,
    /// Whether the Worker runs them in a dynamic Worker, where it has a binding for it.
    isolated: bool,
}

/// What a file declares.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
enum Kind {
    /// A sandbox, with the tools of agents.
    Sandbox,
    /// A container that runs a service, without koze's guest and without tools.
    Container,
}

/// The backend of a class.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
enum Backend {
    /// Cloudflare's Sandbox SDK.
    Sdk,
    /// koze's own guest.
    Native,
    /// koze's own guest, in containers that the Durable Object starts.
    Managed,
}

/// Where an image was configured.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
enum Source {
    /// The key `image`.
    Attribute,
    /// The key `variant`.
    Variant,
    /// A Dockerfile with the sandbox's name next to its source.
    SiblingDockerfile,
    /// The default: the image of the SDK version.
    Default,
    /// A container entry that existed before koze, with its own image.
    Configuration,
}

/// A file that koze writes.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
struct Change<'a> {
    /// The file, relative to the package.
    path: &'a str,
    /// The change; with `--check`, `--dry-run` and `koze list`, the planned change.
    action: Action,
}

/// The change to a file.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
enum Action {
    /// The file did not exist.
    Create,
    /// The content differs.
    Update,
    /// The file is up to date.
    Unchanged,
    /// The file is deleted.
    Remove,
}

/// A diagnostic.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
struct Diagnostic<'a> {
    /// Its stable code, which `koze explain` explains.
    #[cfg_attr(test, schemars(regex(pattern = r"^K\d{3}$")))]
    code: &'a str,
    /// Its severity.
    level: Level,
    /// What is wrong.
    message: String,
    /// The file it is in, relative to the package; null if it belongs to no file.
    file: Option<&'a str>,
    /// The line, from 1; null for the whole file.
    #[cfg_attr(test, schemars(range(min = 1)))]
    line: Option<usize>,
    /// The column in characters, from 1.
    #[cfg_attr(test, schemars(range(min = 1)))]
    column: Option<usize>,
    /// What to do next.
    help: String,
}

/// The severity of a diagnostic.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
enum Level {
    /// Nothing was written.
    Error,
    /// The run continued.
    Warning,
}

/// Renders the result of a build as one document.
///
/// # Panics
/// Never: the document is plain data.
pub fn render(build: &Build, findings: &Findings) -> String {
    let document = Document {
        project: build.project.as_ref().map(|dir| dir.to_string_lossy().into_owned()),
        config: build.config.as_deref(),
        sdk: build.sdk.as_ref().map(|sdk| Sdk { version: &sdk.version, source: &sdk.source }),
        sandboxes: build.sandboxes.iter().map(to_sandbox).collect(),
        scripts: build.scripts.map(|build::Scripts { worker, isolated }| Scripts {
            class: worker.then_some(Own::Scripts.class()),
            binding: worker.then_some(Own::Scripts.binding()),
            isolated,
        }),
        changes: build
            .plan
            .iter()
            .flat_map(|plan| &plan.changes)
            .map(|change| to_change(change, build))
            .collect(),
        diagnostics: to_diagnostics(findings),
    };
    to_pretty_json(&document)
}

/// Renders the document of `koze doctor`.
///
/// # Panics
/// Never: the document is plain data.
pub fn examination(checks: &[Check], findings: &Findings) -> String {
    to_pretty_json(&Examination { checks, diagnostics: to_diagnostics(findings) })
}

fn to_pretty_json(document: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(document).expect("plain data");
    format!("{text}\n")
}

fn to_diagnostics(findings: &Findings) -> Vec<Diagnostic<'_>> {
    findings.iter().map(|finding| to_diagnostic(finding, findings)).collect()
}

fn to_sandbox(sandbox: &Planned) -> Sandbox<'_> {
    Sandbox {
        kind: match sandbox.kind {
            koze_model::Kind::Sandbox => Kind::Sandbox,
            koze_model::Kind::Container => Kind::Container,
        },
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
            koze_model::Backend::Managed => Backend::Managed,
        },
        environments: sandbox
            .environments
            .iter()
            .map(|(name, image)| (name.as_str(), image.as_str()))
            .collect(),
    }
}

fn to_change<'a>(change: &'a write::Change, build: &Build) -> Change<'a> {
    let action = match change.action() {
        write::Action::Create => Action::Create,
        write::Action::Update => Action::Update,
        write::Action::Remove => Action::Remove,
        // The change was written when this run finished the interrupted one, before it compared the files.
        write::Action::Unchanged if build.finished.contains(&change.shown) => Action::Update,
        write::Action::Unchanged => Action::Unchanged,
    };
    Change { path: &change.shown, action }
}

fn to_diagnostic<'a>(finding: &'a finding::Finding, findings: &Findings) -> Diagnostic<'a> {
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
