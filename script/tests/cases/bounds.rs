//! Where scripts end, and what they cannot change.

use koze_script::Limits;
use koze_script::limits::Limit;
use koze_script::protocol::Start;
use serde_json::json;

use super::{failure, run, short, start, value};

#[test]
fn text_never_becomes_code() {
    for code in [
        "eval('1')",
        "(0, eval)('1')",
        "globalThis.eval('1')",
        "new Function('return 1')()",
        "(() => {}).constructor('return 1')()",
        "new (function () {}).constructor('return 1')()",
        "(async () => {}).constructor('return 1')()",
        "(function* () {}).constructor('yield 1')().next()",
        "(async function* () {}).constructor('yield 1')().next()",
        "Reflect.construct((() => {}).constructor, ['return 1'])()",
        "Object.getPrototypeOf(async function () {}).constructor('return 1')()",
        "class F extends (() => {}).constructor {}; new F('return 1')()",
        "setTimeout('1')",
        "setTimeout.constructor('return 1')()",
        "console.log.constructor('return 1')()",
        "resolve.constructor('return 1')()",
        "require.constructor('return 1')()",
        "fetch.constructor('return 1')()",
        "state.get.constructor('return 1')()",
        "[].map.constructor.call(null, 'return 1')()",
        "Promise.resolve('return 1').then((() => {}).constructor).then((f) => f())",
        "await import('data:text/javascript,export default 1')",
        "await import('x')",
        "require('x')",
        "new WebAssembly.Module(new Uint8Array(8))",
        "new SharedArrayBuffer(8)",
        "Atomics",
        "process.exit()",
        "Buffer.from('')",
        "__dirname",
        "__filename",
        "new XMLHttpRequest()",
        "new WebSocket('ws://x')",
        "ShadowRealm",
        "std.loadFile('/etc/passwd')",
        "os.exec(['true'])",
    ] {
        let ran = run(code).done;
        assert!(ran.is_err(), "{code}: {ran:?}");
    }
    // Own functions of these names are the script's own business.
    assert_eq!(value("const eval = (x) => x; eval('1 + 1')"), json!("1 + 1"));
}

#[test]
fn time_ends_every_loop() {
    for code in [
        "while (true) {}",
        "while (true) { try { while (true) {} } catch {} }",
        "for (;;) { try { throw 1 } catch { continue } finally { continue } }",
        "/(a+)+$/.test('a'.repeat(40) + 'b')",
        "(async () => { for (;;) await 1 })(); await new Promise(() => {})",
        "const again = () => Promise.resolve().then(again); again()",
        "const again = () => { setTimeout(again) }; again(); await new Promise(() => {})",
        "await new Promise((done) => setTimeout(done, 30000))",
        "resolve({ toJSON() { for (;;) ; } })",
        "({ get x() { for (;;) ; } })",
        "new Proxy({}, { ownKeys() { for (;;) ; } })",
        "throw new Proxy(new Error(), { get() { for (;;) ; } })",
        "throw { get message() { for (;;) ; }, toJSON() { for (;;) ; } }",
        "const e = new Error(); Object.defineProperty(e, 'name', { get() { for (;;) ; } }); throw e",
        "console.log({ toJSON() { for (;;) ; } })",
        "state.set('a', { toJSON() { for (;;) ; } }); 1",
        "Promise.prototype.then = () => { for (;;) ; }; await state.get('a'); await { then() { for (;;) ; } }",
        "Error.prepareStackTrace = () => { for (;;) ; }; throw new Error()",
        "const f = () => { try { f() } finally { f() } }; f()",
    ] {
        let ran = short(100, code).done.expect_err(code);
        assert_eq!(ran.limit, Some(Limit::Time), "{code}: {ran:?}");
        assert!(ran.message.contains("time limit of 100 ms"), "{ran:?}");
    }
}

#[test]
fn memory_ends_every_allocation() {
    for code in [
        "const all = []; for (;;) all.push(new Array(1000).fill(1))",
        // Whatever the sizes are, the engine finds no room for its own error at some of them.
        "const all = []; for (;;) all.push(new Array(10).fill(1))",
        "const all = []; for (;;) all.push(new Array(100).fill(1))",
        "let all = null; for (;;) all = { all }",
        "const all = []; for (;;) all.push(() => all)",
        "try { const all = []; for (;;) all.push({}) } catch (error) { throw error }",
        "new Uint8Array(1 << 30)",
        "const all = []; for (;;) all.push(new ArrayBuffer(1 << 20))",
        "JSON.stringify(new Array(2 ** 26).fill('xxxxxxxx'))",
        "(async () => { const all = []; for (;;) { all.push(await [all.length].concat(new Array(99))) } })()",
    ] {
        let limits = Limits { memory: 32 << 20, ..Limits::default() };
        let ran = start(Start { code: code.into(), limits, ..Start::default() }).done.expect_err(code);
        assert_eq!(ran.limit, Some(Limit::Memory), "{code}: {ran:?}");
        assert!(ran.message.contains("memory limit of 32 MiB"), "{ran:?}");
    }
    let null = failure("throw null");
    assert_eq!((null.message.as_str(), null.limit), ("uncaught: null", None));
    assert_eq!(failure("'x'.repeat(5 << 20)").limit, Some(Limit::Result));
    assert_eq!(failure("let a = []; for (let i = 0; i < 200; i++) a = [a]; a").limit, Some(Limit::Result));
    let deep = failure("let f = () => f() + 1; f()");
    assert_eq!(deep.message, "RangeError: Maximum call stack size exceeded");
}

#[test]
fn what_a_script_changes_stays_in_it() {
    let pollution = "Object.prototype.toJSON = () => 'polluted'; Array.prototype.map = null; JSON.stringify = () => '{}';\n\
                     Object.prototype.key = 'other'; Promise = null; globalThis.call = 1; String.prototype.toString = null;\n\
                     await state.set('k', 1); [await state.get('k')]";
    // Even its own results are its own business; the host reads plain JSON.
    assert_eq!(value(pollution), json!("polluted"));
    assert_eq!(value("typeof globalThis.call + typeof Promise"), json!("undefinedfunction"));
    assert!(failure("throw new Proxy({}, {})").message.starts_with("uncaught: "));
    assert_eq!(value("new Proxy([1], {})"), json!([1]));
}
