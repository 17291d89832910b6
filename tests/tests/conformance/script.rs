//! The tools `script`: the cases on every host that runs scripts, and the definitions that a model receives.

use koze_core::Profiles;
use koze_core::tool::{All, Catalog};
use koze_tests::conformance::{Capability, script_cases};
use libtest_mimic::Trial;

use crate::{Hosted, in_process, schema, trial};

fn hosts() -> Vec<Hosted> {
    let memory =
        Hosted { name: "scripts in memory", start: in_process::scripts_in_memory, ..in_process::MEMORY };
    let mut hosts = vec![memory];
    #[cfg(target_os = "linux")]
    hosts.push(Hosted { name: "scripts, local", start: in_process::start_scripts, lacks: without_browser() });
    hosts
}

/// Returns what a machine without Chromium lacks: there, the cases of the browser are left out.
#[cfg(target_os = "linux")]
fn without_browser() -> &'static [Capability] {
    let Err(missing) = koze_local::check_browser() else { return &[] };
    assert!(std::env::var_os("CI").is_none(), "the browser cannot be tested: {missing}");
    eprintln!("scripts, local: the cases of the browser are left out: {missing}");
    &[Capability::Browser]
}

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = vec![
        Trial::test("the_definitions_of_scripts_are_as_committed", || {
            let profiles = Profiles::of_scripts().with_script_browser(true);
            let catalog = Catalog::<All>::select(&profiles, None).expect("the only family");
            schema::in_every_dialect("script.json", &catalog.definitions(&profiles));
            Ok(())
        })
        .with_kind("schema"),
    ];
    for host in hosts() {
        let can: Vec<Capability> =
            Capability::ALL.into_iter().filter(|capability| !host.lacks.contains(capability)).collect();
        for case in script_cases() {
            let reason = case.left_out(&can);
            trials.push(trial(&host, can.clone(), case, reason));
        }
    }
    trials
}
