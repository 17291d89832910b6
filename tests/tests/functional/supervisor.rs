//! The process that keeps sandboxes running between `koze call` commands.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use fs_err as fs;
use koze_tests::{eventually, run, signal, sleeps};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::common::sandboxes;

const TIMEOUT: Duration = Duration::from_mins(1);

/// Returns an argument for `sleep` that no other process on this machine uses.
fn length(of: &str) -> String {
    format!("{of}.{}", std::process::id())
}

/// Returns the same command, with a signal option of `env`.
fn started_by(option: &str, command: &Command) -> Command {
    let mut env = Command::new("env");
    env.arg(option).arg(command.get_program()).args(command.get_args());
    if let Some(directory) = command.get_current_dir() {
        env.current_dir(directory);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => env.env(name, value),
            None => env.env_remove(name),
        };
    }
    env
}

#[test]
fn concurrent_first_calls_start_one_supervisor() {
    let host = sandboxes();
    let calls: Vec<_> = (0..20)
        .map(|number| {
            let input = json!({ "command": format!("echo {number} > file-{number}") }).to_string();
            let command = host.command(&["call", "shell", &input]);
            thread::spawn(move || run(command, TIMEOUT))
        })
        .collect();
    for call in calls {
        let output = call.join().expect("it ended");
        assert!(output.status.success(), "{output:?}");
    }
    assert_eq!(host.supervisors().len(), 1);
    assert_eq!(host.shell("ls | wc -l"), "20\n");
}

#[test]
fn a_background_program_outlives_its_call() {
    let host = sandboxes();
    host.shell(
        "echo x > log; (while :; do sleep 0.05; echo x >> log; done) > /dev/null 2>&1 & echo $! > pid",
    );
    assert_eq!(host.shell("kill -0 $(cat pid) && echo alive"), "alive\n");
    let size = host.shell("wc -c < log");
    eventually("it writes on", || host.shell("wc -c < log") != size);
}

#[test]
fn a_killed_supervisor_leaves_files_and_no_process() {
    let host = sandboxes();
    let seconds = length("7002");
    host.shell(&format!("echo kept > file; sleep {seconds} > /dev/null 2>&1 &"));
    eventually("its program runs", || sleeps(&seconds));
    let [killed] = host.supervisors()[..] else { panic!("{:?}", host.supervisors()) };
    signal(killed, Signal::KILL);
    // Immediately: the next call does not need any cleanup.
    assert_eq!(host.shell("cat file"), "kept\n");
    assert!(!host.supervisors().contains(&killed));
    eventually("its programs are gone", || !sleeps(&seconds));
}

#[test]
fn a_supervisor_killed_during_a_call_is_reported() {
    let host = sandboxes();
    let seconds = length("7003");
    let input = json!({ "command": format!("sleep {seconds}"), "timeout_ms": 600_000 }).to_string();
    let command = host.command(&["call", "shell", &input]);
    let call = thread::spawn(move || run(command, TIMEOUT));
    eventually("the command runs", || sleeps(&seconds));
    host.kill_supervisors();
    let output = call.join().expect("it ended");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("ended during the call; the next call starts it again"), "{text}");
    assert_eq!(host.shell("echo again"), "again\n");
}

#[test]
fn an_idle_supervisor_exits() {
    let host = sandboxes();
    let seconds = length("7004");
    let input = json!({ "sandbox": "short", "sleep_after_ms": 1000 }).to_string();
    let mut create = host.command(&["call", "sandbox_create", &input]);
    create.env("KOZE_SUPERVISOR_IDLE_MS", "300");
    assert_eq!(host.run(create).code, 0);
    let [first] = host.supervisors()[..] else { panic!("{:?}", host.supervisors()) };
    let command =
        json!({ "sandbox": "short", "command": format!("echo kept > f; sleep {seconds} >&- 2>&- &") });
    host.call("shell", &command, &[]);
    assert_eq!(host.supervisors(), [first], "it stays as long as a sandbox runs");
    eventually("the supervisor ends", || host.supervisors().is_empty());
    assert!(!sleeps(&seconds), "a program without its supervisor");
    let socket = |name: &str| name.ends_with(".socket");
    let left = fs::read_dir(host.path(host.state().expect("one") + "/supervisors")).expect("its directory");
    assert!(!left.flatten().any(|entry| socket(&entry.file_name().to_string_lossy())));
    let kept = host.call("read_file", &json!({ "sandbox": "short", "path": "f" }), &[]);
    assert_eq!(kept["content"], "kept\n");
}

