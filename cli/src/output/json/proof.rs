//! The document of `koze doctor --prove`.

use serde::Serialize;

/// The output of `koze doctor --prove` with `--format json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Proof {
    /// The kernel: its name, its release and the machine.
    pub kernel: String,
    /// The ID of the user who ran it.
    pub user: u32,
    /// The attempts, in the order they were made.
    pub attempts: Vec<Attempt>,
    /// The number of attempts that were refused while their control succeeded.
    pub held: usize,
    /// The number of attempts that succeeded.
    pub open: usize,
    /// The number of attempts that prove nothing on this machine.
    pub not_testable: usize,
}

/// One attempt.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Attempt {
    /// Its name.
    pub name: &'static str,
    /// What it attempts.
    pub tries: String,
    /// Its outcome.
    pub verdict: Verdict,
    /// What the attempt obtained, or why it proves nothing; null if it was refused.
    pub why: Option<String>,
}

/// The outcome of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It was refused, and its control, without koze's protection, succeeded.
    Held,
    /// It succeeded.
    Open,
    /// It was refused, but no control succeeds on this machine; or it could not be made.
    NotTestable,
}

impl Verdict {
    /// Returns the words for the verdict.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Held => "held",
            Verdict::Open => "open",
            Verdict::NotTestable => "not testable",
        }
    }
}

impl Proof {
    /// Creates the document and counts the verdicts.
    pub fn new(kernel: String, user: u32, attempts: Vec<Attempt>) -> Self {
        let count = |verdict| attempts.iter().filter(|attempt| attempt.verdict == verdict).count();
        let (held, open, not_testable) =
            (count(Verdict::Held), count(Verdict::Open), count(Verdict::NotTestable));
        Proof { kernel, user, attempts, held, open, not_testable }
    }
}

/// Renders the document.
///
/// # Panics
/// Never: the document is plain data.
pub fn text(proof: &Proof) -> String {
    super::to_pretty_json(proof)
}
