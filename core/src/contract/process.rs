//! What the methods that are about processes take and give.

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

/// A program that runs on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
#[serde(rename_all = "camelCase")]
pub struct Start {
    /// As in `Exec`.
    pub argv: Vec<String>,
    /// As in `Exec`.
    pub working_dir: String,
    /// As in `Exec`. With a terminal, `TERM` is `xterm-256color` unless this sets it.
    pub env: Vec<(String, String)>,
    /// The size of its terminal; `null` where it has pipes.
    pub terminal: Option<Size>,
    /// How many bytes of its output are kept, 4096 to 8388608.
    pub buffer: u32,
    /// Whether the oldest output goes when there is more. Otherwise the program waits until it was read.
    pub drop_oldest: bool,
    /// A text of at most 64 bytes that the list of processes returns, or `null`.
    #[serde(default)]
    pub label: Option<String>,
    /// The time within which a call with an `abandonedSignal` must arrive for the process, or it is killed: its caller
    /// may be gone before it learns the ID. `null` for none.
    #[serde(default)]
    pub attend_within_ms: Option<u32>,
}

/// The size of a terminal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Size {
    /// Its rows, 1 at least.
    pub rows: u16,
    /// Its columns, 1 at least.
    pub columns: u16,
}

/// A process that was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Started {
    /// Its ID: 32 lower-case hexadecimal digits.
    pub id: String,
}

/// A process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct OneProcess {
    /// Its ID.
    pub id: String,
}

/// What there is to say of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct ProcessInfo {
    /// Its ID.
    pub id: String,
    /// Its program, as it was given.
    pub program: String,
    /// Whether it has a terminal.
    pub terminal: bool,
    /// Its exit code, 128 + n after the signal n; `null` while it runs.
    pub exit: Option<i32>,
    /// As in `Start`.
    #[serde(default)]
    pub label: Option<String>,
}

/// The processes of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Processes {
    /// They.
    pub processes: Vec<ProcessInfo>,
}

/// What to read of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
#[serde(rename_all = "camelCase")]
pub struct ReadProcess {
    /// Its ID.
    pub id: String,
    /// Where it begins: 0, or where the last read ended.
    #[cfg_attr(test, ts(type = "number"))]
    pub cursor: u64,
    /// How many bytes at most, 1 to `LARGEST_PIECE`.
    pub limit: u32,
    /// How long to wait for output.
    pub wait_ms: u32,
    /// As in `Exec`.
    pub call: Option<String>,
    /// The number of the signal that the process gets if the caller stops waiting, or is gone, before there is an answer;
    /// `null` for none. Signals are as in `SignalProcess`.
    #[serde(default)]
    pub abandoned_signal: Option<u8>,
}

/// What a process has written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct ProcessOutput {
    /// The bytes of all parts, one after the other.
    #[cfg_attr(test, ts(type = "Uint8Array"))]
    pub bytes: ByteBuf,
    /// The parts, in the order in which they came.
    pub chunks: Vec<Chunk>,
    /// Where the next read begins.
    #[cfg_attr(test, ts(type = "number"))]
    pub next: u64,
    /// How many bytes before the first part are not kept any more.
    #[cfg_attr(test, ts(type = "number"))]
    pub dropped: u64,
    /// Its exit code, where it has ended and all was read that it wrote; else `null`.
    pub exit: Option<i32>,
}

/// A part of an output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Chunk {
    /// Where it was written to.
    pub stream: OutputStream,
    /// How many bytes it has.
    pub length: u32,
}

/// Where a process writes to; with a terminal it is all `stdout`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
#[serde(rename_all = "lowercase")]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// What to write to a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
#[serde(rename_all = "camelCase")]
pub struct WriteProcess {
    /// Its ID.
    pub id: String,
    /// The bytes; at most `LARGEST_PIECE`.
    #[cfg_attr(test, ts(type = "Uint8Array"))]
    pub bytes: ByteBuf,
    /// How long to wait until they are taken.
    pub wait_ms: u32,
    /// As in `Exec`.
    pub call: Option<String>,
}

/// What a process has taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Taken {
    /// How many bytes, from the first on.
    #[cfg_attr(test, ts(type = "number"))]
    pub taken: u64,
}

/// A signal to send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct SignalProcess {
    /// The ID of the process.
    pub id: String,
    /// The number of the signal on Linux.
    pub signal: u8,
}

/// A size to set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct ResizeProcess {
    /// The ID of the process.
    pub id: String,
    /// As in `Size`.
    pub rows: u16,
    /// As in `Size`.
    pub columns: u16,
}

/// How long to wait for a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
#[serde(rename_all = "camelCase")]
pub struct WaitProcess {
    /// Its ID.
    pub id: String,
    /// The time.
    pub timeout_ms: u32,
    /// As in `Exec`.
    pub call: Option<String>,
    /// As in `ReadProcess`.
    #[serde(default)]
    pub abandoned_signal: Option<u8>,
}

/// How a process has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Ended {
    /// Its exit code, 128 + n after the signal n; `null` where it still runs.
    pub exit: Option<i32>,
}
