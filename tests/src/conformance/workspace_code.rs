//! The cases of code in workspaces. A host serves `code` with contexts in both languages, and `python` without contexts.

use serde_json::{Value, json};

use super::session::Session;
use super::{Capability, Case, case};

pub(super) const CASES: &[Case] = &[
    case("workspace_code", code).needs(&[Capability::Exec]),
    case("workspace_code_contexts", contexts).needs(&[Capability::Exec]),
    case("workspace_code_timeout", timeout).needs(&[Capability::Exec]),
    case("workspace_code_isolation", isolation).needs(&[Capability::Exec, Capability::AtOnce]),
    case("workspace_code_declared", declared).needs(&[Capability::Exec]),
    case("workspace_code_restart", restart).needs(&[Capability::Exec, Capability::Restart]),
    case("workspace_code_without_programs", without_programs).lacks(&[Capability::Exec]),
];

fn run(session: &Session, language: &str, code: &str) -> Value {
    let ran = session.call("workspace__code__run_code", json!({ "language": language, "code": code }));
    serde_json::from_str(&ran.content).unwrap_or_else(|_| panic!("{code}: {}", ran.content))
}

fn create(session: &Session, language: &str) -> String {
    let created = session.ok("workspace__code__create_code_context", json!({ "language": language }));
    created["context_id"].as_str().expect("an ID").to_owned()
}

fn run_in(session: &Session, context: &str, code: &str) -> Value {
    let input = json!({ "context_id": context, "code": code });
    let ran = session.call("workspace__code__run_in_code_context", input);
    serde_json::from_str(&ran.content).unwrap_or_else(|_| panic!("{code}: {}", ran.content))
}

fn result(text: &str) -> Value {
    json!({ "exit_code": 0, "outputs": [{ "type": "result", "text": text }] })
}

fn code(session: &Session) {
    for (language, code, text) in [
        ("python", "x = 40\nx + 2", "42"),
        ("python", "import asyncio\nawait asyncio.sleep(0, 'done')", "'done'"),
        ("python", "'$(id) `id` \"\\' é'", "'$(id) `id` \"\\' é'"),
        ("javascript", "let x = 40; x + 2", "42"),
        ("javascript", "const y = await Promise.resolve(7); y", "7"),
        ("javascript", "'$(id) `id` \" é'", "'$(id) `id` \" é'"),
    ] {
        let ran = run(session, language, code);
        assert_eq!(ran, result(text), "{language} {code}");
    }
    let printed = run(
        session,
        "python",
        "import os, sys\nprint('a')\nprint('b', file=sys.stderr)\ndisplay(1)\nos.system('echo raw')\nos.getcwd()",
    );
    let outputs = json!([
        { "type": "stdout", "text": "a\n" },
        { "type": "stderr", "text": "b\n" },
        { "type": "display", "mime": "text/plain", "data": "1" },
        { "type": "stdout", "text": "raw\n" },
        { "type": "result", "text": "'/workspace'" },
    ]);
    assert_eq!(printed, json!({ "exit_code": 0, "outputs": outputs }));
    let printed = run(session, "javascript", "console.log('a'); console.error('b'); undefined");
    let outputs = json!([{ "type": "stdout", "text": "a\n" }, { "type": "stderr", "text": "b\n" }]);
    assert_eq!(printed, json!({ "exit_code": 0, "outputs": outputs }));
    let rich = "class Table:\n    def _repr_html_(self): return '<table>'\n    def _repr_png_(self): return b'\\x89PNG'\n    def __repr__(self): return 'table'\nTable()";
    let outputs = json!([
        { "type": "display", "mime": "text/html", "data": "<table>" },
        { "type": "display", "mime": "image/png", "data": "iVBORw==" },
        { "type": "result", "text": "table" },
    ]);
    assert_eq!(run(session, "python", rich), json!({ "exit_code": 0, "outputs": outputs }));
    for (language, code, name, message, place) in [
        (
            "python",
            "def f():\n    return 1 / 0\nf()",
            "ZeroDivisionError",
            "division by zero",
            "line 2, in f",
        ),
        ("python", "1 +", "SyntaxError", "invalid syntax (<cell 1>, line 1)", "1 +"),
        (
            "javascript",
            "function f() { throw new TypeError('bad') }\nf()",
            "TypeError",
            "bad",
            "at f (<cell 1>:1",
        ),
        ("javascript", "await Promise.reject(new RangeError('far'))", "RangeError", "far", "<cell 1>"),
    ] {
        let ran = run(session, language, code);
        let error = &ran["error"];
        assert_eq!(
            (&ran["exit_code"], &error["name"], &error["message"]),
            (&json!(1), &json!(name), &json!(message)),
            "{ran}"
        );
        assert!(error["traceback"].as_str().is_some_and(|text| text.contains(place)), "{ran}");
    }
    assert_eq!(run(session, "python", "import sys\nsys.exit(3)")["exit_code"], 3);
    assert_eq!(run(session, "javascript", "process.exit(3)")["exit_code"], 3);
    assert_eq!(run(session, "python", "import os\nos.kill(os.getpid(), 9)")["exit_code"], 137);
    // Each run is on its own.
    assert_eq!(run(session, "python", "x")["error"]["name"], "NameError");
}

