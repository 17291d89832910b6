//! Builds the stages of a Dockerfile without an engine: one layer an instruction, and each once.

use std::cell::{Cell, OnceCell};
use std::collections::HashMap;

use koze_image::{Building, Image, NewLayer, Progress, Reference, Scratch, StepKey, Store};
use parse_dockerfile::{AddInstruction, Command, CopyInstruction, Dockerfile, Instruction, UnescapedString};
use serde_json::{Map, json};

use super::context::Context;
use super::failure::{Failure, Result};
use super::source::{self, Source};
use super::state::{State, find_value};
use super::words;
use super::{Report, support};
use crate::images::Recipe;
use crate::provider::{BuildEgress, BuildSandboxes};

mod files;
mod programs;

/// Changes when the same instruction leads to another layer.
const VERSION: &str = "koze 1";
/// The base without files.
const SCRATCH: &str = "scratch";
/// The maximum length of an instruction in messages.
const SHOWN: usize = 120;

/// A build without an engine.
pub(super) struct Stages<'a> {
    pub(super) store: &'a Store,
    pub(super) building: &'a Building<'a>,
    pub(super) recipe: &'a Recipe,
    pub(super) context: &'a Context,
    pub(super) egress: BuildEgress,
    /// Whether to repeat steps that were done before.
    pub(super) force: bool,
    pub(super) report: &'a Report<'a>,
    pub(super) progress: &'a Progress<'a>,
}

/// A Dockerfile that is being built.
struct Run<'a, 't> {
    around: &'a Stages<'a>,
    source: Source<'a>,
    dockerfile: &'a Dockerfile<'t>,
    /// The stages: the index of the first instruction and of the one after the last.
    stages: Vec<(usize, usize)>,
    escape: char,
    /// The arguments before the first stage.
    globals: Vec<(String, String)>,
    /// The stages that are complete.
    built: HashMap<usize, Option<Image>>,
    sandboxes: OnceCell<(BuildSandboxes, Scratch)>,
    /// Whether a step was not done before.
    is_new: Cell<bool>,
}

/// An instruction that is being done.
struct At<'a> {
    offset: usize,
    /// Its text.
    text: &'a str,
}

impl Stages<'_> {
    /// Builds the last stage, and what it needs. Returns the image, and whether anything was not done before.
    pub(super) fn build(&self) -> Result<(Image, bool)> {
        let source = Source { shown: &self.context.shown, text: &self.context.text };
        let dockerfile = parse_dockerfile::parse(source.text)
            .map_err(|error| Failure::new(format!("{}:{}: {error}", source.shown, error.line())))?;
        support::check(&source, &dockerfile)?;
        let escape = dockerfile.parser_directives.escape.as_ref().map_or('\\', |escape| escape.value.value);
        let starts: Vec<_> = dockerfile
            .instructions
            .iter()
            .enumerate()
            .filter(|(_, instruction)| matches!(instruction, Instruction::From(_)))
            .map(|(index, _)| index)
            .collect();
        let ends = starts.iter().skip(1).copied().chain([dockerfile.instructions.len()]);
        let mut run = Run {
            around: self,
            source,
            dockerfile: &dockerfile,
            stages: starts.iter().copied().zip(ends).collect(),
            escape,
            globals: platform_arguments(),
            built: HashMap::new(),
            sandboxes: OnceCell::new(),
            is_new: Cell::new(false),
        };
        run.read_globals()?;
        let last = run.stages.len() - 1;
        let image = match run.build_stage(last)? {
            Some(image) => image,
            None => self.building.commit(None, None, Map::new(), "FROM scratch")?,
        };
        Ok((image, run.is_new.get()))
    }
}

impl Run<'_, '_> {
    /// Reads the arguments before the first stage.
    fn read_globals(&mut self) -> Result<()> {
        for arg in self.dockerfile.global_args() {
            let offset = arg.arg.span.start;
            for word in words::split(&arg.arguments.value, self.escape) {
                let globals = self.globals.clone();
                let lookup = |name: &str| find_value(&globals, name);
                let (name, default) = self.read_argument(offset, &word, &lookup)?;
                if let Some(value) = self.given(&name).or(default) {
                    self.globals.push((name, value));
                }
            }
        }
        Ok(())
    }

    /// Returns the value of a build argument.
    fn given(&self, name: &str) -> Option<String> {
        find_value(&self.around.recipe.vars, name)
    }

    /// Parses `NAME` or `NAME=DEFAULT`.
    fn read_argument(
        &self,
        offset: usize,
        word: &str,
        lookup: &words::Lookup,
    ) -> Result<(String, Option<String>)> {
        let (name, default) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
        let default = default.map(|value| self.expand(offset, value, lookup)).transpose()?;
        Ok((name.to_owned(), default))
    }

    fn expand(&self, offset: usize, word: &str, lookup: &words::Lookup) -> Result<String> {
        words::expand(word, self.escape, lookup).map_err(|why| self.source.failure(offset, why))
    }

