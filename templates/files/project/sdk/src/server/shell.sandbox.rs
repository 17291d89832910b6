use koze::prelude::*;

/// A Linux shell for an agent.
#[sandbox(name = "__KOZE_NAME__-shell")]
pub struct ShellSandbox;
