//! Checks where the kernel sends the memory of programs that crash.

use super::Check;

const NAME: &str = "core files";
const PATTERN: &str = "/proc/sys/kernel/core_pattern";

/// Reports if crashes of programs in sandboxes reach a program of this machine. This is not a warning, because it
/// describes the machine and `--strict` judges the project.
pub(crate) fn check() -> Option<Check> {
    check_pattern(&std::fs::read_to_string(PATTERN).ok()?)
}

/// The limit of core files keeps a helper behind a pipe from running, but Linux ignores it for a socket.
fn check_pattern(pattern: &str) -> Option<Check> {
    let found = format!(
        "if a program in a sandbox on this machine crashes, the kernel sends its memory to the socket in {PATTERN}; to \
         prevent this, set `sysctl kernel.core_pattern` to a value without `@` at its beginning"
    );
    pattern.starts_with('@').then(|| Check::ok(NAME, found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_socket_is_reported() {
        for pattern in ["core", "|/usr/lib/systemd/systemd-coredump %P", ""] {
            assert_eq!(check_pattern(pattern), None);
        }
        for pattern in ["@/run/crash.socket\n", "@@/run/crash.socket\n"] {
            assert!(check_pattern(pattern).unwrap().found.contains("core_pattern"));
        }
    }
}
