//! What `koze doctor --prove` prints.

use serde::Serialize;

/// What `koze doctor --prove` prints with `--format json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Proof {
    /// The kernel: its name, its release and the machine.
    pub kernel: String,
    /// The user who ran it.
    pub user: u32,
    /// The attempts, in the order in which they were made.
    pub attempts: Vec<Attempt>,
    /// How many were refused, where their control succeeded.
    pub held: usize,
    /// How many succeeded.
    pub open: usize,
    /// How many show nothing on this machine.
    pub not_testable: usize,
}

/// One attempt.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Attempt {
    /// Its name.
    pub name: &'static str,
    /// What it tries.
    pub tries: String,
    /// How it came out.
    pub verdict: Verdict,
    /// What was taken, or why nothing is shown; null where it held.
    pub why: Option<String>,
}

/// How an attempt came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It was refused, and its control, without koze's protection, succeeded.
    Held,
    /// It succeeded.
    Open,
    /// It was refused, but there is no control on this machine that succeeds; or it could not be made.
    NotTestable,
}

impl Verdict {
    /// The words for it.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Held => "held",
            Verdict::Open => "open",
            Verdict::NotTestable => "not testable",
        }
    }
}

impl Proof {
    /// What came of these attempts.
    pub fn new(kernel: String, user: u32, attempts: Vec<Attempt>) -> Self {
        let count = |verdict| attempts.iter().filter(|attempt| attempt.verdict == verdict).count();
        let (held, open, not_testable) =
            (count(Verdict::Held), count(Verdict::Open), count(Verdict::NotTestable));
        Proof { kernel, user, attempts, held, open, not_testable }
    }
}

/// The document.
///
/// # Panics
/// Never: the document is plain data.
pub fn text(proof: &Proof) -> String {
    super::text(proof)
}
