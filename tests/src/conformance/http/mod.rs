//! Runs the cases against a Worker over HTTP.

mod events;
mod mcp;
mod parts;
mod play;
mod tidy;

use std::error::Error;
use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use ureq::Agent;

pub use self::events::{Notices, Place, check_events};
pub use self::mcp::Mcp;
pub use self::parts::Part;
pub use self::play::{Options, play, play_all};
use self::tidy::Tidy;
use super::{AGENT, Capability, Host, IMAGES, ToolResult, preview};

/// The timeout of a request: longer than the longest command and the start of a container.
const TIMEOUT: Duration = Duration::from_mins(15);

/// The maximum size of a response: the longest part of a file, as JSON.
const LARGEST: u64 = 64 << 20;

/// A running Worker.
///
/// Session names have a unique prefix, so that the cases can run repeatedly against the same Worker.
#[derive(Debug)]
pub struct Http {
    agent: Agent,
    url: String,
    token: String,
    run: String,
    /// The toolset of its calls, if it is not the default.
    toolset: Option<&'static str>,
}

/// The status and the body of a response.
type Answer = Result<(u16, String), Box<dyn Error>>;

impl Http {
    /// Creates a client for the Worker at a URL, with a bearer token.
    pub fn new(url: &str, token: &str) -> Self {
        let agent = Agent::config_builder().http_status_as_error(false).max_redirects(0);
        let agent = agent.timeout_global(Some(TIMEOUT)).build().into();
        let run = format!("conformance-{}", uuid::Uuid::new_v4().simple());
        Http { agent, url: url.trim_end_matches('/').to_owned(), token: token.to_owned(), run, toolset: None }
    }

    /// Returns the query for a toolset. The default needs none.
    fn query(&self, toolset: &str) -> String {
        let asked = if toolset == AGENT { self.toolset } else { Some(toolset) };
        asked.map(|toolset| format!("?tools={toolset}")).unwrap_or_default()
    }

    /// Returns a client for the same Worker at another URL. The sessions are the same.
    #[must_use]
    pub fn moved(&self, url: &str) -> Self {
        let moved = Http::new(url, &self.token);
        Http { run: self.run.clone(), ..moved }
    }

    /// Checks that the cases can run on the Worker, and returns the capabilities that it lacks, with the reasons.
    ///
    /// # Errors
    ///
    /// Returns an error if nothing answers, the token is wrong, or an image is missing.
    pub fn lacks(&self) -> Result<Vec<(Capability, String)>, Box<dyn Error>> {
        self.has_images(&self.tools()?)?;
        let mut lacks = vec![parts::no_restart()];
        // Use a separate session, which is cleaned up like those of the cases.
        let asked = Tidy::new(self);
        for (capability, tool, input) in [
            (Capability::List, "sandbox_list", json!({})),
            (Capability::Expose, "browse", json!({ "port": 8080 })),
        ] {
            let result = asked.call("what-there-is", tool, input);
            if result.is_error && result.content.starts_with("unsupported: ") {
                lacks.push((capability, result.content));
            }
        }
        let ran = asked.call("who-runs-there", "shell", json!({ "command": "id -u" }));
        lacks.extend(parts::user(&self.url, &ran)?);
        let has = |capability| !lacks.iter().any(|(lacking, _)| *lacking == capability);
        if has(Capability::Exec) {
            lacks.extend(self.lacks_of_sandboxes(has(Capability::List))?);
        }
        let url = format!("{}/tools?tools=thread", self.url);
        let (status, body) = self.send(ureq::http::Request::get(&url), Vec::new())?;
        if status != 200 {
            lacks.push((Capability::Thread, message(&body)));
        }
        Ok(lacks)
    }

    /// Returns the default tool definitions.
    fn tools(&self) -> Result<Value, Box<dyn Error>> {
        let (status, body) = self.definitions(&self.query(AGENT))?;
        if status != 200 {
            return Err(format!("{} answers {status}: {}", self.url, message(&body)).into());
        }
        Ok(serde_json::from_str(&body)?)
    }

    /// Returns the status and the body of the tool definitions that a query selects.
    fn definitions(&self, query: &str) -> Answer {
        let request = ureq::http::Request::get(format!("{}/tools{query}", self.url));
        let nobody = |error| {
            format!(
                "nothing answers at {} ({error}): start a Worker, with `koze dev --local` for one",
                self.url
            )
        };
        Ok(self.send(request, Vec::new()).map_err(nobody)?)
    }

