//! What a sandbox can make this program keep open.

use std::io::{BufRead as _, BufReader};
use std::process::{Command as Process, ExitCode, Stdio};

use koze::provider::local::{Local, Weakness};
use koze::{Code, Provider, Sandbox};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::Test;
use crate::stage::{command, id, template, within};

/// Makes this program one that may have few descriptors, and runs programs that leave some behind. With another argument, the
/// protection is left out.
pub(crate) const FEW: &str = "--few-descriptors";
const MOST: u64 = 300;

pub(crate) const TESTS: &[Test] = &[
    ("what_is_left_behind_costs_no_more_than_it_may", bounded),
    ("control_what_is_left_behind_takes_all_descriptors", unbounded),
];

fn bounded() -> Result<(), libtest_mimic::Failed> {
    assert_eq!(leave_behind(&[])?, format!("raised to {MOST}\nstill here\n"));
    Ok(())
}

fn unbounded() -> Result<(), libtest_mimic::Failed> {
    let said = leave_behind(&["weak"])?;
    assert!(said.starts_with("raised to 256\nunavailable: "), "{said}");
    Ok(())
}

fn leave_behind(weak: &[&str]) -> Result<String, libtest_mimic::Failed> {
    let state = tempfile::tempdir()?;
    let mut child = Process::new(std::env::current_exe()?)
        .arg(FEW)
        .arg(state.path())
        .args(weak)
        .stdout(Stdio::piped())
        .spawn()?;
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let said = lines.map(|line| line.unwrap() + "\n").collect();
    assert!(child.wait()?.success());
    Ok(said)
}

/// See [`FEW`].
pub(crate) fn few() -> ExitCode {
    setrlimit(Resource::Nofile, Rlimit { current: Some(256), maximum: Some(MOST) }).unwrap();
    let state = std::env::args_os().nth(2).unwrap();
    let local = match std::env::args().nth(3) {
        Some(_) => Local::weakened(state, vec![Weakness::Pipes]).unwrap(),
        None => Local::new(state).unwrap(),
    };
    println!("raised to {}", getrlimit(Resource::Nofile).current.unwrap());
    let ran = within(async {
        let sandbox = local.open(&id("a"), &template()).await.unwrap().sandbox;
        for _ in 0..MOST / 2 {
            let ran = sandbox.exec(command(&["sh", "-c", "sleep 600 &"])).await;
            if let Err(error) = ran {
                assert_eq!(error.code, Code::Unavailable);
                println!("{error}");
                return;
            }
        }
        let said = sandbox.exec(command(&["echo", "still here"])).await.unwrap();
        print!("{}", String::from_utf8(said.stdout).unwrap());
    });
    if ran.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
