//! The cases of code in workspaces. A host serves `code` with contexts in both languages, and `python` without contexts.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::session::Session;
use super::{Capability, Case, case};

pub(super) const CASES: &[Case] = &[
    case("workspace_code", code).needs(&[Capability::Exec]),
    case("workspace_code_as_models_write_it", as_models_write_it).needs(&[Capability::Exec]),
    case("workspace_code_names_of_the_driver", names_of_the_driver).needs(&[Capability::Exec]),
    case("workspace_code_input_of_programs", input_of_programs).needs(&[Capability::Exec]),
    case("workspace_code_contexts", contexts).needs(&[Capability::Exec]),
    case("workspace_code_context_settings", settings).needs(&[Capability::Exec]),
    case("workspace_code_listed_contexts", listed).needs(&[Capability::Exec]),
    case("workspace_code_restarted_context", restarted).needs(&[Capability::Exec]),
    case("workspace_code_busy_context", busy).needs(&[Capability::Exec, Capability::AtOnce]),
    case("workspace_code_ends_as_a_program", ends).needs(&[Capability::Exec]),
    case("workspace_code_after_the_last_statement", late).needs(&[Capability::Exec]),
    case("workspace_code_endless_rest", endless).needs(&[Capability::Exec]),
    case("workspace_code_deleted_context", deleted).needs(&[Capability::Exec]),
    case("workspace_code_timeout", timeout).needs(&[Capability::Exec]),
    case("workspace_code_isolation", isolation).needs(&[Capability::Exec, Capability::AtOnce]),
    case("workspace_code_declared", declared).needs(&[Capability::Exec]),
    case("workspace_code_restart", restart).needs(&[Capability::Exec, Capability::Restart]),
    case("workspace_code_restart_and_keep", restart_and_keep).needs(&[
        Capability::Exec,
        Capability::Restart,
        Capability::Keep,
    ]),
    case("workspace_code_without_programs", without_programs).lacks(&[Capability::Exec]),
];

