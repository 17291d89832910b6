//! Builds the stages of a Dockerfile without an engine: one layer an instruction, and each once.

use std::cell::{Cell, OnceCell};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use koze_image::{Building, Image, NewLayer, Progress, Reference, Scratch, StepKey, Store, Tree};
use parse_dockerfile::{
    AddInstruction, Command, CopyInstruction, Dockerfile, Flag, Instruction, RunInstruction, Source as From,
    UnescapedString,
};
use serde_json::{Map, Value, json};

use super::context::Context;
use super::copy::{Copied, Origin, Parents, find_items};
use super::failure::{Failure, Result};
use super::source::{self, Source};
use super::state::{State, find_value};
use super::words;
use super::{Report, support};
use crate::images::Recipe;
use crate::provider::{BUILD_TIMEOUT, BuildEgress, BuildProgram, BuildSandboxes, is_of_sandbox};

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

    /// Sets the working directory, and creates it if the image lacks it.
    fn set_directory(&self, state: &mut State, at: &At, directory: &str) -> Result<()> {
        let path = normalize(&state.working_dir(), directory);
        state.settings.insert("WorkingDir".to_owned(), json!(path));
        let layer = self.create_directory(state, at, &path)?;
        self.commit(state, at, layer)
    }

    /// Creates a directory in a layer. Returns `None` if the image has it.
    fn create_directory(&self, state: &State, at: &At, path: &str) -> Result<Option<NewLayer>> {
        let fail = |error: std::io::Error| self.source.failure(at.offset, format!("`{path}`: {error}"));
        let tree = self.around.building.open_tree(state.image.as_ref())?;
        let real = tree.resolve(Path::new(path)).map_err(fail)?;
        if real.as_os_str().is_empty() || tree.find(&real).map_err(fail)?.is_some() {
            return Ok(None);
        }
        let mut layer = self.around.building.new_layer()?;
        Parents::new(&tree).create(&mut layer, &real).map_err(fail)?;
        Ok(Some(layer))
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of `COPY` and of `ADD`, which are different types"
    )]
    fn copy(
        &mut self,
        state: &mut State,
        at: &At,
        index: usize,
        options: &[Flag],
        sources: &[From],
        target: &UnescapedString,
        unpacks: bool,
    ) -> Result<()> {
        let fail = |why: String| self.source.failure(at.offset, why);
        let option = |name: &str| {
            let flag = options.iter().find(|flag| flag.name.value == name)?;
            Some(flag.value.as_ref().map_or("", |value| value.value.as_ref()))
        };
        let mode = match option("chmod") {
            None => None,
            Some(text) => {
                let text = self.expand_in(state, at.offset, text)?;
                let wrong = || fail(format!("`--chmod={text}`: koze knows only octal modes, such as 755"));
                Some(u32::from_str_radix(&text, 8).ok().filter(|mode| *mode <= 0o7777).ok_or_else(wrong)?)
            }
        };
        let mut paths = Vec::new();
        let mut documents = Vec::new();
        for source in sources {
            match source {
                From::Path(path) => paths.push(self.expand_in(state, at.offset, &path.value)?),
                From::HereDoc(document) if document.expand => {
                    let lookup = |name: &str| state.find_variable(name);
                    documents.push(words::expand_text(&document.value, self.escape, &lookup).map_err(fail)?);
                }
                From::HereDoc(document) => documents.push(document.value.to_string()),
                _ => return Err(support::needs_engine(&self.source, at.offset, "this source")),
            }
        }
        let target = self.expand_in(state, at.offset, &target.value)?;
        let is_directory = target.ends_with('/') || target == "." || target.ends_with("/.");
        let mut target = normalize(&state.working_dir(), &target);
        if is_directory && !target.ends_with('/') {
            target.push('/');
        }
        let from = option("from").map(str::to_owned);
        let origin = match &from {
            None => Origin::Context(self.around.context),
            Some(name) => Origin::Image(self.open_origin(at.offset, name, index)?),
        };
        let fail = |why: String| self.source.failure(at.offset, why);
        let image = self.around.building.open_tree(state.image.as_ref())?;
        let items =
            find_items(Copied { origin, paths, documents, target, mode, unpacks }, &image).map_err(fail)?;
        let mut parts = vec![VERSION.into(), b"copy".to_vec(), id(state.image.as_ref()).into()];
        parts.extend(items.key_parts().map_err(|error| fail(error.to_string()))?);
        self.do_step(state, at, &StepKey::new(parts), |layer| {
            items.write(layer, &image).map_err(|error| fail(error.to_string()))
        })
    }

    /// Opens the files of an earlier stage, by its name or number, or of an image.
    fn open_origin(&mut self, offset: usize, name: &str, before: usize) -> Result<Tree> {
        let number = name.parse().ok().filter(|number| *number < before);
        let image = match self.find_stage(name, before).or(number) {
            Some(stage) => self.build_stage(stage)?,
            None => Some(self.find_image(offset, name)?),
        };
        Ok(self.around.building.open_tree(image.as_ref())?)
    }

    fn run(&self, state: &mut State, at: &At, run: &RunInstruction) -> Result<()> {
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

/// Returns an absolute path without `.` and `..`. Whether links change its meaning is decided in the image.
fn normalize(directory: &str, path: &str) -> String {
    let mut normal = PathBuf::from("/");
    for component in Path::new(directory).join(path).components() {
        match component {
            std::path::Component::Normal(name) => normal.push(name),
            std::path::Component::ParentDir => {
                normal.pop();
            }
            _ => {}
        }
    }
    normal.to_string_lossy().into_owned()
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
