//! Calls the Durable Object of a sandbox through its contract.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, LocalBoxFuture, select};
use serde::de::DeserializeOwned;
use worker::js_sys::{Promise, Reflect};
use worker::wasm_bindgen::{JsCast, JsValue};
use worker::wasm_bindgen_futures::JsFuture;
use worker::{ObjectNamespace, console_error, js_sys};

use self::reply::Fields;
use super::call::{Call, Remote, Sent};
use super::contract::{Failure, Reason};
use koze_core::error::{Code, Error, Result};
use koze_core::time::{millis, now, sleep};

/// The timeout of a call that runs no program. It includes the start of a container.
pub(super) const WITHIN: Duration = Duration::from_mins(1);

/// The first and the longest wait between retries.
pub(super) const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// The operations that a class may lack, because the same can be done file by file.
const OPTIONAL: [&str; 4] = ["pack", "unpack", "archive", "search"];

/// A Durable Object, addressed by name. Each call uses a new stub, because a stub that has lost its object stays
/// broken.
#[derive(Debug, Clone)]
pub(super) struct Object {
    namespace: ObjectNamespace,
    name: String,
}

/// Why a call returned no value.
#[derive(Debug, PartialEq)]
pub(super) enum Refused {
    /// The sandbox is not open: open it, and call again.
    Unopened,
    /// The class does not support streams, or not of this kind, or archives or searches.
    Unstreamed,
    /// Nothing was done, but the stream is consumed: start over.
    Retry(Error),
    /// An error for the caller.
    Error(Error),
}

/// The result of a call.
pub(super) type Answer<T> = std::result::Result<T, Refused>;

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Unopened => Error::new(Code::NotFound, "the sandbox was destroyed"),
            Refused::Unstreamed => Error::new(Code::Unsupported, "the sandbox does not support streams"),
            Refused::Retry(error) | Refused::Error(error) => error,
        }
    }
}

impl Object {
    /// Addresses an object by name. It need not exist.
    pub(super) fn new(namespace: ObjectNamespace, name: impl Into<String>) -> Self {
        Object { namespace, name: name.into() }
    }

    /// Returns a new stub.
    pub(super) fn stub(&self) -> Result<worker::Stub> {
        self.namespace.get_by_name(&self.name).map_err(|error| thrown("get", &error.into()))
    }

    /// Calls a method, as [`send`](Object::send), and decodes its answer.
    pub(super) async fn call<T: DeserializeOwned>(&self, call: Answer<Call<T>>) -> Answer<T> {
        let call = call?;
        call.decode(self.send(&call.sent).await?)
    }

    /// Sends a call, and retries with backoff until it succeeds, fails permanently or times out.
    ///
    /// The future is boxed, so that a Worker contains its code once: the compiler copies that of an `async fn` into every
    /// crate that awaits it.
    pub(super) fn send<'a>(&'a self, call: &'a Sent) -> LocalBoxFuture<'a, Answer<JsValue>> {
        Box::pin(self.until_answered(call))
    }

    async fn until_answered(&self, call: &Sent) -> Answer<JsValue> {
        let operation = call.operation;
        let until = now().saturating_add(millis(call.within));
        let mut wait = BACKOFF.0;
        loop {
            let left = Duration::from_millis(until.saturating_sub(now()));
            let reply = self.once(call, left).await?;
            let Failure { code, message, retryable } = match outcome(operation, &reply)? {
                Ok(value) => return Ok(value),
                Err(failure) => failure,
            };
            let code = match code {
                Reason::Unopened(_) => return Err(Refused::Unopened),
                Reason::Unstreamed(_) => return Err(Refused::Unstreamed),
                Reason::Code(code) => code,
            };
            if retryable && call.has_stream {
                return Err(Refused::Retry(Error::new(code, message)));
            }
            if !retryable || now().saturating_add(millis(wait)) >= until {
                return Err(Refused::Error(Error::new(code, message)));
            }
            sleep(jittered(wait)).await;
            wait = (wait * 2).min(BACKOFF.1);
        }
    }

    async fn once(&self, call: &Sent, within: Duration) -> Answer<JsValue> {
        match self.resolve(call, Sent::send, within).await? {
            // While a deployment is rolled out, the object may be of an older version.
            Err(error) if !call.has_stream && message_of(&error).contains(NO_METHOD) => {
                self.resolve(call, Sent::send_to_own_method, within).await?
            }
            reply => reply,
        }
        .map_err(|error| refused(call.operation, &error))
    }

