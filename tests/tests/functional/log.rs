//! `koze log`: the journal of tool calls.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use fs_err as fs;
use insta::assert_snapshot;
use koze_tests::{Run, Sandboxes, eventually, run, signal, sleeps};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::common::{printed, sandboxes};

const TIMEOUT: Duration = Duration::from_mins(1);

/// Returns the recorded calls.
fn calls(host: &Sandboxes, args: &[&str]) -> Vec<Value> {
    let run = host.koze(&[&["log", "--json"], args].concat());
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{run:?}");
    run.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Waits until as many calls are recorded, and returns them. A call does not wait for its record.
fn wait_for_calls(host: &Sandboxes, number: usize) -> Vec<Value> {
    eventually("the calls are recorded", || calls(host, &[]).len() >= number);
    let calls = calls(host, &[]);
    assert_eq!(calls.len(), number, "{calls:#?}");
    calls
}

fn show(host: &Sandboxes, id: &Value) -> Run {
    host.koze(&["log", "show", &id.to_string()])
}

fn set_manifest(host: &Sandboxes, table: &str) {
    host.write("Cargo.toml", format!("{}\n{table}", host.read("Cargo.toml")));
}

#[test]
fn an_empty_journal_is_not_created() {
    let host = sandboxes();
    assert_snapshot!(printed(&host.koze(&["log"])), @"
    0
    no calls are recorded
    ");
    assert_eq!(calls(&host, &[]), [Value::Null; 0]);
    assert_snapshot!(printed(&host.koze(&["log", "show", "1"])), @"
    1
    error[not_found]: there is no call 1 in the journal: `koze log` lists the calls
    ");
    assert!(host.state().is_none());
}

#[test]
fn invalid_arguments_are_rejected() {
    let host = sandboxes();
    let mut all = String::new();
    for args in [&["--since", "yesterday"][..], &["--since", "\u{1b}m"], &["show"], &["show", "x"]] {
        all += &printed(&host.koze(&[&["log"], args].concat()));
    }
    assert_snapshot!(all, @r"
    2
    error: --since: `yesterday` is not a time: write one such as 2026-11-29T07:00:00Z, or a duration such as 30s, 10m, 2h or 1d
    2
    error: --since: `\u{1b}m` is not a time: write one such as 2026-11-29T07:00:00Z, or a duration such as 30s, 10m, 2h or 1d
    2
    error: the following required arguments were not provided:
      <ID>

    Usage: koze log show <ID>

    For more information, try '--help'.
    2
    error: invalid value 'x' for '<ID>': invalid digit found in string

    For more information, try '--help'.
    ");
}

#[test]
fn calls_are_listed_with_their_outcomes() {
    let host = sandboxes();
    host.shell("echo one");
    host.koze(&["call", "shell", r#"{"command": "exit 3", "sandbox": "other"}"#]);
    host.koze(&["call", "read_file", r#"{"path": "missing"}"#]);
    host.koze(&["call", "shel", "{}"]);
    let calls = wait_for_calls(&host, 4);
    let part = |call: &Value| {
        let keys =
            ["id", "session", "client", "family", "tool", "sandboxes", "input", "outcome", "exit_code"];
        json!(keys.map(|key| &call[key]))
    };
    assert_eq!(
        calls.iter().map(part).collect::<Vec<_>>(),
        [
            json!([1, "default", "koze call", "agent", "shell", ["default"], { "command": "echo one" }, "ok", 0]),
            json!([
                2, "default", "koze call", "agent", "shell", ["other"],
                { "command": "exit 3", "sandbox": "other" }, "failed", 3
            ]),
            json!([
                3, "default", "koze call", "agent", "read_file", ["default"], { "path": "missing" },
                "not_found", null
            ]),
            json!([4, "default", "koze call", null, "shel", null, {}, "unknown_tool", null]),
        ]
    );
    assert_eq!(
        calls[0]["result_bytes"],
        json!("stdout".len() + "one\n".len() + "stderr".len() + "exit_code".len() + 4)
    );

    let ids = |args: &[&str]| -> Vec<u64> {
        self::calls(&host, args).iter().map(|call| call["id"].as_u64().expect("an ID")).collect()
    };
    assert_eq!(ids(&["--tool", "shell"]), [1, 2]);
    assert_eq!(ids(&["--sandbox", "other"]), [2]);
    assert_eq!(ids(&["--session", "none"]), [0; 0]);
    assert_eq!(ids(&["--since", "10m", "--sandbox", "default"]), [1, 3]);
    assert_eq!(ids(&["--since", "2999-01-01T00:00:00Z"]), [0; 0]);

    let words = host.koze(&["log"]).stdout;
    let lines: Vec<Vec<&str>> = words.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["ID", "TIME", "SESSION", "SANDBOX", "TOOL", "OUTCOME", "DURATION", "INPUT"]);
    assert_eq!(lines[2][2..7], ["default", "other", "shell", "failed", "(3)"]);
    assert!(words.lines().nth(2).expect("a line").ends_with(r#"{"command":"exit 3","sandbox":"other"}"#));
}

/// The shell that runs the printed command is the judge of its quotation marks.
#[test]
fn the_printed_command_repeats_the_call() {
    let host = sandboxes();
    let command = "printf '%s' \"it's $((1 + 1)) `echo \\\"x\\\"` \\\\ \u{9b}ü\u{202e}\"; exit 4";
    let input = json!({ "command": command }).to_string();
    let first = host.koze(&["call", "--session=-a 'b' $c", "shell", &input]);
    assert_eq!(first.code, 1, "{first:?}");
    let calls = wait_for_calls(&host, 1);
    assert_eq!(calls[0]["input"]["command"], command);
    let shown = show(&host, &calls[0]["id"]).stdout;
    assert!(!shown.contains(['\u{9b}', '\u{202e}']), "{shown}");
    let repeat = shown.lines().last().expect("the command").strip_prefix("koze ").expect("koze");
    let koze = host.command(&[]);
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("\"$0\" {repeat}")]).arg(koze.get_program()).current_dir(host.dir());
    shell.env_clear().envs(koze.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let again = run(shell, TIMEOUT);
    assert_eq!(String::from_utf8_lossy(&again.stdout), first.stdout, "{again:?}\n{repeat}");
    let calls = wait_for_calls(&host, 2);
    for key in ["session", "tool", "sandboxes", "input", "outcome", "exit_code", "result_bytes"] {
        assert_eq!(calls[0][key], calls[1][key], "{key}");
    }
}

#[test]
fn a_call_is_shown_whole() {
    let host = sandboxes();
    host.shell("echo one");
    wait_for_calls(&host, 1);
    let shown = host.koze(&["log", "show", "1"]).stdout;
    let constant: Vec<&str> =
        shown.lines().filter(|line| !line.starts_with("time") && !line.starts_with("duration")).collect();
    assert_snapshot!(constant.join("\n"), @r#"
    id        1
    session   default
    client    koze call
    family    agent
    tool      shell
    sandbox   default
    outcome   ok (0)
    input     {"command":"echo one"}
    result    {"stdout":"one\n","stderr":"","exit_code":0}

    To repeat it:
    koze call -- shell '{"command":"echo one"}'
    "#);
    let shown: Value =
        serde_json::from_str(&host.koze(&["log", "show", "1", "--json"]).stdout).expect("JSON");
    assert_eq!(shown["result"], json!({ "stdout": "one\n", "stderr": "", "exit_code": 0 }));
    assert_eq!(shown["command"], r#"koze call -- shell '{"command":"echo one"}'"#);
    assert_eq!((&shown["id"], &shown["egress"]), (&json!(1), &json!([])));
}

#[test]
fn a_long_input_is_truncated() {
    let host = sandboxes();
    host.call("write_file", &json!({ "path": "f", "content": "x".repeat(10_000) }), &[]);
    let calls = wait_for_calls(&host, 1);
    assert_eq!((&calls[0]["input_cut"], &calls[0]["input_bytes"]), (&json!(true), &json!(10_025)));
    let text = calls[0]["input"].as_str().expect("a text");
    assert_eq!((text.chars().count(), text.ends_with('…')), (2001, true));
    let shown = show(&host, &calls[0]["id"]).stdout;
    assert!(shown.ends_with("The call cannot be repeated: its input was truncated\n"), "{shown}");
}

#[test]
fn the_journal_is_followed() {
    let host = sandboxes();
    // Before the journal exists.
    let mut follower = host.command(&["log", "-f", "--json"]).stdout(Stdio::piped()).spawn().expect("koze");
    let lines = BufReader::new(follower.stdout.take().expect("its output")).lines();
    let (send, receive) = mpsc::channel();
    thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| send.send(line)));
    for number in 0..3 {
        host.shell(&format!("echo {number}"));
        let line = receive.recv_timeout(TIMEOUT).expect("a line");
        let call: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(call["input"]["command"], format!("echo {number}"));
    }
    signal(i32::try_from(follower.id()).expect("a process ID"), Signal::KILL);
    follower.wait().expect("it ends");
    assert!(receive.recv_timeout(TIMEOUT).is_err(), "each call is shown once");
}

#[test]
fn sessions_share_the_journal() {
    let host = sandboxes();
    let call = |session: &str, number: usize| {
        let input = json!({ "command": format!("echo {number}") }).to_string();
        let command = host.command(&["call", "--session", session, "shell", &input]);
        thread::spawn(move || run(command, TIMEOUT))
    };
    let running: Vec<_> = (0..10).flat_map(|number| [call("a", number), call("b", number)]).collect();
    for call in running {
        assert!(call.join().expect("it ended").status.success());
    }
    let all = wait_for_calls(&host, 20);
    let mut ids: Vec<_> = all.iter().map(|call| call["id"].as_u64().expect("an ID")).collect();
    ids.dedup();
    assert_eq!((ids.len(), ids.is_sorted()), (20, true));
    for session in ["a", "b"] {
        assert_eq!(calls(&host, &["--session", session]).len(), 10);
    }
}

/// A client of the Model Context Protocol names itself. What koze asks for itself, as for the list of tools, is not recorded.
#[test]
fn a_client_of_mcp_is_named() {
    let host = sandboxes();
    set_manifest(&host, "[package.metadata.koze.script]\n");
    let messages = [
        json!({
            "jsonrpc": "2.0", "id": 1, "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18", "capabilities": {},
                "clientInfo": { "name": "a-client", "version": "1" },
            },
        }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" }),
        json!({
            "jsonrpc": "2.0", "id": 3, "method": "tools/call",
            "params": { "name": "get_state", "arguments": { "key": "a" } },
        }),
    ];
    let mut server = host
        .command(&["mcp", "--tools", "script"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("koze");
    let mut input = server.stdin.take().expect("its input");
    let mut lines = BufReader::new(server.stdout.take().expect("its output")).lines();
    for message in messages {
        writeln!(input, "{message}").expect("it reads");
        if message.get("id").is_some() {
            let answer = lines.next().expect("an answer").expect("a line");
            assert!(answer.contains("\"result\""), "{answer}");
        }
    }
    drop(input);
    server.wait().expect("it ends with its client");
    let calls = wait_for_calls(&host, 1);
    assert_eq!((&calls[0]["client"], &calls[0]["tool"]), (&json!("a-client"), &json!("get_state")));
}

#[test]
fn keys_turn_the_journal_and_its_texts_off() {
    let host = sandboxes();
    let manifest = host.read("Cargo.toml");
    set_manifest(&host, "[package.metadata.koze.journal]\nenabled = false\n");
    host.shell("echo off");
    host.write(
        "Cargo.toml",
        format!("{manifest}\n[package.metadata.koze.journal]\ninputs = false\nresults = false\n"),
    );
    host.shell("echo without-input");
    let calls = wait_for_calls(&host, 1);
    assert_eq!((calls[0].get("input"), &calls[0]["input_bytes"]), (None, &json!(32)));
    let shown = show(&host, &calls[0]["id"]).stdout;
    assert!(shown.contains("input     not recorded (32 bytes)\nresult    not recorded ("), "{shown}");
    assert!(shown.ends_with("The call cannot be repeated: its input was not recorded\n"), "{shown}");
    let state = host.path(host.state().expect("a state directory"));
    for file in ["journal.sqlite", "journal.sqlite-wal"] {
        let bytes = fs::read(state.join(file)).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains("echo off") && !text.contains("without-input"), "{file}");
    }
}

#[test]
fn wrong_keys_are_errors() {
    let host = sandboxes();
    let manifest = host.read("Cargo.toml");
    let mut all = String::new();
    for table in [
        "[package.metadata.koze.journal]\nenabled = 1\ninput = true\n",
        "[package.metadata.koze.journal]\nx = 1\n",
        "[package.metadata.koze]\njournal = false\n",
    ] {
        host.write("Cargo.toml", format!("{manifest}\n{table}"));
        all += &printed(&host.koze(&["call", "shell", "{}"]));
    }
    assert_snapshot!(all, @"
    1
    error[K034]: `package.metadata.koze.journal.enabled` must be `true` or `false`
     --> Cargo.toml:9:11
      |
    9 | enabled = 1
      |           ^
      |
      = help: correct the file, then run `koze build` again

    error[K034]: `package.metadata.koze.journal` has no key `input`; did you mean `inputs`?
      --> Cargo.toml:10:9
       |
    10 | input = true
       |         ^^^^
       |
       = help: correct the file, then run `koze build` again

    2 errors; nothing was written
    1
    error[K034]: `package.metadata.koze.journal` has no key `x`: it has `enabled`, `inputs` and `results`
     --> Cargo.toml:9:5
      |
    9 | x = 1
      |     ^
      |
      = help: correct the file, then run `koze build` again

    1 error; nothing was written
    1
    error[K034]: `package.metadata.koze.journal` must be a table: write `[package.metadata.koze.journal]`
     --> Cargo.toml:9:11
      |
    9 | journal = false
      |           ^^^^^
      |
      = help: correct the file, then run `koze build` again

    1 error; nothing was written
    ");
}

#[test]
fn secrets_are_never_stored() {
    const VALUE: &str = "sk-0123/456 789";
    const DECLARED: &str = "declared-value";
    let host = sandboxes();
    set_manifest(&host, "[package.metadata.koze.script]\n");
    let file = "src/server/shell.sandbox.rs";
    let with = format!("(env_vars(API_KEY = \"{DECLARED}\"), default)");
    host.write(file, host.read(file).replace("(default)", &with));
    assert_eq!(host.piped(VALUE, &["secret", "set", "KEY"]).code, 0);
    let code = json!({ "code": format!("return '{VALUE}'") });
    host.call("run_sandbox_code", &code, &["--tools", "script"]);
    host.shell(&format!("echo '{VALUE}' {DECLARED}"));
    let calls = wait_for_calls(&host, 2);
    assert_eq!(calls[0]["input"]["code"], "return '[secret KEY]'");
    assert_eq!(calls[1]["input"]["command"], "echo '[secret KEY]' [secret API_KEY]");
    assert!(calls.iter().all(|call| call["input_masked"] == true));
    let shown = show(&host, &calls[1]["id"]).stdout;
    assert!(shown.ends_with("The call cannot be repeated: secrets in its input were masked\n"), "{shown}");
    let state = host.path(host.state().expect("a state directory"));
    for file in ["journal.sqlite", "journal.sqlite-wal"] {
        let bytes = fs::read(state.join(file)).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains("0123/456") && !text.contains(DECLARED), "{file}");
    }
}

#[test]
fn a_canceled_call_is_recorded() {
    let host = sandboxes();
    let seconds = format!("7010.{}", std::process::id());
    let input = json!({ "command": format!("sleep {seconds}") }).to_string();
    let mut call = host.command(&["call", "shell", &input]).stdout(Stdio::null()).spawn().expect("koze");
    eventually("the command runs", || sleeps(&seconds));
    signal(i32::try_from(call.id()).expect("a process ID"), Signal::KILL);
    call.wait().expect("it ends");
    let calls = wait_for_calls(&host, 1);
    assert_eq!((&calls[0]["outcome"], &calls[0]["sandboxes"]), (&json!("canceled"), &json!(["default"])));
}

/// The calls before the kill are there, and the journal goes on.
#[test]
fn a_killed_supervisor_leaves_the_journal_intact() {
    let host = sandboxes();
    let mut known = 0;
    for round in 0..5 {
        let running: Vec<_> = (0..6)
            .map(|number| {
                let input = json!({ "command": format!("echo {round} {number}") }).to_string();
                let command = host.command(&["call", "shell", &input]);
                thread::spawn(move || run(command, TIMEOUT))
            })
            .collect();
        eventually("some calls are recorded", || calls(&host, &[]).len() > known);
        for id in host.supervisors() {
            signal(id, Signal::KILL);
        }
        for call in running {
            call.join().expect("it ended");
        }
        let now = calls(&host, &[]);
        assert!(now.len() > known, "round {round}");
        known = now.len();
    }
    host.shell("echo after");
    eventually("it goes on", || {
        calls(&host, &[]).last().is_some_and(|call| call["input"]["command"] == "echo after")
    });
}

/// A journal that cannot be written must not affect calls.
#[test]
fn an_unusable_journal_does_not_affect_calls() {
    let host = sandboxes();
    host.shell("echo one");
    wait_for_calls(&host, 1);
    host.kill_supervisors();
    let journal = host.path(host.state().expect("a state directory")).join("journal.sqlite");
    for file in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(format!("{}{file}", journal.display()));
    }
    fs::create_dir(&journal).expect("a directory in its place");
    assert_eq!(host.shell("echo two"), "two\n");
    let state = host.state().expect("a state directory");
    assert_snapshot!(printed(&host.koze(&["log"])).replace(&state, "[STATE]"), @"
    1
    error[unavailable]: the journal of tool calls cannot be read: Error code 266: disk I/O error. If it is damaged, delete the files `journal.sqlite*` in the state directory
      = note: the state directory is [PROJECT]/[STATE]
    ");
    // Once it can be written again, the journal says what it has missed.
    fs::remove_dir(&journal).expect("the directory");
    assert_eq!(host.shell("echo three"), "three\n");
    let calls = wait_for_calls(&host, 1);
    assert_eq!(calls[0]["lost"], 1);
    let words = host.koze(&["log"]).stdout;
    assert!(words.contains("\n1 call was not recorded: "), "{words}");
}
