use koze::prelude::*;

/// A Linux shell for an agent, in the image that `shell.Dockerfile` builds.
#[sandbox(name = "__KOZE_NAME__-shell", backend = "native")]
pub struct ShellSandbox;
