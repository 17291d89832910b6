//! `shell`: the limit and encoding of output.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::Capability::Exec;
use super::session::{Session, every_byte, text};
use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case("output_is_bounded", bounded).needs(&[Exec]),
    case("output_up_to_the_bound_is_whole", whole).needs(&[Exec]),
    case("output_is_cut_and_kept_in_a_file", cut_and_kept).needs(&[Exec]),
    case("output_bytes_stay_bytes", bytes).needs(&[Exec]),
    case("output_order_and_emptiness", order).needs(&[Exec]),
    case("environment_is_the_sandbox_s_own", environment).needs(&[Exec]),
];

const MAX_OUTPUT: usize = 1024 * 1024;

fn bounded(session: &Session) {
    let command = "echo first; head -c 3000000 /dev/zero | tr '\\0' x; echo last; \
                   echo FIRST >&2; head -c 4000000 /dev/zero | tr '\\0' y >&2; echo LAST >&2; exit 9";
    let ran = session.call("shell", json!({ "command": command, "max_output_chars": MAX_OUTPUT }));
    let ran: Value = serde_json::from_str(&ran.content).expect("JSON");
    assert_eq!(ran["exit_code"], 9);
    for (stream, first, last) in
        [("stdout", "first\nxxx", "xxxlast\n"), ("stderr", "FIRST\nyyy", "yyyLAST\n")]
    {
        let out = text(&ran[stream]);
        assert!(out.len() <= MAX_OUTPUT, "the mark is inside the bound: {}", out.len());
        assert!(out.len() > MAX_OUTPUT - 1000, "and nothing more is cut: {}", out.len());
        assert!(out.starts_with(first) && out.ends_with(last), "head and tail of {stream}");
        assert!(out.contains("bytes left out"), "{stream} says that something is missing");
    }
}

fn whole(session: &Session) {
    for size in [MAX_OUTPUT - 1, MAX_OUTPUT] {
        let command = format!("head -c {size} /dev/zero | tr '\\0' x");
        let ran = session.ok("shell", json!({ "command": command, "max_output_chars": MAX_OUTPUT }));
        let out = text(&ran["stdout"]);
        assert!(out.len() == size && out.bytes().all(|byte| byte == b'x'), "{size}: {}", out.len());
        assert!(ran.get("stdout_file").is_none(), "{ran}");
    }
}

fn cut_and_kept(session: &Session) {
    let ran = session.ok("shell", json!({ "command": "seq 10000; echo short >&2" }));
    let out = text(&ran["stdout"]);
    assert!(out.len() <= 30_000 && out.len() > 29_900, "{}", out.len());
    assert!(out.starts_with("1\n2\n") && out.ends_with("9999\n10000\n"), "{out}");
    let file = text(&ran["stdout_file"]);
    assert!(out.contains(&format!("characters left out; the output is in {file} ...]")), "{out}");
    assert_eq!((&ran["stderr"], ran.get("stderr_file")), (&json!("short\n"), None));
    assert_eq!(session.out(&format!("seq 10000 | cmp - {file} && echo same")), "same");
    let ran = session.ok("shell", json!({ "command": "seq 1000 >&2", "max_output_chars": 1000 }));
    let err = text(&ran["stderr"]);
    assert!(err.len() <= 1000 && err.ends_with("\n1000\n") && ran["stderr_file"].is_string(), "{ran}");
    // Of bytes that are no text, as many as base64 has room for.
    let ran = session.ok("shell", json!({ "command": "head -c 60000 /dev/zero; printf '\\377'" }));
    let bytes = STANDARD.decode(text(&ran["stdout"])).expect("base64");
    assert!(bytes.len() <= 22_500 && bytes.ends_with(b"\0\xff"), "{}", bytes.len());
    assert_eq!(session.out(&format!("wc -c < {}", text(&ran["stdout_file"]))), "60001");
    for wrong in [0, 999, 1_048_577] {
        session.fails("shell", json!({ "command": "true", "max_output_chars": wrong }), "invalid_input");
    }
}

fn bytes(session: &Session) {
    let bytes = every_byte();
    session.write_bytes("all", &bytes);
    let ran = session.ok("shell", json!({ "command": "cat all; cat all >&2" }));
    assert_eq!(
        ran,
        json!({
            "stdout": STANDARD.encode(&bytes),
            "stderr": STANDARD.encode(&bytes),
            "exit_code": 0,
            "stdout_encoding": "base64",
            "stderr_encoding": "base64",
        })
    );
    let one = session.ok("shell", json!({ "command": "printf '\\377'; echo text >&2" }));
    assert_eq!((&one["stdout_encoding"], &one["stderr"]), (&json!("base64"), &json!("text\n")));
    assert!(one.get("stderr_encoding").is_none());
    let controls = session.ok("shell", json!({ "command": "printf '\\0\\1\\033[31m\\177\\r\\n'" }));
    assert_eq!(controls["stdout"], "\0\u{1}\u{1b}[31m\u{7f}\r\n");
    assert!(controls.get("stdout_encoding").is_none(), "these are UTF-8");
}

fn order(session: &Session) {
    let ran = session.run("for n in $(seq 1000); do echo $n; done");
    let numbers: Vec<String> = (1..=1000).map(|number| number.to_string()).collect();
    let expected = format!("{}\n", numbers.join("\n"));
    assert_eq!(ran["stdout"], expected);
    assert_eq!(session.run("printf 'no end'")["stdout"], "no end");
    assert_eq!(session.run("exec 1>&-; true")["stdout"], "");
}

fn environment(session: &Session) {
    let user = session.user();
    let output = session.out("echo $HOME; id -u; test -n \"$PATH\" && echo path");
    assert_eq!(output, format!("/home/user\n{user}\npath"));
    let names = session.out("env | cut -d= -f1");
    for name in names.lines() {
        let suspicious = ["CARGO", "RUST", "KOZE", "KEY", "SECRET", "TOKEN", "PASS", "CREDENTIAL", "DSN"];
        assert!(!suspicious.iter().any(|word| name.contains(word)), "{name} is of the host");
    }
    assert_eq!(
        session.out("echo $(ls /proc/self/fd | wc -l)"),
        "4",
        "nothing is open but the three, and ls's own"
    );
}
