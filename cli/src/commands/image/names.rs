//! The images that arguments name: those of sandboxes, and references.

use std::process::ExitCode;

use koze_image::Reference;
use koze_model::Kind;
use koze_model::image::PLATFORM_IMAGE;

use super::show_reference;
use crate::args::{Format, ImageArgs, ProjectArgs};
use crate::commands::{project, show};
use crate::discover::Project;
use crate::finding::{Findings, Stop};
use crate::images::Recipe;
use crate::plan::Planned;

/// An image that was named.
pub(super) struct Named {
    /// Its name in the store; `None` if no registry has the image, and no Dockerfile.
    pub(super) reference: Option<Reference>,
    /// The reference for people, or why the image has no name in the store.
    pub(super) shown: String,
    /// How it is built, if it comes from a Dockerfile.
    pub(super) recipe: Option<Recipe>,
}

impl Named {
    fn new(reference: Reference) -> Self {
        Named { shown: show_reference(&reference), reference: Some(reference), recipe: None }
    }

    /// Names an image that is built from a Dockerfile.
    fn built(recipe: Recipe) -> Result<Self, ExitCode> {
        let reference = Some(parse(&recipe.stored)?);
        Ok(Named { reference, shown: recipe.name.clone(), recipe: Some(recipe) })
    }
}

/// Parses a reference.
pub(super) fn parse(text: &str) -> Result<Reference, ExitCode> {
    let invalid =
        |error| show::usage(&format!("`{}` is not the reference of an image: {error}", text.escape_debug()));
    text.parse().map_err(invalid)
}

/// Returns the images of all sandboxes of the project.
pub(super) fn find_all(place: &ImageArgs) -> Result<Vec<Named>, ExitCode> {
    let mut found = Vec::new();
    for sandbox in read_sandboxes(place)? {
        add_images(&sandbox, &mut found)?;
    }
    if found.is_empty() {
        return Err(show::failure("the project has no sandboxes: `koze add` creates one"));
    }
    Ok(found)
}

/// Returns how to build the images of all sandboxes of the project that come from Dockerfiles, or those with these names.
pub(super) fn find_recipes(names: &[String], place: &ImageArgs) -> Result<Vec<Recipe>, ExitCode> {
    let sandboxes = read_sandboxes(place)?;
    let recipes = || sandboxes.iter().flat_map(|sandbox| &sandbox.recipes);
    if names.is_empty() {
        let all: Vec<_> = recipes().cloned().collect();
        if all.is_empty() {
            return Err(show::failure(
                "no sandbox of the project has a Dockerfile: put one next to its file, as `python.Dockerfile` next to \
                 `python.sandbox.rs`, or name it with `image`",
            ));
        }
        return Ok(all);
    }
    let mut found = Vec::new();
    for name in names {
        let of_name = sandboxes.iter().filter(|sandbox| has_name(sandbox, name));
        let mut matching: Vec<_> = of_name.flat_map(|sandbox| sandbox.recipes.clone()).collect();
        if matching.is_empty() {
            matching.extend(recipes().find(|recipe| recipe.name == *name).cloned());
        }
        if matching.is_empty() {
            let known: Vec<_> = recipes().map(|recipe| recipe.name.as_str()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(show::failure(&format!(
                "the project has no image `{}` that is built from a Dockerfile: those are {known}",
                name.escape_debug()
            )));
        }
        matching.retain(|recipe| !found.contains(recipe));
        found.extend(matching);
    }
    Ok(found)
}

/// Returns the images that names mean. A name without a tag is that of a sandbox, if the project has one.
pub(super) fn find(names: &[String], place: &ImageArgs) -> Result<Vec<Named>, ExitCode> {
    let may_be_sandbox = |name: &String| !name.contains([':', '/', '@', '.']);
    let is_project = Project::find(&place.project, &mut Findings::new(false)).is_ok();
    let is_needed = is_project && names.iter().any(may_be_sandbox);
    let sandboxes = if is_needed { read_sandboxes(place)? } else { Vec::new() };
    let mut found = Vec::new();
    for name in names {
        let images: Vec<_> = sandboxes.iter().filter(|sandbox| has_name(sandbox, name)).collect();
        for sandbox in &images {
            add_images(sandbox, &mut found)?;
        }
        if !images.is_empty() {
            continue;
        }
        let images =
            sandboxes.iter().flat_map(|sandbox| sandbox.images.iter().map(move |image| (sandbox, image)));
        match images.into_iter().find(|(_, (image, _))| image == name) {
            Some((sandbox, (name, image))) => add_image(sandbox, name, image, &mut found)?,
            None => add(Named::new(parse(name)?), &mut found),
        }
    }
    Ok(found)
}

/// Returns whether a sandbox has this name: that of its file.
fn has_name(sandbox: &Planned, name: &str) -> bool {
    let file = sandbox.file.rsplit('/').next().unwrap_or_default();
    file.split('.').next() == Some(name)
}

/// Reads the sandboxes of the project, and changes nothing.
fn read_sandboxes(place: &ImageArgs) -> Result<Vec<Planned>, ExitCode> {
    let ImageArgs { project, config } = place.clone();
    let place = ProjectArgs { project, config, strict: false, format: Format::Human };
    let mut findings = Findings::new(false);
    let build = project::read(&place, &mut findings).map_err(|Stop| {
        show::findings(&findings);
        ExitCode::FAILURE
    })?;
    Ok(build.sandboxes.into_iter().filter(|sandbox| sandbox.kind == Kind::Sandbox).collect())
}

fn add_images(sandbox: &Planned, found: &mut Vec<Named>) -> Result<(), ExitCode> {
    sandbox.images.iter().try_for_each(|(name, image)| add_image(sandbox, name, image, found))
}

/// Adds an image of a sandbox.
fn add_image(sandbox: &Planned, name: &str, image: &str, found: &mut Vec<Named>) -> Result<(), ExitCode> {
    let none = |why: &str| Named { reference: None, shown: format!("`{name}`: {why}"), recipe: None };
    let named = if let Some(recipe) = sandbox.recipes.iter().find(|recipe| recipe.name == name) {
        Named::built(recipe.clone())?
    } else if image.starts_with("./") || image.starts_with("../") {
        none(
            "the Dockerfile is one of the wrangler configuration: to build it here, name it in the attribute with `image`",
        )
    } else if image == PLATFORM_IMAGE {
        none("the image of the platform is in no registry")
    } else {
        Named::new(parse(image)?)
    };
    add(named, found);
    Ok(())
}

/// Adds an image once: several sandboxes may have the same one.
fn add(named: Named, found: &mut Vec<Named>) {
    if found.iter().all(|other| other.shown != named.shown) {
        found.push(named);
    }
}
