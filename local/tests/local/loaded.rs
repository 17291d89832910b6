//! The files that programs of this machine need in an image. The functional tests and the benchmarks have this module, too.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

/// Returns the libraries that programs load, and the loader.
pub(crate) fn list_loaded(programs: &[PathBuf]) -> BTreeSet<PathBuf> {
    let mut files = BTreeSet::new();
    for program in programs {
        let listed = Command::new("ldd").arg(program).output().expect("ldd");
        let listed = String::from_utf8(listed.stdout).expect("a text");
        files.extend(listed.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from));
    }
    files
}
