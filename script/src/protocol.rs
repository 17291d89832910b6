//! The messages between a script and its host.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::limits::{Limit, Limits};

/// JSON as text: the engine passes values on without decoding them.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Json(Box<RawValue>);

impl Json {
    /// Returns JSON of this text.
    ///
    /// # Errors
    /// If the text is not JSON.
    pub fn new(text: String) -> serde_json::Result<Self> {
        RawValue::from_string(text).map(Json)
    }

    /// Returns the JSON `null`.
    pub fn null() -> Self {
        Json(RawValue::NULL.to_owned())
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// Decodes the value.
    ///
    /// # Errors
    /// If it is nested too deeply, or contains half of a surrogate pair.
    pub fn value(&self) -> serde_json::Result<Value> {
        serde_json::from_str(self.text())
    }
}

impl From<&Value> for Json {
    fn from(value: &Value) -> Self {
        // A `Value` can always be encoded.
        serde_json::value::to_raw_value(value).map_or_else(|_| Json::null(), Json)
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

/// From the host to the engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToScript {
    /// Runs a script. This is the first message.
    Start(Start),
    /// Checks what an agent wrote. This is the only message.
    Check(Check),
    /// The answer to a call.
    Answer {
        /// The number of the call.
        id: u64,
        /// The result, or the message of the error.
        result: Result<Json, String>,
    },
    /// A timer is due.
    Timer,
}

/// From the engine to the host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromScript {
    /// The script calls the host, which answers with the same number.
    Call {
        /// The number.
        id: u64,
        /// A [`Call`].
        call: Json,
    },
    /// The script has logged a line.
    Log(String),
    /// The next timer of the script is due in so many milliseconds. A host that runs the engine natively does not get this
    /// message.
    Timer(u64),
    /// The script has ended: its result or its error. This is the last message.
    Done(Result<Json, Failure>),
}

/// A script to run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// The source: the body of an async function.
    pub code: String,
    /// The arguments of a created tool; `None` for other scripts.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub args: Option<Json>,
    /// The JSON schema of the arguments. They are checked before the source runs.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub schema: Option<Json>,
    /// The libraries that it can require, by name.
    #[serde(default)]
    pub libraries: BTreeMap<String, String>,
    /// The secrets.
    #[serde(default)]
    pub secrets: Secrets,
    /// Whether it has the global `browser`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub browser: bool,
    /// The seed of `Math.random`.
    #[serde(default)]
    pub seed: u32,
    /// The limits.
    #[serde(default)]
    pub limits: Limits,
}

/// Decodes a field that is there. It can be `null`, which is a value like others.
fn given<'a, D: Deserializer<'a>>(field: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(field).map(Some)
}

/// The secrets of a script: values by name.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secrets(BTreeMap<String, String>);

impl Secrets {
    /// Returns the names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl FromIterator<(String, String)> for Secrets {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(all: I) -> Self {
        // Unlike collecting, this needs no sort for this type, which would be 5 kB of a Worker.
        let mut secrets = BTreeMap::new();
        secrets.extend(all);
        Secrets(secrets)
    }
}

impl fmt::Debug for Secrets {
    /// Writes only the names, because debug output may be logged.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// What an agent wrote, to check before it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// The source of a script or tool, which is compiled.
    Script(String),
    /// The source of a library, which is compiled.
    Library(String),
    /// The JSON schema of a tool's arguments.
    Schema(Json),
}

