//! Resolves the image of each sandbox as the wrangler configuration needs it.

pub mod guest;
mod offered;
mod recipe;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use koze_model::dockerfile;
use koze_model::image::{self, Image, ImageSource};
use koze_model::{Kind, Sandbox};

use crate::discover::{DOCKERFILE, Project, Sandboxes};
use crate::draft::Draft;
use crate::finding::{Findings, Place};
use crate::paths;
use crate::rules::Rule;
use crate::sdk::Sdk;
use crate::write::input;

use self::guest::{From, Guest};

pub use offered::{declared_policy, offered, provided, serves};
pub use recipe::Recipe;
#[cfg(namespaces)]
pub(crate) use recipe::readable_name;

/// An image of a sandbox.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// Its name: that of the sandbox, or one in `images(..)`.
    pub name: String,
    /// A registry reference, or a Dockerfile's path relative to the wrangler configuration.
    pub image: String,
    /// Where the image was configured.
    pub source: ImageSource,
    /// How koze's guest is added to the image, for the backends with koze's own guest.
    pub guest: Option<Guest>,
    /// How it is built, if it comes from a Dockerfile.
    pub recipe: Option<Recipe>,
}

impl Resolved {
    /// Creates an image without koze's guest.
    pub fn new(name: &str, image: String, source: ImageSource) -> Self {
        Resolved { name: name.to_owned(), image, source, guest: None, recipe: None }
    }

    /// Returns the value for the container entry of a configuration in this directory.
    pub fn entry(&self, config_dir: &Path) -> String {
        self.guest
            .as_ref()
            .map_or_else(|| self.image.clone(), |guest| paths::dotted(&guest.dockerfile, config_dir))
    }
}

/// The context for resolving images.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// The package.
    pub project: &'a Project,
    /// Its sandboxes.
    pub sandboxes: &'a Sandboxes,
    /// The directory of the wrangler configuration.
    pub config_dir: &'a Path,
    /// The SDK version; `None` if no sandbox needs it.
    pub sdk: Option<&'a Sdk>,
    /// The changes of the command.
    pub draft: &'a Draft,
}

/// Resolves the images of a sandbox; the first one is the default. They come from `images`, `image`, `variant`, the
/// Dockerfile next to the source, or the SDK's default.
///
/// # Panics
/// Panics if the sandbox needs the SDK and its version is unknown.
pub fn resolve(sandbox: &Sandbox, around: Surroundings, findings: &mut Findings) -> Vec<Resolved> {
    let attributes = &sandbox.attributes;
    let base = sandbox.names.base.as_str();
    if let Some(images) = &attributes.images {
        let images = images.value.iter();
        return images.map(|(name, image)| declared(sandbox, name, &image.value, around, findings)).collect();
    }
    if let Some(image) = &attributes.image {
        return vec![declared(sandbox, base, &image.value, around, findings)];
    }
    let variant = attributes.variant.as_ref().map(|variant| variant.value.as_str());
    if variant.is_none() {
        let sibling = directory(sandbox, around.project).join(format!("{base}{DOCKERFILE}"));
        if around.sandboxes.has_dockerfile(&sibling) {
            return vec![built(sandbox, base, &sibling, ImageSource::SiblingDockerfile, around, findings)];
        }
    }
    let source = if variant.is_some() { ImageSource::Variant } else { ImageSource::Default };
    let backend = attributes.backend();
    let kind = sandbox.kind();
    if backend.has_own_guest() {
        let class = sandbox.class.value.clone();
        let rule = Rule::NoNativeImage { kind, class, base: base.to_owned(), backend };
        findings.add(rule, Some(around.sandboxes.place(sandbox, sandbox.class.span)));
        return vec![Resolved::new(base, String::new(), source)];
    }
    let version = &around.sdk.expect("a sandbox on the SDK has a version of it").version;
    vec![Resolved::new(base, image::default_image(version, variant), source)]
}

