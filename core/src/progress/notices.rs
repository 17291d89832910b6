//! What a client of the Model Context Protocol is notified of during a call.

use std::time::Duration;

use super::Texts;
use crate::sandbox::process::Chunk;
use crate::time::Start;

/// The interval of notifications about a call whose programs print nothing.
pub const INTERVAL: Duration = Duration::from_secs(1);
/// The least by which the value of a notification exceeds the previous one.
const LEAST: f64 = 1e-6;

/// A progress notification, without the token of its call.
#[derive(Debug, Clone, PartialEq)]
pub struct Notice {
    /// How many seconds the call has been running. It increases with each notification.
    pub progress: f64,
    /// A part of the output, or how long the call has been running.
    pub message: Option<String>,
}

/// Creates the notifications of a call.
#[derive(Debug)]
pub struct Notices {
    since: Start,
    last: f64,
    texts: Texts,
    /// Whether the client has received output. A client that collects it gets no other texts from then on.
    has_printed: bool,
}

impl Notices {
    /// Begins with a call.
    #[expect(clippy::new_without_default, reason = "the time of the call is no default value")]
    pub fn new() -> Self {
        Notices { since: Start::now(), last: 0.0, texts: Texts::default(), has_printed: false }
    }

    /// Returns the notification of output, unless it only begins a character.
    pub fn output(&mut self, chunk: &Chunk) -> Option<Notice> {
        let text = self.texts.decode(chunk)?;
        self.has_printed = true;
        Some(self.next_notice(Some(text)))
    }

    /// Returns the notification that the call is still running.
    pub fn still_running(&mut self) -> Notice {
        let seconds = self.since.elapsed().as_secs();
        self.next_notice((!self.has_printed).then(|| format!("running for {seconds} s")))
    }

    fn next_notice(&mut self, message: Option<String>) -> Notice {
        self.last = self.since.elapsed().as_secs_f64().max(self.last + LEAST);
        Notice { progress: self.last, message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::process::Stream;

    #[test]
    fn values_increase_and_output_replaces_other_texts() {
        let mut notices = Notices::new();
        let print = |bytes: &[u8]| Chunk { stream: Stream::Stdout, bytes: bytes.to_vec() };
        let first = notices.still_running();
        assert_eq!(first.message.as_deref(), Some("running for 0 s"));
        assert_eq!(notices.output(&print(b"\xc3")), None);
        let second = notices.output(&print(b"\xa4")).unwrap();
        assert_eq!(second.message.as_deref(), Some("ä"));
        let third = notices.still_running();
        assert_eq!(third.message, None);
        assert!(0.0 < first.progress && first.progress < second.progress && second.progress < third.progress);
    }
}