pub(super) fn run(session: &Session, language: &str, code: &str) -> Value {
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

/// Indented code, a semicolon that hides the value, and other names of the languages.
fn as_models_write_it(session: &Session) {
    for (language, code, text) in [
        ("py", "    x = 40\n    x + 2", "42"),
        ("python3", "\n  def f():\n    return 7\n  f()", "7"),
        ("python", "'a;'", "'a;'"),
        ("python", "1 # ;", "1"),
        ("python", "len('a\u{2028}b\u{c};')", "5"),
        ("js", "  40 + 2", "42"),
        ("node", "7", "7"),
    ] {
        assert_eq!(run(session, language, code), result(text), "{language} {code}");
    }
    for code in ["x = 1; x;", "7; # seven", "  x = 1\n  x;\n"] {
        assert_eq!(run(session, "python", code), json!({ "exit_code": 0, "outputs": [] }), "{code}");
    }
    // Uneven indentation stays an error, without a second one in its traceback.
    let uneven = run(session, "python", "x = 1\n  y = 2");
    assert_eq!(uneven["error"]["name"], "IndentationError");
    let traceback = uneven["error"]["traceback"].as_str().expect("a traceback");
    assert!(!traceback.contains("During handling"), "{traceback}");
}

/// Code can use every name that the driver uses, and sees none of the driver's.
fn names_of_the_driver(session: &Session) {
    for name in [
        "fs", "path", "util", "vm", "frame", "show", "run", "write", "number", "settle", "evaluate", "queue",
        "rest",
    ] {
        for code in [format!("const {name} = 7; {name}"), format!("let {name} = 7; display({name}); {name}")]
        {
            let ran = run(session, "javascript", &code);
            let last = ran["outputs"].as_array().and_then(|outputs| outputs.last());
            assert_eq!(last, Some(&json!({ "type": "result", "text": "7" })), "{code}: {ran}");
        }
    }
    let ran = run(
        session,
        "javascript",
        "const fs = require('fs'); fs.writeFileSync('of-code.txt', 'x'); fs.readFileSync('of-code.txt', 'utf8')",
    );
    assert_eq!(ran, result("'x'"));
    for (language, code, name) in [
        ("javascript", "frame({ type: 'stdout', text: 'forged' })", "ReferenceError"),
        ("python", "frame(type='stdout', text='forged')", "NameError"),
    ] {
        let ran = run(session, language, code);
        assert_eq!((&ran["error"]["name"], &ran["outputs"]), (&json!(name), &json!([])), "{ran}");
    }
    let names = [
        "frame", "show", "run", "call", "cell", "SPACE", "LOOP", "BUSY", "json", "os", "request", "code",
        "signal",
    ];
    for name in names {
        let code = format!("{name} = 7\ndisplay({name})\nprint({name})\n{name}");
        let outputs = json!([
            { "type": "display", "mime": "text/plain", "data": "7" },
            { "type": "stdout", "text": "7\n" },
            { "type": "result", "text": "7" },
        ]);
        assert_eq!(run(session, "python", &code), json!({ "exit_code": 0, "outputs": outputs }), "{name}");
    }
    // A listener of the code's own handles its rejections, a forked child's error has its place, and threads do not mix output.
    let listener = "process.on('unhandledRejection', (error) => console.log('mine', error.message)); \
                    Promise.reject(new Error('far')); undefined";
    let outputs = json!([{ "type": "stdout", "text": "mine far\n" }]);
    assert_eq!(run(session, "javascript", listener), json!({ "exit_code": 0, "outputs": outputs }));
    let forked = run(session, "python", "import os\nif os.fork() == 0: 1 / 0\nos.wait() and None");
    let printed = forked["outputs"][0]["text"].as_str().unwrap_or_default();
    assert!(printed.contains("<cell 1>") && printed.contains("ZeroDivisionError"), "{forked}");
    let threads = "import threading\ndef work():\n    for _ in range(20): print('x' * 20000)\n\
                   all = [threading.Thread(target=work) for _ in range(4)]\nfor one in all: one.start()\nfor one in all: one.join()\nNone";
    let ran = run(session, "python", threads);
    let printed = ran["outputs"][0]["text"].as_str().unwrap_or_default();
    assert!(ran["outputs"].as_array().is_some_and(|outputs| outputs.len() == 1), "{}", ran["outputs"]);
    assert!(!printed.contains('\u{1e}') && !printed.contains("\"type\""), "a broken frame");
}

/// A program that inherits standard input finds its end.
fn input_of_programs(session: &Session) {
    for (language, code) in [
        ("javascript", "require('child_process').spawnSync('cat', { stdio: 'inherit' }).status"),
        ("python", "import subprocess\nsubprocess.run(['cat']).returncode"),
    ] {
        let input = json!({ "language": language, "code": code, "timeout_ms": 10_000 });
        assert_eq!(session.ok("workspace__code__run_code", input), result("0"), "{language}");
    }
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
    // A context that was never there, in a sandbox that runs for longer.
    let never = format!("00000000-{:x}", u64::MAX);
    let error =
        session.err("workspace__code__run_in_code_context", json!({ "context_id": never, "code": "1" }));
    assert!(
        error.starts_with("not_found: the context has ended: the sandbox went to sleep or was restarted, "),
        "{error}"
    );
    let input = json!({ "context_id": "00000000-1", "code": "1" });
    let error = session.err("workspace__code__run_in_code_context", input);
    assert!(error.starts_with("not_found: the sandbox went to sleep or was restarted after"), "{error}");
    assert!(error.ends_with("Create another context, and run what it needs again"), "{error}");
    // The error for another ID names the contexts that run.
    let runs = create(session, "python");
    for tool in ["run_in_code_context", "restart_code_context", "delete_code_context"] {
        for other in ["x", "00000000-1", context.as_str()] {
            let mut input = json!({ "context_id": other });
            if tool == "run_in_code_context" {
                input["code"] = "1".into();
            }
            // It has ended, and its settings are there.
            if other == context && tool != "run_in_code_context" {
                continue;
            }
            let error = session.err(&format!("workspace__code__{tool}"), input);
            let named = format!(". These contexts run: `{runs}`");
            assert!(error.starts_with("not_found: ") && error.ends_with(&named), "{tool} {other}: {error}");
        }
    }
}

/// Code that returns the directory and two variables of a context.
fn look(language: &str) -> &'static str {
    match language {
        "python" => "import os\n[os.getcwd(), os.environ.get('KEY'), os.environ.get('MPLBACKEND')]",
        _ => "JSON.stringify([process.cwd(), process.env.KEY, process.env.MPLBACKEND])",
    }
}

