//! The versions of the programs of this machine that sandboxes have.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use koze_core::tool::programs::Programs;

use super::view::PROGRAMS;

/// Returns the versions of the programs that models ask for first. They are found once in a process.
pub fn find_programs() -> Programs {
    static FOUND: OnceLock<Programs> = OnceLock::new();
    let found = FOUND.get_or_init(|| Programs {
        python: find_version("python3", "Python "),
        node: find_version("node", "v"),
        images: Vec::new(),
    });
    found.clone()
}

/// Returns what a program prints for `--version` after a prefix. Returns nothing if sandboxes do not have it.
fn find_version(name: &str, prefix: &str) -> Option<String> {
    let program = find_program(name)?;
    let mut command = Command::new(program);
    command.arg("--version").env_clear().current_dir("/").stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().ok().filter(|output| output.status.success())?;
    let printed = String::from_utf8(output.stdout).ok()?;
    let version = printed.lines().next()?.strip_prefix(prefix)?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+');
    (!version.is_empty() && version.len() <= 32 && version.chars().all(is_plain)).then(|| version.to_owned())
}

/// Returns the first program of this name in the directories that sandboxes search. A link out of `/usr` leads to nothing in
/// them.
fn find_program(name: &str) -> Option<PathBuf> {
    let first =
        PROGRAMS.iter().map(|directory| Path::new(directory).join(name)).find(|path| path.exists())?;
    first.canonicalize().ok().filter(|path| path.starts_with("/usr"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_that_the_programs_print() {
        assert_eq!(find_version("no-such-program", ""), None);
        // Every Debian has it, and it prints a line of another form.
        assert_eq!(find_version("ls", "v"), None);
        let version = find_version("bash", "GNU bash, version ");
        assert_eq!(version, None, "a version has no spaces");
    }
}
