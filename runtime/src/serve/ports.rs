//! Requests to a port of a sandbox.

use koze_core::http::Tokens;
use worker::{Request, Response};

use super::answer::Refusal;
use crate::cloudflare::Cloudflare;
use crate::cloudflare::preview::{Address, Key};

/// The headers that tell the object the port and its nonce. It accepts no request without them.
const PORT: &str = "koze-port";
const NONCE: &str = "koze-nonce";

/// The prefixes of headers that address the Worker, the object or the SDK. They are removed from a client's request.
const TAKEN_OUT: [&str; 4] = ["koze-", "cf-container-", "x-sandbox-", "x-koze-"];

/// Forwards a request to the sandbox named by its hostname, if this Worker issued the hostname. This is verified before any
/// object is called.
pub(super) async fn forward(
    request: Request,
    address: &Address<'_>,
    key: &Key,
    tokens: &Tokens,
    provider: &Cloudflare,
) -> Result<Response, Refusal> {
    // Always checks every class, so that the time reveals nothing.
    let fits = |class: &usize| key.is_of(address, provider.classes()[*class].binding);
    let fitting: Vec<usize> = (0..provider.classes().len()).filter(fits).collect();
    let [class] = fitting[..] else {
        return Err(Refusal::new(404, "not_found", "this address is not a preview URL"));
    };
    let mut request = request.clone_mut()?;
    let names: Vec<String> = request.headers().keys().collect();
    let headers = request.headers_mut()?;
    for name in names {
        let is_taken = TAKEN_OUT.iter().any(|prefix| name.to_ascii_lowercase().starts_with(prefix));
        // A client of the Worker may send its token with every request to the domain. Programs in sandboxes must not see it.
        if is_taken || headers.get(&name)?.is_some_and(|value| tokens.are_in(&value)) {
            headers.delete(&name)?;
        }
    }
    headers.set(PORT, &address.port.to_string())?;
    headers.set(NONCE, address.nonce)?;
    let stub = provider.namespace(class)?.get_by_name(address.label)?;
    stub.fetch_with_request(request).await.map_err(|error| {
        worker::console_error!("koze: a sandbox's object threw at a request to a port: {error}");
        Refusal::new(502, "unavailable", "the sandbox does not answer on this port")
    })
}
