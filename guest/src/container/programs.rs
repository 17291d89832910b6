//! The running programs. A call's thread starts one and waits for it; the first thread reaps it. Both hold the lock of
//! the list meanwhile, so that no program ends before it is listed, and no listed process ID has been reused.

use std::collections::HashMap;
use std::ffi::OsString;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::process::Pid;

use super::environment;
use super::wakeup::Wakeup;
use crate::message::Fault;
use crate::process::{self, Streams};
use crate::sys;

/// A running program.
#[derive(Debug)]
pub(super) struct Running {
    pid: Pid,
    /// Its exit code, after it has exited.
    pub(super) code: OnceLock<i32>,
    /// Notifies when it exits.
    wakeup: Arc<Wakeup>,
}

/// All running programs.
#[derive(Debug, Default)]
pub(super) struct Programs {
    running: Mutex<HashMap<Pid, Arc<Running>>>,
}

impl Programs {
    fn running(&self) -> MutexGuard<'_, HashMap<Pid, Arc<Running>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a program.
    pub(super) fn start(
        &self,
        argv: &[String],
        cwd: &str,
        env: &[(OsString, OsString)],
        streams: Streams,
        wakeup: Arc<Wakeup>,
    ) -> Result<Arc<Running>, Fault> {
        environment::restore_directory(cwd);
        let mut all = self.running();
        let pid = process::start_program(argv, cwd, env, streams)?;
        let running = Arc::new(Running { pid, code: OnceLock::new(), wakeup });
        all.insert(pid, Arc::clone(&running));
        Ok(running)
    }

    /// Kills a program and its descendants.
    pub(super) fn kill(&self, running: &Running) {
        let _all = self.running();
        if running.code.get().is_none() {
            process::kill_tree(running.pid);
        }
    }

    /// Sends a signal to the process group of a program; KILL also goes to all its descendants. Does nothing if it has ended.
    pub(super) fn signal(&self, running: &Running, signal: i32) -> Result<(), Fault> {
        let _all = self.running();
        if running.code.get().is_none() { process::signal_group(running.pid, signal) } else { Ok(()) }
    }

    /// Sends SIGTERM to a program.
    pub(super) fn ask_to_end(&self, running: &Running) {
        let _all = self.running();
        if running.code.get().is_none() {
            let _ = rustix::process::kill_process(running.pid, rustix::process::Signal::TERM);
        }
    }

    /// Kills every process but the guest. As the first process, the guest lets the kernel do so. Otherwise it kills its
    /// descendants, which include orphans because it is their subreaper.
    pub(super) fn kill_all(&self) {
        let _all = self.running();
        if std::process::id() == 1 {
            sys::kill_all();
        } else {
            process::kill_below();
        }
    }

    /// Records the exit codes of programs that have exited, and reaps orphans.
    pub(super) fn reap(&self) {
        let mut all = self.running();
        while let Some((pid, code)) = process::reap_child() {
            // A stopped process may continue.
            let Some(code) = code else { continue };
            if let Some(running) = all.remove(&pid) {
                let _ = running.code.set(code);
                running.wakeup.notify();
            }
        }
    }
}
