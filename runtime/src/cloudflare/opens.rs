//! Limits concurrent openings of sandboxes, per session and per provider, with a first-in, first-out queue.
//!
//! In a Worker, one request cannot wake another. So each request in the queue polls, and those that stop polling
//! because their client has disconnected are removed after a while. A request that was only delayed regains its
//! position.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use koze_core::error::{Code, Error, Result};
use koze_core::time::{millis, now, sleep};

/// The polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The time without a poll after which a request counts as gone, in milliseconds.
const LOST: u64 = 2_000;
/// The time after which an opening no longer counts, in milliseconds.
const TIMEOUT_MS: u64 = 120_000;

/// The limits on concurrent openings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The limit of one session.
    pub per_session: usize,
    /// The limit of all sessions in this isolate, in line with `max_instances` of the containers.
    pub per_provider: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { per_session: 5, per_provider: 50 }
    }
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue::new());

/// A permit to open a sandbox. Dropping it releases the permit.
#[derive(Debug)]
pub(super) struct Permit {
    number: u64,
}

/// Waits for a permit.
///
/// # Errors
/// [`Code::Unavailable`] after `within`.
pub(super) async fn wait(session: &str, limits: Limits, within: Duration) -> Result<Permit> {
    let until = now().saturating_add(millis(within));
    let number = with(|queue| queue.enter(session, now()));
    // Dropping this removes the request from the queue.
    let permit = Permit { number };
    while !with(|queue| queue.admit(number, session, limits, now())) {
        if now() >= until {
            let message = "too many sandboxes are being created at once: try again later";
            return Err(Error::new(Code::Unavailable, message));
        }
        sleep(POLL_INTERVAL).await;
    }
    Ok(permit)
}

impl Drop for Permit {
    fn drop(&mut self) {
        with(|queue| queue.leave(self.number));
    }
}

fn with<T>(work: impl FnOnce(&mut Queue) -> T) -> T {
    work(&mut QUEUE.lock().unwrap_or_else(PoisonError::into_inner))
}

#[derive(Debug)]
struct Queue {
    next: u64,
    waiting: VecDeque<Ticket>,
    opening: Vec<Ticket>,
}

#[derive(Debug)]
struct Ticket {
    number: u64,
    session: String,
    /// When it last polled, or when the opening began.
    at: u64,
}

impl Queue {
    const fn new() -> Self {
        Queue { next: 0, waiting: VecDeque::new(), opening: Vec::new() }
    }

    /// Adds a request to the queue.
    fn enter(&mut self, session: &str, now: u64) -> u64 {
        self.next += 1;
        self.waiting.push_back(Ticket { number: self.next, session: session.to_owned(), at: now });
        self.next
    }

    /// Returns whether a request may open now.
    fn admit(&mut self, number: u64, session: &str, limits: Limits, now: u64) -> bool {
        // Numbers in the queue are in ascending order.
        match self.waiting.binary_search_by_key(&number, |entry| entry.number) {
            Ok(place) => self.waiting[place].at = now,
            // It was considered gone, but was only delayed.
            Err(place) => {
                self.waiting.insert(place, Ticket { number, session: session.to_owned(), at: now });
            }
        }
        self.waiting.retain(|entry| now.saturating_sub(entry.at) < LOST);
        self.opening.retain(|entry| now.saturating_sub(entry.at) < TIMEOUT_MS);
        let mut free = limits.per_provider.saturating_sub(self.opening.len());
        // Earlier requests count as openings, unless they wait only because of their own session's limit.
        let mut before: Vec<&str> = self.opening.iter().map(|entry| entry.session.as_str()).collect();
        for (index, entry) in self.waiting.iter().enumerate() {
            let own = before.iter().filter(|session| **session == entry.session).count();
            if own < limits.per_session {
                if free == 0 {
                    return false;
                }
                if entry.number == number {
                    let entry = self.waiting.remove(index).map(|entry| Ticket { at: now, ..entry });
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

    /// A queue with one waiting request per session.
    fn each(sessions: &'static [&'static str]) -> (Queue, Vec<Waiter>) {
        let mut queue = Queue::new();
        let all =
            sessions.iter().map(|session| Waiter { number: queue.enter(session, 0), session }).collect();
        (queue, all)
    }

    #[derive(Clone, Copy)]
    struct Waiter {
        number: u64,
        session: &'static str,
    }

    impl Queue {
        fn admits(&mut self, waiter: Waiter, now: u64) -> bool {
            self.admit(waiter.number, waiter.session, LIMITS, now)
        }
    }

    #[test]
    fn first_come_first_served() {
        let (mut queue, all) = each(&["1", "2", "3", "4"]);
        assert!(queue.admits(all[2], 0) && queue.admits(all[0], 0));
        assert!(!queue.admits(all[3], 0), "the last place is for who came before");
        assert!(queue.admits(all[1], 0) && !queue.admits(all[3], 0));
        queue.leave(all[0].number);
        assert!(queue.admits(all[3], 0));
    }

    #[test]
    fn a_greedy_session_does_not_block_others() {
        let (mut queue, all) = each(&["greedy", "greedy", "greedy", "greedy", "greedy", "other"]);
        let admitted: Vec<bool> = all[..5].iter().map(|waiter| queue.admits(*waiter, 0)).collect();
        assert_eq!(admitted.iter().filter(|admitted| **admitted).count(), 2);
        assert!(queue.admits(all[5], 0));
        queue.leave(all[0].number);
        assert!(queue.admits(all[2], 0) && !queue.admits(all[3], 0));
    }

    #[test]
    fn gone_requests_are_skipped() {
        let (mut queue, all) = each(&["1", "2", "3", "4", "5"]);
        for waiter in &all[..3] {
            assert!(queue.admits(*waiter, 0));
        }
        assert!(!queue.admits(all[4], LOST - 1));
        queue.leave(all[0].number);
        assert!(!queue.admits(all[4], LOST - 1), "the fourth may look yet");
        assert!(queue.admits(all[4], LOST), "it has not looked");
        let late = Waiter { number: queue.enter("6", TIMEOUT_MS), session: "6" };
        assert!(queue.admits(late, TIMEOUT_MS), "the second and the third never ended");
    }

    #[test]
    fn delayed_requests_regain_their_position() {
        let (mut queue, all) = each(&["1", "2", "3", "4", "5", "6"]);
        for waiter in &all[..3] {
            assert!(queue.admits(*waiter, 0));
        }
        // All waiting requests are delayed. The last one polls first, the fourth polls last.
        for waiter in [all[5], all[4], all[3]] {
            assert!(!queue.admits(waiter, 2 * LOST));
        }
        queue.leave(all[0].number);
        assert!(
            !queue.admits(all[5], 2 * LOST) && !queue.admits(all[4], 2 * LOST),
            "it is the fourth's turn"
        );
        assert!(queue.admits(all[3], 2 * LOST));
        queue.leave(all[1].number);
        assert!(!queue.admits(all[5], 2 * LOST) && queue.admits(all[4], 2 * LOST));
    }
}
