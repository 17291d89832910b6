//! The recorded output of a process, bounded, for later readers. The same rule applies wherever the process runs.

use std::collections::VecDeque;

/// The overhead that a part counts in addition to its bytes.
const PART: usize = 16;

/// The maximum number of parts of a read.
const PARTS: usize = 4096;

/// The output of a process. A cursor is a position: the number of preceding bytes over all streams.
#[derive(Debug)]
pub struct Recording {
    limit: usize,
    drop_oldest: bool,
    bytes: VecDeque<u8>,
    parts: VecDeque<Part>,
    /// The cursors of the first kept byte, and after the last one.
    start: u64,
    end: u64,
    /// The highest cursor that a reader has read from, which acknowledges everything before it.
    passed: u64,
}

/// Consecutive bytes of one stream.
#[derive(Debug, Clone, Copy)]
struct Part {
    stream: u8,
    /// The cursor after its last byte.
    end: u64,
}

/// A piece of the recording for a reader.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Piece {
    /// The bytes, by stream.
    pub parts: Vec<(u8, Vec<u8>)>,
    /// The cursor after them.
    pub next: u64,
    /// The number of preceding bytes that were dropped.
    pub dropped: u64,
}

impl Recording {
    /// Creates a recording of at most `limit` bytes. When it is full, it drops the oldest bytes or makes the program
    /// wait for readers.
    pub fn new(limit: usize, drop_oldest: bool) -> Self {
        let (bytes, parts) = (VecDeque::new(), VecDeque::new());
        Recording { limit, drop_oldest, bytes, parts, start: 0, end: 0, passed: 0 }
    }

    /// Returns how many bytes can be added now.
    pub fn room(&self) -> usize {
        if self.drop_oldest {
            return self.limit - PART;
        }
        self.limit.saturating_sub(PART + self.cost(self.passed))
    }

    /// Adds bytes. If the program should wait for readers and there is no room, more than the limit is kept.
    pub fn push(&mut self, stream: u8, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.bytes.extend(bytes);
        self.end += bytes.len() as u64;
        match self.parts.back_mut() {
            Some(last) if last.stream == stream => last.end = self.end,
            _ => self.parts.push_back(Part { stream, end: self.end }),
        }
        while let Some(over) = self.cost(self.start).checked_sub(self.limit).filter(|over| *over > 0) {
            let Some(first) = self.parts.front() else { break };
            let length = distance(self.start, first.end);
            let free =
                if self.drop_oldest { usize::MAX } else { distance(self.start, self.passed.max(self.start)) };
            let goes = over.min(length).min(free);
            if goes == 0 {
                break;
            }
            if goes == length {
                self.parts.pop_front();
            }
            self.bytes.drain(..goes);
            self.start += goes as u64;
        }
    }

    /// Returns at most `limit` bytes after a cursor, or `None` if the cursor is beyond the end.
    pub fn read(&mut self, cursor: u64, limit: usize) -> Option<Piece> {
        if cursor > self.end {
            return None;
        }
        self.passed = self.passed.max(cursor);
        let from = cursor.max(self.start);
        let mut piece = Piece { next: from, dropped: from - cursor, ..Piece::default() };
        let until = self.end.min(from.saturating_add(limit as u64));
        let mut at = self.first_part(from);
        while piece.next < until && piece.parts.len() < PARTS {
            let Some(part) = self.parts.get(at) else { break };
            let end = part.end.min(until);
            let (first, last) = (distance(self.start, piece.next), distance(self.start, end));
            piece.parts.push((part.stream, self.bytes.range(first..last).copied().collect()));
            piece.next = end;
            at += 1;
        }
        Some(piece)
    }

    /// Returns the cursor after the last byte.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Returns how much of the limit is used.
    pub fn held(&self) -> usize {
        self.cost(self.start)
    }

    /// Returns the index of the first part with bytes after a cursor.
    fn first_part(&self, cursor: u64) -> usize {
        self.parts.partition_point(|part| part.end <= cursor)
    }

    /// Returns how much the bytes after a cursor count.
    fn cost(&self, from: u64) -> usize {
        let from = from.max(self.start);
        distance(from, self.end) + PART * (self.parts.len() - self.first_part(from))
    }
}

/// Returns the number of bytes between two cursors, which are both kept.
fn distance(from: u64, to: u64) -> usize {
    usize::try_from(to - from).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_at_their_own_speed() {
        let mut recording = Recording::new(4096, false);
        recording.push(1, b"ab");
        recording.push(1, b"c");
        recording.push(2, b"de");
        let all = vec![(1, b"abc".to_vec()), (2, b"de".to_vec())];
        assert_eq!(recording.read(0, 100), Some(Piece { parts: all, next: 5, dropped: 0 }));
        let some = vec![(1, b"bc".to_vec()), (2, b"d".to_vec())];
        assert_eq!(recording.read(1, 3), Some(Piece { parts: some, next: 4, dropped: 0 }));
        assert_eq!(recording.read(5, 1), Some(Piece { parts: vec![], next: 5, dropped: 0 }));
        assert_eq!(recording.read(6, 1), None);
        assert_eq!(recording.read(u64::MAX, 1), None);
        // The first reader may read again.
        assert_eq!(recording.read(0, usize::MAX).map(|piece| piece.next), Some(5));
    }

    #[test]
    fn a_full_one_waits_for_the_foremost_reader() {
        let mut recording = Recording::new(4096, false);
        let mut written = 0;
        while recording.room() > 0 {
            let bytes = vec![b'x'; recording.room().min(1000)];
            recording.push(1, &bytes);
            written += bytes.len();
        }
        assert_eq!(written, 4096 - 2 * PART, "nothing was dropped for it");
        assert_eq!(recording.read(0, usize::MAX).unwrap().next, written as u64);
        assert_eq!(recording.room(), 0, "the reader may not have got it");
        assert_eq!(recording.read(1000, 0).unwrap().dropped, 0);
        assert!(recording.room() >= 1000 - PART);
        recording.push(1, &vec![b'y'; recording.room()]);
        assert!(recording.held() <= 4096);
        // koze's own messages never block.
        recording.push(2, b"koze: killed");
        assert_eq!(recording.read(1000, 1).unwrap().dropped, 0);
        // The other reader is told.
        let late = recording.read(0, 1).unwrap();
        assert!(late.dropped > 0 && late.next == late.dropped + 1, "{late:?}");
    }

    #[test]
    fn the_oldest_go_first() {
        let mut recording = Recording::new(4096, true);
        for number in 0..10_000_u32 {
            // Alternating parts count more than their bytes.
            let stream = u8::try_from(number % 2).unwrap() + 1;
            recording.push(stream, &number.to_le_bytes());
            assert!(recording.held() <= 4096);
            assert!(recording.room() > 0);
        }
        assert_eq!(recording.end(), 40_000);
        let piece = recording.read(0, usize::MAX).unwrap();
        let bytes: usize = piece.parts.iter().map(|(_, bytes)| bytes.len()).sum();
        assert_eq!(piece.dropped + bytes as u64, 40_000);
        assert_eq!(piece.parts.last(), Some(&(2, 9_999_u32.to_le_bytes().to_vec())));
        recording.push(1, &vec![0; 100_000]);
        assert!(recording.held() <= 4096);
        assert_eq!(recording.end(), 140_000);
    }
}
