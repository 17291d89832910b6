//! Generates `tools.rs` and `tools.json`: the handlers and definitions of the agents' tools.

use std::collections::HashMap;
use std::fmt::Write as _;

use koze_core::Profiles;
use koze_core::egress::{Credential, Placement};
use koze_core::journal::JournalSettings;
use koze_core::provider::{Limits, NamedSize, Profile};
use koze_core::script::Egress;
use koze_core::tool::dialect::Dialect;
use koze_core::tool::{All, Catalog, Families, Family};
use koze_core::workspace::{CodeConfig, ShellConfig, SnapshotConfig, WorkspaceConfig};
use koze_model::{Backend, Sandbox, names};
use koze_templates::TOOLS;
use serde_json::{Value, json};

use super::MARK;
use super::env::code;
use super::template::{Fill, Template};

/// Renders the handlers and definitions. `offered` holds the profiles that agents may name, if any sandbox serves agents.
pub(super) fn render(sandboxes: &[Sandbox], offered: Option<&Profiles>) -> [(&'static str, String); 2] {
    [("tools.rs", render_handlers(sandboxes, offered)), ("tools.json", render_definitions(offered))]
}

fn render_handlers(sandboxes: &[Sandbox], offered: Option<&Profiles>) -> String {
    let served: Vec<Fill> = offered.map(outer_fill).into_iter().collect();
    let profiles: HashMap<&str, &Profile> = offered
        .iter()
        .flat_map(|offered| offered.list())
        .map(|profile| (profile.name.as_str(), profile))
        .collect();
    let default = offered.filter(|offered| !offered.list().is_empty()).map(Profiles::default_profile);
    let fills = sandboxes.iter().flat_map(|sandbox| {
        let images = sandbox.image_names();
        let several = images.len() > 1;
        let own = images.into_iter().filter_map(|name| profiles.get(name).copied());
        own.map(move |profile| {
            let is_default = default.is_some_and(|default| default.name == profile.name);
            profile_fill(sandbox, profile, several, is_default)
        })
    });
    let list: Vec<Fill> = fills.collect();
    Template::new(TOOLS).render(&Fill::default(), &|region| match region {
        "profiles" if list.is_empty() => &[],
        "served" | "profiles" => &served,
        "profile" => &list,
        other => unreachable!("the template has a region {other} that nobody fills"),
    })
}

/// Returns the values of the template outside its repeated regions.
fn outer_fill(profiles: &Profiles) -> Fill {
    let names: Vec<&str> = profiles.list().iter().map(|profile| profile.name.as_str()).collect();
    let families = All::ALL.iter().filter(|one| profiles.serve(**one)).map(|one| family_type(*one));
    let mut all = if names.is_empty() {
        "::koze::Profiles::of_scripts()".to_owned()
    } else {
        "::koze::Profiles::new(list, Profile::default().name()).expect(\"the default is one of them\")"
            .to_owned()
    };
    if let Some(egress) = profiles.script_egress() {
        let _ = write!(all, "\n        .with_script_egress({})", script_egress(egress));
    }
    let credentials = profiles.script_credentials().list();
    if !credentials.is_empty() {
        let list: Vec<String> = credentials.iter().map(credential_expression).collect();
        let _ = write!(all, "\n        .with_script_credentials([{}].to_vec())", list.join(", "));
    }
    if profiles.has_script_browser() {
        all.push_str("\n        .with_script_browser(true)");
    }
    if !profiles.journal().is_default() {
        let _ = write!(all, "\n        .with_journal({})", journal_settings(profiles.journal()));
    }
    Fill {
        holes: vec![
            ("__KOZE_COUNT__", names.len().to_string()),
            ("__KOZE_NAMES__", join_literals(&names)),
            ("__KOZE_FAMILIES__", families.collect::<Vec<_>>().join(", ")),
            ("__KOZE_PROFILES__", all),
        ],
        regions: if names.is_empty() { Vec::new() } else { vec!["profiles"] },
    }
}

/// Returns the expression for the hosts that scripts may reach. Values that are the default are left out.
fn script_egress(egress: &Egress) -> String {
    let hosts =
        |hosts: &[String]| format!("[{}].map(::core::convert::Into::into).to_vec()", join_literals(hosts));
    let values = [
        ("internet", egress.internet.then(|| "true".to_owned())),
        ("allowed_hosts", (!egress.allowed_hosts.is_empty()).then(|| hosts(&egress.allowed_hosts))),
        ("denied_hosts", (!egress.denied_hosts.is_empty()).then(|| hosts(&egress.denied_hosts))),
    ];
    struct_expression("::koze::script::Egress", values)
}

/// Returns the expression for what the journal of tool calls records.
fn journal_settings(JournalSettings { enabled, inputs, results }: JournalSettings) -> String {
    format!("::koze::journal::JournalSettings {{ enabled: {enabled}, inputs: {inputs}, results: {results} }}")
}

/// Fills in a profile. `several` says whether its class has other images, too.
fn profile_fill(sandbox: &Sandbox, profile: &Profile, several: bool, default: bool) -> Fill {
    let image = if several { format!("Some({:?})", profile.name) } else { "None".to_owned() };
    // With the other backends, the platform enforces it.
    let is_managed = sandbox.attributes.backend() == Backend::Managed;
    let most = sandbox.attributes.max_instances.as_ref().filter(|_| is_managed);
    let most = most.map_or_else(|| "None".to_owned(), |most| format!("Some({})", most.value));
    let mut fill = Fill {
        holes: vec![
            ("__KOZE_DOC__", format!("That of {}: {}.", code(&sandbox.file), code(&profile.reference))),
            ("__KOZE_VARIANT__", names::variant(&profile.name)),
            ("__KOZE_IMAGE__", image),
            ("__KOZE_MAX_INSTANCES__", most),
            ("__KOZE_BINDING__", sandbox.names.binding.clone()),
            ("__KOZE_NAME__", profile.name.clone()),
            ("__KOZE_REFERENCE__", profile.reference.escape_debug().to_string()),
            ("__KOZE_INTERNET__", profile.internet.to_string()),
            ("__KOZE_MEMORY__", profile.size.memory_mib.to_string()),
            ("__KOZE_DISK__", profile.size.disk_mb.to_string()),
        ],
        regions: Vec::new(),
    };
    if default {
        fill.regions.push("default");
    }
    if profile.keep_files {
        fill.regions.push("keep_files");
    }
    if !profile.processes {
        fill.regions.push("processes");
    }
    let mut part = |region, hole, value: Option<String>| {
        if let Some(value) = value {
            fill.regions.push(region);
            fill.holes.push((hole, value));
        }
    };
    let some = |text: String| (!text.is_empty()).then_some(text);
    let env: Vec<String> = profile.env.iter().map(|(name, value)| format!("({name:?}, {value:?})")).collect();
    part("allowed_hosts", "__KOZE_ALLOWED_HOSTS__", some(join_literals(&profile.allowed_hosts)));
    part("denied_hosts", "__KOZE_DENIED_HOSTS__", some(join_literals(&profile.denied_hosts)));
    let credentials: Vec<String> = profile.credentials.iter().map(credential_expression).collect();
    part("credentials", "__KOZE_CREDENTIALS__", some(credentials.join(", ")));
    part("limits", "__KOZE_LIMITS__", (!profile.limits.is_empty()).then(|| limits_fields(&profile.limits)));
    part("env", "__KOZE_ENV__", some(env.join(", ")));
    let tools =
        || profile.tools.iter().map(|one| format!("::koze::tool::Family::{one:?}")).collect::<Vec<_>>();
    let sizes: Vec<String> = profile
        .sizes
        .iter()
        .map(|NamedSize { name, size }| format!("({name:?}, {}, {})", size.memory_mib, size.disk_mb))
        .collect();
    part("sizes", "__KOZE_SIZES__", some(sizes.join(", ")));
    part("tools", "__KOZE_PROFILE_TOOLS__", (profile.tools != [Family::Agent]).then(|| tools().join(", ")));
    part("workspace", "__KOZE_WORKSPACE__", profile.workspace.as_ref().map(workspace_expression));
    if let Some((unit, number)) = profile.sleep_after.map(|sleep| largest_unit(sleep.as_secs())) {
        part("sleep_after", "__KOZE_UNIT__", Some(unit.to_owned()));
        fill.holes.push(("__KOZE_TIME__", number.to_string()));
    }
    fill
}

fn credential_expression(Credential { name, host, placement }: &Credential) -> String {
    let placement = match placement {
        Placement::Bearer => "Bearer".to_owned(),
        Placement::Basic { user } => format!("Basic {{ user: {user:?}.into() }}"),
        Placement::Header { name } => format!("Header {{ name: {name:?}.into() }}"),
        Placement::Query { key } => format!("Query {{ key: {key:?}.into() }}"),
        Placement::Sigv4 { region, service } => {
            format!("Sigv4 {{ region: {region:?}.into(), service: {service:?}.into() }}")
        }
    };
    format!(
        "::koze::provider::Credential {{ name: {name:?}.into(), host: {host:?}.into(), placement: ::koze::provider::Placement::{placement} }}"
    )
}

/// Returns the fields of limits.
fn limits_fields(Limits { requests, bytes }: &Limits) -> String {
    let text = |limit: &Option<String>| {
        limit.as_ref().map_or_else(|| "None".to_owned(), |limit| format!("Some({limit:?}.into())"))
    };
    format!("requests: {}, bytes: {}", text(requests), text(bytes))
}

/// Returns the expression for a workspace's configuration. Values that are the default are left out.
fn workspace_expression(config: &WorkspaceConfig) -> String {
    let default = WorkspaceConfig::new(&config.name);
    let mut fields = String::new();
    let mut field = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            let _ = write!(fields, "{name}: {value}, ");
        }
    };
    let text = |text: &String| format!("{text:?}.into()");
    field("dir", (config.dir != default.dir).then(|| text(&config.dir)));
    field("id", config.id.as_ref().map(|id| format!("Some({})", text(id))));
    field("share_across_sessions", config.share_across_sessions.then(|| "true".to_owned()));
    field("destroy_on_close", config.destroy_on_close.then(|| "true".to_owned()));
    field("shell", config.shell.as_ref().map(|config| format!("Some({})", shell_expression(config))));
    field("code", config.code.as_ref().map(|config| format!("Some({})", code_config(config))));
    field(
        "snapshot",
        config.snapshot.as_ref().map(|config| format!("Some({})", snapshot_expression(config))),
    );
    field("snapshot_dir", config.snapshot_dir.as_ref().map(|dir| format!("Some({})", text(dir))));
    field("max_instances", config.max_instances.map(|most| format!("Some({most})")));
    let new = format!("::koze::workspace::WorkspaceConfig::new({:?})", config.name);
    if fields.is_empty() { new } else { format!("::koze::workspace::WorkspaceConfig {{ {fields}..{new} }}") }
}

