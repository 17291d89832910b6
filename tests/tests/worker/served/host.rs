//! The Worker that `koze new` creates, in workerd with sandboxes in memory.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use fs_err as fs;
use koze_tests::{node_command, root};
use serde_json::{Value, json};
use tempfile::TempDir;
use walkdir::WalkDir;

use crate::built::wasm;
use crate::project::{self, Worker};
use crate::runs::link;

/// The Worker's token.
pub(crate) const TOKEN: &str = "a token of the tests";
/// The start timeout of workerd.
const TIMEOUT: Duration = Duration::from_mins(2);
/// The files next to the Rust Worker, with their sources: those of the tests, and those that all backends share.
const FILES: [(&str, &str); 5] = [
    ("tests/tests/worker/served", "entry.mjs"),
    ("tests/tests/worker/served", "memory.mjs"),
    ("templates/files/generated/koze", "calls.mjs"),
    ("templates/files/generated/koze", "waiting.mjs"),
    ("templates/files/generated/koze", "sessions.mjs"),
];

/// Returns a directory with the Worker for workerd, created once for all tests of a run.
fn directory() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let worker = two_images();
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("served");
        // An earlier run may have left another Worker.
        let _ = fs::remove_dir_all(&place);
        fs::create_dir_all(&place).expect("a directory in cargo's");
        link(&wasm(&worker).expect("the Rust Worker"), &place);
        for (of, file) in FILES {
            fs::copy(root().join(of).join(file), place.join(file)).expect("a file");
        }
        place
    })
}

/// Creates a project with a second image.
fn two_images() -> Worker {
    let worker = project::made("served");
    let shell = "src/server/shell.sandbox.rs";
    let both =
        worker.project.read(shell).replacen("sandbox(", "sandbox(tools = [\"agent\", \"thread\"], ", 1);
    assert!(both.contains("thread"), "{both}");
    worker.project.write(shell, both);
    let run = worker.project.koze(&["add", "python", "--variant", "python"]);
    assert_eq!(run.code, 0, "{run:?}");
    // It also contains custom code next to the tools: see `own.rs`.
    let own = fs::read(root().join("tests/tests/worker/served/own.rs")).expect("the program");
    worker.project.write("src/own.rs", own);
    for module in ["operations", "store"] {
        let cases = format!("tests/tests/conformance/{module}/cases.rs");
        let cases = fs::read_to_string(root().join(cases)).expect("the cases");
        worker.project.write(format!("src/{module}.rs"), cases.replace("koze_core", "koze"));
    }
    let manifest = worker.project.read("Cargo.toml");
    let with_futures =
        manifest.replace("[dependencies]\n", "[dependencies]\nbase64 = \"0.22\"\nfutures-util = \"0.3\"\n");
    assert_ne!(manifest, with_futures, "there is a table of dependencies");
    worker.project.write("Cargo.toml", with_futures);
    let lib = worker.project.read("src/lib.rs");
    let [serve, module] = ["    generated::serve(request, env.into()).await\n", "mod generated;\n"];
    assert!(lib.contains(serve) && lib.contains(module), "{lib}");
    let with_own = "    let (mut request, env) = (request, generated::Env::from(env));
    match own::answer(&mut request, &env).await {
        Some(answer) => answer,
        None => generated::serve(request, env).await,
    }\n";
    let lib = lib
        .replace(serve, with_own)
        .replace(module, "mod generated;\nmod operations;\nmod own;\nmod store;\n");
    worker.project.write("src/lib.rs", lib);
    worker
}

/// Creates such a project with the Rust Worker in place.
pub(crate) fn rust_worker() -> Worker {
    let worker = two_images();
    for entry in WalkDir::new(directory()).min_depth(1) {
        let entry = entry.expect("the Rust Worker");
        let name = entry.path().strip_prefix(directory()).expect("it is in it");
        let copy = worker.build_dir().join(name);
        if entry.file_type().is_dir() {
            fs::create_dir_all(copy).expect("a directory");
        } else if !FILES.iter().any(|(_, file)| name == Path::new(file)) {
            fs::copy(entry.path(), copy).expect("a copy");
        }
    }
    worker
}

/// A running Worker, which is stopped on drop.
pub(crate) struct Host {
    child: Child,
    url: String,
    agent: ureq::Agent,
}

