use koze::prelude::*;

/// A Linux shell for an agent, in an image of your choice.
#[sandbox(name = "__KOZE_NAME__-shell", backend = "native", image = "debian:12-slim")]
pub struct ShellSandbox;
