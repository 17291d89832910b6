//! Which image each sandbox runs, as the wrangler configuration writes it.

mod offered;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use koze_model::image::{self, Image, ImageSource};
use koze_model::{Rule, Sandbox};

use crate::discover::{DOCKERFILE, Project, Sandboxes};
use crate::finding::{Findings, Place};
use crate::paths;
use crate::sdk::Sdk;

pub use offered::{classes, offered, serves};

/// The image of a sandbox.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// A registry reference, or a Dockerfile's path relative to the wrangler configuration.
    pub image: String,
    /// What decided.
    pub source: ImageSource,
}

/// The image of a sandbox: `image`, `variant`, the Dockerfile beside the source, or the SDK's own.
///
/// `config_dir` is the directory of the wrangler configuration.
pub fn resolve(
    sandbox: &Sandbox,
    sandboxes: &Sandboxes,
    project: &Project,
    config_dir: &Path,
    sdk: &Sdk,
    findings: &mut Findings,
) -> Resolved {
    let source_dir = directory(sandbox, project);
    let attributes = &sandbox.attributes;
    let built = |path: PathBuf, source, findings: &mut Findings| {
        check_from(&path, project, sdk, findings);
        Resolved { image: paths::dotted(&path, config_dir), source }
    };
    match attributes.image.as_ref().map(|image| &image.value) {
        Some(Image::Registry(reference)) => {
            return Resolved { image: reference.clone(), source: ImageSource::Attribute };
        }
        Some(Image::Dockerfile(path)) => {
            return built(source_dir.join(path), ImageSource::Attribute, findings);
        }
        None => {}
    }
    let variant = attributes.variant.as_ref().map(|variant| variant.value.as_str());
    if variant.is_none() {
        let sibling = source_dir.join(format!("{}{DOCKERFILE}", sandbox.names.base));
        if sandboxes.has_dockerfile(&sibling) {
            return built(sibling, ImageSource::SiblingDockerfile, findings);
        }
    }
    let source = if variant.is_some() { ImageSource::Variant } else { ImageSource::Default };
    Resolved { image: image::default_image(&sdk.version, variant), source }
}

/// The directory of a sandbox's source file.
pub fn directory(sandbox: &Sandbox, project: &Project) -> PathBuf {
    let file = project.dir.join(&sandbox.file);
    file.parent().map_or_else(|| project.dir.clone(), Path::to_owned)
}

/// The image of an entry that was there before koze: a Dockerfile of the user's must be of the SDK's version as well.
pub fn check_kept(image: &str, config_dir: &Path, project: &Project, sdk: &Sdk, findings: &mut Findings) {
    let path = paths::normal(&config_dir.join(image));
    if path.is_file() {
        check_from(&path, project, sdk, findings);
    }
}

/// A Dockerfile on the sandbox image must be of the SDK's version.
fn check_from(dockerfile: &Path, project: &Project, sdk: &Sdk, findings: &mut Findings) {
    let Ok(bytes) = fs_err::read(dockerfile) else {
        return;
    };
    let text = String::from_utf8_lossy(&bytes);
    for (range, tag) in image::sandbox_froms(&text) {
        if !image::in_step(&tag, &sdk.version) {
            let rule =
                Rule::FromOutOfStep { from: text[range.clone()].to_owned(), version: sdk.version.clone() };
            let file = paths::relative(dockerfile, &project.dir);
            findings.add(rule, Some(Place { file, text: Arc::from(text.as_ref()), range: Some(range) }));
        }
    }
}
