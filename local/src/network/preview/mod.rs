//! The way in: ports of sandboxes, at names below `localhost` and one port of this machine's loopback.

pub(in super::super) mod address;
pub(super) mod forward;

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use tokio::task::JoinHandle;

use self::address::Address;
use super::super::Shared;
use super::super::engine::engine;
use super::accept;
use koze_core::error::{Code, Error, Result};

/// How long a port that another program is about to let go of is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// Where previews are served, once one is asked for.
#[derive(Debug, Default)]
pub(in super::super) struct Previews(Mutex<Option<Listening>>);

#[derive(Debug)]
struct Listening {
    port: u16,
    serving: JoinHandle<()>,
    /// Locked while this program has the port that is remembered in it; none where another has.
    _remembered: Option<File>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Previews {
    /// The URL of a port of a sandbox.
    pub(in super::super) fn url(
        &self,
        shared: &Arc<Shared>,
        port: u16,
        name: &str,
        token: &str,
    ) -> Result<String> {
        Ok(Address { port, name, token }.url(self.serve(shared)?))
    }

    /// Serves them, and gives the port. Waits for a port that is not free yet.
    pub(in super::super) fn serve(&self, shared: &Arc<Shared>) -> Result<u16> {
        let mut listening = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(listening) = &*listening {
            return Ok(listening.port);
        }
        let engine = engine()?;
        let (listener, remembered) = listen(&shared.state).map_err(|error| failed(&error))?;
        let port = listener.local_addr().map_err(|error| failed(&error))?.port();
        listener.set_nonblocking(true).map_err(|error| failed(&error))?;
        let registered = engine.enter();
        let listener = tokio::net::TcpListener::from_std(listener).map_err(|error| failed(&error))?;
        drop(registered);
        let shared: Weak<Shared> = Arc::downgrade(shared);
        let serving = engine.spawn(accept::each(listener, move |stream, proof| {
            forward::serve(stream, proof, shared.clone())
        }));
        *listening = Some(Listening { port, serving, _remembered: remembered });
        Ok(port)
    }
}

/// Listens at the port that is remembered in the state directory, else at a free one, which is then remembered. Of
/// several programs with one state directory the first does so, and the others take what is free.
fn listen(state: &Path) -> io::Result<(TcpListener, Option<File>)> {
    let bind = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    let mut options = OpenOptions::new();
    let mut file =
        options.read(true).write(true).create(true).truncate(false).open(state.join("preview-port"))?;
    if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok((bind(0)?, None));
    }
    let mut text = String::new();
    let remembered = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
    if let Some(listener) = remembered.and_then(|port| patiently(|| bind(port))) {
        return Ok((listener, Some(file)));
    }
    let listener = bind(0)?;
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", listener.local_addr()?.port())?;
    Ok((listener, Some(file)))
}

fn patiently(bind: impl Fn() -> io::Result<TcpListener>) -> Option<TcpListener> {
    let until = Instant::now() + PATIENCE;
    loop {
        match bind() {
            Ok(listener) => return Some(listener),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(_) => return None,
        }
    }
}

fn failed(error: &io::Error) -> Error {
    Error::new(Code::Unavailable, format!("previews cannot be served on this machine: {}", error.kind()))
}
