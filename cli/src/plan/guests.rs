//! The files that images with koze's guest are built from: Dockerfiles, and the guest itself.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use koze_templates::GUEST;

use crate::discover::Project;
use crate::finding::{Findings, Stop};
use crate::generate;
use crate::images::Resolved;
use crate::lock::Lock;
use crate::paths;
use crate::write::Change;

/// The files, in the order of their paths.
pub(super) fn files(images: impl Iterator<Item = Resolved>) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = BTreeMap::new();
    for guest in images.filter_map(|image| image.guest) {
        files.insert(guest.dockerfile, guest.text.into_bytes());
        // Several images may be built in one directory.
        files.insert(guest.guest, GUEST.to_vec());
    }
    files.into_iter().collect()
}

/// Whether a file is the guest, which does not say of itself that koze wrote it.
pub(super) fn is_guest(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "koze-guest" || name == ".koze-guest")
}

/// What an earlier build wrote and this one does not: it goes.
pub(super) fn leftovers(
    project: &Project,
    lock: &Lock,
    new_lock: &Lock,
    files: &[(PathBuf, Vec<u8>)],
    findings: &mut Findings,
) -> Result<Vec<Change>, Stop> {
    let listed =
        lock.files.iter().filter(|file| !new_lock.files.contains(file)).map(|file| project.dir.join(file));
    let generated = project.dir.join(generate::DIR);
    let parts = generate::PARTS.iter().map(|name| generated.join(name));
    let parts = parts.filter(|path| files.iter().all(|(written, _)| written != path));
    let mut changes = Vec::new();
    for path in listed.chain(parts) {
        let shown = paths::relative(&path, &project.dir);
        match Change::of(path, shown, None) {
            Ok(change) => changes.push(change),
            Err(error) => return findings.io(&error),
        }
    }
    // Of what is not there any more nothing need be said; and what has become somebody else's stays.
    changes.retain(|change| {
        change.before.as_deref().is_some_and(|before| is_guest(&change.path) || generate::is_ours(before))
    });
    Ok(changes)
}
