//! The state that the functions of a script share with its engine.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use rquickjs::{CaughtError, Ctx, Error, Function, Persistent, Promise, Value};

use crate::compile::Compiler;
use crate::engine::Host;
use crate::failure;
use crate::json;
use crate::limits::{CALLS, Limit, Limits, TIMERS};
use crate::logs::Logs;
use crate::protocol::{Failure, FromScript, Json};
use crate::rejections::Rejections;

/// A call that has no answer yet.
pub(crate) struct Pending {
    pub(crate) resolve: Persistent<Function<'static>>,
    pub(crate) reject: Persistent<Function<'static>>,
    /// The error to reject with. Its stack is that of the call.
    pub(crate) error: Persistent<Value<'static>>,
}

/// The state that the functions of a script share with its engine.
pub(crate) struct Shared {
    pub(crate) compiler: Compiler,
    pub(crate) libraries: RefCell<BTreeMap<String, String>>,
    pub(crate) host: RefCell<Box<dyn Host>>,
    pub(crate) logs: RefCell<Logs>,
    pub(crate) calls: RefCell<BTreeMap<u64, Pending>>,
    /// The timers, by due time and number.
    pub(crate) timers: RefCell<BTreeMap<(u64, u64), Persistent<Function<'static>>>>,
    /// The last number of a call or a timer.
    pub(crate) last: Cell<u64>,
    /// The function of `encode.js` for results.
    pub(crate) encode: RefCell<Option<Persistent<Function<'static>>>>,
    /// The first value that the script resolved with.
    pub(crate) resolved: RefCell<Option<Encoded>>,
    pub(crate) rejections: Rejections,
    pub(crate) limits: Cell<Limits>,
    pub(crate) is_over: Cell<bool>,
    pub(crate) random: Cell<u64>,
    /// When the script began, by the clock of the host.
    pub(crate) began: Cell<u64>,
}

impl Shared {
    pub(crate) fn send(&self, message: FromScript) {
        self.host.borrow_mut().send(message);
    }

    pub(crate) fn log(&self, line: String) {
        let admitted = self.logs.borrow_mut().admit(line);
        if let Some(line) = admitted {
            self.send(FromScript::Log(line));
        }
    }

    /// Returns a number for `Math.random`: at least 0 and less than 1. The engine's own generator is seeded when the engine is created, so
    /// all copies of an instance would return the same numbers.
    #[allow(clippy::cast_precision_loss, reason = "the number has 53 bits, as many as the result")]
    pub(crate) fn random(&self) -> f64 {
        // SplitMix64.
        let state = self.random.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.random.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns the milliseconds since the script began.
    #[allow(clippy::cast_precision_loss, reason = "a script takes seconds")]
    pub(crate) fn elapsed_ms(&self) -> f64 {
        self.host.borrow_mut().now().saturating_sub(self.began.get()) as f64
    }

    pub(crate) fn next(&self) -> u64 {
        self.last.set(self.last.get() + 1);
        self.last.get()
    }

    /// Records a call. Returns its number, or `None` if there are too many.
    pub(crate) fn expect(&self, pending: Pending) -> Option<u64> {
        let mut calls = self.calls.borrow_mut();
        if calls.len() >= CALLS {
            return None;
        }
        let id = self.next();
        calls.insert(id, pending);
        Some(id)
    }

    /// Sets a timer. Returns its number, or `None` if there are too many.
    pub(crate) fn set_timer(&self, delay: u64, callback: Persistent<Function<'static>>) -> Option<u64> {
        let due = self.host.borrow_mut().now().saturating_add(delay);
        let mut timers = self.timers.borrow_mut();
        if timers.len() >= TIMERS {
            return None;
        }
        let id = self.next();
        timers.insert((due, id), callback);
        Some(id)
    }

    pub(crate) fn clear_timer(&self, id: u64) {
        self.timers.borrow_mut().retain(|(_, timer), _| *timer != id);
    }

    /// Takes the value of `resolve`. Only the first one counts.
    pub(crate) fn resolve<'js>(&self, ctx: &Ctx<'js>, value: Option<Value<'js>>) -> rquickjs::Result<()> {
        if self.resolved.borrow().is_some() {
            return Ok(());
        }
        // Encoding it may run code of the script, which may resolve, too.
        let encoded = match self.encoded(ctx, value) {
            Ok(encoded) => encoded,
            // The time is over, and the script cannot catch that.
            Err(error) if self.is_over.get() => return Err(error),
            Err(error) => {
                let error = CaughtError::from_error(ctx, error);
                Encoded::Done(Err(failure::of(ctx, error, &self.limits.get())))
            }
        };
        self.resolved.borrow_mut().get_or_insert(encoded);
        Ok(())
    }

    /// Encodes a result.
    pub(crate) fn encoded<'js>(
        &self,
        ctx: &Ctx<'js>,
        value: Option<Value<'js>>,
    ) -> rquickjs::Result<Encoded> {
        let encode = self.encode.borrow().clone().ok_or(Error::Unknown)?.restore(ctx)?;
        let text = encode.call::<_, Value<'_>>((value,))?;
        if let Some(promise) = text.as_promise() {
            return Ok(Encoded::Later(Persistent::save(ctx, promise.clone())));
        }
        self.written(&text).map(Encoded::Done)
    }

    /// Returns a result that has been encoded.
    pub(crate) fn written(&self, text: &Value<'_>) -> rquickjs::Result<Result<Json, Failure>> {
        let limited = || Failure::limited(&self.limits.get(), Limit::Result);
        Ok(json::written(text)?.ok_or_else(limited))
    }

    /// Returns whether the time of the script is over. It stays over.
    pub(crate) fn is_over(&self) -> bool {
        if !self.is_over.get() && self.host.borrow_mut().is_over() {
            self.is_over.set(true);
        }
        self.is_over.get()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.calls.borrow().is_empty() && self.timers.borrow().is_empty()
    }
}

/// A result as JSON.
pub(crate) enum Encoded {
    Done(Result<Json, Failure>),
    /// It contains promises. This one resolves to the JSON.
    Later(Persistent<Promise<'static>>),
}
