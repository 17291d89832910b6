//! The Model Context Protocol over streamable HTTP, without anything to remember: each message is a request of its own, its
//! answer one JSON document. What lasts is the session of the sandboxes, and the client names it.
//!
//! A client that begins with `initialize` is given an id, which it says with each request: by it and the request's own, a
//! call is given up. One of the versions without ends its request for that.

use rmcp::model::{
    CacheScope, CallToolResult, DiscoverResult, EmptyResult, ErrorCode, ErrorData, InitializeResult,
    JsonRpcError, JsonRpcResponse, JsonRpcVersion2_0, ListToolsResult, ProtocolVersion, RequestId,
    RequestMetaObject,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use worker::{Response, console_error};

use super::Served;
use super::answer::{self, Refusal};
use crate::provider::cloudflare::{Cloudflare, label};
use koze_core::error::Error;
use koze_core::pool::Pool;
use koze_core::tool::mcp::Files;
use koze_core::tool::{self, Unread, agent, mcp};

/// The session of a client that names none: all of a tenant's share it.
const SESSION: &str = "default";
/// The header that names one; `?session=` does as well.
const HEADER: &str = "koze-session";
/// The header in which a client says which version it speaks.
const VERSION: &str = "mcp-protocol-version";

/// The header with the id that a client was given.
const CLIENT: &str = "mcp-session-id";

/// The id that a client was given, if it says one.
pub(super) fn client(request: &worker::Request) -> Result<Option<String>, Refusal> {
    Ok(request.headers().get(CLIENT)?)
}

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

/// What a message says.
enum Said {
    Ask(Ask),
    /// Nobody waits for the answer to this any more.
    Cancelled(RequestId),
    /// Nothing that there would be anything to do about.
    Nothing,
}

/// What somebody asks. The protocol's own type of all messages would bring all of them into the Worker, and it is there
/// for few.
struct Ask {
    id: RequestId,
    method: String,
    params: Map<String, Value>,
    /// What is wrong with it where a key stands twice in one of its objects.
    twice: Option<Error>,
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

/// Answers a message of a client; `pool` is the session's, for a call of a name.
pub(super) async fn answer<S: Served>(
    body: &[u8],
    client: Option<&str>,
    pool: impl Fn(Option<String>) -> Pool<Cloudflare>,
) -> Result<Response, Refusal> {
    let ask = match read(body) {
        Ok(Said::Ask(ask)) => ask,
        Ok(Said::Cancelled(id)) => {
            if let Some(call) = client.map(|client| call_name(client, &id)) {
                give_up(&pool(None), &call).await;
            }
            return Ok(answer::respond(202, String::new(), [])?);
        }
        // To a notification, or an answer to what was never asked, there is nothing to say.
        Ok(Said::Nothing) => return Ok(answer::respond(202, String::new(), [])?),
        Err(error) => return reply(400, &JsonRpcError::new(None, error), None),
    };
    let id = ask.id.clone();
    let pool = pool(client.map(|client| call_name(client, &id)));
    match outcome::<S>(ask, &pool).await {
        Ok(result) => {
            // Nobody else is to guess it, and end another's calls.
            let given = matches!(result, Outcome::Initialize(_)).then(|| uuid::Uuid::new_v4().to_string());
            reply(200, &JsonRpcResponse { jsonrpc: JsonRpcVersion2_0, id, result }, given.as_deref())
        }
        Err(error) => reply(200, &JsonRpcError::new(Some(id), error), None),
    }
}

/// The name of the call of a client's request: it follows from both, and is short whatever they are.
fn call_name(client: &str, id: &RequestId) -> String {
    // A number and a text that looks like it are two ids.
    let text = serde_json::json!([client, id]).to_string();
    label::base32(&Sha256::digest(text))
}

/// Gives a call up. Who has said that nobody waits for it is not told what came of that; the log is.
async fn give_up(pool: &Pool<Cloudflare>, call: &str) {
    if let Err(error) = pool.provider().give_up(pool.session(), call).await {
        console_error!("koze: a canceled call may still run: {error}");
    }
}

/// Reads a message.
fn read(body: &[u8]) -> Result<Said, ErrorData> {
    let none = |code: ErrorCode, why: &str| {
        ErrorData::new(code, format!("the body is not a message of the protocol: {why}"), None)
    };
    let invalid = |why: &str| none(ErrorCode::INVALID_REQUEST, why);
    let unread = |error: &dyn std::fmt::Display| none(ErrorCode::PARSE_ERROR, &error.to_string());
    let (body, twice) = match tool::read(body) {
        Ok(body) => (body, None),
        // Whoever asked is to be told so.
        Err(Unread::Twice(twice)) => {
            (serde_json::from_slice(body).map_err(|error| unread(&error))?, Some(twice))
        }
        Err(Unread::NoJson(error)) => return Err(unread(&error)),
    };
    let Value::Object(mut message) = body else { return Err(invalid("it is not a JSON object")) };
    if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(invalid("`jsonrpc` is not `2.0`"));
    }
    let method = match message.remove("method") {
        Some(Value::String(method)) => method,
        None if message.contains_key("result") || message.contains_key("error") => return Ok(Said::Nothing),
        _ => return Err(invalid("it has no `method`")),
    };
    let Some(id) = message.remove("id") else {
        let cancelled = message.get("params").filter(|_| method == "notifications/cancelled");
        let id = cancelled.and_then(|params| RequestId::deserialize(params.get("requestId")?).ok());
        return Ok(id.map_or(Said::Nothing, Said::Cancelled));
    };
    let id = serde_json::from_value(id).map_err(|_| invalid("`id` is neither an integer nor a string"))?;
    let params = match message.remove("params") {
        Some(Value::Object(params)) => params,
        None | Some(Value::Null) => Map::new(),
        Some(_) => return Err(invalid("`params` is not an object")),
    };
    Ok(Said::Ask(Ask { id, method, params, twice }))
}

async fn outcome<S: Served>(ask: Ask, pool: &Pool<Cloudflare>) -> Result<Outcome, ErrorData> {
    let Ask { method, params, twice, .. } = ask;
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
            let mut server = mcp::server(Files::Lost);
            server.protocol_version = if known { wanted } else { ProtocolVersion::LATEST_WITH_INITIALIZE };
            Ok(Outcome::Initialize(server.into()))
        }
        "server/discover" => {
            let versions = ProtocolVersion::KNOWN_VERSIONS.to_vec();
            Ok(Outcome::Discover(DiscoverResult::from_server_info(versions, mcp::server(Files::Lost)).into()))
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
            let mut result = mcp::reply(match twice {
                Some(error) => Err(error),
                None => S::call(pool, &call.name, input).await,
            });
            result.result_type = result.result_type.filter(|_| !legacy);
            Ok(Outcome::Called(result.into()))
        }
        other => {
            let message = format!("this server has no method `{other}`");
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

/// An answer; `client` is the id that is given to whoever asked.
fn reply(status: u16, message: &impl Serialize, client: Option<&str>) -> Result<Response, Refusal> {
    let text = serde_json::to_string(message).map_err(worker::Error::from)?;
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
    fn what_is_asked_and_what_is_not() {
        let read = |text: &str| {
            read(text.as_bytes()).map(|said| match said {
                Said::Ask(ask) => Some((ask.method, ask.id.to_string())),
                Said::Cancelled(id) => Some((String::new(), id.to_string())),
                Said::Nothing => None,
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
