//! JavaScript streams with backpressure. Only the part in transit is buffered.

use worker::js_sys::{Object, Promise, Reflect, Uint8Array};
use worker::wasm_bindgen::{JsCast as _, JsValue};
use worker::wasm_bindgen_futures::{JsFuture, spawn_local};

use self::javascript::{IdentityTransformStream, Readable, Reader, Writer};
use koze_core::archive::pieces::broken_off;
use koze_core::error::{Code, Error, Result};

/// The maximum number of bytes of one read. The platform's default is 4 KiB.
const AT_ONCE: u32 = 256 << 10;

mod javascript {
    #![allow(unused_imports, reason = "the attribute's expansion does not use every import")]

    use worker::js_sys::{Object, Promise, Uint8Array};
    use worker::wasm_bindgen::JsValue;
    use worker::wasm_bindgen::prelude::wasm_bindgen;

    #[wasm_bindgen(wasm_bindgen = worker::wasm_bindgen, js_sys = worker::js_sys)]
    extern "C" {
        pub(super) type IdentityTransformStream;
        #[wasm_bindgen(constructor, catch)]
        pub(super) fn new() -> Result<IdentityTransformStream, JsValue>;
        #[wasm_bindgen(method, getter)]
        pub(super) fn readable(this: &IdentityTransformStream) -> JsValue;
        #[wasm_bindgen(method, getter)]
        pub(super) fn writable(this: &IdentityTransformStream) -> Writable;

        pub(super) type Writable;
        #[wasm_bindgen(method, catch, js_name = getWriter)]
        pub(super) fn writer(this: &Writable) -> Result<Writer, JsValue>;

        pub(super) type Writer;
        #[wasm_bindgen(method)]
        pub(super) fn write(this: &Writer, bytes: &Uint8Array) -> Promise;
        #[wasm_bindgen(method)]
        pub(super) fn close(this: &Writer) -> Promise;
        #[wasm_bindgen(method)]
        pub(super) fn abort(this: &Writer, why: &JsValue) -> Promise;

        pub(super) type Readable;
        #[wasm_bindgen(method, catch, js_name = getReader)]
        pub(super) fn reader(this: &Readable, options: &Object) -> Result<Reader, JsValue>;

        pub(super) type Reader;
        #[wasm_bindgen(method)]
        pub(super) fn read(this: &Reader, to: &Uint8Array) -> Promise;
        #[wasm_bindgen(method)]
        pub(super) fn cancel(this: &Reader) -> Promise;
    }
}

/// A stream to read. Dropping it before its end cancels it.
pub(super) struct Reading {
    reader: Reader,
    ended: bool,
}

impl Reading {
    /// Starts to read a stream. Returns `None` if it is not a stream of bytes.
    pub(super) fn new(stream: JsValue) -> Option<Self> {
        let options = Object::new();
        Reflect::set(&options, &"mode".into(), &"byob".into()).ok()?;
        if !stream.is_object() {
            return None;
        }
        let reader = stream.unchecked_into::<Readable>().reader(&options).ok()?;
        Some(Reading { reader, ended: false })
    }

    /// Returns the next bytes; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<u8>>> {
        let read = JsFuture::from(self.reader.read(&Uint8Array::new_with_length(AT_ONCE))).await;
        // The platform's message about a failed stream is not passed on, because it may contain anything.
        let read = read.map_err(|_| {
            self.ended = true;
            broken_off()
        })?;
        let get = |key: &str| Reflect::get(&read, &key.into()).unwrap_or_default();
        if get("done").is_truthy() {
            self.ended = true;
            return Ok(None);
        }
        Ok(get("value").dyn_ref::<Uint8Array>().map(Uint8Array::to_vec))
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if !self.ended {
            forget(self.reader.cancel());
        }
    }
}

/// A stream to write, which the receiver of a call reads. Dropping it before it is closed makes the reader fail.
pub(super) struct Pipe {
    readable: JsValue,
    writer: Writer,
    closed: bool,
}

impl Pipe {
    pub(super) fn new() -> Result<Self> {
        let failed = |_| Error::new(Code::Internal, "the runtime creates no stream");
        let stream = IdentityTransformStream::new().map_err(failed)?;
        let writer = stream.writable().writer().map_err(failed)?;
        Ok(Pipe { readable: stream.readable(), writer, closed: false })
    }

    /// Returns the end to read from.
    pub(super) fn readable(&self) -> JsValue {
        self.readable.clone()
    }

    /// Writes bytes, and waits until they are read. Returns whether they were.
    pub(super) async fn write(&mut self, bytes: &[u8]) -> bool {
        JsFuture::from(self.writer.write(&Uint8Array::from(bytes))).await.is_ok()
    }

    /// Ends the stream. Returns whether it was read to its end.
    pub(super) async fn close(mut self) -> bool {
        self.closed = true;
        JsFuture::from(self.writer.close()).await.is_ok()
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        if !self.closed {
            forget(self.writer.abort(&"the archive is incomplete".into()));
        }
    }
}

/// Lets a promise settle, and ignores its result.
fn forget(promise: Promise) {
    spawn_local(async move {
        let _ = JsFuture::from(promise).await;
    });
}