#[test]
fn ignored_signals_are_not_ignored_in_a_sandbox() {
    let host = sandboxes();
    let command = "for signal in HUP INT USR1 RTMIN; do bash -c \"kill -$signal \\$\\$\"; echo $?; done";
    let input = json!({ "command": command }).to_string();
    let output = run(started_by("--ignore-signal", &host.command(&["call", "shell", &input])), TIMEOUT);
    let printed: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(printed["stdout"], "129\n130\n138\n162\n", "{printed}");
}

#[test]
fn an_interrupted_call_kills_its_command() {
    let host = sandboxes();
    let seconds = length("7005");
    let command = format!("trap '' INT TERM HUP; sleep {seconds}; echo survived > f");
    let input = json!({ "command": command, "timeout_ms": 600_000 });
    // A shell lets its background processes ignore the signal, and the tests may be one.
    let mut command =
        started_by("--default-signal=INT", &host.command(&["call", "shell", &input.to_string()]));
    let mut call = command.stdin(Stdio::null()).stdout(Stdio::null()).process_group(0).spawn().expect("koze");
    eventually("the command runs", || sleeps(&seconds));
    signal(i32::try_from(call.id()).expect("a process id"), Signal::INT);
    assert_eq!(call.wait().expect("its status").signal(), Some(2));
    eventually("the command is gone", || !sleeps(&seconds));
    assert_eq!(host.shell("ls"), "");
    assert_eq!(host.supervisors().len(), 1, "the supervisor is not meant");
}

