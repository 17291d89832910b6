//! Zig as the C compiler for other systems.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use fs_err as fs;

use crate::Result;
use crate::setup::pip;

/// The version that `ziglang.txt` pins.
const VERSION: &str = "0.17.1";
/// The requirements file for pip, with a hash for each file.
const REQUIREMENTS: &str = "xtask/ziglang.txt";
/// The directory in which it is installed.
const DIR: &str = "target/tools/ziglang";

const MISSING: &str = "install Python 3 with pip, on Linux";

/// The arguments that Zig does not understand: it takes the target in its own words.
const NOT_FOR_ZIG: [&str; 1] = ["--target=*"];

/// An installed Zig, with scripts that call its tools as other compilers are called.
pub(crate) struct Zig {
    program: PathBuf,
    scripts: PathBuf,
}

impl Zig {
    /// Installs Zig if it is missing or of another version.
    pub(crate) fn installed(root: &Path) -> Result<Zig> {
        let zig =
            Zig { program: root.join(DIR).join("ziglang/zig"), scripts: root.join(DIR).join("scripts") };
        if !zig.is_right() {
            pip::install(root, pip::PYTHON, REQUIREMENTS, DIR, MISSING)?;
        }
        if !zig.is_right() {
            return Err(format!("`{}` is not version {VERSION}: {MISSING}", zig.program.display()).into());
        }
        fs::create_dir_all(&zig.scripts)?;
        zig.script("ar", "ar", &[])?;
        Ok(zig)
    }

    fn is_right(&self) -> bool {
        let output = Command::new(&self.program).arg("version").output();
        output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim() == VERSION)
    }

    /// Returns the archiver, which is the same for every system.
    pub(crate) fn ar(&self) -> PathBuf {
        self.scripts.join("ar")
    }

    /// Returns the C compiler for a system.
    pub(crate) fn cc(&self, target: &str) -> Result<PathBuf> {
        self.script(&format!("cc-{target}"), &format!("cc -target {target}"), &NOT_FOR_ZIG)
    }

    /// Writes a script that calls Zig with these words and its own arguments, except those that match a pattern.
    fn script(&self, name: &str, words: &str, without: &[&str]) -> Result<PathBuf> {
        let path = self.scripts.join(name);
        let cache = self.scripts.with_file_name("cache");
        let text = script(&self.program, &cache, words, without);
        // cargo compiles again what was compiled with a changed compiler.
        if fs::read_to_string(&path).ok().as_ref() != Some(&text) {
            fs::write(&path, text)?;
            fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
        }
        Ok(path)
    }
}

fn script(zig: &Path, cache: &Path, words: &str, without: &[&str]) -> String {
    let quoted = |path: &Path| format!("'{}'", path.display().to_string().replace('\'', r"'\''"));
    let without = if without.is_empty() { "''".to_owned() } else { without.join("|") };
    format!(
        "#!/bin/sh\n\
         # Written by `cargo xtask`.\n\
         export ZIG_GLOBAL_CACHE_DIR={cache}\n\
         for argument do\n    \
             shift\n    \
             case $argument in\n        \
                 {without}) ;;\n        \
                 *) set -- \"$@\" \"$argument\" ;;\n    \
             esac\n\
         done\n\
         exec {zig} {words} \"$@\"\n",
        cache = quoted(cache),
        zig = quoted(zig),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process;

    /// The script runs `echo` in place of Zig.
    #[test]
    fn a_script_passes_on_what_zig_understands() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a script's name");
        let zig = dir.path().join("a zig");
        fs::write(&zig, "#!/bin/sh\nprintf '%s\\n' \"$@\" \"$ZIG_GLOBAL_CACHE_DIR\"\n").unwrap();
        fs::set_permissions(&zig, std::fs::Permissions::from_mode(0o755)).unwrap();
        let text = script(&zig, Path::new("/a cache"), "cc -target x", &["--target=*", "-lgcc"]);
        fs::write(&path, text).unwrap();
        let arguments = ["-o", "a b.o", "--target=a", "-lgcc_eh", "", "-lgcc"];
        let mut command = Command::new("sh");
        let printed = process::stdout(command.arg(&path).args(arguments), "").unwrap();
        assert_eq!(printed, "cc\n-target\nx\n-o\na b.o\n-lgcc_eh\n\n/a cache");
    }
}
