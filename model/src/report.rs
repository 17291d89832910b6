//! Collects diagnostics, so that a stage reports all of them before it stops.

use std::fmt;

use proc_macro2::Span;

use crate::rules::{Level, Rule};

/// A location in the sources of a project.
#[derive(Debug, Clone)]
pub struct Spot {
    /// The index of the file in the caller's list; `0` if there is only one.
    pub file: usize,
    /// The span in the file; `None` means the whole file.
    pub span: Option<Span>,
}

/// A broken rule and its location.
#[derive(Debug, Clone)]
pub struct Diagnostic {
    /// The rule, with its code, message and help.
    pub rule: Rule,
    /// The location.
    pub at: Spot,
    /// Related locations, each with a short label.
    pub also: Vec<(Spot, String)>,
}

impl Diagnostic {
    /// Creates a diagnostic at a span of the only file.
    pub fn new(rule: Rule, span: Span) -> Self {
        Diagnostic::at(rule, 0, Some(span))
    }

    /// Creates a diagnostic at a location in the file with index `file`.
    pub fn at(rule: Rule, file: usize, span: Option<Span>) -> Self {
        Diagnostic { rule, at: Spot { file, span }, also: Vec::new() }
    }

    /// Adds a related location.
    #[must_use]
    pub fn with(mut self, file: usize, span: Option<Span>, label: impl Into<String>) -> Self {
        self.also.push((Spot { file, span }, label.into()));
        self
    }
}

/// Formats the text that rustc and the command line show.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {}\n\nhelp: {}", self.rule.code(), self.rule.message(), self.rule.help())
    }
}

/// A list of diagnostics.
#[derive(Debug, Default)]
pub struct Report {
    found: Vec<Diagnostic>,
}

impl Report {
    /// Creates an empty report.
    pub fn new() -> Self {
        Report::default()
    }

    /// Adds a diagnostic.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.found.push(diagnostic);
    }

    /// Adds a rule at a span of the only file.
    pub fn add(&mut self, rule: Rule, span: Span) {
        self.push(Diagnostic::new(rule, span));
    }

    /// Returns whether there are errors, not only warnings.
    pub fn has_errors(&self) -> bool {
        self.found.iter().any(|found| found.rule.level() == Level::Error)
    }

    /// Returns the diagnostics in the order they were added.
    pub fn into_vec(self) -> Vec<Diagnostic> {
        self.found
    }

    /// Returns the diagnostics in the order they were added.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.found.iter()
    }

    /// Adds the diagnostics of another report.
    pub fn extend(&mut self, other: Report) {
        self.found.extend(other.found);
    }
}
