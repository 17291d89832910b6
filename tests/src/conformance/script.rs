//! The cases of the tools `script`.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::origin;
use super::session::Session;
use super::{Capability, Case, ToolResult, case};

pub(super) const CASES: &[Case] = &[
    case("script_results", results),
    case("script_built_ins", built_ins),
    case("script_built_ins_with_any_arguments", any_arguments),
    case("script_failures", failures),
    case("script_timeout", timeout),
    case("script_hostile_results", hostile_results),
    case("script_without_eval", without_eval),
    case("script_state", state),
    case("script_state_of_other_sessions", other_sessions),
    case("script_libraries", libraries),
    case("script_library_versions", library_versions),
    case("script_tools", tools),
    case("script_tool_versions", tool_versions),
    case("script_tool_arguments", arguments),
    case("script_tool_names", names),
    case("script_tools_disabled", disabled),
    case("script_broken_updates", broken_updates),
    case("script_input", input),
    case("script_sql", sql).needs(&[Capability::Database]),
    case("script_sql_values", sql_values).needs(&[Capability::Database]),
    case("script_sql_bounds", sql_bounds).needs(&[Capability::Database]),
    case("script_sql_time", sql_time).needs(&[Capability::StatementTime]),
    case("script_sql_refused", sql_refused).needs(&[Capability::Database]),
    case("script_sql_schema", sql_schema).needs(&[Capability::Database]),
    case("script_without_a_database", without_a_database).lacks(&[Capability::Database]),
    case("script_fetch", fetch).needs(&[Capability::Network]),
    case("script_fetch_refused", fetch_refused).needs(&[Capability::Network]),
    case("script_without_a_network", without_a_network).lacks(&[Capability::Network]),
    case("script_browser", browser).needs(&[Capability::Browser, Capability::Network]),
    case("script_browser_refused", browser_refused).needs(&[Capability::Browser, Capability::Network]),
    case("script_without_a_browser", without_a_browser).lacks(&[Capability::Browser]),
    case("script_restart", restart).needs(&[Capability::Restart]),
    case("script_at_once", at_once).needs(&[Capability::AtOnce]),
];

fn run(session: &Session, code: &str) -> Value {
    session.ok("run_sandbox_code", json!({ "code": code }))
}

#[track_caller]
fn result(session: &Session, code: &str) -> Value {
    run(session, code)["result"].clone()
}

/// Calls a tool that runs code, which must fail. Returns the JSON of its reply.
#[track_caller]
fn failed(session: &Session, tool: &str, input: Value) -> Value {
    let ToolResult { content, is_error } = session.call(tool, input);
    assert!(is_error, "{content}");
    serde_json::from_str(&content).unwrap_or_else(|_| panic!("{content}"))
}

/// Calls a tool that must fail with this code. Returns the message.
#[track_caller]
fn refused(session: &Session, tool: &str, input: Value, code: &str) -> String {
    let error = session.err(tool, input);
    assert!(error.starts_with(&format!("{code}: ")), "{tool} is not {code}: {error}");
    error
}

fn results(session: &Session) {
    for (code, expected) in [
        ("1+1", json!(2)),
        ("return [1, { a: 'ü' }]", json!([1, { "a": "ü" }])),
        ("resolve(1); resolve(2)", json!(1)),
        ("await new Promise(resolve => setTimeout(resolve, 20)); 'later'", json!("later")),
        ("parseCSV('a,b\\n1,\"2,3\"', { header: true })", json!([{ "a": "1", "b": "2,3" }])),
        ("atob(btoa('koze'))", json!("koze")),
        ("typeof args", json!("undefined")),
        ("undefined", Value::Null),
        ("async () => 42", json!(42)),
        ("[1, 2].map(async (x) => x * 2)", json!([2, 4])),
        ("new TypeError('no')", json!({ "name": "TypeError", "message": "no" })),
        ("```js\nreturn 1\n```", json!(1)),
    ] {
        assert_eq!(result(session, code), expected, "{code}");
    }
    let code = "const u = new URL('?a=1', 'https://ü.example/x'); u.searchParams.append('b', 'c d');\n\
                [u.href, new TextDecoder().decode(new TextEncoder().encode('ü')), crypto.randomUUID().length]";
    assert_eq!(result(session, code), json!(["https://xn--tda.example/x?a=1&b=c+d", "ü", 36]));
    let code = "try { (1).toLocaleString() } catch (error) { return error.message }";
    assert!(result(session, code).as_str().is_some_and(|message| message.contains("is not available")));
    let unhandled = run(session, "(async () => {\n  throw new Error('lost')\n})(); 1");
    let line = "[ERROR] unhandled rejection: Error: lost (line 2, column 13)";
    assert_eq!(unhandled, json!({ "result": 1, "logs": [line] }));
    let done = run(session, "console.log('a', { b: 1 }); console.warn('c'); console.error('d')");
    assert_eq!(done, json!({ "result": null, "logs": ["a {\"b\":1}", "[WARN] c", "[ERROR] d"] }));
}