fn shell_expression(config: &ShellConfig) -> String {
    let allow = config.allow.as_ref().map_or("None".to_owned(), |programs| {
        format!("Some([{}].map(::core::convert::Into::into).to_vec())", join_literals(programs))
    });
    let (unit, number) = largest_unit(config.max_duration.as_secs());
    let duration = format!("::core::time::Duration::{unit}({number})");
    format!("::koze::workspace::ShellConfig {{ allow: {allow}, max_duration: {duration} }}")
}

fn code_config(config: &CodeConfig) -> String {
    let language = |language| format!("::koze::workspace::Language::{language:?}");
    let languages = config.languages.iter().map(language).collect::<Vec<_>>().join(", ");
    format!(
        "::koze::workspace::CodeConfig {{ languages: [{languages}].to_vec(), stateful: {} }}",
        config.stateful
    )
}

/// Returns the expression for the configuration of snapshots. Values that are the default are left out.
fn snapshot_expression(config: &SnapshotConfig) -> String {
    let default = SnapshotConfig::default();
    let after = config.expires_after.map(|after| largest_unit(after.as_secs()));
    let duration = |(unit, number)| format!("Some(::core::time::Duration::{unit}({number}))");
    let values = [
        ("bucket", config.bucket.as_ref().map(|binding| format!("Some({binding:?}.into())"))),
        ("allow_cross_session", config.allow_cross_session.then(|| "true".to_owned())),
        ("max_count", (config.max_count != default.max_count).then(|| config.max_count.to_string())),
        ("max_bytes", (config.max_bytes != default.max_bytes).then(|| config.max_bytes.to_string())),
        ("expires_after", after.map(duration)),
    ];
    struct_expression("::koze::workspace::SnapshotConfig", values)
}

