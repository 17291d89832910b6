//! A running sandbox: the connection to its guest, and its shutdown.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use koze_guest::channel::{Packet, Received, Receiver};
use koze_guest::message::{Answer, Request};
use rustix::fs::{Gid, Uid};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Signal;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{oneshot, watch};

use super::background::Background;
use super::image::HeldImage;
use super::judgement::Judgements;
use super::process::table::Processes;
use crate::cgroup::{Group, Memory as GroupMemory};
use crate::engine::engine;
use crate::engine::ready::watch_descriptor;
use crate::errors::{convert_fault, gone_error};
use crate::launch::{self, Launched, MemoryFiles, Process, Sockets, Spec};
use koze_core::error::{Code, Error, Result};

type Waiting = HashMap<u64, oneshot::Sender<Received<Answer>>>;

/// A running sandbox. Dropping it kills the sandbox.
#[derive(Debug)]
pub(crate) struct Running {
    wire: Arc<Wire>,
    process: Arc<OwnedFd>,
    /// The process ID of its first process on the host.
    pub(crate) pid: u32,
    /// Whether a control group limits its memory and processes.
    pub(crate) counted: bool,
    /// Whether a control group limits its CPU share.
    pub(crate) limited: bool,
    /// The host user to whom its files belong, if that is not the user of this program.
    owner: Option<u32>,
    /// The pipes of its background processes.
    pub(crate) background: Background,
    /// Its processes.
    pub(crate) processes: Processes,
    /// The image that is its root, if it has one.
    pub(crate) image: Option<HeldImage>,
    /// The files that show its programs the memory in use.
    pub(crate) memory: Option<MemoryFiles>,
    /// The memory that the kernel counts, if a control group limits it.
    pub(crate) group_memory: Option<GroupMemory>,
    /// The socket that reports the memory of its sockets.
    pub(crate) sockets: Option<OwnedFd>,
    /// The sockets of its redirected connections, until they are served. Absent if it has no network, or if the kernel refused the rules.
    network: Mutex<Option<Sockets>>,
    next: AtomicU64,
    ended: watch::Receiver<bool>,
    /// Why its programs were killed.
    pub(crate) judgements: Judgements,
    /// Why it was killed, if for a limit.
    ended_for: OnceLock<String>,
    /// The variables of its programs for credentials and certificates.
    egress_variables: OnceLock<Vec<(String, String)>>,
}

#[derive(Debug)]
struct Wire {
    socket: AsyncFd<Arc<OwnedFd>>,
    /// The pending calls; `None` once the sandbox has ended.
    waiting: Mutex<Option<Waiting>>,
}