#[test]
fn another_build_of_koze_replaces_the_supervisor() {
    let host = sandboxes();
    host.shell("echo kept > file");
    let before = host.supervisors();
    let answered = host.run(host.other_build(&["call", "shell", r#"{"command": "cat file"}"#]));
    assert_eq!((answered.code, answered.stdout.contains("kept")), (0, true), "{answered:?}");
    eventually("the first has ended", || host.supervisors().len() == 1);
    assert_ne!(host.supervisors(), before);
}

/// Code that runs in a context has buffers and exit handlers, and the supervisor that ends lets it use them.
#[test]
fn a_replaced_supervisor_lets_code_contexts_end() {
    let host = sandboxes();
    let file = "src/server/shell.sandbox.rs";
    let with = "(tools = [\"agent\", \"workspace\"], workspace(name = \"box\", shell, code(stateful = true)), default)";
    host.write(file, host.read(file).replace("(default)", with));
    let of_workspace = ["--tools", "workspace"];
    let created =
        host.call("workspace__box__create_code_context", &json!({ "language": "python" }), &of_workspace);
    let code = "import atexit, os\nf = open('/workspace/file', 'w')\nf.write('kept')\natexit.register(os.mkdir, '/workspace/ended')";
    let input = json!({ "context_id": created["context_id"], "code": code });
    host.call("workspace__box__run_in_code_context", &input, &of_workspace);
    let before = host.supervisors();
    let look = json!({ "command": "cat /workspace/file; ls /workspace" });
    let other = ["call", "workspace__box__run", &look.to_string(), "--tools", "workspace"];
    assert_eq!(host.run(host.other_build(&other)).code, 0);
    eventually("the first has ended", || !host.supervisors().contains(&before[0]));
    let printed = host.call("workspace__box__run", &look, &of_workspace);
    assert_eq!(printed["stdout"], "keptended\nfile\n", "{printed}");
}

/// The supervisor may not understand the messages of another build of koze.
#[test]
fn another_build_of_koze_may_send_any_request() {
    let host = sandboxes();
    host.shell("true");
    let [supervisor] = host.supervisors()[..] else { panic!("{:?}", host.supervisors()) };
    let dir = host.path(host.state().expect("it is made")).join("supervisors");
    let is_socket = |name: &std::ffi::OsString| name.to_string_lossy().ends_with(".socket");
    let mut names = fs::read_dir(&dir).expect("its directory").flatten().map(|entry| entry.file_name());
    let socket = names.find(is_socket).expect("its socket");
    // Socket paths are limited to 107 bytes.
    let open = fs::File::open(&dir).expect("its directory");
    let path = format!("/proc/self/fd/{}/{}", open.as_raw_fd(), socket.to_string_lossy());
    let mut stream = UnixStream::connect(path).expect("it listens");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    writeln!(stream, "{}", json!({ "program": "0.0.0 another", "ask": { "Dance": [1] } })).expect("it reads");
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).expect("it answers");
    assert_eq!(answer, "\"Stale\"\n");
    eventually("it ends", || !host.supervisors().contains(&supervisor));
}

#[test]
fn the_supervisor_inherits_nothing_from_the_shell() {
    let host = sandboxes();
    host.write("held", "");
    let secret = length("secret");
    let mut command = host.command(&["call", "shell", r#"{"command": "env; ls -l /proc/self/fd"}"#]);
    command.env("API_TOKEN", &secret);
    // The shell holds a file open, for example as a lock.
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "exec 9< held && \"$0\" \"$@\" 9<&9"])
        .arg(command.get_program())
        .args(command.get_args())
        // The only variables that koze passes on: the paths of certificate authorities.
        .env_remove("SSL_CERT_FILE")
        .env_remove("SSL_CERT_DIR");
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            shell.env(name, value);
        }
    }
    let answered = host.run(shell);
    assert_eq!(answered.code, 0, "{answered:?}");
    assert!(answered.stdout.contains("PATH=") && !answered.stdout.contains(&secret), "{answered:?}");
    assert!(!answered.stdout.contains("held"), "{answered:?}");

    let [supervisor] = host.supervisors()[..] else { panic!("{:?}", host.supervisors()) };
    let of = |what: &str| format!("/proc/{supervisor}/{what}");
    let environment = fs::read_to_string(of("environ")).expect("its environment");
    // Without a home, it does not know where the images are.
    let mut variables: Vec<_> = environment.split_terminator('\0').collect();
    variables.sort_unstable();
    let [images, "KOZE_SUPERVISOR_IDLE_MS=20000"] = variables[..] else { panic!("{variables:?}") };
    assert!(images.starts_with("KOZE_IMAGES=/") && images.ends_with("/images"), "{images}");
    assert_eq!(fs::read_link(of("cwd")).expect("its directory").to_str(), Some("/"));
    let open = fs::read_dir(of("fd")).expect("its descriptors").flatten();
    let held = open.filter_map(|entry| fs::read_link(entry.path()).ok()).find(|path| path.ends_with("held"));
    assert_eq!(held, None);
}

#[test]
fn another_user_cannot_connect() {
    let host = sandboxes();
    host.shell("true");
    let state = host.state().expect("it is made");
    let [supervisors, sessions] = ["supervisors", "sessions"].map(|dir| format!("{state}/{dir}"));
    let mode = |path: &str| fs::metadata(host.path(path)).expect(path).permissions().mode() & 0o777;
    assert_eq!([mode(&state), mode(&supervisors), mode(&sessions)], [0o700; 3]);
    if rustix::process::geteuid().is_root() {
        // Make the parent directories accessible, so that nothing else keeps `nobody` out.
        let above = host.dir().parent().expect("the temporary directory");
        for dir in [above, host.dir()] {
            fs::set_permissions(dir, std::fs::Permissions::from_mode(0o755)).expect("permissions");
        }
        let list = |dir: &str| {
            let mut list = Command::new("ls");
            list.arg(host.path(dir)).uid(65534).gid(65534).current_dir("/");
            run(list, TIMEOUT).status.success()
        };
        assert_eq!([list("."), list(&state), list(&supervisors)], [true, false, false]);
    }
}

