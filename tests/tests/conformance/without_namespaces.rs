//! The program without namespaces, as Unix systems other than Linux have it, with sandboxes in containers of podman.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};

use koze_tests::conformance::{Capability, Host, IMAGES};
use koze_tests::{Project, Run, Sandboxes, eventually, koze_without_namespaces};
use libtest_mimic::{Failed, Trial};
use serde_json::{Value, json};

use crate::Hosted;
use crate::command::Called;
use crate::engine;
use crate::in_process::{engine_image, podman};

/// Some of the cases: the program starts and reaches its supervisor as on Linux, over its own code for that.
pub(crate) const HOST: Hosted = Hosted {
    name: "koze call without namespaces",
    lacks: &[
        Capability::Browser,
        Capability::Big,
        Capability::ManyFiles,
        Capability::Limits,
        Capability::ManyCalls,
    ],
    start,
};

const CASES: [&str; 6] = [
    "browse_reaches_a_server",
    "files_of_programs_survive_a_restart",
    "output_bytes_stay_bytes",
    "shell_exit_codes_are_the_real_ones",
    "thread_write_file",
    "transfer_within_one_sandbox",
];

/// Returns whether a case runs on this host.
pub(crate) fn plays(case: &str) -> bool {
    CASES.contains(&case)
}

pub(crate) fn trials() -> Vec<Trial> {
    if !engine::can_run() {
        return Vec::new();
    }
    let trial = |name, play: fn()| {
        let play = move || {
            play();
            Ok::<(), Failed>(())
        };
        Trial::test(name, play).with_kind("engine")
    };
    vec![
        trial("without_namespaces_sandboxes_are_used_and_listed", used_and_listed),
        trial("without_namespaces_programs_have_the_streams_of_the_command", streams),
        trial("without_namespaces_files_and_directories_are_copied", copied),
        trial("without_namespaces_a_state_directory_with_a_long_path", long_path),
        trial("without_namespaces_mcp_serves_tools", mcp),
        trial("without_namespaces_serve_serves_files", served),
        trial("without_namespaces_what_needs_namespaces_is_refused", refused),
    ]
}

fn start() -> Box<dyn Host> {
    let more = ["default, tools = [\"agent\", \"thread\"]", ""];
    let sandboxes = IMAGES.iter().zip(more).map(|(name, more)| ((*name).to_owned(), attribute(more)));
    Box::new(Called::of(sandboxes.collect()).with_command(command))
}

fn attribute(more: &str) -> String {
    let comma = if more.is_empty() { "" } else { ", " };
    format!("backend = \"native\", image = \"{}\"{comma}{more}", engine_image())
}

/// Returns a command of the program. podman is the only engine whose socket it finds.
fn command(sandboxes: &Sandboxes, args: &[&str]) -> Command {
    let mut command = koze_without_namespaces();
    command.args(args).current_dir(sandboxes.dir()).envs(sandboxes.env());
    command.env("CONTAINER_HOST", podman().host()).env("DOCKER_HOST", "unix:///nonexistent/docker.sock");
    command.env("NO_COLOR", "1");
    command
}

/// A project with one sandbox file.
fn project() -> Sandboxes {
    let project = Project::new();
    project
        .write(
            "Cargo.toml",
            "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n",
        )
        .write("package.json", "{}")
        .write("src/lib.rs", "");
    let attribute = attribute("default");
    let text = format!("use koze::prelude::*;\n\n#[sandbox({attribute})]\npub struct ShellSandbox;\n");
    project.write("src/server/shell.sandbox.rs", text);
    Sandboxes::of(project)
}

fn run(sandboxes: &Sandboxes, args: &[&str]) -> Run {
    sandboxes.run(command(sandboxes, args))
}

/// Runs a command that must succeed without a message, and returns its output.
fn output(sandboxes: &Sandboxes, args: &[&str]) -> String {
    let run = run(sandboxes, args);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{args:?}: {}", run.stdout);
    run.stdout
}

fn shell(sandboxes: &Sandboxes, command: &str) -> String {
    let input = json!({ "command": command }).to_string();
    let result: Value = serde_json::from_str(&output(sandboxes, &["call", "shell", &input])).expect("JSON");
    result["stdout"].as_str().expect("a text").to_owned()
}

