//! Runs the cases on an existing host.

use std::collections::BTreeMap;
use std::sync::Arc;

use libtest_mimic::{Arguments, Conclusion, Trial};

use super::tidy::Tidy;
use crate::conformance::{Capability, Case, Host, Session, cases};

/// The options of a run.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The capabilities that the host lacks, with the reasons.
    pub lacks: Vec<(Capability, String)>,
    /// Run only the cases whose names contain this.
    pub filter: Option<String>,
    /// Run only these cases, by their full names; empty means all.
    pub only: &'static [&'static str],
    /// The number of cases to run in parallel.
    pub at_once: Option<usize>,
}

/// Runs the cases of the agent's tools, and prints the result of each and the reason for each one left out. Returns whether at least one ran
/// and none failed.
pub fn play(name: &str, host: &Arc<dyn Host>, options: &Options) -> bool {
    play_all(name, host, cases(), options)
}

/// Runs these cases in the same way.
pub fn play_all(name: &str, host: &Arc<dyn Host>, all: Vec<Case>, options: &Options) -> bool {
    let lacks = |capability: &Capability| options.lacks.iter().any(|(lacking, _)| lacking == capability);
    let can: Vec<Capability> = Capability::ALL.into_iter().filter(|capability| !lacks(capability)).collect();
    let mut left_out = BTreeMap::new();
    let mut trials = Vec::new();
    for name in options.only {
        assert!(all.iter().any(|case| case.name == *name), "there is no case `{name}`");
    }
    let named = |case: &Case| options.only.is_empty() || options.only.contains(&case.name);
    let (sample, others): (Vec<_>, Vec<_>) = all.into_iter().partition(named);
    if !others.is_empty() {
        println!("{name}: {} cases are played elsewhere", others.len());
    }
    for case in sample {
        let reason = case.left_out(&can);
        left_out.extend(reason.clone().map(|reason| (case.name, reason)));
        let (host, can) = (Arc::clone(host), can.clone());
        let play = move || {
            (case.play)(&Session::new(&Tidy::new(&*host), &can, case.name));
            Ok(())
        };
        trials.push(Trial::test(case.name, play).with_kind(name).with_ignored_flag(reason.is_some()));
    }
    println!("{name}: {} cases left out", left_out.len());
    for (case, reason) in left_out {
        println!("  {case} {reason}");
    }
    for (capability, reason) in &options.lacks {
        println!("  without {capability:?}: {reason}");
    }
    let arguments =
        Arguments { filter: options.filter.clone(), test_threads: options.at_once, ..Arguments::default() };
    let Conclusion { num_passed, num_failed, .. } = libtest_mimic::run(&arguments, trials);
    if num_passed + num_failed == 0 {
        println!("no case was played: the filter fits none that this host can do");
    }
    num_passed > 0 && num_failed == 0
}