/// What `look` returns.
fn looked(language: &str, [dir, key, backend]: [&str; 3]) -> Value {
    match language {
        "python" => result(&format!("['{dir}', '{key}', '{backend}']")),
        _ => result(&format!("'[\"{dir}\",\"{key}\",\"{backend}\"]'")),
    }
}

fn create_with(session: &Session, input: Value) -> String {
    let created = session.ok("workspace__code__create_code_context", input);
    created["context_id"].as_str().expect("an ID").to_owned()
}

fn list(session: &Session) -> Vec<Value> {
    let mut listed = session.ok("workspace__code__list_code_contexts", json!({}));
    let Some(Value::Array(contexts)) = listed.get_mut("contexts").map(Value::take) else {
        panic!("{listed}")
    };
    contexts
}

/// A context starts with a directory and variables of its own, and keeps them when it is restarted.
fn settings(session: &Session) {
    session.ok("workspace__code__mkdir", json!({ "path": "sub/dir", "recursive": true }));
    for language in ["python", "javascript"] {
        let env = json!({ "KEY": "a b$(id) ä", "MPLBACKEND": "own" });
        let context =
            create_with(session, json!({ "language": language, "working_dir": "sub/dir", "env": env }));
        let expected = looked(language, ["/workspace/sub/dir", "a b$(id) ä", "own"]);
        assert_eq!(run_in(session, &context, look(language)), expected);
        let other = create_with(session, json!({ "language": language, "working_dir": "/tmp" }));
        let missing = if language == "python" {
            result("['/tmp', None, 'Agg']")
        } else {
            result("'[\"/tmp\",null,\"Agg\"]'")
        };
        assert_eq!(
            run_in(session, &other, look(language)),
            missing,
            "a context does not see those of others"
        );
        let moved = if language == "python" { "os.chdir('/')" } else { "process.chdir('/')" };
        run_in(session, &context, moved);
        session.ok("workspace__code__restart_code_context", json!({ "context_id": context }));
        assert_eq!(run_in(session, &context, look(language)), expected);
    }
    let long = json!({ "A": "x".repeat(100_000), "B": "x".repeat(100_000), "C": "x".repeat(100_000) });
    for (input, error) in [
        (json!({ "language": "python", "working_dir": "none" }), "not_found: /workspace/none "),
        (json!({ "language": "python", "working_dir": "a\u{0}" }), "invalid_input: a path "),
        (json!({ "language": "python", "env": { "A=B": "1" } }), "invalid_input: `A=B` in `env` "),
        (json!({ "language": "python", "env": { "A": 1 } }), "invalid_input: "),
        (json!({ "language": "python", "env": long }), "too_large: "),
    ] {
        let refused = session.err("workspace__code__create_code_context", input);
        assert!(refused.starts_with(error), "{refused}");
    }
    assert_eq!(list(session).len(), 4, "a refused one is not there");
    // Code can change the file of a context, which then cannot be restarted, and nothing else breaks.
    let context = create(session, "python");
    let path = format!("/tmp/koze-contexts/{context}.json");
    let broken = [
        format!("open('{path}', 'w').write('x' * 1_000_000)"),
        format!("import os, shutil\nos.remove('{path}')\nos.symlink('/dev/zero', '{path}')"),
        format!("os.remove('{path}')\nos.mkdir('{path}')"),
        format!("os.rmdir('{path}')"),
    ];
    for code in &broken {
        run_in(session, &context, code);
        let listed = list(session).into_iter().find(|one| one["context_id"] == json!(context));
        let listed = listed.unwrap_or_else(|| panic!("{code}"));
        assert_eq!((listed.get("working_dir"), &listed["language"]), (None, &json!("python")), "{code}");
        let input = json!({ "context_id": context });
        let error = session.err("workspace__code__restart_code_context", input);
        assert!(
            error.starts_with("not_found: ") && error.contains("Create another context"),
            "{code}: {error}"
        );
    }
    assert_eq!(run_in(session, &context, "1"), result("1"));
    session.ok("workspace__code__delete_code_context", json!({ "context_id": context }));
}

