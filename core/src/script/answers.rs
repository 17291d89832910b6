//! Answers the calls of a script from the store of its agent.

use serde_json::Value;

use super::state::State;
use super::{Call, Calls};
use crate::error::{Code, Error, Result};
use crate::store::Store;

/// Answers the calls of an agent's scripts.
pub(crate) struct Answers<S> {
    state: State<S>,
}

impl<S: Store> Answers<S> {
    pub(crate) fn new(store: S) -> Self {
        Answers { state: State::new(store) }
    }

    async fn answer(&self, call: Call) -> Result<Value> {
        match call {
            Call::StateGet { key } => Ok(self.state.get(&key).await?.unwrap_or_default()),
            Call::StateSet { key, value } => {
                self.state.set(&key, &value).await?;
                Ok(Value::Null)
            }
            Call::StateDelete { key } => Ok(self.state.delete(&key).await?.into()),
            Call::StateKeys { prefix } => Ok(self.state.keys(&prefix).await?.into()),
            Call::DbSql { .. } | Call::DbSchema => Err(missing("db")),
            Call::Fetch(_) => Err(missing("fetch")),
        }
    }
}

fn missing(what: &str) -> Error {
    Error::new(Code::Unsupported, format!("`{what}` is not part of this version of koze"))
}

impl<S: Store> Calls for Answers<S> {
    async fn call(&self, call: Call) -> std::result::Result<Value, String> {
        self.answer(call).await.map_err(|error| error.message)
    }
}
