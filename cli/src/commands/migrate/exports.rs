//! `koze migrate --exports`: declares the classes in `exports` instead of `migrations`. Classes and storage are kept.

use koze_edit::{Edit, Step};
use serde_json::Value;

use crate::build::{self, Options};
use crate::discover::Project;
use crate::finding::{Findings, Stop};
use crate::lock::Lock;
use crate::rules::Rule;
use crate::wrangler::level::Level;
use crate::wrangler::lifecycle::{self, Conversion, Lifecycle, Obstacle};
use crate::wrangler::locate::Config;
use crate::wrangler::scope::{self, Scope, dotted};

/// What the user has to know before the next deployment.
const ONE_WAY: &str = "note: this cannot be undone: once a Worker was deployed with `exports`, Cloudflare no longer accepts `migrations` for it";

/// The steps left to the user.
const NEXT: &str = "next: commit this, and have everyone deploy from it: a deployment of an older commit, which has `migrations`, is rejected from then on";

/// Drafts the conversion of all levels, and returns the notes for the user.
pub(super) fn draft(
    project: &Project,
    options: &mut Options,
    findings: &mut Findings,
) -> Result<Vec<String>, Stop> {
    let config = build::config(project, options, findings)?;
    let lock = Lock::read(project, findings)?;
    let scopes = scope::all(&config, project, findings)?;
    let lifecycles = lifecycle::all(&config, &scopes, &lock, findings)?;
    lifecycle::check_owner(&lifecycles, &lock, &config, findings)?;
    lifecycle::check_lists(&lifecycles, &scopes, &lock, &config, findings);
    for lifecycle in &lifecycles {
        lifecycle.check_tags(&lock, &config, findings);
    }
    findings.checked()?;
    if !lifecycles.iter().any(Lifecycle::has_migrations) {
        return findings.fail(Rule::NothingToConvert { config: config.shown.clone() }, None);
    }
    report_obstacles(&config, &scopes, &lifecycles, findings);
    findings.checked()?;

    let mut edits: Vec<Edit> = Vec::new();
    let mut left = vec![ONE_WAY.to_owned()];
    for scope in &scopes {
        let Some(Conversion { edits: more, classes, newest }) = convert_level(scope, &lifecycles) else {
            continue;
        };
        edits.extend(more);
        let path = dotted(&scope.path(&[Step::from("exports")]));
        let noun = if classes == 1 { "class" } else { "classes" };
        options.draft.notes.push(format!("declared {classes} {noun} in `{path}` instead of `migrations`"));
        left.extend(newest.map(|tag| {
            format!(
                "next: deploy the migrations before `{tag}` first, wherever they are not deployed yet: `{path}` has the renames and deletions of `{tag}` only"
            )
        }));
    }
    left.push(NEXT.to_owned());
    options.draft.config = Some(config.document.apply(&edits));
    Ok(left)
}

/// Returns the conversion of a level. An environment that inherits both lists needs none.
fn convert_level(scope: &Scope, lifecycles: &[Lifecycle]) -> Option<Conversion> {
    let own = lifecycles.iter().find(|list| list.environment == scope.environment);
    if let Some(own) = own {
        return own.is_migrations().then(|| own.to_exports(scope));
    }
    // Its own `exports` replace those of the top level.
    let top = lifecycles.first().filter(|top| top.is_migrations() && scope.get("exports").is_some())?;
    Some(top.to_exports(scope))
}

/// Reports what prevents the conversion.
fn report_obstacles(config: &Config, scopes: &[Scope], lifecycles: &[Lifecycle], findings: &mut Findings) {
    let mut obstacles: Vec<Obstacle> = lifecycles.iter().flat_map(Lifecycle::conversion_obstacles).collect();
    for scope in scopes {
        let own = lifecycles.iter().find(|list| list.environment == scope.environment);
        let list = own.or(lifecycles.first()).filter(|list| list.is_migrations());
        obstacles.extend(list.into_iter().flat_map(|list| list.level_obstacles(&Level::new(scope))));
    }
    // Without the environment, its list would contradict the `exports` that it inherits.
    let environments = config.document.value().get("env").and_then(Value::as_object);
    for (name, value) in environments.into_iter().flatten() {
        let is_managed = scopes.iter().any(|scope| scope.environment.as_ref() == Some(name));
        if !is_managed && value.get("migrations").is_some_and(|list| !list.is_null()) {
            let why = format!(
                "the environment `{name}` has `migrations` of its own, and koze does not manage it: add it to `package.metadata.koze.environments`"
            );
            let path = vec![Step::from("env"), Step::from(name.as_str()), Step::from("migrations")];
            obstacles.push(Obstacle { why, path });
        }
    }
    for Obstacle { why, path } in obstacles {
        findings.add(Rule::NotConvertible { why }, Some(config.place(&path)));
    }
}
