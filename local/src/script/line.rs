//! A process for the work of agents, as seen by the host: its messages, and its end.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use koze_script::frame::{self, Incoming};
use rustix::net::{RecvFlags, SendFlags};
use rustix::process::{Signal, WaitId, WaitIdOptions};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::serve::PACKET;
use crate::engine::engine;
use crate::engine::ready::watch_descriptor;
use crate::launch::{self, Launched, Spec};
use koze_core::error::{Code, Error, Result};

/// A process, and the socket to it. The process is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Line {
    reading: AsyncFd<Arc<OwnedFd>>,
    writing: AsyncFd<Arc<OwnedFd>>,
    process: Arc<OwnedFd>,
    number: u32,
    incoming: Incoming,
    /// The packets to send. Kept with the process, because half of a message cannot be taken back.
    outgoing: VecDeque<Vec<u8>>,
}

impl Line {
    /// Starts a process. Call this within the engine's runtime.
    pub(super) async fn start(spec: Spec) -> Result<Self> {
        let (Launched { socket, process, .. }, _) = launch::launch_sandbox(spec, None).await?;
        let number = process.number;
        let process = Arc::new(process.descriptor);
        let made = || {
            let flags = rustix::fs::fcntl_getfl(&socket)?;
            rustix::fs::fcntl_setfl(&socket, flags | rustix::fs::OFlags::NONBLOCK)?;
            let reading = watch_descriptor(Arc::new(socket.try_clone()?), Interest::READABLE)?;
            Ok::<_, io::Error>((reading, watch_descriptor(Arc::new(socket), Interest::WRITABLE)?))
        };
        match made() {
            Ok((reading, writing)) => {
                let outgoing = VecDeque::new();
                Ok(Line { reading, writing, process, number, incoming: Incoming::default(), outgoing })
            }
            Err(error) => {
                end_process(&process);
                let text = format!("the process of a script cannot be reached: {error}");
                Err(Error::new(Code::Internal, text).with_source(error))
            }
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(rustix::process::waitid(WaitId::PidFd(self.process.as_fd()), look), Ok(None))
    }

    /// Returns the memory of the process in bytes, if the system tells it.
    pub(super) fn memory(&self) -> Option<u64> {
        let text = std::fs::read_to_string(format!("/proc/{}/statm", self.number)).ok()?;
        let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
        pages.checked_mul(rustix::param::page_size().try_into().ok()?)
    }

    /// Queues a message. [`Line::turn`] sends it.
    pub(super) fn queue(&mut self, message: &impl Serialize) -> io::Result<()> {
        self.outgoing.extend(frame::encode(message)?.chunks(PACKET).map(<[u8]>::to_vec));
        Ok(())
    }

    /// Returns how many bytes are about to be sent.
    pub(super) fn queued(&self) -> usize {
        self.outgoing.len() * PACKET
    }

    /// Takes the next received message.
    pub(super) fn take<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        self.incoming.take()
    }

    /// Sends or receives one packet. Nothing is lost if the future is dropped.
    ///
    /// # Errors
    /// If the process is gone.
    pub(super) async fn turn(&mut self) -> io::Result<()> {
        tokio::select! {
            ready = self.reading.readable() => {
                let mut packet = [0; PACKET];
                let receive = |socket: &AsyncFd<Arc<OwnedFd>>| {
                    let (length, _) = rustix::net::recv(socket.get_ref(), &mut packet, RecvFlags::empty())?;
                    Ok(length)
                };
                match ready?.try_io(receive) {
                    Ok(Ok(0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Ok(Ok(length)) => self.incoming.push(&packet[..length]),
                    Ok(Err(error)) => return Err(error),
                    Err(_) => {}
                }
            }
            ready = self.writing.writable(), if !self.outgoing.is_empty() => {
                let send = |socket: &AsyncFd<Arc<OwnedFd>>| {
                    let packet = self.outgoing.front().map_or(&[][..], |packet| packet);
                    Ok(rustix::net::send(socket.get_ref(), packet, SendFlags::NOSIGNAL)?)
                };
                match ready?.try_io(send) {
                    Ok(Ok(_)) => drop(self.outgoing.pop_front()),
                    Ok(Err(error)) => return Err(error),
                    Err(_) => {}
                }
            }
        }
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        end_process(&self.process);
    }
}

/// Kills a process, and reaps it.
fn end_process(process: &Arc<OwnedFd>) {
    let _ = rustix::process::pidfd_send_signal(process, Signal::KILL);
    if let Ok(engine) = engine() {
        let process = Arc::clone(process);
        engine.spawn_blocking(move || launch::reap_process(&process));
    }
}
