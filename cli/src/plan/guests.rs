//! Plans the files for building images with koze's guest: Dockerfiles, and the guest itself.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use koze_templates::{GUEST, USER_DATA};

use crate::discover::Project;
use crate::finding::{Findings, Stop};
use crate::generate;
use crate::images::Resolved;
use crate::images::guest::is_guest;
use crate::lock::Lock;
use crate::paths;
use crate::write::{Change, Content};

/// Returns the files, ordered by path.
pub(super) fn files(images: impl Iterator<Item = Resolved>) -> Vec<(PathBuf, Content)> {
    let mut files: BTreeMap<PathBuf, Content> = BTreeMap::new();
    for guest in images.filter_map(|image| image.guest) {
        files.insert(guest.dockerfile, guest.text.into_bytes().into());
        // Several images may share a build context.
        files.insert(guest.guest, GUEST.into());
        files.extend(guest.user_data.map(|path| (path, USER_DATA.into())));
    }
    files.into_iter().collect()
}

/// Returns the directory that a file of koze's must not leave: a build context may be above the package.
pub(super) fn root<'p>(path: &Path, project: &'p Project) -> &'p Path {
    if paths::normal(path).starts_with(&project.dir) { &project.dir } else { project.repository() }
}

/// Plans the deletion of files that an earlier build wrote and that are no longer needed.
pub(super) fn leftovers(
    project: &Project,
    lock: &Lock,
    new_lock: &Lock,
    files: &[(PathBuf, Option<Content>)],
    findings: &mut Findings,
) -> Result<Vec<Change>, Stop> {
    let listed =
        lock.files.iter().filter(|file| !new_lock.files.contains(file)).map(|file| project.dir.join(file));
    let generated = project.dir.join(generate::DIR);
    let parts = generate::parts().map(|path| generated.join(path));
    let parts = parts.filter(|path| files.iter().all(|(written, _)| written != path));
    // Most of them do not exist.
    let present = listed.chain(parts).filter(|path| path.symlink_metadata().is_ok());
    let mut changes = Vec::new();
    for path in present {
        let shown = paths::relative(&path, &project.dir);
        match Change::of(root(&path, project), &path, shown, None) {
            Ok(change) => changes.push(change),
            Err(error) => return findings.io(&error),
        }
    }
    // Skip files that no longer exist, and files that koze did not write.
    changes.retain(|change| {
        let name = change.path.file_name().unwrap_or_default();
        let is_ours = |before: &[u8]| is_guest(&change.path) || generate::is_ours(name, before);
        change.before.as_deref().is_some_and(is_ours)
    });
    Ok(changes)
}
