//! Escape attempts from inside a sandbox. This same program is copied into the sandbox and runs them. Each prints
//! whether it succeeded.

mod calls;
mod credentials;
mod files;
mod inodes;
mod kernel;
mod machine;
mod network;
mod processes;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

pub(crate) use calls::{CALLS, Needs};

/// The argument that makes this program run an attempt; the name and the target follow.
pub(crate) const PROBE: &str = "--koze-probe";

/// The rows and columns of the host's terminal.
pub(crate) const TERMINAL: (u16, u16) = (4321, 1234);

/// The host that sandboxes may reach.
pub(crate) const ALLOWED_HOST: &str = "allowed.example";

/// Another host, which the same server serves.
pub(crate) const DENIED_HOST: &str = "denied.example";

/// The host of a credential, with TLS.
pub(crate) const CREDENTIAL_HOST: &str = "credential.example";

/// The name of that credential.
pub(crate) const CREDENTIAL: &str = "PROOF_KEY";

/// The targets of attempts on the host.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// A directory with a file `secret` to read, a file `open` that everybody may write, and a listening socket `socket`.
    pub(crate) dir: PathBuf,
    /// The content of each secret.
    pub(crate) secret: String,
    /// The host path of a secret of another sandbox.
    pub(crate) neighbour: PathBuf,
    /// A port of the host's loopback interface on which something listens.
    pub(crate) port: u16,
    /// An abstract socket on which something listens.
    pub(crate) abstract_name: String,
    /// A process of the sandbox's host user.
    pub(crate) victim: i32,
    /// A System V shared memory segment.
    pub(crate) memory: i32,
    /// A variable of the host program's environment.
    pub(crate) variable: String,
    /// A terminal of the host.
    pub(crate) terminal: PathBuf,
    /// The certificate of the authority that vouches for the host of the credential: DER in hexadecimal.
    pub(crate) authority: String,
}

impl Target {
    /// Returns the value of the credential. No other attempt has it.
    pub(crate) fn value(&self) -> String {
        format!("{}-for-requests", self.secret)
    }

    pub(crate) fn arguments(&self) -> Vec<String> {
        vec![
            self.dir.display().to_string(),
            self.secret.clone(),
            self.neighbour.display().to_string(),
            self.port.to_string(),
            self.abstract_name.clone(),
            self.victim.to_string(),
            self.memory.to_string(),
            self.variable.clone(),
            self.terminal.display().to_string(),
            self.authority.clone(),
        ]
    }

    fn parse(mut arguments: impl Iterator<Item = String>) -> Option<Self> {
        Some(Target {
            dir: arguments.next()?.into(),
            secret: arguments.next()?,
            neighbour: arguments.next()?.into(),
            port: arguments.next()?.parse().ok()?,
            abstract_name: arguments.next()?,
            victim: arguments.next()?.parse().ok()?,
            memory: arguments.next()?.parse().ok()?,
            variable: arguments.next()?,
            terminal: arguments.next()?.into(),
            authority: arguments.next()?,
        })
    }
}

/// An attempt. `Ok` means that it succeeded.
pub(crate) type Attempt = fn(&Target) -> io::Result<()>;

/// All attempts except the system calls.
pub(crate) const ATTEMPTS: &[(&str, Attempt)] = &[
    ("read_host_file", files::read),
    ("write_host_file", files::write),
    ("read_another_sandbox", files::neighbour),
    ("hard_link_to_the_host", files::hard_link),
    ("socket_in_a_host_directory", files::socket),
    ("device_nodes", files::devices),
    ("make_a_device_node", files::make_node),
    ("sysfs", files::sys),
    ("proc_sys", files::proc_sys),
    ("proc_of_the_kernel", files::kernel),
    ("mounts_of_the_host", files::mounts),
    ("terminals_of_the_host", files::terminal),
    ("write_to_usr", files::usr),
    ("change_an_inode_of_the_host", inodes::change),
    ("leaked_descriptors", files::descriptors),
    ("host_loopback", network::tcp),
    ("abstract_sockets", network::abstract_socket),
    ("other_families", network::families),
    ("another_host_in_a_tunnel", network::host_in_tunnel),
    ("credential_in_an_environment", credentials::environment),
    ("credential_in_memory", credentials::memory),
    ("credential_on_disk", credentials::disk),
    ("credential_at_another_host", credentials::another_host),
    ("credential_in_an_echo", credentials::echo),
    ("see_host_processes", processes::see),
    ("signal_host_processes", processes::signal),
    ("environment_of_host_processes", processes::environment_of_victim),
    ("environment_of_the_host_program", processes::environment),
    ("environment_of_the_guest", processes::guest_environment),
    ("descriptors_of_the_guest", processes::guest_descriptors),
    ("root_of_the_guest", processes::guest_root),
    ("setuid_programs", processes::setuid),
    ("raise_a_limit", processes::raise_limit),
    ("mount_something", kernel::mount),
    ("remount_to_write", kernel::remount),
    ("new_user_namespace", kernel::unshare_user),
    ("clone_into_namespaces", kernel::clone_user),
    ("join_a_namespace", kernel::join),
    ("change_the_root", kernel::chroot),
    ("set_the_host_name", kernel::host_name),
    ("set_the_time", kernel::time),
    ("type_into_a_terminal", kernel::terminal),
    ("shared_memory", kernel::shared_memory),
    ("allocate_without_writing", machine::fallocate),
    ("reserve_without_writing", machine::reserve),
    ("inotify_of_the_whole_machine", machine::inotify),
    ("other_kinds_of_netlink", machine::netlink),
    ("memory_in_netlink_queues", machine::netlink_queues),
    ("what_the_kernel_tells", machine::told),
    ("triggers_on_pressure", machine::pressure),
    ("timers_of_the_host_user", machine::timers),
    ("core_files_for_a_helper_of_the_host", machine::core),
    #[cfg(target_arch = "x86_64")]
    ("x32_calls", kernel::x32),
];

/// Runs the attempt that the arguments name.
pub(crate) fn run() -> ExitCode {
    let mut arguments = std::env::args().skip(2);
    let name = arguments.next().unwrap_or_default();
    let Some(target) = Target::parse(arguments) else { return ExitCode::from(2) };
    let attempt = ATTEMPTS.iter().find(|(known, _)| *known == name).map(|(_, attempt)| attempt(&target));
    let made = attempt.or_else(|| CALLS.iter().find(|call| call.name == name).map(calls::Call::make));
    match made {
        Some(Ok(())) => println!("taken"),
        Some(Err(error)) => println!("refused: {error}"),
        None => return ExitCode::from(2),
    }
    ExitCode::SUCCESS
}

/// Returns the error of an attempt that found nothing.
fn nothing(what: &str) -> io::Error {
    io::Error::other(what)
}
