//! Known escape techniques. Each is attempted twice: in a sandbox as it is, where it must fail; and in a control run
//! without the relevant protection, where it must succeed, because otherwise the attempt would prove nothing. If the
//! kernel itself prevents it, the control runs on the host.

use std::fs;
use std::path::PathBuf;
use std::process::Command as Process;

use super::probes::{CALLS, Needs, PROBE, Target};
use super::stage::{at, command};
use super::{Fault, inputs};
use crate::LocalSandbox;
use crate::weakness::Weakness;
use koze_core::sandbox::{Sandbox, Write};

/// Attempts that koze ends with all programs of the sandbox.
const IS_KILLED: &[&str] = &["memory_in_netlink_queues"];
/// The exit code of a killed program.
const KILLED: i32 = 137;

/// Where an attempt must succeed.
pub(super) enum Control {
    /// In a sandbox without these protections.
    Weak(&'static [Weakness]),
    /// In a sandbox with this entry of the host.
    File(fn(&Target) -> PathBuf),
    /// On the host, as this user.
    Host,
    /// On the host, as root.
    Root,
}

/// Returns the protections that prevent an attempt.
pub(super) fn control(name: &str) -> Option<Control> {
    use Weakness::{
        Capabilities, Counters, Credentials, Descriptors, Dumpable, Egress, Environment, Filter, Ipc, Limits,
        Network, Proc, Processes, SharedUser, Sockets, Writable,
    };
    if let Some(input) = inputs::find(name) {
        return Some(Control::Weak(input.without));
    }
    if let Some(call) = CALLS.iter().find(|call| call.name == name) {
        return Some(match call.needs {
            Needs::Nothing => Control::Weak(&[Filter]),
            Needs::Capabilities => Control::Weak(&[Filter, Capabilities]),
            Needs::Root => Control::Root,
        });
    }
    Some(match name {
        "read_host_file" | "write_host_file" | "socket_in_a_host_directory" | "mounts_of_the_host" => {
            Control::File(|target| target.dir.clone())
        }
        "read_another_sandbox" => {
            Control::File(|target| target.neighbour.parent().unwrap_or(&target.neighbour).to_owned())
        }
        "sysfs" => Control::File(|_| "/sys".into()),
        // The user namespace alone protects the environment of a process of the same user.
        "hard_link_to_the_host"
        | "setuid_programs"
        | "environment_of_host_processes"
        | "terminals_of_the_host" => Control::Host,
        "change_an_inode_of_the_host" => Control::Weak(&[Writable]),
        "memory_in_netlink_queues" => Control::Weak(&[Sockets]),
        "leaked_descriptors" => Control::Weak(&[Descriptors]),
        "host_loopback" | "abstract_sockets" => Control::Weak(&[Network]),
        "another_host_in_a_tunnel" => Control::Weak(&[Egress]),
        "credential_in_an_environment"
        | "credential_in_memory"
        | "credential_on_disk"
        | "credential_at_another_host" => Control::Weak(&[Credentials]),
        "credential_in_an_echo" => Control::Weak(&[Credentials, Egress]),
        "other_families"
        | "other_kinds_of_netlink"
        | "allocate_without_writing"
        | "reserve_without_writing"
        | "x32_calls" => Control::Weak(&[Filter]),
        "core_files_for_a_helper_of_the_host" => Control::Weak(&[Filter, Limits]),
        "new_user_namespace" | "clone_into_namespaces" => Control::Weak(&[Filter, Counters]),
        "inotify_of_the_whole_machine" => Control::Weak(&[Counters]),
        "what_the_kernel_tells" | "triggers_on_pressure" => Control::Weak(&[Proc]),
        "see_host_processes" | "signal_host_processes" => Control::Weak(&[Processes, SharedUser]),
        "environment_of_the_host_program" => Control::Weak(&[Environment]),
        "environment_of_the_guest" | "descriptors_of_the_guest" | "root_of_the_guest" => {
            Control::Weak(&[Dumpable])
        }
        "raise_a_limit" | "timers_of_the_host_user" => Control::Weak(&[Limits]),
        "mount_something" | "remount_to_write" | "join_a_namespace" | "change_the_root" => {
            Control::Weak(&[Filter, Capabilities])
        }
        "set_the_host_name" => Control::Weak(&[Capabilities]),
        "shared_memory" => Control::Weak(&[Filter, Ipc]),
        "device_nodes"
        | "make_a_device_node"
        | "proc_sys"
        | "proc_of_the_kernel"
        | "write_to_usr"
        | "set_the_time"
        | "type_into_a_terminal" => Control::Root,
        _ => return None,
    })
}

/// Puts this program into the sandbox.
pub(super) async fn put_probe(sandbox: &LocalSandbox) -> Result<(), Fault> {
    let program = fs::read("/proc/self/exe")?;
    sandbox.write(at("/home/user/written"), program, Write::Replace).await?;
    // A process that this program is just starting may still have the file open for writing, which prevents its
    // execution. Only the sandbox has the copy open.
    let copy =
        sandbox.exec(command(&["sh", "-c", "cp written probe && chmod 755 probe && rm written"])).await?;
    if copy.exit_code == 0 { Ok(()) } else { Err(String::from_utf8_lossy(&copy.stderr).into()) }
}

/// Runs the attempt in the sandbox. Returns its output.
pub(super) async fn attempt(sandbox: &LocalSandbox, name: &str, target: &Target) -> Result<String, Fault> {
    let arguments = target.arguments();
    let mut argv = vec!["/home/user/probe", PROBE, name];
    argv.extend(arguments.iter().map(String::as_str));
    let output = sandbox.exec(command(&argv)).await?;
    if output.exit_code == KILLED && IS_KILLED.contains(&name) {
        return Ok("refused: koze killed the program".to_owned());
    }
    if output.exit_code != 0 {
        return Err(format!("the attempt ended with {}", output.exit_code).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

/// The same on the host.
pub(super) fn on_host(name: &str, target: &Target) -> Result<String, Fault> {
    let output = Process::new("/proc/self/exe").arg(PROBE).arg(name).args(target.arguments()).output()?;
    if !output.status.success() {
        return Err(format!("the control ended with {}", output.status).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}
