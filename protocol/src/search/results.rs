//! Collects what is found, within the limits of a search.

use super::{End, LARGEST_RESULT, Line, Match, Search, Searched};

/// The results of a search so far.
#[derive(Debug)]
pub struct Results {
    searched: Searched,
    max_matches: usize,
    max_skipped: usize,
    /// The bytes of each list.
    bytes: [usize; 3],
}

impl Results {
    /// Starts with nothing.
    pub fn new(search: &Search) -> Self {
        let searched =
            Searched { matches: Vec::new(), skipped: Vec::new(), binary: Vec::new(), end: End::Complete };
        let limit = |limit: u32| usize::try_from(limit).unwrap_or(usize::MAX);
        let (max_matches, max_skipped) = (limit(search.max_matches), limit(search.max_skipped));
        Results { searched, max_matches, max_skipped, bytes: [0; 3] }
    }

    /// Returns how many more lines can be added.
    pub fn room(&self) -> usize {
        if self.bytes[0] >= LARGEST_RESULT { 0 } else { self.max_matches - self.searched.matches.len() }
    }

    /// Returns whether no further line can be added.
    pub fn is_full(&self) -> bool {
        self.room() == 0
    }

    /// Adds matching lines of a file, as many as there is room for.
    pub fn add_lines(&mut self, path: &str, lines: Vec<Line>) {
        for Line { number, text } in lines {
            if self.is_full() {
                return;
            }
            self.bytes[0] += path.len() + text.len();
            self.searched.matches.push(Match { path: path.to_owned(), number, text });
        }
    }

    /// Adds a file or directory that was not searched.
    pub fn add_skipped(&mut self, path: String) {
        add(&mut self.searched.skipped, &mut self.bytes[1], self.max_skipped, path);
    }

    /// Adds a binary file.
    pub fn add_binary(&mut self, path: String) {
        add(&mut self.searched.binary, &mut self.bytes[2], self.max_skipped, path);
    }

    /// Returns the results of a search that ended for a reason, unless it is full anyway.
    pub fn finish(self, end: End) -> Searched {
        let end = if self.is_full() { End::Full } else { end };
        Searched { end, ..self.searched }
    }
}

fn add(list: &mut Vec<String>, bytes: &mut usize, most: usize, path: String) {
    if list.len() < most && *bytes < LARGEST_RESULT {
        *bytes += path.len();
        list.push(path);
    }
}

#[cfg(test)]
mod tests {
    use super::super::matcher::tests::search;
    use super::*;

    fn lines(count: u64, length: usize) -> Vec<Line> {
        (1..=count).map(|number| Line { number, text: "x".repeat(length) }).collect()
    }

    #[test]
    fn no_more_than_there_is_room_for() {
        let mut results = Results::new(&Search { max_matches: 3, max_skipped: 1, ..search("x") });
        results.add_lines("a", lines(2, 1));
        assert_eq!((results.room(), results.is_full()), (1, false));
        results.add_lines("b", lines(2, 1));
        results.add_skipped("c".into());
        results.add_skipped("d".into());
        let Searched { matches, skipped, binary, end } = results.finish(End::Timeout);
        let paths: Vec<_> = matches.iter().map(|found| (found.path.as_str(), found.number)).collect();
        assert_eq!(paths, [("a", 1), ("a", 2), ("b", 1)]);
        assert_eq!((skipped, binary, end), (vec!["c".to_owned()], Vec::new(), End::Full));
    }

    #[test]
    fn no_more_than_a_message_may_contain() {
        let mut results = Results::new(&Search { max_matches: u32::MAX, ..search("x") });
        results.add_lines("a", lines(10, LARGEST_RESULT / 4));
        assert!(results.is_full());
        assert_eq!(results.finish(End::Complete).matches.len(), 4);
        assert_eq!(Results::new(&search("x")).finish(End::TooMany).end, End::TooMany);
    }
}
