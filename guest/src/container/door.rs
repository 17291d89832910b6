//! Where connections come in: one thread holds all that have not said hello, and lets in those that say the token.
//!
//! Anything in the container can connect. So there are few of them, each for a short time and with little memory; those
//! from inside the container make room first.

use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};

use super::Guest;
use super::frame::{Decoder, Frame, Kind, PORT};
use super::request::Hello;

/// How many may be there that have not said hello.
const MOST: usize = 16;
/// How long one may take to say it.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest hello, in bytes.
const LONGEST: usize = 1024;
/// How many connections may wait to be taken by the kernel's count.
const WAITING: i32 = 128;
/// How long nothing is taken where there are no file descriptors for it.
const PAUSE: Duration = Duration::from_millis(50);

/// A connection that has not said hello.
struct Stranger {
    socket: TcpStream,
    decoder: Decoder,
    until: Instant,
    inside: bool,
}

/// What became of a stranger.
enum Seen {
    /// It has not said all.
    Waits,
    /// It is none any more; `u32` is the protocol it speaks.
    Known(u32),
    /// It said something else, or went away.
    Gone,
}

/// Opens the port: an address that was asked for, or the guest's own on every address there is. With `any` it is another
/// port where the guest's own is taken.
pub(super) fn open(at: Option<SocketAddr>, any: bool) -> io::Result<TcpListener> {
    match at {
        Some(address) => listening(address),
        None => match everywhere(PORT) {
            Err(error) if any && error.kind() == io::ErrorKind::AddrInUse => everywhere(0),
            opened => opened,
        },
    }
}

/// A port on every address there is.
fn everywhere(port: u16) -> io::Result<TcpListener> {
    let six: SocketAddr = (std::net::Ipv6Addr::UNSPECIFIED, port).into();
    // Where the network has no version 6, there is only the other.
    match listening(six) {
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
            listening((std::net::Ipv4Addr::UNSPECIFIED, port).into())
        }
        opened => opened,
    }
}

fn listening(at: SocketAddr) -> io::Result<TcpListener> {
    let family = if at.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    if at.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, false)?;
    }
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &at)?;
    listen(&socket, WAITING)?;
    Ok(socket.into())
}

/// Takes connections for as long as there is a guest.
pub(super) fn serve(listener: &TcpListener, guest: &Arc<Guest>) {
    let mut strangers: Vec<Stranger> = Vec::new();
    loop {
        let (new, ready) = wait(listener, &strangers);
        let now = Instant::now();
        let mut ready = ready.into_iter();
        let all = std::mem::take(&mut strangers);
        for mut stranger in all {
            let seen =
                if ready.next().unwrap_or_default() { look(&mut stranger, guest) } else { Seen::Waits };
            match seen {
                Seen::Waits if now < stranger.until => strangers.push(stranger),
                Seen::Waits | Seen::Gone => {}
                Seen::Known(protocol) => guest.connected(stranger.socket, stranger.decoder, protocol),
            }
        }
        if new {
            take(listener, &mut strangers);
        }
    }
}

/// Waits until there is something to do, and says whether somebody knocks, and who of the others has said something.
fn wait(listener: &TcpListener, strangers: &[Stranger]) -> (bool, Vec<bool>) {
    let first = strangers.iter().map(|stranger| stranger.until).min();
    let left = first.map(|until| until.saturating_duration_since(Instant::now()));
    // A little more, so that the time is really up then.
    let timeout = left.and_then(|left| Timespec::try_from(left + Duration::from_millis(1)).ok());
    let all = [listener.as_fd()].into_iter().chain(strangers.iter().map(|stranger| stranger.socket.as_fd()));
    let mut all: Vec<_> = all.map(|one| PollFd::from_borrowed_fd(one, PollFlags::IN)).collect();
    if poll(&mut all, timeout.as_ref()).is_err() {
        return (false, Vec::new());
    }
    let mut ready = all.iter().map(|one| !one.revents().is_empty());
    (ready.next().unwrap_or_default(), ready.collect())
}

/// Takes those who knock.
fn take(listener: &TcpListener, strangers: &mut Vec<Stranger>) {
    // No more at a time than there is room for: those who are there have something to say, too.
    for _ in 0..MOST {
        let (socket, peer) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(error)
                if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM)) =>
            {
                std::thread::sleep(PAUSE);
                return;
            }
            // That one is gone already.
            Err(_) => continue,
        };
        if socket.set_nonblocking(true).is_err() {
            continue;
        }
        if strangers.len() >= MOST {
            // The oldest come first.
            let leaves = strangers.iter().position(|stranger| stranger.inside).unwrap_or(0);
            strangers.remove(leaves);
        }
        let peer = peer.ip().to_canonical();
        let own = socket.local_addr().is_ok_and(|own| own.ip().to_canonical() == peer);
        let (inside, until) = (own || peer.is_loopback(), Instant::now() + PATIENCE);
        strangers.push(Stranger { socket, decoder: Decoder::new(LONGEST), until, inside });
    }
}

fn look(stranger: &mut Stranger, guest: &Guest) -> Seen {
    let read = match stranger.socket.read(stranger.decoder.space()) {
        Ok(0) => return Seen::Gone,
        Ok(read) => read,
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
            return Seen::Waits;
        }
        Err(_) => return Seen::Gone,
    };
    stranger.decoder.filled(read);
    match stranger.decoder.next() {
        Ok(Some(Frame { call: 0, kind: Kind::Hello, payload })) => {
            match serde_json::from_slice::<Hello>(payload) {
                Ok(hello) if guest.token.is(hello.token.as_bytes()) => Seen::Known(hello.protocol),
                _ => Seen::Gone,
            }
        }
        Ok(None) => Seen::Waits,
        Ok(Some(_)) | Err(_) => Seen::Gone,
    }
}

/// Sets up a connection that was let in: nothing waits to be sent, and a peer that is gone without a word is noticed.
pub(super) fn settle(socket: &TcpStream) -> Result<(), Errno> {
    /// For how long nothing has to come before it is asked for, and between two times.
    const QUIET: Duration = Duration::from_secs(15);
    /// How often it is asked for.
    const TIMES: u32 = 4;
    /// For how long what was sent may stay unread, in milliseconds.
    const UNREAD: u32 = 60_000;
    rustix::io::ioctl_fionbio(socket, false)?;
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, QUIET)?;
    sockopt::set_tcp_keepintvl(socket, QUIET)?;
    sockopt::set_tcp_keepcnt(socket, TIMES)?;
    sockopt::set_tcp_user_timeout(socket, UNREAD)
}
