//! What `web.js` needs from outside: UTF-8, random bytes and URLs.

use rquickjs::{Ctx, Exception, Function, Object, TypedArray};

/// The maximum number of random bytes of one call, as in a browser.
const RANDOM: usize = 1 << 16;

/// Adds the functions to the object that `web.js` gets.
pub(crate) fn add<'js>(ctx: &Ctx<'js>, host: &Object<'js>) -> rquickjs::Result<()> {
    host.set("encodeUtf8", Function::new(ctx.clone(), encode)?)?;
    host.set("decodeUtf8", Function::new(ctx.clone(), decode)?)?;
    host.set("randomBytes", Function::new(ctx.clone(), random)?)?;
    host.set("resolveUrl", Function::new(ctx.clone(), |request: String| outside::resolve(&request))?)
}

fn encode(ctx: Ctx<'_>, text: String) -> rquickjs::Result<TypedArray<'_, u8>> {
    TypedArray::new(ctx, text)
}

/// Decodes bytes. Returns `None` if they are invalid, and that is fatal.
#[allow(clippy::needless_pass_by_value, reason = "a function of the engine takes ownership")]
#[allow(unsafe_code, reason = "rquickjs has no safe function for the bytes of an array")]
fn decode(bytes: TypedArray<'_, u8>, is_fatal: bool) -> Option<String> {
    // SAFETY: no code of the script runs while the bytes are borrowed.
    let bytes = unsafe { bytes.as_bytes() }.unwrap_or_default();
    match std::str::from_utf8(bytes) {
        Ok(text) => Some(text.to_owned()),
        Err(_) if is_fatal => None,
        Err(_) => Some(String::from_utf8_lossy(bytes).into_owned()),
    }
}

fn random(ctx: Ctx<'_>, length: usize) -> rquickjs::Result<TypedArray<'_, u8>> {
    let mut bytes = vec![0; length.min(RANDOM)];
    if !outside::fill(&mut bytes) {
        return Err(Exception::throw_message(&ctx, "the host has no random numbers"));
    }
    TypedArray::new(ctx, bytes)
}

/// The URLs and the random numbers of this machine.
#[cfg(not(target_arch = "wasm32"))]
mod outside {
    use serde_json::json;
    use url::{Url, quirks};

    pub(super) fn fill(bytes: &mut [u8]) -> bool {
        getrandom::fill(bytes).is_ok()
    }

    /// Parses a URL, and changes a part of it: `[url, base, [part, value]]` as JSON. Returns its parts, or null.
    pub(super) fn resolve(request: &str) -> String {
        resolved(request).unwrap_or_else(|| "null".to_owned())
    }

    fn resolved(request: &str) -> Option<String> {
        type Request = (String, Option<String>, Option<(String, String)>);
        let (url, base, change): Request = serde_json::from_str(request).ok()?;
        let base = base.map(|base| Url::parse(&base)).transpose().ok()?;
        let mut url = Url::options().base_url(base.as_ref()).parse(&url).ok()?;
        if let Some((part, value)) = change {
            // As in a browser, an invalid value changes nothing.
            let _ = match part.as_str() {
                "protocol" => quirks::set_protocol(&mut url, &value),
                "username" => quirks::set_username(&mut url, &value),
                "password" => quirks::set_password(&mut url, &value),
                "host" => quirks::set_host(&mut url, &value),
                "hostname" => quirks::set_hostname(&mut url, &value),
                "port" => quirks::set_port(&mut url, &value),
                "pathname" => {
                    quirks::set_pathname(&mut url, &value);
                    Ok(())
                }
                "search" => {
                    quirks::set_search(&mut url, &value);
                    Ok(())
                }
                _ => {
                    quirks::set_hash(&mut url, &value);
                    Ok(())
                }
            };
        }
        let parts = json!({
            "href": quirks::href(&url), "origin": quirks::origin(&url), "protocol": quirks::protocol(&url),
            "username": quirks::username(&url), "password": quirks::password(&url), "host": quirks::host(&url),
            "hostname": quirks::hostname(&url), "port": quirks::port(&url), "pathname": quirks::pathname(&url),
            "search": quirks::search(&url), "hash": quirks::hash(&url),
        });
        Some(parts.to_string())
    }
}

/// The URLs and the random numbers of the host of the module, which has both already.
#[cfg(target_arch = "wasm32")]
mod outside {
    #![allow(unsafe_code, reason = "imports of WebAssembly are unsafe functions")]

    #[link(wasm_import_module = "koze")]
    unsafe extern "C" {
        /// Fills these bytes.
        fn random(at: *mut u8, length: usize);
        /// Takes a request, and returns the length of the answer.
        fn url(at: *const u8, length: usize) -> usize;
        /// Copies the answer.
        fn answer(at: *mut u8);
    }

    pub(super) fn fill(bytes: &mut [u8]) -> bool {
        // SAFETY: the bytes are alive while the host fills them.
        unsafe { random(bytes.as_mut_ptr(), bytes.len()) };
        true
    }

    pub(super) fn resolve(request: &str) -> String {
        // SAFETY: the text is alive while the host reads it, and the answer has this length.
        let bytes = unsafe {
            let mut bytes = vec![0; url(request.as_ptr(), request.len())];
            answer(bytes.as_mut_ptr());
            bytes
        };
        String::from_utf8(bytes).unwrap_or_else(|_| "null".to_owned())
    }
}