/// What the engine's built-ins take from elsewhere, such as the C library, which is not the same on every host.
fn built_ins(session: &Session) {
    let math = "const digits = (number) => number.toPrecision(12);
        const unary = ['acos', 'asin', 'atan', 'atanh', 'cbrt', 'cos', 'cosh', 'exp', 'expm1', 'log', 'log10', 'log1p',
            'log2', 'sin', 'sinh', 'tan', 'tanh', 'asinh'].map((name) => digits(Math[name](0.7)));
        return [...unary, digits(Math.acosh(7)), digits(Math.atan2(1, -2)), digits(Math.hypot(3, 4, 5)),
            digits(2 ** 0.5), digits(Math.pow(-8, 3)), digits(1e300 ** 0.1), Math.sin(1e22).toPrecision(6),
            [1 ** Infinity, (-1) ** -Infinity, 1 ** NaN].every(Number.isNaN), NaN ** 0, (-0) ** -1 === -Infinity,
            -5 % 3, 5.5 % -2]";
    let expected = json!([
        "0.795398830184",
        "0.775397496611",
        "0.610725964389",
        "0.867300527694",
        "0.887904001743",
        "0.764842187284",
        "1.25516900563",
        "2.01375270747",
        "1.01375270747",
        "-0.356674943939",
        "-0.154901959986",
        "0.530628251062",
        "-0.514573172830",
        "0.644217687238",
        "0.758583701840",
        "0.842288380463",
        "0.604367777117",
        "0.652666566082",
        "2.63391579385",
        "2.67794504459",
        "7.07106781187",
        "1.41421356237",
        "-512.000000000",
        "1.00000000000e+30",
        "-0.852201",
        true,
        1,
        true,
        -2,
        1.5,
    ]);
    assert_eq!(result(session, math), expected);
    let json =
        "return JSON.parse('[0, -0, 1e5, 1E-7, 123456789012345680000, 0.1, 5e-324, 1.7976931348623157e308, \
        2.2250738585072011e-308, 9007199254740993, -12.5e+2]').map((number) => String(number))
        .concat(1 / JSON.parse('-0'), JSON.parse('1e999'), (255).toString(16), 1e21 + '')";
    let expected = json!([
        "0",
        "0",
        "100000",
        "1e-7",
        "123456789012345680000",
        "0.1",
        "5e-324",
        "1.7976931348623157e+308",
        "2.225073858507201e-308",
        "9007199254740992",
        "-1250",
        null,
        null,
        "ff",
        "1e+21",
    ]);
    assert_eq!(result(session, json), expected);
    let text = "const date = new Date(Date.UTC(2026, 0, 2, 3, 4, 5, 6)), old = new Date(-62200000000000);
        return [date.toISOString(), date.toUTCString(), date.toString(), date.toLocaleDateString(), date.toLocaleTimeString(),
            old.toISOString(), old.toUTCString(), new Date(253402300800000).toISOString(), new Date(NaN) + '',
            Date.parse('2026-01-02T03:04:05.006Z'), escape('ä€ b'), JSON.stringify('\\u0001\\ud800'), RegExp.escape?.('a-b')]";
    let expected = json!([
        "2026-01-02T03:04:05.006Z",
        "Fri, 02 Jan 2026 03:04:05 GMT",
        "Fri Jan 02 2026 03:04:05 GMT+0000",
        "01/02/2026",
        "03:04:05 AM",
        "-000002-12-17T14:13:20.000Z",
        "Thu, 17 Dec -0002 14:13:20 GMT",
        "+010000-01-01T00:00:00.000Z",
        "Invalid Date",
        1_767_323_045_006_u64,
        "%E4%u20AC%20b",
        "\"\\u0001\\ud800\"",
        "\\x61\\x2db",
    ]);
    assert_eq!(result(session, text), expected);
    for (code, error) in [
        ("null.a", "TypeError: cannot read property 'a' of null"),
        ("'a'.repeat(-1)", "RangeError: invalid repeat count"),
        ("(1).toString(99)", "RangeError: toString() radix argument must be between 2 and 36"),
        ("JSON.parse('[1,]')", "SyntaxError: unexpected token: ']'"),
        ("new RegExp('(')", "SyntaxError: expecting ')'"),
    ] {
        let failure = failed(session, "run_sandbox_code", json!({ "code": code }));
        assert_eq!(failure["error"], error, "{failure}");
    }
}

/// A built-in may throw, but does not end the engine: its process, for example, is killed for a forbidden system call.
fn any_arguments(session: &Session) {
    let code = "const values = [undefined, 1, 'a', [3, 1], { length: 2 }, new Date(0), /a/g, new Uint8Array(4), () => 1];
        const own = ['console', 'resolve', 'globalThis', 'setTimeout', 'clearTimeout', 'libraries', 'tools', 'state', 'db',
            'fetch', 'browser', 'secrets'];
        const seen = new Set();
        let calls = 0;
        const attempt = (call) => { calls++; try { call(); } catch {} };
        const visit = (value) => {
            if (value === null || !['object', 'function'].includes(typeof value) || seen.has(value)) return;
            seen.add(value);
            for (const { value: inner } of Object.values(Object.getOwnPropertyDescriptors(value))) {
                if (typeof inner === 'function') {
                    for (const first of values) {
                        for (const on of values) attempt(() => inner.call(on, first, 2));
                        attempt(() => new inner(first));
                    }
                }
                visit(inner);
            }
        };
        for (const name of Reflect.ownKeys(globalThis)) if (!own.includes(name)) visit({ own: globalThis[name] });
        return calls";
    let calls = result(session, code).as_u64();
    assert!(calls.is_some_and(|calls| calls > 20_000), "{calls:?}");
}

fn failures(session: &Session) {
    let failure = failed(session, "run_sandbox_code", json!({ "code": "console.log(1)\nfoo()" }));
    assert_eq!(
        failure,
        json!({
            "error": "ReferenceError: foo is not defined", "name": "ReferenceError", "message": "foo is not defined",
            "stack": "at <eval> (line 2, column 1)", "line": 2, "column": 1, "logs": ["1"],
        })
    );
    let code = "function inner() {\n  throw new RangeError('far')\n}\n[1].map(() => inner())";
    let failure = failed(session, "run_sandbox_code", json!({ "code": code }));
    let [name, message] = ["name", "message"].map(|key| failure[key].as_str());
    assert_eq!((name, message), (Some("RangeError"), Some("far")), "{failure}");
    let stack = failure["stack"].as_str().unwrap_or_default();
    assert!(stack.starts_with("at inner (line 2, column 13)\nat <anonymous> (line 4, column "), "{failure}");
    let failure = failed(session, "run_sandbox_code", json!({ "code": "return (" }));
    assert!(failure["error"].as_str().is_some_and(|error| error.starts_with("SyntaxError: ")), "{failure}");
    let failure = failed(session, "run_sandbox_code", json!({ "code": "await new Promise(() => {})" }));
    assert!(failure["error"].as_str().is_some_and(|error| error.contains("nothing can settle")), "{failure}");
    let code = "const a = []; for (;;) a.push(new Uint8Array(1000000))";
    let failure = failed(session, "run_sandbox_code", json!({ "code": code }));
    assert_eq!(failure["limit"], "memory", "{failure}");
}

