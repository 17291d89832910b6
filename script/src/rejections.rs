//! Promises of a script that are rejected, and that nothing handles.

use std::cell::{Cell, RefCell};

use rquickjs::{Ctx, Persistent, Value};

use crate::failure;
use crate::limits::Limits;

/// The maximum number of rejections that are kept, with their promises.
const KEPT: usize = 100;

/// The rejections that nothing has handled so far.
#[derive(Default)]
pub(crate) struct Rejections {
    kept: RefCell<Vec<Rejection>>,
    /// How many more there are.
    others: Cell<usize>,
}

struct Rejection {
    promise: Persistent<Value<'static>>,
    reason: Persistent<Value<'static>>,
}

impl Rejections {
    /// Records that a promise was rejected without a handler, or that it has got one.
    pub(crate) fn track<'js>(
        &self,
        ctx: &Ctx<'js>,
        promise: Value<'js>,
        reason: Value<'js>,
        is_handled: bool,
    ) {
        // Runs no code of the script: the engine is in the middle of its own.
        let mut kept = self.kept.borrow_mut();
        if !is_handled {
            if kept.len() < KEPT {
                let [promise, reason] = [promise, reason].map(|value| Persistent::save(ctx, value));
                kept.push(Rejection { promise, reason });
            } else {
                self.others.set(self.others.get() + 1);
            }
            return;
        }
        let before = kept.len();
        kept.retain(|rejection| !is_same(ctx, &rejection.promise, &promise));
        if kept.len() == before {
            self.others.set(self.others.get().saturating_sub(1));
        }
    }

    /// Takes all rejections, as lines of a log. `main` is the promise of the script itself, whose error is its result.
    pub(crate) fn take<'js>(
        &self,
        ctx: &Ctx<'js>,
        main: Option<&Value<'js>>,
        limits: &Limits,
    ) -> Vec<String> {
        let kept = self.kept.take();
        let mut lines = Vec::new();
        for Rejection { promise, reason } in kept {
            let Ok(reason) = reason.restore(ctx) else { continue };
            if main.is_some_and(|main| is_same(ctx, &promise, main)) {
                continue;
            }
            let failure = failure::of_value(ctx, &reason, limits);
            let place = failure.place.map(|place| format!(" ({place})")).unwrap_or_default();
            lines.push(format!("[ERROR] unhandled rejection: {}{place}", failure.message));
        }
        let others = self.others.take();
        if others > 0 {
            lines.push(format!("[ERROR] {others} more unhandled rejections"));
        }
        lines
    }

    /// Forgets all.
    pub(crate) fn clear(&self) {
        self.kept.take();
    }
}

fn is_same<'js>(ctx: &Ctx<'js>, kept: &Persistent<Value<'static>>, value: &Value<'js>) -> bool {
    kept.clone().restore(ctx).is_ok_and(|kept| kept == *value)
}
