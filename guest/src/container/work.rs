//! Executes requests. The thread of a call may block on files, programs and its peer; nothing else waits for that
//! thread.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt;

use koze_protocol::lines::{LineReader, Lines, MAX_UNSIZED};
use koze_protocol::operation::framed::Write;
use koze_protocol::operation::{Exec, OneProcess, Pack, Read, ReadLines, SearchFiles};
use koze_protocol::{Change, Misfit};

use super::budget::Held;
use super::call::{Call, End, Reader, Writer};
use super::edit;
use super::environment;
use super::exec::run_program;
use super::frame::PIECE;
use super::guest::Guest;
use super::request::{self, Done, Exited, Listed, Port, Request, Size};
use super::staging::Staging;
use super::streams::Stopped;
use super::tunnel;
use crate::files::{self, Made};
use crate::message::{Code, Fault, Place};
use crate::place::fault;
use crate::{archive, search, stream};

/// Executes the request of a call and returns its answer, unless the call was canceled. `held` accounts for the memory
/// of the request.
pub(super) fn execute_request(
    guest: &Guest,
    call: &Call,
    request: Result<Request, Fault>,
    held: Held,
) -> Result<Result<Done, Fault>, Stopped> {
    let done = request.map_err(End::Fault).and_then(|request| {
        guest.check_usable()?;
        execute_operation(guest, call, request, held)
    });
    match done {
        Ok(done) => Ok(Ok(done)),
        Err(End::Fault(fault)) => Ok(Err(environment::explain_fault(fault))),
        Err(End::Stopped) => Err(Stopped),
    }
}

fn execute_operation(guest: &Guest, call: &Call, request: Request, held: Held) -> Result<Done, End> {
    let nothing = |()| Done::Nothing {};
    Ok(match request {
        Request::Exec(what) => send_program_output(guest, call, what, held)?,
        Request::Read(what) => read_file(call, what)?,
        Request::Write(what) => write_file(guest, call, what)?,
        Request::Edit(what) => edit::edit_file(guest, call, what)?,
        Request::ReadLines(what) => read_lines(call, what)?,
        Request::List(place) => list_directory(call, &place)?,
        Request::Stat(place) => files::stat(&place).map(Done::Stat)?,
        Request::Change(Change::Rename { from, to }) => {
            // An edit of the target must not undo it.
            let renamed = {
                let _one = guest.lock_writer();
                files::rename(&from, &to)?
            };
            if !renamed {
                files::copy_over(&from, &to)?;
            }
            Done::Nothing {}
        }
        Request::Change(change) => files::apply_change(&change).map(nothing)?,
        Request::Pack(what) => pack_tree(call, what)?,
        Request::Unpack(place) => unpack_tree(call, &place)?,
        Request::Archive(place) => archive_directory(call, &place)?,
        Request::Extract(place) => extract_archive(call, &place)?,
        Request::Search(what) => search_files(call, what)?,
        Request::Start(what) => {
            guest.processes.start(&guest.programs, &guest.environment, &guest.drain, what, held)?
        }
        Request::Process(OneProcess { id }) => guest.processes.info(&id)?,
        Request::Processes {} => list_processes(guest, call)?,
        Request::ReadProcess(what) => guest.processes.read(&guest.programs, call, &what)?,
        Request::WriteProcess(what) => guest.processes.write(call, &what)?,
        Request::CloseProcess(OneProcess { id }) => guest.processes.close(call, &id)?,
        Request::SignalProcess(what) => guest.processes.signal(&guest.programs, &what)?,
        Request::ResizeProcess(what) => guest.processes.resize(&what)?,
        Request::WaitProcess(what) => guest.processes.wait(&guest.programs, call, &what)?,
        Request::Listen(Port { port }) => guest.listeners.listen(port).map(nothing)?,
        Request::Accept(Port { port }) => tunnel::accept_connection(guest, call, port)?,
        Request::Connect(Port { port }) => tunnel::connect_to_server(call, port)?,
        // The thread that read the request has already done it.
        Request::KillAll {} => Done::Nothing {},
    })
}

