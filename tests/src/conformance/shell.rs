//! `shell`: input and results.

use serde_json::json;

use super::Capability::{Exec, LongInput};
use super::session::{Session, at_once, text};
use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case("shell_gives_streams_and_code", streams_and_code).needs(&[Exec]),
    case("shell_exit_codes_are_the_real_ones", exit_codes).needs(&[Exec]),
    case("shell_signals_are_128_and_more", signals).needs(&[Exec]),
    case("shell_is_bash_without_its_files", bash).needs(&[Exec]),
    case("shell_starts_at_home", starts_at_home).needs(&[Exec]),
    case("shell_starts_at_a_home_that_was_deleted", starts_at_deleted_home).needs(&[Exec]),
    case("shell_missing_working_dir_runs_nothing", missing_working_dir).needs(&[Exec]),
    case("shell_odd_working_dirs", odd_working_dirs).needs(&[Exec]),
    case("shell_each_call_is_fresh", each_call_is_fresh).needs(&[Exec]),
    case("shell_has_no_input", no_input).needs(&[Exec]),
    case("shell_takes_variables_input_and_arguments", takes_more).needs(&[Exec]),
    case("shell_command_is_one_argument", one_argument).needs(&[Exec]),
    case("shell_long_commands", long_commands).needs(&[Exec]),
    case("shell_longer_commands", longer_commands).needs(&[Exec, LongInput]),
    case("shell_longer_commands_run_as_short_ones", longer_as_short).needs(&[Exec, LongInput]),
    case("shell_too_long_a_command", too_long).needs(&[Exec, LongInput]),
    case("shell_where_there_is_none", none).lacks(&[Exec]),
];

fn streams_and_code(session: &Session) {
    let ran = session.ok("shell", json!({ "command": "pwd; echo oops >&2" }));
    assert_eq!(ran, json!({ "stdout": "/home/user\n", "stderr": "oops\n", "exit_code": 0 }));
    // By their names, too.
    let ran = session.ok("shell", json!({ "command": "echo out > /dev/stdout; echo oops > /dev/stderr" }));
    assert_eq!(ran, json!({ "stdout": "out\n", "stderr": "oops\n", "exit_code": 0 }));
    let ran = session.ok("shell", json!({ "command": "" }));
    assert_eq!(ran, json!({ "stdout": "", "stderr": "", "exit_code": 0 }));
    let failed = session.call("shell", json!({ "command": "echo half; exit 3" }));
    assert!(failed.is_error, "another code than 0 is an error");
    let failed: serde_json::Value = serde_json::from_str(&failed.content).expect("and gives all the same");
    assert_eq!(failed, json!({ "stdout": "half\n", "stderr": "", "exit_code": 3 }));
}

fn takes_more(session: &Session) {
    let odd = "a b\"'$(id)\n\u{e4}";
    let ran = session.ok(
        "shell",
        json!({ "command": "printf %s \"$ODD\"; printf %s \"$B\" >&2", "env": { "ODD": odd, "B": "" } }),
    );
    assert_eq!((&ran["stdout"], &ran["stderr"]), (&json!(odd), &json!("")));
    assert_eq!(session.out("echo ${ODD-unset}"), "unset", "it does not stay");

    let ran = session.ok("shell", json!({ "command": "cat; echo end", "stdin": odd }));
    assert_eq!(ran["stdout"], format!("{odd}end\n"));
    let long = "0123456789abcdef".repeat(40_000);
    let ran = session.ok("shell", json!({ "command": "md5sum; cat", "stdin": long }));
    let expected = session.ok("shell", json!({ "argv": ["md5sum"], "stdin": long }));
    assert_eq!(ran["stdout"], expected["stdout"]);
    // A program may end before it has read everything, and one may write while it reads.
    let ran = session.ok("shell", json!({ "command": "head -c 3", "stdin": long }));
    assert_eq!(ran["stdout"], "012");
    let ran = session.ok("shell", json!({ "argv": ["cat"], "stdin": long, "max_output_chars": 1_048_576 }));
    assert!(ran["stdout"] == long.as_str(), "what was written comes back");

    let argv = json!(["printf", "%s|", "a b", "$HOME", "`id`", "", odd, "-n"]);
    let ran = session.ok("shell", json!({ "argv": argv, "working_dir": "/tmp" }));
    assert_eq!(ran["stdout"], format!("a b|$HOME|`id`||{odd}|-n|"));
    session.fails("shell", json!({ "argv": ["no-such-program-at-all"] }), "not_found");
    for (wrong, code) in [
        (json!({}), "invalid_input"),
        (json!({ "argv": [] }), "invalid_input"),
        (json!({ "argv": [""] }), "invalid_input"),
        (json!({ "argv": ["a\u{0}"] }), "invalid_input"),
        (json!({ "argv": ["true", "x".repeat(131_072)] }), "too_large"),
        (json!({ "argv": ["true"], "command": "true" }), "invalid_input"),
        (json!({ "command": "true", "env": { "A=B": "c" } }), "invalid_input"),
        (json!({ "command": "true", "env": { "": "c" } }), "invalid_input"),
        (json!({ "command": "true", "env": { "A": "\u{0}" } }), "invalid_input"),
    ] {
        session.fails("shell", wrong, code);
    }
}

