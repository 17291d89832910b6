//! Renders results as text: what was found, what changed, what to do next.

use std::fmt::Write as _;

use koze_core::egress::Credential;
use koze_core::script::SECRET_PREFIX;
use koze_model::rules::listed;
use koze_model::{Kind, Level};

use crate::build::{Build, Scripts};
use crate::finding::Findings;
use crate::generate;
use crate::ignored::Hidden;
use crate::own::Own;
use crate::plan::Plan;
use crate::rules::Rule;
use crate::write::Action;

/// Renders the result of a build; `written` says whether the changes were made or only planned.
pub fn build(build: &Build, written: bool) -> String {
    let mut text = list(build);
    let Some(plan) = &build.plan else { return text };
    for note in &plan.notes {
        let _ = writeln!(text, "{note}");
    }
    text.push_str(&render_changes(plan, written, &build.hidden));
    text
}

/// Lists the files that an interrupted run left unwritten and this one wrote first. Empty if there were none.
pub fn finished(files: &[String]) -> String {
    if files.is_empty() {
        return String::new();
    }
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    format!("completed an interrupted run: wrote {}\n", listed(&files))
}

/// Lists the sandboxes with their images in every environment, or explains how to create the first one.
pub fn listing(build: &Build) -> String {
    if build.plan.is_some() { render_table(build, true) } else { list(build) }
}

/// Lists the sandboxes, or explains how to create the first one.
pub fn list(build: &Build) -> String {
    if build.plan.is_some() {
        return sandboxes(build);
    }
    if let Some(scripts) = describe_scripts(build) {
        return format!("no sandboxes: there is no `*.sandbox.rs` file below `src`\n{scripts}");
    }
    "no sandboxes: there is no `*.sandbox.rs` file below `src`\n\
     next: create `src/server/shell.sandbox.rs` with `#[sandbox] pub struct ShellSandbox;`\n"
        .to_owned()
}

/// Renders the sandboxes as a table.
pub fn sandboxes(build: &Build) -> String {
    render_table(build, false)
}

fn render_table(build: &Build, environments: bool) -> String {
    let mut text = String::new();
    text.push_str(&count_of(build));
    if let Some(config) = &build.config {
        let _ = write!(text, " in {config}");
    }
    if let Some(sdk) = &build.sdk {
        let _ = write!(text, ", SDK {} from {}", sdk.version, sdk.source);
    }
    text.push('\n');
    let widest =
        |cell: &dyn Fn(&crate::plan::Planned) -> usize| build.sandboxes.iter().map(cell).max().unwrap_or(0);
    let file = widest(&|sandbox| sandbox.file.chars().count());
    let class = widest(&|sandbox| sandbox.class.chars().count());
    let binding = widest(&|sandbox| sandbox.binding.chars().count());
    for sandbox in &build.sandboxes {
        let _ = write!(
            text,
            "  {:file$}  {:class$}  {:binding$}  {}",
            sandbox.file, sandbox.class, sandbox.binding, sandbox.image
        );
        for (name, image) in sandbox.images.iter().skip(1) {
            let _ = write!(text, ", {image} as `{name}`");
        }
        if sandbox.has_guest() {
            text.push_str(", with koze's guest");
        }
        if let Some(port) = sandbox.port {
            let _ = write!(text, ", a service at port {port}");
        }
        text.push('\n');
        for (name, image) in sandbox.environments.iter().filter(|_| environments) {
            let _ = writeln!(text, "    env.{name}  {image}");
        }
        text.extend(describe_secrets(sandbox.credentials(), ""));
    }
    text.extend(describe_scripts(build));
    text
}

/// Counts the sandboxes, and the containers if there are any.
fn count_of(build: &Build) -> String {
    let count = |kind: Kind| build.sandboxes.iter().filter(|planned| planned.kind == kind).count();
    let sandboxes = match count(Kind::Sandbox) {
        1 => "1 sandbox".to_owned(),
        count => format!("{count} sandboxes"),
    };
    let containers = match count(Kind::Container) {
        0 => return sandboxes,
        1 => "1 container".to_owned(),
        count => format!("{count} containers"),
    };
    if count(Kind::Sandbox) == 0 { containers } else { format!("{sandboxes} and {containers}") }
}

/// Says where scripts run, if the project serves them.
/// Says which secrets a Worker needs. Their names there begin with a prefix.
fn describe_secrets(credentials: &[Credential], prefix: &str) -> Option<String> {
    let names: Vec<&str> = credentials.iter().map(|credential| credential.name.as_str()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "    needs the secrets {}: run `wrangler secret put {prefix}NAME` for each, and `koze secret set NAME` for this machine\n",
            names.join(", ")
        )
    })
}

fn describe_scripts(build: &Build) -> Option<String> {
    let (class, binding) = (Own::Scripts.class(), Own::Scripts.binding());
    let text = match build.scripts? {
        Scripts { worker: false, .. } => return Some("scripts of agents: on this machine only\n".to_owned()),
        Scripts { isolated: false, .. } => format!("scripts of agents: {class}, bound as {binding}\n"),
        Scripts { .. } => format!("scripts of agents: {class}, bound as {binding}, in a dynamic Worker\n"),
    };
    let credentials = build.script.as_ref().map_or(&[][..], |script| &script.credentials);
    Some(text + &describe_secrets(credentials, SECRET_PREFIX).unwrap_or_default())
}

fn render_changes(plan: &Plan, written: bool, hidden: &[Hidden]) -> String {
    let mut text = String::new();
    let changed: Vec<_> = plan.changes.iter().filter(|change| change.action() != Action::Unchanged).collect();
    if changed.is_empty() {
        text.push_str("nothing to do: every file is in step\n");
        return text;
    }
    for change in &changed {
        let word = change.action().word();
        let _ = if written {
            writeln!(text, "{word}d {}", change.shown)
        } else {
            writeln!(text, "would {word} {}", change.shown)
        };
    }
    if written
        && changed
            .iter()
            .any(|change| change.action() == Action::Create && change.shown.starts_with(generate::DIR))
    {
        text.push_str(&suggest_commit(hidden));
    }
    text
}

/// Says what to commit, and which of it git ignores.
fn suggest_commit(hidden: &[Hidden]) -> String {
    let mut text = String::new();
    for Hidden { what, file, pattern } in hidden {
        let _ = writeln!(text, "next: remove `{pattern}` from {file}, which hides `{what}` from git");
    }
    text.push_str(if hidden.is_empty() {
        "next: commit these files, including `koze.lock`\n"
    } else {
        "next: then commit these files, including `koze.lock`: a checkout without them does not build\n"
    });
    text
}

/// Renders the last line after findings: what to do next.
pub fn verdict(findings: &Findings) -> String {
    let (errors, warnings) = (findings.count(Level::Error), findings.count(Level::Warning));
    let rest = if findings
        .iter()
        .any(|found| matches!(&found.rule, Rule::Interrupted { written, .. } if !written.is_empty()))
    {
        ""
    } else {
        "; nothing was written"
    };
    let many = |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    match (errors, warnings) {
        (0, 0) => String::new(),
        (0, _) => format!("{}\n", many(warnings, "warning")),
        (_, 0) => format!("{}{rest}\n", many(errors, "error")),
        _ => format!("{} and {}{rest}\n", many(errors, "error"), many(warnings, "warning")),
    }
}
