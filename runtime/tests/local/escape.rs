//! The ways out of a sandbox that have been found elsewhere, each tried twice: in a sandbox as it is, where nothing may be
//! taken; and in a control run without the protection that stands in the way, where it must be, for else the attempt
//! would show nothing. Where the kernel itself stands in the way, the control is a run on the host.

use std::path::PathBuf;
use std::process::Command as Process;

use koze::Sandbox;
use koze::provider::local::{LocalSandbox, Weakness};
use libtest_mimic::{Failed, Trial};

use crate::probes::{ATTEMPTS, CALLS, Needs, PROBE, Target};
use crate::scene::{Scene, put_probe};
use crate::stage::{Stage, command, is_root, within};

/// All of them. A control that only root can play is left out for others, and says so.
pub(crate) fn trials(kind: &str) -> Vec<Trial> {
    let attempts = ATTEMPTS.iter().map(|(name, _)| *name);
    let names = attempts.chain(CALLS.iter().map(|call| call.name));
    names
        .flat_map(|name| {
            let root = matches!(control(name), Control::Root) && !is_root();
            let shut = Trial::test(format!("escape_{name}"), move || shut(name)).with_kind(kind);
            let open = Trial::test(format!("control_{name}"), move || open(name)).with_kind(kind);
            if root {
                eprintln!("control_{name} is left out: its control is a run as root");
            }
            [shut, open.with_ignored_flag(root)]
        })
        .collect()
}

/// Where an attempt has to succeed.
enum Control {
    /// In a sandbox without these protections.
    Weak(&'static [Weakness]),
    /// In a sandbox that sees this of the host.
    File(fn(&Target) -> PathBuf),
    /// On the host, as this user.
    Host,
    /// On the host, as root.
    Root,
}

/// The protections that stand in the way of an attempt.
fn control(name: &str) -> Control {
    use Weakness::{
        Capabilities, Counters, Descriptors, Dumpable, Environment, Filter, Ipc, Limits, Network, Proc,
        Processes, SharedUser, Writable,
    };
    if let Some(call) = CALLS.iter().find(|call| call.name == name) {
        return match call.needs {
            Needs::Nothing => Control::Weak(&[Filter]),
            Needs::Capabilities => Control::Weak(&[Filter, Capabilities]),
            Needs::Root => Control::Root,
        };
    }
    match name {
        "read_host_file" | "write_host_file" | "socket_in_a_host_directory" | "mounts_of_the_host" => {
            Control::File(|target| target.dir.clone())
        }
        "read_another_sandbox" => {
            Control::File(|target| target.neighbour.parent().expect("a directory").to_owned())
        }
        "sysfs" => Control::File(|_| "/sys".into()),
        // The user namespace alone keeps it out of the environment of a process of the same user.
        "hard_link_to_the_host" | "setuid_programs" | "environment_of_host_processes" => Control::Host,
        "change_an_inode_of_the_host" => Control::Weak(&[Writable]),
        "leaked_descriptors" => Control::Weak(&[Descriptors]),
        "host_loopback" | "abstract_sockets" => Control::Weak(&[Network]),
        "other_families"
        | "other_kinds_of_netlink"
        | "allocate_without_writing"
        | "reserve_without_writing"
        | "x32_calls" => Control::Weak(&[Filter]),
        "core_files_for_a_helper_of_the_host" => Control::Weak(&[Filter, Limits]),
        "new_user_namespace" | "clone_into_namespaces" => Control::Weak(&[Filter, Counters]),
        "inotify_of_the_whole_machine" => Control::Weak(&[Counters]),
        "what_the_kernel_tells" => Control::Weak(&[Proc]),
        "see_host_processes" | "signal_host_processes" => Control::Weak(&[Processes, SharedUser]),
        "environment_of_the_host_program" => Control::Weak(&[Environment]),
        "environment_of_the_guest" | "descriptors_of_the_guest" | "root_of_the_guest" => {
            Control::Weak(&[Dumpable])
        }
        "raise_a_limit" => Control::Weak(&[Limits]),
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
        _ => panic!("no control for {name}"),
    }
}

fn shut(name: &str) -> Result<(), Failed> {
    within(async {
        // The processes on the host are of the user that the sandbox is there: the namespaces alone are in the way.
        let stage = if name.ends_with("_host_processes") {
            Stage::weakened(vec![Weakness::SharedUser])
        } else {
            Stage::new()
        };
        let scene = Scene::new(&stage).await;
        let sandbox = stage.open("a").await;
        let said = attempt(&sandbox, name, &scene.target).await;
        assert!(said.starts_with("refused: "), "{name}: {said}");
        assert!(!said.contains(&scene.target.secret), "{name}: {said}");
        let well = sandbox.exec(command(&["echo", "well"])).await.unwrap();
        assert_eq!(well.stdout, b"well\n", "and the sandbox is as it was");
        scene.untouched();
    })
}

fn open(name: &str) -> Result<(), Failed> {
    within(async {
        let stage = Stage::new();
        let scene = Scene::new(&stage).await;
        let said = match control(name) {
            Control::Weak(weak) => in_weak(weak.to_vec(), name, &scene.target).await,
            Control::File(path) => {
                let weak = vec![Weakness::File(path(&scene.target))];
                in_weak(weak, name, &scene.target).await
            }
            Control::Host | Control::Root => on_host(name, &scene.target),
        };
        assert_eq!(said, "taken", "{name}: an attempt that cannot succeed shows nothing");
    })
}

async fn in_weak(weak: Vec<Weakness>, name: &str, target: &Target) -> String {
    let stage = Stage::weakened(weak);
    attempt(&stage.open("a").await, name, target).await
}

/// Puts this program into the sandbox, and lets it try.
pub(crate) async fn attempt(sandbox: &LocalSandbox, name: &str, target: &Target) -> String {
    put_probe(sandbox).await;
    let arguments = target.arguments();
    let mut argv = vec!["/home/user/probe", PROBE, name];
    argv.extend(arguments.iter().map(String::as_str));
    let output = sandbox.exec(command(&argv)).await.unwrap();
    assert_eq!(output.exit_code, 0, "{name}: {output:?}");
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

fn on_host(name: &str, target: &Target) -> String {
    let this = std::env::current_exe().unwrap();
    let output = Process::new(this).arg(PROBE).arg(name).args(target.arguments()).output().unwrap();
    assert!(output.status.success(), "{name}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}
