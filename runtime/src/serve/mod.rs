//! Serves the tools of a project over HTTP and the Model Context Protocol, and the exposed ports of sandboxes by hostname.
//!
//! | request | response |
//! |---|---|
//! | `GET /` | a list of the routes |
//! | `GET /tools?dialect=mcp`, `anthropic` or `openai` | the tool definitions |
//! | `POST /sessions/:id/tools/:name` with the tool's input | `{content, isError}` |
//! | `GET`, `HEAD` or `PUT /sessions/:id/sandboxes/:name/files/*path` | a file of a sandbox; with `archive=tar`, a directory |
//! | `DELETE /sessions/:id/sandboxes/:name` | destroys a sandbox |
//! | `POST /mcp` | the Model Context Protocol, streamable HTTP |
//! | any request to `<port>-<label>-<token>.<host>` | the response of the server in the sandbox |
//!
//! All routes except the first and the last require `Authorization: Bearer`. `?tools=` selects the families of tools; without
//! it, the project's default toolset is served.
//!
//! | module | job |
//! |---|---|
//! | `auth` | authentication by token |
//! | `route` | routing |
//! | `mcp` | the Model Context Protocol |
//! | `body` | request bodies and their limit |
//! | `files` | files of sandboxes |
//! | `answer` | responses and errors |
//! | `ports` | requests to a sandbox's port |
//! | `settings` | koze's own variables and secrets |

mod answer;
mod auth;
mod body;
mod calls;
mod files;
mod mcp;
mod ports;
mod route;
mod settings;

use serde_json::Value;
use worker::{Env, Request, Response};

use self::answer::{Refusal, json, text};
use self::auth::Tokens;
use self::route::{Query, Route, Url};
use self::settings::Settings;
use crate::cloudflare::preview::{Address, Key, Previews};
use crate::cloudflare::{Class, Cloudflare};
use koze_core::files::http;
use koze_core::id::SessionId;
use koze_core::tool::dialect::{Definition, Dialect};
use koze_core::tool::{Catalog, Families};
use koze_core::{Profiles, Session};

/// The classes, profiles and tools that a project serves. `koze build` implements it.
pub trait Served {
    /// The sandbox classes available to agents.
    const CLASSES: &'static [Class];

    /// The families of tools.
    type Families: Families;

    /// The profiles of these classes.
    fn profiles() -> Profiles;

    /// Returns the tools of a toolset: a list of families, separated by commas, or the project's default.
    ///
    /// # Errors
    /// As [`Catalog::select`].
    fn catalog(toolset: Option<&str>) -> koze_core::Result<Catalog<Self::Families>> {
        Catalog::select(&Self::profiles(), toolset)
    }

    /// Returns the definitions of these tools.
    ///
    /// # Errors
    /// As [`Catalog::select`].
    fn definitions(toolset: Option<&str>) -> koze_core::Result<Vec<Definition>> {
        Ok(Self::catalog(toolset)?.definitions(&Self::profiles()))
    }
}

/// Returns the toolset that a request asks for.
fn toolset(query: &Query) -> Option<&str> {
    query.get("tools").map(String::as_str)
}

/// Handles a request.
///
/// # Errors
/// If the platform fails. Errors of the request are responses.
pub async fn serve<S: Served>(request: Request, env: &Env) -> worker::Result<Response> {
    match answer::<S>(request, env).await {
        Ok(response) => Ok(response),
        Err(refusal) => refusal.into_response(),
    }
}

/// Returns a session of sandboxes: those that its tools work on.
pub fn session<S: Served>(env: &Env, id: SessionId) -> Session<Cloudflare> {
    let mut provider = Cloudflare::new(env, S::CLASSES);
    if let (Ok(tokens), Some(host)) = (Tokens::of(env), Settings::of(env).preview_host()) {
        provider = provider.with_previews(Previews::new(Key::new(tokens.secret()), "https", host));
    }
    Session::new(provider, id, S::profiles())
}