/// Resolves an image of the attribute.
fn declared(
    sandbox: &Sandbox,
    name: &str,
    image: &Image,
    around: Surroundings,
    findings: &mut Findings,
) -> Resolved {
    let Surroundings { project, draft, .. } = around;
    let source = ImageSource::Attribute;
    match image {
        Image::Registry(reference) => {
            let from = From::Registry(reference);
            let guest = sandbox.has_guest().then(|| guest::of(sandbox, name, from, project, draft, findings));
            let reference = match sandbox.kind() {
                Kind::Sandbox => reference.clone(),
                Kind::Container => image::with_registry(reference),
            };
            Resolved { guest, ..Resolved::new(name, reference, source) }
        }
        Image::Dockerfile(path) => {
            let path = directory(sandbox, project).join(path);
            built(sandbox, name, &path, source, around, findings)
        }
        Image::Platform => Resolved::new(name, image::PLATFORM_IMAGE.to_owned(), source),
    }
}

/// Resolves an image that is built from a Dockerfile.
fn built(
    sandbox: &Sandbox,
    name: &str,
    path: &Path,
    source: ImageSource,
    around: Surroundings,
    findings: &mut Findings,
) -> Resolved {
    let Surroundings { project, config_dir, sdk, draft, .. } = around;
    let recipe = Recipe::new(sandbox, name, path, project);
    let guest = sandbox.has_guest().then(|| {
        let from = From::Dockerfile(recipe.dockerfile.clone(), recipe.context.clone());
        guest::of(sandbox, name, from, project, draft, findings)
    });
    if let (Kind::Sandbox, None, Some(sdk)) = (sandbox.kind(), &guest, sdk) {
        check_from(path, project, sdk, findings);
    }
    Resolved { guest, recipe: Some(recipe), ..Resolved::new(name, paths::dotted(path, config_dir), source) }
}

/// Converts an image of a configuration in `config_dir` to the attribute value for a source in `source_dir`. Returns
/// `None` if no attribute can express it.
pub fn in_attribute(image: &str, config_dir: &Path, source_dir: &Path) -> Option<String> {
    let file = paths::normal(&config_dir.join(image));
    let text = if file.is_file() { paths::dotted(&file, source_dir) } else { image.to_owned() };
    match Image::parse(&text).ok()? {
        // The path is relative to another directory.
        Image::Dockerfile(_) => file.is_file().then_some(text),
        Image::Registry(_) | Image::Platform => (!file.is_file()).then_some(text),
    }
}

/// Returns the directory of a sandbox's source file.
pub fn directory(sandbox: &Sandbox, project: &Project) -> PathBuf {
    let file = project.dir.join(&sandbox.file);
    file.parent().map_or_else(|| project.dir.clone(), Path::to_owned)
}

/// Checks the image of an entry that existed before koze. A Dockerfile based on the sandbox image must match the SDK's
/// version.
pub fn check_kept(image: &str, config_dir: &Path, project: &Project, sdk: &Sdk, findings: &mut Findings) {
    let path = paths::normal(&config_dir.join(image));
    if path.is_file() {
        check_from(&path, project, sdk, findings);
    }
}

/// Checks that a Dockerfile based on the sandbox image uses the SDK's version.
fn check_from(file: &Path, project: &Project, sdk: &Sdk, findings: &mut Findings) {
    let Ok(bytes) = input::read_in(project.repository(), file) else {
        return;
    };
    let text = String::from_utf8_lossy(&bytes);
    let Some(base) = dockerfile::base(&text) else { return };
    let tag = base.image.split_once(':').filter(|_| image::is_default_repository(&base.image));
    if tag.is_some_and(|(_, tag)| !image::in_step(tag, &sdk.version)) {
        let rule = Rule::FromOutOfStep { from: base.image, version: sdk.version.clone() };
        let file = paths::relative(file, &project.dir);
        let range = Some(base.range);
        findings.add(rule, Some(Place { file, text: Arc::from(text.as_ref()), range }));
    }
}
