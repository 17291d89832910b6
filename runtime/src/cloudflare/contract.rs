//! The contract of the Durable Objects, and its types that exist only in JavaScript.

pub use koze_core::contract::*;
use serde::Deserialize;
use worker::wasm_bindgen::JsValue;

/// A serialized file or directory, or an archive.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Packed {
    /// Its bytes: a `ReadableStream<Uint8Array>`.
    #[serde(with = "serde_wasm_bindgen::preserve")]
    pub stream: JsValue,
}
