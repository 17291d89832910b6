//! The threads that serve connections and work on calls. A number of them exists from the beginning: a sandbox whose
//! process limit is reached must still be able to kill processes.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// The number of threads that are kept idle: more than the maximum number of connections.
const KEPT: usize = 12;
/// The stack size of a thread, in bytes. The deepest recursion is over a directory tree, whose depth is limited.
const STACK: usize = 1 << 20;

type Job = Box<dyn FnOnce() + Send>;

/// A thread pool. Clones share the threads.
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
    /// Starts the threads that are kept.
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

    /// Runs a job on an idle thread or a new one. If no thread can be created, the next thread that becomes idle runs
    /// it.
    pub(super) fn run(&self, job: impl FnOnce() + Send + 'static) {
        let mut state = self.state();
        state.jobs.push_back(Box::new(job));
        if state.jobs.len() <= state.idle {
            self.0.ready.notify_one();
        } else {
            drop(state);
            // The new thread takes the next job in the queue, which may be a different one.
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
