//! Collects the outputs of code, in order and within limits.

use koze_protocol::output::Kept;

use super::CodeOutput;
use crate::sandbox::process::Stream;
use crate::shell::MAX_OUTPUT;

/// The maximum size of all displays of a run in bytes.
const MAX_DISPLAYS: usize = 6 << 20;
/// The minimum number of bytes to keep of a part, so that the mark for omitted output fits.
const LEAST: usize = 256;

/// Collects outputs.
pub(super) struct Outputs {
    done: Vec<CodeOutput>,
    /// The text that is being printed.
    open: Option<(Stream, Kept)>,
    /// The number of bytes of each stream that can still be kept.
    left: [usize; 2],
    displays: usize,
}

impl Outputs {
    pub(super) fn new() -> Self {
        Outputs { done: Vec::new(), open: None, left: [MAX_OUTPUT; 2], displays: 0 }
    }

    pub(super) fn push_bytes(&mut self, stream: Stream, bytes: &[u8]) {
        if self.open.as_ref().is_none_or(|(open, _)| *open != stream) {
            self.close_open();
            let kept = Kept::new(self.left[stream_index(stream)].max(LEAST));
            self.open = Some((stream, kept));
        }
        if let Some((_, kept)) = &mut self.open {
            kept.push(bytes);
        }
    }

    pub(super) fn push_display(&mut self, mime: String, data: String) {
        if self.displays + data.len() > MAX_DISPLAYS {
            let text = format!(
                "koze: a display of {} bytes was left out: the displays of one run can have {MAX_DISPLAYS} bytes. Write it to a \
                 file\n",
                data.len()
            );
            self.push_bytes(Stream::Stderr, text.as_bytes());
            return;
        }
        self.displays += data.len();
        self.close_open();
        self.done.push(CodeOutput::Display { mime, data });
    }

    pub(super) fn push_result(&mut self, text: &str) {
        let mut kept = Kept::new(MAX_OUTPUT);
        kept.push(text.as_bytes());
        self.close_open();
        self.done.push(CodeOutput::Result { text: decode_kept(kept) });
    }

    pub(super) fn finish(mut self) -> Vec<CodeOutput> {
        self.close_open();
        self.done
    }

    fn close_open(&mut self) {
        let Some((stream, kept)) = self.open.take() else { return };
        let text = decode_kept(kept);
        let left = &mut self.left[stream_index(stream)];
        *left = left.saturating_sub(text.len());
        self.done.push(match stream {
            Stream::Stdout => CodeOutput::Stdout { text },
            Stream::Stderr => CodeOutput::Stderr { text },
        });
    }
}

fn decode_kept(kept: Kept) -> String {
    String::from_utf8_lossy(&kept.finish()).into_owned()
}

fn stream_index(stream: Stream) -> usize {
    usize::from(stream == Stream::Stderr)
}
