//! `koze cp` on a server: copies files and directories, completely or not at all.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::process::ExitCode;

use koze_client::{Download, FileReader, Session};
use koze_core::files::Existing;
use koze_core::http::FileKind;
use koze_core::path::absolute;
use koze_core::{Code, Error, Result};
use tempfile::{NamedTempFile, TempDir};

use super::report_error;
use crate::args;
#[cfg(unix)]
use crate::commands::partial::{Durability, Partial, STEP};
use crate::commands::pieces::Pieces;
use crate::commands::sides::{self, STAGING, Side, missing_name_error, parent, target_path, within};
use crate::commands::untar::unpack;

/// The mode of a new file, before the user's mask.
const DEFAULT_MODE: u32 = 0o666;
/// How much of an archive waits to be sent, in pieces.
const AHEAD: usize = 16;
/// How much of an archive is sent at once, in bytes.
const PIECE: usize = 64 << 10;

/// Runs `koze cp`.
pub(super) fn run(session: &Session, args: &args::Cp) -> std::result::Result<ExitCode, ExitCode> {
    let (from, to) = sides::parse(args)?;
    let origin = format!("{}\0{}", args.remote.url.as_deref().unwrap_or_default(), args.session.session);
    copy(session, &origin, &from, &to).map_err(|error| report_error(&error))?;
    Ok(ExitCode::SUCCESS)
}

/// Copies from one side to the other. `origin` identifies the session.
fn copy(session: &Session, origin: &str, from: &Side, to: &Side) -> Result<()> {
    let last = from.last_name().and_then(OsStr::to_str);
    match (from, to) {
        (Side::Sandbox { name, path }, Side::Sandbox { name: to_name, path: to_path }) => {
            let path = absolute(path)?;
            copy_to_or_into(session, (to_name, to_path), last, |to_path| {
                match session.read_file(name, &path) {
                    Ok(file) => session.write_file(to_name, to_path, file),
                    Err(error) if error.code == Code::IsDirectory => {
                        let archive = session.read_directory(name, &path)?;
                        session.write_directory(to_name, to_path, Existing::Refuse, archive)
                    }
                    Err(error) => Err(error),
                }
            })
        }
        (Side::Sandbox { name, path }, to) => {
            let path = absolute(path)?;
            match (session.download_file(name, &path), to) {
                (Ok(file), Side::Host(to)) => {
                    let entry = session.describe_file(name, &path)?;
                    // A link has none of its own.
                    let mode = if entry.kind == FileKind::File { entry.mode } else { DEFAULT_MODE };
                    let origin = format!("{origin}\0{name}\0{path}");
                    write_host_file(file, &origin, mode, &target_path(to, from)?)
                }
                (Ok(file), _) => write_stdout(file),
                (Err(error), Side::Host(to)) if error.code == Code::IsDirectory => {
                    write_host_directory(session.read_directory(name, &path)?, &target_path(to, from)?)
                }
                (Err(error), _) if error.code == Code::IsDirectory => {
                    let message =
                        format!("`{path}` is a directory: only a file can be written to standard output");
                    Err(Error::new(Code::IsDirectory, message))
                }
                (Err(error), _) => Err(error),
            }
        }
        (Side::Standard, Side::Sandbox { name, path }) => {
            session.write_file(name, &absolute(path)?, io::stdin())
        }
        (Side::Host(from), Side::Sandbox { name, path }) => {
            let is_directory = fs::metadata(from).map_err(|error| host_error(from, &error))?.is_dir();
            copy_to_or_into(session, (name, path), last, |path| {
                if is_directory {
                    return session.write_directory(name, path, Existing::Refuse, pack(from));
                }
                let file = File::open(from).map_err(|error| host_error(from, &error))?;
                session.write_file(name, path, file)
            })
        }
        _ => unreachable!("one side is in a sandbox"),
    }
}

/// Copies to a path of a sandbox, or into it if it is an existing directory or ends in `/`.
fn copy_to_or_into(
    session: &Session,
    (sandbox, path): (&str, &str),
    name: Option<&str>,
    copy: impl Fn(&str) -> Result<()>,
) -> Result<()> {
    let target = absolute(path)?;
    // Asked before anything is sent, which the server would refuse.
    let is_directory = || match session.describe_file(sandbox, &target).map(|entry| entry.kind) {
        Ok(FileKind::Directory) => true,
        Ok(FileKind::Link) => session.list_files(sandbox, &target).is_ok(),
        _ => false,
    };
    if !path.ends_with('/') && !is_directory() {
        return copy(&target);
    }
    copy(&absolute(&within(path, name.ok_or_else(|| missing_name_error(path))?))?)
}

fn write_stdout(mut file: Download) -> Result<()> {
    match io::copy(&mut file, &mut io::stdout().lock()) {
        // The reader needs no more.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => {
            done.map_err(|error| copy_error(&error))?;
            file.check_unchanged()
        }
    }
}

