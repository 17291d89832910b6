//! The clients of `docs/quick-start.md`: what the page says is run, with a stand-in for the model.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::SystemTime;

use fs_err as fs;
use koze_tests::{Block, Sandboxes, framework_modules, node_command, page_blocks, path_with_koze, root, run};
use serde_json::{Value, json};
use toml_edit::DocumentMut;

use crate::clients::play;
use crate::server::{TIMEOUT, project};

const PAGE: &str = "quick-start.md";
/// The project on the page.
const PLACE: &str = "/path/to/hello";

/// A project whose sandbox `default` has a file with unique content. Its clients get only the variables that SDKs pass
/// on, so the sandboxes are in a home directory of its own.
struct Stage {
    host: Sandboxes,
    /// What only a tool of this project can return.
    content: String,
}

impl Stage {
    fn new() -> Self {
        let host = project();
        for dir in ["home", "client"] {
            fs::create_dir(host.path(dir)).expect("a directory");
        }
        let now = SystemTime::UNIX_EPOCH.elapsed().expect("a time after 1970");
        let content = format!("{}-{}", std::process::id(), now.as_nanos());
        let mut call = host.command(&["call", "write_file"]);
        call.arg(json!({ "path": "content", "content": content }).to_string());
        call.env_remove("XDG_STATE_HOME").env("HOME", host.path("home"));
        let run = host.run(call);
        assert_eq!(run.code, 0, "{run:?}");
        Stage { host, content }
    }

    /// Returns a text of the page with this project.
    fn here(&self, text: &str) -> String {
        assert!(text.contains(PLACE), "no project: {text}");
        text.replace(PLACE, &self.host.dir().to_string_lossy())
    }

    /// Starts a server with the command on the page, and checks that its tools are those of the project.
    fn serves(&self, command: &str, args: &Value) {
        let server = json!({
            "command": command,
            "args": args,
            "cwd": self.host.path("client"),
            "env": { "PATH": path_with_koze(), "HOME": self.host.path("home") },
        });
        let calls = json!([["shell", { "command": "cat content" }]]).to_string();
        let seen = play("task", "1", &server, &[&calls]);
        assert_eq!(seen["results"][0]["structuredContent"]["stdout"], self.content, "{server}: {seen}");
    }

    /// Runs a program of the page, and returns what it prints.
    fn play_program(&self, text: &str) -> String {
        let client = self.host.path("client");
        std::os::unix::fs::symlink(framework_modules(), client.join("node_modules")).expect("a link");
        fs::write(client.join("main.mjs"), self.here(text)).expect("the program");
        let model = Model::start("cat content");
        let mut node = node_command("node");
        let path = node.get_envs().find(|(name, _)| *name == "PATH").and_then(|(_, value)| value);
        let path = format!("{}:{}", path.expect("a PATH").to_string_lossy(), path_with_koze());
        node.arg("main.mjs").current_dir(client).env("PATH", path).env("HOME", self.host.path("home"));
        node.env("OPENAI_API_KEY", "none").env("OPENAI_BASE_URL", &model.url);
        node.env("OPENAI_AGENTS_DISABLE_TRACING", "1").env("LANGSMITH_TRACING", "false");
        let output = run(node, TIMEOUT);
        let [stdout, stderr] =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        assert!(output.status.success(), "{stdout}{stderr}");
        stdout
    }
}

/// The stand-in for the model (`model.mjs`), which is killed on drop.
struct Model {
    child: Child,
    url: String,
    /// It ends with its standard input, so it does not outlive this test.
    _stdin: ChildStdin,
}

impl Model {
    fn start(command: &str) -> Self {
        let mut node: Command = node_command("node");
        node.arg(root().join("tests/tests/mcp/model.mjs")).arg(command);
        let mut child = node.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("node starts");
        let stdin = child.stdin.take().expect("a pipe");
        let stdout = child.stdout.take().expect("a pipe");
        let mut model = Model { child, url: String::new(), _stdin: stdin };
        BufReader::new(stdout).read_line(&mut model.url).expect("its URL");
        model.url.truncate(model.url.trim_end().len());
        model
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the text of the only block of a language below a heading of the page.
fn block(heading: &str, language: &str) -> String {
    let is_it = |block: &Block| block.heading == heading && block.language == language;
    let found: Vec<Block> = page_blocks(PAGE).into_iter().filter(is_it).collect();
    assert_eq!(found.len(), 1, "{heading}, {language}: {found:?}");
    found[0].text.clone()
}

/// Returns the command of a line `client mcp add koze -- COMMAND`.
fn added(stage: &Stage, heading: &str) -> (String, Value) {
    let line = stage.here(&block(heading, "sh"));
    let (_, command) = line.trim().split_once(" mcp add koze -- ").expect("a line that adds a server");
    let mut words = command.split(' ');
    (words.next().expect("a command").to_owned(), words.collect())
}

/// Returns the command of a configuration with `mcpServers`.
fn configured(stage: &Stage, heading: &str) -> (String, Value) {
    let config: Value = serde_json::from_str(&stage.here(&block(heading, "json"))).expect("JSON");
    let koze = &config["mcpServers"]["koze"];
    (koze["command"].as_str().expect("a command").to_owned(), koze["args"].clone())
}

#[test]
fn claude_code_and_cursor_start_a_server() {
    let stage = Stage::new();
    let claude = configured(&stage, "Claude Code");
    assert_eq!(added(&stage, "Claude Code"), claude);
    assert_eq!(configured(&stage, "Cursor"), claude);
    stage.serves(&claude.0, &claude.1);
}

#[test]
fn codex_starts_a_server() {
    let stage = Stage::new();
    let config: DocumentMut = stage.here(&block("Codex", "toml")).parse().expect("TOML");
    let koze = &config["mcp_servers"]["koze"];
    let args = koze["args"].as_array().expect("a list").iter().map(|arg| arg.as_str().expect("a text"));
    let codex = (koze["command"].as_str().expect("a command").to_owned(), args.collect::<Value>());
    assert_eq!(added(&stage, "Codex"), codex);
    stage.serves(&codex.0, &codex.1);
}

/// Runs the program of a framework, whose packages must be those that the page installs.
fn plays(heading: &str) {
    let line = block(heading, "sh");
    let packages = line.trim().strip_prefix("npm install ").expect("the packages");
    for package in packages.split(' ') {
        assert!(
            framework_modules().join(package).is_dir(),
            "{package} is not in tests/frameworks/package.json"
        );
    }
    let program = block(heading, "js");
    for import in program.lines().filter_map(|line| line.split_once(" from \"")) {
        let package = import.1.trim_end_matches("\";");
        let is_installed = |name: &str| {
            package == name || package.strip_prefix(name).is_some_and(|rest| rest.starts_with('/'))
        };
        assert!(packages.split(' ').any(is_installed), "`npm install` lacks {package}");
    }
    let stage = Stage::new();
    let printed = stage.play_program(&program);
    assert!(printed.contains(&stage.content), "{heading}: {printed}");
}

#[test]
fn openai_agents_calls_a_tool() {
    plays("OpenAI Agents");
}

#[test]
fn langchain_calls_a_tool() {
    plays("LangChain");
}

#[test]
fn the_vercel_ai_sdk_calls_a_tool() {
    plays("Vercel AI SDK");
}