fn send_program_output(guest: &Guest, call: &Call, what: Exec, held: Held) -> Result<Done, End> {
    let ended = run_program(guest, call, what, held)?;
    for (stream, bytes) in [(1, ended.stdout), (2, ended.stderr)] {
        call.send(stream, &bytes)?;
        call.end(stream)?;
    }
    Ok(Done::Exited(Exited { exit_code: ended.exit_code, timed_out: ended.timed_out }))
}

fn read_file(call: &Call, what: Read) -> Result<Done, End> {
    let Read { root, path, offset, limit } = what;
    let place = Place { root, path };
    let file = File::from(files::open(&place)?);
    let failed = |error: &io::Error| End::Fault(fault(error, &place.path));
    let size = file.metadata().map_err(|error| failed(&error))?.len();
    let (mut sent, mut buffer) = (0, Vec::new());
    let next = |to: &mut [u8], at: u64| loop {
        return match file.read_at(to, at) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // Some files of /proc reject offsets this large.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput && at > size => Ok(0),
            read => read.map_err(|error| failed(&error)),
        };
    };
    while sent < limit {
        let most = usize::try_from(limit - sent).unwrap_or(PIECE);
        let at = offset.saturating_add(sent);
        let piece = call.piece(1, most, &mut buffer, &mut |to| next(to, at))?;
        if piece == 0 {
            break;
        }
        sent += piece as u64;
    }
    call.end(1)?;
    // Files of /proc report no size, and a file may have grown.
    let size = if sent == 0 { size } else { size.max(offset.saturating_add(sent)) };
    Ok(Done::Size(Size { size }))
}

fn write_file(guest: &Guest, call: &Call, what: Write) -> Result<Done, End> {
    let Write { root, path, append, offset } = what;
    let place = Place { root, path };
    let size = if append {
        append_to_file(guest, call, &place, offset)?
    } else {
        replace_file(guest, call, &place)?
    };
    Ok(Done::Size(Size { size }))
}

/// Replaces a file atomically. The staging file is removed on failure.
fn replace_file(guest: &Guest, call: &Call, place: &Place) -> Result<u64, End> {
    let (file, pending) = files::create(place)?;
    let mut file = File::from(file);
    let (mut size, mut buffer) = (0, vec![0; PIECE]);
    loop {
        let length = call.take(&mut buffer)?;
        if length == 0 {
            break;
        }
        file.write_all(&buffer[..length]).map_err(|error| fault(&error, &place.path))?;
        size += length as u64;
    }
    let _one = guest.lock_writer();
    pending.commit()?;
    Ok(size)
}

/// Appends to a file, all bytes or none, after all of them have arrived.
fn append_to_file(guest: &Guest, call: &Call, place: &Place, offset: Option<u64>) -> Result<u64, End> {
    let failed = |error: io::Error| fault(&error, &place.path);
    let (mut staging, mut buffer) = (Staging::new(place), vec![0; PIECE]);
    loop {
        let length = call.take(&mut buffer)?;
        if length == 0 {
            break;
        }
        staging.push(&buffer[..length])?;
    }
    // Different paths may name the same file, so there is one writer at a time.
    let _one = guest.lock_writer();
    let (file, made) = files::append(place)?;
    let mut file = File::from(file);
    let before = file.metadata().map_err(failed)?.len();
    if let Some(offset) = offset {
        let size = made.is_none().then_some(before);
        // A file that was created is removed again.
        Misfit::check(offset, size).map_err(|why| Fault::new(why.code(), why.message(&place.path)))?;
    }
    if let Err(error) = staging.append_to(&mut file) {
        // Some of the bytes may have been written.
        let _ = file.set_len(before);
        return Err(failed(error).into());
    }
    let size = file.metadata().map_err(failed)?.len();
    made.into_iter().for_each(Made::keep);
    Ok(size)
}

