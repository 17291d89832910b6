//! Reads and discards the output of background programs. If the pipe were closed, they would be killed by SIGPIPE; if
//! it were full, they would block.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustix::event::epoll;
use rustix::io::Errno;

/// The size of one read, in bytes.
const PIECE: usize = 64 << 10;
/// The stack size of the thread, in bytes.
const STACK: usize = 128 << 10;

/// A handle to the thread that reads. Clones share the thread.
#[derive(Debug, Clone)]
pub(super) struct Drain(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    epoll: OwnedFd,
    open: Mutex<HashMap<u64, OwnedFd>>,
}

impl Drain {
    /// Starts the thread.
    pub(super) fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let drain = Drain(Arc::new(Inner { epoll, open: Mutex::default() }));
        let reads = drain.clone();
        thread::Builder::new().name("drain".into()).stack_size(STACK).spawn(move || reads.read())?;
        Ok(drain)
    }

    /// Adds a pipe, which must be non-blocking.
    pub(super) fn add(&self, pipe: OwnedFd) {
        let key = pipe.as_raw_fd().unsigned_abs().into();
        // The lock is held until the pipe is on the list, because it may be readable at once.
        let mut open = self.0.open.lock().unwrap_or_else(PoisonError::into_inner);
        if epoll::add(&self.0.epoll, &pipe, epoll::EventData::new_u64(key), epoll::EventFlags::IN).is_ok() {
            open.insert(key, pipe);
        }
    }

    fn read(&self) {
        let mut buffer = vec![0; PIECE];
        let mut events = Vec::with_capacity(64);
        loop {
            events.clear();
            match epoll::wait(&self.0.epoll, rustix::buffer::spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            let mut open = self.0.open.lock().unwrap_or_else(PoisonError::into_inner);
            for event in &events {
                let key = event.data.u64();
                let Some(pipe) = open.get(&key) else { continue };
                match rustix::io::read(pipe, &mut buffer[..]) {
                    Ok(1..) | Err(Errno::INTR | Errno::AGAIN) => {}
                    // Closing its last descriptor also removes it from epoll.
                    Ok(0) | Err(_) => drop(open.remove(&key)),
                }
            }
        }
    }
}
