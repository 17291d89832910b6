//! The Model Context Protocol over streamable HTTP, without anything to remember: each message is a request of its own, its
//! answer one JSON document. What lasts is the session of the sandboxes, and the client names it.

use rmcp::model::{
    CacheScope, CallToolResult, DiscoverResult, EmptyResult, ErrorCode, ErrorData, InitializeResult,
    JsonRpcError, JsonRpcResponse, JsonRpcVersion2_0, ListToolsResult, ProtocolVersion, RequestId,
    RequestMetaObject,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
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

/// What somebody asks. The protocol's own type of all messages would bring all of them into the Worker, and it is there
/// for few.
struct Ask {
    id: RequestId,
    method: String,
    params: Map<String, Value>,
}

/// What comes of it.
#[derive(Serialize)]
#[serde(untagged)]
enum Outcome {
    Initialize(Box<InitializeResult>),
    Discover(Box<DiscoverResult>),
    Tools(Box<ListToolsResult>),
    Called(Box<CallToolResult>),
    Empty(EmptyResult),
}

/// What `initialize` has to say.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Initialize {
    protocol_version: ProtocolVersion,
}

/// What `tools/call` has to say.
#[derive(Deserialize)]
struct Call {
    name: String,
    #[serde(default)]
    arguments: Option<Map<String, Value>>,
}

/// Answers a message.
pub(super) async fn answer<S: Served>(body: &[u8], pool: &Pool<Cloudflare>) -> Result<Response, Refusal> {
    let ask = match read(body) {
        Ok(Some(ask)) => ask,
        // To a notification, or an answer to what was never asked, there is nothing to say.
        Ok(None) => return Ok(answer::respond(202, "", [])?),
        Err(error) => return reply(400, &JsonRpcError::new(None, error)),
    };
    let id = ask.id.clone();
    match outcome::<S>(ask, pool).await {
        Ok(result) => reply(200, &JsonRpcResponse { jsonrpc: JsonRpcVersion2_0, id, result }),
        Err(error) => reply(200, &JsonRpcError::new(Some(id), error)),
    }
}

/// Reads a message: what it asks, if it asks something.
fn read(body: &[u8]) -> Result<Option<Ask>, ErrorData> {
    let none = |code: ErrorCode, why: &str| {
        ErrorData::new(code, format!("the body is no message of the protocol: {why}"), None)
    };
    let invalid = |why: &str| none(ErrorCode::INVALID_REQUEST, why);
    let body =
        serde_json::from_slice(body).map_err(|error| none(ErrorCode::PARSE_ERROR, &error.to_string()))?;
    let Value::Object(mut message) = body else { return Err(invalid("it is no JSON object")) };
    if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(invalid("`jsonrpc` is not `2.0`"));
    }
    let method = match message.remove("method") {
        Some(Value::String(method)) => method,
        None if message.contains_key("result") || message.contains_key("error") => return Ok(None),
        _ => return Err(invalid("it has no `method`")),
    };
    let Some(id) = message.remove("id") else { return Ok(None) };
    let id = serde_json::from_value(id).map_err(|_| invalid("`id` is neither an integer nor a text"))?;
    let params = match message.remove("params") {
        Some(Value::Object(params)) => params,
        None | Some(Value::Null) => Map::new(),
        Some(_) => return Err(invalid("`params` is no object")),
    };
    Ok(Some(Ask { id, method, params }))
}

async fn outcome<S: Served>(ask: Ask, pool: &Pool<Cloudflare>) -> Result<Outcome, ErrorData> {
    let Ask { method, params, .. } = ask;
    // Since the version without `initialize` each request says which one it is of.
    let meta = params.get("_meta").and_then(|meta| RequestMetaObject::deserialize(meta).ok());
    let version = meta.and_then(|meta| meta.protocol_version());
    if let Some(version) =
        version.as_ref().filter(|version| !ProtocolVersion::KNOWN_VERSIONS.contains(version))
    {
        return Err(ErrorData::unsupported_protocol_version(
            version.clone(),
            ProtocolVersion::KNOWN_VERSIONS,
        ));
    }
    let legacy = version.is_none_or(|version| version.has_initialize());
    match method.as_str() {
        "initialize" => {
            let wanted = taken::<Initialize>(&method, params)?.protocol_version;
            let known = wanted.has_initialize() && ProtocolVersion::KNOWN_VERSIONS.contains(&wanted);
            let mut server = mcp::server();
            server.protocol_version = if known { wanted } else { ProtocolVersion::LATEST_WITH_INITIALIZE };
            Ok(Outcome::Initialize(server.into()))
        }
        "server/discover" => {
            let versions = ProtocolVersion::KNOWN_VERSIONS.to_vec();
            Ok(Outcome::Discover(DiscoverResult::from_server_info(versions, mcp::server()).into()))
        }
        "ping" if legacy => Ok(Outcome::Empty(EmptyResult {})),
        "tools/list" => {
            let mut list = ListToolsResult::with_all_items(mcp::tools(agent::definitions(pool.images())));
            list.result_type = list.result_type.filter(|_| !legacy);
            if !legacy {
                // The next deployment may have other images.
                (list.ttl_ms, list.cache_scope) = (Some(0), Some(CacheScope::Private));
            }
            Ok(Outcome::Tools(list.into()))
        }
        "tools/call" => {
            let call: Call = taken(&method, params)?;
            let input = Value::Object(call.arguments.unwrap_or_default());
            let mut result = mcp::result(S::call(pool, &call.name, input).await);
            result.result_type = result.result_type.filter(|_| !legacy);
            Ok(Outcome::Called(result.into()))
        }
        other => {
            let message = format!("this server does not serve `{other}`");
            Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None))
        }
    }
}

/// What a method takes.
fn taken<T: DeserializeOwned>(method: &str, params: Map<String, Value>) -> Result<T, ErrorData> {
    serde_json::from_value(Value::Object(params)).map_err(|error| {
        ErrorData::new(ErrorCode::INVALID_PARAMS, format!("`params` of `{method}`: {error}"), None)
    })
}

fn reply(status: u16, message: &impl Serialize) -> Result<Response, Refusal> {
    let text = serde_json::to_string(message).map_err(worker::Error::from)?;
    Ok(answer::respond(status, &text, [("content-type", "application/json")])?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_and_what_is_not() {
        let read =
            |text: &str| read(text.as_bytes()).map(|ask| ask.map(|ask| (ask.method, ask.id.to_string())));
        let asked = |method: &str, id: &str| Ok(Some((method.to_owned(), id.to_owned())));
        assert_eq!(read(r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#), asked("ping", "7"));
        assert_eq!(read(r#"{"jsonrpc":"2.0","id":"a","method":"x","params":{"a":1}}"#), asked("x", "a"));
        for text in [
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}"#,
        ] {
            assert_eq!(read(text), Ok(None), "{text}");
        }
        for (text, code) in [
            ("", ErrorCode::PARSE_ERROR),
            ("{", ErrorCode::PARSE_ERROR),
            ("[]", ErrorCode::INVALID_REQUEST),
            ("{}", ErrorCode::INVALID_REQUEST),
            (r#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#, ErrorCode::INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":7}"#, ErrorCode::INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":7,"method":1}"#, ErrorCode::INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, ErrorCode::INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":[]}"#, ErrorCode::INVALID_REQUEST),
        ] {
            assert_eq!(read(text).unwrap_err().code, code, "{text}");
        }
    }
}
