//! `koze cp`: copies files and trees into sandboxes on this machine and out of them, completely or not at all.

mod host;
mod meter;
#[cfg_attr(namespaces, path = "cp/tree.rs")]
#[cfg_attr(not(namespaces), path = "cp/archive.rs")]
mod tree;

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{BufWriter, Seek as _, SeekFrom};
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use koze_core::files::http::{Conditions, Refused};
use koze_core::path::absolute;
use koze_core::sandbox::Stat;
use koze_core::{Code, Error, Profiles, Result};

use self::host::{NewFile, NewTree};
use self::meter::{Meter, Metered};
use super::local_session::{self, LocalSession};
use super::partial::STEP;
use super::sides::{self, Side, missing_name_error, target_path, within};
use crate::args;
use crate::session::Client;
use crate::session::files::Writing;

/// The exit code of a program that Ctrl-C has ended.
const INTERRUPTED: u8 = 130;
/// How long an interrupted copy may take to remove what it has created.
const GRACE_PERIOD: Duration = Duration::from_secs(1);
/// How much of a tree is collected before it is written to a pipe.
const BUFFER: usize = 64 << 10;

pub(super) fn run(args: &args::Cp) -> std::result::Result<ExitCode, ExitCode> {
    let (from, to) = sides::parse(args)?;
    let session = LocalSession::find(&args.session)?;
    let profiles = local_session::profiles(&args.session)?;
    let origin = session.state.sandboxes(&session.session).display().to_string();
    let copy = Copy { client: session.client(), profiles, origin };
    match local_session::wait(copy.run(&from, &to))? {
        Ok(Ended::Done) => Ok(ExitCode::SUCCESS),
        Ok(Ended::Interrupted) => Ok(ExitCode::from(INTERRUPTED)),
        Err(error) => Err(local_session::failed(&error)),
    }
}

/// How a copy ended.
enum Ended {
    Done,
    /// By Ctrl-C. Nothing of the copy is left, except for what a later one of the same file goes on with.
    Interrupted,
}

struct Copy {
    client: Client,
    profiles: Profiles,
    /// Identifies the session.
    origin: String,
}

impl Copy {
    async fn run(&self, from: &Side, to: &Side) -> Result<Ended> {
        let last = from.last_name().and_then(OsStr::to_str);
        match (from, to) {
            (Side::Sandbox { name, path }, Side::Sandbox { name: to_name, path: to_path }) => {
                let from = (name.as_str(), path.as_str());
                self.copy_to_or_into(to_path, last, async |to_path| {
                    self.copy_between(from, (to_name, to_path)).await
                })
                .await
            }
            (Side::Sandbox { name, path }, to) => match self.file_out(name, path, to).await {
                Err(error) if error.code == Code::IsDirectory => {
                    let Side::Host(to) = to else {
                        let message =
                            format!("`{path}` is a directory: only a file can be written to standard output");
                        return Err(Error::new(Code::IsDirectory, message));
                    };
                    self.tree_out(name, path, &target_path(to, from)?).await
                }
                ended => ended,
            },
            (Side::Standard, Side::Sandbox { name, path }) => self.standard_in(name, path).await,
            (Side::Host(from), Side::Sandbox { name, path }) => {
                if host::is_directory(from)? {
                    return self
                        .copy_to_or_into(path, last, async |path| self.tree_in(from, (name, path)).await)
                        .await;
                }
                self.copy_to_or_into(path, last, async |path| {
                    // Opened for each attempt: clones would share their position.
                    let (file, before) = host::open(from)?;
                    let mode = before.permissions().mode() & host::KEPT;
                    self.file_in(file, Some(before), (name, path), Some(mode)).await
                })
                .await
            }
            _ => unreachable!("one side is in a sandbox"),
        }
    }