fn contexts(session: &Session) {
    for (language, assign, read) in [("python", "x = [1]", "x"), ("javascript", "const x = [1]", "x")] {
        let context = create(session, language);
        assert_eq!(run_in(session, &context, assign), json!({ "exit_code": 0, "outputs": [] }));
        let failed = run_in(session, &context, "nothing");
        assert_eq!((&failed["exit_code"], &failed["variables_kept"]), (&json!(1), &Value::Null), "{failed}");
        let value = if language == "python" { "[1]" } else { "[ 1 ]" };
        assert_eq!(run_in(session, &context, read), result(value));
        let deleted = session.ok("workspace__code__delete_code_context", json!({ "context_id": context }));
        assert_eq!(deleted, json!({ "ok": true }));
        for tool in ["workspace__code__run_in_code_context", "workspace__code__delete_code_context"] {
            let mut input = json!({ "context_id": context });
            if tool.contains("run_in") {
                input["code"] = "1".into();
            }
            let error = session.err(tool, input);
            assert!(error.starts_with("not_found: the context has ended: it was deleted"), "{error}");
        }
    }
    let context = create(session, "python");
    let ended = run_in(session, &context, "import os\nos._exit(5)");
    assert_eq!((&ended["exit_code"], &ended["variables_kept"]), (&json!(5), &json!(false)), "{ended}");
    let input = json!({ "context_id": context, "code": "1" });
    assert!(session.err("workspace__code__run_in_code_context", input).starts_with("not_found: "));
    for bad in ["", "1", "../../etc", &"0".repeat(32)] {
        let error =
            session.err("workspace__code__run_in_code_context", json!({ "context_id": bad, "code": "1" }));
        assert!(error.starts_with("not_found: the text is not the ID of a context: "), "{bad}: {error}");
    }
    // A process that was never there, in a sandbox that runs for longer.
    let never = format!("{}-{:x}", "0".repeat(32), u64::MAX);
    let error =
        session.err("workspace__code__run_in_code_context", json!({ "context_id": never, "code": "1" }));
    assert!(
        error.starts_with("not_found: the context has ended: the sandbox went to sleep or was restarted, "),
        "{error}"
    );
    let slept = format!("{}-1", "0".repeat(32));
    let error =
        session.err("workspace__code__run_in_code_context", json!({ "context_id": slept, "code": "1" }));
    assert!(error.starts_with("not_found: the sandbox went to sleep or was restarted after"), "{error}");
}