fn exit_codes(session: &Session) {
    for code in [0, 1, 2, 77, 124, 126, 127, 255] {
        assert_eq!(session.run(&format!("exit {code}"))["exit_code"], code);
    }
    assert_eq!(session.run("no-such-program-at-all")["exit_code"], 127);
    assert_eq!(session.run("/etc")["exit_code"], 126, "a directory is no program");
    assert_eq!(session.run("false; true")["exit_code"], 0, "the last one counts");
    assert_eq!(session.run("( if")["exit_code"], 2, "bash's own, where it cannot read the command");
    assert!(session.run("exit 124").get("timed_out").is_none(), "that was no timeout");
}

fn signals(session: &Session) {
    for (signal, code) in
        [("HUP", 129), ("INT", 130), ("KILL", 137), ("SEGV", 139), ("PIPE", 141), ("TERM", 143)]
    {
        assert_eq!(session.run(&format!("kill -{signal} $$; sleep 5"))["exit_code"], code, "{signal}");
        let below = format!("bash -c 'kill -{signal} $$; sleep 5'");
        assert_eq!(session.run(&below)["exit_code"], code, "{signal}, of a program that bash runs");
    }
    // No signal is ignored initially, as it would be for children of a service.
    assert_eq!(session.run("set -o pipefail; yes | head -n 1")["exit_code"], 141);
}

fn bash(session: &Session) {
    let odd = "a=(1 2 3); [[ ${#a[@]} == 3 && abc =~ ^a.c$ ]] && echo $BASH_VERSION";
    assert!(session.out(odd).starts_with(|first: char| first.is_ascii_digit()));
    for file in [".bashrc", ".bash_profile", ".profile", ".bash_login"] {
        session.write(file, "echo read me; alias ls=false\n");
    }
    let ran = session.ok("shell", json!({ "command": "echo \"$-\"; shopt -q login_shell || echo no login" }));
    assert!(
        !text(&ran["stdout"]).contains("read me") && text(&ran["stdout"]).ends_with("no login\n"),
        "{ran}"
    );
}

fn starts_at_home(session: &Session) {
    session.out("mkdir -p sub/dir");
    for (dir, there) in [
        (None, "/home/user"),
        (Some("/tmp"), "/tmp"),
        (Some("/"), "/"),
        (Some("sub/dir"), "/home/user/sub/dir"),
        (Some("."), "/home/user"),
        (Some("sub/../sub"), "/home/user/sub"),
        (Some("/home//user/./sub/"), "/home/user/sub"),
    ] {
        let mut input = json!({ "command": "pwd -P" });
        if let Some(dir) = dir {
            input["working_dir"] = dir.into();
        }
        assert_eq!(session.ok("shell", input)["stdout"], format!("{there}\n"), "{dir:?}");
    }
}

/// A host may keep the directory itself, and a plain user may only delete what is in it.
fn starts_at_deleted_home(session: &Session) {
    session.write("file", "x");
    session.run("cd /; rm -rf /home/user");
    assert_eq!(session.out("pwd; ls -A; echo kept > file; cat file"), "/home/user\nkept");
    session.run("cd /; rm -rf /home/user");
    assert_eq!(session.out("pwd; ls -A"), "/home/user");
}

/// With `cd X && a; b`, b would still run.
fn missing_working_dir(session: &Session) {
    session.write("file", "");
    for (dir, code) in [
        ("/nowhere", "not_found"),
        ("no/where", "not_found"),
        ("file", "not_a_directory"),
        ("file/below", "not_a_directory"),
    ] {
        let command = "touch /tmp/ran; true; touch /tmp/ran";
        session.fails("shell", json!({ "command": command, "working_dir": dir }), code);
    }
    session.fails("read_file", json!({ "path": "/tmp/ran" }), "not_found");
    session.out("mkdir shut && chmod 0 shut");
    session.bound("shell", json!({ "command": "pwd", "working_dir": "shut" }));
}

fn odd_working_dirs(session: &Session) {
    let long = "d".repeat(255);
    for name in
        ["-", "--help", "a b", "new\nline", "日本", "q'\"`", "$(touch x)", "; touch x", "*", "~", &long]
    {
        session.write(&format!("/tmp/odd/{name}/here"), name);
        let input = json!({ "command": "cat here; ls -A", "working_dir": format!("/tmp/odd/{name}") });
        assert_eq!(session.ok("shell", input)["stdout"], format!("{name}here\n"), "{name:?}");
    }
}