/// A response.
#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Host {
    /// Starts the Worker with one token, without a registry.
    pub(crate) fn start() -> Self {
        Host::with(&json!({ "bindings": { "KOZE_TOKEN": TOKEN } }))
    }

    /// Starts the Worker with a registry, whose objects are stored in a directory.
    pub(crate) fn with_registry(persist: &TempDir) -> Self {
        let persist = persist.path().to_str().expect("a path in Unicode");
        Host::with(&json!({ "bindings": { "KOZE_TOKEN": TOKEN }, "registry": true, "persist": persist }))
    }

    /// Starts the Worker with a registry and an R2 bucket.
    pub(crate) fn with_bucket() -> Self {
        Host::with(&json!({ "bindings": { "KOZE_TOKEN": TOKEN }, "registry": true, "bucket": "BLOBS" }))
    }

    /// Starts the Worker with these options. See `serve.mjs`.
    pub(crate) fn with(options: &Value) -> Self {
        let mut node = node_command("node");
        node.arg(root().join("tests/tests/worker/served/serve.mjs"))
            .arg(directory())
            .arg(options.to_string());
        Host::run(node)
    }

    /// Starts a program that prints its URL first, and ends with its input.
    pub(crate) fn run(mut node: Command) -> Self {
        node.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = node.spawn().expect("node starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let (send, body) = mpsc::channel();
        thread::spawn(move || {
            let mut line = String::new();
            let _ = stdout.read_line(&mut line);
            let _ = send.send(line);
            // Drain the logs, so that they do not fill the pipe.
            let _ = stdout.read_to_end(&mut Vec::new());
        });
        let agent = ureq::Agent::config_builder().http_status_as_error(false).max_redirects(0);
        // An encoding, which answers without a body may name as well, would hide the bytes that the Worker sends.
        let agent = agent.accept_encoding("identity").timeout_global(Some(TIMEOUT)).build().into();
        // Construct it first, so that the child is killed even if its output is unexpected.
        let mut host = Host { child, url: String::new(), agent };
        let line = body.recv_timeout(TIMEOUT).expect("workerd starts");
        assert!(line.starts_with("http://127.0.0.1:"), "{line}");
        line.trim().clone_into(&mut host.url);
        host
    }

    /// Returns its URL with a trailing slash.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Sends a request.
    pub(crate) fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let url = format!("{}{}", self.url, path.strip_prefix('/').expect("a path"));
        let mut request = ureq::http::Request::builder().method(method).uri(url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body.to_vec()).expect("a request");
        let response = self.agent.run(request).expect("an answer");
        let text = |value: &ureq::http::HeaderValue| value.to_str().unwrap_or_default().to_owned();
        let headers =
            response.headers().iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        let status = response.status().as_u16();
        let body = response.into_body().with_config().limit(64 << 20).read_to_string().expect("a text");
        Answer { status, headers, body }
    }

    /// Sends a request with the token.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &[u8]) -> Answer {
        self.send(method, path, &[("authorization", &format!("Bearer {TOKEN}"))], body)
    }

    /// Sends a request with the token, and with the last headers and body as raw bytes. Returns the raw response.
    pub(crate) fn raw(&self, method: &str, path: &str, rest: &[u8]) -> String {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\nauthorization: Bearer {TOKEN}\r\n"
        );
        self.exchange(&[head.as_bytes(), rest].concat())
    }

    /// Upgrades to another protocol and sends data. Returns the raw response.
    pub(crate) fn upgrade(&self, name: &str, headers: &str, body: &[u8]) -> String {
        let head = format!("GET / HTTP/1.1\r\nhost: {name}\r\nconnection: upgrade\r\n{headers}");
        self.exchange(&[head.as_bytes(), body].concat())
    }

    /// Sends raw bytes. Returns everything until the connection ends.
    pub(crate) fn exchange(&self, sent: &[u8]) -> String {
        let address = self.url.trim_start_matches("http://").trim_end_matches('/');
        let mut stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        stream.write_all(sent).expect("all of it is sent");
        let mut answer = Vec::new();
        // The connection may end in any way; only the data before counts.
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Calls a tool of a session, and returns whether it failed, and the result.
    pub(crate) fn call(&self, session: &str, tool: &str, input: &Value) -> (bool, Value) {
        let answer =
            self.ask("POST", &format!("/sessions/{session}/tools/{tool}"), input.to_string().as_bytes());
        assert_eq!(answer.status, 200, "{answer:?}");
        let value = answer.json();
        let content = value["content"].as_str().expect("a text");
        let failed = value["isError"].as_bool().expect("a Boolean");
        (failed, serde_json::from_str(content).unwrap_or_else(|_| json!(content)))
    }

    /// Calls the custom code. See `own.rs`.
    pub(crate) fn own(&self, what: &str, query: &str, body: &str) -> Result<String, String> {
        let answer = self.ask("POST", &format!("/own/{what}?{query}"), body.as_bytes());
        assert_eq!(answer.status, 200, "{what} {query}: {answer:?}");
        told(&answer.json())
    }

    /// Runs a command in the default sandbox of a session, and returns standard output.
    pub(crate) fn shell(&self, session: &str, command: &str) -> String {
        let (failed, value) = self.call(session, "shell", &json!({ "command": command }));
        assert!(!failed, "{value}");
        value["stdout"].as_str().expect("a text").to_owned()
    }
}

/// Decodes an answer of the custom code. See `own.rs`.
pub(crate) fn told(body: &Value) -> Result<String, String> {
    let text = |key: &str| body[key].as_str().map(str::to_owned);
    text("ok").ok_or_else(|| text("error").unwrap_or_else(|| panic!("neither a value nor an error: {body}")))
}

impl Drop for Host {
    fn drop(&mut self) {
        // At the end of its input, it stops workerd and exits.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

impl Answer {
    /// Parses the body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Returns a header.
    pub(crate) fn header(&self, wanted: &str) -> Option<&str> {
        self.headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str())
    }

    /// Returns the status, code and message of an error.
    pub(crate) fn refusal(&self) -> (u16, String, String) {
        let error = &self.json()["error"];
        let text = |key: &str| error[key].as_str().unwrap_or_else(|| panic!("{self:?}")).to_owned();
        (self.status, text("code"), text("message"))
    }
}
