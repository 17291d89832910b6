//! Answers the calls of a script: from the store and the database of its agent, and from the network.

use serde_json::Value;

use super::fetch::Fetches;
use super::injection::Injection;
use super::state::State;
#[cfg(feature = "browser")]
use super::wrong_arguments;
use super::{Call, Calls, Egress, Json, Query, browser};
use crate::contract::MAX_SAFE_INTEGER;
use crate::error::{Code, Error, Result};
use crate::provider::Provider;
use crate::session::Session;

/// Answers the calls of an agent's scripts.
pub(crate) struct Answers<'a, P: Provider> {
    session: &'a Session<P>,
    state: State<P::Store>,
    egress: &'a Egress,
    has_browser: bool,
    fetches: Fetches<'a>,
}

impl<'a, P: Provider> Answers<'a, P> {
    pub(crate) fn new(
        session: &'a Session<P>,
        store: P::Store,
        egress: &'a Egress,
        credentials: Injection<'a>,
    ) -> Self {
        let fetches = Fetches::new(credentials);
        Answers { session, state: State::new(store), egress, has_browser: false, fetches }
    }

    /// Sets whether scripts can use the browser of the agent.
    pub(crate) fn with_browser(self, has_browser: bool) -> Self {
        Answers { has_browser, ..self }
    }

    async fn answer_call(&self, call: Call) -> Result<Value> {
        let (provider, agent) = (self.session.provider(), self.session.agent());
        match call {
            Call::StateGet { key } => Ok(self.state.get(&key).await?.unwrap_or_default()),
            Call::StateSet { key, value } => {
                self.state.set(&key, &Json::from(&value)).await?;
                Ok(Value::Null)
            }
            Call::StateDelete { key } => Ok(self.state.delete(&key).await?.into()),
            Call::StateKeys { prefix } => Ok(self.state.list_keys(&prefix).await?.into()),
            Call::DbSql { sql, params } => {
                let answer = provider.script_query(agent, Query::Sql { sql, params }).await?;
                check_integers(&answer)?;
                Ok(answer)
            }
            Call::DbSchema {} => provider.script_query(agent, Query::Schema).await,
            Call::Fetch(fetch) => {
                // Boxed, because its state is large.
                let fetching = Box::pin(self.fetches.fetch(provider, agent, self.egress, fetch));
                fetching.await.map(Value::Object)
            }
            // Without a browser, scripts do not have the global, but could still send such a call.
            Call::Browser(_) if !self.has_browser => Err(browser::no_browser_error()),
            #[cfg(not(feature = "browser"))]
            Call::Browser(_) => Err(browser::unsupported_error()),
            #[cfg(feature = "browser")]
            Call::Browser(browse) => {
                let browse = serde_json::from_value(browse)
                    .map_err(|error| Error::new(Code::InvalidInput, wrong_arguments(&error)))?;
                Box::pin(browser::browse(self.session, self.egress, browse)).await
            }
        }
    }
}

/// Checks that a script can hold the integers of a query. It would round larger ones without an error.
fn check_integers(answer: &Value) -> Result<()> {
    let is_large =
        |value: &Value| value.as_i64().is_some_and(|number| number.unsigned_abs() > MAX_SAFE_INTEGER);
    for row in answer["rows"].as_array().into_iter().flatten() {
        if let Some(at) = row.as_array().and_then(|row| row.iter().position(is_large)) {
            let column = answer["columns"][at].as_str().unwrap_or_default();
            let message = format!(
                "column `{column}` contains an integer beyond 2^53, which a script would round: select it as \
                 CAST({column} AS TEXT)"
            );
            return Err(Error::new(Code::InvalidInput, message));
        }
    }
    Ok(())
}

impl<P: Provider> Calls for Answers<'_, P> {
    async fn call(&self, call: Call) -> std::result::Result<Value, String> {
        self.answer_call(call).await.map_err(|error| error.message)
    }
}
