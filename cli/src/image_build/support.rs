//! What koze builds of a Dockerfile without an engine. The rest is refused before anything is built.

use parse_dockerfile::{Dockerfile, Flag, Instruction};

use super::failure::{Failure, Result};
use super::source::Source;

/// The maximum number of stages. Each may begin with the one before.
const STAGES: usize = 100;
/// The flags of `COPY` and `ADD`. One user owns all files of an image here, so `--chown` changes nothing, and layers are independent anyway.
const COPY_FLAGS: [&str; 4] = ["from", "chmod", "chown", "link"];

/// Refuses what needs an engine.
pub(super) fn check(source: &Source, dockerfile: &Dockerfile) -> Result<()> {
    if let Some(syntax) = &dockerfile.parser_directives.syntax {
        let name = syntax.value.value;
        let is_dockers = ["docker/dockerfile", "docker.io/docker/dockerfile"].iter().any(|known| {
            name.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '@']))
        });
        if !is_dockers {
            return Err(needs_engine(
                source,
                syntax.span().start,
                &format!("the syntax `{}`", name.escape_debug()),
            ));
        }
    }
    let mut stages = dockerfile.stages();
    if let Some(stage) = stages.nth(STAGES) {
        return Err(
            source.failure(stage.from.from.span.start, format!("koze builds at most {STAGES} stages"))
        );
    }
    dockerfile.instructions.iter().try_for_each(|instruction| check_instruction(source, instruction))
}

fn check_instruction(source: &Source, instruction: &Instruction) -> Result<()> {
    let refuse = |start: usize, what: &str| Err(needs_engine(source, start, what));
    match instruction {
        Instruction::From(from) => check_flags(source, "FROM", &from.options, &[]),
        Instruction::Copy(copy) => check_flags(source, "COPY", &copy.options, &COPY_FLAGS),
        Instruction::Add(add) => check_flags(source, "ADD", &add.options, &COPY_FLAGS[1..]),
        Instruction::Run(run) => check_flags(source, "RUN", &run.options, &[]),
        Instruction::Healthcheck(healthcheck) => refuse(healthcheck.healthcheck.span.start, "`HEALTHCHECK`"),
        Instruction::Maintainer(maintainer) => refuse(maintainer.maintainer.span.start, "`MAINTAINER`"),
        Instruction::Onbuild(onbuild) => refuse(onbuild.onbuild.span.start, "`ONBUILD`"),
        Instruction::Stopsignal(signal) => refuse(signal.stopsignal.span.start, "`STOPSIGNAL`"),
        Instruction::Volume(volume) => refuse(volume.volume.span.start, "`VOLUME`"),
        Instruction::Arg(_)
        | Instruction::Cmd(_)
        | Instruction::Entrypoint(_)
        | Instruction::Env(_)
        | Instruction::Expose(_)
        | Instruction::Label(_)
        | Instruction::Shell(_)
        | Instruction::User(_)
        | Instruction::Workdir(_) => Ok(()),
        _ => refuse(0, "an instruction that is new to it"),
    }
}

fn check_flags(source: &Source, instruction: &str, flags: &[Flag], known: &[&str]) -> Result<()> {
    match flags.iter().find(|flag| !known.contains(&flag.name.value.as_ref())) {
        None => Ok(()),
        Some(flag) => {
            let what = format!("`{instruction} --{}`", flag.name.value.escape_debug());
            Err(needs_engine(source, flag.flag_span().start, &what))
        }
    }
}

/// Returns the error for a part of the Dockerfile, at an offset, that needs an engine.
pub(super) fn needs_engine(source: &Source, offset: usize, what: &str) -> Failure {
    source.failure(
        offset,
        format!("koze cannot build {what} itself: install docker, podman or buildah, and run this again"),
    )
}
