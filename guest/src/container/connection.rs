//! A connection that was let in: its frames become calls, and the calls go to threads, so many at a time.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::call::Call;
use super::frame::{self, Broken, Decoder, Kind, encode};
use super::link::Link;
use super::request::{PROTOCOL, Request, Welcome};
use super::streams::Stopped;
use super::table::{Asked, Table};
use super::{Guest, door, work};

/// How many calls of a connection are worked on at once.
const AT_WORK: usize = 64;
/// How many more may wait for that, given up ones included.
const WAITING: usize = 1024;

/// A connection.
pub(super) struct Connection {
    guest: Arc<Guest>,
    pub(super) link: Arc<Link>,
    table: Mutex<Table>,
    desk: Mutex<Desk>,
    over: AtomicBool,
}

#[derive(Default)]
struct Desk {
    working: usize,
    waiting: VecDeque<Asked>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Connection {
    pub(super) fn new(guest: Arc<Guest>, socket: TcpStream) -> Self {
        let link = Arc::new(Link::new(socket));
        Connection {
            guest,
            link,
            table: Mutex::default(),
            desk: Mutex::default(),
            over: AtomicBool::new(false),
        }
    }

    /// Serves it to its end.
    pub(super) fn serve(self: &Arc<Self>, decoder: Decoder, protocol: u32) {
        let served = door::settle(self.link.socket()).map_err(io::Error::from).and_then(|()| {
            let welcome = Welcome { protocol: PROTOCOL, version: env!("CARGO_PKG_VERSION") };
            let text = serde_json::to_vec(&welcome)?;
            self.link.send(&encode(0, Kind::Welcome, &text)).map_err(|_| io::ErrorKind::BrokenPipe)?;
            if protocol == PROTOCOL { self.read(decoder.lengthened(frame::LONGEST)) } else { Ok(()) }
        });
        // What it was that a peer with the token did wrong is worth a line in the container's log.
        if let Err(error) = served
            && error.kind() == io::ErrorKind::InvalidData
        {
            super::say(&format!("a connection was ended: {error}"));
        }
        self.over.store(true, Ordering::Release);
        lock(&self.table).stop();
        lock(&self.desk).waiting.clear();
        self.link.close();
    }

    fn read(self: &Arc<Self>, mut decoder: Decoder) -> io::Result<()> {
        let broken = |Broken(rule)| io::Error::new(io::ErrorKind::InvalidData, rule);
        loop {
            while let Some(frame) = decoder.next().map_err(broken)? {
                let asked = lock(&self.table).take(&frame).map_err(broken)?;
                if let Some(asked) = asked {
                    self.asked(asked).map_err(broken)?;
                }
            }
            let mut socket = self.link.socket();
            match socket.read(decoder.space()) {
                Ok(0) => return Ok(()),
                Ok(read) => decoder.filled(read),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // However it ended, it has.
                Err(_) => return Ok(()),
            }
        }
    }

    /// Has a call worked on, now or in its turn. This thread only reads: one that sends could wait for a peer that waits
    /// to be read.
    fn asked(self: &Arc<Self>, asked: Asked) -> Result<(), Broken> {
        if asked.request == Ok(Request::KillAll {}) {
            // Not in its turn, and by no thread that there may be none of: it is what helps when nothing else does.
            self.guest.programs.kill_all();
        }
        let mut desk = lock(&self.desk);
        if desk.working < AT_WORK {
            desk.working += 1;
            drop(desk);
            let connection = Arc::clone(self);
            self.guest.pool.run(move || connection.work(asked));
            return Ok(());
        }
        if desk.waiting.len() >= WAITING {
            return Err(Broken("too many calls at once"));
        }
        desk.waiting.push_back(asked);
        Ok(())
    }

    /// Works on a call, and then on those that have waited meanwhile.
    fn work(self: &Arc<Self>, first: Asked) {
        let mut next = Some(first);
        while let Some(asked) = next {
            let call = Call { number: asked.call, streams: asked.streams, link: Arc::clone(&self.link) };
            let given_up = call.streams.stopped() || self.over.load(Ordering::Acquire);
            let answer = if given_up {
                Err(Stopped)
            } else {
                work::work(&self.guest, &call, asked.request, asked.held)
            };
            // Before its peer can know: what it sends from then on is late, and no breach.
            lock(&self.table).over(call.number);
            let _ = answer.and_then(|done| call.answer(done));
            let mut desk = lock(&self.desk);
            next = desk.waiting.pop_front();
            if next.is_none() {
                desk.working -= 1;
            }
        }
    }
}
