//! Answers the calls of a script from the store and the database of its agent.

use serde_json::Value;

use super::state::State;
use super::{Call, Calls, Query};
use crate::error::{Code, Error, Result};
use crate::id::SessionId;
use crate::provider::Provider;

/// Answers the calls of an agent's scripts.
pub(crate) struct Answers<'a, P: Provider> {
    provider: &'a P,
    agent: &'a SessionId,
    state: State<P::Store>,
}

impl<'a, P: Provider> Answers<'a, P> {
    pub(crate) fn new(provider: &'a P, agent: &'a SessionId, store: P::Store) -> Self {
        Answers { provider, agent, state: State::new(store) }
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
            Call::DbSql { sql, params } => {
                self.provider.script_query(self.agent, Query::Sql { sql, params }).await
            }
            Call::DbSchema => self.provider.script_query(self.agent, Query::Schema).await,
            Call::Fetch(_) => {
                Err(Error::new(Code::Unsupported, "`fetch` is not part of this version of koze"))
            }
        }
    }
}

impl<P: Provider> Calls for Answers<'_, P> {
    async fn call(&self, call: Call) -> std::result::Result<Value, String> {
        self.answer(call).await.map_err(|error| error.message)
    }
}
