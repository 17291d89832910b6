//! `koze migrate`: converts the class `Sandbox` of earlier versions to a sandbox with a file, moves sandboxes to
//! another backend or adds one beside them, or replaces `migrations` by `exports`. Storage is kept.

use std::process::ExitCode;

use koze_model::{Kind, sandbox};

use super::{add, backend, drafted, rename, side_by_side};
use crate::args;
use crate::build::{self, Options};
use crate::discover::Project;
use crate::draft::Draft;
use crate::finding::{Findings, Stop};
use crate::manifest;
use crate::rules::Rule;
use crate::source::mentions;
use crate::wrangler::legacy::{self, Legacy};
use crate::wrangler::scope;

mod carried;
mod exports;

pub(super) fn run(args: &args::Migrate) -> ExitCode {
    if args.exports {
        return drafted::run(&args.edit, exports::draft);
    }
    drafted::run(&args.edit, |project, options, findings| match args.backend {
        Some(args::Backend::Managed) if args.side_by_side => {
            side_by_side::draft(args.name.as_deref(), project, options, findings)
        }
        Some(to) if args.side_by_side => {
            let why = format!("`--backend` is `{}`", koze_model::Backend::from(to));
            let remedy = "pass `--backend managed`: a class can move to another backend in place".to_owned();
            findings.fail(Rule::NotSideBySide { why, remedy }, None)
        }
        Some(to) => backend::draft(to.into(), args.name.as_deref(), project, options, findings),
        None => migrate_containers(args.name.as_deref().unwrap_or(NAME), project, options, findings),
    })
}

/// The default name for the sandbox that replaces the class `Sandbox`.
const NAME: &str = "shell";

fn migrate_containers(
    name: &str,
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
    let names = add::names(Kind::Sandbox, name, findings)?;
    let class = sandbox::class_of(&names);
    let sandboxes = project.sandboxes(&Draft::default(), findings);
    findings.checked()?;
    let dir = add::usual_dir(&sandboxes.list);
    let file = format!("{dir}/{}{}", names.base, Kind::Sandbox.suffix());
    let keys = carried::keys(&legacy, config.dir(), &project.dir.join(&dir));
    let text = add::text(Kind::Sandbox, &keys, &class);
    add::create(project, &file, text, &mut options.draft, findings)?;
    options.draft.renames.push((legacy::CLASS.to_owned(), class));

    let mut words = legacy.bindings.clone();
    words.push(legacy::CLASS);
    words.sort_unstable();
    words.dedup();
    let calls = rename::show(&words, &mentions::of(project, &Draft::default(), &words));
    let mut left = vec![
        "next: move what your own class `Sandbox` set (`sleepAfter`, `envVars`, hosts) to the attribute"
            .to_owned(),
        format!("next: use `env.{}().get(key)` where the Worker used the old binding", names.accessor),
    ];
    left.extend(calls);
    if !manifest::declares_generated(&project.dir) {
        left.push(
            "next: run `koze init`, which adds the dependency, `mod generated;` and the build command"
                .to_owned(),
        );
    }
    Ok(left)
}
