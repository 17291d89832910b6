//! How an image is built from a Dockerfile, and its name in the store of images.

use std::path::{Path, PathBuf};

use koze_model::Sandbox;
use sha2::{Digest as _, Sha256};

use crate::discover::Project;
use crate::paths;

/// The registry of names of built images. It cannot exist, so that no pull brings another image under such a name.
const REGISTRY: &str = "koze.invalid";
/// How many bytes of the hash are in a name.
const HASH: usize = 8;

/// How an image is built from a Dockerfile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    /// The name of the image, as in [`Resolved`](super::Resolved).
    pub name: String,
    /// The absolute path of the Dockerfile.
    pub dockerfile: PathBuf,
    /// The absolute path of the build context: by default the directory of the Dockerfile, as for wrangler.
    pub context: PathBuf,
    /// The directory that both must be in: that of the repository.
    pub root: PathBuf,
    /// The build arguments.
    pub vars: Vec<(String, String)>,
    /// The name of the image in the store of images.
    pub stored: String,
}

impl Recipe {
    /// Returns how to build the image of this name of a sandbox.
    pub(super) fn new(sandbox: &Sandbox, name: &str, dockerfile: &Path, project: &Project) -> Self {
        let attributes = &sandbox.attributes;
        let dockerfile = paths::normal(dockerfile);
        let context = match &attributes.image_build_context {
            Some(context) => paths::normal(&super::directory(sandbox, project).join(&context.value)),
            None => dockerfile.parent().unwrap_or(&dockerfile).to_owned(),
        };
        Recipe {
            name: name.to_owned(),
            stored: stored_name(project, name, &dockerfile),
            dockerfile,
            context,
            root: project.repository().to_owned(),
            vars: attributes.image_vars.as_ref().map(|vars| vars.value.clone()).unwrap_or_default(),
        }
    }
}

/// Returns the name of an image in the store, which projects share: readable, and different for every Dockerfile of this machine.
fn stored_name(project: &Project, name: &str, dockerfile: &Path) -> String {
    let mut hasher = Sha256::new();
    for part in [project.dir.as_path(), dockerfile] {
        hasher.update(part.as_os_str().as_encoded_bytes());
        hasher.update([0]);
    }
    let mut hash = [0; HASH];
    hash.copy_from_slice(&hasher.finalize()[..HASH]);
    let hash = u64::from_be_bytes(hash);
    format!("{REGISTRY}/{}/{}:{hash:016x}", to_component(&project.name), to_component(name))
}

/// Converts a name to a component of a reference: lower-case letters and digits, with single separators in between.
fn to_component(name: &str) -> String {
    let mut component = String::new();
    for char in name.chars() {
        if char.is_ascii_alphanumeric() {
            component.push(char.to_ascii_lowercase());
        } else if !component.is_empty() && !component.ends_with('-') {
            component.push('-');
        }
    }
    let component = component.trim_end_matches('-');
    if component.is_empty() { "image".to_owned() } else { component.to_owned() }
}

/// Returns the readable part of the name of a built image, or `None` for other names: `project/name`.
#[cfg(namespaces)]
pub(crate) fn readable_name(reference: &str) -> Option<&str> {
    let (name, _) = reference.strip_prefix(REGISTRY)?.strip_prefix('/')?.rsplit_once(':')?;
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::to_component;

    #[test]
    fn every_name_gives_a_component_of_a_reference() {
        let names = ["python", "My_Project", "--a..b--", "größe", "é"];
        let components = names.map(to_component);
        assert_eq!(components, ["python", "my-project", "a-b", "gr-e", "image"]);
    }
}
