//! The methods of the contract as calls: a method with its arguments in JavaScript, and the type of its answer.
//!
//! The code that sends a call, repeats it and opens its sandbox does not depend on the method, so a Worker contains it
//! once.

use std::any::TypeId;
use std::marker::PhantomData;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_wasm_bindgen::Serializer;
use worker::js_sys::{JSON, Promise};
use worker::wasm_bindgen::JsValue;

use super::contract::{self, methods};
use super::object::{Answer, Refused, wrong_reply};
use koze_core::error::{Code, Error};

/// The most arguments that a method takes.
const MAX_ARGUMENTS: usize = 3;

/// A call of a method that answers with `T`. It can be sent repeatedly.
pub(super) struct Call<T> {
    pub(super) sent: Sent,
    answer: PhantomData<fn() -> T>,
}

/// A call without the type of its answer.
pub(super) struct Sent {
    /// The name of the method.
    pub(super) method: &'static str,
    /// The timeout.
    pub(super) within: Duration,
    arguments: [JsValue; MAX_ARGUMENTS],
    send: fn(&Remote, &[JsValue; MAX_ARGUMENTS]) -> Result<Promise, JsValue>,
}

impl<T: DeserializeOwned> Call<T> {
    /// Decodes the value of the reply.
    pub(super) fn decode(&self, value: JsValue) -> Answer<T> {
        serde_wasm_bindgen::from_value(value).map_err(|error| wrong_reply(self.sent.method, &error))
    }
}

impl Sent {
    /// Sends the call to JavaScript.
    pub(super) fn send(&self, remote: &Remote) -> Result<Promise, JsValue> {
        (self.send)(remote, &self.arguments)
    }
}

macro_rules! bind {
    ($($(#[doc = $doc:literal])+ $method:ident $name:literal $input:ident $(, $more:ident $($type:literal)?)* => $output:ident;)+) => {
        /// The JavaScript stub of an object whose class implements the contract.
        mod remote {
            #![allow(unused_imports, reason = "the attribute's expansion does not use every import")]

            use worker::js_sys::Promise;
            use worker::wasm_bindgen::JsValue;
            use worker::wasm_bindgen::prelude::wasm_bindgen;

            #[wasm_bindgen(wasm_bindgen = worker::wasm_bindgen, js_sys = worker::js_sys)]
            extern "C" {
                pub(in super::super) type Remote;
                $(
                    #[wasm_bindgen(method, catch, js_name = $name)]
                    pub(super) fn $method(
                        this: &Remote,
                        input: &JsValue,
                        $($more: &JsValue,)*
                    ) -> Result<Promise, JsValue>;
                )+
            }
        }

        $(
            $(#[doc = $doc])+
            pub(super) fn $method(
                input: &contract::$input,
                $($more: &JsValue,)*
                within: Duration,
            ) -> Answer<Call<contract::$output>> {
                let mut arguments = [const { JsValue::UNDEFINED }; MAX_ARGUMENTS];
                let given = [in_javascript($name, input)? $(, $more.clone())*];
                for (argument, given) in arguments.iter_mut().zip(given) {
                    *argument = given;
                }
                let send: fn(&Remote, &[JsValue; MAX_ARGUMENTS]) -> _ =
                    |remote, [input $(, $more)*, ..]| remote.$method(input $(, $more)*);
                Ok(Call { sent: Sent { method: $name, within, arguments, send }, answer: PhantomData })
            }
        )+
    };
}

methods!(bind);
pub(super) use self::remote::Remote;

/// Converts input to JavaScript as the contract defines it: absent values are `null`, bytes are a `Uint8Array`.
fn in_javascript<T: Serialize + 'static>(method: &str, input: &T) -> Answer<JsValue> {
    let wrong = |error: &dyn std::fmt::Display| {
        let message = format!("the input of `{method}` cannot be serialized: {error}");
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
