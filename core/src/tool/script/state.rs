//! `get_state`, `set_state`, `delete_state` and `list_state_keys`.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::error::Result;
use crate::provider::Provider;
use crate::script::Json;
use crate::script::state::State;
use crate::session::Session;
use crate::tool::{Reply, Scope, Tool};

pub(super) struct GetState;
pub(super) struct SetState;
pub(super) struct DeleteState;
pub(super) struct ListStateKeys;

/// The input of `get_state` and `delete_state`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Named {
    /// The key.
    key: String,
}

/// The input of `set_state`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Set {
    /// The key: 1 to 256 bytes.
    key: String,
    /// Any JSON value of at most 1 MiB.
    #[cfg_attr(test, schemars(with = "serde_json::Value"))]
    value: Json,
}

/// The input of `list_state_keys`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Prefix {
    /// The text that the keys start with.
    #[serde(default)]
    prefix: String,
}

impl Tool for GetState {
    const NAME: &'static str = "get_state";
    const DESCRIPTION: &'static str = "Read a value of the state that scripts use as state.get(key). Returns exists, and value, which is null if the key is not set.";
    const SCOPE: Scope = Scope::Session;
    type Input = Named;

    async fn call<P: Provider>(session: &Session<P>, input: Named) -> Result<Reply> {
        let value = State::new(session.agent_store()?).get(&input.key).await?;
        Reply::ok(json!({ "exists": value.is_some(), "value": value }))
    }
}

impl Tool for SetState {
    const NAME: &'static str = "set_state";
    const DESCRIPTION: &'static str = "Write a value of the state, which is kept between runs. Scripts use the same data as state.set(key, value).";
    const SCOPE: Scope = Scope::Session;
    type Input = Set;

    async fn call<P: Provider>(session: &Session<P>, input: Set) -> Result<Reply> {
        State::new(session.agent_store()?).set(&input.key, &input.value).await?;
        Reply::ok(json!({ "ok": true }))
    }
}

impl Tool for DeleteState {
    const NAME: &'static str = "delete_state";
    const DESCRIPTION: &'static str = "Delete a value of the state. Returns deleted: whether it existed.";
    const SCOPE: Scope = Scope::Session;
    type Input = Named;

    async fn call<P: Provider>(session: &Session<P>, input: Named) -> Result<Reply> {
        let deleted = State::new(session.agent_store()?).delete(&input.key).await?;
        Reply::ok(json!({ "deleted": deleted }))
    }
}

impl Tool for ListStateKeys {
    const NAME: &'static str = "list_state_keys";
    const DESCRIPTION: &'static str =
        "List the keys of the state that start with a text, sorted. Returns keys, at most 10000.";
    const SCOPE: Scope = Scope::Session;
    type Input = Prefix;

    async fn call<P: Provider>(session: &Session<P>, input: Prefix) -> Result<Reply> {
        let keys = State::new(session.agent_store()?).list_keys(&input.prefix).await?;
        Reply::ok(json!({ "keys": keys }))
    }
}
