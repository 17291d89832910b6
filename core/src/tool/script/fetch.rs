//! `fetch_url`.

use std::collections::BTreeMap;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::Result;
use crate::provider::Provider;
use crate::script::fetch::Fetches;
use crate::script::{Fetch, Method};
use crate::session::Session;
use crate::tool::{Reply, Scope, Tool};

pub(super) struct FetchUrl;

/// The input of `fetch_url`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    /// The URL, with `https:` or `http:`.
    url: String,
    /// The method.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "Methods"))]
    method: Method,
    /// The headers, by name.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// The body, for methods other than GET and HEAD. At most 2 MiB.
    #[serde(default)]
    body: Option<String>,
    /// The milliseconds until the response must be complete, at most 30000.
    #[serde(default = "default_timeout")]
    #[cfg_attr(test, schemars(range(min = 1, max = 30000)))]
    timeout: u64,
}

/// The methods in the schema, without their default.
#[cfg(test)]
#[derive(JsonSchema)]
#[schemars(rename_all = "UPPERCASE", inline)]
#[expect(dead_code, reason = "only its schema is used")]
enum Methods {
    Get,
    Post,
    Put,
    Patch,
    Delete,
    Head,
}

fn default_timeout() -> u64 {
    30_000
}

impl Tool for FetchUrl {
    const NAME: &'static str = "fetch_url";
    const DESCRIPTION: &'static str = "Send an HTTP request to a host that the project allows for scripts. Returns ok, status, url (after up to \
        10 redirects), headers and body, as text of at most 2 MiB. Private and local addresses are refused. To extract a part of a \
        long response, use fetch in run_sandbox_code.";
    const SCOPE: Scope = Scope::Session;
    type Input = Input;

    async fn call<P: Provider>(session: &Session<P>, input: Input) -> Result<Reply> {
        let Input { url, method, headers, body, timeout } = input;
        let fetch = Fetch { url, method, headers, body, timeout };
        let egress = session.profiles().script_egress().cloned().unwrap_or_default();
        let secrets = session.provider().script_secrets(session.agent())?;
        let credentials = session.profiles().script_credentials();
        let fetches = Fetches::new(credentials.with_values(session.agent(), &secrets));
        // Boxed, because its state is large.
        let fetching = Box::pin(fetches.fetch(session.provider(), session.agent(), &egress, fetch));
        let response = fetching.await?;
        let ok =
            response.get("status").and_then(Value::as_u64).is_some_and(|status| (200..300).contains(&status));
        let mut fields = json!({ "ok": ok });
        if let Value::Object(fields) = &mut fields {
            fields.extend(response);
        }
        Reply::ok(fields)
    }
}