fn used_and_listed() {
    let sandboxes = project();
    assert_eq!(shell(&sandboxes, "echo kept > kept; cat kept"), "kept\n");
    let list: Value =
        serde_json::from_str(&output(&sandboxes, &["sandboxes", "--format", "json"])).expect("JSON");
    assert_eq!(list["sandboxes"][0]["name"], "default", "{list}");
    let ps: Value = serde_json::from_str(&output(&sandboxes, &["ps", "--format", "json"])).expect("JSON");
    assert_eq!(ps["sandboxes"][0]["status"], "running", "{ps}");
    let about: Value = serde_json::from_str(&output(&sandboxes, &["inspect", "default"])).expect("JSON");
    assert_eq!(about["mounts"], json!([{ "path": "/", "writable": true }]), "{about}");
    // A call does not wait for its record.
    eventually("the call is recorded", || output(&sandboxes, &["log"]).contains("shell"));
    // The engine of the sandboxes is recorded, and another one is refused.
    let other = run(&sandboxes, &["call", "--engine", "docker", "shell", "{\"command\":\"true\"}"]);
    assert!(other.code == 1 && other.stderr.contains("containers of podman"), "{}", other.stderr);
    output(&sandboxes, &["stop", "default"]);
    assert_eq!(shell(&sandboxes, "cat kept"), "kept\n");
    let id = output(&sandboxes, &["exec", "--detach", "default", "--", "sh", "-c", "echo begun; sleep 1000"]);
    let id = id.trim();
    let processes = output(&sandboxes, &["ps", "default"]);
    assert!(processes.contains(&id[..12]) && processes.contains("running"), "{processes}");
    eventually("the program has begun", || output(&sandboxes, &["logs", "default", id]) == "begun\n");
    output(&sandboxes, &["kill", "default", id]);
    eventually("it has ended", || !output(&sandboxes, &["ps", "default"]).contains("running"));
    assert_eq!(output(&sandboxes, &["destroy", "default"]), "destroyed default\n");
    let list = output(&sandboxes, &["sandboxes"]);
    assert!(!list.contains("default"), "{list}");
}

fn streams() {
    let sandboxes = project();
    shell(&sandboxes, "true");
    let ran = run(&sandboxes, &["exec", "default", "--", "sh", "-c", "echo out; echo err >&2; exit 7"]);
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (7, "out\n", "err\n"));
    // More than all pipes hold, in both directions.
    let script = r#"yes | head -c 3000000 | "$@" exec -i default -- sh -c 'cat; exit 3' | wc -c"#;
    let mut piped = Command::new("sh");
    let koze = command(&sandboxes, &[]);
    piped.args(["-c", script, "sh"]).arg(koze.get_program());
    for (name, value) in koze.get_envs() {
        match value {
            Some(value) => piped.env(name, value),
            None => piped.env_remove(name),
        };
    }
    let piped = sandboxes.run(piped);
    assert_eq!((piped.stdout.trim(), piped.stderr.as_str()), ("3000000", ""));
    // Without a terminal of its own, it has the usual size.
    let on_terminal = run(&sandboxes, &["exec", "-t", "default", "--", "sh", "-c", "test -t 1 && stty size"]);
    assert_eq!((on_terminal.code, on_terminal.stdout.as_str()), (0, "24 80\r\n"), "{}", on_terminal.stderr);
}

fn copied() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    let sandboxes = project();
    shell(&sandboxes, "true");
    sandboxes.write("tree/a", "a").write("tree/dir/b", vec![7; 300_000]).write("tree/dir/empty", "");
    symlink("dir/b", sandboxes.path("tree/link")).expect("a link");
    let long = format!("tree/{}/{}", "d".repeat(150), "n".repeat(150));
    sandboxes.write(&long, "long");
    fs_err::set_permissions(sandboxes.path("tree/a"), std::fs::Permissions::from_mode(0o750))
        .expect("a mode");
    output(&sandboxes, &["cp", "tree", "default:/workspace/tree"]);
    assert_eq!(
        shell(&sandboxes, "cd /workspace/tree && stat -c %a a && readlink link && wc -c < dir/b && ls dir"),
        "750\ndir/b\n300000\nb\nempty\n"
    );
    // Into a directory that exists, also if it is empty.
    shell(&sandboxes, "mkdir /workspace/empty");
    output(&sandboxes, &["cp", "tree/dir", "default:/workspace/empty"]);
    assert_eq!(shell(&sandboxes, "ls /workspace/empty"), "dir\n");
    output(&sandboxes, &["cp", "default:/workspace/tree", "back"]);
    let copied = koze_tests::read_all(&sandboxes.path("tree"));
    assert_eq!(koze_tests::read_all(&sandboxes.path("back")), copied);
    let mode = fs_err::metadata(sandboxes.path("back/a")).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o750);
    let again = run(&sandboxes, &["cp", "default:/workspace/tree", "back"]);
    assert_eq!(again.code, 0, "into it: {}", again.stderr);
    assert_eq!(koze_tests::read_all(&sandboxes.path("back/tree")), copied);
    output(&sandboxes, &["cp", "tree/a", "default:/workspace/file"]);
    assert_eq!(output(&sandboxes, &["cp", "default:/workspace/file", "-"]), "a");
    let missing = run(&sandboxes, &["cp", "default:/workspace/missing", "x"]);
    assert!(missing.code == 1 && !sandboxes.path("x").exists(), "{}", missing.stderr);
    // What cannot be copied leaves nothing behind, on both sides.
    let pipe = Command::new("mkfifo").arg(sandboxes.path("tree/pipe")).status().expect("mkfifo runs");
    assert!(pipe.success());
    let refused = run(&sandboxes, &["cp", "tree", "default:/workspace/other"]);
    assert!(
        refused.code == 1 && refused.stderr.contains("tree/pipe` cannot be copied"),
        "{}",
        refused.stderr
    );
    assert_eq!(shell(&sandboxes, "ls -A /workspace"), "empty\nfile\ntree\n");
    shell(&sandboxes, "mkfifo /workspace/tree/pipe");
    let refused = run(&sandboxes, &["cp", "default:/workspace/tree", "other"]);
    assert!(refused.code == 1 && refused.stderr.contains("cannot be copied"), "{}", refused.stderr);
    assert!(!sandboxes.path("other").exists());
}

