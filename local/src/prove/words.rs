//! Descriptions of the attempts.

/// Describes an attempt.
pub(super) fn of(name: &str) -> String {
    if let Some((_, words)) = WORDS.iter().find(|(known, _)| *known == name) {
        return (*words).to_owned();
    }
    match name.strip_prefix("call_") {
        Some(call) => format!("make the system call `{call}`"),
        None => name.replace('_', " "),
    }
}

const WORDS: &[(&str, &str)] = &[
    ("read_host_file", "read a file of the host that every user may read"),
    ("write_host_file", "write a file of the host that every user may write"),
    ("read_another_sandbox", "read a file of another sandbox where it lies on the host"),
    ("hard_link_to_the_host", "make a hard link to a file of the host"),
    ("socket_in_a_host_directory", "connect to a UNIX socket in a directory of the host"),
    ("device_nodes", "open a device of the host, such as a disk or /dev/mem"),
    ("make_a_device_node", "make a device node, and open it"),
    ("sysfs", "look into /sys"),
    ("proc_sys", "open a setting of the kernel below /proc/sys for writing"),
    ("proc_of_the_kernel", "open the kernel's own files in /proc, such as kcore or sysrq-trigger"),
    ("mounts_of_the_host", "see what is mounted on the host"),
    ("terminals_of_the_host", "open a terminal that a program of the host uses"),
    ("write_to_usr", "make a file in /usr"),
    ("change_an_inode_of_the_host", "change the mode, owner, times or attributes of a file of the host"),
    ("leaked_descriptors", "use a file that koze has open"),
    ("host_loopback", "connect to a server on the host's loopback interface"),
    ("abstract_sockets", "connect to an abstract UNIX socket of the host"),
    ("other_families", "make a socket of a family that leads past the network namespace, such as AF_VSOCK"),
    ("another_host_in_a_tunnel", "reach a host that is not allowed by plain HTTP in a tunnel to one that is"),
    ("see_host_processes", "see a process of the host"),
    ("signal_host_processes", "send a signal to a process of the host"),
    ("environment_of_host_processes", "read the environment of a process of the host"),
    ("environment_of_the_host_program", "find a variable of koze's own environment"),
    ("environment_of_the_guest", "read the environment of the sandbox's first process"),
    ("descriptors_of_the_guest", "look at the descriptors of the sandbox's first process"),
    ("root_of_the_guest", "reach the root directory of the sandbox's first process"),
    ("setuid_programs", "get other rights by a setuid program of root's"),
    ("raise_a_limit", "raise a limit of resources"),
    ("mount_something", "mount a file system"),
    ("remount_to_write", "mount /usr again, to write"),
    ("new_user_namespace", "make a user namespace by `unshare`"),
    ("clone_into_namespaces", "make a process in new namespaces by `clone`"),
    ("join_a_namespace", "join a namespace by `setns`"),
    ("change_the_root", "change the root directory by `chroot`"),
    ("set_the_host_name", "change the host name"),
    ("set_the_time", "correct the system's clock"),
    ("type_into_a_terminal", "put a letter into a terminal's input by TIOCSTI"),
    ("shared_memory", "find shared memory (System V) of the host"),
    ("call_prlimit_of_another", "change a limit of another process by `prlimit64`"),
    ("call_umount", "make the system call `umount2`"),
    ("allocate_without_writing", "take disk by `fallocate`, past the limit of what is written"),
    ("reserve_without_writing", "take disk by an ioctl (FS_IOC_RESVSP64), past the limit of what is written"),
    ("inotify_of_the_whole_machine", "use up the inotify instances of a user of the host"),
    ("other_kinds_of_netlink", "make a netlink socket that does not only show the sandbox's own network"),
    ("what_the_kernel_tells", "read what /proc tells of keys, the kernel's command line and devices"),
    ("triggers_on_pressure", "have the kernel watch the pressure of the whole machine (/proc/pressure)"),
    ("timers_of_the_host_user", "use up the timers of a user of the host"),
    ("call_setxattrat", "make the system call `setxattrat`, and others that are newer than koze's list"),
    ("core_files_for_a_helper_of_the_host", "have the host's helper for core files (core_pattern) run"),
    ("a_statement_without_end", "run a statement in a script's database that does not end"),
    ("x32_calls", "make a system call by its x32 number"),
];
