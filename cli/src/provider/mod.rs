//! The sandboxes of this machine. No other module names the crate that provides those of namespaces, except for the checks of
//! them: `doctor/namespaces.rs` and `commands/prove`.
//!
//! The supervisor of a session is generic over two traits. Commands that need no supervisor call functions, which take the
//! directory of a session. There are two providers: `local` has the sandboxes of namespaces, `engine` those of containers.
//! `koze supervise` chooses between the two, and the functions know the sandboxes of both. Without namespaces, `kept` stands
//! in for `local`: it has what sessions keep, and no sandboxes.

#[cfg(namespaces)]
mod builds;
mod engine;
#[cfg_attr(namespaces, path = "local.rs")]
#[cfg_attr(not(namespaces), path = "kept.rs")]
mod local;

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use futures_util::future::BoxFuture;
use koze_core::sandbox::Stat;
use koze_core::sandbox::process::{Process, ProcessInfo, Program};
use koze_core::workspace::WorkspaceSnapshots;
use koze_core::{Profiles, Provider, Result, Sandbox, Session, SessionId};

#[cfg(namespaces)]
pub(crate) use self::builds::{
    BuildEgress, BuildProgram, BuildSandboxes, TIMEOUT as BUILD_TIMEOUT, is_of_sandbox,
};
pub(crate) use self::engine::{ENGINE_VARIABLES, EngineKind, has_containers, open_engine};
#[cfg(namespaces)]
pub(crate) use self::local::{Objects, init, serve_objects, trees};
pub(crate) use self::local::{
    default_engine, find_programs, has_namespaces, images_directory, list_sandboxes, open, survey_sandboxes,
};
pub(crate) use koze_state::{
    AttachedStreams, CallsQuery, Connections, Measured, Proof, Reached, Secrets, SessionCalls, Surveyed,
    archives, block_on, count_calls, read_calls, read_egress, read_picture,
};

/// The variable for servers of a test, which sandboxes reach by name: `NAME=ADDRESS`, separated by commas. Only a program
/// with debug assertions reads it.
pub(crate) const TEST_NAMES: &str = "KOZE_TESTING_NAMES";
/// The variable for the directory of this user's images.
pub(crate) const IMAGES: &str = "KOZE_IMAGES";

/// Opens the snapshots of a workspace in the directory of a session. This starts no sandbox.
///
/// # Errors
/// If the directory cannot be used, or the workspace has no snapshots.
pub(crate) fn open_snapshots(
    dir: &Path,
    session: &SessionId,
    profiles: &Profiles,
    workspace: &str,
) -> Result<WorkspaceSnapshots> {
    let session = Session::new(local::open_directory(dir)?, session.clone(), profiles.clone());
    Ok(session.workspaces().snapshots(workspace)?)
}

/// A provider whose sandboxes run in, or next to, this process.
pub(crate) trait MachineProvider: Provider<Sandbox: MachineSandbox> + Clone {
    /// Updates the sandboxes of a session to their profiles. A running sandbox that has to change is first put to sleep.
    fn refresh(&self, session: &SessionId, profiles: &Profiles) -> impl Future<Output = Result<()>> + Send;

    /// Measures the sandboxes of a session that run in this process.
    fn measure(&self, session: &SessionId) -> impl Future<Output = Result<Vec<Measured>>> + Send;

    /// Returns the port on the loopback interface at which this process serves previews, if it does.
    fn preview_port(&self) -> Option<u16>;

    /// Puts the sandboxes that run in this process to sleep and writes what is left of the journal, before it exits.
    fn sleep(&self) -> impl Future<Output = Result<()>> + Send;
}

/// A sandbox whose files other processes of this user can read and write as descriptors. All paths are resolved inside the
/// sandbox.
pub(crate) trait MachineSandbox: Sandbox {
    /// A new file, open for writing. The sandbox stays awake until it is dropped.
    type NewFile: AsFd + Send + Sync;

    /// Opens a file for reading, and describes it.
    fn open_file(&self, path: &str) -> impl Future<Output = Result<(File, Stat)>> + Send;

    /// Creates a file at a path that does not exist. Returns it, and how many bytes the sandbox has room for.
    fn create_file(&self, path: &str) -> impl Future<Output = Result<(Self::NewFile, u64)>> + Send;

    /// Puts what was written to a new file into the sandbox, at the path that it was created for.
    fn finish_file(&self, new: &Self::NewFile) -> impl Future<Output = Result<()>> + Send;

    /// Serializes a file or tree.
    fn pack_tree(&self, path: &str) -> impl Future<Output = Result<TreePipe<()>>> + Send;

    /// Creates what [`pack_tree`](Self::pack_tree) serializes at a path that does not exist. Returns the bytes of all files.
    fn unpack_tree(&self, path: &str) -> impl Future<Output = Result<TreePipe<u64>>> + Send;

    /// Archives a directory. [`archives::read`] reads the stream.
    fn pack_archive(&self, path: &str) -> impl Future<Output = Result<TreePipe<()>>> + Send;

    /// Creates the files of an archive that koze has written, in a directory that exists.
    fn unpack_archive(&self, path: &str) -> impl Future<Output = Result<TreePipe<()>>> + Send;

    /// A program whose standard streams belong to the caller.
    type Attached: AttachedProgram;

    /// Starts a program whose standard streams belong to the caller.
    fn attach(
        &self,
        program: Program,
    ) -> impl Future<Output = Result<(Self::Attached, AttachedStreams)>> + Send;

    /// Lists the processes whose output is kept, oldest first.
    fn recorded(&self) -> impl Future<Output = Result<Vec<ProcessInfo>>> + Send;

    /// Puts it to sleep, even if it is in use: its programs end, and its files stay.
    fn sleep(&self) -> impl Future<Output = Result<()>> + Send;
}

/// A program whose standard streams belong to the caller.
pub(crate) trait AttachedProgram: Send + Sync {
    /// Its process.
    type Process: Process;

    /// Returns its process. It has no output to read.
    fn process(&self) -> &Self::Process;

    /// Waits until the output of the program, which has ended, is in its streams.
    fn finish_output(&self) -> impl Future<Output = ()> + Send;

    /// Takes the reason why it was killed, if its exit code does not tell.
    fn take_note(&self) -> Option<String>;

    /// Reads the rest of its output and drops it. A closed pipe would kill programs that it left in the background.
    fn drain(&self, pipe: OwnedFd);
}

/// A file or tree that is read or written as a stream.
pub(crate) struct TreePipe<T> {
    /// The end of the stream for the other process. The stream ends when no process has it open, so close it here once the
    /// other process has it.
    pub(crate) pipe: OwnedFd,
    /// The result in the sandbox.
    pub(crate) done: BoxFuture<'static, Result<T>>,
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use walkdir::WalkDir;

    #[test]
    fn only_the_checks_of_namespaces_name_the_crate_as_well() {
        let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let files = WalkDir::new(&src).sort_by_file_name().into_iter().map(Result::unwrap);
        let is_naming = |file: &Path| std::fs::read_to_string(file).unwrap().contains("koze_local");
        let naming: Vec<_> = files
            .filter(|file| file.file_type().is_file() && is_naming(file.path()))
            .map(|file| file.path().strip_prefix(&src).unwrap().to_owned())
            .filter(|file| !file.starts_with("provider"))
            .collect();
        assert_eq!(
            naming,
            ["commands/prove/cloned.rs", "commands/prove.rs", "doctor/namespaces.rs"].map(Path::new)
        );
    }
}