fn listed(session: &Session) {
    assert_eq!(list(session), [] as [Value; 0]);
    let first = create_with(session, json!({ "language": "py", "env": { "SECRET": "hidden" } }));
    let second = create_with(session, json!({ "language": "js", "working_dir": "/tmp" }));
    run_in(session, &first, "print('x' * 500_000)");
    let contexts = list(session);
    assert!(!json!(contexts).to_string().contains("hidden"), "values of variables are not listed");
    let ages: Vec<u64> = contexts.iter().map(|one| one["age_ms"].as_u64().expect("an age")).collect();
    assert!(ages[0] >= ages[1] && ages[0] < 600_000, "{ages:?}");
    let without_ages: Vec<Value> = contexts
        .into_iter()
        .map(|mut one| {
            one.as_object_mut().expect("an object").remove("age_ms");
            one
        })
        .collect();
    let expected = [
        json!({ "context_id": first, "language": "python", "working_dir": "/workspace", "busy": false }),
        json!({ "context_id": second, "language": "javascript", "working_dir": "/tmp", "busy": false }),
    ];
    assert_eq!(without_ages, expected);
    run(session, "python", "1");
    run_in(session, &second, "process.exit(0)");
    session.ok("workspace__code__restart_code_context", json!({ "context_id": first }));
    let ids: Vec<Value> = list(session).iter().map(|one| one["context_id"].clone()).collect();
    assert_eq!(ids, [json!(first)], "only what runs is listed");
    session.ok("workspace__code__delete_code_context", json!({ "context_id": first }));
    assert_eq!(list(session), [] as [Value; 0]);
}

/// A restarted context has its ID, and no variables. One that has ended can be restarted until it is deleted.
fn restarted(session: &Session) {
    let restart =
        |context: &str| session.ok("workspace__code__restart_code_context", json!({ "context_id": context }));
    let err = |context: &str| {
        let input = json!({ "context_id": context, "code": "1" });
        session.err("workspace__code__run_in_code_context", input)
    };
    let context = create(session, "python");
    let opened = "import subprocess\nx = 1\nfile = open('flushed.txt', 'w')\nfile.write('abc')\n\
                  print(subprocess.Popen(['sleep', '600'], start_new_session=True).pid)";
    let ran = run_in(session, &context, opened);
    let pid = ran["outputs"][0]["text"].as_str().expect("an ID").trim().to_owned();
    assert_eq!(restart(&context), json!({ "ok": true }));
    let gone = run_in(session, &context, "x");
    assert_eq!(gone["error"]["name"], "NameError", "{gone}");
    let check = format!("import os\n[open('flushed.txt').read(), os.path.exists('/proc/{pid}')]");
    assert_eq!(run_in(session, &context, &check), result("['abc', False]"));
    // Twice in a row, and with code in between.
    restart(&context);
    restart(&context);
    assert_eq!(run_in(session, &context, "y = 2\ny"), result("2"));
    assert_eq!(run_in(session, &context, "y"), result("2"));

    run_in(session, &context, "import os\nos._exit(0)");
    assert!(err(&context).ends_with(". Restart it, which keeps its ID, and run what it needs again"));
    restart(&context);
    assert_eq!(run_in(session, &context, "3"), result("3"));
    let stubborn = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass";
    let input = json!({ "context_id": context, "code": stubborn, "timeout_ms": 300 });
    let ran = session.call("workspace__code__run_in_code_context", input);
    assert!(
        ran.content.contains("its variables are lost: restart it, which keeps its ID"),
        "{}",
        ran.content
    );
    restart(&context);
    assert_eq!(run_in(session, &context, "4"), result("4"));

    // One that has ended can be deleted, and then it cannot be restarted.
    run_in(session, &context, "import os\nos._exit(0)");
    let input = json!({ "context_id": context });
    assert_eq!(session.ok("workspace__code__delete_code_context", input.clone()), json!({ "ok": true }));
    for tool in ["restart_code_context", "delete_code_context"] {
        let error = session.err(&format!("workspace__code__{tool}"), input.clone());
        assert!(error.starts_with("not_found: the context has ended: it was deleted"), "{error}");
        assert!(error.ends_with(". Create another context, and run what it needs again"), "{error}");
    }

    let context = create(session, "javascript");
    run_in(session, &context, "setInterval(() => {}, 1000); var x = 1");
    let warning = "its code, timers, servers or threads still ran after two seconds, so it was killed: what it had not written yet \
                   is lost";
    assert_eq!(restart(&context), json!({ "ok": true, "warning": warning }));
    assert_eq!(run_in(session, &context, "typeof x"), result("'undefined'"));
}