/// A timeout ends a script that waits and one that computes. What it has logged and stored is kept.
fn timeout(session: &Session) {
    for code in ["await new Promise((done) => setTimeout(done, 25000))", "for (;;) ;"] {
        let code = format!("await state.set('before', 1); console.log('a'); {code}");
        let start = Instant::now();
        let failure = failed(session, "run_sandbox_code", json!({ "code": code, "timeout_ms": 400 }));
        assert!(start.elapsed() < Duration::from_secs(15), "{code}: {:?}", start.elapsed());
        assert_eq!((&failure["limit"], &failure["logs"]), (&json!("time"), &json!(["a"])), "{failure}");
        let error = failure["error"].as_str().unwrap_or_default();
        let advice = "; `timeout_ms` can be up to 30000. What it stored with `state` and `db` is kept";
        assert!(error.ends_with(advice), "{failure}");
        assert_eq!(session.ok("delete_state", json!({ "key": "before" })), json!({ "deleted": true }));
    }
    let input = json!({ "code": "const x = 1; return x", "timeout_ms": 30_000 });
    assert_eq!(session.ok("run_sandbox_code", input)["result"], 1);
    assert_eq!(result(session, "return typeof x"), "undefined");
    for timeout in [0, 30_001] {
        let input = json!({ "code": "1", "timeout_ms": timeout });
        refused(session, "run_sandbox_code", input, "invalid_input");
    }
}

/// What a script does to itself does not reach the host.
fn hostile_results(session: &Session) {
    for code in [
        "const a = {}; a.a = a; resolve(a)",
        "const a = []; a.push(a); return a",
        "return { get a() { throw new Error('getter') } }",
        "return new Proxy({}, { ownKeys() { throw new Error('trap') } })",
        "return { toJSON() { throw new Error('toJSON') } }",
        "return 10n",
        "throw null",
        "throw { get message() { throw 1 } }",
        "let a = 1; for (let i = 0; i < 5000; i++) a = [a]; return a",
    ] {
        let failure = failed(session, "run_sandbox_code", json!({ "code": code }));
        assert!(failure["error"].as_str().is_some_and(|error| !error.is_empty()), "{code}: {failure}");
    }
    let code = "Object.prototype.toJSON = undefined; Array.prototype.toString = null; JSON.stringify = JSON.parse = null; \
                Array.prototype.push = () => { throw 1 }; Object.prototype.get = () => 1; Object.prototype.value = 2; \
                await state.set('p', [1, { a: 'b' }]); console.log([1]); return state.get('p')";
    assert_eq!(run(session, code)["result"], json!([1, { "a": "b" }]));
    assert_eq!(result(session, "return [typeof ({}).get, [1].toString()]"), json!(["undefined", "1"]));
}

fn without_eval(session: &Session) {
    for code in [
        "eval('1')",
        "Function('1')()",
        "(() => {}).constructor('1')()",
        "(async () => {}).constructor('1')()",
        "(function* () {}).constructor('1')()",
        "setTimeout('1')",
        "await import('fs')",
        "require('fs')",
        "process.exit()",
        "WebAssembly.compile",
    ] {
        let failure = failed(session, "run_sandbox_code", json!({ "code": code }));
        assert!(failure["error"].is_string(), "{code}: {failure}");
    }
}

fn state(session: &Session) {
    assert_eq!(session.ok("get_state", json!({ "key": "a" })), json!({ "exists": false, "value": null }));
    session.ok("set_state", json!({ "key": "a", "value": { "n": [1, "ü", null] } }));
    assert_eq!(result(session, "return state.get('a')"), json!({ "n": [1, "ü", null] }));
    assert_eq!(result(session, "return state.get('none')"), Value::Null);
    result(session, "await state.set('a%b', 1); await state.set('a_b', null)");
    assert_eq!(session.ok("get_state", json!({ "key": "a_b" })), json!({ "exists": true, "value": null }));
    assert_eq!(session.ok("list_state_keys", json!({})), json!({ "keys": ["a", "a%b", "a_b"] }));
    // The prefix is no pattern.
    assert_eq!(session.ok("list_state_keys", json!({ "prefix": "a%" })), json!({ "keys": ["a%b"] }));
    assert_eq!(result(session, "return state.keys('a_')"), json!(["a_b"]));
    assert_eq!(
        result(session, "return [await state.delete('a'), await state.delete('a')]"),
        json!([true, false])
    );
    assert_eq!(session.ok("delete_state", json!({ "key": "a_b" })), json!({ "deleted": true }));
    for key in ["", "a\u{0}b", &"x".repeat(257)] {
        refused(session, "get_state", json!({ "key": key }), "invalid_input");
        refused(session, "set_state", json!({ "key": key, "value": 1 }), "invalid_input");
    }
    let failure = failed(session, "run_sandbox_code", json!({ "code": "await state.set('', 1)" }));
    assert_eq!(failure["line"], 1, "{failure}");
    let long = "await state.set('long', 'x'.repeat(1 << 20))";
    let failure = failed(session, "run_sandbox_code", json!({ "code": long }));
    assert!(failure["error"].as_str().is_some_and(|error| error.contains("at most 1048576")), "{failure}");
}

fn other_sessions(session: &Session) {
    session.ok("set_state", json!({ "key": "secret", "value": 1 }));
    session.ok("create_library", json!({ "name": "mine", "code": "exports.a = 1" }));
    let other = session.other("another-agent");
    assert_eq!(other.ok("list_state_keys", json!({})), json!({ "keys": [] }));
    assert_eq!(other.ok("list_libraries", json!({})), json!({ "libraries": [] }));
    failed(&other, "run_sandbox_code", json!({ "code": "require('mine')" }));
}

fn libraries(session: &Session) {
    let created = session.ok(
        "create_library",
        json!({
            "name": "text", "description": "Texts", "code": "exports.twice = (text) => text + text",
        }),
    );
    assert_eq!(created, json!({ "name": "text", "version": 1 }));
    session.ok("create_library", json!({
        "name": "more", "code": "const { twice } = require('text'); module.exports = (text) => twice(twice(text))",
    }));
    assert_eq!(result(session, "require('more')('ab')"), json!("abababab"));
    let error = refused(session, "create_library", json!({ "name": "text", "code": "1" }), "already_exists");
    assert_eq!(error, "already_exists: Library 'text' already exists. Use update_library to modify it.");
    let listed = session.ok("list_libraries", json!({}));
    let listed: Vec<_> = listed["libraries"].as_array().expect("a list").iter().collect();
    assert_eq!(listed.len(), 2, "{listed:?}");
    assert_eq!((&listed[1]["name"], &listed[1]["description"]), (&json!("text"), &json!("Texts")));
    let failure = failed(session, "run_sandbox_code", json!({ "code": "require('none')" }));
    assert_eq!(failure["error"], "Error: Library not found: none");
    session.ok("create_library", json!({ "name": "a", "code": "require('b')" }));
    session.ok("create_library", json!({ "name": "b", "code": "require('a')" }));
    let failure = failed(session, "run_sandbox_code", json!({ "code": "require('a')" }));
    assert_eq!(failure["error"], "Error: Circular dependency: a -> b -> a");
    session.ok("create_library", json!({ "name": "broken", "code": "\nnull.x" }));
    let failure = failed(session, "run_sandbox_code", json!({ "code": "require('broken')" }));
    assert_eq!((&failure["library"], &failure["line"]), (&json!("broken"), &json!(2)), "{failure}");
    session.ok("delete_library", json!({ "name": "text" }));
    refused(session, "read_library", json!({ "name": "text" }), "not_found");
    refused(session, "delete_library", json!({ "name": "text" }), "not_found");
}

