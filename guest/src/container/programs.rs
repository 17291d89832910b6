//! The programs that run. They are started by the threads that wait for them, and reaped by the first thread of the
//! guest: both do it with the list locked, so that none ends before it is on the list, and no process id on the list is
//! another process's by now.

use std::collections::HashMap;
use std::ffi::OsString;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::process::Pid;

use super::bell::Bell;
use crate::message::Fault;
use crate::process::{self, Streams};
use crate::sys;

/// A program that was started.
#[derive(Debug)]
pub(super) struct Running {
    pid: Pid,
    /// Its exit code, once it has ended.
    pub(super) code: OnceLock<i32>,
    /// Rings when it ends.
    bell: Arc<Bell>,
}

/// All that run.
#[derive(Debug, Default)]
pub(super) struct Programs {
    running: Mutex<HashMap<Pid, Arc<Running>>>,
}

impl Programs {
    fn running(&self) -> MutexGuard<'_, HashMap<Pid, Arc<Running>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts one.
    pub(super) fn start(
        &self,
        argv: &[String],
        cwd: &str,
        env: &[(OsString, OsString)],
        streams: Streams,
        bell: Arc<Bell>,
    ) -> Result<Arc<Running>, Fault> {
        let mut all = self.running();
        let pid = process::start(argv, cwd, env, streams)?;
        let running = Arc::new(Running { pid, code: OnceLock::new(), bell });
        all.insert(pid, Arc::clone(&running));
        Ok(running)
    }

    /// Kills one, and all that came of it.
    pub(super) fn kill(&self, running: &Running) {
        let _all = self.running();
        if running.code.get().is_none() {
            process::kill_tree(running.pid);
        }
    }

    /// Asks one to end.
    pub(super) fn ask_to_end(&self, running: &Running) {
        let _all = self.running();
        if running.code.get().is_none() {
            let _ = rustix::process::kill_process(running.pid, rustix::process::Signal::TERM);
        }
    }

    /// Kills everything but the guest. As the first process it is told by the kernel what that is; where something else
    /// is the first, all that came of the guest is below it, for it adopts what is left behind.
    pub(super) fn kill_all(&self) {
        let _all = self.running();
        if std::process::id() == 1 {
            sys::kill_all();
        } else {
            process::kill_below();
        }
    }

    /// Takes note of those that have ended, and lets go of what programs have left behind.
    pub(super) fn reap(&self) {
        let mut all = self.running();
        while let Some((pid, code)) = process::reap() {
            // One that was stopped may go on.
            let Some(code) = code else { continue };
            if let Some(running) = all.remove(&pid) {
                let _ = running.code.set(code);
                running.bell.ring();
            }
        }
    }
}
