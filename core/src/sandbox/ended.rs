//! The programs that ended with a running sandbox.

use serde::{Deserialize, Serialize};

/// How many programs are named.
const MAX_NAMED: usize = 3;
/// The longest name of a program, in characters.
const MAX_NAME: usize = 80;

/// The programs that ended when their sandbox slept, was restarted, or was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct EndedPrograms {
    /// The command lines of the first ones.
    pub programs: Vec<String>,
    /// How many there were.
    pub count: u32,
}

impl EndedPrograms {
    /// Creates the record of programs from their command lines. Returns `None` without any.
    pub fn new(programs: &[String]) -> Option<Self> {
        let count = u32::try_from(programs.len()).unwrap_or(u32::MAX);
        let named = programs.iter().take(MAX_NAMED).map(|program| shorten(program));
        (count > 0).then(|| EndedPrograms { programs: named.collect(), count })
    }

    /// Returns the same record with those of an earlier time, which nobody was told about.
    #[must_use]
    pub fn after(self, earlier: Option<Self>) -> Self {
        let Some(earlier) = earlier else { return self };
        let programs = earlier.programs.into_iter().chain(self.programs).take(MAX_NAMED).collect();
        EndedPrograms { programs, count: self.count.saturating_add(earlier.count) }
    }

    /// Returns what a model is told about them. The names are those of a sandbox, so they are shortened again.
    pub fn notice(&self) -> String {
        let named: Vec<String> =
            self.programs.iter().take(MAX_NAMED).map(|program| format!("`{}`", shorten(program))).collect();
        let more = (self.count as usize).saturating_sub(named.len());
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        let noun = if self.count == 1 { "program" } else { "programs" };
        format!(
            "{} {noun} ended when the sandbox slept or restarted: {}{more}. Start again what you need",
            self.count,
            named.join(", ")
        )
    }
}

/// Returns a command line on one line that is not too long.
fn shorten(program: &str) -> String {
    let printable = program.chars().map(|char| if char.is_control() || char == '`' { ' ' } else { char });
    let line: String = printable.collect();
    let line = line.trim();
    if line.chars().count() <= MAX_NAME {
        return line.to_owned();
    }
    line.chars().take(MAX_NAME - 1).chain(std::iter::once('…')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended_programs(programs: &[&str]) -> Option<EndedPrograms> {
        EndedPrograms::new(&programs.iter().map(|program| (*program).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn the_first_programs_are_named() {
        assert_eq!(ended_programs(&[]), None);
        let one = ended_programs(&["sleep\x001000\0"]).unwrap();
        assert_eq!(
            one.notice(),
            "1 program ended when the sandbox slept or restarted: `sleep 1000`. Start again what you need"
        );
        let four = ended_programs(&["a", "b", "c", "d"]).unwrap();
        assert_eq!(
            four.notice(),
            "4 programs ended when the sandbox slept or restarted: `a`, `b`, `c`, and 1 more. Start again what you need"
        );
        let five = ended_programs(&["e"]).unwrap().after(Some(four.clone()));
        assert_eq!((five.programs.clone(), five.count), (four.programs.clone(), 5));
        assert_eq!(four.clone().after(None), four);
    }

    #[test]
    fn names_stay_short_and_on_one_line() {
        let long = ended_programs(&[&format!("x\n`y`{}", "é".repeat(200))]).unwrap();
        assert_eq!(long.programs[0].chars().count(), MAX_NAME);
        assert!(long.programs[0].starts_with("x  y é") && long.programs[0].ends_with("é…"), "{long:?}");
        // Another host may send anything.
        let foreign = EndedPrograms { programs: vec!["a\nb".repeat(200); 9], count: 2 };
        assert!(!foreign.notice().contains('\n') && foreign.notice().len() < 400, "{}", foreign.notice());
    }
}
