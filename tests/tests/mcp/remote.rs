//! The commands that work with the sandboxes of a server: `--url`.

use std::cell::RefCell;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use fs_err as fs;
use koze_tests::{Run, Sandboxes, eventually, run};
use serde_json::{Value, json};

use crate::server::{Http, TIMEOUT, project};

/// A server, and a place for commands that know only its URL.
struct Remote {
    host: Sandboxes,
    server: Http,
}

/// Runs a command where it is: a project would run it in its own directory.
fn to_run(command: Command) -> Run {
    let output = run(command, TIMEOUT);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    let code = output.status.code().expect("an exit code");
    Run { code, stdout: text(output.stdout), stderr: text(output.stderr) }
}

impl Remote {
    /// Starts a server with the sandbox `default`.
    fn start() -> Self {
        let host = project();
        let server = Http::start(&host, &[]);
        fs::create_dir(host.path("elsewhere")).expect("a directory");
        let remote = Remote { host, server };
        let run = remote.koze(&["call", "shell", r#"{"command": "echo 1"}"#]);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
        remote
    }

    fn url(&self) -> String {
        format!("--url=http://{}", self.server.address())
    }

    fn command(&self, args: &[&str]) -> Command {
        let (name, rest) = args.split_first().expect("a command");
        let url = self.url();
        let mut command = self.host.command(&[&[name, url.as_str()], rest].concat());
        // No project is needed.
        command.current_dir(self.host.path("elsewhere")).env("KOZE_TOKEN", &self.server.token);
        command
    }

    fn koze(&self, args: &[&str]) -> Run {
        to_run(self.command(args))
    }

    /// Runs a command that succeeds, and returns what it prints.
    fn printed(&self, args: &[&str]) -> String {
        let run = self.koze(args);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{args:?}: {}", run.stdout);
        run.stdout
    }

    /// Runs a command with an input.
    fn piped(&self, input: &[u8], args: &[&str]) -> String {
        let mut command = self.command(args);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("koze starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        let input = input.to_vec();
        let writer = std::thread::spawn(move || stdin.write_all(&input));
        let output = child.wait_with_output().expect("koze ends");
        writer.join().expect("no panic").expect("koze reads");
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }
}

#[test]
fn the_hosts_that_were_refused_are_listed() {
    let remote = Remote::start();
    assert_eq!(
        remote.printed(&["sandboxes", "--egress"]),
        "no sandbox or script has tried to reach a host\n"
    );
    let sandbox =
        "use koze::prelude::*;\n\n#[sandbox(allowed_hosts = [\"a.invalid\"])]\npub struct ShellSandbox;\n";
    remote.host.write("src/server/shell.sandbox.rs", sandbox);
    remote.koze(&["call", "shell", r#"{"command": "curl -s -m 20 https://b.invalid/"}"#]);
    let list: Value =
        serde_json::from_str(&remote.printed(&["sandboxes", "--egress", "--format=json"])).expect("JSON");
    let entry = &list["egress"][0];
    assert_eq!(
        [&entry["sandbox"], &entry["host"], &entry["port"], &entry["allowed"]],
        [&json!("default"), &json!("b.invalid"), &json!(443), &json!(false)]
    );
    let words = remote.printed(&["sandboxes", "--egress"]);
    let [head, line] = words.lines().collect::<Vec<_>>()[..] else { panic!("{words}") };
    let cells = |line: &str| {
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(cells(head), ["TIME", "SANDBOX", "HOST", "ADDRESS", "DECISION", "RULE"]);
    assert_eq!(cells(line)[1..], ["default", "b.invalid:443", "-", "refused", "not in allowed_hosts"]);
}

#[test]
fn sandboxes_are_listed_inspected_and_destroyed() {
    let remote = Remote::start();
    assert_eq!(remote.printed(&["sandboxes"]), "SANDBOX  IMAGE  STATUS\ndefault  shell  running\n");
    assert_eq!(remote.printed(&["ps"]), remote.printed(&["sandboxes"]));
    let list: Value = serde_json::from_str(&remote.printed(&["sandboxes", "--format=json"])).expect("JSON");
    assert_eq!(list["sandboxes"][0], json!({ "name": "default", "image": "shell", "status": "running" }));
    let details: Value = serde_json::from_str(&remote.printed(&["inspect", "default"])).expect("JSON");
    assert_eq!((&details["name"], &details["egress"]["internet"]), (&json!("default"), &json!(false)));
    let calls = || remote.printed(&["log", "--json"]);
    eventually("the call is recorded", || calls().contains(r#""client":"koze call""#));
    assert_eq!(remote.printed(&["destroy", "default"]), "destroyed default\n");
    assert_eq!(remote.printed(&["destroy", "--all"]), "");
    assert_eq!(remote.printed(&["sandboxes"]), "no sandboxes: `koze call` creates one on first use\n");
}

#[test]
fn programs_run_with_the_streams_of_the_command() {
    let remote = Remote::start();
    let run = remote.koze(&["exec", "default", "--", "sh", "-c", "echo out; echo err >&2; pwd; exit 7"]);
    assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (7, "out\n/home/user\n", "err\n"));
    let variable = ["exec", "-e", "A=a b", "-w", "/tmp", "default", "--", "sh", "-c", "echo $A; pwd"];
    assert_eq!(remote.printed(&variable), "a b\n/tmp\n");
    // Without -i, the program reads the end of its input.
    assert_eq!(remote.piped(b"ignored", &["exec", "default", "--", "cat"]), "");
    let input: Vec<u8> = b"line\n".iter().copied().cycle().take(1 << 20).collect();
    let copied = remote.piped(&input, &["exec", "-i", "default", "--", "cat"]);
    assert!(copied.as_bytes() == input, "{} bytes", copied.len());
    // Bytes that are not text stay as they are.
    let sum = remote.printed(&[
        "exec",
        "default",
        "--",
        "sh",
        "-c",
        "head -c 300000 /dev/zero | tr '\\0' '\\377' | tee /tmp/x | wc -c",
    ]);
    assert_eq!(sum, "300000\n");
    let mut command = remote.command(&["exec", "default", "--", "cat", "/tmp/x"]);
    let output = command.output().expect("koze runs");
    assert!(output.stdout == vec![0xff; 300_000], "{} bytes", output.stdout.len());
    for (args, code, says) in [
        (&["exec", "default", "--", "no-such"][..], 127, "error[not_found]: "),
        (&["exec", "none", "--", "true"], 125, "error[not_found]: there is no sandbox `none`"),
        (&["exec", "--timeout=0.3", "default", "--", "sleep", "60"], 124, ""),
        (&["exec", "-it", "default", "--", "true"], 125, "error: standard input is not a terminal"),
        (&["shell"], 125, "error: standard input is not a terminal"),
    ] {
        let run = remote.koze(args);
        assert!(run.code == code && run.stderr.starts_with(says), "{args:?}: {run:?}");
    }
}

#[test]
fn programs_go_on_without_the_command() {
    let remote = Remote::start();
    let script = "for i in 1 2 3; do echo $i; sleep 0.1; done; echo end >&2; exec sleep 60";
    let id = remote.printed(&["exec", "--detach", "default", "--", "sh", "-c", script]);
    let id = id.trim_end();
    eventually("it has printed", || remote.koze(&["logs", "default"]).stderr == "end\n");
    assert_eq!(remote.koze(&["logs", "default", &id[..8]]).stdout, "1\n2\n3\n");
    let list: Value =
        serde_json::from_str(&remote.printed(&["ps", "default", "--format=json"])).expect("JSON");
    assert_eq!((&list["processes"][0]["id"], &list["processes"][0]["running"]), (&json!(id), &json!(true)));
    assert_eq!(
        remote.printed(&["kill", "default", &id[..8]]),
        format!("sent the signal 9 to {}\n", &id[..8])
    );
    // The events end with the process.
    assert_eq!(remote.koze(&["logs", "-f", "default", id]).stdout, "1\n2\n3\n");
    assert!(remote.printed(&["ps", "default"]).contains("exited (137)"));
    let run = remote.koze(&["kill", "default", id]);
    assert!(run.code == 1 && run.stderr.contains("has ended already"), "{run:?}");
    let run = remote.koze(&["logs", "default", "0000"]);
    assert!(run.code == 1 && run.stderr.contains("no process `0000`"), "{run:?}");
}

#[test]
fn files_and_directories_are_copied() {
    let remote = Remote::start();
    let below = |path: &str| remote.host.path("elsewhere").join(path);
    fs::create_dir_all(below("tree/empty")).expect("a directory");
    fs::write(below("tree/a b.bin"), [0, 255, 10]).expect("a file");
    std::os::unix::fs::symlink("a b.bin", below("tree/link")).expect("a link");
    for args in [
        &["cp", "tree/a b.bin", "default:new/x.bin"][..],
        // Into an existing directory.
        &["cp", "tree/a b.bin", "default:new"],
        &["cp", "tree", "default:new"],
        &["cp", "default:new", "default:second"],
        &["cp", "default:second/tree", "back"],
        &["cp", "default:second/x.bin", "."],
    ] {
        assert_eq!(remote.printed(args), "", "{args:?}");
    }
    assert_eq!(fs::read(below("x.bin")).expect("a file"), [0, 255, 10]);
    assert_eq!(fs::read(below("back/a b.bin")).expect("a file"), [0, 255, 10]);
    assert_eq!(fs::read_link(below("back/link")).expect("a link").to_str(), Some("a b.bin"));
    assert!(below("back/empty").is_dir());
    assert_eq!(remote.piped(b"text", &["cp", "-", "default:from-stdin"]), "");
    assert_eq!(remote.printed(&["cp", "default:from-stdin", "-"]), "text");
    for (args, says) in [
        (&["cp", "default:none", "x"][..], "error[not_found]: "),
        (&["cp", "none", "default:x"], "error[not_found]: `none`"),
        (&["cp", "default:new", "-"], "error[is_directory]: "),
        (&["cp", "default:second/tree", "back/empty/none/x"], "error[not_found]: "),
    ] {
        let run = remote.koze(args);
        assert!(run.code == 1 && run.stderr.starts_with(says), "{args:?}: {run:?}");
    }
}

#[test]
fn the_model_context_protocol_is_passed_on() {
    let remote = Remote::start();
    let mut client = remote.command(&["mcp"]);
    let mut client = client.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("koze starts");
    let mut stdin = client.stdin.take().expect("a pipe");
    let mut lines = BufReader::new(client.stdout.take().expect("a pipe")).lines();
    let mut ask = |message: Value| {
        writeln!(stdin, "{message}").expect("koze reads");
        if message.get("id").is_none() {
            return Value::Null;
        }
        serde_json::from_str(&lines.next().expect("an answer").expect("a line")).expect("JSON")
    };
    let client_info = json!({ "name": "test", "version": "1" });
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client_info });
    let answer = ask(json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }));
    assert_eq!((&answer["id"], &answer["result"]["protocolVersion"]), (&json!(1), &json!("2025-06-18")));
    ask(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    let tools = ask(json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" }));
    let tools = tools["result"]["tools"].as_array().expect("tools").clone();
    assert!(tools.iter().any(|tool| tool["name"] == "shell"), "{tools:?}");
    let call = json!({ "name": "shell", "arguments": { "command": "echo $((6 * 7))" } });
    let answer = ask(json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": call }));
    assert!(answer["result"]["content"][0]["text"].as_str().expect("text").contains("42"), "{answer}");
    let unknown = ask(json!({ "jsonrpc": "2.0", "id": 4, "method": "none" }));
    assert!(unknown["error"]["code"].is_i64(), "{unknown}");
    drop(stdin);
    let client = RefCell::new(client);
    eventually("it ends with its client", || client.borrow_mut().try_wait().expect("a child").is_some());
}

#[test]
fn arguments_and_tokens_are_checked() {
    let remote = Remote::start();
    let mut without = remote.command(&["sandboxes"]);
    without.env_remove("KOZE_TOKEN");
    let run = to_run(without);
    assert!(run.code == 2 && run.stderr.contains("set KOZE_TOKEN"), "{run:?}");
    let mut wrong = remote.command(&["sandboxes"]);
    wrong.env("KOZE_TOKEN", "not-this-one-of-all");
    let run = to_run(wrong);
    assert!(run.code == 1 && run.stderr.contains("not one of this server's"), "{run:?}");
    let token = &remote.server.token;
    assert!(!run.stderr.contains(token.as_str()), "{run:?}");
    for (args, code, says) in [
        (&["sandboxes", "--url=http://192.0.2.1"][..], 2, "unencrypted"),
        (&["sandboxes", "--url=/x"], 2, "is not a URL"),
        (&["sandboxes", "--url=agents.example"], 2, "must begin with https://"),
        (&["sandboxes", "--url=http://127.0.0.1:1"], 1, "http://127.0.0.1:1 cannot be reached"),
        (&["sandboxes", "--url=http://127.0.0.1:1", "--state=x"], 2, "cannot be used with"),
        (&["log", "--url=http://127.0.0.1:1", "show", "1"], 2, "--url"),
    ] {
        let mut command = remote.host.command(args);
        command.env("KOZE_TOKEN", token);
        let run = to_run(command);
        assert!(run.code == code && run.stderr.contains(says), "{args:?}: {run:?}");
    }
}