/// Reads a file from its start, and sends the lines of the range as they are found.
fn read_lines(call: &Call, what: ReadLines) -> Result<Done, End> {
    let range = what.range();
    let ReadLines { root, path, .. } = what;
    let place = Place { root, path };
    let mut reader = LineReader::new(range).map_err(|why| Fault::new(Code::InvalidInput, why.message()))?;
    let file = File::from(files::open(&place)?);
    let failed = |error: &io::Error| End::Fault(fault(error, &place.path));
    let size = file.metadata().map_err(|error| failed(&error))?.len();
    // Files of /proc report a size of 0.
    let end = if size > 0 { size } else { MAX_UNSIZED };
    let (mut at, mut buffer) = (0, vec![0; PIECE]);
    while at < end {
        if call.streams.stopped() {
            return Err(End::Stopped);
        }
        let step = usize::try_from(end - at).unwrap_or(PIECE).min(PIECE);
        let read = match file.read_at(&mut buffer[..step], at) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read.map_err(|error| failed(&error))?,
        };
        at += read as u64;
        let more = read > 0 && reader.feed(&buffer[..read]);
        call.send(1, reader.drain().as_bytes())?;
        if !more {
            break;
        }
    }
    let Lines { text, chars, past_end, binary, size } = reader.finish(size.max(at));
    call.send(1, text.as_bytes())?;
    call.end(1)?;
    Ok(Done::Lines(request::Lines { chars, past_end, binary, size }))
}

/// Sends the entries one by one, because a directory may have any number of them.
fn list_directory(call: &Call, place: &Place) -> Result<Done, End> {
    let mut to = Writer::new(call, 1);
    // Only sending can fail, if the call was canceled; serializing strings and numbers cannot.
    let stopped = |_| End::Stopped;
    let mut between = "[";
    files::visit_entries(place, |entry| {
        to.write_all(between.as_bytes()).map_err(stopped)?;
        between = ",";
        serde_json::to_writer(&mut to, &Listed { name: &entry.name, stat: &entry.stat })
            .map_err(|_| End::Stopped)
    })?;
    to.write_all(if between == "[" { b"[]" } else { b"]" }).and_then(|()| to.flush()).map_err(stopped)?;
    call.end(1)?;
    Ok(Done::Nothing {})
}

/// Lists the processes. The list is small: there are few, and their names are short.
fn list_processes(guest: &Guest, call: &Call) -> Result<Done, End> {
    let list = serde_json::to_vec(&guest.processes.list()).map_err(|_| End::Stopped)?;
    call.send(1, &list)?;
    call.end(1)?;
    Ok(Done::Nothing {})
}

fn pack_tree(call: &Call, what: Pack) -> Result<Done, End> {
    let Pack { root, path, except } = what;
    stream::pack(&Place { root, path }, &except, Writer::new(call, 1))
        .map_err(|fault| stopped_or(call, fault))?;
    call.end(1)?;
    Ok(Done::Nothing {})
}

/// The size is limited by the container's disk only.
fn unpack_tree(call: &Call, place: &Place) -> Result<Done, End> {
    let size = stream::unpack(place, u64::MAX, Reader(call)).map_err(|fault| stopped_or(call, fault))?;
    Ok(Done::Size(Size { size }))
}

fn archive_directory(call: &Call, place: &Place) -> Result<Done, End> {
    archive::pack(place, Writer::new(call, 1)).map_err(|fault| stopped_or(call, fault))?;
    // It is not an error of the archive if the reader is gone.
    if call.streams.stopped() {
        return Err(End::Stopped);
    }
    call.end(1)?;
    Ok(Done::Nothing {})
}

/// The size is limited by the container's disk only.
fn extract_archive(call: &Call, place: &Place) -> Result<Done, End> {
    let contents = archive::unpack(place, u64::MAX, Reader(call)).map_err(|fault| stopped_or(call, fault))?;
    Ok(Done::Extracted(contents))
}

fn search_files(call: &Call, what: SearchFiles) -> Result<Done, End> {
    let SearchFiles { root, path, search, .. } = what;
    let found = search::search(&Place { root, path }, &search, &|| call.streams.stopped())
        .map_err(|fault| stopped_or(call, fault))?;
    let mut to = Writer::new(call, 1);
    // Only sending can fail, if the call was canceled; serializing strings and numbers cannot.
    serde_json::to_writer(&mut to, &found).map_err(|_| End::Stopped)?;
    to.flush().map_err(|_| End::Stopped)?;
    call.end(1)?;
    Ok(Done::Nothing {})
}

/// A stream that ends early is an error, unless the call was canceled.
fn stopped_or(call: &Call, fault: Fault) -> End {
    if call.streams.stopped() { End::Stopped } else { End::Fault(fault) }
}