/// A context is listed as busy while its code runs, and a restart interrupts the code.
fn busy(session: &Session) {
    for (language, endless) in [
        ("python", "while True: print('x' * 1000)"),
        ("python", "import time\nwhile True: time.sleep(1)"),
        ("javascript", "await new Promise((done) => setTimeout(done, 50_000))"),
        ("javascript", "while (true);"),
    ] {
        let context = &create(session, language);
        let is_busy = || {
            let contexts = list(session);
            contexts.iter().any(|one| one["context_id"] == json!(context) && one["busy"] == true)
        };
        assert!(!is_busy());
        std::thread::scope(|scope| {
            let running = scope.spawn(move || {
                let input = json!({ "context_id": context, "code": endless, "timeout_ms": 50_000 });
                session.call("workspace__code__run_in_code_context", input)
            });
            let start = Instant::now();
            while !is_busy() {
                assert!(start.elapsed() < Duration::from_secs(30) && !running.is_finished(), "never busy");
                std::thread::sleep(Duration::from_millis(50));
            }
            session.ok("workspace__code__restart_code_context", json!({ "context_id": context }));
            assert!(running.join().expect("it returns").is_error, "{endless}");
            assert!(start.elapsed() < Duration::from_secs(40), "the code was not interrupted");
        });
        assert!(!is_busy());
        assert_eq!(run_in(session, context, "7"), result("7"));
        session.ok("workspace__code__delete_code_context", json!({ "context_id": context }));
    }
}

/// What code has not flushed, joined or awaited is there after the run, as after a program.
fn ends(session: &Session) {
    let done = json!({ "exit_code": 0, "outputs": [] });
    for code in [
        "import csv\nfile = open('rows.csv', 'w', newline='')\nrows = csv.writer(file)\nfor n in range(1000): rows.writerow([n, 'x' * 9])",
        "file = open('open.txt', 'w')\n_ = file.write('abc')\nNone",
        "import zipfile\narchive = zipfile.ZipFile('archive.zip', 'w')\narchive.writestr('name', 'content')",
        "import threading, time\ndef work():\n    time.sleep(0.3)\n    open('thread.txt', 'w').write('t')\nthreading.Thread(target=work).start()",
        "import atexit\natexit.register(lambda: open('exit.txt', 'w').write('e')) and None",
        "import subprocess\nchild = subprocess.Popen(['sh', '-c', 'sleep 0.3; echo c > child.txt'])",
    ] {
        assert_eq!(run(session, "python", code), done, "{code}");
    }
    let check = "import os, time, zipfile\nwhile not os.path.exists('child.txt'): time.sleep(0.01)\n[sum(1 for _ in open('rows.csv')), \
                 open('open.txt').read(), zipfile.ZipFile('archive.zip').read('name'), open('thread.txt').read(), \
                 open('exit.txt').read()]";
    let expected = "[1000, 'abc', b'content', 't', 'e']";
    assert_eq!(run(session, "python", check), result(expected));
    for code in [
        "const stream = require('fs').createWriteStream('stream'); for (let n = 0; n < 1000; n++) stream.write('x'.repeat(100));",
        "require('fs').writeFile('written', 'w', () => {});",
        "require('fs').promises.writeFile('promised', 'p').then(() => {}); undefined",
        "setTimeout(() => require('fs').writeFileSync('timer', 't'), 300); undefined",
        "process.on('exit', () => require('fs').writeFileSync('exited', 'e')); undefined",
    ] {
        let ran = run(session, "javascript", code);
        assert_eq!(ran["exit_code"], 0, "{code}: {ran}");
    }
    let check = "const read = (name) => require('fs').readFileSync(name, 'utf8'); \
                 [read('stream').length, ...['written', 'promised', 'timer', 'exited'].map(read)].join()";
    assert_eq!(run(session, "javascript", check), result("'100000,w,p,t,e'"));
}

