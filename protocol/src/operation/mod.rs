//! The inputs and results of a sandbox's operations that are the same wherever an operation passes: in the contract of a
//! Durable Object class, in the requests of a class to koze's guest, and in those to the server behind `koze dev --local`.
//!
//! The contract names fields in camel case. The first guests read only snake case, and older guests run on in containers
//! while a new version of a Worker is rolled out. So classes send snake case to guests, and guests read both. A guest ignores
//! fields that it does not know, such as `call`, which only a class uses.
//!
//! In the contract, bytes are part of an input or result. Elsewhere they travel beside the JSON: see [`framed`].

pub mod framed;
mod process;

use serde::{Deserialize, Serialize};

pub use self::process::{
    Ended, MAX_LABEL, OneProcess, ProcessInfo, ReadProcess, ResizeProcess, SignalProcess, Size, Start,
    Started, Taken, WaitProcess,
};
use crate::lines::LineRange;

/// A program to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
#[serde(rename_all = "camelCase")]
pub struct Exec {
    /// The program and its arguments; the program is resolved over the sandbox's `PATH`.
    pub argv: Vec<String>,
    /// The absolute path of its working directory.
    #[serde(alias = "cwd")]
    pub working_dir: String,
    /// Variables in addition to the sandbox's own.
    #[serde(default)]
    pub env: Vec<(String, String)>,
    /// The timeout. After it the whole process group is killed, and the output so far is kept.
    #[serde(alias = "timeout_ms")]
    pub timeout_ms: u32,
    /// How many bytes of each stream are kept: the first and the last ones, with a mark between them that counts too.
    #[serde(alias = "max_output")]
    pub max_output: u32,
    /// The name of the call, by which it can be canceled, or `null`.
    pub call: Option<String>,
}

/// The part of a file to read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Read {
    /// As in `Path`.
    pub root: String,
    /// As in `Path`.
    pub path: String,
    /// Its start.
    #[cfg_attr(feature = "ts", ts(type = "number"))]
    pub offset: u64,
    /// Its maximum length, at most 8 MiB in the contract.
    #[cfg_attr(feature = "ts", ts(type = "number"))]
    pub limit: u64,
}

/// Which lines of a file to read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
#[serde(rename_all = "camelCase")]
pub struct ReadLines {
    /// As in `Path`.
    pub root: String,
    /// As in `Path`.
    pub path: String,
    /// The first line, counted from 1.
    #[cfg_attr(feature = "ts", ts(type = "number"))]
    pub first: u64,
    /// The last line; `null` for the last one of the file.
    #[cfg_attr(feature = "ts", ts(type = "number | null"))]
    pub last: Option<u64>,
    /// How many characters are returned, at most 2097152.
    #[serde(alias = "max_chars")]
    pub max_chars: u32,
    /// Whether the bytes are returned as they are. Otherwise lines are joined by `\n`, without an end of the last one.
    pub verbatim: bool,
}

impl ReadLines {
    /// Returns the lines.
    pub fn range(&self) -> LineRange {
        let &ReadLines { first, last, max_chars, verbatim, .. } = self;
        LineRange { first, last, max_chars: max_chars.into(), verbatim }
    }
}

/// A search of the lines of a file, or of the files of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct SearchFiles {
    /// As in `Path`.
    pub root: String,
    /// As in `Path`.
    pub path: String,
    /// What to search for, and where to stop.
    pub search: crate::search::Search,
    /// As in `Exec`.
    pub call: Option<String>,
}

/// A file or directory to serialize.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Pack {
    /// As in `Path`.
    pub root: String,
    /// As in `Path`. A final link is followed; links inside a directory are kept.
    pub path: String,
    /// An entry name to leave out at any depth, for a directory that is copied into itself.
    pub except: String,
}