impl Running {
    /// Starts a sandbox. The lock is released when it has ended.
    pub(crate) async fn start(
        spec: Spec,
        group: Option<Group>,
        lock: File,
        image: Option<HeldImage>,
    ) -> Result<Self> {
        let background = Background::new(&spec.weak);
        let owner = spec.owner;
        let (launched, group) = launch::launch_sandbox(spec, group).await?;
        let Launched {
            socket,
            process: Process { descriptor: process, number: pid },
            memory,
            sockets,
            network,
        } = launched;
        // Without them, programs reach the proxy by their environment only. `koze doctor` says so.
        let network = Mutex::new(network.ok().flatten());
        let failed = |error: io::Error| {
            Error::new(Code::Internal, format!("a sandbox cannot be reached: {error}")).with_source(error)
        };
        let counted = group.is_some();
        let judgements = Judgements::new(group.as_ref().map(Group::kills));
        let group_memory = group.as_ref().map(Group::memory);
        let limited = group.as_ref().is_some_and(|group| group.processors);
        let process = Arc::new(process);
        let engine = engine()?;
        let registered = engine.enter();
        let flags = rustix::fs::fcntl_getfl(&socket).map_err(|error| failed(error.into()))?;
        rustix::fs::fcntl_setfl(&socket, flags | rustix::fs::OFlags::NONBLOCK)
            .map_err(|error| failed(error.into()))?;
        let socket = watch_descriptor(Arc::new(socket), Interest::READABLE).map_err(failed)?;
        let end = watch_descriptor(Arc::clone(&process), Interest::READABLE).map_err(failed)?;
        drop(registered);
        let wire = Arc::new(Wire { socket, waiting: Mutex::new(Some(HashMap::new())) });
        let (over, ended) = watch::channel(false);
        let (reading, guest) = (Arc::clone(&wire), Arc::clone(&process));
        engine.spawn(async move {
            reading.read().await;
            // A guest that violates the protocol can no longer be trusted.
            let _ = rustix::process::pidfd_send_signal(&guest, Signal::KILL);
        });
        let at_end = Arc::clone(&wire);
        engine.spawn(async move {
            // Readable once the process has exited.
            let _ = end.readable().await;
            launch::reap_process(end.get_ref());
            at_end.close();
            // Waits briefly for the control group to be empty.
            let _ = tokio::task::spawn_blocking(move || drop(group)).await;
            drop(lock);
            let _ = over.send(true);
        });
        Ok(Running {
            memory,
            group_memory,
            sockets,
            limited,
            owner,
            background,
            processes: Processes::default(),
            image,
            wire,
            process,
            pid,
            counted,
            network,
            next: AtomicU64::new(1),
            ended,
            judgements,
            ended_for: OnceLock::new(),
            egress_variables: OnceLock::new(),
        })
    }

    /// Sets the variables of its programs for credentials and certificates, once.
    pub(crate) fn set_egress_variables(&self, variables: Vec<(String, String)>) {
        let _ = self.egress_variables.set(variables);
    }

    /// Returns these variables.
    pub(crate) fn egress_variables(&self) -> &[(String, String)] {
        self.egress_variables.get().map_or(&[], Vec::as_slice)
    }

    /// Takes the sockets of its redirected connections.
    pub(crate) fn take_network(&self) -> Option<Sockets> {
        lock_mutex(&self.network).take()
    }

    /// Returns whether it has ended.
    pub(crate) fn has_ended(&self) -> bool {
        *self.ended.borrow() || self.wire.closed()
    }

    /// Waits until it has ended, even if it is dropped meanwhile.
    pub(crate) fn end_of(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut ended = self.ended.clone();
        async move { drop(ended.wait_for(|ended| *ended).await) }
    }