/// What comes after the last statement belongs to the result: output, errors and the exit code.
fn late(session: &Session) {
    let printed = |text: &str| json!({ "type": "stdout", "text": text });
    let threads = "import atexit, threading, time, os\natexit.register(lambda: print('exit'))\ndef work():\n    time.sleep(0.2)\n    \
                   print('thread')\n    os.system('echo raw')\nthreading.Thread(target=work).start()\n1";
    let outputs = json!([{ "type": "result", "text": "1" }, printed("thread\nraw\nexit\n")]);
    assert_eq!(run(session, "python", threads), json!({ "exit_code": 0, "outputs": outputs }));
    let timers =
        "setTimeout(() => console.log('timer'), 200); process.on('exit', () => console.log('exit')); 1";
    let outputs = json!([{ "type": "result", "text": "1" }, printed("timer\nexit\n")]);
    assert_eq!(run(session, "javascript", timers), json!({ "exit_code": 0, "outputs": outputs }));

    let thread = run(session, "python", "import threading\nthreading.Thread(target=lambda: 1 / 0).start()");
    let errors = thread["outputs"].as_array().expect("a list").iter().map(|one| one["text"].to_string());
    assert!(errors.collect::<String>().contains("ZeroDivisionError: division by zero"), "{thread}");
    assert_eq!(thread["exit_code"], 0, "as python3: {thread}");
    let tasks = "import asyncio\nasync def work():\n    try: await asyncio.sleep(60)\n    finally: print('cleaned up')\n\
                 task = asyncio.create_task(work()); await asyncio.sleep(0)\nNone";
    let outputs = json!([printed("cleaned up\n")]);
    assert_eq!(
        run(session, "python", tasks),
        json!({ "exit_code": 0, "outputs": outputs }),
        "as asyncio.run"
    );
    for (code, name, message) in [
        ("setTimeout(() => { throw new TypeError('late') }, 50); undefined", "TypeError", "late"),
        ("Promise.reject(new RangeError('far')); undefined", "RangeError", "far"),
        ("setTimeout(() => console.log('not reached'), 300); throw new Error('now')", "Error", "now"),
    ] {
        let ran = run(session, "javascript", code);
        let error = &ran["error"];
        assert_eq!(
            (&ran["exit_code"], &error["name"], &error["message"], &ran["outputs"]),
            (&json!(1), &json!(name), &json!(message), &json!([])),
            "{ran}"
        );
        assert!(error["traceback"].as_str().is_some_and(|text| text.contains("<cell 1>")), "{ran}");
    }
    let caught = "process.on('uncaughtException', (error) => console.log(error.message)); \
                  setTimeout(() => { throw new Error('mine') }, 50); undefined";
    let outputs = json!([printed("mine\n")]);
    assert_eq!(run(session, "javascript", caught), json!({ "exit_code": 0, "outputs": outputs }));
    for (language, code, exit_code) in [
        ("javascript", "setTimeout(() => process.exit(7), 50); undefined", 7),
        ("javascript", "process.exitCode = 4; undefined", 4),
        ("javascript", "await new Promise(() => {})", 13),
        (
            "python",
            "import os\nif os.fork() == 0: raise SystemExit(5)\nraise SystemExit(os.wait()[1] >> 8)",
            5,
        ),
        ("python", "import atexit, os\natexit.register(os._exit, 6) and None", 6),
    ] {
        let ran = run(session, language, code);
        assert_eq!(ran["exit_code"], exit_code, "{code}: {ran}");
        assert!(ran.get("timed_out").is_none(), "{code}: {ran}");
    }
    let told = run(session, "python", "import sys\nsys.exit('the reason')");
    let outputs = json!([{ "type": "stderr", "text": "the reason\n" }]);
    assert_eq!((&told["exit_code"], &told["outputs"]), (&json!(1), &outputs));
}

/// Timers, servers and threads that never end run until the timeout, and the result says so.
fn endless(session: &Session) {
    for (language, code, end) in [
        (
            "javascript",
            "process.on('exit', () => console.log('exit')); setInterval(() => {}, 50); 'started'",
            "It was interrupted",
        ),
        (
            "javascript",
            "require('http').createServer().listen(0, '127.0.0.1'); process.on('exit', () => console.log('exit')); 'started'",
            "It was interrupted",
        ),
        (
            "python",
            "import atexit, threading\natexit.register(lambda: print('exit'))\nthreading.Thread(target=threading.Event().wait).start()\n\
             'started'",
            "It was interrupted",
        ),
        (
            "javascript",
            "console.log('exit'); setTimeout(() => { while (true); }, 1); 'started'",
            "It did not stop when it was interrupted, and was killed: what it had not written yet is lost",
        ),
    ] {
        let input = json!({ "language": language, "code": code, "timeout_ms": 1500 });
        let ran = session.call("workspace__code__run_code", input);
        let told: Value = serde_json::from_str(&ran.content).unwrap_or_else(|_| panic!("{}", ran.content));
        assert!(ran.is_error && told["exit_code"] == 124 && told["timed_out"] == true, "{told}");
        let message = told["error"]["message"].as_str().unwrap_or_default();
        let expected = format!(
            "the code ran longer than 1500 ms: its last statement had ended, but timers, servers, threads or other work that it \
             had started had not. {end}"
        );
        assert_eq!(message, expected, "{code}");
        let outputs = told["outputs"].to_string();
        assert!(outputs.contains("'started'") && outputs.contains("exit\\n"), "{code}: {told}");
    }
}