fn library_versions(session: &Session) {
    session.ok("create_library", json!({ "name": "v", "code": "exports.n = 1" }));
    let updated = session.ok("update_library", json!({ "name": "v", "code": "exports.n = 2" }));
    assert_eq!(updated, json!({ "name": "v", "version": 2 }));
    session.ok("update_library", json!({ "name": "v", "description": "D" }));
    assert_eq!(result(session, "require('v').n"), json!(2));
    let read = session.ok("read_library", json!({ "name": "v" }));
    assert_eq!(
        (&read["version"], &read["code"], &read["description"]),
        (&json!(3), &json!("exports.n = 2"), &json!("D"))
    );
    let versions: Vec<_> =
        read["versions"].as_array().expect("a list").iter().map(|one| one["version"].clone()).collect();
    assert_eq!(versions, [1, 2, 3]);
    assert_eq!(session.ok("read_library", json!({ "name": "v", "version": 1 }))["code"], "exports.n = 1");
    refused(session, "read_library", json!({ "name": "v", "version": 4 }), "not_found");
    refused(session, "update_library", json!({ "name": "none", "code": "1" }), "not_found");
    // A deleted library starts again.
    session.ok("delete_library", json!({ "name": "v" }));
    session.ok("create_library", json!({ "name": "v", "code": "1" }));
    let read = session.ok("read_library", json!({ "name": "v" }));
    assert_eq!(read["versions"].as_array().map(Vec::len), Some(1), "{read}");
}

fn add(session: &Session) {
    let created = session.ok(
        "create_tool",
        json!({
            "name": "add", "description": "Add two numbers.",
            "parameter_schema": {
                "type": "object", "properties": { "a": { "type": "number" }, "b": { "type": "number" } },
                "required": ["a", "b"], "additionalProperties": false,
            },
            "code": "console.log('adding'); return args.a + args.b",
        }),
    );
    assert_eq!(created, json!({ "name": "add", "version": 1 }));
}

fn tools(session: &Session) {
    refused(session, "add", json!({ "a": 1, "b": 2 }), "unknown_tool");
    add(session);
    assert_eq!(session.ok("add", json!({ "a": 1, "b": 2 })), json!({ "result": 3, "logs": ["adding"] }));
    let again =
        json!({ "name": "add", "description": "", "parameter_schema": { "type": "object" }, "code": "1" });
    let error = refused(session, "create_tool", again, "already_exists");
    assert_eq!(error, "already_exists: Tool 'add' already exists. Use update_tool to modify it.");
    let listed = session.ok("list_tools", json!({}));
    let tool = &listed["tools"][0];
    assert_eq!((&tool["name"], &tool["enabled"], &tool["version"]), (&json!("add"), &json!(true), &json!(1)));
    assert_eq!(tool["parameter_schema"]["required"], json!(["a", "b"]));
    session.ok("delete_tool", json!({ "name": "add" }));
    refused(session, "add", json!({ "a": 1, "b": 2 }), "unknown_tool");
}

fn tool_versions(session: &Session) {
    add(session);
    let updated = session.ok("update_tool", json!({ "name": "add", "code": "return args.a - args.b" }));
    assert_eq!(updated, json!({ "name": "add", "version": 2 }));
    assert_eq!(session.ok("add", json!({ "a": 1, "b": 2 }))["result"], json!(-1));
    let read = session.ok("read_tool", json!({ "name": "add", "version": 1 }));
    assert!(read["code"].as_str().is_some_and(|code| code.contains("args.a + args.b")), "{read}");
    assert_eq!(read["versions"].as_array().map(Vec::len), Some(2), "{read}");
    refused(session, "update_tool", json!({ "name": "none" }), "not_found");
}

fn arguments(session: &Session) {
    add(session);
    for (input, part) in [
        (json!({ "a": 1 }), "\"b\" is a required property"),
        (json!({ "a": 1, "b": "2" }), "/b: \"2\" is not of type \"number\""),
        (json!({ "a": 1, "b": 2, "c": 3 }), "Additional properties"),
    ] {
        let error = refused(session, "add", input, "invalid_input");
        assert!(error.contains(part), "{error}");
    }
    for input in [json!(null), json!([]), json!("a")] {
        refused(session, "add", input, "invalid_input");
    }
    // The arguments are data.
    session.ok("create_tool", json!({
        "name": "echo", "description": "", "parameter_schema": { "type": "object" }, "code": "return args",
    }));
    let input = json!({ "a": "'); while (true) {} //", "constructor": 1, "toString": [null, 1e300] });
    assert_eq!(session.ok("echo", input.clone())["result"], input);
    for schema in [
        json!({ "type": "string" }),
        json!({ "type": "object", "properties": { "a": { "type": "no" } } }),
        json!({ "type": "object", "$ref": "http://127.0.0.1/schema" }),
        json!({ "type": "object", "$ref": "file:///etc/passwd" }),
    ] {
        let input = json!({ "name": "bad", "description": "", "parameter_schema": schema, "code": "1" });
        refused(session, "create_tool", input, "invalid_input");
        refused(
            session,
            "update_tool",
            json!({ "name": "echo", "parameter_schema": schema }),
            "invalid_input",
        );
    }
}

fn names(session: &Session) {
    let tool = |name: &str| json!({ "name": name, "description": "", "parameter_schema": { "type": "object" }, "code": "1" });
    for name in ["", "A", "1a", "_a", "a-b", "a.b", "ä", "a b", "a/b", &"a".repeat(65)] {
        refused(session, "create_tool", tool(name), "invalid_input");
        refused(session, "create_library", json!({ "name": name, "code": "1" }), "invalid_input");
    }
    for name in [
        "run_sandbox_code",
        "create_tool",
        "db_sql",
        "fetch_url",
        "browser_click",
        "shell",
        "bash",
        "read_file",
        "workspace__box__run",
    ] {
        let error = refused(session, "create_tool", tool(name), "invalid_input");
        assert!(error.contains("the name of a built-in tool"), "{error}");
    }
    session.ok("create_tool", tool("a1_b"));
    assert_eq!(session.ok("a1_b", json!({}))["result"], 1);
}