    /// Builds a stage, unless it is built.
    fn build_stage(&mut self, index: usize) -> Result<Option<Image>> {
        if let Some(image) = self.built.get(&index) {
            return Ok(image.clone());
        }
        let (start, end) = self.stages[index];
        let dockerfile = self.dockerfile;
        let mut state = self.begin_stage(index)?;
        for position in start + 1..end {
            let instruction = &dockerfile.instructions[position];
            let offset = source::start(instruction);
            let next =
                dockerfile.instructions.get(position + 1).map_or(self.source.text.len(), source::start);
            let text = self.source.text.get(offset..next).unwrap_or_default();
            let at = At { offset, text: trim_instruction(text) };
            self.do_instruction(&mut state, instruction, &at, index)?;
        }
        self.built.insert(index, state.image.clone());
        Ok(state.image)
    }

    /// Begins a stage with its base: an earlier stage, nothing, or an image of the store or of a registry.
    fn begin_stage(&mut self, index: usize) -> Result<State> {
        let Instruction::From(from) = &self.dockerfile.instructions[self.stages[index].0] else {
            unreachable!("stages begin with `FROM`")
        };
        let offset = from.from.span.start;
        let globals = self.globals.clone();
        let name = self.expand(offset, &from.image.value, &|name| find_value(&globals, name))?;
        let image = match self.find_stage(&name, index) {
            Some(stage) => self.build_stage(stage)?,
            None if name == SCRATCH => None,
            None => Some(self.find_image(offset, &name)?),
        };
        let settings = match &image {
            Some(image) => self.around.building.settings(image)?,
            None => Map::new(),
        };
        if settings
            .get("OnBuild")
            .is_some_and(|triggers| triggers.as_array().is_some_and(|all| !all.is_empty()))
        {
            return Err(support::needs_engine(
                &self.source,
                offset,
                "on an image with `ONBUILD` instructions",
            ));
        }
        Ok(State::new(image, settings))
    }

    /// Finds an earlier stage by its name.
    fn find_stage(&self, name: &str, before: usize) -> Option<usize> {
        (0..before).rev().find(|index| {
            let Instruction::From(from) = &self.dockerfile.instructions[self.stages[*index].0] else {
                return false;
            };
            from.as_.as_ref().is_some_and(|(_, of)| of.value.eq_ignore_ascii_case(name))
        })
    }

    /// Returns an image of the store, or pulls it.
    fn find_image(&self, offset: usize, name: &str) -> Result<Image> {
        let reference: Reference = name.parse().map_err(|error| {
            self.source.failure(
                offset,
                format!("`{}` is not the reference of an image: {error}", name.escape_debug()),
            )
        })?;
        let Stages { store, progress, report, .. } = self.around;
        if let Some(image) = store.find(&reference)? {
            return Ok(image);
        }
        report(&format!("pulling {reference}"));
        store.pull(&reference, progress).map_err(|error| self.source.failure(offset, error))
    }

    /// Does one instruction of a stage.
    fn do_instruction(
        &mut self,
        state: &mut State,
        instruction: &Instruction,
        at: &At,
        index: usize,
    ) -> Result<()> {
        let offset = at.offset;
        let expand = |word: &UnescapedString, state: &State| self.expand_in(state, offset, &word.value);
        match instruction {
            Instruction::Arg(arg) => return self.declare_arguments(state, offset, &arg.arguments.value),
            Instruction::Env(env) => {
                for (name, value) in self.read_pairs(state, offset, &env.arguments.value)? {
                    state.set_variable(&name, &value);
                }
            }
            Instruction::Label(label) => {
                let pairs = self.read_pairs(state, offset, &label.arguments.value)?;
                let labels = state.section("Labels");
                labels.extend(pairs.into_iter().map(|(name, value)| (name, json!(value))));
            }
            Instruction::Expose(expose) => {
                for port in &expose.arguments {
                    let port = expand(port, state)?;
                    let port = if port.contains('/') { port } else { format!("{port}/tcp") };
                    state.section("ExposedPorts").insert(port, json!({}));
                }
            }
            Instruction::User(user) => {
                let user = expand(&user.arguments, state)?;
                state.settings.insert("User".to_owned(), json!(user));
            }
            Instruction::Shell(shell) => {
                let words: Vec<_> = shell.arguments.iter().map(|word| word.value.as_ref()).collect();
                state.settings.insert("Shell".to_owned(), json!(words));
            }
            Instruction::Cmd(cmd) => {
                let command = self.to_argv(state, &cmd.arguments);
                state.settings.insert("Cmd".to_owned(), json!(command));
                state.has_command = true;
            }
            Instruction::Entrypoint(entrypoint) => {
                let command = self.to_argv(state, &entrypoint.arguments);
                state.settings.insert("Entrypoint".to_owned(), json!(command));
                if !state.has_command {
                    state.settings.remove("Cmd");
                }
            }
            Instruction::Workdir(workdir) => {
                let directory = expand(&workdir.arguments, state)?;
                return self.set_directory(state, at, &directory);
            }
            Instruction::Copy(CopyInstruction { options, src, dest, .. }) => {
                return self.copy(state, at, index, options, src, dest, false);
            }
            Instruction::Add(AddInstruction { options, src, dest, .. }) => {
                return self.copy(state, at, index, options, src, dest, true);
            }
            Instruction::Run(run) => return self.run(state, at, run),
            _ => return Err(support::needs_engine(&self.source, offset, "this instruction")),
        }
        self.commit(state, at, None)
    }