    /// Copies to a path of a sandbox, or into it if it is an existing directory or ends in `/`.
    async fn copy_to_or_into(
        &self,
        path: &str,
        name: Option<&str>,
        copy: impl AsyncFn(&str) -> Result<Ended>,
    ) -> Result<Ended> {
        let inside = || Ok::<_, Error>(within(path, name.ok_or_else(|| missing_name_error(path))?));
        if path.ends_with('/') {
            return copy(&inside()?).await;
        }
        match copy(path).await {
            Err(error) if matches!(error.code, Code::IsDirectory | Code::AlreadyExists) => {
                copy(&inside()?).await
            }
            ended => ended,
        }
    }

    async fn copy_between(&self, from: (&str, &str), to: (&str, &str)) -> Result<Ended> {
        let owned = |(name, path): (&str, &str)| (name.to_owned(), path.to_owned());
        self.client.copy(self.profiles.clone(), owned(from), owned(to)).await.map(|()| Ended::Done)
    }

    async fn file_in(
        &self,
        file: File,
        before: Option<Metadata>,
        (name, path): (&str, &str),
        mode: Option<u32>,
    ) -> Result<Ended> {
        let path = absolute(path)?;
        let begun = self.client.write_file(self.profiles.clone(), name, &path, Conditions::default(), mode);
        let writing = begun.await.map_err(into_error)?;
        let target = writing.file.try_clone().map_err(|error| host::failed(&path, &error))?;
        let (meter, room) = (Meter::new(before.as_ref().map(Metadata::len)), writing.room);
        let copied: Option<std::io::Result<Option<bool>>> = run_interruptible(&meter, {
            let meter = meter.clone();
            move || {
                let copied = meter.copy(&file, &target, room)?;
                let is_changed = before.is_some_and(|before| host::is_changed(&file, &before));
                Ok(copied.map(|_| is_changed))
            }
        })
        .await;
        match copied {
            None => Ok(Ended::Interrupted),
            Some(Ok(Some(true))) => Err(host::changed("the file")),
            Some(Ok(Some(false))) => writing.finish().await.map(|_| Ended::Done).map_err(into_error),
            Some(Ok(None)) => Err(Writing::full()),
            Some(Err(error)) if error.kind() == std::io::ErrorKind::StorageFull => {
                Err(Writing::no_space(error.kind()))
            }
            Some(Err(error)) => {
                Err(Error::new(Code::Internal, format!("the file cannot be copied: {error}")))
            }
        }
    }

    async fn standard_in(&self, name: &str, path: &str) -> Result<Ended> {
        let input = std::io::stdin().as_fd().try_clone_to_owned();
        let input = input.map_err(|error| host::failed("standard input", &error))?;
        self.copy_to_or_into(path, None, async |path| {
            let input = input.try_clone().map_err(|error| host::failed("standard input", &error))?;
            self.file_in(File::from(input), None, (name, path), None).await
        })
        .await
    }

    async fn file_out(&self, name: &str, path: &str, to: &Side) -> Result<Ended> {
        let path = absolute(path)?;
        let (file, stat) = self.client.read_file(self.profiles.clone(), name, &path).await?;
        let before = file.metadata().map_err(|error| host::failed(&path, &error))?;
        let (mut new, output) = match to {
            Side::Host(to) => {
                let from = Side::Sandbox { name: name.to_owned(), path: path.clone() };
                let version = self.version(name, &path, &stat);
                let new = NewFile::create(&target_path(to, &from)?, stat.mode, version.as_deref())?;
                let output = new.file().try_clone();
                (Some(new), output)
            }
            _ => (None, std::io::stdout().as_fd().try_clone_to_owned().map(File::from)),
        };
        let output = output.map_err(|error| host::failed(&path, &error))?;
        let meter = Meter::new(Some(stat.size));
        let position = new.as_ref().map_or(0, NewFile::position);
        meter.skip(position);
        (&file).seek(SeekFrom::Start(position)).map_err(|error| host::failed(&path, &error))?;
        let copied: Option<std::io::Result<bool>> = run_interruptible(&meter, {
            let meter = meter.clone();
            move || {
                meter.copy(&file, &output, u64::MAX - 1)?;
                Ok(host::is_changed(&file, &before))
            }
        })
        .await;
        let Some(copied) = copied else { return Ok(Ended::Interrupted) };
        match copied {
            Ok(false) => {}
            Ok(true) => {
                if let Some(new) = new.take() {
                    new.discard();
                }
                return Err(host::changed(&path));
            }
            // The reader has closed its end: it needs no more.
            Err(error) if new.is_none() && error.kind() == std::io::ErrorKind::BrokenPipe => {}
            Err(error) => return Err(host::failed(&path, &error)),
        }
        if let Some(new) = new {
            new.finish()?;
        }
        Ok(Ended::Done)
    }

