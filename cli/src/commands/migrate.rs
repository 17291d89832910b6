//! `koze migrate`: the class `Sandbox` of earlier versions becomes a sandbox with a file; its storage stays.

use std::process::ExitCode;

use koze_model::names::SUFFIX;
use koze_model::{Rule, image, sandbox};
use serde_json::Value;

use super::{add, drafted, rename};
use crate::args;
use crate::build::{self, Options};
use crate::discover::Project;
use crate::finding::{Findings, Stop};
use crate::source::mentions;
use crate::wrangler::legacy::{self, Legacy};
use crate::wrangler::scope;

pub(super) fn run(args: &args::Migrate) -> ExitCode {
    drafted::run(&args.edit, |project, options, findings| migrate(args, project, options, findings))
}

fn migrate(
    args: &args::Migrate,
    project: &Project,
    options: &mut Options,
    findings: &mut Findings,
) -> Result<Vec<String>, Stop> {
    let config = build::config(project, options, findings)?;
    let scopes = scope::all(&config, project, findings)?;
    let legacy = Legacy::find(&scopes);
    if legacy.containers.is_empty() {
        return findings.fail(Rule::NothingToMigrate { config: config.shown.clone() }, None);
    }
    let names = add::names(&args.name, findings)?;
    let class = sandbox::class_of(&names);
    let dir = add::usual_dir(project, findings)?;
    let file = format!("{dir}/{}{SUFFIX}", names.base);
    let text = add::text(&attribute(&legacy), &class);
    add::create(project, &file, text, &mut options.draft, findings)?;
    options.draft.renames.push((legacy::CLASS.to_owned(), class));

    let accesses: Vec<String> = legacy
        .bindings
        .iter()
        .flat_map(|binding| [format!("env.{binding}"), format!("\"{binding}\""), format!("'{binding}'")])
        .collect();
    let words: Vec<&str> = accesses.iter().map(String::as_str).collect();
    let calls = rename::show(&words, mentions::of(project, &words).into_iter());
    let now = format!("next: say `env.{}().get(key)` where the Worker used the old binding", names.accessor);
    Ok(if calls.is_empty() { calls } else { [vec![now], calls].concat() })
}

/// What the containers say that the attribute can say: what stands alike in all of them.
fn attribute(legacy: &Legacy) -> String {
    let shared = |key: &str| {
        let first = legacy.containers[0].get(key)?;
        legacy.containers.iter().all(|container| container.get(key) == Some(first)).then_some(first)
    };
    let mut keys = Vec::new();
    if let Some(variant) = shared("image").and_then(Value::as_str).and_then(image::variant) {
        keys.push(format!("variant = {variant:?}"));
    }
    if let Some(kind) = shared("instance_type").and_then(Value::as_str) {
        keys.push(format!("instance_type = {kind:?}"));
    }
    if let Some(max) = shared("max_instances").and_then(Value::as_u64) {
        keys.push(format!("max_instances = {max}"));
    }
    if keys.is_empty() { String::new() } else { format!("({})", keys.join(", ")) }
}