fn disabled(session: &Session) {
    add(session);
    session.ok("disable_tool", json!({ "name": "add" }));
    let error = refused(session, "add", json!({ "a": 1, "b": 2 }), "unavailable");
    assert_eq!(error, "unavailable: Tool 'add' is disabled. Use enable_tool to enable it.");
    assert_eq!(session.ok("list_tools", json!({})), json!({ "tools": [] }));
    let all = session.ok("list_tools", json!({ "include_disabled": true }));
    assert_eq!(
        (&all["tools"][0]["enabled"], &all["tools"][0]["version"]),
        (&json!(false), &json!(1)),
        "{all}"
    );
    session.ok("enable_tool", json!({ "name": "add" }));
    assert_eq!(session.ok("add", json!({ "a": 1, "b": 2 }))["result"], 3);
    refused(session, "enable_tool", json!({ "name": "none" }), "not_found");
}

fn broken_updates(session: &Session) {
    add(session);
    session.ok("create_library", json!({ "name": "lib", "code": "exports.a = 1" }));
    let error =
        refused(session, "update_tool", json!({ "name": "add", "code": "return (" }), "invalid_input");
    assert!(error.contains("`code` does not compile: SyntaxError"), "{error}");
    let error = refused(
        session,
        "update_library",
        json!({ "name": "lib", "code": "exports.a =\n= 2" }),
        "invalid_input",
    );
    assert!(error.contains("(line 2, column "), "{error}");
    refused(session, "create_library", json!({ "name": "other", "code": "}" }), "invalid_input");
    assert_eq!(session.ok("add", json!({ "a": 1, "b": 2 }))["result"], 3);
    assert_eq!(result(session, "require('lib').a"), json!(1));
    assert_eq!(session.ok("read_tool", json!({ "name": "add" }))["version"], 1);
    refused(session, "read_library", json!({ "name": "other" }), "not_found");
}

fn input(session: &Session) {
    for (tool, input) in [
        ("run_sandbox_code", json!({})),
        ("run_sandbox_code", json!({ "code": 1 })),
        ("run_sandbox_code", json!({ "code": "1", "more": 1 })),
        ("set_state", json!({ "key": "a" })),
        ("list_tools", json!({ "include_disabled": "yes" })),
    ] {
        refused(session, tool, input, "invalid_input");
    }
    let long = format!("'{}'", "x".repeat(300_000));
    let failure = failed(session, "run_sandbox_code", json!({ "code": long }));
    assert!(
        failure["error"].as_str().is_some_and(|error| error.contains("move parts of it to libraries")),
        "{failure}"
    );
    refused(session, "no_such_tool", json!({}), "unknown_tool");
    refused(session, "No Such Tool", json!({}), "unknown_tool");
}

fn restart(session: &Session) {
    add(session);
    session.ok("set_state", json!({ "key": "a", "value": 1 }));
    session.ok("create_library", json!({ "name": "lib", "code": "exports.a = 1" }));
    session.restart();
    assert_eq!(result(session, "return [await state.get('a'), require('lib').a]"), json!([1, 1]));
    assert_eq!(session.ok("add", json!({ "a": 1, "b": 2 }))["result"], 3);
}

fn at_once(session: &Session) {
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..20)
            .map(|number| {
                let code = format!("await state.set('k{number}', {number}); return state.get('k{number}')");
                scope.spawn(move || result(session, &code))
            })
            .collect();
        for (number, run) in runs.into_iter().enumerate() {
            assert_eq!(run.join().expect("it ran"), json!(number));
        }
    });
    let keys = session.ok("list_state_keys", json!({ "prefix": "k" }));
    assert_eq!(keys["keys"].as_array().map(Vec::len), Some(20));
}

fn query(session: &Session, sql: &str, params: &Value) -> Value {
    session.ok("db_sql", json!({ "sql": sql, "params": params }))
}

fn sql(session: &Session) {
    let made =
        query(session, "create table t (id integer primary key, name text not null, n real)", &json!([]));
    assert_eq!(made["changes"], 0);
    let code = "return db.sql('insert into t (name, n) values (?, ?), (?2, ?1)', ['ü', 1.5])";
    assert_eq!(result(session, code), json!({ "changes": 2, "last_insert_rowid": 2 }));
    let found = query(session, "select id, name, n as number from t where id = ?", &json!([1]));
    assert_eq!(
        found,
        json!({ "columns": ["id", "name", "number"], "row_count": 1, "rows": [[1, "ü", 1.5]], "truncated": false })
    );
    let changed = query(session, "update t set n = n + 1 where id = 1 returning n", &json!([]));
    assert_eq!(changed["rows"], json!([[2.5]]));
    assert_eq!(query(session, "delete from t where id > 5", &json!([]))["changes"], 0);
    let none = query(session, "select * from t where id = 9", &json!([]));
    assert_eq!((&none["columns"], &none["rows"]), (&json!(["id", "name", "n"]), &json!([])));
    // Another agent has another database.
    refused(&session.other("another-agent"), "db_sql", json!({ "sql": "select * from t" }), "invalid_input");
    let error = refused(session, "db_sql", json!({ "sql": "select 1 fro t" }), "invalid_input");
    assert_eq!(error, "invalid_input: near \"t\": syntax error (at byte 13 of the statement)");
    // An error is one of the script, which can catch it.
    let code = "try { await db.sql('select * from none') } catch (error) { return error.message }";
    assert_eq!(result(session, code), json!("no such table: none"));
}