/// The path of a socket in it is longer than the kernel allows.
fn long_path() {
    let sandboxes = project();
    let state = sandboxes.path("state").join("long".repeat(40));
    let state = state.to_str().expect("UTF-8");
    for _ in 0..2 {
        let input = "{\"command\":\"pwd\"}";
        let text = output(&sandboxes, &["call", "--state", state, "shell", input]);
        assert!(text.contains("/home/user"), "{text}");
        sandboxes.kill_supervisors();
    }
}

/// A server, which ends with the test, also if that fails.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn mcp() {
    let sandboxes = project();
    let server = command(&sandboxes, &["mcp", "--engine", "podman"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("koze starts");
    let mut server = Server(server);
    let mut requests = server.0.stdin.take().expect("a pipe");
    let mut answers = BufReader::new(server.0.stdout.take().expect("a pipe")).lines();
    let mut ask = |message: Value| -> Option<Value> {
        writeln!(requests, "{message}").expect("the server reads");
        message.get("id")?;
        let line = answers.next().expect("an answer").expect("text");
        Some(serde_json::from_str(&line).expect("JSON"))
    };
    let client = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } });
    ask(json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client })).expect("an answer");
    ask(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    let call = json!({ "name": "shell", "arguments": { "command": "echo here" } });
    let answer = ask(json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call }));
    let answer = answer.expect("an answer").to_string();
    assert!(answer.contains("here\\\\n"), "{answer}");
    // The server ends with its input.
    drop(requests);
    assert!(server.0.wait().expect("it ends").success());
}

fn served() {
    const TOKEN: &str = "a-token-of-a-test-0123456789";
    let sandboxes = project();
    let mut server = command(&sandboxes, &["serve", "--port", "0"]);
    let server = server
        .env("KOZE_TOKEN", TOKEN)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("koze starts");
    let mut server = Server(server);
    let mut messages = BufReader::new(server.0.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
    let url = messages.find_map(|line| Some(line.strip_prefix("koze serve: http")?.to_owned()));
    let url = format!("http{}", url.expect("its URL"));
    let remote = |args: &[&str]| {
        let (name, rest) = args.split_first().expect("a command");
        let mut koze = command(&sandboxes, &[&[name, "--url", &url], rest].concat());
        koze.env("KOZE_TOKEN", TOKEN);
        let run = sandboxes.run(koze);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{args:?}: {}", run.stdout);
        run.stdout
    };
    let text = remote(&["call", "shell", "{\"command\":\"mkdir d && echo x > d/x && pwd\"}"]);
    assert!(text.contains("/home/user"), "{text}");
    remote(&["cp", "default:/home/user/d", "d"]);
    assert_eq!(sandboxes.read("d/x"), "x\n");
    assert_eq!(remote(&["exec", "default", "--", "cat", "d/x"]), "x\n");
}

fn refused() {
    let sandboxes = project();
    for args in [&["demo"][..], &["image", "list"], &["doctor", "--prove"], &["egress", "learn"]] {
        let run = run(&sandboxes, args);
        let is_refused = run.code != 0 && run.stderr.contains("Linux");
        assert!(is_refused, "{args:?}: {} {}{}", run.code, run.stdout, run.stderr);
    }
    let manifest = sandboxes.read("Cargo.toml");
    sandboxes.write("Cargo.toml", format!("{manifest}\n[package.metadata.koze.script]\n"));
    let script = run(&sandboxes, &["call", "--tools", "script", "run_sandbox_code", "{\"code\":\"1\"}"]);
    let printed = script.stdout + &script.stderr;
    assert!(script.code != 0 && printed.contains("use koze on a Linux machine"), "{printed}");
}