    /// Checks that the tool definitions contain the images that the cases use.
    fn has_images(&self, tools: &Value) -> Result<(), String> {
        let images = images_of(tools);
        let [default, other, _] = IMAGES;
        let there = |name: &str| images["enum"].as_array().is_some_and(|all| all.contains(&json!(name)));
        if images["default"] == default && there(default) && there(other) {
            return Ok(());
        }
        Err(format!(
            "{}: the cases take the images `{default}`, which is the default, and `{other}`, and this Worker has {}: in a \
             project of `koze new`, run `koze add {other}`",
            self.url, images["enum"]
        ))
    }

    /// Returns the URL of a resource in a session.
    fn below(&self, session: &str, what: &str, name: &str) -> String {
        let [session, name] = [&*format!("{}-{session}", self.run), name]
            .map(|part| utf8_percent_encode(part, NON_ALPHANUMERIC).to_string());
        format!("{}/sessions/{session}/{what}/{name}", self.url)
    }

    fn send(&self, request: ureq::http::request::Builder, body: Vec<u8>) -> Answer {
        let request = request.header("authorization", format!("Bearer {}", self.token)).body(body)?;
        let response = self.agent.run(request)?;
        let status = response.status().as_u16();
        Ok((status, response.into_body().with_config().limit(LARGEST).read_to_string()?))
    }
}

impl Host for Http {
    fn call(&self, session: &str, tool: &str, input: Value) -> ToolResult {
        self.call_text(session, tool, &input.to_string())
    }

    fn call_text_of(&self, toolset: &str, session: &str, tool: &str, input: &str) -> ToolResult {
        let url = format!("{}{}", self.below(session, "tools", tool), self.query(toolset));
        let request = ureq::http::Request::post(&url).header("content-type", "application/json");
        let (status, body) = self
            .send(request, input.as_bytes().to_vec())
            .unwrap_or_else(|error| panic!("POST {url}: {error}"));
        assert_eq!(status, 200, "POST {url}: {body}");
        let answer: Value = serde_json::from_str(&body).expect("the answer is JSON");
        let content = answer["content"].as_str().expect("text").to_owned();
        ToolResult { content, is_error: answer["isError"].as_bool().expect("true or false") }
    }

    fn get(&self, url: &str, path: &str) -> (u16, String) {
        let host = url.split('/').nth(2).expect("a host");
        if host.split(':').next().is_some_and(|name| name.ends_with(".localhost")) {
            return preview::get(url, path);
        }
        let url = format!("{}{path}", url.trim_end_matches('/'));
        let response = self.agent.get(&url).call().unwrap_or_else(|error| panic!("GET {url}: {error}"));
        let status = response.status().as_u16();
        (status, response.into_body().read_to_string().expect("a text"))
    }

    fn images(&self) -> Vec<String> {
        let tools = self.tools().unwrap_or_else(|error| panic!("{error}"));
        let words = images_of(&tools)["enum"].as_array().cloned().unwrap_or_default();
        words.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    fn destroy(&self, session: &str, sandbox: &str) -> Result<(), String> {
        let url = self.below(session, "sandboxes", sandbox);
        match self.send(ureq::http::Request::delete(&url), Vec::new()) {
            Ok((200 | 404, _)) => Ok(()),
            Ok((status, body)) => Err(format!("DELETE {url}: {status}: {}", message(&body))),
            Err(error) => Err(format!("DELETE {url}: {error}")),
        }
    }

    fn secrets(&self) -> Vec<String> {
        vec![self.token.clone()]
    }
}

/// Returns the schema of the argument `image` in the tool definitions.
fn images_of(tools: &Value) -> Value {
    let named = |tool: &&Value| tool["name"] == "sandbox_create";
    let create = tools.as_array().into_iter().flatten().find(named);
    let images = create.and_then(|tool| tool.pointer("/inputSchema/properties/image"));
    images.cloned().unwrap_or_default()
}

/// Returns the message of an error response.
fn message(body: &str) -> String {
    let answer: Option<Value> = serde_json::from_str(body).ok();
    answer
        .and_then(|answer| answer["error"]["message"].as_str().map(str::to_owned))
        .unwrap_or_else(|| body.chars().take(200).collect())
}
