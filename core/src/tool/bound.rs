//! Tools that are bound to a session or to one sandbox, as values.

use std::fmt;

use serde_json::Value;

use super::dialect::Definition;
use super::{Reply, Scope, ToolResult, unknown_tool};
use crate::error::{Code, Error, Result};
use crate::handle::Handle;
use crate::provider::Provider;
use crate::session::Session;

/// A tool bound to the sandboxes of a session ([`Session::tools`]) or to one of them ([`Handle::tool`]).
pub struct BoundTool<P: Provider> {
    session: Session<P>,
    sandbox: Option<Handle<P>>,
    definition: Definition,
}

/// The key that tools bound to one sandbox omit.
const SANDBOX: &str = "sandbox";

impl<P: Provider> BoundTool<P> {
    pub(crate) fn all(session: &Session<P>) -> Vec<Self> {
        let bound = |definition| BoundTool { session: session.clone(), sandbox: None, definition };
        session.definitions().into_iter().map(bound).collect()
    }

    pub(crate) fn of_sandbox(sandbox: Handle<P>, name: &str) -> Result<Self> {
        let session = sandbox.session().clone();
        let mut all = session.definitions();
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
        Ok(BoundTool { session, sandbox: Some(sandbox), definition })
    }

    /// Returns its definition for models.
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// Calls it with a model's input.
    pub async fn call(&self, input: Value) -> ToolResult {
        match self.complete(input) {
            Ok(input) => self.session.call_tool(&self.definition.name, input).await,
            Err(error) => Err::<Reply, _>(error).into(),
        }
    }

    /// Adds the sandbox's name to the input if the tool is bound to one.
    fn complete(&self, mut input: Value) -> Result<Value> {
        let Some(handle) = &self.sandbox else { return Ok(input) };
        handle.sandbox()?;
        if let Some(fields) = input.as_object_mut() {
            let name = Value::from(handle.name().as_str());
            if fields.insert(SANDBOX.to_owned(), name).is_some() {
                let message = "unknown field `sandbox`: this tool is bound to one sandbox";
                return Err(Error::new(Code::InvalidInput, message));
            }
        }
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