    /// Sends a call, and waits for its reply or exception.
    async fn resolve(&self, call: &Sent, send: Send, within: Duration) -> Answer<Thrown<JsValue>> {
        let remote: Remote = self.stub().map_err(Refused::Error)?.into_rpc();
        let promise = match send(call, &remote) {
            Ok(promise) => promise,
            Err(error) => return Ok(Err(error)),
        };
        match select(JsFuture::from(promise), pin!(sleep(within))).await {
            Either::Left((reply, _)) => Ok(reply),
            Either::Right(_) => {
                let message = format!("the sandbox did not answer for {} s", within.as_secs());
                Err(Refused::Error(Error::new(Code::Timeout, message)))
            }
        }
    }
}

/// How a call is sent.
type Send = fn(&Sent, &Remote) -> Thrown<Promise>;

/// A value, or an exception of JavaScript.
type Thrown<T> = std::result::Result<T, JsValue>;

/// The fields of a [`Reply`](super::contract::Reply), by imported getters: each lookup by a string of Rust would copy it to
/// JavaScript first, in every call.
mod reply {
    use worker::wasm_bindgen::JsValue;
    use worker::wasm_bindgen::prelude::wasm_bindgen;

    #[wasm_bindgen(wasm_bindgen = worker::wasm_bindgen, js_sys = worker::js_sys)]
    extern "C" {
        pub(super) type Fields;
        #[wasm_bindgen(method, getter, catch)]
        pub(super) fn ok(this: &Fields) -> Result<JsValue, JsValue>;
        #[wasm_bindgen(method, getter, catch)]
        pub(super) fn value(this: &Fields) -> Result<JsValue, JsValue>;
        #[wasm_bindgen(method, getter, catch)]
        pub(super) fn error(this: &Fields) -> Result<JsValue, JsValue>;
    }
}

/// Decodes a [`Reply`](super::contract::Reply), except its value.
fn outcome(operation: &str, reply: &JsValue) -> Answer<std::result::Result<JsValue, Failure>> {
    let reply: &Fields = reply.unchecked_ref();
    match reply.ok().unwrap_or_default().as_bool() {
        Some(true) => Ok(Ok(reply.value().unwrap_or_default())),
        Some(false) => {
            let failure = serde_wasm_bindgen::from_value(reply.error().unwrap_or_default());
            failure.map(Err).map_err(|error| wrong_reply(operation, &error))
        }
        None => Err(wrong_reply(operation, &"neither a value nor an error")),
    }
}

/// Returns the error for a reply that violates the contract.
pub(super) fn wrong_reply(operation: &str, what: &impl std::fmt::Display) -> Refused {
    let message = format!(
        "`{operation}` of the sandbox's class returned an unexpected answer: {what}; run `koze build` and deploy again"
    );
    Refused::Error(Error::new(Code::Internal, message))
}

/// Returns a random time between half the wait and the whole, so that clients that were rejected together do not retry
/// together.
pub(super) fn jittered(wait: Duration) -> Duration {
    let random = u32::from(uuid::Uuid::new_v4().as_bytes()[0]);
    wait / 2 + wait * random / 512
}

/// Converts an exception of a class.
fn refused(operation: &str, error: &JsValue) -> Refused {
    if OPTIONAL.contains(&operation) && lacks_method(error) {
        return Refused::Unstreamed;
    }
    Refused::Error(thrown(operation, error))
}

/// What the platform says of a method that a class lacks.
const NO_METHOD: &str = "does not implement the method";

fn message_of(error: &JsValue) -> String {
    let message = Reflect::get(error, &JsValue::from_str("message")).ok().and_then(|text| text.as_string());
    message.unwrap_or_default()
}

/// Returns whether an exception says that the class lacks the method.
fn lacks_method(error: &JsValue) -> bool {
    let message = message_of(error);
    message.contains(NO_METHOD)
        || (error.is_instance_of::<js_sys::TypeError>() && message.contains("is not a function"))
}

/// Converts an exception of the platform or of a class. Its message may contain anything, so it goes only to the
/// Worker's log.
fn thrown(operation: &str, error: &JsValue) -> Error {
    let text = |key: &str| Reflect::get(error, &JsValue::from_str(key)).ok()?.as_string();
    let is = |key: &str| Reflect::get(error, &JsValue::from_str(key)).is_ok_and(|value| value.is_truthy());
    let message = text("message").unwrap_or_default();
    console_error!("koze: {operation} of a sandbox's object threw: {message}");
    if lacks_method(error) {
        let message = format!(
            "the sandbox's class cannot do `{operation}`: set wrangler's `main` to the entry that `koze build` writes, and deploy"
        );
        return Error::new(Code::Unsupported, message);
    }
    // `remote` marks an exception of the object itself, not of the connection to it.
    if is("remote") && !is("retryable") && !is("overloaded") && !is("durableObjectReset") {
        let message = "the sandbox's class failed: see the Worker's log";
        return Error::new(Code::Internal, message);
    }
    let why = if is("overloaded") { "is overloaded" } else { "cannot be reached" };
    Error::new(Code::Unavailable, format!("the sandbox's Durable Object {why}: try again later"))
}
