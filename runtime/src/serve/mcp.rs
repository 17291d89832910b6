//! The Model Context Protocol over streamable HTTP, without state: each message is one request, and its response is one JSON
//! document, or a stream of events if the client asks for progress or if the call changes the list of tools. Only the session
//! of sandboxes persists. The client names it.
//!
//! A client that sends `initialize` receives a session ID, which it sends with each request. This ID and the request's own ID
//! identify a call for cancellation. A client without one cancels a call by closing its request.

mod progress;

use rmcp::model::{
    CacheScope, DiscoverResult, EmptyResult, ErrorCode, ErrorData, InitializeResult, JsonRpcError,
    JsonRpcResponse, JsonRpcVersion2_0, ListToolsResult, ProtocolVersion, RequestId, RequestMetaObject,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use worker::{Response, console_error};

use super::answer::{self, Refusal};
use crate::cloudflare::{Cloudflare, label};
use koze_core::Session;
use koze_core::error::Error;
use koze_core::http::Query;
use koze_core::progress::events;
use koze_core::tool::instructions::{Host, describe};
use koze_core::tool::message::{CallMessage, Message};
use koze_core::tool::{Catalog, Families, Input, mcp};

/// The session of clients that name none. All such clients of a tenant share it.
const SESSION: &str = "default";
/// The header that names a session; `?session=` works as well.
const HEADER: &str = "koze-session";
/// The header with the protocol version of the client.
const VERSION: &str = "mcp-protocol-version";

/// The header with the session ID of the protocol.
const CLIENT: &str = "mcp-session-id";

/// Returns the client's session ID of the protocol, if it sent one.
pub(super) fn client(request: &worker::Request) -> Result<Option<String>, Refusal> {
    Ok(request.headers().get(CLIENT)?)
}

/// Returns the session of sandboxes that the client names in the header or the URL.
pub(super) fn session(request: &worker::Request, query: &Query) -> Result<String, Refusal> {
    let header = request.headers().get(HEADER)?;
    Ok(header.or_else(|| query.get("session").cloned()).unwrap_or_else(|| SESSION.to_owned()))
}

/// Rejects unknown protocol versions.
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

/// What a client wants.
enum Read {
    Ask(Ask),
    /// The cancellation of a request.
    Cancelled(RequestId),
    /// A message that requires no action.
    Nothing,
    /// A request that is not valid, as the response to it.
    Invalid(Box<JsonRpcError>),
}

/// A request. The SDK's own message type would pull every message of the protocol into the Worker, and the Worker handles
/// only a few.
struct Ask {
    id: RequestId,
    method: String,
    params: Map<String, Value>,
    /// The input of a tool, which is not among the parameters; or the error for the message, if it has one. `None` for other
    /// requests.
    input: Option<Result<Input, Error>>,
}

/// The result of a request.
#[derive(Serialize)]
#[serde(untagged)]
enum Outcome {
    Initialize(Box<InitializeResult>),
    Discover(Box<DiscoverResult>),
    Tools(Box<ListToolsResult>),
    Called(Box<mcp::Called>),
    Empty(EmptyResult),
}

/// The parameters of `initialize`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Initialize {
    protocol_version: ProtocolVersion,
}

/// The parameters of `tools/call`.
#[derive(Deserialize)]
struct Call {
    name: String,
    #[serde(default)]
    arguments: Option<Map<String, Value>>,
}

/// Responds to a message of a client. `session` returns the session's sandboxes for a call with this name.
pub(super) async fn answer<F: Families>(
    body: &[u8],
    client: Option<&str>,
    accepts_events: bool,
    catalog: &Catalog<F>,
    host: &Host,
    session: impl Fn(Option<String>) -> Session<Cloudflare>,
) -> Result<Response, Refusal> {
    let ask = match read(body) {
        Ok(Read::Ask(ask)) => ask,
        Ok(Read::Cancelled(id)) => {
            if let Some(call) = client.map(|client| call_name(client, &id)) {
                cancel(&session(None), &call).await;
            }
            return Ok(answer::respond(202, String::new(), [])?);
        }
        // Notifications and responses get no response.
        Ok(Read::Nothing) => return Ok(answer::respond(202, String::new(), [])?),
        Ok(Read::Invalid(error)) => return reply(200, serde_json::to_string(&error), None),
        Err(error) => return reply(400, serde_json::to_string(&JsonRpcError::new(None, error)), None),
    };
    let id = ask.id.clone();
    let session = session(client.map(|client| call_name(client, &id)));
    let mut changes = false;
    if accepts_events && ask.method == "tools/call" {
        changes = ask.params.get("name").and_then(Value::as_str).is_some_and(|tool| catalog.changes(tool));
        if let Some(token) = progress::token(&ask.params) {
            return progress::answer(ask, token, changes, catalog.clone(), host.clone(), session);
        }
    }
    let result = outcome(ask, catalog, host, &session).await;
    if changes && has_succeeded(&result) {
        let events = last_events(id, result, changes).map_err(worker::Error::from)?;
        return Ok(answer::respond(200, events, events::HEADERS)?);
    }
    // A random ID, so that other clients cannot guess it and cancel calls.
    let client = matches!(result, Ok(Outcome::Initialize(_))).then(|| uuid::Uuid::new_v4().to_string());
    reply(200, message(id, result), client.as_deref())
}