    /// Creates a pipe to its programs: the end to read from and the one to write to. It belongs to the sandbox's user, because
    /// programs may open it by a name, such as `/dev/stderr`.
    pub(crate) fn pipe(&self) -> io::Result<(OwnedFd, OwnedFd)> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        if let Some(owner) = self.owner {
            rustix::fs::fchown(&read, Some(Uid::from_raw(owner)), Some(Gid::from_raw(owner)))?;
        }
        Ok((read, write))
    }

    /// Returns a new call number.
    pub(crate) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Sends a request that has an answer. Returns a channel for the answer.
    pub(crate) async fn ask(
        &self,
        number: u64,
        request: &Request,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<oneshot::Receiver<Received<Answer>>> {
        let coming = self.expect(number)?;
        self.send_request(number, request, descriptors).await?;
        Ok(coming)
    }

    /// A channel for an answer that follows another one.
    pub(crate) fn expect(&self, number: u64) -> Result<oneshot::Receiver<Received<Answer>>> {
        let (answer, coming) = oneshot::channel();
        match lock_mutex(&self.wire.waiting).as_mut() {
            Some(waiting) => waiting.insert(number, answer),
            None => return Err(self.gone_error()),
        };
        Ok(coming)
    }

    /// Stops waiting for an answer.
    pub(super) fn expect_no_more(&self, number: u64) {
        if let Some(waiting) = lock_mutex(&self.wire.waiting).as_mut() {
            waiting.remove(&number);
        }
    }

    /// Sends a request without an answer.
    pub(crate) async fn send_request(
        &self,
        number: u64,
        request: &Request,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<()> {
        let packet = Packet::new(number, request)
            .map_err(|_| Error::new(Code::TooLarge, "the request to the sandbox is too long"))?;
        loop {
            match packet.send(self.wire.socket.get_ref(), descriptors) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable().await?,
                Err(_) => return Err(self.gone_error()),
            }
        }
    }

    /// Requests that the guest kill all programs, without blocking. Returns a channel for the answer.
    pub(crate) fn kill_programs(&self) -> io::Result<oneshot::Receiver<Received<Answer>>> {
        let number = self.number();
        let (answer, coming) = oneshot::channel();
        match lock_mutex(&self.wire.waiting).as_mut() {
            Some(waiting) => waiting.insert(number, answer),
            None => return Err(io::ErrorKind::NotConnected.into()),
        };
        Packet::new(number, &Request::KillAll)?.send(self.wire.socket.get_ref(), &[])?;
        Ok(coming)
    }

    /// Returns the error for a call that was pending when the sandbox ended.
    pub(crate) fn gone_error(&self) -> Error {
        match self.ended_for.get() {
            Some(why) => Error::new(
                Code::Unavailable,
                format!(
                    "the sandbox was stopped because its programs could not be killed: {why}; the next call starts it again"
                ),
            ),
            None => gone_error(),
        }
    }

    /// Kills it, and reports the reason to pending calls.
    pub(crate) fn end_for(&self, why: &str) {
        let _ = self.ended_for.set(why.to_owned());
        self.kill();
    }

    /// Waits until the socket to the guest is writable.
    async fn writable(&self) -> Result<()> {
        let watched = || {
            // A descriptor can be registered only once.
            let socket = Arc::new(self.wire.socket.get_ref().try_clone()?);
            let _engine = engine().map_err(io::Error::other)?.enter();
            watch_descriptor(socket, Interest::WRITABLE)
        };
        watched().map_err(|_| self.gone_error())?.writable().await.map(drop).map_err(|_| self.gone_error())
    }

    /// Sends a request and waits for the answer.
    pub(crate) async fn call(&self, request: &Request) -> Result<Received<Answer>> {
        self.call_with(request, &[]).await
    }

    /// The same with descriptors.
    pub(crate) async fn call_with(
        &self,
        request: &Request,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<Received<Answer>> {
        let received =
            self.ask(self.number(), request, descriptors).await?.await.map_err(|_| self.gone_error())?;
        match received.message {
            Answer::Failed(fault) => Err(convert_fault(fault)),
            _ => Ok(received),
        }
    }

    /// Kills it with all its processes.
    pub(crate) fn kill(&self) {
        let _ = rustix::process::pidfd_send_signal(&self.process, Signal::KILL);
    }

    /// Kills it, and waits until it has ended.
    pub(crate) async fn end(&self) {
        self.kill();
        self.end_of().await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Wire {
    async fn read(self: Arc<Self>) {
        let mut messages = Receiver::default();
        loop {
            let Ok(mut ready) = self.socket.readable().await else { break };
            match messages.receive::<Answer>(self.socket.get_ref()) {
                Ok(Some(received)) if received.descriptors.len() > descriptor_count(&received.message) => {
                    break;
                }
                Ok(Some(received)) => {
                    let asked = lock_mutex(&self.waiting)
                        .as_mut()
                        .and_then(|waiting| waiting.remove(&received.number));
                    // The guest's ready message has no receiver, nor has the answer of a canceled call.
                    if let Some(asked) = asked {
                        let _ = asked.send(received);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                Ok(None) | Err(_) => break,
            }
        }
        self.close();
    }

    /// Drops all pending calls.
    fn close(&self) {
        lock_mutex(&self.waiting).take();
    }

    fn closed(&self) -> bool {
        lock_mutex(&self.waiting).is_none()
    }
}

/// Returns how many descriptors are passed with an answer.
fn descriptor_count(answer: &Answer) -> usize {
    match answer {
        Answer::Opened | Answer::Made => 1,
        Answer::Terminal => 2,
        _ => 0,
    }
}

fn lock_mutex<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
