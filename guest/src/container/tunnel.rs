//! Connections between the host and programs, over the container's loopback interface: those that programs make to a port on
//! which the guest listens, and those to servers of programs. The bytes are the streams 0 and 1 of a call.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, SocketFlags, accept_with, send, shutdown, sockopt};

use super::call::{Call, End};
use super::frame::PIECE;
use super::guest::Guest;
use super::request::Done;
use super::streams::Stopped;
use super::wakeup::Wakeup;
use crate::message::{Code, Fault};
use crate::net;

/// The stream without bytes, whose end says that the connection exists.
const CONNECTED: u8 = 2;
/// The stack size of a thread that copies bytes.
const STACK: usize = 128 << 10;

/// The sockets that listen, by port.
#[derive(Debug, Default)]
pub(super) struct Listeners(Mutex<HashMap<u16, Arc<OwnedFd>>>);

impl Listeners {
    /// Listens on a port of 127.0.0.1, from now on.
    pub(super) fn listen(&self, port: u16) -> Result<(), Fault> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Vacant(entry) = all.entry(port) {
            entry.insert(Arc::new(net::listen(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port))?));
        }
        Ok(())
    }

    fn find(&self, port: u16) -> Result<Arc<OwnedFd>, Fault> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let missing =
            || Fault::new(Code::InvalidInput, format!("the guest does not listen on port {port} yet"));
        all.get(&port).cloned().ok_or_else(missing)
    }
}

/// Waits for a program that connects to a port, and copies until both directions have ended.
pub(super) fn accept_connection(guest: &Guest, call: &Call, port: u16) -> Result<Done, End> {
    let listener = guest.listeners.find(port)?;
    let wakeup = watch_call(call)?;
    loop {
        match accept_with(&listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(socket) => return copy_both(call, &socket, &wakeup),
            Err(Errno::AGAIN) => wait(call, listener.as_fd(), PollFlags::IN, &wakeup)?,
            Err(Errno::INTR | Errno::CONNABORTED) => {}
            Err(error) => {
                let text = format!("no connection can be accepted on port {port}: {error}");
                return Err(Fault::new(Code::Unavailable, text).into());
            }
        }
    }
}

/// Connects to the server on a port, and copies until both directions have ended.
pub(super) fn connect_to_server(call: &Call, port: u16) -> Result<Done, End> {
    let wakeup = watch_call(call)?;
    for address in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
        // An interface without IPv6 is like a port without a server.
        let Ok(socket) = net::connect(SocketAddr::new(address, port)) else { continue };
        wait(call, socket.as_fd(), PollFlags::OUT, &wakeup)?;
        if matches!(sockopt::socket_error(&socket), Ok(Ok(()))) {
            return copy_both(call, &socket, &wakeup);
        }
    }
    let text = format!(
        "nothing listens on port {port} of the sandbox: start a server on 127.0.0.1 or on all addresses"
    );
    Err(Fault::new(Code::NotFound, text).into())
}

/// Returns a wakeup that is readable once the call is stopped.
fn watch_call(call: &Call) -> Result<Arc<Wakeup>, Fault> {
    let failed = |error| Fault::new(Code::Unavailable, format!("no connection can be watched: {error}"));
    let wakeup = Arc::new(Wakeup::new().map_err(failed)?);
    call.streams.notify_when_stopped(&wakeup);
    Ok(wakeup)
}

/// Waits until a socket is ready.
fn wait(call: &Call, socket: BorrowedFd<'_>, flags: PollFlags, wakeup: &Wakeup) -> Result<(), Stopped> {
    let mut ready =
        [PollFd::from_borrowed_fd(socket, flags), PollFd::from_borrowed_fd(wakeup.as_fd(), PollFlags::IN)];
    // The caller tries again after an error, such as an interrupted call.
    let _ = poll(&mut ready, None);
    if call.streams.stopped() { Err(Stopped) } else { Ok(()) }
}

/// Copies between a socket and the streams of a call until both directions have ended. The end of one is passed on, and the other
/// continues. A connection that is reset ends both.
fn copy_both(call: &Call, socket: &OwnedFd, wakeup: &Wakeup) -> Result<Done, End> {
    let _ = sockopt::set_tcp_nodelay(socket, true);
    call.end(CONNECTED)?;
    let copied = thread::scope(|scope| {
        let writing = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, || {
            let written = copy_to_socket(call, socket, wakeup);
            if written.is_err() {
                // The other direction ends after what has already arrived.
                let _ = shutdown(socket, Shutdown::Both);
            }
            written
        });
        let writing = writing.map_err(|error| {
            Fault::new(Code::Unavailable, format!("no thread can be created for a connection: {error}"))
        })?;
        let read = copy_from_socket(call, socket, wakeup);
        if matches!(read, Err(End::Fault(_))) {
            // Ends the wait for bytes of the host. The call is still answered.
            call.streams.stop();
        }
        // A thread of this module does not panic.
        let written = writing.join().unwrap_or(Err(End::Stopped));
        read.and(written)
    });
    copied.map(|()| Done::Nothing {})
}

/// Sends the bytes of stream 0.
fn copy_to_socket(call: &Call, socket: &OwnedFd, wakeup: &Wakeup) -> Result<(), End> {
    let mut buffer = vec![0; PIECE];
    loop {
        let length = call.take(&mut buffer)?;
        if length == 0 {
            return shutdown(socket, Shutdown::Write).map_err(closed_fault);
        }
        let mut rest = &buffer[..length];
        while !rest.is_empty() {
            match send(socket, rest, SendFlags::NOSIGNAL) {
                Ok(sent) => rest = &rest[sent..],
                Err(Errno::AGAIN) => wait(call, socket.as_fd(), PollFlags::OUT, wakeup)?,
                Err(Errno::INTR) => {}
                Err(error) => return Err(closed_fault(error)),
            }
        }
    }
}

/// Receives the bytes of stream 1.
fn copy_from_socket(call: &Call, socket: &OwnedFd, wakeup: &Wakeup) -> Result<(), End> {
    let mut buffer = Vec::new();
    let mut receive = |to: &mut [u8]| loop {
        match rustix::io::read(socket, &mut *to) {
            Ok(length) => return Ok(length),
            Err(Errno::AGAIN) => wait(call, socket.as_fd(), PollFlags::IN, wakeup)?,
            Err(Errno::INTR) => {}
            Err(error) => return Err(closed_fault(error)),
        }
    };
    while call.piece(1, PIECE, &mut buffer, &mut receive)? > 0 {}
    Ok(call.end(1)?)
}

fn closed_fault(error: Errno) -> End {
    Fault::new(Code::Unavailable, format!("the connection in the sandbox was closed: {error}")).into()
}