async fn answer<S: Served>(request: Request, env: &Env) -> Result<Response, Refusal> {
    let tokens = Tokens::of(env)?;
    let url = request.inner().url();
    let url = Url::split(&url);
    if let Some(address) = Address::parse(url.host) {
        let provider = Cloudflare::new(env, S::CLASSES);
        let key = Key::new(tokens.secret());
        return ports::forward(request, &address, &key, &tokens, &provider).await;
    }
    if url.path == "/" {
        route::only("GET", request.method().as_ref())?;
        return text(ABOUT);
    }
    let tenant = tokens.tenant(request.headers().get("authorization")?.as_deref())?;
    let (route, query) = route::find(request.method().as_ref(), url.path, url.query)?;
    let id = |session: &str| SessionId::new(tenant, session);
    let open = |id: SessionId, call: Option<String>| {
        let below = Settings::of(env).preview_host().unwrap_or_else(|| url.host.to_owned());
        let previews = Previews::new(Key::new(tokens.secret()), url.scheme, below);
        let provider = Cloudflare::new(env, S::CLASSES).with_previews(previews);
        let provider = match call {
            Some(call) => provider.with_call(call),
            None => provider,
        };
        Session::new(provider, id, S::profiles())
    };
    match route {
        Route::Tools => json(&definitions::<S>(&query)?),
        Route::Call { session, tool } => {
            let session = open(id(&session)?, None);
            let catalog = Catalog::<S::Families>::select(session.profiles(), toolset(&query))?;
            calls::answer(request, catalog, session, tool).await
        }
        Route::File { session, sandbox, path, access } => {
            let session = open(id(&session)?, None);
            if let Some(existing) = http::archive(&query.iter().collect::<Vec<_>>())? {
                return files::answer_archive(request, &session, &sandbox, &path, (access, existing)).await;
            }
            files::answer(request, &session, &sandbox, &path, access).await
        }
        Route::Destroy { session, sandbox } => {
            open(id(&session)?, None).destroy(&sandbox).await?;
            json(&serde_json::json!({ "ok": true }))
        }
        Route::Mcp => {
            mcp::check_version(&request)?;
            let id = id(&mcp::session(&request, &query)?)?;
            let client = mcp::client(&request)?;
            let session = |call| open(id.clone(), call);
            let (catalog, events) = (S::catalog(toolset(&query))?, calls::accepts_events(&request)?);
            mcp::answer(&body::read(request).await?, client.as_deref(), events, &catalog, session).await
        }
    }
}

/// The text at `/`, for people.
const ABOUT: &str = "A Worker with isolated Linux sandboxes for agents, built with koze.\n\n\
    GET    /tools?dialect=mcp|anthropic|openai   the tools\n\
    POST   /sessions/:id/tools/:name             call one\n\
    GET    /sessions/:id/sandboxes/:name/files/*path   read a file; PUT writes it;\n\
    \x20                                                with ?archive=tar, a directory\n\
    DELETE /sessions/:id/sandboxes/:name         destroy a sandbox\n\
    POST   /mcp                                  the same over the Model Context Protocol\n\n\
    All of these requests must carry `Authorization: Bearer` with a token of this Worker.\n";

fn definitions<S: Served>(query: &Query) -> Result<Value, Refusal> {
    let dialect = match query.get("dialect").map_or("mcp", String::as_str) {
        "mcp" => Dialect::Mcp,
        "anthropic" => Dialect::Anthropic,
        "openai" => Dialect::OpenAi,
        "openai-responses" => Dialect::OpenAiResponses,
        other => {
            let message =
                format!("unknown dialect `{other}`: use mcp, anthropic, openai or openai-responses");
            return Err(Refusal::invalid(message));
        }
    };
    let tools = S::definitions(toolset(query))?;
    Ok(Value::Array(tools.iter().map(|tool| tool.to_json(dialect)).collect()))
}
