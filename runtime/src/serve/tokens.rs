//! The tokens in the Worker's secrets.

use koze_core::http::Tokens;
use koze_core::http::tokens::{InvalidSecret, MIN_TOKEN, TOKEN, TOKENS};
use worker::wasm_bindgen::JsValue;
use worker::{Env, Request};

use super::answer::Refusal;
use super::settings::Settings;

/// Reads the tokens from the Worker's secrets.
pub(super) fn read_tokens(env: &Env) -> Result<Tokens, Refusal> {
    let secret = |name: &'static str, value: JsValue| match value.as_string() {
        None if value.is_undefined() => Ok(None),
        None => Err(InvalidSecret { name, why: "it is not a string".to_owned() }),
        secret => Ok(secret),
    };
    let settings = Settings::of(env);
    let read = || {
        let one = secret(TOKEN, settings.token())?;
        Tokens::read(one.as_deref(), secret(TOKENS, settings.tokens())?.as_deref())
    };
    let unavailable = |message| Refusal::new(503, "unavailable", message);
    let tokens = read().map_err(|InvalidSecret { name, why }| {
        unavailable(format!(
            "the secret {name} cannot be used: {why}; run `wrangler secret put {name}` again"
        ))
    })?;
    tokens.ok_or_else(|| {
        unavailable(format!(
            "no token is set, so every request is refused: run `wrangler secret put {TOKEN}` with a token \
             of at least {MIN_TOKEN} bytes"
        ))
    })
}

/// Returns the tenant whose token a request carries.
pub(super) fn require_tenant<'t>(tokens: &'t Tokens, request: &Request) -> Result<&'t str, Refusal> {
    tokens.tenant(request.headers().get("authorization")?.as_deref()).map_err(|message| {
        Refusal::new(401, "unauthorized", message).with_header("www-authenticate", "Bearer")
    })
}
