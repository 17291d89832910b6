//! The threads that connections and calls are worked on by. Some are there from the beginning: a sandbox that is full of
//! processes must still be able to kill them.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// How many threads are kept for what may come: more than there are connections.
const KEPT: usize = 12;
/// The stack of a thread. Nothing here goes deeper than a tree of directories is allowed to.
const STACK: usize = 1 << 20;

type Job = Box<dyn FnOnce() + Send>;

/// Threads. Cloned, it is the same.
#[derive(Clone)]
pub(super) struct Pool(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    ready: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    idle: usize,
}

impl Pool {
    /// With the threads that are kept.
    pub(super) fn new() -> io::Result<Self> {
        let pool = Pool(Arc::new(Inner { state: Mutex::default(), ready: Condvar::new() }));
        for _ in 0..KEPT {
            pool.start()?;
        }
        Ok(pool)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self) -> io::Result<()> {
        let pool = self.clone();
        thread::Builder::new().stack_size(STACK).spawn(move || pool.work()).map(drop)
    }

    /// Has something done by a thread that has nothing to do, or a new one; where there can be none, by the next that has
    /// nothing to do.
    pub(super) fn run(&self, job: impl FnOnce() + Send + 'static) {
        let mut state = self.state();
        state.jobs.push_back(Box::new(job));
        if state.jobs.len() <= state.idle {
            self.0.ready.notify_one();
        } else {
            drop(state);
            // It takes what is next in turn, which need not be this.
            let _ = self.start();
        }
    }

    fn work(&self) {
        loop {
            let mut state = self.state();
            let job = loop {
                if let Some(job) = state.jobs.pop_front() {
                    break job;
                }
                if state.idle >= KEPT {
                    return;
                }
                state.idle += 1;
                state = self.0.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            };
            drop(state);
            job();
        }
    }
}