    /// Replaces the variables of a stage in a word.
    fn expand_in(&self, state: &State, offset: usize, word: &str) -> Result<String> {
        self.expand(offset, word, &|name| state.find_variable(name))
    }

    fn declare_arguments(&self, state: &mut State, offset: usize, text: &str) -> Result<()> {
        for word in words::split(text, self.escape) {
            let lookup = |name: &str| state.find_variable(name);
            let (name, default) = self.read_argument(offset, &word, &lookup)?;
            let value = self.given(&name).or(default).or_else(|| find_value(&self.globals, &name));
            state.args.retain(|(other, _)| *other != name);
            state.args.extend(value.map(|value| (name, value)));
        }
        Ok(())
    }

    /// Parses `NAME=VALUE …`, or the older form `NAME VALUE`.
    fn read_pairs(&self, state: &State, offset: usize, text: &str) -> Result<Vec<(String, String)>> {
        let all = words::split(text, self.escape);
        if let Some(name) = all.first().filter(|word| !word.contains('=')) {
            let value = text.trim_start().strip_prefix(name.as_str()).unwrap_or_default().trim();
            if value.is_empty() {
                return Err(self.source.failure(offset, format!("`{}` has no value", name.escape_debug())));
            }
            return Ok(vec![(name.clone(), self.expand_in(state, offset, value)?)]);
        }
        let pair = |word: &String| {
            let (name, value) = word.split_once('=').ok_or_else(|| {
                self.source.failure(offset, format!("`{}` must be NAME=VALUE", word.escape_debug()))
            })?;
            Ok((self.expand_in(state, offset, name)?, self.expand_in(state, offset, value)?))
        };
        all.iter().map(pair).collect()
    }

    /// Returns a command as a list. A text is one for the shell.
    fn to_argv(&self, state: &State, command: &Command) -> Vec<String> {
        match command {
            Command::Exec(words) => words.value.iter().map(|word| word.value.to_string()).collect(),
            Command::Shell(text) => state.to_shell_argv(words::join_lines(text.value, self.escape)),
            _ => Vec::new(),
        }
    }

    /// Does a step that adds a layer, unless it was done before.
    fn do_step(
        &self,
        state: &mut State,
        at: &At,
        key: &StepKey,
        fill: impl FnOnce(&mut NewLayer) -> Result<()>,
    ) -> Result<()> {
        let Stages { building, force, report, .. } = self.around;
        let shown = show(at.text);
        if !force && let Some(image) = building.find_step(key)? {
            report(&format!("done before: {shown}"));
            state.image = Some(image);
            return Ok(());
        }
        report(&shown);
        self.is_new.set(true);
        let mut layer = building.new_layer()?;
        fill(&mut layer)?;
        self.commit(state, at, Some(layer))?;
        if let Some(image) = &state.image {
            building.record_step(key, image)?;
        }
        Ok(())
    }

    fn commit(&self, state: &mut State, at: &At, layer: Option<NewLayer>) -> Result<()> {
        let settings = state.settings.clone();
        let image = self.around.building.commit(state.image.as_ref(), layer, settings, at.text);
        state.image = Some(image.map_err(|error| self.source.failure(at.offset, error))?);
        Ok(())
    }
}

/// Returns the arguments that every Dockerfile may use.
fn platform_arguments() -> Vec<(String, String)> {
    let architecture = koze_image::architecture();
    let platform = format!("linux/{architecture}");
    let of = |prefix: &str| {
        [
            (format!("{prefix}PLATFORM"), platform.clone()),
            (format!("{prefix}OS"), "linux".to_owned()),
            (format!("{prefix}ARCH"), architecture.to_owned()),
        ]
    };
    [of("TARGET"), of("BUILD")].concat()
}

/// Returns the ID of an image for a key.
fn id(image: Option<&Image>) -> &str {
    image.map_or(SCRATCH, |image| &image.id)
}

/// Returns an instruction without the comments and empty lines before the next one.
fn trim_instruction(text: &str) -> &str {
    let mut text = text.trim_end();
    while let Some((before, last)) = text.rsplit_once('\n') {
        if !last.trim_start().starts_with('#') {
            break;
        }
        text = before.trim_end();
    }
    text
}

/// Returns the start of an instruction, on one line.
fn show(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= SHOWN {
        return line;
    }
    format!("{}…", line.chars().take(SHOWN).collect::<String>())
}