/// Writes a file of this machine, completely or not at all. A link stays, and so does the mode of a file that is replaced.
/// An interrupted copy of a large one goes on where it was. `origin` identifies the file.
fn write_host_file(mut file: Download, origin: &str, mode: u32, to: &Path) -> Result<()> {
    let replaced = match fs::metadata(to) {
        Ok(there) if !there.is_file() => {
            let message = format!("`{}` is not a regular file: write to another path", to.display());
            return Err(Error::new(Code::Unsupported, message));
        }
        there => there.ok(),
    };
    let resolved = fs::canonicalize(to);
    let to = resolved.as_deref().unwrap_or(to);
    #[cfg(unix)]
    if let Some(partial) = open_partial(&file, origin, mode, to)? {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = replaced.map(|there| there.permissions().mode());
        return receive_rest(file, partial, mode, to);
    }
    #[cfg(not(unix))]
    let _ = origin;
    let mut new = create_staged(parent(to), mode).map_err(|error| host_error(to, &error))?;
    io::copy(&mut file, &mut new).map_err(|error| copy_error(&error))?;
    file.check_unchanged()?;
    if let Some(there) = replaced {
        let kept = new.as_file().set_permissions(there.permissions());
        kept.map_err(|error| host_error(to, &error))?;
    }
    new.persist(to).map(drop).map_err(|error| host_error(to, &error.error))
}

/// Opens the partial file of a large file whose version is known.
#[cfg(unix)]
fn open_partial(file: &Download, origin: &str, mode: u32, to: &Path) -> Result<Option<Partial>> {
    let (Some(version), Some(size)) = (file.version(), file.size()) else { return Ok(None) };
    if size <= STEP {
        return Ok(None);
    }
    let version = format!("{origin}\0{version}");
    Partial::open(to, &version, mode, Durability::Synced).map_err(|error| host_error(to, &error))
}

/// Receives what a partial file lacks, and puts it at its target.
#[cfg(unix)]
fn receive_rest(mut file: Download, mut partial: Partial, mode: Option<u32>, to: &Path) -> Result<()> {
    file.skip_to(partial.position())?;
    if let Err(error) = io::copy(&mut file, &mut partial) {
        let kept = partial.position();
        let message = format!(
            "the copy was cut off after {kept} bytes, and `{}` was not changed: {error}. Run the command again to go on",
            to.display()
        );
        return Err(Error::new(Code::Unavailable, message));
    }
    if let Err(error) = file.check_unchanged() {
        partial.discard();
        return Err(error);
    }
    partial.finish(to, mode).map_err(|error| host_error(to, &error))
}

/// Creates a directory of this machine, completely or not at all. The archive is not trusted: nothing is created outside it.
fn write_host_directory(archive: FileReader, to: &Path) -> Result<()> {
    if fs::symlink_metadata(to).is_ok() {
        let message = format!("`{}` exists: a directory is copied to a path that does not", to.display());
        return Err(Error::new(Code::AlreadyExists, message));
    }
    let staging = TempDir::new_in(parent(to)).map_err(|error| host_error(to, &error))?;
    let contents = staging.path().join("contents");
    fs::create_dir(&contents).map_err(|error| host_error(to, &error))?;
    let mut archive = tar::Archive::new(archive);
    unpack(&mut archive, &contents).map_err(|error| copy_error(&error))?;
    // What follows the end of the archive says whether it arrived completely.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(|error| copy_error(&error))?;
    fs::rename(&contents, to).map_err(|error| host_error(to, &error))
}

/// Creates a file with a mode, as far as the user's mask permits.
fn create_staged(directory: &Path, mode: u32) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        builder.permissions(fs::Permissions::from_mode(mode & 0o777));
    }
    #[cfg(not(unix))]
    let _ = mode;
    builder.prefix(STAGING).tempfile_in(directory)
}

/// Returns a directory of this machine as a tar archive, which is packed while it is read.
fn pack(directory: &Path) -> impl Read + 'static {
    let (sender, receiver) = std::sync::mpsc::sync_channel(AHEAD);
    let directory = directory.to_owned();
    std::thread::spawn(move || {
        let writer = io::BufWriter::with_capacity(PIECE, PieceWriter(sender.clone()));
        let mut builder = tar::Builder::new(writer);
        builder.follow_symlinks(false);
        let packed = builder
            .append_dir_all(".", &directory)
            .and_then(|()| builder.into_inner())
            .and_then(|writer| writer.into_inner().map(drop).map_err(io::IntoInnerError::into_error));
        if let Err(error) = packed {
            let _ = sender.send(Err(error));
        }
    });
    // An error cuts the body of the request off, and nothing is created then.
    Pieces::new(receiver)
}

/// Sends what is written, in pieces.
struct PieceWriter(std::sync::mpsc::SyncSender<io::Result<Vec<u8>>>);

impl io::Write for PieceWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(Ok(bytes.to_vec())).map_err(|_| io::Error::from(ErrorKind::BrokenPipe))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn host_error(path: &Path, error: &io::Error) -> Error {
    let code = match error.kind() {
        ErrorKind::NotFound => Code::NotFound,
        ErrorKind::PermissionDenied => Code::PermissionDenied,
        _ => Code::Internal,
    };
    Error::new(code, format!("`{}`: {error}", path.display()))
}

fn copy_error(error: &io::Error) -> Error {
    Error::new(Code::Unavailable, format!("the copy was cut off, and nothing was written: {error}"))
}
