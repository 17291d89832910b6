//! `koze ps`, `koze logs`, `koze kill`, `koze stop` and `koze inspect`.

use std::process::Command;

use insta::assert_snapshot;
use koze_tests::{Sandboxes, eventually, sleeps};
use serde_json::{Value, json};

use crate::common::{printed, sandboxes};

fn output(host: &Sandboxes, args: &[&str]) -> String {
    printed(&host.koze(args))
}

fn parsed(host: &Sandboxes, args: &[&str]) -> Value {
    let run = host.koze(args);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{args:?}");
    serde_json::from_str(&run.stdout).expect("a JSON document")
}

/// Starts a program that goes on, and returns the ID of its process.
fn start(host: &Sandboxes, command: &str) -> String {
    let run = host.koze(&["exec", "--detach", "default", "--", "sh", "-c", command]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    run.stdout.trim_end().to_owned()
}

#[test]
fn looking_creates_nothing() {
    let host = sandboxes();
    assert_snapshot!(output(&host, &["ps"]), @"
    0
    no sandboxes: `koze call` creates one on first use
    ");
    assert_snapshot!(output(&host, &["ps", "--all-projects"]), @"
    0
    no package has sandboxes on this machine
    ");
    for args in [&["ps", "a"][..], &["logs", "a"], &["kill", "a", "0"], &["stop", "a"], &["inspect", "a"]] {
        let text = output(&host, args);
        let expected = "1\nerror[not_found]: there is no sandbox `a` in this session: it has none, and `koze call` creates one on first use\n";
        assert_eq!(text, expected, "{args:?}");
    }
    assert!(host.state().is_none() && host.supervisors().is_empty());
}

#[test]
fn what_sandboxes_use() {
    let host = sandboxes();
    // With a network, koze listens in a sandbox, too, and no program does.
    let file = "src/server/shell.sandbox.rs";
    let allowed = host.read(file).replace("#[sandbox(", "#[sandbox(allowed_hosts = [\"a.example\"], ");
    host.write(file, &allowed);
    assert!(allowed.contains("allowed_hosts"), "{allowed}");
    host.call("sandbox_create", &json!({ "sandbox": "other", "image": "python" }), &[]);
    let server = "import socket, time; s = socket.create_server(('127.0.0.1', 8123)); print('listens', flush=True); time.sleep(1000)";
    host.shell(&format!("head -c 3000000 /dev/zero > f; python3 -c \"{server}\" > log & until grep -q listens log; do sleep 0.05; done"));
    let measured = || {
        let all = parsed(&host, &["ps", "--format", "json"]);
        let all = all["sandboxes"].as_array().expect("a list").clone();
        assert_eq!(all.len(), 2);
        all[0].clone()
    };
    eventually("the disk is measured", || measured()["disk_bytes"].as_u64() >= Some(3_000_000));
    let sandbox = measured();
    assert_eq!((&sandbox["name"], &sandbox["status"]), (&json!("default"), &json!("running")));
    assert_eq!(sandbox["ports"], json!([8123]));
    assert!(sandbox["memory_bytes"].as_u64() > Some(1 << 20), "{sandbox}");
    assert!(sandbox["processor_time_ms"].as_u64() > Some(0), "{sandbox}");
    assert!(sandbox["sleeps_in_ms"].as_u64() <= Some(600_000) && sandbox["in_use"] == false, "{sandbox}");
    assert!(sandbox["created"].as_str() <= sandbox["last_call"].as_str(), "{sandbox}");
    let text = output(&host, &["ps"]);
    let head = text.lines().nth(1).expect("a head");
    assert_eq!(
        head.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect::<Vec<_>>(),
        [
            "SESSION",
            "SANDBOX",
            "IMAGE",
            "STATUS",
            "AGE",
            "LAST CALL",
            "MEMORY",
            "CPU TIME",
            "DISK",
            "PORTS",
            "SLEEPS IN"
        ]
    );
    assert!(text.contains("MiB") && text.contains("  8123  "), "{text}");
    // What is unknown of a sleeping sandbox is left out.
    assert_snapshot!(output(&host, &["stop", "default", "none", "default"]), @"
    1
    stopped default
    already asleep: default
    error[not_found]: there is no sandbox `none` in this session: it has `default`, `other`
    ");
    let sandbox = measured();
    assert_eq!(sandbox["status"], "sleeping");
    for field in ["memory_bytes", "processor_time_ms", "disk_bytes", "ports", "in_use", "sleeps_in_ms"] {
        assert_eq!(sandbox[field], Value::Null, "{field}");
    }
    assert_eq!(host.shell("wc -c < f"), "3000000\n");
}

#[test]
fn processes_and_signals() {
    let host = sandboxes();
    host.shell("true");
    assert_snapshot!(output(&host, &["ps", "default"]), @"
    0
    the sandbox `default` has no processes: `koze exec` and some tools start them
    ");
    let seconds = format!("7201.{}", std::process::id());
    let script = format!("trap 'echo terminated; exit 5' TERM; sleep {seconds} & wait");
    let id = start(&host, &script);
    eventually("it runs", || sleeps(&seconds));
    let line = &parsed(&host, &["ps", "default", "--format", "json"])["processes"][0];
    let expected = json!({
        "id": id, "label": null, "program": "sh", "terminal": false, "running": true, "exit_code": null,
    });
    assert_eq!(line, &expected);
    let short = &id[..12];
    assert_eq!(
        output(&host, &["ps", "default"]),
        format!(
            "0\nID            LABEL  PROGRAM  TERMINAL  STATE\n{short}         sh       no        running\n"
        )
    );
    assert_eq!(
        output(&host, &["kill", "-s", "TERM", "default", short]),
        format!("0\nsent the signal 15 to {short}\n")
    );
    eventually("it has ended", || output(&host, &["ps", "default"]).contains("exited (5)"));
    assert_eq!(output(&host, &["logs", "default"]), "0\nterminated\n");
    assert_eq!(
        output(&host, &["kill", "default", &id, "zz"]),
        format!(
            "1\nerror[not_found]: the process {id} has ended already, with the exit code 5\n\
             error[not_found]: the sandbox `default` has no process `zz`: `koze ps default` lists those that it has\n"
        )
    );
    // SIGKILL also ends what a process has started.
    let id = start(&host, &format!("sleep {seconds} & wait"));
    eventually("it runs", || sleeps(&seconds));
    assert_eq!(host.koze(&["kill", "default", &id]).code, 0);
    eventually("all are gone", || !sleeps(&seconds));
}

#[test]
fn logs_follow_a_process_until_it_ends() {
    let host = sandboxes();
    host.shell("true");
    assert!(output(&host, &["logs", "default"]).contains("has no process with output"));
    let first = start(&host, "echo first");
    start(&host, "echo out; echo err >&2; until [ -e go ]; do sleep 0.05; done; echo more; exit 3");
    eventually("it has written", || output(&host, &["logs", "default"]) == "0\nout\nerr\n");
    let mut follow = host.command(&["logs", "-f", "default"]);
    let follow = follow.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null()).spawn();
    host.shell("touch go");
    let output_of_all = follow.expect("koze").wait_with_output().expect("a child");
    assert_eq!(String::from_utf8_lossy(&output_of_all.stdout), "out\nmore\n");
    assert_eq!(output(&host, &["logs", "default", &first]), "0\nfirst\n");
}

#[test]
fn a_stopped_sandbox_has_no_programs() {
    let host = sandboxes();
    host.shell("echo x > f");
    let seconds = format!("7202.{}", std::process::id());
    start(&host, &format!("sleep {seconds}"));
    eventually("it runs", || sleeps(&seconds));
    assert_snapshot!(output(&host, &["stop", "default"]), @"
    0
    stopped default
    ");
    assert!(!sleeps(&seconds));
    assert_snapshot!(output(&host, &["ps", "default"]), @"
    0
    the sandbox `default` has no processes, because it is asleep: `koze exec` and some tools start them
    ");
    assert_snapshot!(output(&host, &["kill", "default", "0"]), @"
    1
    error[not_found]: the sandbox `default` is asleep: it has no processes
    ");
    assert_eq!(host.shell("cat f"), "x\n");
}

#[test]
fn a_sandbox_in_detail() {
    let host = sandboxes();
    host.shell("true");
    let mut shown = parsed(&host, &["inspect", "default"]);
    assert!(shown["running"]["idle_ms"].is_u64() && shown["created"].is_string(), "{shown}");
    let mounts = shown["mounts"].as_array().expect("a list");
    assert!(mounts.contains(&json!({ "path": "/home/user", "writable": true })));
    assert!(mounts.contains(&json!({ "path": "/usr", "writable": false })));
    let text = shown.to_string();
    assert!(!text.contains(&*host.dir().to_string_lossy()), "a path of this machine: {text}");
    for field in ["mounts", "running", "created", "last_used"] {
        shown.as_object_mut().expect("an object").remove(field);
    }
    assert_snapshot!(format!("{shown:#}"), @r#"
    {
      "session": "default",
      "name": "default",
      "image": "shell",
      "reference": "docker.io/cloudflare/sandbox:0.12.10",
      "root": "this machine",
      "size": null,
      "status": "running",
      "limits": {
        "memory_bytes": 268435456,
        "disk_bytes": 2000000000,
        "processors": 1,
        "processes": 512
      },
      "preview": false,
      "sleep_after_seconds": 600,
      "egress": {
        "internet": false,
        "allowed_hosts": [],
        "denied_hosts": []
      },
      "variables": []
    }
    "#);
    host.call("browse", &json!({ "port": 8000 }), &[]);
    host.kill_supervisors();
    let asleep = || parsed(&host, &["inspect", "default"]);
    eventually("it sleeps", || asleep()["status"] == "sleeping");
    assert_eq!((&asleep()["running"], &asleep()["preview"]), (&Value::Null, &json!(true)));
}

#[test]
fn packages_that_no_longer_exist() {
    let host = sandboxes();
    host.shell("true");
    let copied = ["Cargo.toml", "package.json", "src/lib.rs", "src/server/shell.sandbox.rs"];
    for file in copied {
        let text = std::fs::read(host.path(file)).expect("a file");
        host.write(format!("it's/{file}"), text);
    }
    let called = host.koze(&["call", "--project", "it's", "shell", r#"{"command": "true"}"#]);
    assert_eq!(called.code, 0, "{called:?}");
    let listed = || parsed(&host, &["ps", "--all-projects", "--format", "json"])["projects"].clone();
    assert_eq!(listed().as_array().map(Vec::len), Some(2));
    assert!(listed().as_array().expect("a list").iter().all(|project| project["exists"] == true));
    std::fs::remove_dir_all(host.path("it's")).expect("a directory");
    let projects = listed();
    let gone: Vec<_> =
        projects.as_array().expect("a list").iter().filter(|one| one["exists"] == false).collect();
    assert_eq!(gone.len(), 1, "{projects}");
    assert_eq!(gone[0]["sandboxes"][0]["name"], "default");
    let removal = gone[0]["removal"].as_str().expect("a command");
    let removal = removal.replace("[PROJECT]", &host.dir().to_string_lossy());
    let text = output(&host, &["ps", "--all-projects"]);
    assert!(
        text.contains(", which no longer exists; to remove its sandboxes and their files:\n  rm -rf -- '"),
        "{text}"
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &removal]);
    assert_eq!(printed(&host.run(shell)), "0\n");
    assert_eq!(listed().as_array().map(Vec::len), Some(1));
}

#[test]
fn the_processes_of_the_host_name_sessions() {
    let host = sandboxes();
    host.shell("true");
    let supervisors = host.supervisors();
    let [supervisor] = supervisors[..] else { panic!("one supervisor: {supervisors:?}") };
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{supervisor}/{file}")).expect("it runs");
    assert_eq!(read("comm"), "koze-supervisor\n");
    let args = read("cmdline");
    assert!(
        args.starts_with("koze\0supervise\0--state\0") && args.contains("\0--session=default\0"),
        "{args}"
    );
}
