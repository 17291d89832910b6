//! Concurrent runs wait for each other.

use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

use koze_tests::{Project, run};

use crate::crash::{cold, command, printed, removal};

/// Runs all commands concurrently, and waits for them in order.
fn at_once(commands: Vec<Command>) -> Vec<Output> {
    let running: Vec<_> = commands
        .into_iter()
        .map(|command| thread::spawn(move || run(command, Duration::from_mins(1))))
        .collect();
    running.into_iter().map(|run| run.join().expect("it ended")).collect()
}

fn build_in(project: &Project) -> Command {
    let mut command = command(project);
    command.arg("build");
    command
}

#[test]
fn concurrent_builds_wait_for_each_other() {
    let scenario = cold();
    let project = scenario.project();
    let outputs = at_once((0..8).map(|_| build_in(&project)).collect());
    let contains = |output: &Output, words: &str| String::from_utf8_lossy(&output.stdout).contains(words);
    for output in &outputs {
        assert!(output.status.success(), "{output:?}");
    }
    let count = |words: &str| outputs.iter().filter(|output| contains(output, words)).count();
    assert_eq!((count("created koze.lock"), count("nothing to do")), (1, 7));
    assert_eq!(project.diff(&scenario.after), "");
}

/// A build that runs first asks about the storage; one that runs after the removal has nothing to do.
#[test]
fn a_build_during_a_removal_waits() {
    let scenario = removal("--delete-storage");
    let project = scenario.project();
    let mut commands: Vec<Command> = (0..6).map(|_| build_in(&project)).collect();
    let mut remove = command(&project);
    remove.args(&scenario.args);
    commands.insert(3, remove);
    for (index, output) in at_once(commands).into_iter().enumerate() {
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        match output.status.code() {
            Some(0) => assert!(index == 3 || out.contains("nothing to do"), "{out}"),
            Some(1) => assert!(index != 3 && printed(&output).starts_with("error[K043]"), "{output:?}"),
            _ => panic!("{output:?}"),
        }
    }
    assert_eq!(project.diff(&scenario.after), "");
}
