//! The event loop of a local guest: it answers the host's requests and reaps children.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use koze_protocol::Change;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::Pid;

use crate::channel::{self, Received, Receiver};
use crate::files::{self, Made, Pending};
use crate::message::{Answer, Code, Fault, Place, Request};
use crate::{archive, net, process, search, stream, sys, terminal};

/// Serves one host until that closes its end of the socket. Meant for the first process of a PID namespace. The process
/// must be single-threaded: `waitpid` reaps every child.
///
/// # Errors
/// If the socket or the signal descriptor fails.
pub fn serve(socket: OwnedFd) -> io::Result<()> {
    sys::ignore_no_signal();
    let signal = sys::child_signal()?;
    let mut guest = Guest { socket, running: HashMap::new(), working: HashMap::new(), new: HashMap::new() };
    let mut messages = Receiver::default();
    channel::send(&guest.socket, 0, &Answer::Ready, &[])?;
    loop {
        let mut ready = [
            PollFd::from_borrowed_fd(guest.socket.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(signal.as_fd(), PollFlags::IN),
        ];
        match poll(&mut ready, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let [asked, ended] = ready.map(|descriptor| !descriptor.revents().is_empty());
        if ended {
            let mut information = [0; 128];
            while rustix::io::read(&signal, &mut information).is_ok_and(|read| read > 0) {}
            guest.reap()?;
        }
        if asked {
            match messages.receive(&guest.socket)? {
                Some(request) => guest.answer(request)?,
                None => return Ok(()),
            }
        }
    }
}

struct Guest {
    socket: OwnedFd,
    /// Running programs, with the number of the call that started each.
    running: HashMap<Pid, u64>,
    /// Forked copies of the guest that work on long operations.
    working: HashMap<Pid, u64>,
    /// New files that wait to be committed or aborted.
    new: HashMap<u64, New>,
}

/// A new file. Dropping it removes the file.
enum New {
    /// A staging file that has not been renamed.
    Pending(Pending),
    /// An empty file that an append created.
    Made(Made),
}

impl Guest {
    fn answer(&mut self, received: Received<Request>) -> io::Result<()> {
        let Received { number, message, descriptors } = received;
        let answer = match message {
            Request::Exec { argv, cwd, env } => {
                let started = process::Streams::output(descriptors)
                    .and_then(|streams| process::start_program(&argv, &cwd, &env, streams));
                match started {
                    Ok(pid) => {
                        self.running.insert(pid, number);
                        return Ok(());
                    }
                    Err(fault) => Err(fault),
                }
            }
            Request::Start { argv, cwd, env, terminal, ends } => {
                let started = process::Streams::all(descriptors, terminal)
                    .and_then(|streams| process::start_program(&argv, &cwd, &env, streams));
                started.map(|pid| {
                    self.running.insert(pid, ends);
                    Answer::Done
                })
            }
            Request::Signal { ends, signal } => self.signal(ends, signal),
            Request::Terminal { rows, columns } => match terminal::open_terminal(rows, columns) {
                Ok([outside, inside]) => {
                    return self.send(number, &Answer::Terminal, &[outside.as_fd(), inside.as_fd()]);
                }
                Err(fault) => Err(fault),
            },
            Request::Kill { exec } => {
                self.kill(exec);
                return Ok(());
            }
            Request::KillAll => {
                sys::kill_all();
                Ok(Answer::Done)
            }
            Request::Read(place) => return self.hand_over(number, files::open(&place)),
            Request::Append(place) => {
                return match files::append(&place) {
                    Ok((file, Some(made))) => {
                        self.new.insert(number, New::Made(made));
                        self.send(number, &Answer::Made, &[file.as_fd()])
                    }
                    opened => self.hand_over(number, opened.map(|(file, _)| file)),
                };
            }
            Request::Create(place) => {
                let created = files::create(&place).map(|(file, pending)| {
                    self.new.insert(number, New::Pending(pending));
                    file
                });
                return self.hand_over(number, created);
            }
            Request::Commit { create } => match self.new.remove(&create) {
                Some(New::Pending(pending)) => pending.commit().map(|()| Answer::Done),
                Some(New::Made(made)) => {
                    made.keep();
                    Ok(Answer::Done)
                }
                None => Err(Fault::new(Code::Internal, "there is no such staging file")),
            },
            Request::Abort { create } => {
                self.new.remove(&create);
                return Ok(());
            }
            Request::List(place, from) => {
                files::list(&place, from).map(|(page, next)| Answer::Listed(page, next))
            }
            Request::Stat(place) => files::stat(&place).map(Answer::Found),
            long @ (Request::Change(Change::Remove(_))
            | Request::Pack { .. }
            | Request::Unpack { .. }
            | Request::Archive(_)
            | Request::HandOver(_)
            | Request::Extract { .. }
            | Request::Search(..)) => return self.long(number, long, descriptors),
            Request::Change(Change::Rename { from, to }) => match files::rename(&from, &to) {
                Ok(true) => Ok(Answer::Done),
                Ok(false) => return self.copy_over(number, &from, &to),
                Err(fault) => Err(fault),
            },
            Request::Change(change) => files::apply_change(&change).map(|()| Answer::Done),
            Request::Listen(at) => return self.hand_over(number, net::listen(at)),
            Request::Connect(to) => return self.hand_over(number, net::connect(to)),
        };
        self.send(number, &answer.unwrap_or_else(Answer::Failed), &[])
    }

    /// Answers a request that takes long, in a copy of the guest. To stop it, the copy is killed.
    fn long(&mut self, number: u64, request: Request, descriptors: Vec<OwnedFd>) -> io::Result<()> {
        let mut descriptors = descriptors.into_iter();
        let mut file = || descriptors.next().map(File::from).ok_or_else(missing_descriptor);
        self.aside(number, || match request {
            Request::Change(change) => files::apply_change(&change).map(|()| Answer::Done),
            Request::Pack { place, except } => {
                stream::pack(&place, &except, BufWriter::new(file()?)).map(|()| Answer::Done)
            }
            Request::Unpack { place, most } => stream::unpack(&place, most, file()?).map(Answer::Unpacked),
            Request::Archive(place) => archive::pack(&place, file()?).map(|()| Answer::Done),
            Request::HandOver(place) => {
                let (to, known) = (file()?, file()?);
                archive::hand_over(&place, known, to.into()).map(|()| Answer::Done)
            }
            Request::Extract { place, most } => archive::unpack(&place, most, file()?).map(Answer::Extracted),
            Request::Search(place, what) => search::search(&place, &what, &|| false).map(Answer::Searched),
            _ => Err(Fault::new(Code::Internal, "this request does not take long")),
        })
    }

    /// Signals a program, identified by the number of its end.
    fn signal(&self, ends: u64, signal: i32) -> Result<Answer, Fault> {
        match self.running.iter().find(|(_, number)| **number == ends) {
            Some((pid, _)) => process::signal_group(*pid, signal).map(|()| Answer::Done),
            None => Ok(Answer::Done),
        }
    }

    /// Kills the program or the work of a call.
    fn kill(&self, call: u64) {
        if let Some((pid, _)) = self.running.iter().find(|(_, number)| **number == call) {
            process::kill_tree(*pid);
        } else if let Some((pid, _)) = self.working.iter().find(|(_, number)| **number == call) {
            let _ = rustix::process::kill_process(*pid, rustix::process::Signal::KILL);
        }
    }

    /// Renames across mounts.
    fn copy_over(&mut self, number: u64, from: &Place, to: &Place) -> io::Result<()> {
        self.aside(number, || files::copy_over(from, to).map(|()| Answer::Done))
    }

    fn send(&self, number: u64, answer: &Answer, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        channel::send(&self.socket, number, answer, descriptors)
    }

    fn hand_over(&self, number: u64, opened: Result<OwnedFd, Fault>) -> io::Result<()> {
        match opened {
            Ok(file) => self.send(number, &Answer::Opened, &[file.as_fd()]),
            Err(fault) => self.send(number, &Answer::Failed(fault), &[]),
        }
    }

    /// Runs a long operation in a forked copy of the guest, so that other calls need not wait. The copy sends the
    /// answer itself.
    fn aside(&mut self, number: u64, work: impl FnOnce() -> Result<Answer, Fault>) -> io::Result<()> {
        let socket = &self.socket;
        let started = sys::fork_aside(|| {
            let answer = work().unwrap_or_else(Answer::Failed);
            if channel::send(socket, number, &answer, &[]).is_err() {
                std::process::abort();
            }
        });
        let Ok(pid) = started else {
            let fault = Fault::new(Code::Unavailable, "the sandbox has too many processes");
            return self.send(number, &Answer::Failed(fault), &[]);
        };
        self.working.insert(pid, number);
        Ok(())
    }

    fn reap(&mut self) -> io::Result<()> {
        while let Some((pid, code)) = process::reap_child() {
            let Some(code) = code else {
                // A program may stay stopped. A stopped copy of the guest would never finish.
                if self.working.contains_key(&pid) {
                    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
                }
                continue;
            };
            if let Some(number) = self.running.remove(&pid) {
                self.send(number, &Answer::Ended(code), &[])?;
            } else if let Some(number) = self.working.remove(&pid)
                && code != 0
            {
                // Programs in the sandbox have the same user, and can kill the copy.
                let fault = Fault::new(Code::Unavailable, "a program in the sandbox ended the work");
                self.send(number, &Answer::Failed(fault), &[])?;
            }
        }
        Ok(())
    }
}

fn missing_descriptor() -> Fault {
    Fault::new(Code::Internal, "a file descriptor is missing")
}
