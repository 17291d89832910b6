//! Known escape techniques (`koze_local::prove`), each attempted twice: in a sandbox as it is, where it must fail, and
//! in a control, where it must succeed.

use std::process::Command;

use koze_local::Weakness;
use koze_local::prove::{self, Fault, Prover, Verdict};
use libtest_mimic::{Failed, Trial};

use crate::Test;
use crate::stage::{is_root, within};

pub(crate) const TESTS: &[Test] = &[
    ("a_proof_reports_missing_protections", a_proof_reports_missing_protections),
    ("an_argument_cannot_select_protections", an_argument_cannot_select_protections),
    ("attempts_at_credentials_see_what_programs_see", attempts_at_credentials_see_what_programs_see),
];

/// Returns all attempts. A control that requires root is left out for other users, with a message.
pub(crate) fn trials(kind: &str) -> Vec<Trial> {
    prove::attempts()
        .flat_map(|name| {
            let root = prove::needs_root(name) && !is_root();
            let shut = Trial::test(format!("escape_{name}"), move || shut(name)).with_kind(kind);
            let open = Trial::test(format!("control_{name}"), move || open(name)).with_kind(kind);
            if root {
                eprintln!("control_{name} is left out: its control is a run as root");
            }
            [shut, open.with_ignored_flag(root)]
        })
        .collect()
}

fn shut(name: &str) -> Result<(), Failed> {
    proved(async |mut prover| {
        assert_eq!(prover.run_protected(name).await?, Ok(()), "{name}");
        Ok(())
    })
}

fn open(name: &str) -> Result<(), Failed> {
    proved(async |mut prover| {
        assert_eq!(
            prover.run_control(name).await?,
            Ok(()),
            "{name}: an attempt that cannot succeed shows nothing"
        );
        Ok(())
    })
}

fn proved(work: impl AsyncFnOnce(Prover) -> Result<(), Fault>) -> Result<(), Failed> {
    within(async {
        let dir = tempfile::tempdir().unwrap();
        work(Prover::new(dir.path()).await.unwrap()).await.unwrap();
    })
}

/// The control of `koze doctor --prove` itself: for a sandbox that lacks a protection, it must not report success.
fn a_proof_reports_missing_protections() -> Result<(), Failed> {
    within(async {
        let dir = tempfile::tempdir().unwrap();
        let mut prover =
            Prover::weakened(dir.path(), vec![Weakness::Network, Weakness::Filter]).await.unwrap();
        for open in ["host_loopback", "abstract_sockets", "call_ptrace"] {
            assert_eq!(prover.prove(open).await, Verdict::Open("taken".to_owned()), "{open}");
        }
        assert_eq!(prover.prove("read_host_file").await, Verdict::Held);
        let unknown = prover.prove("unknown").await;
        assert!(matches!(&unknown, Verdict::NotTestable(_)), "{unknown:?}");
    })
}

/// An attempt that fails on the way would also count as refused.
fn attempts_at_credentials_see_what_programs_see() -> Result<(), Failed> {
    proved(async |mut prover| {
        for (name, expected) in [
            ("credential_in_an_environment", "it is in no environment"),
            ("credential_in_memory", "it is in no process"),
            ("credential_on_disk", "it is in no file"),
            ("credential_at_another_host", "HTTP/1.1 403 Forbidden"),
            ("credential_in_an_echo", "HTTP/1.1 200 OK"),
        ] {
            assert_eq!(prover.attempt(name).await?, format!("refused: {expected}"), "{name}");
        }
        Ok(())
    })
}

/// Attempts by input run in child processes, whose arguments name one of two runs: a list of protections is refused.
fn an_argument_cannot_select_protections() -> Result<(), Failed> {
    for (run, status) in [("protected", 0), ("[\"Statements\"]", 2), ("[]", 2), ("Statements", 2), ("", 2)] {
        let dir = tempfile::tempdir().unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--koze-input", "a_statement_without_end"]).arg(dir.path()).arg(run);
        let output = child.output()?;
        assert_eq!(output.status.code(), Some(status), "{run}: {output:?}");
    }
    Ok(())
}
