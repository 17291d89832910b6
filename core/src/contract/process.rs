//! The input and output of the methods for processes.

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use super::{ProcessInfo, Size, Start};
use crate::sandbox::process::{Overflow, Program, Stdio};

/// Within this time, a process that its starter attends must be attended: for so long, one whose caller is gone runs on.
const ATTEND_MS: u32 = 10_000;

impl From<Program> for Start {
    fn from(program: Program) -> Self {
        let terminal = match program.stdio {
            Stdio::Pipes => None,
            Stdio::Terminal { rows, columns } => Some(Size { rows, columns }),
        };
        Start {
            argv: program.argv,
            working_dir: program.working_dir,
            env: program.env,
            terminal,
            buffer: u32::try_from(program.buffer).unwrap_or(u32::MAX),
            drop_oldest: program.overflow == Overflow::DropOldest,
            label: program.label,
            attend_within_ms: program.attended.then_some(ATTEND_MS),
        }
    }
}

/// The processes of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Processes {
    /// The list.
    pub processes: Vec<ProcessInfo>,
}

/// A part of a process's output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct ProcessOutput {
    /// The bytes of all chunks, one after the other.
    #[cfg_attr(test, ts(type = "Uint8Array"))]
    pub bytes: ByteBuf,
    /// The chunks, in the order in which they were written.
    pub chunks: Vec<Chunk>,
    /// Where the next read begins.
    #[cfg_attr(test, ts(type = "number"))]
    pub next: u64,
    /// The number of bytes between the cursor and the first chunk, which were discarded.
    #[cfg_attr(test, ts(type = "number"))]
    pub dropped: u64,
    /// The exit code, if the process has ended and all its output was read; otherwise `null`.
    pub exit: Option<i32>,
}

/// A chunk of output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Chunk {
    /// The stream that it was written to.
    pub stream: OutputStream,
    /// The number of its bytes.
    pub length: u32,
}

/// A stream of a process. With a terminal, all output is `stdout`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
#[serde(rename_all = "lowercase")]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// The bytes to write to a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
#[serde(rename_all = "camelCase")]
pub struct WriteProcess {
    /// Its ID.
    pub id: String,
    /// The bytes, at most `LARGEST_PIECE`.
    #[cfg_attr(test, ts(type = "Uint8Array"))]
    pub bytes: ByteBuf,
    /// How long to wait until they are written.
    pub wait_ms: u32,
    /// As in `Exec`.
    pub call: Option<String>,
}
