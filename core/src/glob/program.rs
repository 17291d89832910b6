//! Matches paths against patterns in time linear in both, whatever the pattern: all ways through the pattern advance together,
//! one character at a time.

use std::ops::RangeInclusive;

/// A pattern of paths.
#[derive(Debug)]
pub(crate) struct Pattern {
    steps: Vec<Step>,
    regex: String,
}

/// A step of a pattern. Places are indices of steps; the one after the last step is the end.
#[derive(Debug)]
pub(super) enum Step {
    /// This character.
    Character(char),
    /// Any character except the path separator.
    InComponent,
    /// Any character.
    Any,
    /// A character in one of these ranges, or in none of them.
    Class { negated: bool, ranges: Vec<RangeInclusive<char>> },
    /// The next step, or the one at another place.
    Fork(usize),
    /// The step at another place.
    Jump(usize),
}

impl Pattern {
    pub(super) fn new(steps: Vec<Step>, regex: String) -> Self {
        Pattern { steps, regex }
    }

    /// Returns a regular expression that matches the same paths.
    pub(crate) fn as_regex(&self) -> &str {
        &self.regex
    }

    /// Returns whether a whole path matches.
    pub(crate) fn is_match(&self, path: &str) -> bool {
        let mut here = Places::new(self.steps.len() + 1);
        let mut next = Places::new(self.steps.len() + 1);
        here.add_reachable(&self.steps, 0);
        for character in path.chars() {
            for place in here.reached.drain(..) {
                if self.steps.get(place).is_some_and(|step| step.can_take(character)) {
                    next.add_reachable(&self.steps, place + 1);
                }
            }
            here.known.fill(false);
            std::mem::swap(&mut here, &mut next);
            if here.reached.is_empty() {
                return false;
            }
        }
        here.known[self.steps.len()]
    }
}

impl Step {
    fn can_take(&self, character: char) -> bool {
        match self {
            Step::Character(this) => *this == character,
            Step::InComponent => character != '/',
            Step::Any => true,
            // A negated class never matches the path separator.
            Step::Class { negated: true, ranges } => {
                character != '/' && !ranges.iter().any(|range| range.contains(&character))
            }
            Step::Class { negated: false, ranges } => ranges.iter().any(|range| range.contains(&character)),
            Step::Fork(_) | Step::Jump(_) => false,
        }
    }
}

/// The places that the ways through a pattern have reached.
struct Places {
    known: Vec<bool>,
    reached: Vec<usize>,
}

impl Places {
    fn new(count: usize) -> Self {
        Places { known: vec![false; count], reached: Vec::new() }
    }

    /// Adds a place, and those that forks and jumps lead to from it.
    fn add_reachable(&mut self, steps: &[Step], place: usize) {
        let mut entered = self.reached.len();
        self.add(place);
        while let Some(place) = self.reached.get(entered).copied() {
            match steps.get(place) {
                Some(Step::Fork(other)) => {
                    self.add(place + 1);
                    self.add(*other);
                }
                Some(Step::Jump(other)) => self.add(*other),
                _ => {}
            }
            entered += 1;
        }
    }

    fn add(&mut self, place: usize) {
        if !std::mem::replace(&mut self.known[place], true) {
            self.reached.push(place);
        }
    }
}
