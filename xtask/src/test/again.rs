//! Runs the test targets that failed once more: many tests wait for other processes, and a machine that stalls for
//! seconds can fail one of them. What fails twice has failed.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use crate::Result;

/// More failed targets than this are no accident.
const MOST: usize = 5;

/// Runs `cargo`, and returns its exit code and the targets that failed, such as `--test container`. Its standard error
/// goes to this terminal, too.
pub(super) fn watch(cargo: &mut Command) -> Result<(u8, Vec<String>)> {
    let mut child = cargo.stderr(Stdio::piped()).spawn()?;
    let mut said = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        // Tests may print what is no text.
        for line in BufReader::new(stderr).split(b'\n') {
            let line = [&line?[..], b"\n"].concat();
            std::io::stderr().write_all(&line)?;
            said.push(String::from_utf8_lossy(&line).into_owned());
        }
    }
    Ok((super::code(child.wait()?), failed(&said)))
}

/// Returns the arguments of the runs that repeat these targets; none if there are too many. Cargo runs the tests in
/// documentation alone only.
pub(super) fn runs(targets: &[String]) -> Vec<Vec<&str>> {
    if targets.len() > MOST {
        return Vec::new();
    }
    let (documentation, others): (Vec<&String>, Vec<_>) =
        targets.iter().partition(|target| *target == "--doc");
    [others, documentation]
        .into_iter()
        .filter(|targets| !targets.is_empty())
        .map(|targets| targets.into_iter().flat_map(|target| target.split(' ')).collect())
        .collect()
}

/// Reads the targets from cargo's last lines. Without their packages: a selection of packages has other features, and
/// cargo would compile everything again.
fn failed(said: &[String]) -> Vec<String> {
    let is_summary = |line: &String| line.starts_with("error: ") && line.trim_end().ends_with(" failed:");
    let Some(start) = said.iter().rposition(is_summary) else { return Vec::new() };
    let mut targets: Vec<String> = said[start + 1..]
        .iter()
        .map_while(|line| line.trim().strip_prefix("`-p ")?.strip_suffix('`')?.split_once(' '))
        .map(|(_, target)| target.to_owned())
        .collect();
    targets.sort();
    targets.dedup();
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(|line| format!("{line}\n")).collect()
    }

    #[test]
    fn failed_targets_are_repeated() {
        let said = lines(
            "     Running tests/container/main.rs\nerror: 5 targets failed:\n    `-p koze-guest --test container`\n    \
             `-p koze-core --lib`\n    `-p koze-model --lib`\n    `-p koze-edit --doc`\n    `-p koze-tests --test mcp`\n",
        );
        let targets = failed(&said);
        assert_eq!(targets, ["--doc", "--lib", "--test container", "--test mcp"]);
        assert_eq!(runs(&targets), [vec!["--lib", "--test", "container", "--test", "mcp"], vec!["--doc"]]);
    }

    #[test]
    fn what_is_no_accident_is_not_repeated() {
        assert_eq!(
            failed(&lines("error: could not compile `koze-core` (lib) due to 1 previous error\n")),
            [""; 0]
        );
        let many: Vec<String> = (0..=MOST).map(|number| format!("--test t{number}")).collect();
        assert!(runs(&many).is_empty() && runs(&[]).is_empty());
    }
}
