//! The Model Context Protocol over streamable HTTP, without anything to remember: each message is a request of its own, its
//! answer one JSON document. What lasts is the session of the sandboxes, and the client names it.

use rmcp::model::{
    CacheScope, ClientJsonRpcMessage, ClientRequest, DiscoverResult, EmptyResult, ErrorCode, ErrorData,
    GetMeta, ListToolsResult, ProtocolVersion, ServerJsonRpcMessage, ServerResult,
};
use serde_json::Value;
use worker::Response;

use super::Served;
use super::answer::{self, Refusal};
use crate::pool::Pool;
use crate::provider::cloudflare::Cloudflare;
use crate::tool::{agent, mcp};

/// The session of a client that names none: all of a tenant's share it.
const SESSION: &str = "default";
/// The header that names one; `?session=` does as well.
const HEADER: &str = "koze-session";
/// The header in which a client says which version it speaks.
const VERSION: &str = "mcp-protocol-version";

/// The session that a client names, by its header or its URL.
pub(super) fn session(request: &worker::Request, query: &super::Query) -> Result<String, Refusal> {
    let header = request.headers().get(HEADER)?;
    Ok(header.or_else(|| query.get("session").cloned()).unwrap_or_else(|| SESSION.to_owned()))
}

/// Refuses a version that no server of this one knows.
pub(super) fn check_version(request: &worker::Request) -> Result<(), Refusal> {
    match request.headers().get(VERSION)? {
        Some(version) if !ProtocolVersion::KNOWN_VERSIONS.iter().any(|known| known.as_str() == version) => {
            let known: Vec<&str> =
                ProtocolVersion::KNOWN_VERSIONS.iter().map(ProtocolVersion::as_str).collect();
            let message = format!("{VERSION} is {version}, and this server knows {}", known.join(", "));
            Err(Refusal::invalid(message))
        }
        _ => Ok(()),
    }
}

/// Answers a message.
pub(super) async fn answer<S: Served>(body: &[u8], pool: &Pool<Cloudflare>) -> Result<Response, Refusal> {
    let message: ClientJsonRpcMessage = match serde_json::from_slice(body) {
        Ok(message) => message,
        Err(error) => {
            let code = if error.is_data() { ErrorCode::INVALID_REQUEST } else { ErrorCode::PARSE_ERROR };
            let data = ErrorData::new(code, format!("the body is no message of the protocol: {error}"), None);
            return reply(400, &ServerJsonRpcMessage::error(data, None));
        }
    };
    // To a notification, or an answer to what was never asked, there is nothing to say.
    let Some((request, id)) = message.into_request() else {
        return Ok(answer::respond(202, "", [])?);
    };
    let outcome = match request_outcome::<S>(request, pool).await {
        Ok(result) => ServerJsonRpcMessage::response(result, id),
        Err(error) => ServerJsonRpcMessage::error(error, Some(id)),
    };
    reply(200, &outcome)
}

async fn request_outcome<S: Served>(
    request: ClientRequest,
    pool: &Pool<Cloudflare>,
) -> Result<ServerResult, ErrorData> {
    // Since the version without `initialize` each request says which one it is of.
    let version = request.get_meta().protocol_version();
    if let Some(version) =
        version.as_ref().filter(|version| !ProtocolVersion::KNOWN_VERSIONS.contains(version))
    {
        return Err(ErrorData::unsupported_protocol_version(
            version.clone(),
            ProtocolVersion::KNOWN_VERSIONS,
        ));
    }
    let legacy = version.is_none_or(|version| version.has_initialize());
    match request {
        ClientRequest::InitializeRequest(request) => {
            let wanted = request.params.protocol_version;
            let known = wanted.has_initialize() && ProtocolVersion::KNOWN_VERSIONS.contains(&wanted);
            let mut server = mcp::server();
            server.protocol_version = if known { wanted } else { ProtocolVersion::LATEST_WITH_INITIALIZE };
            Ok(ServerResult::InitializeResult(server))
        }
        ClientRequest::DiscoverRequest(_) => {
            let versions = ProtocolVersion::KNOWN_VERSIONS.to_vec();
            Ok(ServerResult::DiscoverResult(DiscoverResult::from_server_info(versions, mcp::server())))
        }
        ClientRequest::PingRequest(_) if legacy => Ok(ServerResult::EmptyResult(EmptyResult {})),
        ClientRequest::ListToolsRequest(_) => {
            let mut list = ListToolsResult::with_all_items(mcp::tools(agent::definitions(pool.images())));
            list.result_type = list.result_type.filter(|_| !legacy);
            if !legacy {
                // The next deployment may have other images.
                (list.ttl_ms, list.cache_scope) = (Some(0), Some(CacheScope::Private));
            }
            Ok(ServerResult::ListToolsResult(list))
        }
        ClientRequest::CallToolRequest(request) => {
            let input = Value::Object(request.params.arguments.unwrap_or_default());
            let mut result = mcp::result(S::call(pool, &request.params.name, input).await);
            result.result_type = result.result_type.filter(|_| !legacy);
            Ok(ServerResult::CallToolResult(result))
        }
        other => {
            let message = format!("this server does not serve `{}`", other.method());
            Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None))
        }
    }
}

fn reply(status: u16, message: &ServerJsonRpcMessage) -> Result<Response, Refusal> {
    let text = serde_json::to_string(message).map_err(worker::Error::from)?;
    Ok(answer::respond(status, &text, [("content-type", "application/json")])?)
}
