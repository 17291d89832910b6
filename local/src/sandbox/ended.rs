//! The programs that ended with a running sandbox, until a tool has named them. The record outlives this program: the next
//! one may be the first to run a command.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;

use koze_core::sandbox::EndedPrograms;
use koze_core::workspace::is_context_label;

use super::running::Running;

/// The file of the record, in the directory of the sandbox.
const RECORD: &str = "ended-programs";
/// How many processes are looked at.
const MAX_PROCESSES: usize = 1000;
/// How much is read of a command line.
const MAX_COMMAND_LINE: usize = 256;

/// Returns the command lines of the programs that end with the sandbox. Of one that has ended already, only processes are
/// known.
pub(super) fn running_programs(running: &Running) -> Vec<String> {
    if !running.has_ended() {
        return descendants(running.pid).into_iter().filter_map(command_line).collect();
    }
    let is_program = |label: Option<&str>| !label.is_some_and(is_context_label);
    let processes = running.processes.list().into_iter();
    let unfinished =
        processes.filter(|process| process.exit.is_none() && is_program(process.label.as_deref()));
    unfinished.map(|process| process.program).collect()
}

/// Adds programs to the record of a sandbox.
pub(super) fn record_programs(directory: &Path, programs: &[String]) -> io::Result<bool> {
    let Some(ended) = EndedPrograms::new(programs) else { return Ok(false) };
    let ended = ended.after(read_record(directory)?);
    fs::write(directory.join(RECORD), serde_json::to_vec(&ended)?)?;
    Ok(true)
}

/// Returns whether there is a record.
pub(super) fn has_record(directory: &Path) -> bool {
    directory.join(RECORD).exists()
}

/// Returns the record and deletes it.
pub(super) fn take_record(directory: &Path) -> io::Result<Option<EndedPrograms>> {
    let ended = read_record(directory)?;
    fs::remove_file(directory.join(RECORD))?;
    Ok(ended)
}

/// Reads the record. One that is not complete, because this machine has crashed, counts as none.
fn read_record(directory: &Path) -> io::Result<Option<EndedPrograms>> {
    match fs::read(directory.join(RECORD)) {
        Ok(text) => Ok(serde_json::from_slice(&text).ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the descendants of a process.
fn descendants(first: u32) -> Vec<u32> {
    let mut all = vec![first];
    let mut seen = HashSet::from([first]);
    let mut next = 0;
    while let Some(pid) = all.get(next) {
        for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            let children = children.split_whitespace().filter_map(|pid| pid.parse().ok());
            all.extend(children.filter(|pid| seen.insert(*pid)));
        }
        next += 1;
        if all.len() > MAX_PROCESSES {
            break;
        }
    }
    all.split_off(1)
}

/// Returns the command line of a process, unless it has exited.
fn command_line(pid: u32) -> Option<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_COMMAND_LINE)]).replace('\0', " ");
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_add_up_and_are_taken_once() {
        let directory = tempfile::tempdir().unwrap();
        let record = |programs: &[&str]| {
            let programs: Vec<String> = programs.iter().map(|program| (*program).to_owned()).collect();
            record_programs(directory.path(), &programs).unwrap()
        };
        assert!(!record(&[]) && !has_record(directory.path()));
        assert!(record(&["a", "b"]) && record(&["c", "d"]) && has_record(directory.path()));
        let ended = take_record(directory.path()).unwrap().unwrap();
        assert_eq!((ended.programs.join(" "), ended.count), ("a b c".to_owned(), 4));
        assert!(!has_record(directory.path()));
        fs::write(directory.path().join(RECORD), "{\"programs\":[\"a\"").unwrap();
        assert_eq!(take_record(directory.path()).unwrap(), None);
    }
}
