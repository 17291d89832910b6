//! Runs the tests that failed once more, each alone: many wait for other processes, and a machine that stalls for seconds
//! can fail one of them. What fails twice has failed.

use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;

use crate::Result;

/// More failed tests than this are no accident.
const MOST_TESTS: usize = 20;
/// The same for the programs that they are in.
const MOST_TARGETS: usize = 5;

/// What failed in a run of `cargo test`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Failed {
    /// The arguments of their targets, such as `--test container`. Without packages: a selection of packages has other
    /// features, and cargo would compile everything again.
    targets: Vec<String>,
    /// The names of the tests.
    tests: Vec<String>,
}

/// Runs `cargo`, and returns how it ended and what failed. Its output goes to this terminal, too.
pub(super) fn watch(cargo: &mut Command) -> Result<(ExitStatus, Failed)> {
    let mut child = cargo.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (Some(out), Some(err)) = (child.stdout.take(), child.stderr.take()) else {
        return Err("cargo has no output".into());
    };
    let out = thread::spawn(move || pass_on(out, io::stdout()));
    let err = pass_on(err, io::stderr())?;
    let out = out.join().map_err(|_| "the output of cargo could not be passed on")??;
    Ok((child.wait()?, Failed { targets: targets(&err), tests: tests(&out) }))
}

fn pass_on(from: impl Read, mut to: impl Write) -> io::Result<Vec<String>> {
    let mut printed = Vec::new();
    for line in BufReader::new(from).split(b'\n') {
        let line = line?;
        to.write_all(&[&line[..], b"\n"].concat())?;
        to.flush()?;
        // Tests may print bytes that are not UTF-8.
        printed.push(String::from_utf8_lossy(&line).into_owned());
    }
    Ok(printed)
}

/// Runs what failed once more: `cargo` creates a `cargo test` of everything. Returns whether every target now passes.
pub(super) fn run(failed: &Failed, cargo: impl Fn() -> Result<Command>) -> Result<bool> {
    let Failed { targets, tests } = failed;
    if targets.is_empty() || targets.len() > MOST_TARGETS || tests.is_empty() || tests.len() > MOST_TESTS {
        return Ok(false);
    }
    eprintln!("\nwarning: these failed, and are run once more: {}\n", tests.join(", "));
    for target in targets {
        let mut passed = 0;
        for test in tests {
            let mut cargo = cargo()?;
            cargo.args(target.split(' ')).args(["--", "--exact", test]);
            let output = cargo.stderr(Stdio::inherit()).output()?;
            io::stdout().write_all(&output.stdout)?;
            if !output.status.success() {
                return Ok(false);
            }
            passed += count(&String::from_utf8_lossy(&output.stdout));
        }
        // A program that ended without naming what failed.
        if passed == 0 {
            return Ok(false);
        }
    }
    eprintln!("\nwarning: these failed once, and passed when they were run again: {}", tests.join(", "));
    Ok(true)
}

/// Reads the targets that failed from cargo's last lines.
fn targets(printed: &[String]) -> Vec<String> {
    let is_summary = |line: &String| line.starts_with("error: ") && line.trim_end().ends_with(" failed:");
    let Some(start) = printed.iter().rposition(is_summary) else { return Vec::new() };
    unique(
        printed[start + 1..]
            .iter()
            .map_while(|line| line.trim().strip_prefix("`-p ")?.strip_suffix('`')?.split_once(' '))
            .map(|(_, target)| target.to_owned()),
    )
}

/// Reads the tests that failed from the lists of the test programs.
fn tests(printed: &[String]) -> Vec<String> {
    let lists = printed.split(|line| line == "failures:").skip(1);
    unique(lists.flat_map(|list| list.iter().map_while(|line| line.strip_prefix("    ")).map(str::to_owned)))
}

/// Counts the tests that passed.
fn count(printed: &str) -> u64 {
    let passed = |line: &str| line.strip_prefix("test result: ok. ")?.split(' ').next()?.parse::<u64>().ok();
    printed.lines().filter_map(passed).sum()
}

fn unique(all: impl Iterator<Item = String>) -> Vec<String> {
    let mut all: Vec<String> = all.collect();
    all.sort();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn failed_targets_are_found() {
        let printed = "     Running tests/container/main.rs\nerror: 4 targets failed:\n    `-p koze-guest --test container`\n    \
                    `-p koze-core --lib`\n    `-p koze-model --lib`\n    `-p koze-tests --test mcp`\n";
        assert_eq!(targets(&lines(printed)), ["--lib", "--test container", "--test mcp"]);
        assert_eq!(targets(&lines("error: could not compile `koze-core` (lib)\n")), [""; 0]);
    }

    #[test]
    fn failed_tests_are_found() {
        let of_libtest = "failures:\n\n---- a::b stdout ----\n    left: 1\n\n\nfailures:\n    a::b\n    c\n\ntest result: FAILED.";
        assert_eq!(tests(&lines(of_libtest)), ["a::b", "c"]);
        let of_others = "failures:\n\n---- d ----\ntext\n\n\nfailures:\n    d\n\ntest result: FAILED.";
        assert_eq!(tests(&lines(of_others)), ["d"]);
        assert_eq!(tests(&lines("test a ... ok\n\ntest result: ok. 1 passed;")), [""; 0]);
    }

    #[test]
    fn passed_tests_are_counted() {
        assert_eq!(
            count(
                "running 1 test\ntest result: ok. 1 passed; 0 failed;\ntest result: ok. 2 passed; 0 failed;"
            ),
            3
        );
        assert_eq!(count("test result: FAILED. 1 passed; 1 failed;"), 0);
    }

    #[test]
    fn what_is_no_accident_is_not_repeated() {
        let never = || -> Result<Command> { Err("nothing is run".into()) };
        let many = |count: usize| (0..count).map(|number| number.to_string()).collect::<Vec<_>>();
        for (targets, tests) in
            [(0, 1), (1, 0), (MOST_TARGETS + 1, 1), (1, MOST_TESTS + 1)].map(|(a, b)| (many(a), many(b)))
        {
            assert!(!run(&Failed { targets, tests }, never).unwrap());
        }
        assert!(run(&Failed { targets: many(1), tests: many(1) }, never).is_err());
    }
}
