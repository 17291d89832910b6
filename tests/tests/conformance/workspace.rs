//! The tools `workspace`: the cases on every host, and the definitions that a model receives.

use std::time::Duration;

use koze_core::Profiles;
use koze_core::provider::{Profile, Size};
use koze_core::tool::{All, Catalog, Family};
use koze_core::workspace::{CodeConfig, Language, ShellConfig, SnapshotConfig, WorkspaceConfig};
use koze_tests::conformance::{Capability, WORKSPACES, check_workspace_answers, workspace_cases};
use libtest_mimic::Trial;

use crate::{Hosted, in_process, schema, trial};

/// The workspaces in containers of an engine. The image of the tests has no Python.
const ENGINE: &str = "workspaces, engine";

fn hosts() -> Vec<Hosted> {
    let memory = Hosted {
        name: "workspaces in memory",
        start: in_process::workspaces_in_memory,
        ..in_process::MEMORY
    };
    let mut hosts = vec![memory];
    #[cfg(target_os = "linux")]
    hosts.extend([
        Hosted { name: "workspaces, local", start: in_process::start_workspaces, ..in_process::LOCAL },
        Hosted {
            name: "workspaces, koze call",
            start: crate::command::start_workspaces,
            ..crate::command::HOST
        },
    ]);
    #[cfg(target_os = "linux")]
    if crate::engine::can_run() {
        hosts.push(Hosted { name: ENGINE, start: in_process::start_engine_workspaces, ..in_process::ENGINE });
    }
    hosts
}

/// The workspaces that [`WORKSPACES`] declares, written by hand.
pub(crate) fn profiles() -> Profiles {
    let shell = |name: &str| match name {
        "open" => Some(ShellConfig::default()),
        "strict" => Some(ShellConfig {
            allow: Some(["echo", "cat", "/usr/bin/id"].map(str::to_owned).to_vec()),
            max_duration: Duration::from_secs(5),
        }),
        _ => None,
    };
    let code = |name: &str| match name {
        "code" => Some(CodeConfig { stateful: true, ..CodeConfig::default() }),
        "python" => Some(CodeConfig { languages: vec![Language::Python], stateful: false }),
        _ => None,
    };
    let profile = |(name, _): (&str, &str)| Profile {
        tools: vec![Family::Workspace],
        workspace: Some(WorkspaceConfig {
            shell: shell(name),
            code: code(name),
            snapshot: (name == "saved").then(|| SnapshotConfig {
                bucket: Some("SNAPSHOTS".to_owned()),
                max_count: 3,
                ..SnapshotConfig::default()
            }),
            snapshot_dir: (name == "saved").then(|| "/workspace/src".to_owned()),
            ..WorkspaceConfig::new(name)
        }),
        ..Profile::new(name, "debian:trixie-slim", Size { memory_mib: 256, disk_mb: 2000 })
    };
    Profiles::new(WORKSPACES.map(profile).to_vec(), "box").expect("it is one of them")
}

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = vec![
        Trial::test("the_definitions_of_workspaces_are_as_committed", || {
            let profiles = profiles();
            let catalog = Catalog::<All>::select(&profiles, None).expect("the only family");
            schema::in_every_dialect("workspace.json", &catalog.definitions(&profiles));
            Ok(())
        })
        .with_kind("schema"),
    ];
    for host in hosts() {
        let can: Vec<Capability> =
            Capability::ALL.into_iter().filter(|capability| !host.lacks.contains(capability)).collect();
        if can.contains(&Capability::Exec) && host.name != ENGINE {
            let start = host.start;
            let check = move || {
                check_workspace_answers(&*start(), "answers");
                Ok(())
            };
            trials.push(Trial::test("workspace_answers_are_as_committed", check).with_kind(host.name));
        }
        for case in workspace_cases() {
            #[cfg(target_os = "linux")]
            if host.name == ENGINE && !crate::engine::plays(case.name) {
                continue;
            }
            let reason = case.left_out(&can);
            trials.push(trial(&host, can.clone(), case, reason));
        }
    }
    trials
}
