//! The inputs and results of the operations on processes.

use serde::{Deserialize, Serialize};

/// The maximum length of the label of a process, in bytes.
pub const MAX_LABEL: usize = 64;

/// A program that keeps running after the call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
#[serde(rename_all = "camelCase")]
pub struct Start {
    /// As in `Exec`.
    pub argv: Vec<String>,
    /// As in `Exec`.
    #[serde(alias = "cwd")]
    pub working_dir: String,
    /// As in `Exec`. With a terminal, `TERM` is `xterm-256color` unless this sets it.
    #[serde(default)]
    pub env: Vec<(String, String)>,
    /// The size of its terminal; `null` for pipes.
    pub terminal: Option<Size>,
    /// How many bytes of its output are kept, 4096 to 8388608.
    pub buffer: u32,
    /// Whether the oldest output is discarded when the buffer is full. Otherwise the program waits until output is read.
    #[serde(alias = "drop_oldest")]
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
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Size {
    /// Its rows, at least 1.
    pub rows: u16,
    /// Its columns, at least 1.
    pub columns: u16,
}

/// A process that was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Started {
    /// Its ID: 32 lowercase hexadecimal digits.
    pub id: String,
}

/// A process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct OneProcess {
    /// Its ID.
    pub id: String,
}

/// The description of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
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

/// The part of a process's output to read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
#[serde(rename_all = "camelCase")]
pub struct ReadProcess {
    /// Its ID.
    pub id: String,
    /// Where the part begins: 0, or `next` of the last read.
    #[cfg_attr(feature = "ts", ts(type = "number"))]
    pub cursor: u64,
    /// The maximum number of bytes, 1 to `LARGEST_PIECE`.
    pub limit: u32,
    /// How long to wait for output.
    #[serde(alias = "wait_ms")]
    pub wait_ms: u32,
    /// As in `Exec`.
    pub call: Option<String>,
    /// The number of the signal that the process gets if the caller stops waiting, or is gone, before there is an answer, or
    /// `null`. Signals are as in `SignalProcess`.
    #[serde(default, alias = "abandoned")]
    pub abandoned_signal: Option<u8>,
}

/// The result of a write to a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Taken {
    /// The number of bytes that were written, from the first on.
    #[cfg_attr(feature = "ts", ts(type = "number"))]
    pub taken: u64,
}

/// A signal to send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct SignalProcess {
    /// The ID of the process.
    pub id: String,
    /// The number of the signal on Linux.
    pub signal: u8,
}

/// A size to set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
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
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
#[serde(rename_all = "camelCase")]
pub struct WaitProcess {
    /// Its ID.
    pub id: String,
    /// The time.
    #[serde(alias = "timeout_ms")]
    pub timeout_ms: u32,
    /// As in `Exec`.
    pub call: Option<String>,
    /// As in `ReadProcess`.
    #[serde(default, alias = "abandoned")]
    pub abandoned_signal: Option<u8>,
}

/// The end of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Ended {
    /// Its exit code, 128 + n after the signal n; `null` if it is still running.
    pub exit: Option<i32>,
}
