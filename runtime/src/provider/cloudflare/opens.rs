//! How many sandboxes are opened at once: two limits, of a session and of the whole provider, and a queue before them in
//! which who came first goes first.
//!
//! A Worker cannot be woken by what another request does: what it waits for must be its own. So each waits by looking
//! again and again, and those who stopped looking, for their client has gone, are left out after a while.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::error::{Code, Error, Result};
use crate::time::{millis, now, sleep};

/// How often one who waits looks.
const LOOK: Duration = Duration::from_millis(20);
/// After so many milliseconds without a look, nobody waits any more.
const LOST: u64 = 2_000;
/// After so many milliseconds an opening is over, however it ended.
const LONGEST: u64 = 120_000;

/// The limits on openings at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Of one session.
    pub per_session: usize,
    /// Of all sessions in this isolate: what `max_instances` of the containers can take.
    pub per_provider: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { per_session: 5, per_provider: 50 }
    }
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue::new());

/// Leave to open a sandbox. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Leave(u64);

/// Waits for leave.
///
/// # Errors
/// [`Code::Unavailable`] where there is none in time.
pub(super) async fn wait(session: &str, limits: Limits, within: Duration) -> Result<Leave> {
    let until = now().saturating_add(millis(within));
    let number = with(|queue| queue.enter(session, now()));
    // Dropped, it is in the queue no longer.
    let leave = Leave(number);
    while !with(|queue| queue.admit(number, limits, now())) {
        if now() >= until {
            let message = "too many sandboxes are being made at once: try again later";
            return Err(Error::new(Code::Unavailable, message));
        }
        sleep(LOOK).await;
    }
    Ok(leave)
}

impl Drop for Leave {
    fn drop(&mut self) {
        with(|queue| queue.leave(self.0));
    }
}

fn with<T>(work: impl FnOnce(&mut Queue) -> T) -> T {
    work(&mut QUEUE.lock().unwrap_or_else(PoisonError::into_inner))
}

#[derive(Debug)]
struct Queue {
    next: u64,
    waiting: VecDeque<Entry>,
    opening: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    session: String,
    /// When it was last looked at; of what opens, when it began.
    at: u64,
}

impl Queue {
    const fn new() -> Self {
        Queue { next: 0, waiting: VecDeque::new(), opening: Vec::new() }
    }

    /// One more who waits.
    fn enter(&mut self, session: &str, now: u64) -> u64 {
        self.next += 1;
        self.waiting.push_back(Entry { number: self.next, session: session.to_owned(), at: now });
        self.next
    }

    /// Whether it is this one's turn.
    fn admit(&mut self, number: u64, limits: Limits, now: u64) -> bool {
        if let Some(entry) = self.waiting.iter_mut().find(|entry| entry.number == number) {
            entry.at = now;
        }
        self.waiting.retain(|entry| now.saturating_sub(entry.at) < LOST);
        self.opening.retain(|entry| now.saturating_sub(entry.at) < LONGEST);
        let mut free = limits.per_provider.saturating_sub(self.opening.len());
        // Those before it are counted as if they opened, unless it is their own session that keeps them waiting.
        let mut before: Vec<&str> = self.opening.iter().map(|entry| entry.session.as_str()).collect();
        for (index, entry) in self.waiting.iter().enumerate() {
            let own = before.iter().filter(|session| **session == entry.session).count();
            if own < limits.per_session {
                if free == 0 {
                    return false;
                }
                if entry.number == number {
                    let entry = self.waiting.remove(index).map(|entry| Entry { at: now, ..entry });
                    self.opening.extend(entry);
                    return true;
                }
                free -= 1;
                before.push(&entry.session);
            }
        }
        false
    }

    fn leave(&mut self, number: u64) {
        self.waiting.retain(|entry| entry.number != number);
        self.opening.retain(|entry| entry.number != number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { per_session: 2, per_provider: 3 };

    #[test]
    fn first_come_first_served() {
        let mut queue = Queue::new();
        let [a, b, c, d] = ["1", "2", "3", "4"].map(|session| queue.enter(session, 0));
        assert!(queue.admit(c, LIMITS, 0) && queue.admit(a, LIMITS, 0));
        assert!(!queue.admit(d, LIMITS, 0), "the last place is for who came before");
        assert!(queue.admit(b, LIMITS, 0) && !queue.admit(d, LIMITS, 0));
        queue.leave(a);
        assert!(queue.admit(d, LIMITS, 0));
    }

    #[test]
    fn a_session_that_wants_much_keeps_nobody_else_waiting() {
        let mut queue = Queue::new();
        let greedy: Vec<u64> = (0..9).map(|_| queue.enter("greedy", 0)).collect();
        let other = queue.enter("other", 0);
        let admitted: Vec<bool> = greedy.iter().map(|number| queue.admit(*number, LIMITS, 0)).collect();
        assert_eq!(admitted.iter().filter(|admitted| **admitted).count(), 2);
        assert!(queue.admit(other, LIMITS, 0));
        queue.leave(greedy[0]);
        assert!(queue.admit(greedy[2], LIMITS, 0) && !queue.admit(greedy[3], LIMITS, 0));
    }

    #[test]
    fn who_has_gone_is_left_out() {
        let mut queue = Queue::new();
        let all: Vec<u64> = ["1", "2", "3", "4", "5"].iter().map(|session| queue.enter(session, 0)).collect();
        for number in &all[..3] {
            assert!(queue.admit(*number, LIMITS, 0));
        }
        assert!(!queue.admit(all[4], LIMITS, LOST - 1));
        queue.leave(all[0]);
        assert!(!queue.admit(all[4], LIMITS, LOST - 1), "the fourth may look yet");
        assert!(queue.admit(all[4], LIMITS, LOST), "it has not looked");
        let late = queue.enter("6", LONGEST);
        assert!(queue.admit(late, LIMITS, LONGEST), "the second and the third never ended");
    }
}
