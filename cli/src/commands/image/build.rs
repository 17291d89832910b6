//! `koze image build`: builds the images of Dockerfiles into the store.

use std::process::ExitCode;

use super::names;
use super::open;
use super::progress::Bars;
use crate::args::{BuildEngine, ContainerEngine, ImageArgs};
use crate::commands::call_lines::visible;
use crate::commands::show;
use crate::image_build::{self, Builder, Options};
use crate::paths;
use crate::provider::BuildEgress;

pub(super) fn run(
    names: &[String],
    place: &ImageArgs,
    engine: Option<BuildEngine>,
    egress: BuildEgress,
    force: bool,
) -> Result<ExitCode, ExitCode> {
    let recipes = names::find_recipes(names, place)?;
    let options = Options { builder: choose_builder(engine, egress)?, force };
    let program = match &options.builder {
        Builder::Engine(engine) => engine.program(),
        Builder::Koze(_) => "koze",
    };
    let store = open()?;
    let mut code = ExitCode::SUCCESS;
    for recipe in recipes {
        let name = &recipe.name;
        let file = visible(&paths::relative(&recipe.dockerfile, &recipe.root));
        show::err(&format!("building `{name}` from {file} with {program}\n"));
        let bars = Bars::new();
        let report = |line: &str| show::err(&format!("{}\n", visible(line)));
        let built = image_build::build(&recipe, &store, &options, &report, &|event| bars.show(event));
        bars.clear();
        match built {
            Ok(built) if built.is_up_to_date => show::out(&format!("{name} {} is up to date\n", built.id)),
            Ok(built) => show::out(&format!("{name} {}\n", built.id)),
            Err(failure) => code = show::failure(&format!("`{name}`: {}", visible(&failure.to_string()))),
        }
    }
    Ok(code)
}

/// Returns the engine that was asked for, or else the first one that answers, or else koze.
fn choose_builder(engine: Option<BuildEngine>, egress: BuildEgress) -> Result<Builder, ExitCode> {
    let named = match engine {
        None => None,
        Some(BuildEngine::Koze) => return Ok(Builder::Koze(egress)),
        Some(BuildEngine::Docker) => Some(ContainerEngine::Docker),
        Some(BuildEngine::Podman) => Some(ContainerEngine::Podman),
        Some(BuildEngine::Buildah) => Some(ContainerEngine::Buildah),
    };
    let Some(engine) = named.or_else(ContainerEngine::find) else { return Ok(Builder::Koze(egress)) };
    let program = engine.program();
    if !egress.allowed_hosts.is_empty() {
        let why = format!(
            "`{program}` cannot limit a build to hosts: leave out `--allow-host`, or pass `--engine koze`"
        );
        return Err(show::usage(&why));
    }
    if named.is_some() {
        check_answers(engine)?;
    }
    Ok(Builder::Engine(engine))
}

/// Shows an error if an engine that was named does not answer.
pub(super) fn check_answers(engine: ContainerEngine) -> Result<(), ExitCode> {
    if engine.answers() {
        return Ok(());
    }
    let program = engine.program();
    Err(show::failure(&format!("`{program}` is not installed, or does not answer: choose another engine")))
}
