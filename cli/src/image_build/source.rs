//! The text of a Dockerfile, and places in it.

use std::fmt;

use parse_dockerfile::Instruction;

use super::failure::Failure;

/// The text of a Dockerfile.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    /// The file for people.
    pub(super) shown: &'a str,
    pub(super) text: &'a str,
}

impl Source<'_> {
    /// Creates an error at an offset.
    pub(super) fn failure(&self, offset: usize, text: impl fmt::Display) -> Failure {
        let before = self.text.get(..offset).unwrap_or_default();
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        Failure::new(format!("{}:{line}: {text}", self.shown))
    }
}

/// Returns the offset at which an instruction begins.
pub(super) fn start(instruction: &Instruction) -> usize {
    let keyword = match instruction {
        Instruction::Add(add) => &add.add,
        Instruction::Arg(arg) => &arg.arg,
        Instruction::Cmd(cmd) => &cmd.cmd,
        Instruction::Copy(copy) => &copy.copy,
        Instruction::Entrypoint(entrypoint) => &entrypoint.entrypoint,
        Instruction::Env(env) => &env.env,
        Instruction::Expose(expose) => &expose.expose,
        Instruction::From(from) => &from.from,
        Instruction::Healthcheck(healthcheck) => &healthcheck.healthcheck,
        Instruction::Label(label) => &label.label,
        Instruction::Maintainer(maintainer) => &maintainer.maintainer,
        Instruction::Onbuild(onbuild) => &onbuild.onbuild,
        Instruction::Run(run) => &run.run,
        Instruction::Shell(shell) => &shell.shell,
        Instruction::Stopsignal(signal) => &signal.stopsignal,
        Instruction::User(user) => &user.user,
        Instruction::Volume(volume) => &volume.volume,
        Instruction::Workdir(workdir) => &workdir.workdir,
        _ => return 0,
    };
    keyword.span.start
}
