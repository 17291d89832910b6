//! Runs scripts one after another, with the clock of the system.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::engine::{Engine, Host, State};
use crate::limits::TIME;
use crate::protocol::{Failure, FromScript, Json, Start, ToScript};

/// The connection to the host.
pub trait Wire: 'static {
    /// Sends a message. If the host is gone, that is only noticed on the next receive.
    fn send(&self, message: FromScript);
    /// Waits for the next message, up to a timeout.
    fn receive(&self, time: Option<Duration>) -> Received;
}

/// The result of waiting for a message.
#[derive(Debug)]
pub enum Received {
    /// A message.
    Message(ToScript),
    /// Nothing within the time.
    Nothing,
    /// The host is gone.
    End,
}

/// Serves a host until it is gone. Prepares an engine before each script arrives.
///
/// # Errors
/// If there is not enough memory for an engine.
pub fn serve<W: Wire>(wire: W) -> Result<(), Failure> {
    let wire = Rc::new(wire);
    loop {
        let deadline = Rc::new(Cell::new(None));
        let host = Native { wire: Rc::clone(&wire), from: Instant::now(), deadline: Rc::clone(&deadline) };
        let mut engine = Engine::new(host)?;
        let done = match wire.receive(None) {
            Received::Message(ToScript::Start(start)) => match run(&mut engine, start, &*wire, &deadline) {
                Some(done) => done,
                None => return Ok(()),
            },
            Received::Message(ToScript::Check(check)) => {
                deadline.set(Some(Instant::now() + TIME));
                engine.check(&check).map(|()| Json::null())
            }
            // A late answer to a script that has ended.
            Received::Message(ToScript::Answer { .. } | ToScript::Timer) | Received::Nothing => continue,
            Received::End => return Ok(()),
        };
        wire.send(FromScript::Done(done));
    }
}

/// Runs a script. Returns `None` if the host is gone.
fn run(
    engine: &mut Engine,
    start: Start,
    wire: &impl Wire,
    deadline: &Cell<Option<Instant>>,
) -> Option<Result<Json, Failure>> {
    let end = Instant::now() + Duration::from_millis(start.limits.time_ms);
    deadline.set(Some(end));
    let mut state = engine.start(start);
    loop {
        let next = match state {
            State::Done(done) => return Some(done),
            State::Waiting(next) => next,
        };
        let left = end.saturating_duration_since(Instant::now());
        let time = next.map_or(left, |next| left.min(Duration::from_millis(next)));
        state = match wire.receive(Some(time)) {
            Received::Message(ToScript::Answer { id, result }) => engine.answer(id, result),
            Received::Message(_) | Received::Nothing => engine.timer(),
            Received::End => return None,
        };
    }
}

struct Native<W> {
    wire: Rc<W>,
    from: Instant,
    deadline: Rc<Cell<Option<Instant>>>,
}

impl<W: Wire> Host for Native<W> {
    fn send(&mut self, message: FromScript) {
        self.wire.send(message);
    }

    fn is_over(&mut self) -> bool {
        self.deadline.get().is_some_and(|deadline| Instant::now() >= deadline)
    }

    fn now(&mut self) -> u64 {
        crate::limits::time_ms(self.from.elapsed())
    }
}
