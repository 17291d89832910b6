//! The contract of the Durable Objects, with the types that only JavaScript has.

pub use koze_core::contract::*;
use serde::Deserialize;
use worker::wasm_bindgen::JsValue;

/// A file or directory as a stream.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Packed {
    /// Its bytes: a `ReadableStream<Uint8Array>`.
    #[serde(with = "serde_wasm_bindgen::preserve")]
    pub stream: JsValue,
}
