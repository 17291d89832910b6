//! An authenticated connection. Its frames become calls, which run on threads, a limited number at a time.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::call::Call;
use super::frame::{self, Decoder, Kind, Violation, encode};
use super::guest::Guest;
use super::link::Link;
use super::log::say;
use super::request::{PROTOCOL, Request, Welcome};
use super::streams::Stopped;
use super::table::{NewCall, Table};
use super::wire::Wire;
use super::work;

/// The maximum number of calls of a connection that run at once.
const MAX_RUNNING: usize = 128;
/// The maximum number of calls that may wait to run, canceled ones included.
const MAX_WAITING: usize = 1024;

/// The maximum number of authenticated connections. The class needs one; the others cover connections whose end has not
/// been noticed yet.
const MAX_CONNECTIONS: usize = 8;

/// Serves an authenticated connection in a thread. Closes the oldest ones if there are too many.
pub(super) fn serve_connection(guest: &Arc<Guest>, wire: Wire, decoder: Decoder, protocol: u32) {
    let connection = Arc::new(Connection::new(Arc::clone(guest), wire));
    let link = Arc::clone(&connection.link);
    let mut all = guest.lock_connections();
    all.push_back(Arc::clone(&link));
    while all.len() > MAX_CONNECTIONS {
        if let Some(oldest) = all.pop_front() {
            oldest.close();
        }
    }
    drop(all);
    let shared = Arc::clone(guest);
    guest.pool.run(move || {
        connection.serve(decoder, protocol);
        shared.lock_connections().retain(|other| !Arc::ptr_eq(other, &link));
    });
}

/// A connection.
struct Connection {
    guest: Arc<Guest>,
    link: Arc<Link>,
    table: Mutex<Table>,
    queue: Mutex<Queue>,
    over: AtomicBool,
}

#[derive(Default)]
struct Queue {
    working: usize,
    waiting: VecDeque<NewCall>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Connection {
    fn new(guest: Arc<Guest>, wire: Wire) -> Self {
        let link = Arc::new(Link::new(wire));
        Connection {
            guest,
            link,
            table: Mutex::default(),
            queue: Mutex::default(),
            over: AtomicBool::new(false),
        }
    }

    /// Serves the connection until it ends.
    fn serve(self: &Arc<Self>, decoder: Decoder, protocol: u32) {
        let served = self.link.wire().prepare().and_then(|()| {
            let welcome = Welcome { protocol: PROTOCOL, version: env!("CARGO_PKG_VERSION").into() };
            let text = serde_json::to_vec(&welcome)?;
            self.link.send(&encode(0, Kind::Welcome, &text)).map_err(|_| io::ErrorKind::BrokenPipe)?;
            if protocol == PROTOCOL { self.read(decoder.lengthened(frame::MAX_FRAME)) } else { Ok(()) }
        });
        // The peer has the token, so a protocol violation is worth a line in the container's log.
        if let Err(error) = served
            && error.kind() == io::ErrorKind::InvalidData
        {
            say(&format!("a connection was ended: {error}"));
        }
        self.over.store(true, Ordering::Release);
        lock(&self.table).stop();
        lock(&self.queue).waiting.clear();
        self.link.close();
    }

    fn read(self: &Arc<Self>, mut decoder: Decoder) -> io::Result<()> {
        let violation = |Violation(rule)| io::Error::new(io::ErrorKind::InvalidData, rule);
        loop {
            while let Some(frame) = decoder.next().map_err(violation)? {
                let call = lock(&self.table).take(&frame).map_err(violation)?;
                if let Some(call) = call {
                    self.start(call).map_err(violation)?;
                }
            }
            let mut wire = self.link.wire();
            match wire.read(decoder.space()) {
                Ok(0) => return Ok(()),
                Ok(read) => decoder.filled(read),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Any error ends the connection.
                Err(_) => return Ok(()),
            }
        }
    }

    /// Runs a call, now or when its turn comes. This thread only reads: if it sent, it could wait for a peer that in
    /// turn waits for it to read.
    fn start(self: &Arc<Self>, call: NewCall) -> Result<(), Violation> {
        if call.request == Ok(Request::KillAll {}) {
            // Neither queued nor handed to a new thread: this must work when the sandbox is out of processes.
            self.guest.programs.kill_all();
        }
        let mut queue = lock(&self.queue);
        if queue.working < MAX_RUNNING {
            queue.working += 1;
            drop(queue);
            let connection = Arc::clone(self);
            self.guest.pool.run(move || connection.work(call));
            return Ok(());
        }
        if queue.waiting.len() >= MAX_WAITING {
            return Err(Violation("too many calls at once"));
        }
        queue.waiting.push_back(call);
        Ok(())
    }

    /// Works on a call, and then on waiting calls.
    fn work(self: &Arc<Self>, first: NewCall) {
        let mut next = Some(first);
        while let Some(next_call) = next {
            let NewCall { call: number, request, streams, held } = next_call;
            let call = Call { number, streams, link: Arc::clone(&self.link) };
            let canceled = call.streams.stopped() || self.over.load(Ordering::Acquire);
            let answer = if canceled {
                Err(Stopped)
            } else {
                work::execute_request(&self.guest, &call, request, held)
            };
            // Before the peer receives the answer: frames that it sends from then on are late, and not a violation.
            lock(&self.table).over(call.number);
            let _ = answer.and_then(|done| call.answer(done));
            let mut queue = lock(&self.queue);
            next = queue.waiting.pop_front();
            if next.is_none() {
                queue.working -= 1;
            }
        }
    }
}