fn each_call_is_fresh(session: &Session) {
    session.out("cd /tmp; export LEFT=1; left=1; alias left=true; left() { :; }; umask 077; ulimit -n 100");
    assert_eq!(
        session.out("pwd; echo \"[$LEFT$left]\"; type -t left; umask; [ \"$(ulimit -n)\" -gt 100 ]; echo $?"),
        "/home/user\n[]\n0022\n0"
    );
    session.out("echo kept > file");
    assert_eq!(session.out("cat file"), "kept", "but files stay");
}

fn no_input(session: &Session) {
    assert_eq!(session.out("cat | wc -c; read line; echo $?; test -t 0; echo $?"), "0\n1\n1");
}

fn one_argument(session: &Session) {
    assert_eq!(session.out("printf '%s|' 'a  b' \"c'd\" '$x' \"\\$y\" `echo z`"), "a  b|c'd|$x|$y|z|");
    assert_eq!(session.out("echo one\necho two # three\n\necho \\\nfour"), "one\ntwo\nfour");
    assert_eq!(session.out("cat <<'end'\n$(touch /tmp/x) `y` \\\nend"), "$(touch /tmp/x) `y` \\");
    assert_eq!(session.out("echo 'héllo 日本 😀'"), "héllo 日本 😀");
    assert_eq!(session.run("--version")["exit_code"], 127, "a command is never an option of bash");
    assert_eq!(session.run("-c 'echo x'")["exit_code"], 127);
    assert_eq!(session.out("echo \"$0 $# $*\""), "bash 0 ");
}

fn long_commands(session: &Session) {
    let long = "x".repeat(100_000);
    assert_eq!(session.out(&format!("printf %s {long} | wc -c")), "100000");
}

/// Linux passes a program at most 131,071 bytes in one argument.
fn longer_commands(session: &Session) {
    for length in [131_071, 131_072, 300_000, 1 << 20] {
        let frame = "printf %s  | wc -c";
        let text = "x".repeat(length - frame.len());
        let counted = session.out(&format!("printf %s {text} | wc -c"));
        assert_eq!(counted, text.len().to_string(), "{length}");
    }
    let text = "é日😀 $x `y` $(z) \\ '\" \t\n".repeat(10_000);
    session.write("expected", &text);
    session.out(&format!("cat > long <<'end'\n{text}end\ncmp long expected"));
    // Neither a file nor a variable is left.
    let around = r"ls -A; ls -A /tmp | wc -l; (set; env) | grep -c '\(日\)\1\1'; true";
    assert_eq!(session.run(around), session.run(&longer(around)));
}

/// A command that is passed in parts runs as one that is passed whole.
fn longer_as_short(session: &Session) {
    for command in [
        "echo \"$0 $# $* $-\"; set -- a b; echo \"$2\"",
        "echo $LINENO\n\nno-such-program\necho $LINENO",
        "set -e\necho a\nfalse\necho b",
        "set -u; echo \"$none\"; echo b",
        "set -o pipefail; false | true",
        "cat | wc -c; read line; echo $?; test -t 0; echo $?",
        "trap 'echo bye $?' EXIT; (exit 4); exit 5",
        "return 3; echo b",
        "exec echo replaced",
        "exec no-such-program",
        "sleep 0.1 & wait $!; echo $?",
        "f() { local a=$#; echo $a $1; }; f x y; echo ${FUNCNAME[0]-none} ${BASH_SOURCE[0]-none}",
        "bash -c 'echo \"$0 $# $1\"' name a",
        "cat <<end\n$((1 + 1))\nend",
        "kill -TERM $$; sleep 5",
        "cd /nowhere || exit 9",
        "pwd; umask",
        "! true",
        "echo a\necho )\necho b",
    ] {
        let short = session.run(command);
        let mut long = session.run(&longer(command));
        // Only the message for what bash cannot parse names the way in which it got the command.
        let errors = text(&long["stderr"]).replace("bash: eval: ", "bash: -c: ");
        long["stderr"] = errors.into();
        assert_eq!(short, long, "{command}");
    }
    // Commands that run at once do not disturb each other.
    at_once(8, |number| {
        let counted = session.run(&longer(&format!("echo {number}; sleep 0.2; echo {number}")));
        assert_eq!(counted["stdout"], format!("{number}\n{number}\n"));
    });
}

/// Makes a command longer than one argument can be.
fn longer(command: &str) -> String {
    format!("{command}\n# {}", "日".repeat(50_000))
}

fn too_long(session: &Session) {
    let error = session.err("shell", json!({ "command": format!(": {}", "x".repeat((1 << 20) - 1)) }));
    let expected = "too_large: `command` has 1048577 bytes: a command can have at most 1048576. Write it to a file, in several calls \
                    if it is long, and run that file: `bash FILE`";
    assert_eq!(error, expected);
    assert_eq!(session.out("echo and on"), "and on");
}

fn none(session: &Session) {
    session.fails("shell", json!({ "command": "true" }), "unsupported");
}
