//! Tools that are bound to a session or to one sandbox, as values.

use std::fmt;

use serde_json::Value;

use super::dialect::Definition;
use super::{All, Catalog, Family, Input, Reply, Scope, ToolResult, unknown_tool};
use crate::error::{Code, Error, Result};
use crate::handle::Handle;
use crate::provider::Provider;
use crate::session::Session;

/// A tool bound to the sandboxes of a session ([`Session::tools`], [`Session::toolset`]) or to one of them
/// ([`Handle::tool`]).
pub struct BoundTool<P: Provider> {
    session: Session<P>,
    sandbox: Option<Handle<P>>,
    catalog: Catalog<All>,
    definition: Definition,
}

/// The key that tools bound to one sandbox omit.
const SANDBOX: &str = "sandbox";

impl<P: Provider> Session<P> {
    /// Returns the definitions of the project's default toolset; none if it has no default. See [`Catalog::select`].
    pub fn definitions(&self) -> Vec<Definition> {
        let catalog = Catalog::<All>::select(self.profiles(), None);
        catalog.map(|catalog| catalog.definitions(self.profiles())).unwrap_or_default()
    }

    /// Calls a tool of the project's default toolset. The input is a model's: data, whatever it looks like.
    pub async fn call_tool(&self, name: &str, input: impl Into<Input>) -> ToolResult {
        match Catalog::<All>::select(self.profiles(), None) {
            Ok(catalog) => catalog.call(self, name, input).await.into(),
            Err(error) => Err(error).into(),
        }
    }

    /// Returns the tools of the project's default toolset, bound to this session; none if it has no default.
    pub fn tools(&self) -> Vec<BoundTool<P>> {
        let catalog = Catalog::select(self.profiles(), None);
        catalog.map(|catalog| bind_tools(self, &catalog)).unwrap_or_default()
    }

    /// Returns the tools of a toolset, bound to this session: `thread`, or several families, separated by commas.
    ///
    /// # Errors
    /// As [`Catalog::select`].
    pub fn toolset(&self, toolset: &str) -> Result<Vec<BoundTool<P>>> {
        Ok(bind_tools(self, &Catalog::select(self.profiles(), Some(toolset))?))
    }
}

fn bind_tools<P: Provider>(session: &Session<P>, catalog: &Catalog<All>) -> Vec<BoundTool<P>> {
    let bound = |definition| BoundTool {
        session: session.clone(),
        sandbox: None,
        catalog: catalog.clone(),
        definition,
    };
    catalog.definitions(session.profiles()).into_iter().map(bound).collect()
}

impl<P: Provider> Handle<P> {
    /// Returns a tool of the family `agent` that is bound to this sandbox: `shell`, `read_file`, `write_file`, `glob`
    /// or `browse`.
    ///
    /// # Errors
    /// [`Code::UnknownTool`] for any other name, or if no sandbox of the project serves the family.
    pub fn tool(&self, name: &str) -> Result<BoundTool<P>> {
        // Tools of other families work on sandboxes of their own.
        let catalog = Catalog::<All>::new([Family::Agent])?;
        let session = self.session().clone();
        let mut all = catalog.definitions(session.profiles());
        all.retain(|definition| definition.scope == Scope::Sandbox);
        let Some(index) = all.iter().position(|definition| definition.name == name) else {
            let names: Vec<&str> = all.iter().map(|definition| &*definition.name).collect();
            return Err(unknown_tool(name, &names));
        };
        let mut definition = all.swap_remove(index);
        if let Some(properties) = definition.schema.pointer_mut("/properties").and_then(Value::as_object_mut)
        {
            properties.shift_remove(SANDBOX);
        }
        Ok(BoundTool { session, sandbox: Some(self.clone()), catalog, definition })
    }
}

impl<P: Provider> BoundTool<P> {
    /// Returns its definition for models.
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// Calls it with a model's input.
    pub async fn call(&self, input: impl Into<Input>) -> ToolResult {
        match self.add_sandbox_name(input.into()) {
            Ok(input) => self.catalog.call(&self.session, &self.definition.name, input).await.into(),
            Err(error) => Err::<Reply, _>(error).into(),
        }
    }

    /// Adds the sandbox's name to the input if the tool is bound to one.
    fn add_sandbox_name(&self, mut input: Input) -> Result<Input> {
        let Some(handle) = &self.sandbox else { return Ok(input) };
        handle.sandbox()?;
        if input.take_member(SANDBOX).is_some() {
            let message = "unknown field `sandbox`: this tool is bound to one sandbox";
            return Err(Error::new(Code::InvalidInput, message));
        }
        // What is not an object is refused by the tool.
        input.insert_member(SANDBOX, handle.name().as_str());
        Ok(input)
    }
}

impl<P: Provider> fmt::Debug for BoundTool<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoundTool")
            .field("name", &self.definition.name)
            .field("sandbox", &self.sandbox)
            .finish_non_exhaustive()
    }
}
