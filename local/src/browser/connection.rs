//! The one connection to a browser, which a call has.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::Turn;
use super::pipes::Common;
use crate::engine::engine;
use crate::sandbox::inner::Use;
use koze_core::error::Result;
use koze_core::script::{Refusal, Wire};
use koze_egress::Refusals;

/// Returns why the programs of the browser's sandbox were killed, if they were.
type Judged = Box<dyn Fn() -> Option<String> + Send + Sync>;

/// A connection to a browser. The next one waits until it is dropped.
pub(crate) struct Connection {
    outgoing: mpsc::UnboundedSender<String>,
    incoming: mpsc::Receiver<String>,
    shared: Arc<Common>,
    refusals: Arc<Refusals>,
    judged: Judged,
    hint: Option<&'static str>,
    /// Keeps the browser from being idle.
    _using: Use,
    turn: Option<Turn>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

impl Connection {
    pub(super) fn new(
        outgoing: mpsc::UnboundedSender<String>,
        incoming: mpsc::Receiver<String>,
        shared: Arc<Common>,
        refusals: &Arc<Refusals>,
        using: Use,
        judged: Judged,
    ) -> Self {
        let refusals = Arc::clone(refusals);
        Connection { outgoing, incoming, shared, refusals, judged, hint: None, _using: using, turn: None }
    }

    /// Sets the next step after a certificate of an unknown authority.
    pub(super) fn with_hint(mut self, hint: Option<&'static str>) -> Self {
        self.hint = hint;
        self
    }

    /// Returns the connection, which holds its turn from now on.
    pub(super) fn held(mut self, turn: Turn) -> Self {
        self.turn = Some(turn);
        self
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Before the next one begins.
        self.shared.disconnect();
        self.turn = None;
    }
}

impl Wire for Connection {
    fn send(&mut self, message: String) -> Result<()> {
        self.outgoing.send(message).map_err(|_| self.shared.ended((self.judged)()))
    }

    async fn receive(&mut self, wait: Duration) -> Result<Option<String>> {
        let late = {
            // The runtime of the caller may have no timers.
            let _engine = engine()?.enter();
            tokio::time::sleep(wait)
        };
        tokio::select! {
            biased;
            message = self.incoming.recv() => {
                message.map(Some).ok_or_else(|| self.shared.ended((self.judged)()))
            }
            () = late => Ok(None),
        }
    }

    fn refusals(&self) -> Vec<Refusal> {
        self.refusals.list()
    }

    fn authority_hint(&self) -> Option<&str> {
        self.hint
    }
}
