//! The scripts of agents, in their objects: the generated class `KozeScripts` runs them and has their databases.
//!
//! Messages are JSON. A script's calls come back through a function that is passed to the object.

use std::pin::pin;

use futures_util::future::{Either, select};
use futures_util::{StreamExt, stream};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use worker::js_sys::{Function, JsString, Object, Promise, Reflect, Uint8Array};
use worker::wasm_bindgen::closure::Closure;
use worker::wasm_bindgen::{JsCast, JsValue};
use worker::wasm_bindgen_futures::JsFuture;
use worker::{Env, ObjectNamespace, Stub, console_error};

use super::waiting::Waiting;
use koze_core::error::{Code, Error, Result};
use koze_core::id::SessionId;
use koze_core::script::{
    Calls, Check, Egress, Exchange, Exchanged, Failure, Json, Query, Ran, SECRET_PREFIX, Secrets, Start, read,
};
use koze_core::time::millis;

pub(super) use koze_core::contract::SCRIPTS_BINDING as BINDING;

/// A client of the object with an agent's scripts.
#[derive(Debug)]
pub(super) struct Scripts {
    namespace: ObjectNamespace,
    agent: String,
}

/// What a script did, as the object says it.
#[derive(Deserialize)]
struct Done {
    result: std::result::Result<Value, Failure>,
    logs: Vec<String>,
}

/// The head of a response.
#[derive(Deserialize)]
struct Head {
    status: u16,
    headers: Vec<(String, String)>,
}

/// A call of a script that waits for its answer.
struct Asked {
    call: String,
    answer: Function,
}

impl Scripts {
    pub(super) fn new(namespace: Option<ObjectNamespace>, agent: &SessionId) -> Result<Self> {
        let Some(namespace) = namespace else { return Err(missing()) };
        Ok(Scripts { namespace, agent: agent.key() })
    }

    pub(super) async fn run(&self, start: &Start, calls: &impl Calls) -> Result<Ran> {
        let (sender, receiver) = unbounded_channel();
        let ask = Closure::<dyn Fn(String) -> Promise>::new(move |call: String| {
            // If the receiver is gone, the script has ended.
            Promise::new(&mut |answer, _| drop(sender.send(Asked { call: call.clone(), answer })))
        });
        let waiting = Waiting::new();
        let start = JsValue::from(encode(start)?);
        let input = [&start, ask.as_ref(), waiting.function()];
        let running = self.call("kozeRun", &input);
        let answering = answer(receiver, calls);
        let text = match select(pin!(running), pin!(answering)).await {
            Either::Left((done, _)) => done?,
            Either::Right(((), running)) => running.await?,
        };
        let Done { result, logs } = decode("kozeRun", &text)?;
        Ok(Ran { result, logs })
    }

    pub(super) async fn check(&self, check: &Check) -> Result<std::result::Result<(), Failure>> {
        let text = self.call("kozeCheck", &[&encode(check)?.into()]).await?;
        let failure: Option<Failure> = decode("kozeCheck", &text)?;
        Ok(failure.map_or(Ok(()), Err))
    }

    pub(super) async fn query(&self, query: Query) -> Result<Value> {
        let query = match query {
            Query::Sql { sql, params } => json!({ "sql": sql, "params": params }),
            Query::Schema => json!({}),
        };
        let text = self.call("kozeQuery", &[&query.to_string().into()]).await?;
        decode::<Result<Value>>("kozeQuery", &text)?
    }

    pub(super) async fn exchange(&self, egress: &Egress, exchange: Exchange) -> Result<Exchanged> {
        let Exchange { method, tls, host, port, target, headers, body, time, longest, .. } = exchange;
        let scheme = if tls { "https" } else { "http" };
        let sent = json!({
            "method": method, "url": format!("{scheme}://{host}:{port}{target}"), "headers": headers, "body": body,
            "time_ms": millis(time), "longest": longest, "egress": egress,
        });
        let waiting = Waiting::new();
        let sent = JsValue::from(sent.to_string());
        let reply = self.call("kozeFetch", &[&sent, waiting.function()]).await?;
        let field = |name: &str| Reflect::get(&reply, &JsValue::from_str(name)).unwrap_or_default();
        let Head { status, headers } = decode::<Result<Head>>("kozeFetch", &field("head"))??;
        let body = field("body").dyn_into::<Uint8Array>().map_err(|_| unexpected("kozeFetch"))?;
        Ok(Exchanged { status, headers, body: body.to_vec() })
    }