#[test]
fn a_sandbox_follows_its_file() {
    let host = sandboxes();
    let file = "src/server/shell.sandbox.rs";
    let shut = host.read(file);
    let proxies = "env | grep -c -i '_proxy=http'; true";
    host.write(file, shut.replace("(default)", "(default, internet = true)"));
    assert_eq!(host.shell(&format!("echo kept > file; {proxies}")), "4\n");
    // A restriction in the file applies from the next call on, and the files are kept.
    host.write(file, &shut);
    assert_eq!(host.shell(&format!("cat file; {proxies}")), "kept\n0\n");
    host.kill_supervisors();
    assert_eq!(host.shell(proxies), "0\n");
}

#[test]
fn programs_that_end_with_a_change_or_an_upgrade_are_named_once() {
    let host = sandboxes();
    let file = "src/server/shell.sandbox.rs";
    let with = "(tools = [\"agent\", \"thread\", \"workspace\"], workspace(name = \"box\", shell), default)";
    let shut = host.read(file).replace("(default)", with);
    let open = shut.replace("default)]", "default, internet = true)]");
    assert_ne!(shut, open);
    let start = |seconds: &str| json!({ "command": format!("sleep {seconds} > /dev/null 2>&1 &") });
    let look = json!({ "command": "echo there" });
    let notice = |program: &str| {
        format!(
            "1 program ended when the sandbox slept or restarted: `sleep {program}`. Start again what you need"
        )
    };
    host.write(file, &shut);

    let agent = length("7011");
    host.call("shell", &start(&agent), &[]);
    host.write(file, &open);
    let told = host.call("shell", &look, &[]);
    assert_eq!((&told["stdout"], &told["notice"]), (&json!("there\n"), &json!(notice(&agent))));
    assert_eq!(host.call("shell", &look, &[]).get("notice"), None);
    // Nothing runs now.
    host.write(file, &shut);
    assert_eq!(host.call("shell", &look, &[]).get("notice"), None);

    let workspace = length("7012");
    let tools = ["--tools", "workspace"];
    host.call("workspace__box__run", &start(&workspace), &tools);
    host.write(file, &open);
    assert_eq!(host.call("workspace__box__run", &look, &tools)["notice"], notice(&workspace));
    assert_eq!(host.call("workspace__box__run", &look, &tools).get("notice"), None);

    let thread = length("7013");
    host.call("shell", &start(&thread), &[]);
    host.write(file, &shut);
    let input = json!({ "description": "look", "command": "echo there" }).to_string();
    let bash = || host.koze(&["call", "bash", &input, "--tools", "thread"]).stdout;
    assert_eq!(bash(), format!("there\n[{}]\n", notice(&thread)));
    assert_eq!(bash(), "there\n\n", "it is named once");

    // Another program starts the sandbox then.
    let upgraded = length("7014");
    host.call("shell", &start(&upgraded), &[]);
    let other = host.run(host.other_build(&["call", "shell", &look.to_string()]));
    let told: Value = serde_json::from_str(&other.stdout).expect("JSON");
    assert_eq!(told["notice"], notice(&upgraded), "{other:?}");
}

#[test]
fn a_supervisor_whose_state_is_deleted_exits() {
    let host = sandboxes();
    host.shell("true");
    let state = host.path(host.state().expect("it is made"));
    fs::remove_dir_all(&state).or_else(|_| fs::remove_dir_all(&state)).expect("it goes");
    let [first] = host.supervisors()[..] else { panic!("{:?}", host.supervisors()) };
    host.shell("true");
    eventually("the first one ends", || !host.supervisors().contains(&first));
    assert_eq!(host.supervisors().len(), 1);
    assert_eq!(host.koze(&["destroy", "default"]).code, 0, "the second one is found");
}
