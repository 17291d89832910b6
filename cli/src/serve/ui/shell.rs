//! The shells in the sandboxes of a server: processes with terminals, which every server starts, a Worker too.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use hyper::body::Bytes;
use koze_client::Session;
use koze_core::http::{ProcessEvent, TerminalSize, WindowSize};
use koze_core::sandbox::process::Signal;
use koze_core::{Code, Error, Result};
use tokio::sync::{mpsc, watch};

use super::super::terminal::{End, Input, Output, Printed, Shell};
use crate::commands::{SHELLS, start_shell};

/// How many events wait for a slow browser.
const AHEAD: usize = 4;

/// A process of a server.
#[derive(Clone)]
struct Process {
    session: Session,
    sandbox: String,
    id: String,
}

/// The open shells. A clone is the same.
#[derive(Clone, Default)]
pub(crate) struct RemoteShells(Arc<Mutex<HashMap<String, Process>>>);

impl RemoteShells {
    /// Opens the login shell of a sandbox. Blocks.
    ///
    /// # Errors
    /// The errors of the server; [`Code::NotFound`] if the sandbox has no shell.
    pub(super) fn open(
        &self,
        session: &Session,
        sandbox: &str,
        size: WindowSize,
    ) -> Result<Shell<RemoteOutput, RemoteInput>> {
        let process = start(session, sandbox, size)?;
        self.lock().insert(process.id.clone(), process.clone());
        let opened = OpenShell { shells: self.clone(), process: process.clone(), has_ended: false };
        let events = process.session.process_events(sandbox, &process.id, 0, true)?;
        let (send, received) = mpsc::channel(AHEAD);
        std::thread::Builder::new()
            .spawn(move || {
                for event in events {
                    if send.blocking_send(event).is_err() {
                        return;
                    }
                }
            })
            .map_err(|error| {
                Error::new(Code::Unavailable, format!("the system is out of resources: {error}"))
            })?;
        let (resize, sizes) = watch::channel(size);
        tokio::spawn(follow_size(process.clone(), sizes));
        Ok(Shell {
            output: RemoteOutput { events: received, opened },
            input: RemoteInput(process),
            resize: Box::new(move |size| {
                // Nobody needs the size of a terminal that is closed.
                let _ = resize.send(size);
            }),
        })
    }

    /// Kills all shells that are open. Blocks.
    pub(crate) fn kill_all(&self) {
        let all: Vec<_> = self.lock().drain().map(|(_, process)| process).collect();
        for process in all {
            process.kill();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Process>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn start(session: &Session, sandbox: &str, WindowSize { cols, rows }: WindowSize) -> Result<Process> {
    match start_shell(session, sandbox, TerminalSize { rows, columns: cols }) {
        Ok(started) => Ok(Process { session: session.clone(), sandbox: sandbox.to_owned(), id: started.id }),
        Err(error) if error.code == Code::NotFound => {
            // It may be the sandbox that does not exist.
            session.describe_sandbox(sandbox)?;
            let message = format!("the sandbox has no login shell: it needs one of {}", SHELLS.join(", "));
            Err(Error::new(Code::NotFound, message))
        }
        Err(error) => Err(error),
    }
}

impl Process {
    /// Kills the process. One that cannot be reached has ended.
    fn kill(&self) {
        let _ = self.session.signal_process(&self.sandbox, &self.id, Signal::Kill);
    }
}

/// A shell that is killed when this is dropped, unless it has ended.
struct OpenShell {
    shells: RemoteShells,
    process: Process,
    has_ended: bool,
}

impl Drop for OpenShell {
    fn drop(&mut self) {
        let known = self.shells.lock().remove(&self.process.id);
        if let (Some(process), false) = (known, self.has_ended) {
            std::thread::spawn(move || process.kill());
        }
    }
}

/// What the programs in a terminal print.
pub(super) struct RemoteOutput {
    events: mpsc::Receiver<Result<ProcessEvent>>,
    opened: OpenShell,
}

impl Output for RemoteOutput {
    async fn next(&mut self) -> Printed {
        let event = match self.events.recv().await {
            Some(Ok(event)) => event,
            Some(Err(error)) => return Printed::Ended(End::Failed(error)),
            None => {
                let error = Error::new(Code::Unavailable, "the output ended before the shell");
                return Printed::Ended(End::Failed(error));
            }
        };
        match event {
            ProcessEvent::Stdout(text) | ProcessEvent::Stderr(text) => match text.into_bytes() {
                Ok(bytes) => Printed::Bytes(bytes.into()),
                Err(error) => Printed::Ended(End::Failed(error)),
            },
            // The connection was lost for too long.
            ProcessEvent::Dropped(dropped) => {
                Printed::Bytes(format!("\r\n[{} bytes of the output were lost]\r\n", dropped.bytes).into())
            }
            ProcessEvent::Exit(exit) => {
                self.opened.has_ended = true;
                Printed::Ended(End::Exited(exit))
            }
            ProcessEvent::Error(details) => {
                Printed::Ended(End::Failed(Error::new(Code::Unavailable, details.message)))
            }
        }
    }
}

/// What is typed in a terminal.
pub(super) struct RemoteInput(Process);

impl Input for RemoteInput {
    async fn write(&mut self, bytes: Bytes) -> bool {
        let Process { session, sandbox, id } = self.0.clone();
        let write = move || -> Result<()> {
            let mut written = 0;
            while written < bytes.len() {
                written += session.write_stdin(&sandbox, &id, &bytes[written..], false)?;
            }
            Ok(())
        };
        tokio::task::spawn_blocking(write).await.is_ok_and(|written| written.is_ok())
    }
}

/// Sets the size of a terminal as it changes.
async fn follow_size(process: Process, mut sizes: watch::Receiver<WindowSize>) {
    while sizes.changed().await.is_ok() {
        let WindowSize { cols, rows } = *sizes.borrow_and_update();
        let Process { session, sandbox, id } = process.clone();
        let resize = move || session.resize_terminal(&sandbox, &id, TerminalSize { rows, columns: cols });
        // A terminal that is no longer open needs no size.
        let _ = tokio::task::spawn_blocking(resize).await;
    }
}
