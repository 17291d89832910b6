//! A timer of JavaScript as a future.
//!
//! The future of `gloo_timers` wakes its task when it is dropped. Each call of a sandbox drops a timer, its timeout, and
//! would be polled once more for nothing.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use gloo_timers::callback::Timeout;

/// Resolves after a time. Dropping it cancels the timer.
pub(super) struct Timer {
    state: Rc<RefCell<State>>,
    _timeout: Timeout,
}

enum State {
    Waiting(Option<Waker>),
    Over,
}

impl Timer {
    pub(super) fn new(time: Duration) -> Self {
        let state = Rc::new(RefCell::new(State::Waiting(None)));
        let shared = Rc::clone(&state);
        // JavaScript counts to this, and would turn more into no time at all.
        let millis = time.as_millis().try_into().unwrap_or(u32::MAX).min(i32::MAX.cast_unsigned());
        let timeout = Timeout::new(millis, move || {
            if let State::Waiting(Some(waker)) = shared.replace(State::Over) {
                waker.wake();
            }
        });
        Timer { state, _timeout: timeout }
    }
}

impl Future for Timer {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state.borrow_mut();
        if matches!(*state, State::Over) {
            return Poll::Ready(());
        }
        *state = State::Waiting(Some(context.waker().clone()));
        Poll::Pending
    }
}
