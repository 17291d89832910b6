//! Diagnostics and their collector: a stage reports all it finds before it stops.

use std::fmt;

use proc_macro2::Span;

use crate::rules::{Level, Rule};

/// A place in the sources of a project.
#[derive(Debug, Clone)]
pub struct Spot {
    /// Index of the file in the list the caller handed over; `0` where there is one file.
    pub file: usize,
    /// The place in it; `None` means the file as a whole.
    pub span: Option<Span>,
}

/// One thing that was found, and where.
#[derive(Debug, Clone)]
pub struct Diagnostic {
    /// What was found; knows its code, message and help.
    pub rule: Rule,
    /// Where.
    pub at: Spot,
    /// Other places that belong to it, each with a short label.
    pub also: Vec<(Spot, String)>,
}

impl Diagnostic {
    /// A diagnostic at a span of the only file.
    pub fn new(rule: Rule, span: Span) -> Self {
        Diagnostic::at(rule, 0, Some(span))
    }

    /// A diagnostic at a place of the file with index `file`.
    pub fn at(rule: Rule, file: usize, span: Option<Span>) -> Self {
        Diagnostic { rule, at: Spot { file, span }, also: Vec::new() }
    }

    /// Adds another place.
    #[must_use]
    pub fn with(mut self, file: usize, span: Option<Span>, label: impl Into<String>) -> Self {
        self.also.push((Spot { file, span }, label.into()));
        self
    }
}

/// The text that rustc shows: the same words the command line prints.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {}\n\nhelp: {}", self.rule.code(), self.rule.message(), self.rule.help())
    }
}

/// Collects diagnostics.
#[derive(Debug, Default)]
pub struct Report {
    found: Vec<Diagnostic>,
}

impl Report {
    /// An empty report.
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

    /// Whether an error, not only warnings, was found.
    pub fn has_errors(&self) -> bool {
        self.found.iter().any(|found| found.rule.level() == Level::Error)
    }

    /// What was found, in the order it was found.
    pub fn into_vec(self) -> Vec<Diagnostic> {
        self.found
    }

    /// What was found, in the order it was found.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.found.iter()
    }

    /// Takes over what another report holds.
    pub fn extend(&mut self, other: Report) {
        self.found.extend(other.found);
    }
}