    /// Ends the browser of the agent.
    #[cfg(feature = "browser")]
    pub(super) async fn close_browser(&self) -> Result<()> {
        self.call("kozeCloseBrowser", &[]).await.map(drop)
    }

    /// Returns the object.
    pub(super) fn stub(&self) -> worker::Result<Stub> {
        self.namespace.get_by_name(&self.agent)
    }

    /// Calls a method of the object.
    async fn call(&self, method: &str, input: &[&JsValue]) -> Result<JsValue> {
        let failed = |error: JsValue| thrown(method, &error);
        let object: Object = self.stub().map_err(|error| failed(error.into()))?.into_rpc();
        // The property of a stub is a stub itself, which only a call on the object takes along.
        let function: Function =
            Reflect::get(&object, &JsString::from(method)).map_err(failed)?.unchecked_into();
        let list = input.iter().copied().collect();
        let promise = Reflect::apply(&function, &object, &list).map_err(failed)?;
        JsFuture::from(Promise::resolve(&promise)).await.map_err(failed)
    }
}

/// Answers the calls of a script until its end.
async fn answer(mut receiver: UnboundedReceiver<Asked>, calls: &impl Calls) {
    let asked = stream::poll_fn(|context| receiver.poll_recv(context));
    asked
        .for_each_concurrent(None, async |Asked { call, answer }| {
            let result = match Json::new(call) {
                Ok(call) => calls.answer(&call).await,
                Err(error) => Err(format!("the call is not JSON: {error}")),
            };
            let text = serde_json::to_string(&result)
                .unwrap_or_else(|error| json!({ "Err": error.to_string() }).to_string());
            // If this fails, the receiver is gone.
            let _ = answer.call1(&JsValue::UNDEFINED, &text.into());
        })
        .await;
}

/// Returns the secrets of scripts: the variables of the Worker that begin with `KOZE_SECRET_`.
pub(super) fn secrets(env: &Env) -> Secrets {
    let secret = |key: JsValue| {
        let name = key.as_string()?;
        let value = Reflect::get(env, &key).ok()?.as_string()?;
        Some((name.strip_prefix(SECRET_PREFIX).filter(|name| !name.is_empty())?.to_owned(), value))
    };
    let keys = Object::keys(env.unchecked_ref::<Object>());
    keys.iter().filter_map(secret).collect()
}

fn encode(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value)
        .map_err(|error| Error::new(Code::Internal, "the script cannot be sent").with_source(error))
}

fn decode<T: DeserializeOwned>(method: &str, reply: &JsValue) -> Result<T> {
    let text = reply.as_string().ok_or_else(|| unexpected(method))?;
    read(text.as_bytes()).map_err(|error| unexpected(method).with_source(error))
}

fn unexpected(method: &str) -> Error {
    let message = format!(
        "`{method}` of the class `KozeScripts` returned an unexpected answer: run `koze build`, and deploy again"
    );
    Error::new(Code::Internal, message)
}

/// Converts an exception of the platform. Its message may contain anything, so it goes only to the Worker's log.
fn thrown(method: &str, error: &JsValue) -> Error {
    let text = |key: &str| Reflect::get(error, &JsValue::from_str(key)).ok()?.as_string();
    console_error!("koze: {method} of an agent's object threw: {}", text("message").unwrap_or_default());
    let message = "the object that runs the agent's scripts ended, perhaps because the scripts together used more memory or \
                   time than the platform allows: try again, with less in one run";
    Error::new(Code::Unavailable, message)
}

fn missing() -> Error {
    let message = "this Worker does not run scripts: add `[package.metadata.koze.script]` to Cargo.toml, run `koze build`, and \
                   deploy";
    Error::new(Code::Unsupported, message)
}
