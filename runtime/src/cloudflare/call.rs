//! The operations of the contract as calls: a request in JavaScript, and the type of its answer.
//!
//! The code that sends a call, repeats it and opens its sandbox does not depend on the operation, so a Worker contains it
//! once.

use std::any::TypeId;
use std::marker::PhantomData;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_wasm_bindgen::Serializer;
use worker::js_sys::{Array, Function, JSON, Object, Promise, Reflect};
use worker::wasm_bindgen::{JsCast, JsValue};

use super::contract::{self, method_of, operations};
use super::object::{Answer, Refused, wrong_reply};
use koze_core::error::{Code, Error};

/// A call of an operation that answers with `T`. It can be sent repeatedly.
pub(super) struct Call<T> {
    pub(super) sent: Sent,
    answer: PhantomData<fn() -> T>,
}

/// A call without the type of its answer.
pub(super) struct Sent {
    /// The name of the operation.
    pub(super) operation: &'static str,
    /// The timeout.
    pub(super) within: Duration,
    input: JsValue,
    /// What is passed besides the input: a stream, and the function `waiting`.
    more: Vec<JsValue>,
    /// Whether the operation takes a stream, and has a method of its own.
    pub(super) has_stream: bool,
}

impl<T: DeserializeOwned> Call<T> {
    /// Decodes the value of the reply.
    pub(super) fn decode(&self, value: JsValue) -> Answer<T> {
        serde_wasm_bindgen::from_value(value).map_err(|error| wrong_reply(self.sent.operation, &error))
    }
}

impl Sent {
    /// Sends the call to an object.
    pub(super) fn send(&self, remote: &Remote) -> Result<Promise, JsValue> {
        if self.has_stream {
            return self.send_to_own_method(remote);
        }
        let request = Object::new();
        Reflect::set(&request, &self.operation.into(), &self.input)?;
        remote.koze(&request, self.more.first().unwrap_or(&JsValue::UNDEFINED))
    }

    /// Sends the call to the method that only this operation has, as older classes have for every operation, and for every
    /// change of files.
    pub(super) fn send_to_own_method(&self, remote: &Remote) -> Result<Promise, JsValue> {
        let mut operation = self.operation.to_owned();
        let mut input = self.input.clone();
        if operation == "change" {
            let change: Array = Object::entries(input.unchecked_ref()).get(0).unchecked_into();
            operation = change.get(0).as_string().unwrap_or_default();
            input = change.get(1);
        }
        let method = Reflect::get(remote, &method_of(&operation).into())?;
        let arguments: Array = std::iter::once(&input).chain(&self.more).collect();
        let promise = Reflect::apply(method.unchecked_ref::<Function>(), remote, &arguments)?;
        Ok(promise.unchecked_into())
    }
}

/// The JavaScript stub of an object whose class implements the contract.
mod remote {
    #![allow(unused_imports, reason = "the attribute's expansion does not use every import")]

    use worker::js_sys::Promise;
    use worker::wasm_bindgen::JsValue;
    use worker::wasm_bindgen::prelude::wasm_bindgen;

    #[wasm_bindgen(wasm_bindgen = worker::wasm_bindgen, js_sys = worker::js_sys)]
    extern "C" {
        pub(in super::super) type Remote;

        /// Answers a request.
        #[wasm_bindgen(method, catch)]
        pub(super) fn koze(this: &Remote, request: &JsValue, waiting: &JsValue) -> Result<Promise, JsValue>;
    }
}
pub(super) use self::remote::Remote;

macro_rules! bind {
    ($($(#[doc = $doc:literal])+ $operation:ident $input:ident $(, $more:ident)* => $output:ident;)+) => {
        $(
            $(#[doc = $doc])+
            pub(super) fn $operation(
                input: &contract::$input,
                $($more: &JsValue,)*
                within: Duration,
            ) -> Answer<Call<contract::$output>> {
                let operation = stringify!($operation);
                let input = in_javascript(operation, input)?;
                let more = vec![$($more.clone()),*];
                let has_stream = [$(stringify!($more)),*].contains(&"stream");
                Ok(Call { sent: Sent { operation, within, input, more, has_stream }, answer: PhantomData })
            }
        )+
    };
}

operations!(bind);

/// Converts input to JavaScript as the contract defines it: absent values are `null`, bytes are a `Uint8Array`.
fn in_javascript<T: Serialize + 'static>(operation: &str, input: &T) -> Answer<JsValue> {
    let wrong = |error: &dyn std::fmt::Display| {
        let message = format!("the input of `{operation}` cannot be serialized: {error}");
        Refused::Error(Error::new(Code::Internal, message))
    };
    // Inputs that contain bytes are converted value by value. Everything else is passed as one JSON string, because each
    // separate value would cost a call to JavaScript.
    let has_bytes = [
        TypeId::of::<contract::Write>(),
        TypeId::of::<contract::Edit>(),
        TypeId::of::<contract::WriteProcess>(),
    ];
    if has_bytes.contains(&TypeId::of::<T>()) {
        let serializer = Serializer::new().serialize_maps_as_objects(true).serialize_missing_as_null(true);
        return input.serialize(&serializer).map_err(|error| wrong(&error));
    }
    let text = serde_json::to_string(input).map_err(|error| wrong(&error))?;
    JSON::parse(&text).map_err(|_| wrong(&"JavaScript does not read it"))
}
