//! The engine of scripts in WebAssembly, under Node: the cases of `script/tests`, whose results must be those of this
//! process, and scripts that do not want to end.

#[path = "../../../script/tests/cases/mod.rs"]
mod cases;
#[path = "../../../script/tests/checks/mod.rs"]
mod checks;
mod engine;
#[path = "../../../script/tests/hostile/mod.rs"]
mod hostile;
#[path = "../../../script/tests/native/mod.rs"]
mod native;
mod sample;

use koze_script::limits::Limit;
use koze_script::protocol::ToScript;
use native::Ran;
use serde_json::json;

/// Runs a message in both engines. Their results must be the same.
#[track_caller]
#[allow(clippy::needless_pass_by_value, reason = "as the cases call it")]
fn send(message: ToScript) -> Ran {
    let here = native::send(message.clone());
    // The engine of this process has no fuel, but a clock.
    let there = engine::run(&message, &json!({ "fuel": 100_000_000_000_u64 }));
    if limit(&here) == Some(Limit::Memory) {
        // Where memory ends depends on the size of a pointer.
        assert_eq!(limit(&there), Some(Limit::Memory), "{message:?}: {there:?}");
    } else {
        assert_eq!(there, here, "in WebAssembly, and in this process: {message:?}");
    }
    there
}

fn limit(ran: &Ran) -> Option<Limit> {
    ran.done.as_ref().err().and_then(|failure| failure.limit)
}

fn start(code: &str) -> ToScript {
    ToScript::Start(koze_script::protocol::Start { code: code.into(), ..Default::default() })
}

/// As in a deployed Worker, whose clock does not move while it computes.
#[test]
fn fuel_ends_what_a_clock_does_not() {
    let endless = [
        "'a'.repeat(1e7).indexOf('a'.repeat(5e6) + 'b')",
        "Array.prototype.reverse.call({ length: 2 ** 53 - 1 })",
        "const a = new Uint8Array(2e7); for (;;) a.fill(1)",
        "const a = new Uint8Array(2e7); for (;;) a.copyWithin(0, 5)",
        "for (;;) /^(a+)+$/.test('a'.repeat(20) + 'b')",
    ];
    let known = hostile::HOSTILE.iter().map(|(_, code, limit)| (*code, *limit));
    for (code, limit) in known.chain(endless.map(|code| (code, Some(Limit::Time)))) {
        // A call without an answer waits by the clock.
        if code.contains("http://slow") {
            continue;
        }
        let options = json!({ "fuel": 100_000_000, "frozen": true });
        let failure = engine::run(&start(code), &options).done.expect_err(code);
        // Some fill the memory first, of which a Worker has less.
        if limit.is_some() && failure.limit != Some(Limit::Memory) {
            assert_eq!(failure.limit, limit, "{code}: {failure:?}");
        }
        assert!(!failure.message.is_empty(), "{code}");
        assert_eq!(engine::run(&start("1 + 1"), &options).done, Ok(json!(2)), "{code}");
    }
    let failure = engine::run(&start("for (;;) ;"), &json!({ "fuel": 1000 })).done.unwrap_err();
    assert!(failure.message.contains("limit of CPU time"), "{failure:?}");
    let spent = "for (let i = 0; i < 1e5; i++) ;";
    assert!(engine::run(&start(spent), &json!({ "fuel": 100_000_000 })).done.is_ok());
}

#[test]
fn calls_hold_little_memory_of_the_host() {
    let failure =
        engine::run(&start("for (;;) fetch('http://never', { body: 'x'.repeat(1e6) })"), &json!({}));
    let failure = failure.done.unwrap_err();
    assert_eq!(failure.limit, Some(Limit::Memory));
    assert!(failure.message.contains("hold more than 16 MiB"), "{failure:?}");
    // Answered ones hold nothing.
    let answered = "for (let i = 0; i < 30; i++) await state.set('a', 'x'.repeat(1e6)); 'done'";
    assert_eq!(engine::run(&start(answered), &json!({})).done, Ok(json!("done")));
}

#[test]
fn a_script_has_64_mib_in_a_worker() {
    let holds = |mib: u32| {
        let code = format!(
            "const a = []; for (let i = 0; i < {mib}; i++) a.push(new Uint8Array(1 << 20)); a.length"
        );
        engine::run(&json!({ "start": { "code": code } }), &json!({})).done
    };
    assert_eq!(holds(50), Ok(json!(50)));
    let failure = holds(70).unwrap_err();
    assert_eq!(failure.limit, Some(Limit::Memory));
    assert!(failure.message.contains("memory limit of 64 MiB"), "{failure:?}");
    // Also where the host allows more: the module has a maximum memory of its own.
    let code = "const a = []; for (;;) a.push(new Uint8Array(1 << 20))";
    let message = json!({ "start": { "code": code, "limits": { "memory": 1_u64 << 30 } } });
    assert_eq!(engine::run(&message, &json!({})).done.unwrap_err().limit, Some(Limit::Memory));
}

#[test]
fn recursion_of_the_engine_ends_before_its_host() {
    for code in [
        "JSON.parse('['.repeat(100000))",
        "let a = []; for (let i = 0; i < 1e5; i++) a = [a]; JSON.stringify(a)",
        &"[".repeat(200_000),
        "new RegExp('(?:'.repeat(100000))",
        "let f = () => {}; for (let i = 0; i < 1e5; i++) f = f.bind(); f()",
        "let p = {}; for (let i = 0; i < 1e5; i++) p = new Proxy(p, {}); p.x",
    ] {
        let failure = engine::run(&start(code), &json!({})).done.unwrap_err();
        assert!(!failure.message.is_empty(), "{code:.60}");
    }
}

#[test]
fn the_time_of_a_script_includes_what_it_waits_for() {
    let message = |code: &str| json!({ "start": { "code": code, "limits": { "time_ms": 100 } } });
    for code in ["await fetch('http://never')", "await new Promise((done) => setTimeout(done, 9000))"] {
        // With a clock that stands still for the script, its host ends it.
        let failure = engine::run(&message(code), &json!({ "frozen": true })).done.unwrap_err();
        assert_eq!(failure.limit, Some(Limit::Time), "{code}: {failure:?}");
        assert!(failure.message.contains("time limit of 100 ms"), "{failure:?}");
    }
}
