//! The part of a program's output that is kept: the same rule wherever the program runs.

use std::collections::VecDeque;

/// The first and last bytes of a stream, and its total length.
#[derive(Debug)]
pub struct Kept {
    limit: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
}

impl Kept {
    /// Creates one that keeps at most `limit` bytes, including the mark.
    pub fn new(limit: usize) -> Self {
        Kept { limit, head: Vec::new(), tail: VecDeque::new(), total: 0 }
    }

    /// Adds bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        // Head and tail together keep the full limit, because the whole stream may still fit.
        let half = self.limit.div_ceil(2);
        let first = bytes.len().min(half.saturating_sub(self.head.len()));
        self.head.extend_from_slice(&bytes[..first]);
        let rest = &bytes[first..];
        let room = self.limit - half;
        let over = (self.tail.len() + rest.len()).saturating_sub(room);
        self.tail.drain(..over.min(self.tail.len()));
        self.tail.extend(&rest[rest.len().saturating_sub(room)..]);
    }

    /// Returns the kept bytes, with a mark in place of the omitted ones.
    pub fn finish(self) -> Vec<u8> {
        let Kept { limit, mut head, tail, total } = self;
        let tail = Vec::from(tail);
        if total <= limit as u64 {
            head.extend(tail);
            return head;
        }
        // The mark contains the number of omitted bytes, which depends on the length of the mark. So the length is
        // computed first, from the widest number.
        let widest = mark(total).len();
        if widest >= limit {
            head.truncate(limit);
            return head;
        }
        let room = limit - widest;
        let (first, last) = (room.div_ceil(2), room / 2);
        head.truncate(first);
        head.extend(mark(total - (first + last) as u64).into_bytes());
        head.extend(&tail[tail.len() - last..]);
        head
    }
}

fn mark(missing: u64) -> String {
    format!("\n[... {missing} bytes left out ...]\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_and_tail_within_the_limit() {
        let text: Vec<u8> = (0..10_000_u32).map(|n| b'a' + u8::try_from(n % 26).unwrap()).collect();
        for limit in [0, 1, 10, 30, 50, 99, 1000, 9_999, 10_000, 20_000] {
            for step in [1, 7, 4096, 10_000] {
                let mut kept = Kept::new(limit);
                text.chunks(step).for_each(|chunk| kept.push(chunk));
                let out = kept.finish();
                assert!(out.len() <= limit, "{limit} {step}");
                if limit >= text.len() {
                    assert_eq!(out, text);
                } else if limit >= 50 {
                    assert!(text.starts_with(&out[..5]) && text.ends_with(&out[out.len() - 5..]));
                    let shown = String::from_utf8(out.clone()).unwrap();
                    let missing: usize =
                        shown.split("[... ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
                    let mark = mark(missing as u64).len();
                    assert_eq!(missing + out.len() - mark, text.len(), "{limit} {step}");
                }
            }
        }
    }
}