/// A context that is deleted ends as a program does, and what never ends is killed.
fn deleted(session: &Session) {
    let delete =
        |context: &str| session.ok("workspace__code__delete_code_context", json!({ "context_id": context }));
    let context = create(session, "python");
    let opened = "import atexit, subprocess\nfile = open('kept.txt', 'w')\nfile.write('abc')\natexit.register(lambda: open('left.txt', \
                  'w').write('e'))\nprint(subprocess.Popen(['sleep', '600'], start_new_session=True).pid)";
    let ran = run_in(session, &context, opened);
    let pid = ran["outputs"][0]["text"].as_str().expect("an ID").trim().to_owned();
    // Files are not flushed at the end of a call, as in a notebook.
    assert_eq!(run_in(session, &context, "open('kept.txt').read()"), result("''"));
    assert_eq!(delete(&context), json!({ "ok": true }));
    let check = format!(
        "import os\n[open('kept.txt').read(), open('left.txt').read(), os.path.exists('/proc/{pid}')]"
    );
    assert_eq!(run(session, "python", &check), result("['abc', 'e', False]"));

    let context = create(session, "javascript");
    let opened = "const stream = require('fs').createWriteStream('kept'); stream.write('abc'); \
                  setTimeout(() => stream.end('def'), 300); \
                  console.log(require('child_process').spawn('sleep', ['600'], { stdio: 'ignore' }).unref())";
    run_in(session, &context, opened);
    // A program that prints more than is kept while nobody reads does not hold up its end.
    run_in(session, &context, "setTimeout(() => console.log('x'.repeat(2_000_000)), 200); undefined");
    assert_eq!(delete(&context), json!({ "ok": true }));
    assert_eq!(run(session, "python", "open('kept').read()"), result("'abcdef'"));

    let context = create(session, "javascript");
    run_in(session, &context, "setInterval(() => {}, 1000)");
    let told = delete(&context);
    let warning = "its code, timers, servers or threads still ran after ten seconds, so it was killed: what it had not written yet is lost";
    assert_eq!(told, json!({ "ok": true, "warning": warning }));
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
        let message = told["error"]["message"].as_str().unwrap_or_default();
        let expected =
            "the code ran longer than 300 ms, and was interrupted. The variables of the context are kept";
        assert_eq!(message, expected);
        assert_eq!(run_in(session, &context, "x"), result("7"));
        let told = late(&context, stubborn);
        assert_eq!(told["variables_kept"], false, "{told}");
        let message = told["error"]["message"].as_str().unwrap_or_default();
        let expected = "The context has ended, and its variables are lost: restart it, which keeps its ID";
        assert!(message.ends_with(expected), "{told}");
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
    for tool in ["create", "list", "run_in", "restart", "delete"] {
        let plural = if tool == "list" { "s" } else { "" };
        let error = session.err(&format!("workspace__python__{tool}_code_context{plural}"), json!({}));
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

/// Where files outlive the sandbox, so does what restarts a context.
fn restart_and_keep(session: &Session) {
    let context = create_with(session, json!({ "language": "python", "env": { "KEY": "kept" } }));
    run_in(session, &context, "x = 1");
    session.restart();
    assert_eq!(list(session), [] as [Value; 0]);
    let input = json!({ "context_id": context, "code": "x" });
    let error = session.err("workspace__code__run_in_code_context", input);
    assert!(error.ends_with("Restart it, which keeps its ID, and run what it needs again"), "{error}");
    session.ok("workspace__code__restart_code_context", json!({ "context_id": context }));
    assert_eq!(
        run_in(session, &context, "import os\n['x' in globals(), os.environ['KEY']]"),
        result("[False, 'kept']")
    );
}

fn without_programs(session: &Session) {
    let error = session.err("workspace__code__run_code", json!({ "language": "python", "code": "1" }));
    let expected = "unsupported: the workspace `code` failed: it declares the capability `code`, but this provider cannot run \
                    programs: use another provider, or remove `code` from `workspace(..)`";
    assert_eq!(error, expected);
}
