//! The differences between operating systems. Everything else in this crate compiles on all of them, except the modules
//! that run sandboxes on this machine, which Windows does not have, and those for sandboxes of namespaces.
//!
//! | module | job |
//! |---|---|
//! | `system` | files, signals and exit codes, on Unix and on Windows |
//! | `sandboxes` | what the rest of the crate needs to know about sandboxes of namespaces, where there are some and elsewhere |

#[cfg_attr(namespaces, path = "linux.rs")]
#[cfg_attr(not(namespaces), path = "elsewhere.rs")]
mod sandboxes;
#[cfg_attr(unix, path = "unix.rs")]
#[cfg_attr(windows, path = "windows.rs")]
mod system;

pub use sandboxes::init;
pub(crate) use sandboxes::{checks, without_docker};
#[cfg(debug_assertions)]
pub(crate) use system::{DISK_FULL, kill};
pub(crate) use system::{
    Signals, check_private, create_private, directory_lock, executable, is_link_loop, like_new_directory,
    like_new_file, open_input, state_home, to_exit_code,
};
