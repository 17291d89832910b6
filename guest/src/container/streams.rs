//! The streams of one call: the data that has arrived, and the credit for sending. The connection's reader adds data;
//! the thread that works on the call takes it and waits for it.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use super::budget::Held;
use super::frame::{CREDIT, Violation};
use super::wakeup::Wakeup;

/// How many bytes are consumed before credit for them is granted again: a quarter of the initial credit.
const GIVE_BACK: u32 = CREDIT / 4;

/// The call was canceled, or its connection is closed. Work on it stops without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped;

/// The streams of a call.
#[derive(Debug)]
pub struct Streams {
    state: Mutex<State>,
    changed: Condvar,
    wakeup: OnceLock<Arc<Wakeup>>,
}

#[derive(Debug)]
struct State {
    /// Whether the call has a stream 0.
    takes: bool,
    /// The bytes of stream 0 that have not been taken.
    arrived: VecDeque<u8>,
    held: Held,
    /// How many more bytes the peer may send on it.
    room: u32,
    /// The bytes that were taken but for which no credit has been granted yet.
    used: u32,
    ended: bool,
    /// How many bytes may be sent on streams 1 and 2.
    credit: [u32; 2],
    stopped: bool,
}

impl Streams {
    /// Creates the streams of a new call; `takes` says whether it has a stream 0.
    pub fn new(takes: bool) -> Self {
        let state = State {
            takes,
            arrived: VecDeque::new(),
            held: Held::default(),
            room: CREDIT,
            used: 0,
            ended: false,
            credit: [CREDIT; 2],
            stopped: false,
        };
        Streams { state: Mutex::new(state), changed: Condvar::new(), wakeup: OnceLock::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds data that has arrived on a stream.
    ///
    /// # Errors
    /// If the stream does not exist or has ended, or the data exceeds the credit.
    pub fn arrived(&self, stream: u8, bytes: &[u8]) -> Result<(), Violation> {
        let mut state = self.state();
        state.open(stream)?;
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        state.room = state
            .room
            .checked_sub(length)
            .ok_or(Violation("received more data than credit was granted for"))?;
        state.held.more(bytes.len())?;
        state.arrived.extend(bytes);
        self.changed.notify_all();
        Ok(())
    }

    /// Marks a stream as complete.
    ///
    /// # Errors
    /// If it is already complete, or not a stream of this call.
    pub fn ended(&self, stream: u8) -> Result<(), Violation> {
        let mut state = self.state();
        state.open(stream)?;
        state.ended = true;
        self.changed.notify_all();
        Ok(())
    }

    /// Adds credit for sending on a stream.
    ///
    /// # Errors
    /// If the credit overflows, or the guest does not send on this stream.
    pub fn credit(&self, stream: u8, bytes: u32) -> Result<(), Violation> {
        let mut state = self.state();
        let credit = index_of_outgoing(stream).and_then(|index| state.credit.get_mut(index));
        let credit = credit.ok_or(Violation("received credit for a stream that the guest does not send"))?;
        *credit = credit.checked_add(bytes).ok_or(Violation("received more credit than can be counted"))?;
        self.changed.notify_all();
        Ok(())
    }

    /// Stops the call, whether or not it is finished.
    pub fn stop(&self) {
        self.state().stopped = true;
        self.changed.notify_all();
        // A wakeup that is set later checks the state itself.
        if let Some(wakeup) = self.wakeup.get() {
            wakeup.notify();
        }
    }

    /// Returns whether the call was stopped.
    pub fn stopped(&self) -> bool {
        self.state().stopped
    }

    /// Notifies this wakeup when the call is stopped, or at once if it already is.
    pub fn notify_when_stopped(&self, wakeup: &Arc<Wakeup>) {
        let _ = self.wakeup.set(Arc::clone(wakeup));
        if self.stopped() {
            wakeup.notify();
        }
    }

    /// Waits for data on stream 0. Returns the number of bytes, 0 at its end, and the credit to grant for them.
    pub fn take(&self, to: &mut [u8]) -> Result<(usize, Option<u32>), Stopped> {
        let waits = |state: &mut State| !state.stopped && !state.ended && state.arrived.is_empty();
        let mut state = self.changed.wait_while(self.state(), waits).unwrap_or_else(PoisonError::into_inner);
        if state.stopped {
            return Err(Stopped);
        }
        let length = state.arrived.len().min(to.len());
        let (first, second) = state.arrived.as_slices();
        let cut = first.len().min(length);
        to[..cut].copy_from_slice(&first[..cut]);
        to[cut..length].copy_from_slice(&second[..length - cut]);
        state.arrived.drain(..length);
        state.held.less(length);
        // The credit limits how much can arrive at once.
        state.used += u32::try_from(length).unwrap_or_default();
        let give = (state.used >= GIVE_BACK && !state.ended).then(|| std::mem::take(&mut state.used));
        state.room += give.unwrap_or_default();
        Ok((length, give))
    }

    /// Waits for credit on a stream and returns it. [`sent`](Self::sent) deducts from it.
    pub fn may_send(&self, stream: u8) -> Result<usize, Stopped> {
        let index = index_of_outgoing(stream).unwrap_or_default();
        let waits = |state: &mut State| !state.stopped && state.credit[index] == 0;
        let state = self.changed.wait_while(self.state(), waits).unwrap_or_else(PoisonError::into_inner);
        if state.stopped { Err(Stopped) } else { Ok(state.credit[index] as usize) }
    }

    /// Deducts sent bytes from the credit of a stream.
    pub fn sent(&self, stream: u8, bytes: usize) {
        let credit = &mut self.state().credit[index_of_outgoing(stream).unwrap_or_default()];
        *credit = credit.saturating_sub(u32::try_from(bytes).unwrap_or(u32::MAX));
    }
}

impl State {
    fn open(&self, stream: u8) -> Result<(), Violation> {
        if stream != 0 || !self.takes {
            return Err(Violation("received data for a stream that the call does not have"));
        }
        if self.ended { Err(Violation("received data after the end of its stream")) } else { Ok(()) }
    }
}

/// Returns the index of a stream's credit.
fn index_of_outgoing(stream: u8) -> Option<usize> {
    usize::from(stream).checked_sub(1).filter(|index| *index < 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_limited_by_credit() {
        let streams = Streams::new(true);
        let piece = vec![7; CREDIT as usize / 2];
        streams.arrived(0, &piece).unwrap();
        streams.arrived(0, &piece).unwrap();
        assert!(streams.arrived(0, &[1]).is_err());
        let mut to = vec![0; CREDIT as usize / 4 - 1];
        assert_eq!(streams.take(&mut to).unwrap(), (to.len(), None));
        assert_eq!(streams.take(&mut [0]).unwrap(), (1, Some(CREDIT / 4)));
        streams.arrived(0, &piece[..CREDIT as usize / 4]).unwrap();
        assert!(streams.arrived(0, &[1]).is_err());
    }

    #[test]
    fn nothing_follows_the_end_of_a_stream() {
        let streams = Streams::new(true);
        streams.arrived(0, b"ab").unwrap();
        streams.ended(0).unwrap();
        assert!(streams.ended(0).is_err());
        assert!(streams.arrived(0, &[]).is_err());
        assert_eq!(streams.take(&mut [0; 9]).unwrap().0, 2);
        assert_eq!(streams.take(&mut [0; 9]).unwrap().0, 0);
    }

    #[test]
    fn only_its_own_streams() {
        assert!(Streams::new(false).arrived(0, b"a").is_err());
        assert!(Streams::new(false).ended(0).is_err());
        let streams = Streams::new(true);
        assert!(streams.arrived(1, b"a").is_err());
        assert!(streams.ended(2).is_err());
        assert!(streams.credit(0, 1).is_err());
        assert!(streams.credit(3, 1).is_err());
        streams.credit(1, u32::MAX - CREDIT).unwrap();
        assert!(streams.credit(1, 1).is_err());
        assert_eq!(streams.may_send(1).unwrap(), u32::MAX as usize);
        streams.sent(1, u32::MAX as usize - 5);
        assert_eq!(streams.may_send(1).unwrap(), 5);
        assert_eq!(streams.may_send(2).unwrap(), CREDIT as usize);
    }

    #[test]
    fn waiting_threads_are_woken() {
        let streams = Arc::new(Streams::new(true));
        streams.sent(1, CREDIT as usize);
        let waiting = |work: fn(&Streams) -> Result<usize, Stopped>| {
            let streams = Arc::clone(&streams);
            std::thread::spawn(move || work(&streams))
        };
        let sends = waiting(|streams| streams.may_send(1));
        streams.credit(1, 3).unwrap();
        assert_eq!(sends.join().unwrap(), Ok(3));
        let takes = waiting(|streams| streams.take(&mut [0; 4]).map(|(length, _)| length));
        streams.arrived(0, b"xy").unwrap();
        assert_eq!(takes.join().unwrap(), Ok(2));
        let takes = waiting(|streams| streams.take(&mut [0; 4]).map(|(length, _)| length));
        let wakeup = Arc::new(Wakeup::new().unwrap());
        streams.notify_when_stopped(&wakeup);
        streams.stop();
        assert_eq!(takes.join().unwrap(), Err(Stopped));
        assert_eq!(rustix::io::read(&*wakeup, &mut [0; 8]), Ok(8));
        let late = Arc::new(Wakeup::new().unwrap());
        let stopped = Streams::new(false);
        stopped.stop();
        stopped.notify_when_stopped(&late);
        assert_eq!(rustix::io::read(&*late, &mut [0; 8]), Ok(8));
    }
}
