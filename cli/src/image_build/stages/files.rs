//! Instructions that change files: `WORKDIR`, `COPY` and `ADD`.

use std::path::{Path, PathBuf};

use koze_image::{NewLayer, StepKey, Tree};
use parse_dockerfile::{Flag, Source as From, UnescapedString};
use serde_json::json;

use super::{At, Run, VERSION, id};
use crate::image_build::copy::{Copied, Origin, Parents, find_items};
use crate::image_build::failure::Result;
use crate::image_build::state::State;
use crate::image_build::{support, words};

impl Run<'_, '_> {
    /// Sets the working directory, and creates it if the image lacks it.
    pub(super) fn set_directory(&self, state: &mut State, at: &At, directory: &str) -> Result<()> {
        let path = normalize(&state.working_dir(), directory);
        state.settings.insert("WorkingDir".to_owned(), json!(path));
        let layer = self.create_directory(state, at, &path)?;
        self.commit(state, at, layer)
    }

    /// Creates a directory in a layer. Returns `None` if the image has it.
    pub(super) fn create_directory(&self, state: &State, at: &At, path: &str) -> Result<Option<NewLayer>> {
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

    /// Copies files into a layer.
    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of `COPY` and of `ADD`, which are different types"
    )]
    pub(super) fn copy(
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
