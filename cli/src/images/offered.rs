//! The images that agents may name: those of the sandboxes that serve agents.

use koze_core::Profiles;
use koze_core::egress::{Credential, DeclaredPolicy, Limits, Placement};
use koze_core::provider::{NamedSize, Profile, Size};
use koze_core::workspace::{self, CodeConfig, Language, ShellConfig, SnapshotConfig, WorkspaceConfig};
use koze_model::{Family, Sandbox, Spanned, attrs, instance};

use super::Resolved;

/// Returns whether a sandbox serves agents.
pub fn serves(sandbox: &Sandbox) -> bool {
    !served_families(sandbox).is_empty()
}

/// Returns the families of tools that a sandbox serves.
fn served_families(sandbox: &Sandbox) -> Vec<Family> {
    Family::OF_SANDBOXES.into_iter().filter(|family| sandbox.attributes.serves(*family)).collect()
}

/// Returns the images of the sandboxes that serve agents, ordered by file, or `None` if no sandbox serves agents.
///
/// The default is the first image of the sandbox with the key `default`, or else of `first`, the first one ever built.
///
/// # Panics
/// Panics if `first` does not serve agents.
pub fn offered<'a>(
    sandboxes: impl Iterator<Item = (&'a Sandbox, Vec<Resolved>)>,
    first: Option<&str>,
) -> Option<Profiles> {
    let served: Vec<_> = sandboxes.filter(|(sandbox, _)| serves(sandbox)).collect();
    let declared = served.iter().find(|(sandbox, _)| sandbox.attributes.default.is_some());
    let first = || served.iter().find(|(sandbox, _)| Some(sandbox.names.base.as_str()) == first);
    let (_, images) = declared.or_else(first)?;
    let default = images.first()?.name.as_str();
    let profiles = |(sandbox, images): &(&Sandbox, Vec<Resolved>)| {
        images.iter().map(|image| provided(sandbox, image)).collect::<Vec<_>>()
    };
    let list = served.iter().flat_map(profiles).collect();
    Some(Profiles::new(list, default).expect("the default is one of them"))
}

/// Returns the workspace that a sandbox declares, if it serves the tools for it.
fn workspace_config(sandbox: &Sandbox) -> Option<WorkspaceConfig> {
    let default = WorkspaceConfig {
        max_instances: max_instances(sandbox),
        ..WorkspaceConfig::new(sandbox.workspace()?)
    };
    let Some(Spanned { value: declared, .. }) = &sandbox.attributes.workspace else { return Some(default) };
    let shell = |shell: &attrs::Shell| ShellConfig {
        allow: shell.allow.clone(),
        max_duration: shell.max_duration.unwrap_or(workspace::MAX_DURATION),
    };
    let code = |code: &attrs::Code| CodeConfig {
        languages: code.languages.as_ref().map_or_else(
            || Language::ALL.to_vec(),
            |names| names.iter().filter_map(|name| Language::find(name)).collect(),
        ),
        stateful: code.stateful,
    };
    let snapshot = |snapshot: &attrs::Snapshot| SnapshotConfig {
        bucket: snapshot.bucket.clone(),
        allow_cross_session: snapshot.allow_cross_session,
        max_count: snapshot.max_count.unwrap_or(workspace::MAX_SNAPSHOTS),
        max_bytes: snapshot.max_mb.map_or(workspace::MAX_SNAPSHOT_BYTES, |most| u64::from(most) * 1_000_000),
        expires_after: snapshot.expires_after,
    };
    Some(WorkspaceConfig {
        dir: declared.dir.clone().unwrap_or(default.dir),
        id: declared.id.clone(),
        share_across_sessions: declared.share_across_sessions,
        destroy_on_close: declared.destroy_on_close,
        shell: declared.shell.as_ref().map(shell),
        code: declared.code.as_ref().map(code),
        snapshot: declared.snapshot.as_ref().map(snapshot),
        snapshot_dir: declared.snapshot_dir.clone(),
        ..default
    })
}

fn named_sizes(sandbox: &Sandbox) -> Vec<NamedSize> {
    let to_size = |name: &String| {
        let instance::Size { memory_mib, disk_mb } = instance::size(name);
        NamedSize { name: name.clone(), size: Size { memory_mib, disk_mb } }
    };
    sandbox.attributes.sizes.iter().flat_map(|sizes| &sizes.value).map(to_size).collect()
}

fn max_instances(sandbox: &Sandbox) -> Option<u32> {
    sandbox.attributes.max_instances.as_ref().map(|most| most.value)
}

fn credentials(sandbox: &Sandbox) -> Vec<Credential> {
    let credential = |declared: &attrs::Credential| {
        let placement = match declared.placement.clone() {
            attrs::Placement::Bearer => Placement::Bearer,
            attrs::Placement::Basic(user) => Placement::Basic { user },
            attrs::Placement::Header(name) => Placement::Header { name },
            attrs::Placement::Query(key) => Placement::Query { key },
            attrs::Placement::Sigv4 { region, service } => Placement::Sigv4 { region, service },
        };
        Credential { name: declared.name.clone(), host: declared.host.value.clone(), placement }
    };
    sandbox.attributes.credentials.iter().flat_map(|all| &all.value).map(credential).collect()
}

fn limits(sandbox: &Sandbox) -> Limits {
    let declared = sandbox.attributes.limits.as_ref().map(|limits| limits.value.clone()).unwrap_or_default();
    Limits { requests: declared.requests, bytes: declared.bytes }
}

/// Returns the egress policy of a sandbox.
pub fn declared_policy(sandbox: &Sandbox) -> DeclaredPolicy {
    let attributes = &sandbox.attributes;
    let allowlist = attributes.allowlist();
    // In the attribute, an empty list allows no hosts. In a policy, an empty list means that there is no allowlist.
    let none = allowlist.as_ref().is_some_and(Vec::is_empty);
    DeclaredPolicy {
        internet: !none && attributes.internet.as_ref().is_some_and(|internet| internet.value),
        allowed_hosts: allowlist.unwrap_or_default(),
        denied_hosts: attributes.denied_hosts.as_ref().map_or_else(Vec::new, |denied| denied.value.clone()),
        credentials: credentials(sandbox),
        limits: limits(sandbox),
    }
}

/// Converts the image of a sandbox and its attribute to the type that sandbox providers take.
pub fn provided(sandbox: &Sandbox, image: &Resolved) -> Profile {
    let attributes = &sandbox.attributes;
    let instance::Size { memory_mib, disk_mb } = attributes.size();
    let DeclaredPolicy { internet, allowed_hosts, denied_hosts, credentials, limits } =
        declared_policy(sandbox);
    Profile {
        internet,
        allowed_hosts,
        denied_hosts,
        credentials,
        limits,
        env: attributes.env_vars.clone(),
        sleep_after: attributes.idle(),
        sizes: named_sizes(sandbox),
        keep_files: attributes.keeps_files(),
        processes: attributes.processes.as_ref().is_none_or(|processes| processes.value),
        tools: served_families(sandbox),
        workspace: workspace_config(sandbox),
        stored: image.recipe.as_ref().map(|recipe| recipe.stored.clone()),
        ..Profile::new(&image.name, &image.image, Size { memory_mib, disk_mb })
    }
}