fn sql_values(session: &Session) {
    let of = |value: Value| query(session, "select ?", &json!([value]))["rows"][0][0].clone();
    for value in [
        json!(null),
        json!(0),
        json!(-1),
        json!(9_007_199_254_740_991_i64),
        json!(1.5),
        json!(1e300),
        json!(""),
        json!("a\u{0}ü"),
        json!({ "base64": "AP8=" }),
        json!({ "base64": "" }),
    ] {
        assert_eq!(of(value.clone()), value);
    }
    assert_eq!((of(json!(true)), of(json!(false))), (json!(1), json!(0)));
    assert_eq!(query(session, "select 9e999", &json!([]))["rows"], json!([[null]]), "JSON has no infinity");
    // A number of JavaScript would round these.
    let large =
        "return (await db.sql('select cast(9007199254740993 as text), 9007199254740991, 1e300')).rows";
    assert_eq!(result(session, large), json!([["9007199254740993", 9_007_199_254_740_991_i64, 1e300]]));
    for number in ["9007199254740993", "-9223372036854775808"] {
        let code = format!("await db.sql('select 1 as a, {number} as big')");
        let failure = failed(session, "run_sandbox_code", json!({ "code": code }));
        let error = failure["error"].as_str().unwrap_or_default();
        assert!(error.contains("column `big`") && error.contains("CAST(big AS TEXT)"), "{failure}");
    }
    query(session, "create table large (id integer primary key)", &json!([]));
    let code = "return db.sql('insert into large values (9007199254740993)')";
    assert_eq!(result(session, code)["last_insert_rowid"], "9007199254740993");
    for params in [
        json!([[1]]),
        json!([{}]),
        json!([{ "base64": "?" }]),
        json!([{ "base64": "", "more": 1 }]),
        json!([]),
        json!([1, 2]),
    ] {
        refused(session, "db_sql", json!({ "sql": "select ?", "params": params }), "invalid_input");
    }
}

fn sql_bounds(session: &Session) {
    let many = "with recursive n(i) as (select 1 union all select i + 1 from n where i < ?) select i from n";
    let found = query(session, many, &json!([1000]));
    assert_eq!((&found["row_count"], &found["truncated"]), (&json!(1000), &json!(false)));
    let found = query(session, many, &json!([1001]));
    assert_eq!(
        (&found["row_count"], &found["truncated"], &found["rows"][999]),
        (&json!(1000), &json!(true), &json!([1000]))
    );
    // Few rows that are long.
    let long = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 100) select printf('%.*c', 100000, 'x') from n";
    let found = query(session, long, &json!([]));
    assert_eq!(found["truncated"], true);
    for (sql, code) in [
        (format!("select '{}'", "x".repeat(100_000)), "too_large"),
        ("select hex(zeroblob(1500000))".to_owned(), "invalid_input"),
        (
            format!(
                "create table wide ({})",
                (0..101).map(|n| format!("c{n}")).collect::<Vec<_>>().join(", ")
            ),
            "invalid_input",
        ),
        (format!("select {}1", "1+".repeat(200)), "invalid_input"),
        (format!("select 'a' like '{}'", "%a".repeat(30)), "invalid_input"),
    ] {
        refused(session, "db_sql", json!({ "sql": sql }), code);
    }
    let params: Vec<Value> = (0..101).map(Value::from).collect();
    let sql = format!("select {}", vec!["?"; 101].join(", "));
    refused(session, "db_sql", json!({ "sql": sql, "params": params }), "too_large");
}

fn sql_time(session: &Session) {
    let endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n";
    let before = std::time::Instant::now();
    let error = refused(session, "db_sql", json!({ "sql": endless }), "timeout");
    assert!(error.contains("5 s") && before.elapsed().as_secs() < 15, "{error}");
}

/// What an agent's statements may not do, and a part of the reason.
const REFUSED: &[(&str, &str)] = &[
    ("", "there is no statement"),
    ("-- nothing", "there is no statement"),
    ("select 1; select 2", "one call runs one statement"),
    ("create table a (b); insert into a values (1)", "one call runs one statement"),
    ("attach '/tmp/other.db' as other", "ATTACH"),
    ("attach ':memory:' as other", "ATTACH"),
    ("ATT/**/ACH 'x' as y", "syntax error"),
    ("detach main", "ATTACH, DETACH"),
    ("vacuum", "VACUUM"),
    ("vacuum into '/tmp/copy.db'", "VACUUM"),
    ("begin", "transactions"),
    ("commit", "transactions"),
    ("rollback", "transactions"),
    ("savepoint a", "transactions"),
    ("select load_extension('/tmp/x.so')", "load_extension"),
    ("select LOAD_EXTENSION(?)", "load_extension"),
    ("select fts3_tokenizer('simple')", "fts3_tokenizer"),
    ("pragma writable_schema = on", "PRAGMA writable_schema"),
    ("pragma journal_mode = delete", "PRAGMA journal_mode"),
    ("pragma max_page_count = 1000000", "PRAGMA max_page_count"),
    ("pragma temp_store_directory = '/tmp'", "PRAGMA temp_store_directory"),
    ("pragma database_list", "PRAGMA database_list"),
    ("pragma foreign_keys = off", "PRAGMA foreign_keys"),
    ("pragma trusted_schema = on", "PRAGMA trusted_schema"),
    ("select * from pragma_database_list", "database_list"),
    ("create temp table a (b)", "temporary"),
    ("create temporary view a as select 1", "temporary"),
    ("create table temp.a (b)", "temporary"),
    ("create table if not exists \"TEMP\" . a as select zeroblob(1000000)", "temporary"),
    ("create view temp.a as select 1", "temporary"),
    ("create virtual table temp.a using fts5(b)", "temporary"),
    ("analyze temp", "temporary"),
    ("create virtual table a using dbstat", "virtual tables"),
    ("create virtual table a using csv(filename = '/etc/passwd')", "virtual tables"),
    ("select * from dbstat", "dbstat"),
    ("update sqlite_schema set sql = ''", "may not be modified"),
    ("insert into sqlite_schema values (1, 2, 3, 4, 5)", "may not be modified"),
    ("create table sqlite_mine (a)", "reserved"),
    ("select * from store_values", "no such table"),
    ("select readfile('/etc/passwd')", "no such function"),
    ("select writefile('/tmp/x', 'y')", "no such function"),
    ("explain select 1; select 2", "one call runs one statement"),
];