    /// Returns what identifies the version of a large file until this machine is started again, if that is known.
    fn version(&self, name: &str, path: &str, stat: &Stat) -> Option<String> {
        if stat.size <= STEP {
            return None;
        }
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let tag = koze_core::files::http::tag(stat)?;
        Some([&self.origin, name, path, &tag, boot.trim()].join("\0"))
    }

    async fn tree_in(&self, from: &Path, (name, path): (&str, &str)) -> Result<Ended> {
        let from = std::fs::canonicalize(from).map_err(|error| host::failed(from, &error))?;
        let copying = self.client.copy_tree(self.profiles.clone(), name, path, tree::IN).await?;
        let pipe = copying.pipe.try_clone().map_err(|error| host::failed(&from, &error))?;
        let meter = Meter::new(None);
        let packed = run_interruptible(&meter, {
            let meter = meter.clone();
            move || tree::pack(&from, BufWriter::with_capacity(BUFFER, Metered { stream: pipe, meter }))
        })
        .await;
        let Some(packed) = packed else { return Ok(Ended::Interrupted) };
        match (packed, copying.finish().await) {
            // The sandbox has only noticed that the stream ended early.
            (Err(error), Err(Error { code: Code::Unavailable, .. })) => Err(error),
            // What the sandbox reports is the cause where both failed.
            (packed, finished) => finished.and(packed).map(|()| Ended::Done),
        }
    }

    async fn tree_out(&self, name: &str, path: &str, to: &Path) -> Result<Ended> {
        let new = NewTree::create(to)?;
        let copying = self.client.copy_tree(self.profiles.clone(), name, path, tree::OUT).await?;
        let pipe = copying.pipe.try_clone().map_err(|error| host::failed(to, &error))?;
        let (meter, staging) = (Meter::new(None), new.staging());
        let unpacked = run_interruptible(&meter, {
            let meter = meter.clone();
            move || tree::unpack(&staging, Metered { stream: pipe, meter })
        })
        .await;
        let Some(unpacked) = unpacked else { return Ok(Ended::Interrupted) };
        let packed = copying.finish().await;
        unpacked.map_err(|error| with_target_path(error, &new.staging(), to))?;
        packed?;
        new.finish()?;
        Ok(Ended::Done)
    }
}

/// Runs a copy on a thread of its own. Returns `None` if Ctrl-C ends it; what it has created is removed then.
async fn run_interruptible<T: Send + 'static>(
    meter: &Meter,
    copy: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, mut copied) = tokio::sync::oneshot::channel();
    // Not one of the runtime's, which waits for its threads: this one may wait for standard input.
    std::thread::spawn(move || done.send(copy()));
    let ended = tokio::select! {
        copied = &mut copied => Some(copied.expect("a copy does not panic")),
        _ = tokio::signal::ctrl_c() => {
            meter.stop();
            let _ = tokio::time::timeout(GRACE_PERIOD, copied).await;
            None
        }
    };
    meter.clear();
    ended
}

fn into_error(refused: Refused) -> Error {
    match refused {
        Refused::Error(error) => error,
        Refused::Failed => Error::new(Code::Internal, "the file was not written"),
    }
}

/// Returns an error of the staging path as one of the target.
fn with_target_path(mut error: Error, staging: &Path, to: &Path) -> Error {
    error.message = error.message.replace(&*staging.to_string_lossy(), &to.to_string_lossy());
    error
}
