//! Checks the project: whether it builds, is up to date, and uses supported versions of the SDK and images.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use koze_edit::Step;
use koze_model::image::{self, ImageSource};
use koze_model::{Kind, Level, rules};
use serde_json::Value;

use super::Check;
use crate::build::Build;
use crate::finding::Findings;
use crate::manifest;
use crate::plan::Planned;
use crate::sdk::END_OF_FIXES as END;
use crate::wrangler::locate::Config;
use crate::wrangler::scope::{Scope, dotted};
use crate::write::Action;

/// The end of 2026-12-31, UTC, in seconds: until then, Cloudflare fixes `@cloudflare/sandbox` 0.x.
const END_OF_FIXES: u64 = 1_798_761_600;

pub(super) fn checks(build: &Build, findings: &Findings, now: SystemTime) -> Vec<Check> {
    let mut checks = vec![check_build(build, findings)];
    checks.extend(build.sdk.as_ref().map(|sdk| check_maintenance(&sdk.version, &sdk.source, now)));
    checks.extend(check_images(build));
    checks.extend(check_saved_disks(build));
    checks.extend(check_module(build));
    checks
}

/// Checks whether a build would succeed without changes.
fn check_build(build: &Build, findings: &Findings) -> Check {
    let errors = findings.count(Level::Error);
    let changes = build.plan.iter().flat_map(|plan| &plan.changes);
    let drift: Vec<&str> = changes
        .filter(|change| change.action() != Action::Unchanged)
        .map(|change| change.shown.as_str())
        .collect();
    if errors > 0 || build.project.is_none() {
        Check::error("project", "it does not build", "correct the errors, then run `koze doctor` again")
    } else if build.sandboxes.is_empty() && build.script.is_none() && drift.is_empty() {
        Check::warning("project", "it has no sandbox", "create one with `koze add shell`")
    } else if drift.is_empty() {
        Check::ok("project", "every file is in step")
    } else {
        Check::error("project", format!("{} not in step", rules::listed(&drift)), "run `koze build`")
    }
}

/// Checks how long the SDK gets fixes.
fn check_maintenance(version: &str, source: &str, now: SystemTime) -> Check {
    let found = format!("@cloudflare/sandbox {version}, from {source}");
    let ended = now >= UNIX_EPOCH + Duration::from_secs(END_OF_FIXES);
    let help = "1.0 has no `Sandbox` class: `koze migrate --backend native` moves sandboxes to koze's own guest, which does not need the SDK; it keeps the storage, and `--dry-run` shows the changes";
    let gets = if ended { "got" } else { "gets" };
    Check::warning(
        "sdk",
        format!("{found}; 0.x {gets} fixes only until {END}, and deployed Workers keep running"),
        help,
    )
}

/// Checks whether the SDK's images have its version. The build itself reports Dockerfiles.
fn check_images(build: &Build) -> Option<Check> {
    let version = &build.sdk.as_ref()?.version;
    let astray = |sandbox: &&Planned| {
        let tag = sandbox.image.rsplit_once(':').map_or("", |(_, tag)| tag);
        image::is_default_repository(&sandbox.image) && !image::in_step(tag, version)
    };
    let sandboxes = || build.sandboxes.iter().filter(|planned| planned.kind == Kind::Sandbox);
    let astray: Vec<&Planned> = sandboxes().filter(astray).collect();
    let Some(first) = astray.first() else {
        let count = sandboxes().count();
        let default = |sandbox: &&Planned| image::is_default_repository(&sandbox.image);
        let followed = sandboxes().filter(default).count();
        return (count > 0).then(|| {
            Check::ok("images", format!("{followed} of {count} are the SDK's, of its version {version}"))
        });
    };
    let files: Vec<&str> = astray.iter().map(|sandbox| sandbox.file.as_str()).collect();
    let whose = match first.image_source {
        ImageSource::Configuration => "remove `image` from the container",
        _ => "remove `image` from the attribute",
    };
    Some(Check::warning(
        "images",
        format!("the image of {} does not have the version {version}", rules::listed(&files)),
        format!("the SDK and its image must have the same version: {whose}, so that the tag follows the SDK"),
    ))
}

/// Says how long the platform keeps the disks that sandboxes save, and how many there are.
fn check_saved_disks(build: &Build) -> Option<Check> {
    let keeps = |sandbox: &&Planned| sandbox.provided.iter().any(|profile| profile.keep_files);
    let files: Vec<&str> =
        build.sandboxes.iter().filter(keeps).map(|sandbox| sandbox.file.as_str()).collect();
    (!files.is_empty()).then(|| {
        let found = format!(
            "{} with `keep_files`: a sandbox has one saved disk of at most 20 GB, which the platform deletes 30 days after it was \
             saved or used; disks that a later one replaced, and those of destroyed sandboxes, exist until then, too",
            rules::listed(&files)
        );
        Check::ok("disks", found)
    })
}

/// Checks that Node's modules are enabled at every level. The SDK imports them, and without them the Worker does not
/// start. Without the SDK, koze does not need them.
pub(super) fn flags(config: &Config) -> Check {
    let root = config.document.value();
    let environments = root.get("env").and_then(Value::as_object).into_iter().flatten();
    let levels = environments.map(|(name, value)| Scope::of_environment(name, value, root));
    let lacking: Vec<String> = std::iter::once(Scope::top(root))
        .chain(levels)
        .filter(Scope::lacks_node)
        .map(|scope| dotted(&scope.path(&[Step::from("compatibility_flags")])))
        .collect();
    if lacking.is_empty() {
        return Check::ok("flags", "`nodejs_compat` is on");
    }
    let lacking: Vec<&str> = lacking.iter().map(String::as_str).collect();
    Check::error(
        "flags",
        format!("no `nodejs_compat` in {} of {}", rules::listed(&lacking), config.shown),
        "add it, or run `koze init`: a Worker with the sandbox SDK does not start without it",
    )
}

/// Checks whether the library declares the generated module.
fn check_module(build: &Build) -> Option<Check> {
    let dir = build.project.as_ref()?;
    let file = manifest::library(dir);
    Some(if manifest::declares_generated(dir) {
        Check::ok("module", format!("`{file}` declares `mod generated;`"))
    } else {
        let found = format!("`{file}` does not declare `mod generated;`");
        Check::warning("module", found, "run `koze init`, which declares it")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixes_end_with_2026() {
        let before = UNIX_EPOCH + Duration::from_secs(END_OF_FIXES - 1);
        let found = |now| check_maintenance("0.12.10", "package.json", now).found;
        assert_eq!(
            found(before),
            "@cloudflare/sandbox 0.12.10, from package.json; 0.x gets fixes only until 2026-12-31, and deployed Workers keep running"
        );
        assert!(found(before + Duration::from_secs(1)).contains("0.x got fixes only until 2026-12-31"));
    }
}