/// A call of the host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Call {
    /// `state.get`: returns the value, or null.
    StateGet {
        /// The key.
        key: String,
    },
    /// `state.set`: returns null.
    StateSet {
        /// The key.
        key: String,
        /// The value.
        value: Value,
    },
    /// `state.delete`: returns whether the key existed.
    StateDelete {
        /// The key.
        key: String,
    },
    /// `state.keys`: returns the keys.
    StateKeys {
        /// The text that they start with.
        #[serde(default)]
        prefix: String,
    },
    /// `db.sql`: returns the rows, or what was changed.
    DbSql {
        /// One statement.
        sql: String,
        /// The values of its parameters.
        #[serde(default)]
        params: Vec<Value>,
    },
    /// `db.schema`: returns the tables.
    DbSchema {},
    /// `fetch`: returns the status, the headers and the body.
    Fetch(Fetch),
    /// A function of `browser`: a [`Browse`], which only hosts with a browser decode.
    Browser(Value),
}

/// An action in the browser of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Browse {
    /// Opens a page: returns its URL, its title and its status.
    Navigate {
        /// The URL.
        url: String,
        /// What to wait for.
        #[serde(default)]
        wait_until: WaitUntil,
    },
    /// Takes a screenshot: returns it in base64, with its width and height.
    Screenshot {
        /// The element; `None` for the visible part of the page.
        #[serde(default)]
        selector: Option<String>,
        /// Whether to take the whole page.
        #[serde(default)]
        full_page: bool,
    },
    /// Clicks an element: returns null.
    Click {
        /// The element.
        selector: String,
    },
    /// Types into an element: returns null.
    Type {
        /// The element.
        selector: String,
        /// The text.
        text: String,
        /// Whether to remove what the element contains.
        #[serde(default)]
        clear_first: bool,
    },
    /// Returns the visible text of an element, or of the page.
    ExtractText {
        /// The element.
        #[serde(default)]
        selector: Option<String>,
    },
    /// Returns the HTML of an element, or of the page.
    ExtractHtml {
        /// The element.
        #[serde(default)]
        selector: Option<String>,
        /// Whether the element itself is a part of it.
        #[serde(default)]
        outer: bool,
    },
    /// Runs JavaScript in the page: returns its value.
    Evaluate {
        /// The code.
        code: String,
    },
    /// Closes the browser: returns null.
    Close {},
}

/// What a navigation waits for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WaitUntil {
    /// The page and what it embeds.
    #[default]
    Load,
    /// The document.
    DomContentLoaded,
    /// Half a second without requests.
    NetworkIdle,
}

/// A request of `fetch`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fetch {
    /// The URL.
    pub url: String,
    /// The method.
    #[serde(default)]
    pub method: Method,
    /// The headers.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The timeout in milliseconds.
    #[serde(default = "fetch_timeout")]
    pub timeout: u64,
}

/// The default timeout of a request, in milliseconds.
fn fetch_timeout() -> u64 {
    30_000
}

/// The method of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[allow(missing_docs, reason = "they are the methods of HTTP")]
pub enum Method {
    #[default]
    Get,
    Post,
    Put,
    Patch,
    Delete,
    Head,
}

impl Method {
    /// Returns the method as it is sent.
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Patch => "PATCH",
            Method::Delete => "DELETE",
            Method::Head => "HEAD",
        }
    }
}

/// The error that ended a script.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The message, after the name of the error if it has one.
    pub message: String,
    /// The name of the error that the script threw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The calls that led to the error, one per line, without those of koze's own source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<String>,
    /// The place, if the error is in the source of the script or of a library.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// The limit that was reached, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// Whether nothing was run, because the arguments do not match their schema, the schema is wrong, or comparing them reached
    /// a limit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub arguments: bool,
}

impl Failure {
    /// Returns a failure without a place.
    pub fn new(message: String) -> Self {
        Failure { message, name: None, stack: None, place: None, limit: None, arguments: false }
    }

    /// Returns the failure for a limit that was reached.
    pub fn limited(limits: &Limits, limit: Limit) -> Self {
        Failure { limit: Some(limit), ..Failure::new(limits.message(limit)) }
    }
}

/// A place in the source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The library; `None` for the script itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library: Option<String>,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(library) = &self.library {
            write!(f, "library {library}, ")?;
        }
        write!(f, "line {}, column {}", self.line, self.column)
    }
}
