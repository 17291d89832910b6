//! The HTTP routes. Every host authenticates requests with [`Tokens`], and finds their routes with [`find_route`]. Those for the
//! sandboxes of a session and for their processes are answered by [`answer_request`]:
//!
//! | request, below `/sessions/:id/sandboxes` | response |
//! |---|---|
//! | `GET /` | [`SandboxList`] |
//! | `POST /` with [`CreateSandbox`] | [`CreatedSandbox`]; 201 if there was none |
//! | `GET /:name` | [`SandboxDetails`] |
//! | `DELETE /:name` | [`Done`] |
//! | `GET /:name/files/*path?stat` | [`FileEntry`] |
//! | `GET /:name/files/*path?list` | [`FileList`] |
//! | `GET /:name/files/*path?watch` | changes as [events](FileEvent) |
//! | `DELETE /:name/files/*path` | [`Done`] |
//! | `GET /:name/processes` | [`ProcessList`] |
//! | `POST /:name/processes` with [`StartProcess`] | [`ProcessEntry`], 201 |
//! | `GET /:name/processes/:id` | [`ProcessEntry`] |
//! | `GET /:name/processes/:id/events?since=&follow=` | its output as [events](ProcessEvent) |
//! | `POST /:name/processes/:id/stdin?close=` with bytes | [`Written`] |
//! | `POST /:name/processes/:id/signal` with [`SendSignal`] | [`Done`] |
//! | `POST /:name/processes/:id/resize` with [`TerminalSize`] | [`Done`] |
//!
//! And below `/sessions/:id/snapshots`, for the snapshots of workspaces:
//!
//! | request | response |
//! |---|---|
//! | `GET /?workspace=` | [`SnapshotList`] |
//! | `POST /` with [`CreateSnapshot`] | [`SnapshotEntry`], 201 |
//! | `GET /:snapshot` | [`SnapshotEntry`] |
//! | `DELETE /:snapshot` | [`Done`] |
//! | `POST /:snapshot/restore`, `…/branch` with [`RestoreSnapshot`] | [`RestoredSnapshot`], 201 |
//!
//! Errors are [`ErrorBody`].
//!
//! | module | job |
//! |---|---|
//! | `body`, `machine` | the bodies of requests and responses |
//! | `request` | requests and responses as data |
//! | `sandboxes`, `files`, `processes`, `snapshots` | what the routes do |
//! | `events` | the output of a process as events |
//! | `watch` | changes to files as events |
//! | `terminal` | the messages of a terminal |
//! | [`tokens`] | the tokens of the tenants |
//! | `route` | finds the route of a request |
//! | `tools` | the definitions of the tools |
//! | [`openapi`] | the description of all routes |

mod body;
mod events;
mod files;
mod machine;
pub mod openapi;
mod processes;
mod request;
mod route;
mod sandboxes;
pub(crate) mod snapshots;
mod terminal;
pub mod tokens;
mod tools;
mod watch;

pub use self::body::{
    CreateSandbox, CreatedSandbox, Done, ErrorBody, ErrorDetails, FileEntry, FileKind, FileList,
    ProcessEntry, ProcessList, SandboxDetails, SandboxEgress, SandboxEntry, SandboxList, SavedFiles,
    SendSignal, StartProcess, TerminalSize, Written,
};
pub use self::events::{DroppedOutput, EventText, ProcessEvent, ProcessExit};
pub use self::files::is_metadata_request;
pub use self::machine::{
    EgressEntry, EgressList, SandboxUsage, SessionEntry, SessionList, SessionSandbox, UsageList, egress_limit,
};
pub use self::request::{Body, EventStream, Refusal, RefusalParts, Request, Resource, Response};
pub use self::route::{Access, Query, Route, check_method, find_route};
pub use self::snapshots::{
    CreateSnapshot, RestoreSnapshot, RestoredSnapshot, SnapshotContents, SnapshotEntry, SnapshotList,
    SnapshotSandbox,
};
pub use self::terminal::{TerminalRequest, WindowSize};
pub use self::tokens::Tokens;
pub use self::tools::describe_tools;
pub use self::watch::{FileChange, FileEvent, WatchedFiles};

use self::request::ok;
pub(crate) use self::sandboxes::list_sandboxes;
use crate::provider::Provider;
use crate::session::Session;
use crate::tool::Families;

/// The list of the routes at `/`, for people. It needs no token.
pub const ABOUT: &str = "Isolated Linux sandboxes for agents, served by koze.\n\n\
    GET    /tools?dialect=mcp|anthropic|openai   the tools; with &instructions, also what\n\
    \x20                                                a model must know about the sandboxes\n\
    POST   /sessions/:id/tools/:name             call one\n\
    GET    /sessions/:id/sandboxes/:name/files/*path   read a file; PUT writes it;\n\
    \x20                                                with ?archive=tar, a directory\n\
    GET    /sessions/:id/sandboxes               the sandboxes; POST creates one\n\
    GET    /sessions/:id/sandboxes/:name         describe a sandbox; DELETE destroys it\n\
    GET    /sessions/:id/sandboxes/:name/processes     its processes; POST starts one\n\
    GET    /sessions/:id/sandboxes/:name/processes/:id/events   the output of one\n\
    POST   /sessions/:id/sandboxes/:name/processes/:id/stdin|signal|resize\n\
    GET    /sessions/:id/sandboxes/:name/terminal      a shell in a terminal, as a\n\
    \x20                                                WebSocket, on machines\n\
    GET    /sessions/:id/snapshots               the snapshots of workspaces; POST takes one\n\
    POST   /sessions/:id/snapshots/:snapshot/restore|branch\n\
    GET    /sessions                             the sessions, on machines\n\
    GET    /sessions/:id/log?since=&limit=       the journal of tool calls\n\
    GET    /sessions/:id/egress?limit=           the hosts that were reached, on machines\n\
    GET    /sessions/:id/usage                   memory, processors and disk, on machines\n\
    GET    /openapi.json                         the description of these routes\n\
    POST   /mcp                                  the same over the Model Context Protocol\n\n\
    All of these requests must carry `Authorization: Bearer` with a token of this server.\n";

/// Answers a request for the sandboxes of a session, or for the snapshots of its workspaces. A host whose `F` has no workspaces
/// does not contain the code for snapshots.
pub async fn answer_request<F: Families, P: Provider>(session: &Session<P>, request: Request) -> Response {
    let answered = match request.resource {
        Resource::Sandboxes => route(session, &request).await,
        Resource::Snapshots => F::answer_snapshots(session, &request).await,
    };
    answered.unwrap_or_else(Refusal::into_response)
}

async fn route<P: Provider>(session: &Session<P>, request: &Request) -> Result<Response, Refusal> {
    let parts: Vec<&str> = request.path.iter().map(String::as_str).collect();
    match (parts.as_slice(), request.method.as_str()) {
        ([], "GET") => Ok(ok(&list_sandboxes(session).await?)),
        ([], "POST") => sandboxes::create(session, request.json()?).await,
        ([], _) => Err(Refusal::Method("GET, POST")),
        ([name], "GET") => Ok(ok(&sandboxes::describe(session, name).await?)),
        ([name], "DELETE") => {
            session.destroy(name).await?;
            Ok(ok(&Done::default()))
        }
        ([_], _) => Err(Refusal::Method("GET, DELETE")),
        ([name, "files", path @ ..], _) => files::answer_request(session, name, path, request).await,
        ([name, "processes", rest @ ..], method) => {
            processes::answer_request(session, name, (rest, method), request).await
        }
        _ => Err(Refusal::NoRoute),
    }
}

#[cfg(test)]
pub(crate) mod tests;
