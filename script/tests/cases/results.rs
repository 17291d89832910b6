//! What scripts return and print, and how they fail.

use koze_script::limits;
use koze_script::protocol::{Json, Start};
use serde_json::json;

use super::{fails_at, failure, run, start, value};

#[test]
fn results() {
    for (code, result) in [
        ("1+1", json!(2)),
        ("return 1 + 1", json!(2)),
        ("if (true) { return [1, { a: 'b' }] }\nthrow 1", json!([1, { "a": "b" }])),
        ("const x = 3; x * 2 // the last line is a comment", json!(6)),
        ("resolve({ a: 1 }); resolve(2); 3", json!({ "a": 1 })),
        ("resolve()", json!(null)),
        ("await new Promise((done) => setTimeout(done, 5)); 'later'", json!("later")),
        ("new Promise((done) => setTimeout(() => done('awaited'), 5))", json!("awaited")),
        ("return new Promise((done) => setTimeout(() => done('awaited'), 5))", json!("awaited")),
        ("resolve(1); await new Promise(() => {})", json!(1)),
        ("", json!(null)),
        ("undefined", json!(null)),
        // A script that only consists of a function means its result.
        ("() => 1", json!(1)),
        ("async () => 42", json!(42)),
        ("async function main() { return [await 1] }\nmain", json!([1])),
        ("resolve(1); () => 2", json!(1)),
        // JSON has no form for these.
        ("[1, 2].map(async (x) => x * 2)", json!([2, 4])),
        (
            "return { a: Promise.resolve({ b: Promise.resolve(new Date(0)) }) }",
            json!({ "a": { "b": "1970-01-01T00:00:00.000Z" } }),
        ),
        ("resolve(Promise.resolve(1)); 2", json!(1)),
        ("resolve([Promise.resolve(1)]); await new Promise(() => {})", json!([1])),
        ("new RangeError('far')", json!({ "name": "RangeError", "message": "far" })),
        (
            "[Object.assign(new Error('a', { cause: new TypeError('b') }), { code: 1 })]",
            json!([{ "name": "Error", "message": "a", "code": 1, "cause": { "name": "TypeError", "message": "b" } }]),
        ),
        ("[new Map([['a', new Set([1])]]), new Map([[1, 2]])]", json!([{ "a": [1] }, [[1, 2]]])),
        // Markdown around all of the source.
        ("```js\n1 + 1\n```", json!(2)),
        ("\n```\nreturn `a`\n```\n", json!("a")),
        ("({ value: { value: 1 } })", json!({ "value": { "value": 1 } })),
        ("return { value: 1 }", json!({ "value": 1 })),
        ("typeof args", json!("undefined")),
        ("'args' in globalThis", json!(false)),
        ("'ä\\u{1f600}\\0'", json!("ä😀\0")),
        ("[1n].map(String)", json!(["1"])),
        ("new Date(0)", json!("1970-01-01T00:00:00.000Z")),
        ("/(?<year>\\d+)/u.exec('in 1969').groups.year", json!("1969")),
        ("new RegExp('a.c', 's').test('a\\nc')", json!(true)),
        ("[...new Set([1, 1])].length + new Uint8Array(2).length", json!(3)),
        ("setTimeout(() => resolve('too late'), 1); 1", json!(1)),
        ("btoa('hello') + atob('aGVsbG8=')", json!("aGVsbG8=hello")),
        ("let total = 0; for await (const x of [1, Promise.resolve(2)]) total += x; total", json!(3)),
        // Half of a surrogate pair cannot be encoded in UTF-8.
        ("['a\\ud800', { '\\udfff': '\\ud83d\\ude00' }]", json!(["a\u{fffd}", { "\u{fffd}": "😀" }])),
    ] {
        assert_eq!(value(code), result, "{code}");
    }
}

#[test]
fn arguments_and_secrets() {
    let ran = start(Start {
        code: "'use strict'; let refused; try { secrets.KEY = 1 } catch (error) { refused = error.name }\n\
               [args.a, secrets.KEY, refused, Object.isFrozen(secrets), Object.keys(secrets)]"
            .into(),
        args: Some(Json::from(&json!({ "a": [1], "__proto__": { "polluted": true } }))),
        secrets: [("KEY".to_owned(), "value".to_owned())].into_iter().collect(),
        ..Start::default()
    });
    assert_eq!(ran.done, Ok(json!([[1], "value", "TypeError", true, ["KEY"]])));
}

