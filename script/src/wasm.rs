//! The engine as a WebAssembly module. It never waits: its host passes a message to it, and the call returns once the script
//! waits for the next message or has ended.
//!
//! | name | | |
//! |---|---|---|
//! | `prepare` | export | creates the engine before the script is known. The host may copy the memory into other instances afterward |
//! | `room` | export | returns the address for the next bytes of the host |
//! | `deliver` | export | takes these bytes, which are frames, and runs the script as far as possible |
//! | `koze.send` | import | receives a frame |
//! | `koze.random` | import | fills bytes with random numbers |
//! | `koze.url`, `koze.answer` | import | take a request of [`web`](crate::web) for a URL, and copy the answer |
//! | `env.__rquickjs_host_now_us` | import | returns the microseconds since 1970 |
//! | `Math` | import | functions of the host's `Math` |
//!
//! `cargo xtask script` adds the global `fuel`, which every iteration of a loop in the module decreases. Below zero, the module
//! traps: the host's clock stands still while the module computes, and not every built-in function checks the time. An
//! instance runs one script. After a trap it cannot continue, and its host drops it.
#![allow(unsafe_code, reason = "imports and exports of WebAssembly are unsafe functions")]

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::engine::{Engine, Host, State};
use crate::failure;
use crate::frame::{self, Incoming};
use crate::protocol::{Failure, FromScript, Json, ToScript};

#[link(wasm_import_module = "koze")]
unsafe extern "C" {
    fn send(at: *const u8, length: usize);
}

// The clock of the engine's C library.
#[link(wasm_import_module = "env")]
unsafe extern "C" {
    fn __rquickjs_host_now_us() -> f64;
}

thread_local! {
    static RUN: RefCell<Run> = RefCell::default();
}

/// The one run of an instance.
#[derive(Default)]
struct Run {
    room: Vec<u8>,
    incoming: Incoming,
    engine: Option<Engine>,
    prepared: Option<Prepared>,
    has_ended: bool,
}

/// An engine without a script yet, and the time at which its script has to end.
struct Prepared {
    engine: Engine,
    deadline: Rc<Cell<Option<u64>>>,
}

/// Creates the engine ahead of the script. If that fails, the script gets the error.
#[unsafe(no_mangle)]
extern "C" fn prepare() {
    RUN.with_borrow_mut(|run| run.prepared = Prepared::new().ok());
}

impl Prepared {
    fn new() -> Result<Self, Failure> {
        let deadline = Rc::new(Cell::new(None));
        let engine = Engine::new(Outside { deadline: Rc::clone(&deadline) })?;
        Ok(Prepared { engine, deadline })
    }
}

/// Returns where the host writes the next bytes.
#[unsafe(no_mangle)]
extern "C" fn room(length: usize) -> *mut u8 {
    RUN.with_borrow_mut(|run| {
        run.room.resize(length, 0);
        run.room.as_mut_ptr()
    })
}

/// Takes the bytes that the host has written.
#[unsafe(no_mangle)]
extern "C" fn deliver() {
    RUN.with_borrow_mut(Run::deliver);
}

impl Run {
    fn deliver(&mut self) {
        self.incoming.push(&std::mem::take(&mut self.room));
        while !self.has_ended {
            match self.incoming.take() {
                Ok(Some(message)) => self.receive(message),
                Ok(None) => return,
                Err(error) => {
                    self.end(FromScript::Done(Err(failure::plain(format!(
                        "a message of the host: {error}"
                    )))));
                }
            }
        }
    }

    fn receive(&mut self, message: ToScript) {
        let state = match (message, &mut self.engine) {
            (ToScript::Start(start), None) => match self.prepared.take().map_or_else(Prepared::new, Ok) {
                Ok(Prepared { engine, deadline }) => {
                    deadline.set(Some(now().saturating_add(start.limits.time_ms)));
                    self.engine.insert(engine).start(start)
                }
                Err(failure) => State::Done(Err(failure)),
            },
            (ToScript::Check(check), None) => {
                let checked = self
                    .prepared
                    .take()
                    .map_or_else(Prepared::new, Ok)
                    .and_then(|prepared| prepared.engine.check(&check))
                    .map(|()| Json::null());
                State::Done(checked)
            }
            (ToScript::Answer { id, result }, Some(engine)) => engine.answer(id, result),
            (ToScript::Timer, Some(engine)) => engine.timer(),
            // A second script, or an answer without a script.
            _ => return,
        };
        match state {
            State::Done(done) => self.end(FromScript::Done(done)),
            State::Waiting(Some(ms)) => tell(&FromScript::Timer(ms)),
            State::Waiting(None) => {}
        }
    }

    fn end(&mut self, done: FromScript) {
        self.has_ended = true;
        tell(&done);
    }
}

/// The host, as the engine sees it.
struct Outside {
    /// When the script has to end, by the clock of [`now`].
    deadline: Rc<Cell<Option<u64>>>,
}

impl Host for Outside {
    fn send(&mut self, message: FromScript) {
        tell(&message);
    }

    fn is_over(&mut self) -> bool {
        self.deadline.get().is_some_and(|deadline| now() >= deadline)
    }

    fn now(&mut self) -> u64 {
        now()
    }
}

fn tell(message: &FromScript) {
    let Ok(bytes) = frame::encode(message) else { return };
    // SAFETY: the bytes are alive while the host copies them.
    unsafe { send(bytes.as_ptr(), bytes.len()) };
}

/// Returns the time of the host in milliseconds.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the time is after 1970")]
fn now() -> u64 {
    // SAFETY: it takes nothing and returns a number.
    (unsafe { __rquickjs_host_now_us() } / 1000.0) as u64
}