fn sql_refused(session: &Session) {
    for (sql, part) in REFUSED {
        let params = if sql.contains('?') { json!(["x"]) } else { json!([]) };
        let error = session.err("db_sql", json!({ "sql": sql, "params": params }));
        assert!(error.contains(part), "{sql}: {error}");
    }
    // They changed nothing.
    assert_eq!(
        session.ok("db_schema", json!({})),
        json!({ "tables": [], "indexes": [], "truncated": false })
    );
    for sql in [
        "create table t (a)",
        "create index i on t (a)",
        "create view v as select a from t",
        "create trigger r after insert on t begin update t set a = 1; end",
        "create virtual table f using fts5(text)",
        "insert into f values ('some text')",
        "select * from f where f match 'text'",
        "alter table t add column b",
        "pragma table_info(t)",
        "select * from pragma_table_info('t')",
        "pragma quick_check",
        "analyze",
        "reindex",
        "explain query plan select * from t",
        "select json_extract('{\"a\": 1}', '$.a')",
        "drop table f",
        // A name like that of the database in memory, of something else.
        "select temp.a from t as temp",
        "create table other as select temp.a from t as temp",
        "update t as temp set a = 1 returning a",
    ] {
        session.ok("db_sql", json!({ "sql": sql }));
    }
}

fn sql_schema(session: &Session) {
    query(session, "create table t (id integer primary key, name text not null default 'x')", &json!([]));
    query(session, "create index by_name on t (name)", &json!([]));
    query(session, "create view v as select name from t", &json!([]));
    let schema = session.ok("db_schema", json!({}));
    assert_eq!(
        schema["tables"][0],
        json!({
            "name": "t", "type": "table",
            "columns": [
                { "name": "id", "type": "INTEGER", "not_null": false, "default": null, "primary_key": true },
                { "name": "name", "type": "TEXT", "not_null": true, "default": "'x'", "primary_key": false },
            ],
            "sql": "CREATE TABLE t (id integer primary key, name text not null default 'x')",
        })
    );
    assert_eq!((&schema["tables"][1]["name"], &schema["tables"][1]["type"]), (&json!("v"), &json!("view")));
    assert_eq!(
        (&schema["indexes"][0]["name"], &schema["indexes"][0]["table"]),
        (&json!("by_name"), &json!("t"))
    );
    assert_eq!(schema["truncated"], false);
    assert_eq!(result(session, "return db.schema()"), schema);
    // Names and texts can be long: what is listed is limited by its size, too.
    let code = "const text = 'x'.repeat(90000); let made = 0; \
                for (; made < 30; made++) await db.sql(`create table long_${made} (a /* ${text} */)`); return made";
    assert_eq!(result(session, code), json!(30));
    let schema = session.ok("db_schema", json!({}));
    let tables = schema["tables"].as_array().expect("a list").len();
    assert!((10..30).contains(&tables) && schema["truncated"] == true, "{tables}");
}

fn browser(session: &Session) {
    let url = format!("http://{}/page", origin::NAME);
    let opened = session.ok("browser_navigate", json!({ "url": url, "wait_until": "load" }));
    assert_eq!(opened, json!({ "url": url, "title": "A page", "status": 200 }));
    let text = session.ok("browser_extract_text", json!({ "selector": "h1" }));
    assert_eq!(text, json!({ "text": "Hello ü" }));
    let html = session.ok("browser_extract_html", json!({ "selector": "b", "outer": true }));
    assert_eq!(html, json!({ "html": "<b>ü</b>" }));
    let value = session
        .ok("browser_evaluate", json!({ "code": "return [document.title, await Promise.resolve(1)]" }));
    assert_eq!(value, json!({ "result": ["A page", 1] }));
    let picture = session.ok("browser_screenshot", json!({ "full_page": true }));
    assert!(picture["image"].as_str().is_some_and(|image| image.starts_with("iVBORw0KGgo")), "{picture}");
    assert!(
        picture["width"].as_u64().is_some_and(|width| width > 0) && picture["height"].is_u64(),
        "{picture}"
    );
    let typed = json!({ "selector": "input", "text": "new ü", "clear_first": true });
    assert_eq!(session.ok("browser_type", typed), json!({ "ok": true }));
    assert_eq!(session.ok("browser_click", json!({ "selector": "button" })), json!({ "ok": true }));
    // A script goes on with the same page and the same cookies.
    let code = "return [await browser.extractText('p'), await browser.extractText('i'), (await browser.screenshot()).image.length > 100, \
                await browser.evaluate('location.pathname')]";
    assert_eq!(result(session, code), json!(["/form?a=new+%C3%BC", "seen=yes", true, "/form"]));
    let code = format!(
        "const page = await browser.navigate('{url}'); await browser.type('input', ' text'); await browser.click('button'); \
         return [page, await browser.extractHtml('p')]"
    );
    let page = json!({ "url": url, "title": "A page", "status": 200 });
    assert_eq!(result(session, &code), json!([page, "/form?a=old+text"]));
    // Closing it forgets both.
    assert_eq!(session.ok("browser_close", json!({})), json!({ "ok": true }));
    refused(session, "browser_extract_text", json!({}), "not_found");
    session.ok("browser_navigate", json!({ "url": format!("http://{}/form?", origin::NAME) }));
    assert_eq!(session.ok("browser_extract_text", json!({ "selector": "i" })), json!({ "text": "none" }));
}

fn browser_refused(session: &Session) {
    for url in [
        "http://127.0.0.1/",
        "https://127.0.0.1/",
        "http://[::1]/",
        "http://169.254.169.254/latest/",
        "http://2130706433/",
    ] {
        refused(session, "browser_navigate", json!({ "url": url }), "permission_denied");
        let to = format!("http://{}/to/{url}", origin::NAME);
        refused(session, "browser_navigate", json!({ "url": to }), "permission_denied");
    }
    for url in [
        "file:///etc/passwd",
        "chrome://version",
        "data:text/html,a",
        "about:blank",
        "javascript:1",
        "/page",
        "",
    ] {
        refused(session, "browser_navigate", json!({ "url": url }), "invalid_input");
    }
    session.ok("browser_navigate", json!({ "url": format!("http://{}/page", origin::NAME) }));
    for (tool, input, code) in [
        ("browser_click", json!({ "selector": "#[" }), "invalid_input"),
        ("browser_click", json!({}), "invalid_input"),
        ("browser_type", json!({ "selector": "h1", "text": "a" }), "invalid_input"),
        ("browser_extract_text", json!({ "selector": "#none" }), "not_found"),
        ("browser_evaluate", json!({ "code": "throw new Error('mine')" }), "invalid_input"),
        ("browser_evaluate", json!({ "code": "'x'.repeat(3 << 20)" }), "too_large"),
        ("browser_navigate", json!({ "url": "http://a.example/", "wait_until": "ready" }), "invalid_input"),
        ("browser_close", json!({ "now": true }), "invalid_input"),
    ] {
        refused(session, tool, input, code);
    }
    let failure = failed(session, "run_sandbox_code", json!({ "code": "\nawait browser.click('#none')" }));
    assert_eq!(failure["line"], 2, "{failure}");
    assert!(failure["error"].as_str().is_some_and(|error| error.contains("`#none`")), "{failure}");
}

