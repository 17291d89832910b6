//! The list of known processes, and which ended ones are removed when there are too many. The same rule applies
//! wherever they run.

use std::sync::Arc;

use crate::message::{Code, Fault};

/// The smallest and the largest buffer of a process, in bytes.
pub const BUFFER: std::ops::RangeInclusive<usize> = (4 << 10)..=(8 << 20);
/// The maximum number of running processes.
pub const RUNNING: usize = 64;
/// The maximum number of ended processes that are kept.
pub const ENDED: usize = 64;
/// The maximum size of all buffers in bytes: a running process counts its whole buffer, an ended one only its content.
pub const BUFFERS: usize = 32 << 20;

/// The memory accounting of a process.
pub trait Member {
    /// Returns the size of its buffer, or of its content once it has ended and its streams are closed.
    fn held(&self) -> usize;
    /// Returns whether it has ended.
    fn ended(&self) -> bool;
}

/// All known processes, oldest first.
#[derive(Debug)]
pub struct Roster<T>(Vec<(String, Arc<T>)>);

impl<T> Default for Roster<T> {
    fn default() -> Self {
        Roster(Vec::new())
    }
}

impl<T: Member> Roster<T> {
    /// Makes room for one more process with the given buffer size. Returns the ended processes that were removed,
    /// oldest first.
    ///
    /// # Errors
    /// [`Code::Unavailable`] if the running processes leave no room.
    pub fn admit(&mut self, buffer: usize) -> Result<Vec<Arc<T>>, Fault> {
        let running = || self.0.iter().filter(|(_, one)| !one.ended());
        if running().count() >= RUNNING {
            let text =
                format!("the sandbox runs {RUNNING} processes already: wait for one to end, or kill one");
            return Err(Fault::new(Code::Unavailable, text));
        }
        if running().map(|(_, one)| one.held()).sum::<usize>() + buffer > BUFFERS {
            let text = format!(
                "the buffers of the sandbox's processes have {BUFFERS} bytes together at most: start it with a smaller one"
            );
            return Err(Fault::new(Code::Unavailable, text));
        }
        let mut gone = Vec::new();
        loop {
            let ended = self.0.iter().filter(|(_, one)| one.ended()).count();
            let held: usize = self.0.iter().map(|(_, one)| one.held()).sum();
            if ended <= ENDED && held + buffer <= BUFFERS {
                return Ok(gone);
            }
            let Some(oldest) = self.0.iter().position(|(_, one)| one.ended()) else { return Ok(gone) };
            gone.push(self.0.remove(oldest).1);
        }
    }

    /// Adds a process.
    pub fn insert(&mut self, id: String, process: Arc<T>) {
        self.0.push((id, process));
    }

    /// Returns the process with this ID.
    pub fn get(&self, id: &str) -> Option<&Arc<T>> {
        self.0.iter().find(|(known, _)| known == id).map(|(_, process)| process)
    }

    /// Returns all processes.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Arc<T>)> {
        self.0.iter().map(|(id, process)| (id.as_str(), process))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    struct One(usize, Cell<bool>);

    impl Member for One {
        fn held(&self) -> usize {
            self.0
        }

        fn ended(&self) -> bool {
            self.1.get()
        }
    }

    fn add(roster: &mut Roster<One>, id: usize, buffer: usize) -> Result<usize, Fault> {
        let gone = roster.admit(buffer)?.len();
        #[expect(clippy::arc_with_non_send_sync, reason = "a test of one thread")]
        roster.insert(id.to_string(), Arc::new(One(buffer, Cell::new(false))));
        Ok(gone)
    }

    #[test]
    fn those_that_run_are_few_and_never_go() {
        let mut roster = Roster::default();
        for id in 0..RUNNING {
            assert_eq!(add(&mut roster, id, 1), Ok(0));
        }
        assert_eq!(add(&mut roster, 100, 1).unwrap_err().why, Code::Unavailable);
        roster.get("3").unwrap().1.set(true);
        assert_eq!(add(&mut roster, 101, 1), Ok(0));
        assert!(roster.get("3").is_some(), "there is room for it");
        assert!(roster.get("102").is_none());
    }

    #[test]
    fn those_that_have_ended_make_room() {
        let mut roster = Roster::default();
        for id in 0..200 {
            add(&mut roster, id, 1).unwrap();
            roster.get(&id.to_string()).unwrap().1.set(true);
        }
        assert!(roster.iter().count() <= ENDED + 1);
        assert!(roster.get("0").is_none() && roster.get("199").is_some());
        // A large buffer takes the room of many.
        assert!(add(&mut roster, 200, BUFFERS - 5).unwrap() > 50);
        assert!(roster.iter().count() <= 6);
        assert_eq!(add(&mut roster, 201, 6).unwrap_err().why, Code::Unavailable);
        assert_eq!(add(&mut roster, 202, 5), Ok(5));
    }
}
