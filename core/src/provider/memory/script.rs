//! Runs scripts on a thread of this process, for tests. This is no security boundary, and a built-in function of the engine
//! cannot be stopped.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::mpsc as blocking;
use std::task::Poll;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use koze_script::native::{self, Received, Wire};
use koze_script::protocol::{FromScript, ToScript};
use tokio::sync::mpsc;

use crate::error::{Code, Error, Result};
use crate::script::{Calls, Ran};

/// Both ends of the connection to the thread.
struct Ends {
    inbox: RefCell<blocking::Receiver<ToScript>>,
    outbox: mpsc::UnboundedSender<FromScript>,
}

impl Wire for Ends {
    fn send(&self, message: FromScript) {
        let _ = self.outbox.send(message);
    }

    fn receive(&self, time: Option<Duration>) -> Received {
        let inbox = self.inbox.borrow_mut();
        let received = match time {
            Some(time) => inbox.recv_timeout(time),
            None => inbox.recv().map_err(|_| blocking::RecvTimeoutError::Disconnected),
        };
        match received {
            Ok(message) => Received::Message(message),
            Err(blocking::RecvTimeoutError::Timeout) => Received::Nothing,
            Err(blocking::RecvTimeoutError::Disconnected) => Received::End,
        }
    }
}

/// Runs a script until it ends.
pub(super) async fn run_to_end(message: ToScript, calls: &impl Calls) -> Result<Ran> {
    let (to, inbox) = blocking::channel();
    let (outbox, mut from) = mpsc::unbounded_channel();
    let failed = |error: String| Error::new(Code::Unavailable, format!("the script cannot run: {error}"));
    let serve = move || native::serve(Ends { inbox: RefCell::new(inbox), outbox });
    std::thread::Builder::new()
        .name("koze-script".into())
        .stack_size(8 << 20)
        .spawn(serve)
        .map_err(|error| failed(error.to_string()))?;
    let gone = |_| failed("its thread is gone".to_owned());
    to.send(message).map_err(gone)?;
    let mut pending = pin!(FuturesUnordered::new());
    let mut logs = Vec::new();
    loop {
        let next = poll_fn(|cx| {
            if let Poll::Ready(Some(answer)) = pending.poll_next_unpin(cx) {
                return Poll::Ready(Next::Answer(answer));
            }
            from.poll_recv(cx).map(Next::Message)
        });
        match next.await {
            Next::Answer((id, result)) => to.send(ToScript::Answer { id, result }).map_err(gone)?,
            Next::Message(Some(FromScript::Call { id, call })) => {
                pending.push(async move { (id, calls.answer(&call).await) });
            }
            Next::Message(Some(FromScript::Log(line))) => logs.push(line),
            Next::Message(Some(FromScript::Timer(_))) => {}
            Next::Message(Some(FromScript::Done(result))) => return Ok(Ran::new(result, logs)),
            Next::Message(None) => return Err(failed("its thread is gone".to_owned())),
        }
    }
}

enum Next<A> {
    Answer(A),
    Message(Option<FromScript>),
}
