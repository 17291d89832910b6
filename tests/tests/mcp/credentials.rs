//! Programs that try to get the value of a credential: all of koze's outputs, and everything that they leave behind, is searched for it.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::SystemTime;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use fs_err as fs;
use koze_tests::{Run, Sandboxes, run};
use serde_json::json;

use crate::clients::play;
use crate::server::{TIMEOUT, project, stdio};
use crate::tasks::get;

/// A user who is not the one that runs koze.
const NOBODY: &str = "65534";

/// A server with TLS, which is killed on drop.
struct Echo {
    server: Child,
    address: String,
}

impl Echo {
    fn start(host: &Sandboxes) -> Self {
        create_certificates(host);
        let script = include_str!("credentials/echo.py");
        let mut python = Command::new("python3");
        python.args(["-c", script]).current_dir(host.path("echo")).stdout(Stdio::piped());
        let mut server = python.spawn().expect("python3 starts");
        let mut port = String::new();
        let stdout = server.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut port).expect("its port");
        Echo { server, address: format!("127.0.0.1:{}", port.trim()) }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Creates an authority, and a certificate of the server, in the directory `echo`.
fn create_certificates(host: &Sandboxes) {
    fs::create_dir(host.path("echo")).expect("a directory");
    let script = "set -e\n\
        new='openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -batch'\n\
        $new -x509 -days 2 -subj /CN=tests -keyout authority.key -out authority.pem\n\
        printf 'subjectAltName=DNS:api.example\\n' > names\n\
        $new -subj /CN=api.example -keyout server.key -out server.csr\n\
        openssl x509 -req -days 2 -in server.csr -CA authority.pem -CAkey authority.key -CAcreateserial -extfile names -out server.pem";
    let mut openssl = Command::new("sh");
    openssl.args(["-c", script]).current_dir(host.path("echo"));
    let output = run(openssl, TIMEOUT);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A value that nothing else on this machine contains.
fn unique_value() -> String {
    let now = SystemTime::UNIX_EPOCH.elapsed().expect("a time after 1970");
    format!("hostile/{:x}+{:x}", std::process::id(), now.as_nanos())
}

/// Returns the value in the encodings that koze masks and the server uses.
fn encoded_forms(value: &str) -> Vec<String> {
    let slashes = value.replace('+', "%2B");
    let digits = |before: &str| {
        value.bytes().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{before}{byte:02x}");
            text
        })
    };
    let hex = digits("");
    let percent = digits("%");
    let base64 = BASE64_STANDARD.encode(value);
    vec![
        slashes.replace('/', "%2F"),
        slashes,
        base64.trim_end_matches('=').to_owned(),
        hex.to_ascii_uppercase(),
        hex,
        percent.to_ascii_uppercase(),
        percent,
    ]
}

/// Returns the files below the project that contain a text, as `grep` finds them, without those of the server.
fn files_with(host: &Sandboxes, text: &str) -> Vec<String> {
    let mut grep = Command::new("grep");
    grep.args(["-raF", "--devices=skip", "--files-with-matches", "--exclude-dir=echo", "-e", text, "."]);
    grep.current_dir(host.dir());
    let found = String::from_utf8(run(grep, TIMEOUT).stdout).expect("paths");
    found.lines().map(str::to_owned).collect()
}

/// Returns a command of koze that trusts the server's authority and finds the server.
fn koze(host: &Sandboxes, echo: &Echo, args: &[&str]) -> Command {
    let mut command = host.command(args);
    command.envs(variables(host, echo));
    command
}

fn variables(host: &Sandboxes, echo: &Echo) -> [(&'static str, String); 3] {
    [
        ("SSL_CERT_FILE", host.path("echo/authority.pem").to_string_lossy().into_owned()),
        ("KOZE_TESTING_NAMES", format!("api.example={}", echo.address)),
        ("RUST_LOG", "trace".to_owned()),
    ]
}

/// Returns the output of `sh` on this machine as another user, or as this one.
fn on_this_machine(host: &Sandboxes, as_nobody: bool, script: &str) -> String {
    let mut shell = Command::new(if as_nobody { "setpriv" } else { "env" });
    if as_nobody {
        shell.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]);
    }
    shell.args(["sh", "-c", script]).current_dir(host.dir());
    String::from_utf8_lossy(&run(shell, TIMEOUT).stdout).into_owned()
}

