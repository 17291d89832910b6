//! Previews: ports of sandboxes at subdomains of `localhost`, on one loopback port of this machine.

mod address;
mod forward;

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

pub use self::address::Address;
pub use self::forward::{Came, FindServer, Port, Server, Stream, unavailable_preview, unknown_preview};
use crate::accept::{self, MAX_CONNECTIONS};
use koze_core::error::{Code, Error, Result};

/// How long to wait for a port that another program is about to release.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The preview server, started with the first preview.
#[derive(Debug, Default)]
pub struct Previews(Mutex<Option<Listening>>);

#[derive(Debug)]
struct Listening {
    port: u16,
    serving: JoinHandle<()>,
    /// A lock that is held while this program uses the stored port; `None` if another program does.
    _remembered: Option<File>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Previews {
    /// Returns the port of the server, if it runs.
    pub fn port(&self) -> Option<u16> {
        let listening = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        listening.as_ref().map(|listening| listening.port)
    }

    /// Starts the server of a state directory, and returns its port. Waits for a port that is not free yet.
    ///
    /// # Errors
    /// [`Code::Unavailable`] if no port can be used.
    pub fn serve(&self, state: &Path, runtime: &Handle, servers: Arc<dyn FindServer>) -> Result<u16> {
        let mut listening = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(listening) = &*listening {
            return Ok(listening.port);
        }
        let (listener, remembered) = listen_on_stored_port(state).map_err(preview_error)?;
        let port = listener.local_addr().map_err(preview_error)?.port();
        listener.set_nonblocking(true).map_err(preview_error)?;
        let registered = runtime.enter();
        let listener = tokio::net::TcpListener::from_std(listener).map_err(preview_error)?;
        drop(registered);
        let serving = runtime.spawn(accept::serve_each(listener, MAX_CONNECTIONS, move |stream, proof| {
            forward::serve_browser(stream, proof, Arc::clone(&servers))
        }));
        *listening = Some(Listening { port, serving, _remembered: remembered });
        Ok(port)
    }
}

/// Listens on the port that is stored in the state directory, or on a free one, which is then stored. Among several
/// programs with one state directory, the first uses the stored port, and the others use free ones.
fn listen_on_stored_port(state: &Path) -> io::Result<(TcpListener, Option<File>)> {
    let bind = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    let mut options = OpenOptions::new();
    let mut file =
        options.read(true).write(true).create(true).truncate(false).open(state.join("preview-port"))?;
    if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok((bind(0)?, None));
    }
    let mut text = String::new();
    let remembered = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
    if let Some(listener) = remembered.and_then(|port| bind_with_retries(|| bind(port))) {
        return Ok((listener, Some(file)));
    }
    let listener = bind(0)?;
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", listener.local_addr()?.port())?;
    Ok((listener, Some(file)))
}

fn bind_with_retries(bind: impl Fn() -> io::Result<TcpListener>) -> Option<TcpListener> {
    let until = Instant::now() + TIMEOUT;
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

fn preview_error(error: io::Error) -> Error {
    Error::new(Code::Unavailable, format!("previews cannot be served on this machine: {}", error.kind()))
        .with_source(error)
}
