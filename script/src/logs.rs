//! Limits the log of a script.

use crate::limits::{LOG_BYTES, LOG_LINES};

/// The size of a log.
#[derive(Debug, Default)]
pub(crate) struct Logs {
    bytes: usize,
    lines: usize,
    is_full: bool,
}

impl Logs {
    /// Returns the text to log for a line: the line itself, a note that the log is full, or `None`.
    pub(crate) fn admit(&mut self, mut line: String) -> Option<String> {
        if self.is_full {
            return None;
        }
        let left = LOG_BYTES - self.bytes;
        if self.lines == LOG_LINES || line.len() > left {
            self.is_full = true;
            line.truncate(if self.lines == LOG_LINES { 0 } else { line.floor_char_boundary(left) });
            if !line.is_empty() {
                line.push('\n');
            }
            let mib = LOG_BYTES >> 20;
            return Some(format!("{line}[the log is full: it has at most {mib} MiB and {LOG_LINES} lines]"));
        }
        self.bytes += line.len();
        self.lines += 1;
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_has_a_limit_of_bytes_and_lines() {
        let mut logs = Logs::default();
        assert_eq!(logs.admit("a".into()).as_deref(), Some("a"));
        let cut = logs.admit("ä".repeat(LOG_BYTES)).unwrap();
        assert!(cut.ends_with("10000 lines]") && cut.len() <= LOG_BYTES + 100, "{}", cut.len());
        assert_eq!(logs.admit("a".into()), None);
        let mut logs = Logs::default();
        for _ in 0..LOG_LINES {
            assert_eq!(logs.admit(String::new()).as_deref(), Some(""));
        }
        assert!(logs.admit("a".into()).unwrap().starts_with("[the log is full"));
        assert_eq!(logs.admit("a".into()), None);
    }
}
