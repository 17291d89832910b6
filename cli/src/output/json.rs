//! The document of `--format json`.

use serde_json::{Value, json};

use crate::build::{Build, Summary};
use crate::finding::{Finding, Findings};

/// One document: what was found, what changed, what is wrong.
pub fn render(build: &Build, findings: &Findings) -> String {
    let changes: Vec<Value> = build
        .plan
        .iter()
        .flat_map(|plan| &plan.changes)
        .map(|change| json!({ "path": change.shown, "action": change.action().word() }))
        .collect();
    let document = json!({
        "project": build.project,
        "config": build.config,
        "sdk": build.sdk,
        "sandboxes": build.sandboxes.iter().map(sandbox).collect::<Vec<_>>(),
        "changes": changes,
        "diagnostics": diagnostics(findings),
    });
    format!("{document:#}\n")
}

/// What is wrong.
pub fn diagnostics(findings: &Findings) -> Vec<Value> {
    findings.iter().map(|finding| diagnostic(finding, findings)).collect()
}

/// A sandbox as an object.
pub fn sandbox(sandbox: &Summary) -> Value {
    json!({
        "file": sandbox.file,
        "binding": sandbox.binding,
        "class": sandbox.class,
        "container": sandbox.container,
        "image": sandbox.image,
        "image_source": sandbox.image_source.to_string(),
    })
}

fn diagnostic(finding: &Finding, findings: &Findings) -> Value {
    let place = finding.place.as_ref();
    let at = place.and_then(crate::finding::Place::line_column);
    json!({
        "code": finding.rule.code(),
        "level": findings.level(finding).word(),
        "message": finding.rule.message(),
        "file": place.map(|place| &place.file),
        "line": at.map(|(line, _)| line),
        "column": at.map(|(_, column)| column),
        "help": finding.rule.help(),
    })
}
