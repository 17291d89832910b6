//! `koze run`, with stand-ins for the agents.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use fs_err as fs;
use insta::assert_snapshot;
use koze_tests::{Run, Sandboxes, koze, node_command, root, run};
use serde_json::{Value, json};

use crate::common::{printed, sandboxes};

const TIMEOUT: Duration = Duration::from_mins(1);

/// A project whose PATH has stand-ins for agents.
struct Host {
    sandboxes: Sandboxes,
    bin: PathBuf,
}

impl Host {
    fn new() -> Self {
        let sandboxes = sandboxes();
        let bin = sandboxes.dir().with_file_name("bin");
        fs::create_dir(&bin).expect("a directory");
        Host { sandboxes, bin }
    }

    /// Adds an agent that is a shell script.
    fn script(&self, name: &str, text: &str) -> &Self {
        self.program(name, &format!("#!/bin/sh\n{text}\n"))
    }

    /// Adds an agent that calls the tools. See `agent.cjs`.
    fn agent(&self, name: &str) -> &Self {
        let node = node_command("node").get_program().to_string_lossy().into_owned();
        let text = fs::read_to_string(root().join("tests/tests/functional/agent.cjs")).expect("the stand-in");
        self.program(name, &format!("#!{node}\n{text}"))
    }

    fn program(&self, name: &str, text: &str) -> &Self {
        // With another process: if this one had the file open for writing, a child of another test could inherit the
        // descriptor and prevent the program from being executed.
        let mut write = Command::new("sh");
        write
            .args(["-c", "printf %s \"$1\" > \"$0\" && chmod 755 \"$0\""])
            .arg(self.bin.join(name))
            .arg(text);
        assert!(run(write, TIMEOUT).status.success(), "{name}");
        self
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.sandboxes.command(&[&["run"], args].concat());
        command.env("PATH", self.path());
        for name in
            ["GEMINI_CLI_SYSTEM_DEFAULTS_PATH", "GEMINI_CLI_SYSTEM_SETTINGS_PATH", "OPENCODE_CONFIG_CONTENT"]
        {
            command.env_remove(name);
        }
        command
    }

    fn path(&self) -> String {
        format!("{}:{}", self.bin.display(), std::env::var("PATH").unwrap_or_default())
    }

    fn run(&self, args: &[&str]) -> Run {
        self.sandboxes.run(self.command(args))
    }
}

fn parsed(run: &Run) -> Value {
    assert_eq!(run.code, 0, "{}", printed(run));
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", printed(run)))
}

#[test]
fn each_agent_gets_the_tools() {
    let host = Host::new();
    let files = || -> BTreeSet<OsString> {
        let entries = fs::read_dir(host.sandboxes.dir()).expect("the project");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        names.filter(|name| name != "state").collect()
    };
    let before = files();
    for name in ["claude", "codex", "gemini", "opencode"] {
        host.agent(name);
        let mut command = host.command(&["--session", name, "--", name, "--resume", "a b", "--", "-p"]);
        command.env("OPENCODE_VERSION", "1.18.31");
        let seen = parsed(&host.sandboxes.run(command));
        let expected = json!({ "args": ["--resume", "a b", "--", "-p"], "tools": 12, "stdout": "42\n" });
        assert_eq!(seen, expected, "{name}");
    }
    // All of them used the state directory of this environment.
    let listed = host.sandboxes.koze(&["sandboxes", "--format", "json"]);
    let listed: Value = serde_json::from_str(&listed.stdout).expect("JSON");
    let mut sessions: Vec<&str> = listed["sandboxes"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|one| one["session"].as_str())
        .collect();
    sessions.sort_unstable();
    assert_eq!(sessions, ["claude", "codex", "gemini", "opencode"]);
    assert_eq!(files(), before, "a file was added to the project");
}

/// The files that `koze mcp --write` creates start a server, from the directory in which the client starts it.
#[test]
fn each_file_starts_a_server() {
    let host = Host::new();
    symlink(koze().get_program(), host.bin.join("koze")).expect("a link");
    host.agent("reader");
    let project = host.sandboxes.dir().to_string_lossy().into_owned();
    let files = [
        ("claude-code", ".mcp.json", "/mcpServers/koze"),
        ("codex", ".codex/config.toml", "/mcp_servers/koze"),
        ("cursor", ".cursor/mcp.json", "/mcpServers/koze"),
        ("vscode", ".vscode/mcp.json", "/servers/koze"),
        ("gemini", ".gemini/settings.json", "/mcpServers/koze"),
        ("opencode", "opencode.json", "/mcp/koze"),
    ];
    for (client, file, pointer) in files {
        let mut write = host.sandboxes.command(&["mcp", "--write", client]);
        write.env("PATH", host.path());
        let created = host.sandboxes.run(write);
        assert_eq!((created.code, created.stderr.as_str()), (0, ""), "{}", created.stdout);
        let text = host.sandboxes.read(file).replace("${workspaceFolder}", &project);
        let config: Value = if client == "codex" {
            toml_edit::de::from_str(&text).expect("TOML")
        } else {
            serde_json::from_str(&text).expect("JSON")
        };
        let mut server = config.pointer(pointer).expect("the server").clone();
        if let Some(argv) = server["command"].as_array().cloned() {
            server = json!({ "command": argv[0], "args": argv[1..] });
        }
        let mut reader = Command::new(host.bin.join("reader"));
        reader.arg(server.to_string()).envs(host.sandboxes.env()).env("PATH", host.path());
        // These clients do not promise to start a server in the project.
        let starts_elsewhere = ["codex", "cursor"].contains(&client);
        reader.current_dir(if starts_elsewhere { &host.bin } else { host.sandboxes.dir() });
        let output = run(reader, TIMEOUT);
        let stdout = String::from_utf8_lossy(&output.stdout);
        let seen: Value = serde_json::from_str(&stdout)
            .unwrap_or_else(|_| panic!("{client}: {stdout}{}", String::from_utf8_lossy(&output.stderr)));
        assert_eq!(seen, json!({ "args": [], "tools": 12, "stdout": "42\n" }), "{client}");
    }
}

