//! The process type of a provider that cannot run programs.

use std::convert::Infallible;
use std::time::Duration;

use crate::error::Result;
use crate::sandbox::process::{Exit, Process, ProcessId, ProcessOutput, Signal};

/// A process of a sandbox in memory. It has no values, because such a sandbox cannot run programs.
#[derive(Debug, Clone)]
pub struct MemoryProcess(Infallible);

impl Process for MemoryProcess {
    fn id(&self) -> &ProcessId {
        match self.0 {}
    }

    async fn write_stdin(&self, _: Vec<u8>, _: Duration) -> Result<usize> {
        match self.0 {}
    }

    async fn close_stdin(&self) -> Result<()> {
        match self.0 {}
    }

    async fn read(&self, _: u64, _: usize, _: Duration) -> Result<ProcessOutput> {
        match self.0 {}
    }

    async fn signal(&self, _: Signal) -> Result<()> {
        match self.0 {}
    }

    async fn resize(&self, _: u16, _: u16) -> Result<()> {
        match self.0 {}
    }

    async fn wait(&self, _: Duration) -> Result<Option<Exit>> {
        match self.0 {}
    }
}
