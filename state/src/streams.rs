//! The standard streams of a program that belong to another process.

use std::os::fd::OwnedFd;

/// The caller's ends of a program's standard streams.
#[derive(Debug)]
pub enum AttachedStreams {
    /// Three pipes.
    Pipes {
        /// The end to write its standard input to.
        stdin: OwnedFd,
        /// The end to read its standard output from.
        stdout: OwnedFd,
        /// The end to read its standard error from.
        stderr: OwnedFd,
    },
    /// The outer side of its terminal.
    Terminal(OwnedFd),
}
