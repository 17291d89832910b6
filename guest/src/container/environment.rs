//! The environment of programs: the container's own variables, overridden by those of a call; and the directories that
//! tools expect.

use std::ffi::OsString;
use std::path::Path;

use crate::message::{Code, Fault};

/// The `PATH` of programs if the image sets none.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The home of programs on every host, and the working directory of tools. The class passes it as `HOME`.
const HOME: &str = "/home/user";

/// The directory of workspaces, on every host.
const WORKSPACE: &str = "/workspace";

/// The directory that contains those of a thread.
const THREAD: &str = "/mnt/user-data";

/// The directories of a thread, on every host.
const USER_DATA: [&str; 3] = ["/mnt/user-data/workspace", "/mnt/user-data/uploads", "/mnt/user-data/outputs"];

/// Environment variables with unique names.
#[derive(Debug, Clone)]
pub(super) struct Environment(Vec<(OsString, OsString)>);

impl Environment {
    /// Returns the container's own variables without the guest's (`own`). Adds `PATH` and `HOME` if they are missing.
    pub(super) fn of_the_container(own: &[&str]) -> Self {
        let all = std::env::vars_os().filter(|(name, _)| !own.iter().any(|own| name == own));
        let mut environment = Environment(Vec::new());
        all.for_each(|(name, value)| environment.set(name, value));
        if !environment.has("PATH") {
            environment.set("PATH".into(), PATH.into());
        }
        // The image's user may lack the permission to create the requested home.
        if !environment.has("HOME") || (environment.is("HOME", HOME) && !create_directory(HOME)) {
            let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
            environment.set("HOME".into(), find_home(&users, rustix::process::getuid().as_raw()).into());
        }
        environment
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, value)| known == name && !value.is_empty())
    }

    fn is(&self, name: &str, value: &str) -> bool {
        self.0.iter().any(|(known, other)| known == name && other == value)
    }

    fn set(&mut self, name: OsString, value: OsString) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name, value)),
        }
    }

    /// Adds the variables of a call.
    pub(super) fn with(&self, call: Vec<(String, String)>) -> Vec<(OsString, OsString)> {
        let mut all = self.clone();
        for (name, value) in call {
            all.set(name.into(), value.into());
        }
        all.0
    }
}

/// Creates a directory for this user where it is missing. Returns whether it exists.
fn create_directory(directory: &str) -> bool {
    use rustix::fs::{Access, AtFlags, CWD};
    std::fs::create_dir_all(directory).is_ok()
        && rustix::fs::accessat(CWD, directory, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS).is_ok()
}

/// Creates the working directory of a program again if tools start programs there and a program has deleted it.
pub(super) fn restore_directory(directory: &str) {
    if directory == HOME || directory == WORKSPACE || USER_DATA.contains(&directory) {
        // If this user may not create it, the program fails to start, with the reason.
        let _ = std::fs::create_dir_all(directory);
    }
}

/// Explains the error of a request about the directories of a thread if the image lacks them, and this user may not create
/// them.
pub(super) fn explain_fault(fault: Fault) -> Fault {
    if fault.why != Code::NotFound || !fault.text.starts_with(THREAD) || Path::new(THREAD).exists() {
        return fault;
    }
    let [user, group] = [rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw()];
    let text = format!(
        "{THREAD} does not exist, and user {user}, who runs programs in this image, may not create it: add `RUN install -d -o \
         {user} -g {group} {THREAD}` to its Dockerfile, before `USER`"
    );
    Fault::new(Code::Unsupported, text)
}

/// Creates the directories of a thread. The image has them if its user cannot create them.
pub(super) fn create_user_data() {
    for directory in USER_DATA {
        let _ = std::fs::create_dir_all(directory);
    }
}

/// Returns the home of a user according to the text of `/etc/passwd`.
fn find_home(users: &str, user: u32) -> String {
    let of = |line: &str| -> Option<String> {
        let fields: Vec<_> = line.split(':').collect();
        let known = fields.get(2)?.parse::<u32>().ok()? == user;
        fields.get(5).filter(|home| known && home.starts_with('/')).map(|home| (*home).to_owned())
    };
    users.lines().find_map(of).unwrap_or_else(|| if user == 0 { "/root" } else { "/" }.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn homes() {
        let users =
            "root:x:0:0:root:/home/of-root:/bin/sh\nbroken\nnode:x:1000:1000::/home/node:/bin/sh\nx:x:7:7";
        assert_eq!(find_home(users, 0), "/home/of-root");
        assert_eq!(find_home(users, 1000), "/home/node");
        assert_eq!(find_home(users, 7), "/");
        assert_eq!(find_home("", 0), "/root");
    }

    #[test]
    fn other_errors_stay_as_they_are() {
        for (why, path) in [(Code::NotFound, "/home/user/x"), (Code::PermissionDenied, THREAD)] {
            let fault = explain_fault(Fault::new(why, format!("{path} is there")));
            assert_eq!((fault.why, fault.text), (why, format!("{path} is there")));
        }
    }

    #[test]
    fn variables_of_a_call_take_precedence() {
        let environment = Environment(vec![("A".into(), "1".into()), ("B".into(), "2".into())]);
        let all = environment.with(vec![("B".into(), "3".into()), ("C".into(), String::new())]);
        let all: Vec<_> =
            all.iter().map(|(name, value)| (name.to_str().unwrap(), value.to_str().unwrap())).collect();
        assert_eq!(all, [("A", "1"), ("B", "3"), ("C", "")]);
    }
}