fn without_a_browser(session: &Session) {
    let error = refused(session, "browser_navigate", json!({ "url": "http://a.example/" }), "unsupported");
    assert!(error.contains("`browser = true`"), "{error}");
    assert_eq!(result(session, "return typeof browser"), json!("undefined"));
}

fn fetch(session: &Session) {
    let url = |path: &str| format!("http://{}{path}", origin::NAME);
    let sent =
        json!({ "url": url("/echo?a=ü"), "method": "PUT", "headers": { "X-Key": "1" }, "body": "[1]" });
    let done = session.ok("fetch_url", sent);
    assert_eq!((&done["ok"], &done["status"]), (&json!(true), &json!(200)), "{done}");
    assert_eq!(
        (&done["url"], &done["headers"]["x-mine"]),
        (&json!(url("/echo?a=%C3%BC")), &json!("one, two"))
    );
    let seen: Value = serde_json::from_str(done["body"].as_str().expect("a text")).expect("JSON");
    assert_eq!((&seen["method"], &seen["path"]), (&json!("PUT"), &json!("/echo?a=%C3%BC")));
    assert_eq!((&seen["headers"]["x-key"], &seen["body"]), (&json!("1"), &json!("[1]")));
    assert_eq!(seen["headers"]["host"], origin::NAME);
    let code = format!(
        "const r = await fetch('{}', {{ method: 'post', headers: {{ n: 1 }}, body: 'b' }}); const seen = await r.json(); \
         return [r.ok, r.status, r.headers['x-mine'], seen.method, seen.headers.n, seen.body]",
        url("/echo")
    );
    assert_eq!(result(session, &code), json!([true, 200, "one, two", "POST", "1", "b"]));
    let code = format!(
        "const r = await fetch('{}'); let why; try {{ await r.json() }} catch (error) {{ why = error.message }} \
         return [r.ok, r.status, await r.text(), why.includes('is not JSON')]",
        url("/status/404")
    );
    assert_eq!(result(session, &code), json!([false, 404, "a text", true]));
    // Redirects, with another method or the same.
    let post =
        |path: &str| session.ok("fetch_url", json!({ "url": url(path), "method": "POST", "body": "b" }));
    let method = |done: &Value| -> Value {
        let seen: Value = serde_json::from_str(done["body"].as_str().expect("a text")).expect("JSON");
        json!([seen["method"], seen["body"]])
    };
    assert_eq!(method(&post("/to//echo")), json!(["GET", ""]));
    assert_eq!(method(&post("/keep//echo")), json!(["POST", "b"]));
    let head = session.ok("fetch_url", json!({ "url": url("/bytes/30000000"), "method": "HEAD" }));
    assert_eq!((&head["body"], &head["headers"]["content-length"]), (&json!(""), &json!("30000000")));
    let longest =
        result(session, &format!("return (await (await fetch('{}')).text()).length", url("/bytes/2097152")));
    assert_eq!(longest, 2_097_152);
}

fn fetch_refused(session: &Session) {
    let url = |path: &str| format!("http://{}{path}", origin::NAME);
    for (url, code, part) in [
        ("/path".to_owned(), "invalid_input", "has no scheme"),
        ("file:///etc/passwd".to_owned(), "invalid_input", "`https:` or `http:`"),
        (format!("http://user@{}/", origin::NAME), "invalid_input", "`authorization`"),
        ("http://127.0.0.1/".to_owned(), "permission_denied", "private or local"),
        ("http://localhost/".to_owned(), "permission_denied", "private or local"),
        ("http://169.254.169.254/latest/meta-data".to_owned(), "permission_denied", "private or local"),
        ("http://2130706433/".to_owned(), "permission_denied", "private or local"),
        ("http://[::ffff:10.0.0.1]/".to_owned(), "permission_denied", "private or local"),
        (url("/to/http://127.0.0.1/"), "permission_denied", "private or local"),
        (url("/to/http://[::1]/"), "permission_denied", "private or local"),
        (url("/to/file:///etc/passwd"), "invalid_input", "is not followed"),
        (url("/bytes/2097153"), "too_large", "more than 2 MiB"),
    ] {
        let error = refused(session, "fetch_url", json!({ "url": url }), code);
        assert!(error.contains(part), "{url}: {error}");
        let failure =
            failed(session, "run_sandbox_code", json!({ "code": format!("await fetch({})", json!(url)) }));
        assert!(failure["error"].as_str().is_some_and(|error| error.contains(part)), "{url}: {failure}");
        assert_eq!(failure["line"], 1, "{failure}");
    }
    for (headers, part) in [
        (json!({ "x-a": "1\r\nx-b: 2" }), "line break"),
        (json!({ "x-a\r\nx-b": "2" }), "is not the name of a header"),
        (json!({ "Host": "other.example" }), "cannot be set"),
    ] {
        let error = refused(
            session,
            "fetch_url",
            json!({ "url": url("/echo"), "headers": headers }),
            "invalid_input",
        );
        assert!(error.contains(part), "{error}");
    }
    let input = json!({ "url": url("/echo"), "method": "TRACE" });
    refused(session, "fetch_url", input, "invalid_input");
    let failure =
        failed(session, "run_sandbox_code", json!({ "code": "await fetch('http://a', { body: {} })" }));
    assert!(
        failure["error"].as_str().is_some_and(|error| error.contains("the body must be a string")),
        "{failure}"
    );
}

fn without_a_network(session: &Session) {
    let error = refused(session, "fetch_url", json!({ "url": "http://origin.example/" }), "unsupported");
    assert!(error.contains("no network for scripts"), "{error}");
    let failure =
        failed(session, "run_sandbox_code", json!({ "code": "await fetch('http://origin.example/')" }));
    assert!(failure["error"].as_str().is_some_and(|error| error.contains("no network")), "{failure}");
}

fn without_a_database(session: &Session) {
    refused(session, "db_sql", json!({ "sql": "select 1" }), "unsupported");
    refused(session, "db_schema", json!({}), "unsupported");
    failed(session, "run_sandbox_code", json!({ "code": "await db.sql('select 1')" }));
}
