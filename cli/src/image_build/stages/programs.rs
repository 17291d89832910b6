//! `RUN`: programs in a sandbox, and what they changed.

use std::path::Path;

use koze_image::{NewLayer, StepKey};
use parse_dockerfile::{Command, RunInstruction};
use serde_json::Value;

use super::{At, Run, VERSION, show};
use crate::image_build::failure::Result;
use crate::image_build::state::State;
use crate::image_build::support;
use crate::provider::{BUILD_TIMEOUT, BuildProgram, BuildSandboxes, is_of_sandbox};

impl Run<'_, '_> {
    /// Runs the programs of an instruction, unless they ran before.
    pub(super) fn run(&self, state: &mut State, at: &At, run: &RunInstruction) -> Result<()> {
        let fail = |why: String| self.source.failure(at.offset, why);
        // The base may name a working directory that it lacks, which engines create, too.
        if let Some(layer) = self.create_directory(state, at, &state.working_dir())? {
            self.commit(state, &At { offset: at.offset, text: "WORKDIR" }, Some(layer))?;
        }
        let argv = match run.here_docs.first() {
            None => self.to_argv(state, &run.arguments),
            Some(document) => {
                let has_command =
                    matches!(&run.arguments, Command::Shell(text) if !text.value.trim().is_empty());
                if has_command || document.value.starts_with("#!") {
                    let what = "a here-document for another program than the shell";
                    return Err(support::needs_engine(&self.source, at.offset, what));
                }
                state.to_shell_argv(document.value.to_string())
            }
        };
        let Some(image) = state.image.clone().filter(|image| !image.layers.is_empty()) else {
            return Err(fail(
                "the image has no programs to run: begin with another base than `scratch`".to_owned(),
            ));
        };
        let is_variable = |name: &str| state.find_in_env(name).is_some();
        let mut env: Vec<_> = state.args.iter().filter(|(name, _)| !is_variable(name)).cloned().collect();
        let mut parts: Vec<Vec<u8>> = vec![VERSION.into(), "run".into(), image.id.clone().into()];
        parts.extend(argv.iter().map(|word| word.clone().into_bytes()));
        parts.push("env".into());
        parts.extend(
            env.iter().flat_map(|(name, value)| [name.clone().into_bytes(), value.clone().into_bytes()]),
        );
        let home = state.find_in_env("HOME").unwrap_or_else(|| self.find_home(state));
        env.push(("HOME".to_owned(), home));
        let program = BuildProgram { image: image.id, argv, working_dir: state.working_dir(), env };
        self.do_step(state, at, &StepKey::new(parts), |layer| self.run_program(layer, at, program))
    }

    /// Returns the home directory of a stage's user.
    fn find_home(&self, state: &State) -> String {
        let user = state.settings.get("User").and_then(Value::as_str).unwrap_or_default();
        let user = user.split(':').next().unwrap_or_default();
        if matches!(user, "" | "root" | "0") {
            return "/root".to_owned();
        }
        let read = || {
            let tree = self.around.building.open_tree(state.image.as_ref()).ok()?;
            let path = tree.resolve(Path::new("etc/passwd")).ok()?;
            let file = tree.open_file(&tree.find(&path).ok()??).ok()?;
            let users = std::io::read_to_string(std::io::Read::take(file, 1 << 20)).ok()?;
            let fields = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
            let mut of_user =
                fields.filter(|fields| fields.first() == Some(&user) || fields.get(2) == Some(&user));
            of_user.next()?.get(5).map(ToString::to_string)
        };
        read().unwrap_or_else(|| "/".to_owned())
    }

    /// Runs a program in a sandbox, and adds what it changed to a layer.
    fn run_program(&self, layer: &mut NewLayer, at: &At, program: BuildProgram) -> Result<()> {
        let fail = |why: String| self.source.failure(at.offset, why);
        if self.sandboxes.get().is_none() {
            let scratch = self.around.building.create_scratch()?;
            let sandboxes = BuildSandboxes::open(scratch.path(), self.around.egress.clone());
            let _ = self.sandboxes.set((sandboxes.map_err(|error| fail(error.message))?, scratch));
        }
        let (sandboxes, _) = self.sandboxes.get().expect("it was just set");
        let ended = sandboxes.run(program).map_err(|error| fail(error.message))?;
        let added = match ended.code {
            Some(0) => layer
                .add_changes(&ended.changes(), &is_of_sandbox)
                .map_err(|error| fail(format!("the changes of `RUN` cannot be kept: {error}"))),
            Some(code) => {
                let note = ended.note.as_ref().map(|note| format!(" ({note})")).unwrap_or_default();
                Err(fail(format!("`{}` exited with {code}{note}{}", show(at.text), self.network_hint())))
            }
            None => Err(fail(format!(
                "`{}` did not end in {} minutes",
                show(at.text),
                BUILD_TIMEOUT.as_secs() / 60
            ))),
        };
        let destroyed = ended.destroy().map_err(|error| fail(error.message));
        added.and(destroyed)
    }

    /// Returns how to let programs reach the network, if they reach nothing.
    fn network_hint(&self) -> &'static str {
        let egress = &self.around.egress;
        if egress.internet || !egress.allowed_hosts.is_empty() {
            return "";
        }
        ": it reaches no network: allow hosts with `--allow-host`, or all with `--internet`"
    }
}