#[test]
fn errors_have_a_place() {
    fails_at("const a = 1;\n  null.x", "TypeError: cannot read property 'x' of null", 2, 3);
    fails_at(
        "const o = args_of();\nreturn o.x; function args_of() { return null }",
        "TypeError: cannot read property 'x' of null",
        2,
        8,
    );
    fails_at("await 1;\nthrow new RangeError('far')", "RangeError: far", 2, 11);
    fails_at("function f() {\n  throw new Error('deep')\n}\n\nf()", "Error: deep", 2, 13);
    fails_at("let a = 1;\nlet b = ;", "SyntaxError: unexpected token in expression: ';'", 2, 9);
    fails_at("import x from 'y'", "SyntaxError: Unexpected identifier 'x'", 1, 8);
    fails_at("\n```js\n\n  null.x\n```", "TypeError: cannot read property 'x' of null", 4, 3);
    fails_at("() => {\n  null.x\n}", "TypeError: cannot read property 'x' of null", 2, 3);
    fails_at("[(async () => { throw new Error('in it') })()]", "Error: in it", 1, 27);
    for code in ["return () => 1", "() => () => 1", "resolve(() => 1)"] {
        let message = failure(code).message;
        assert_eq!(message, "TypeError: the result is a function: call it, and return what it returns");
    }
    let promise = failure("await state.set('a', [Promise.resolve(1)])").message;
    assert_eq!(promise, "TypeError: the value contains a promise: await it first");
    fails_at("state.get(1)", "TypeError: the key must be a string", 1, 6);
    fails_at("await 0;\nawait db.sql('select 1')", "Error: no database", 2, 10);
    assert!(failure("await db.sql('select ?', 1)").message.contains("the parameters must be an array"));
    fails_at("x = { get a() { throw new Error('getter') } };\nresolve(x)", "Error: getter", 1, 27);
    let nothing = failure("throw { code: 1 }");
    assert_eq!((nothing.message.as_str(), nothing.place), ("uncaught: {\"code\":1}", None));
    assert_eq!(failure("throw undefined").message, "uncaught: undefined");
    let waits = failure("await new Promise(() => {})");
    assert!(waits.message.contains("nothing can settle"), "{waits:?}");
    assert_eq!(failure("const a = {}; a.a = a; a").message, "TypeError: circular reference");
    assert_eq!(failure("const a = {}; a.a = a; resolve(a)").message, "TypeError: circular reference");
}

#[test]
fn errors_have_a_name_and_a_stack() {
    let far = failure(
        "class FarError extends Error { name = 'FarError' }\nfunction deep() {\n  throw new FarError('far')\n}\n\
                       const outer = () => [1].map(() => deep());\nouter()",
    );
    assert_eq!((far.message.as_str(), far.name.as_deref()), ("FarError: far", Some("FarError")));
    let stack = far.stack.unwrap();
    let frames: Vec<&str> = stack.lines().collect();
    assert_eq!(
        frames,
        [
            "at FarError (line 1, column 1)",
            "at deep (line 3, column 13)",
            "at <anonymous> (line 5, column 35)",
            "at outer (line 5, column 25)",
            "at <eval> (line 6, column 1)",
        ]
    );
    let thrown = failure("throw { code: 1 }");
    assert_eq!((thrown.name, thrown.stack), (None, None));
    let recursive = failure("Error.stackTraceLimit = 1e9; let f = () => f() + 1; f()");
    assert_eq!(recursive.name.as_deref(), Some("RangeError"));
    assert!(recursive.stack.unwrap().len() <= limits::MESSAGE + "…".len());
}

#[test]
fn logs() {
    let ran = run("const a = { b: [1, 2n] }; a.a = a;\n\
         console.log('text', 1, a, undefined, null); console.warn([]); console.error(new TypeError('no'))\n\
         console.log([Promise.resolve(1), new Map([['a', new Error('b')]])]);\n\
         console.log(Object.defineProperty({}, 'x', { enumerable: true, get() { throw 1 } }), () => {}, Symbol('s'))\n\
         throw new Error('end')");
    assert_eq!(
        ran.logs,
        [
            "text 1 {\"b\":[1,\"2n\"],\"a\":\"[Circular]\"} undefined null",
            "[WARN] []",
            "[ERROR] TypeError: no",
            "[\"[Promise: await it]\",{\"a\":{\"name\":\"Error\",\"message\":\"b\"}}]",
            "[cannot be shown] [function ] Symbol(s)",
        ]
    );
    assert!(ran.done.is_err());
    let many = run("for (let i = 0; i < 20000; i++) console.log(i); 'done'");
    assert_eq!((many.logs.len(), many.done), (limits::LOG_LINES + 1, Ok(json!("done"))));
    let long = run("for (let i = 0; i < 3; i++) console.log('x'.repeat(500 << 10)); 'done'");
    assert!(long.logs.iter().map(String::len).sum::<usize>() < limits::LOG_BYTES + 100);
}

#[test]
fn rejections_that_nothing_handles_are_logged() {
    let ran = run("Promise.reject(new TypeError('no'));\nconst late = Promise.reject(1);\n\
         (async () => {\n  null.x\n})();\nsetTimeout(async () => { throw new Error('timer') }, 1);\n\
         await new Promise((done) => setTimeout(done, 5)); late.catch(() => {}); Promise.reject(2).catch(() => {}); 'end'");
    assert_eq!(ran.done, Ok(json!("end")));
    assert_eq!(
        ran.logs,
        [
            "[ERROR] unhandled rejection: TypeError: no (line 1, column 20)",
            "[ERROR] unhandled rejection: TypeError: cannot read property 'x' of null (line 4, column 3)",
            "[ERROR] unhandled rejection: Error: timer (line 6, column 36)",
        ]
    );
    // The error of the script itself is not one of them.
    for code in [
        "throw 1",
        "return Promise.reject(1)",
        "Promise.reject(1)",
        "async () => { throw 1 }",
        "[Promise.reject(1)]",
    ] {
        let ran = run(code);
        assert_eq!((ran.done.unwrap_err().message.as_str(), ran.logs.len()), ("uncaught: 1", 0), "{code}");
    }
    let many = run("for (let i = 0; i < 1000; i++) Promise.reject(i); 1");
    assert_eq!(
        (many.logs.len(), many.logs.last().unwrap().as_str()),
        (101, "[ERROR] 900 more unhandled rejections")
    );
}
