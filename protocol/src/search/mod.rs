//! Searches for lines in the files of a tree. Who walks the tree, and reads its files, is up to the host; what is found
//! in them is decided here alone, so that it is the same on all hosts.

mod ignored;
mod literal;
mod matcher;
mod results;

use serde::{Deserialize, Serialize};

pub use self::ignored::is_ignored;
pub use self::matcher::{Cursor, Line, Matcher};
pub use self::results::Results;

/// The largest program that a pattern may become, in bytes.
const LARGEST_REGEX: usize = 1 << 20;
/// The size of all matching lines with their paths, in bytes, after which a search is full; and that of the paths in
/// each other list.
pub const LARGEST_RESULT: usize = 2 << 20;
/// Files are searched in steps, between which their reader can stop: the product of the lengths of text and pattern for
/// one step, in bytes.
pub const STEP: usize = 8 << 20;

/// What to search for, and where to stop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Search {
    /// The regular expression, as the crate `regex-lite` understands it. It is matched against each line without its end.
    pub pattern: String,
    /// Whether upper and lower case of ASCII letters are the same.
    pub ignore_case: bool,
    /// Which files to search; `null` for all.
    pub include: Option<Include>,
    /// Whether to leave out the files and directories that tools generate: see [`is_ignored`].
    pub skip_ignored: bool,
    /// The size of the largest file to search, in bytes.
    #[cfg_attr(feature = "ts", ts(type = "number"))]
    pub max_file_size: u64,
    /// How many bytes at the start of a file make it binary if one of them is NUL.
    #[cfg_attr(feature = "ts", ts(type = "number"))]
    pub binary_within: u64,
    /// How many characters a line may have, with its end. Longer ones are not searched.
    #[cfg_attr(feature = "ts", ts(type = "number"))]
    pub max_line_chars: u64,
    /// How many bytes of a matching line are returned.
    pub max_line_bytes: u32,
    /// How many lines are returned.
    pub max_matches: u32,
    /// How many paths are returned in each other list.
    pub max_skipped: u32,
    /// How many directories are listed.
    #[cfg_attr(feature = "ts", ts(type = "number"))]
    pub max_directories: u64,
    /// How many files and directories are looked at, without those that are left out.
    #[cfg_attr(feature = "ts", ts(type = "number"))]
    pub max_entries: u64,
    /// How long the search may take, in milliseconds.
    pub timeout_ms: u32,
}

/// Which files to search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Include {
    /// A regular expression, matched against the path of a file below the start of the search.
    pub regex: String,
    /// Whether it is matched against the name of the file instead.
    pub by_name: bool,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Searched {
    /// The matching lines. Files come in the order of their paths, component by component. All paths are below the start
    /// of the search; the path of the start itself is empty.
    pub matches: Vec<Match>,
    /// The files and directories that were not searched because they are too large or cannot be read.
    pub skipped: Vec<String>,
    /// The binary files, which were not searched.
    pub binary: Vec<String>,
    /// Why the search ended.
    pub end: End,
}

/// A matching line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Match {
    /// The path of the file.
    pub path: String,
    /// The number of the line; the first one is 1.
    #[cfg_attr(feature = "ts", ts(type = "number"))]
    pub number: u64,
    /// The beginning of the line, without its end. Bytes that are not UTF-8 are replaced by U+FFFD.
    pub text: String,
}

/// Why a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub enum End {
    /// All files were searched.
    Complete,
    /// There are as many matches as may be returned, or their text is too long.
    Full,
    /// There was no time left.
    Timeout,
    /// There are too many files or directories.
    TooMany,
}
