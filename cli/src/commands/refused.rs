//! The commands that need Linux namespaces, where sandboxes are containers only. Each says what to use instead.

use std::process::ExitCode;

use super::show;
use crate::args::{Format, Learn};

/// Refuses `koze image`.
pub(super) fn image() -> ExitCode {
    refuse("image", "the images of containers are in the store of their engine: use `docker` or `podman`")
}

/// Refuses `koze demo`.
pub(super) fn demo() -> ExitCode {
    refuse("demo", "create a project with `koze new`, and use its sandboxes with `koze call`")
}

/// Refuses `koze guard`, which only `koze dev` on Linux starts.
pub(super) fn guard() -> ExitCode {
    refuse("guard", "`koze dev` starts wrangler without it here")
}

/// Refuses `koze doctor --prove`.
pub(in super::super) fn prove(_: Format) -> ExitCode {
    refuse(
        "doctor --prove",
        "it tests sandboxes of namespaces; those in containers are isolated by their engine",
    )
}

/// Refuses `koze egress learn`.
pub(in super::super) fn learn(_: &Learn) -> ExitCode {
    refuse(
        "egress learn",
        "sandboxes in containers have no network, so there is nothing to learn; run it on a Linux machine",
    )
}

fn refuse(command: &str, instead: &str) -> ExitCode {
    show::failure(&format!("`koze {command}` needs the namespaces of Linux: {instead}"))
}