/// Returns the expression for a value of a type: its default, with these fields.
fn struct_expression<const N: usize>(all: &str, values: [(&str, Option<String>); N]) -> String {
    let is_complete = values.iter().all(|(_, value)| value.is_some());
    let given = values.into_iter().filter_map(|(name, value)| Some(format!("{name}: {}", value?)));
    let mut fields: Vec<String> = given.collect();
    if fields.is_empty() {
        return format!("{all}::default()");
    }
    // An update without a field left is a lint of clippy.
    if !is_complete {
        fields.push(format!("..{all}::default()"));
    }
    format!("{all} {{ {} }}", fields.join(", "))
}

/// Converts seconds to the largest unit that divides them, with its constructor.
fn largest_unit(seconds: u64) -> (&'static str, u64) {
    match seconds {
        _ if seconds.is_multiple_of(3600) => ("from_hours", seconds / 3600),
        _ if seconds.is_multiple_of(60) => ("from_mins", seconds / 60),
        _ => ("from_secs", seconds),
    }
}

/// The type of a family's tools.
fn family_type(family: Family) -> &'static str {
    match family {
        Family::Agent => "::koze::tool::agent::Agent",
        Family::Thread => "::koze::tool::thread::Thread",
        Family::Workspace => "::koze::tool::workspace::WorkspaceTools",
        Family::Script => "::koze::tool::script::Scripts",
        other => unreachable!("no project can serve the tools `{other}` yet"),
    }
}

/// Joins texts as Rust literals.
fn join_literals<T: std::fmt::Debug>(texts: &[T]) -> String {
    texts.iter().map(|text| format!("{text:?}")).collect::<Vec<_>>().join(", ")
}

fn render_definitions(offered: Option<&Profiles>) -> String {
    // Without a default toolset there is nothing to list.
    let of = |profiles: &Profiles| Some(Catalog::<All>::select(profiles, None).ok()?.definitions(profiles));
    let definitions = offered.and_then(of).unwrap_or_default();
    let tools: Vec<Value> = definitions.iter().map(|tool| tool.to_json(Dialect::Mcp)).collect();
    format!("{:#}\n", json!({ "$comment": MARK, "tools": tools }))
}