fn timeout(session: &Session) {
    let late = |context: &str, code: &str| {
        let input = json!({ "context_id": context, "code": code, "timeout_ms": 300 });
        let ran = session.call("workspace__code__run_in_code_context", input);
        let told: Value = serde_json::from_str(&ran.content).unwrap_or_else(|_| panic!("{}", ran.content));
        assert!(ran.is_error && told["exit_code"] == 124 && told["timed_out"] == true, "{told}");
        told
    };
    for (language, assign, endless, stubborn) in [
        (
            "python",
            "x = 7",
            "print('a')\nwhile True: pass",
            "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
        ),
        ("javascript", "var x = 7", "console.log('a'); while (true);", "await null; while (true);"),
    ] {
        let context = create(session, language);
        run_in(session, &context, assign);
        let told = late(&context, endless);
        assert_eq!(
            (&told["variables_kept"], &told["outputs"][0]["text"]),
            (&json!(true), &json!("a\n")),
            "{told}"
        );
        assert_eq!(run_in(session, &context, "x"), result("7"));
        let told = late(&context, stubborn);
        assert_eq!(told["variables_kept"], false, "{told}");
        let input = json!({ "context_id": context, "code": "x" });
        let error = session.err("workspace__code__run_in_code_context", input);
        assert!(error.starts_with("not_found: ") && error.contains("killed after a timeout"), "{error}");
    }
    let context = create(session, "javascript");
    assert_eq!(late(&context, "await new Promise(() => {})")["variables_kept"], true);
    let input =
        json!({ "language": "python", "code": "import time\nprint(1)\ntime.sleep(60)", "timeout_ms": 500 });
    let ran = session.call("workspace__code__run_code", input);
    let told: Value = serde_json::from_str(&ran.content).expect("JSON");
    assert!(ran.is_error && told["exit_code"] == 124 && told["variables_kept"].is_null(), "{told}");
}

/// Contexts do not see each other, and twenty can be used at once.
fn isolation(session: &Session) {
    std::thread::scope(|scope| {
        for number in 0..20 {
            scope.spawn(move || {
                let context = create(session, "python");
                run_in(session, &context, &format!("x = {number}"));
                for _ in 0..3 {
                    assert_eq!(run_in(session, &context, "x"), result(&number.to_string()));
                }
                session.ok("workspace__code__delete_code_context", json!({ "context_id": context }));
            });
        }
    });
    // Calls of one context at once run one after the other.
    let context = &create(session, "python");
    run_in(session, context, "n = 0");
    std::thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(move || run_in(session, context, "m = n\nimport time\ntime.sleep(0.01)\nn = m + 1"));
        }
    });
    assert_eq!(run_in(session, context, "n"), result("10"));
    // A context belongs to its session.
    let other = session.other("another");
    let input = json!({ "context_id": context, "code": "n" });
    assert!(other.err("workspace__code__run_in_code_context", input).starts_with("not_found: "));
}

fn declared(session: &Session) {
    let ran = session.ok("workspace__python__run_code", json!({ "language": "python", "code": "1" }));
    assert_eq!(ran, result("1"));
    let error = session.err("workspace__python__run_code", json!({ "language": "javascript", "code": "1" }));
    assert_eq!(error, "invalid_input: this workspace does not run javascript: its languages are python");
    let error = session.err("workspace__code__run_code", json!({ "language": "ruby", "code": "1" }));
    assert_eq!(error, "invalid_input: unknown language `ruby`: use python or javascript");
    for tool in ["create_code_context", "run_in_code_context", "delete_code_context"] {
        let error = session.err(&format!("workspace__python__{tool}"), json!({}));
        assert!(error.starts_with("unknown_tool: "), "{error}");
    }
    let late = json!({ "language": "python", "code": "1", "timeout_ms": 600_001 });
    assert!(session.err("workspace__code__run_code", late).starts_with("invalid_input: "));
}

/// A context ends with its sandbox.
fn restart(session: &Session) {
    let context = create(session, "python");
    run_in(session, &context, "x = 1");
    session.restart();
    let input = json!({ "context_id": context, "code": "x" });
    let error = session.err("workspace__code__run_in_code_context", input);
    assert!(
        error.starts_with("not_found: ") && error.contains("the sandbox went to sleep or was restarted"),
        "{error}"
    );
}

fn without_programs(session: &Session) {
    let error = session.err("workspace__code__run_code", json!({ "language": "python", "code": "1" }));
    let expected = "unsupported: the workspace `code` failed: it declares the capability `code`, but this provider cannot run \
                    programs: use another provider, or remove `code` from `workspace(..)`";
    assert_eq!(error, expected);
}