#[test]
fn what_an_agent_is_given() {
    let host = Host::new();
    let show =
        "for word; do echo \"$word\"; done; printenv OPENCODE_CONFIG_CONTENT GEMINI_CLI_SYSTEM_DEFAULTS_PATH";
    for name in ["claude", "codex", "gemini"] {
        host.script(name, &format!("{show}; true"));
    }
    host.script("opencode", &format!("[ \"$1\" = --version ] && echo v1.2.3 && exit; {show}; true"));
    let koze = koze().get_program().to_string_lossy().into_owned();
    let start = |name: &str| {
        let run = host.run(&["--tools", "agent", "--session", "mine", "--", name, "-p", "fix it"]);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
        format!("$ koze run --tools agent --session mine -- {name} -p 'fix it'\n{}", run.stdout)
    };
    let all: String = ["claude", "codex"].into_iter().map(start).collect();
    assert_snapshot!(all.replace(&koze, "[KOZE]"), @r#"
    $ koze run --tools agent --session mine -- claude -p 'fix it'
    --mcp-config={"mcpServers":{"koze":{"command":"[KOZE]","args":["mcp","--project","[PROJECT]","--session","mine","--tools","agent"]}}}
    -p
    fix it
    $ koze run --tools agent --session mine -- codex -p 'fix it'
    -c
    mcp_servers.koze.command="[KOZE]"
    -c
    mcp_servers.koze.args=["mcp", "--project", "[PROJECT]", "--session", "mine", "--tools", "agent"]
    -c
    mcp_servers.koze.env_vars=["XDG_STATE_HOME", "KOZE_SUPERVISOR_IDLE_MS"]
    -p
    fix it
    "#);

    let args = json!(["mcp", "--project", host.sandboxes.dir(), "--session", "mine", "--tools", "agent"]);
    let gemini = start("gemini");
    let settings = gemini.lines().last().and_then(|line| line.strip_prefix("[PROJECT]/state/koze/"));
    let settings = host.sandboxes.path("state/koze").join(settings.expect("a file in the state directory"));
    let settings: Value = serde_json::from_str(&fs::read_to_string(settings).expect("a file")).expect("JSON");
    assert_eq!(settings, json!({ "mcpServers": { "koze": { "command": koze, "args": args } } }));

    let opencode = start("opencode").replace("[PROJECT]", &host.sandboxes.dir().to_string_lossy());
    let (_, content) = opencode.split_once("fix it\n").expect("the arguments of the user");
    let content: Value = serde_json::from_str(content).expect("JSON");
    let words = [&[json!(koze)], args.as_array().expect("a list").as_slice()].concat();
    assert_eq!(content, json!({ "mcp": { "koze": { "type": "local", "command": words } } }));
}

#[test]
fn the_configuration_of_the_environment_stays() {
    let host = Host::new();
    host.script(
        "opencode",
        "[ \"$1\" = --version ] && echo 1.0.0 && exit; echo \"$OPENCODE_CONFIG_CONTENT\"",
    );
    host.script("gemini", "cat \"$GEMINI_CLI_SYSTEM_DEFAULTS_PATH\"");
    let run = |name: &str, variable: &str, value: &str| {
        let mut command = host.command(&["--", name]);
        command.env(variable, value);
        host.sandboxes.run(command)
    };
    let content = "{ \"theme\": \"mine\", \"mcp\": { \"docs\": { \"type\": \"remote\" } } }";
    let seen = parsed(&run("opencode", "OPENCODE_CONFIG_CONTENT", content));
    assert_eq!((&seen["theme"], &seen["mcp"]["docs"]["type"]), (&json!("mine"), &json!("remote")));
    assert_eq!(seen["mcp"]["koze"]["type"], "local");
    host.sandboxes
        .write("etc/system-defaults.json", "{ \"ui\": { \"theme\": \"of the machine\" } } // managed\n");
    for (variable, file) in [
        ("GEMINI_CLI_SYSTEM_DEFAULTS_PATH", "etc/system-defaults.json"),
        ("GEMINI_CLI_SYSTEM_SETTINGS_PATH", "etc/settings.json"),
    ] {
        let file = host.sandboxes.path(file);
        let seen = run("gemini", variable, &file.to_string_lossy());
        assert!(
            seen.stdout.contains("of the machine") && seen.stdout.contains("\"koze\""),
            "{}",
            printed(&seen)
        );
        assert!(seen.stdout.ends_with("// managed\n"), "{}", seen.stdout);
    }

    let mut all = String::new();
    all += &printed(&run("opencode", "OPENCODE_CONFIG_CONTENT", "{"));
    all += &printed(&run(
        "opencode",
        "OPENCODE_CONFIG_CONTENT",
        "{ \"mcp\": { \"koze\": { \"command\": [\"npx\"] } } }",
    ));
    host.sandboxes.write("etc/system-defaults.json", "{ \"mcpServers\": [] }");
    let file = host.sandboxes.path("etc/system-defaults.json");
    all += &printed(&run("gemini", "GEMINI_CLI_SYSTEM_DEFAULTS_PATH", &file.to_string_lossy()));
    assert_snapshot!(all, @"
    125
    error: OPENCODE_CONFIG_CONTENT: Unterminated object
    125
    error: OPENCODE_CONFIG_CONTENT: `mcp.koze` does not start `koze mcp`
    125
    error: `[PROJECT]/etc/system-defaults.json`: `mcpServers` is not an object
    ");
}

/// The agent takes the place of koze.
#[test]
fn streams_signals_and_the_exit_code_are_those_of_the_agent() {
    let host = Host::new();
    host.script("claude", "cat; echo err >&2; exit 7");
    let mut command = host.command(&["--", "claude"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("koze starts");
    std::io::Write::write_all(child.stdin.as_mut().expect("a pipe"), b"in\n").expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(
        (output.status.code(), &*output.stdout, &*output.stderr),
        (Some(7), &b"in\n"[..], &b"err\n"[..])
    );

    host.script("codex", "echo $$; kill -TERM $$; sleep 60");
    let mut command = host.command(&["--", "codex"]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("koze starts");
    let id = child.id();
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{id}\n"));
    // A shell reports 128 + 15.
    assert_eq!(output.status.signal(), Some(15));
}

#[test]
fn agents_that_are_not_started() {
    let host = Host::new();
    for name in ["aider", "cursor-agent", "code"] {
        host.script(name, "echo it was started");
    }
    let start = |args: &[&str]| format!("$ koze run {}\n{}", args.join(" "), printed(&host.run(args)));
    let names = ["aider", "/opt/bin/aider", "cursor-agent", "code", "claude", "./claude"];
    let mut all: Vec<String> = names.into_iter().map(|name| start(&["--", name])).collect();
    all.push(start(&["--", "opencode"]));
    for version in ["echo 2.0.3", "echo none", "exit 1"] {
        host.script("opencode", version);
        all.push(start(&["--", "opencode"]));
    }
    host.script("claude", "echo it was started");
    all.push(start(&["--tools", "none", "--", "claude"]));
    let all = all.concat();
    assert!(!all.contains("it was started"), "{all}");
    assert_snapshot!(all, @"
    $ koze run -- aider
    125
    error: koze does not know the agent `aider`: it starts `claude`, `codex`, `gemini` and `opencode`. For another one, add what `koze mcp --print-config json` prints to its configuration
    $ koze run -- /opt/bin/aider
    125
    error: koze does not know the agent `aider`: it starts `claude`, `codex`, `gemini` and `opencode`. For another one, add what `koze mcp --print-config json` prints to its configuration
    $ koze run -- cursor-agent
    125
    error: Cursor takes servers only from its files: run `koze mcp --write cursor`, then start it without koze
    $ koze run -- code
    125
    error: VS Code takes servers only from its files: run `koze mcp --write vscode`, then start it without koze
    $ koze run -- claude
    127
    error: there is no program `claude`: install it, or correct the name
    $ koze run -- ./claude
    127
    error: there is no program `./claude`: install it, or correct the name
    $ koze run -- opencode
    127
    error: there is no program `opencode`: install it, or correct the name
    $ koze run -- opencode
    125
    error: OpenCode 2.0.3 takes servers only from its files: run `koze mcp --write opencode`, then start it without koze
    $ koze run -- opencode
    125
    error: `opencode --version` printed `none`, which is not a version: run `koze mcp --write opencode`, then start it without koze
    $ koze run -- opencode
    125
    error: `opencode --version` prints no version, and OpenCode 2 takes servers only from its files: run `koze mcp --write opencode`, then start it without koze
    $ koze run --tools none -- claude
    125
    error[invalid_input]: there are no tools `none`: the families are agent, thread, workspace, script
    ");
    fs::create_dir(host.bin.join("codex")).expect("a directory");
    let directory = host.bin.join("codex").to_string_lossy().into_owned();
    assert_eq!(host.run(&["--", &directory]).code, 126);
    assert_eq!(host.run(&["claude"]).code, 2, "the agent comes after `--`");
    assert_eq!(host.run(&[]).code, 2);
}