/// The notification that the list of tools has changed.
const LIST_CHANGED: &str = "notifications/tools/list_changed";

/// Returns the last events of a call: the response, and before it that the list of tools has changed, if the tool changes
/// it and has succeeded.
fn last_events(
    id: RequestId,
    result: Result<Outcome, ErrorData>,
    changes: bool,
) -> serde_json::Result<String> {
    let notice = (changes && has_succeeded(&result))
        .then(|| events::event("message", &json!({ "jsonrpc": "2.0", "method": LIST_CHANGED })));
    Ok(notice.unwrap_or_default() + &events::event_of_json("message", &message(id, result)?))
}

/// Returns whether a tool was called, and has succeeded.
fn has_succeeded(result: &Result<Outcome, ErrorData>) -> bool {
    matches!(result, Ok(Outcome::Called(called)) if called.result.is_error != Some(true))
}

/// Returns the response to a request, or its error, as JSON.
fn message(id: RequestId, outcome: Result<Outcome, ErrorData>) -> serde_json::Result<String> {
    match outcome {
        Ok(result) => serde_json::to_string(&JsonRpcResponse { jsonrpc: JsonRpcVersion2_0, id, result }),
        Err(error) => serde_json::to_string(&JsonRpcError::new(Some(id), error)),
    }
}

/// Returns the name of a call: a digest of the client's ID and the request's, so that its length is fixed.
fn call_name(client: &str, id: &RequestId) -> String {
    // The number 1 and the text "1" are different IDs.
    let text = json!([client, id]).to_string();
    label::base32(&Sha256::digest(text))
}

/// Cancels a call. A cancellation gets no response; failures are logged.
async fn cancel(session: &Session<Cloudflare>, call: &str) {
    if let Err(error) = session.provider().cancel(session.id(), call).await {
        console_error!("koze: a canceled call may still run: {error}");
    }
}

/// Parses a message.
fn read(body: &[u8]) -> Result<Read, ErrorData> {
    let none = |code: ErrorCode, why: &str| {
        ErrorData::new(code, format!("the body is not a message of the protocol: {why}"), None)
    };
    let invalid = |why: &str| none(ErrorCode::INVALID_REQUEST, why);
    let unread = |error: &dyn std::fmt::Display| none(ErrorCode::PARSE_ERROR, &error.to_string());
    let mut input = None;
    match Message::read(body) {
        Message::Call(CallMessage { id, tool, meta, input }) => {
            let mut params = Map::from_iter([("name".to_owned(), tool.into())]);
            params.extend(meta.map(|meta| ("_meta".to_owned(), meta.into())));
            return Ok(Read::Ask(Ask { id, method: "tools/call".to_owned(), params, input: Some(input) }));
        }
        Message::TooLarge(error) => return Err(invalid(&error.message)),
        // The sender gets the error in the result of its request.
        Message::DuplicateKey(error) => input = Some(Err(error)),
        Message::InvalidArguments(error) => return Ok(Read::Invalid(error)),
        Message::InvalidJson(error) => return Err(unread(&error)),
        Message::Other => {}
    }
    let body = serde_json::from_slice(body).map_err(|error| unread(&error))?;
    let Value::Object(mut message) = body else { return Err(invalid("it is not a JSON object")) };
    if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(invalid("`jsonrpc` is not `2.0`"));
    }
    let method = match message.remove("method") {
        Some(Value::String(method)) => method,
        None if message.contains_key("result") || message.contains_key("error") => {
            return Ok(Read::Nothing);
        }
        _ => return Err(invalid("it has no `method`")),
    };
    let Some(id) = message.remove("id") else {
        let cancelled = message.get("params").filter(|_| method == "notifications/cancelled");
        let id = cancelled.and_then(|params| RequestId::deserialize(params.get("requestId")?).ok());
        return Ok(id.map_or(Read::Nothing, Read::Cancelled));
    };
    let id = serde_json::from_value(id).map_err(|_| invalid("`id` is neither an integer nor a string"))?;
    let params = match message.remove("params") {
        Some(Value::Object(params)) => params,
        None | Some(Value::Null) => Map::new(),
        Some(_) => return Err(invalid("`params` is not an object")),
    };
    Ok(Read::Ask(Ask { id, method, params, input }))
}

