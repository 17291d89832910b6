//! The limits of a script. They are the same on every host, so that a script that runs on one runs on the others, with two
//! exceptions: a Worker has less memory, and limits CPU time by fuel instead of a clock.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The time that a script may take, including what it waits for.
pub const TIME: Duration = Duration::from_secs(30);
/// The memory of a script in bytes.
pub const MEMORY: u64 = 128 << 20;
/// The longest source of a script, library or tool in bytes.
pub const CODE: usize = 256 << 10;
/// How deep libraries can require each other.
pub const DEPTH: usize = 10;
/// The longest delay of a timer. Longer ones are shortened to it.
pub const TIMER: Duration = Duration::from_secs(30);
/// How many timers can be pending.
pub const TIMERS: usize = 1000;
/// How many calls of the host can be pending.
pub const CALLS: usize = 1000;
/// How many bytes a script can log.
pub const LOG_BYTES: usize = 1 << 20;
/// How many lines a script can log.
pub const LOG_LINES: usize = 10_000;
/// The longest result, or the longest argument of a call, in bytes of JSON.
pub const RESULT: usize = 4 << 20;
/// How deep a result, or an argument of a call, can be nested.
pub const NESTING: usize = 100;
/// The longest message of an error in bytes.
pub const MESSAGE: usize = 4 << 10;
/// The stack of the engine in bytes. Less in WebAssembly, because the runtime of the module has a stack of about 1 MiB, which
/// is used at the same time.
pub const STACK: usize = if cfg!(target_arch = "wasm32") { 256 << 10 } else { 1 << 20 };

/// The limits of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// The time in milliseconds.
    pub time_ms: u64,
    /// The memory in bytes.
    pub memory: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { time_ms: time_ms(TIME), memory: MEMORY }
    }
}

/// A limit that ended a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// It took too long.
    Time,
    /// It used too much memory.
    Memory,
    /// Its result is too long or too deeply nested.
    Result,
}

impl Limits {
    /// Returns the message for a limit that was reached.
    pub fn message(&self, limit: Limit) -> String {
        match limit {
            Limit::Time => format!(
                "the script reached its time limit of {}: do less in one run, or wait for less",
                seconds(self.time_ms)
            ),
            Limit::Memory => format!(
                "the script reached its memory limit of {} MiB: keep less in memory at once",
                self.memory >> 20
            ),
            Limit::Result => format!(
                "the result is too large: it may have {} MiB of JSON, nested {NESTING} levels deep; return less, or store it \
                 with `state.set`",
                RESULT >> 20
            ),
        }
    }
}

/// Returns a time in whole milliseconds.
pub(crate) fn time_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn seconds(millis: u64) -> String {
    if millis.is_multiple_of(1000) { format!("{} s", millis / 1000) } else { format!("{millis} ms") }
}
