//! Serves the tools of a project over HTTP and the Model Context Protocol, and the exposed ports of sandboxes by hostname.
//!
//! | request | response |
//! |---|---|
//! | `GET /` | a list of the routes |
//! | `GET /tools?dialect=mcp`, `anthropic` or `openai` | the tool definitions; with `&instructions`, `{instructions, tools}` |
//! | `POST /sessions/:id/tools/:name` with the tool's input | `{content, isError}` |
//! | `GET`, `HEAD` or `PUT /sessions/:id/sandboxes/:name/files/*path` | a file of a sandbox; with `archive=tar`, a directory |
//! | any other request below `/sessions/:id/sandboxes` | sandboxes and their processes: see [`koze_core::http`] |
//! | any request below `/sessions/:id/snapshots` | snapshots of workspaces |
//! | `GET /sessions/:id/log?since=&limit=` | the journal of tool calls: `{calls, next}` |
//! | `GET /openapi.json` | the description of these routes |
//! | `POST /mcp` | the Model Context Protocol, streamable HTTP |
//! | any request to `<port>-<label>-<token>.<host>` | the response of the server in the sandbox |
//!
//! All routes except the first and the last require `Authorization: Bearer`. `?tools=` selects the families of tools; without
//! it, the project's default toolset is served.
//!
//! | module | job |
//! |---|---|
//! | `tokens` | the tokens in the Worker's secrets |
//! | `url` | the parts of a URL |
//! | `mcp` | the Model Context Protocol |
//! | `body` | request bodies and their limit |
//! | `files` | files of sandboxes |
//! | `sandboxes` | sandboxes, their processes, and snapshots |
//! | `answer` | responses and errors |
//! | `ports` | requests to a sandbox's port |
//! | `settings` | koze's own variables and secrets |

mod answer;
mod body;
mod calls;
mod files;
mod mcp;
mod ports;
mod sandboxes;
mod settings;
mod tokens;
mod url;

use worker::{Env, Request, Response};

use self::answer::{Refusal, json, respond, text};
use self::settings::Settings;
use self::tokens::{read_tokens, require_tenant};
use self::url::Url;
use crate::cloudflare::preview::{Address, Key, Previews};
use crate::cloudflare::{Class, Cloudflare};
use koze_core::files::http;
use koze_core::http::openapi::DOCUMENT;
use koze_core::http::{ABOUT, Query, Resource, Route, check_method, describe_tools, find_route};
use koze_core::id::SessionId;
use koze_core::journal::PageRequest;
use koze_core::tool::{Catalog, Families};
use koze_core::{Code, Error, Profiles, Session};

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
    if let (Ok(tokens), Some(host)) = (read_tokens(env), Settings::of(env).preview_host()) {
        provider = provider.with_previews(Previews::new(Key::new(tokens.secret()), "https", host));
    }
    Session::new(provider, id, S::profiles())
}

async fn answer<S: Served>(request: Request, env: &Env) -> Result<Response, Refusal> {
    let tokens = read_tokens(env)?;
    let url = request.inner().url();
    let url = Url::split(&url);
    if let Some(address) = Address::parse(url.host) {
        let provider = Cloudflare::new(env, S::CLASSES);
        let key = Key::new(tokens.secret());
        return ports::forward(request, &address, &key, &tokens, &provider).await;
    }
    if url.path == "/" {
        check_method("GET", request.method().as_ref())?;
        return text(ABOUT);
    }
    let tenant = require_tenant(&tokens, &request)?;
    let (route, query) = find_route(request.method().as_ref(), url.path, url.query)?;
    let id = |session: &str| SessionId::new(tenant, session);
    let client = request.headers().get("user-agent")?;
    let open = |id: SessionId, call: Option<String>| {
        let below = Settings::of(env).preview_host().unwrap_or_else(|| url.host.to_owned());
        let previews = Previews::new(Key::new(tokens.secret()), url.scheme, below);
        let provider = Cloudflare::new(env, S::CLASSES).with_previews(previews);
        let provider = match call {
            Some(call) => provider.with_call(call),
            None => provider,
        };
        let session = Session::new(provider, id, S::profiles());
        match &client {
            Some(client) => session.with_client(client),
            None => session,
        }
    };
    match route {
        Route::Tools => {
            let (catalog, host) = (S::catalog(toolset(&query))?, Settings::of(env).sandbox_host());
            json(&describe_tools(&catalog, &S::profiles(), &host, &query)?)
        }
        Route::OpenApi => Ok(respond(200, DOCUMENT.to_owned(), [("content-type", "application/json")])?),
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
        Route::Sandboxes { session, path } => {
            let (session, place) = (open(id(&session)?, None), (Resource::Sandboxes, path));
            sandboxes::answer::<S::Families, _>(request, &session, place, query).await
        }
        Route::Snapshots { session, path } => {
            let (session, place) = (open(id(&session)?, None), (Resource::Snapshots, path));
            sandboxes::answer::<S::Families, _>(request, &session, place, query).await
        }
        Route::Log { session } => {
            let page = PageRequest::parse(
                query.get("since").map(String::as_str),
                query.get("limit").map(String::as_str),
            )?;
            let id = id(&session)?;
            json(&Cloudflare::new(env, S::CLASSES).calls(&id, page).await?)
        }
        Route::Sessions | Route::Egress { .. } | Route::Usage { .. } => {
            let message = "a Worker has no list of its sessions, no egress journal and no measurements: this route is served by `koze serve`";
            Err(Error::new(Code::Unsupported, message).into())
        }
        Route::Terminal { .. } => {
            let message = "a Worker has no terminals: this route is served by `koze serve`. Start a process with `terminal` instead, or run `koze shell --url`";
            Err(Error::new(Code::Unsupported, message).into())
        }
        Route::Mcp => {
            check_method("POST", request.method().as_ref())?;
            mcp::check_version(&request)?;
            let id = id(&mcp::session(&request, &query)?)?;
            let client = mcp::client(&request)?;
            let session = |call| open(id.clone(), call);
            let (catalog, events) = (S::catalog(toolset(&query))?, calls::accepts_events(&request)?);
            let host = Settings::of(env).sandbox_host();
            let message = body::read(request).await?;
            mcp::answer(&message, client.as_deref(), events, &catalog, &host, session).await
        }
    }
}