#[test]
fn hostile_programs_find_no_value_of_a_credential() {
    let host = project();
    let source = "#[sandbox(default, tools = [\"agent\", \"workspace\"], workspace(snapshot(bucket = \"BACKUPS\"), shell), \
                  credentials(API_KEY(host = \"api.example\")))]\npub struct ShellSandbox;";
    host.write("src/server/shell.sandbox.rs", format!("use koze::prelude::*;\n\n{source}\n"));
    let echo = Echo::start(&host);
    let value = unique_value();
    host.write("value", &value);
    // Not as an argument, which other processes see.
    let mut set = Command::new("sh");
    set.args(["-c", "exec \"$0\" secret set API_KEY < value"])
        .arg(host.command(&[]).get_program())
        .envs(host.env());
    let set = host.run(set);
    assert_eq!(set.code, 0, "{set:?}");
    fs::remove_file(host.path("value")).expect("it was there");

    let mut server = stdio(&host);
    server["args"] = json!(["mcp", "--tools", "agent,workspace"]);
    for (name, text) in variables(&host, &echo) {
        server["env"][name] = json!(text);
    }
    let page = "mkdir -p page && printf %s \"$API_KEY\" > page/index.html && (python3 -m http.server -d page 8000 > /dev/null 2>&1 &) \
                && for i in 1 2 3 4 5 6 7 8 9; do curl -sf localhost:8000 > /dev/null && break; sleep 0.5; done";
    let calls = json!([
        ["write_file", { "path": "hostile.py", "content": include_str!("credentials/hostile.py") }],
        ["shell", { "command": "python3 hostile.py; env; sleep 1000 & ", "timeout_ms": 110_000 }],
        ["shell", { "command": page }],
        ["browse", { "port": 8000 }],
        ["shell", { "command": "curl -sS -H \"X-Meta: $API_KEY\" https://api.example/; exit 3" }],
        ["read_file", { "path": "none" }],
        ["workspace__shell__run", { "command": "env > environment" }],
    ]);
    let seen = play("task", "1", &server, &[&calls.to_string()]);
    let results = seen["results"].as_array().expect("a list");
    let printed = results[1]["structuredContent"]["stdout"].as_str().unwrap_or_default();
    for part in
        ["program: ready", "keys: True", "dumped: ", "the placeholder of `API_KEY` was sent to", "koze_cred_"]
    {
        assert!(printed.contains(part), "{part}: {}", results[1]);
    }
    let preview = get(results[3]["structuredContent"]["url"].as_str().expect("a URL"));
    assert!(preview.contains("koze_cred_"), "{preview}");

    // Everything that koze shows.
    let mut shown = format!("{seen}\n{preview}\n");
    for args in [
        &["log", "--json"][..],
        &["log", "show", "2"],
        &["sandboxes", "--egress", "--format", "json"],
        &["inspect", "default"],
        &["ps"],
        &["list", "--egress"],
        &["secret", "list"],
        &["call", "shell", "{\"command\":\"env\"}"],
        &["cp", "default:/home/user/dump", "copied"],
        &["snapshot", "create"],
    ] {
        let Run { code, stdout, stderr } = host.run(koze(&host, &echo, args));
        assert_eq!(code, 0, "{args:?}: {stderr}");
        let _ = writeln!(shown, "{args:?} {stdout}{stderr}");
    }
    // Process lists and environments, as this user sees them.
    shown += &on_this_machine(
        &host,
        false,
        "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'",
    );
    assert!(shown.contains("koze_cred_") && shown.contains("supervise"), "{shown}");
    assert!(!shown.contains(&value), "a value was shown");

    // The control: the server got the value, and the search finds it and what programs had.
    let received = fs::read_to_string(host.path("echo/received")).expect("requests");
    for path in ["/program", "/keys", "/echo"] {
        assert!(received.contains(&format!("{path} {value}\n")), "{received}");
    }
    let dumps = files_with(&host, "koze_cred_");
    for part in ["dump/proc.environ", "dump/memory."] {
        assert!(dumps.iter().any(|path| path.contains(part)), "{part}: {dumps:?}");
    }
    let masked = files_with(&host, &"*".repeat(value.len()));
    for part in ["dump/echo", "dump/memory."] {
        assert!(masked.iter().any(|path| path.contains(part)), "{part}: {masked:?}");
    }
    let with_value = files_with(&host, &value);
    assert!(with_value.len() == 1 && with_value[0].ends_with("/secrets.json"), "{with_value:?}");
    for form in encoded_forms(&value) {
        assert_eq!(files_with(&host, &form), [""; 0], "{form}");
        assert!(!shown.contains(&form), "{form} was shown");
    }

    another_user_finds_nothing(&host, &value, &with_value[0]);
}

/// Only koze's own permissions protect its files: the directories above are open to all.
fn another_user_finds_nothing(host: &Sandboxes, value: &str, secrets: &str) {
    if !rustix::process::geteuid().is_root() {
        eprintln!("the search as another user is left out: it takes root");
        return;
    }
    let files = format!("cat {secrets}; grep -raF --devices=skip -e koze_cred_ -e hostile/ state");
    assert!(on_this_machine(host, false, &files).contains(value), "the control");
    on_this_machine(host, false, "chmod 755 . state");
    let who = on_this_machine(host, true, "id -u; ls state; cat Cargo.toml");
    assert!(who.starts_with(&format!("{NOBODY}\nkoze\n[package]")), "{who}");
    assert_eq!(on_this_machine(host, true, &files), "");
    // The files themselves are private, too.
    let open = "find state -maxdepth 4 -type d -exec chmod 755 {} +; find state -name egress-authority.key";
    let key = on_this_machine(host, false, open);
    let secrets = format!("cat {secrets} {}", key.trim_end());
    assert!(on_this_machine(host, false, &secrets).contains("PRIVATE KEY"), "the control");
    let reached = on_this_machine(host, true, &format!("ls {}; {secrets}", key.trim_end()));
    assert_eq!(reached, key);
    let processes = on_this_machine(host, true, "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ");
    assert!(processes.contains("supervise") && !processes.contains(value), "a process shows it");
}