async fn outcome<F: Families>(
    ask: Ask,
    catalog: &Catalog<F>,
    host: &Host,
    session: &Session<Cloudflare>,
) -> Result<Outcome, ErrorData> {
    let Ask { method, params, input, .. } = ask;
    // Versions without `initialize` send the protocol version with each request.
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
    let introduce = || {
        let families = catalog.families();
        mcp::server(families, describe(families, session.profiles(), host))
    };
    match method.as_str() {
        "initialize" => {
            let wanted = taken::<Initialize>(&method, params)?.protocol_version;
            let known = wanted.has_initialize() && ProtocolVersion::KNOWN_VERSIONS.contains(&wanted);
            let mut server = introduce();
            server.protocol_version = if known { wanted } else { ProtocolVersion::LATEST_WITH_INITIALIZE };
            Ok(Outcome::Initialize(server.into()))
        }
        "server/discover" => {
            let versions = ProtocolVersion::KNOWN_VERSIONS.to_vec();
            Ok(Outcome::Discover(DiscoverResult::from_server_info(versions, introduce()).into()))
        }
        "ping" if legacy => Ok(Outcome::Empty(EmptyResult {})),
        "tools/list" => {
            let mut tools = mcp::tools(catalog.definitions(session.profiles()));
            // If the store cannot be read, every call says so.
            tools.extend(mcp::created_tools(catalog.created(session).await.unwrap_or_default()));
            let mut list = ListToolsResult::with_all_items(tools);
            list.result_type = list.result_type.filter(|_| !legacy);
            if !legacy {
                // The profiles can change with the next deployment, and created tools with each call.
                (list.ttl_ms, list.cache_scope) = (Some(0), Some(CacheScope::Private));
            }
            Ok(Outcome::Tools(list.into()))
        }
        "tools/call" => {
            // Newer versions of the protocol name the client in each request.
            let named = client_name(&params);
            let session = match &named {
                Some(client) => &session.clone().with_client(client),
                None => session,
            };
            let call: Call = taken(&method, params)?;
            let input = input.unwrap_or_else(|| Ok(call.arguments.unwrap_or_default().into()));
            let mut called = mcp::called(match input {
                Ok(input) => catalog.call(session, &call.name, input).await,
                Err(error) => Err(error),
            })?;
            called.result.result_type = called.result.result_type.filter(|_| !legacy);
            Ok(Outcome::Called(called.into()))
        }
        other => {
            let message = format!("this server has no method `{other}`");
            Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None))
        }
    }
}

/// Returns the name of the client in the metadata of a request, for the journal.
fn client_name(params: &Map<String, Value>) -> Option<String> {
    let client = params.get("_meta")?.get("io.modelcontextprotocol/clientInfo")?;
    client.get("name")?.as_str().map(str::to_owned)
}

/// Parses the parameters of a method.
fn taken<T: DeserializeOwned>(method: &str, params: Map<String, Value>) -> Result<T, ErrorData> {
    serde_json::from_value(Value::Object(params)).map_err(|error| {
        ErrorData::new(ErrorCode::INVALID_PARAMS, format!("`params` of `{method}`: {error}"), None)
    })
}

/// Returns a response. `client` is the session ID that the client receives.
fn reply(
    status: u16,
    message: serde_json::Result<String>,
    client: Option<&str>,
) -> Result<Response, Refusal> {
    let text = message.map_err(worker::Error::from)?;
    let mut response = answer::respond(status, text, [("content-type", "application/json")])?;
    if let Some(client) = client {
        response.headers_mut().set(CLIENT, client)?;
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_notifications() {
        let read = |text: &str| {
            read(text.as_bytes()).map(|message| match message {
                Read::Ask(ask) => Some((ask.method, ask.id.to_string())),
                Read::Cancelled(id) => Some((String::new(), id.to_string())),
                Read::Nothing => None,
                Read::Invalid(error) => panic!("{error:?}"),
            })
        };
        let asked = |method: &str, id: &str| Ok(Some((method.to_owned(), id.to_owned())));
        assert_eq!(read(r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#), asked("ping", "7"));
        assert_eq!(read(r#"{"jsonrpc":"2.0","id":"a","method":"x","params":{"a":1}}"#), asked("x", "a"));
        let cancelled = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#;
        assert_eq!(read(cancelled), asked("", "7"));
        for text in [
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/other","params":{"requestId":7}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#,
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

    #[test]
    fn a_call_is_of_a_client_and_its_request() {
        let number = |id: i64| RequestId::Number(id);
        assert_eq!(call_name("a", &number(1)), call_name("a", &number(1)));
        let text = RequestId::String("1".into());
        let all = [call_name("a", &number(1)), call_name("a", &text), call_name("b", &number(1))];
        assert!(all[0] != all[1] && all[1] != all[2] && all[0] != all[2], "{all:?}");
    }
}
