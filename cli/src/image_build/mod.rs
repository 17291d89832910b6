//! Builds images from Dockerfiles into the store of images: with a container engine of this machine, or without.
//!
//! | module | job |
//! |---|---|
//! | `engine` | builds with a container engine |
//! | `inputs` | the key of such a build: a digest of the Dockerfile, the context and the arguments |
//! | `stages` | builds without an engine, instruction by instruction |
//! | `state` | a stage that is being built |
//! | `support` | refuses what only engines build |
//! | `copy` | files of the context or of another stage as a layer |
//! | `words` | quotes, escapes and variables |
//! | `source` | the text of a Dockerfile, and places in it |
//! | `context`, `ignored` | the files of a build context; the rules of `.dockerignore` |
//! | `failure` | errors |

mod context;
mod copy;
mod engine;
mod failure;
mod ignored;
mod inputs;
mod source;
mod stages;
mod state;
mod support;
mod words;

use koze_image::{Image, Progress, Reference, Store};

use crate::args::ContainerEngine;
use crate::images::Recipe;
use crate::provider::BuildEgress;

use self::context::Context;
use self::failure::Result;
use self::stages::Stages;

pub(crate) use self::engine::copy_image;
pub(crate) use self::failure::Failure;

/// How to build.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// Who builds.
    pub(crate) builder: Builder,
    /// Whether to build what is up to date, and without any cache.
    pub(crate) force: bool,
}

/// Who builds.
#[derive(Debug, Clone)]
pub(crate) enum Builder {
    /// A container engine, whose programs have its network.
    Engine(ContainerEngine),
    /// koze, whose programs reach these hosts.
    Koze(BuildEgress),
}

/// The result of a build.
#[derive(Debug)]
pub(crate) struct Built {
    /// The ID of the image.
    pub(crate) id: String,
    /// Whether nothing was built, because nothing had changed.
    pub(crate) is_up_to_date: bool,
}

/// Receives what is being done, one line at a time.
pub(crate) type Report<'a> = dyn Fn(&str) + 'a;

/// Builds an image, and stores it under its name, unless the store has it.
pub(crate) fn build(
    recipe: &Recipe,
    store: &Store,
    options: &Options,
    report: &Report,
    progress: &Progress,
) -> Result<Built> {
    let reference: Reference = recipe.stored.parse().map_err(Failure::new)?;
    let context = Context::open(recipe)?;
    let building = store.begin_build()?;
    let stored = store.find(&reference)?;
    let is_stored = |image: &Image| stored.as_ref().is_some_and(|stored| stored.id == image.id);
    match &options.builder {
        Builder::Engine(engine) => {
            let key = inputs::compute_key(recipe, &context)?;
            if !options.force
                && let Some(image) = building.find_step(&key)?.filter(is_stored)
            {
                return Ok(Built { id: image.id, is_up_to_date: true });
            }
            let scratch = building.create_scratch()?;
            let archive = engine::build_archive(*engine, recipe, &context, scratch.path(), options.force)?;
            let image = engine::import_archive(*engine, store, &archive, &reference, progress)?;
            building.record_step(&key, &image)?;
            Ok(Built { id: image.id, is_up_to_date: false })
        }
        Builder::Koze(egress) => {
            let (egress, force) = (egress.clone(), options.force);
            let building = &building;
            let stages =
                Stages { store, building, recipe, context: &context, egress, force, report, progress };
            let (image, is_new) = stages.build()?;
            let is_up_to_date = !is_new && is_stored(&image);
            building.name(&reference, &image)?;
            Ok(Built { id: image.id, is_up_to_date })
        }
    }
}
