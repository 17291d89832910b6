//! What scripts use of the host: its state, requests, the browser and libraries.

use koze_script::limits::Limit;
use koze_script::protocol::Start;
use serde_json::json;

use super::{failure, short, start, value};

#[test]
fn state_of_the_host() {
    let code = "await state.set('a', { x: 1 }); await state.set('b'); \
                return [await state.get('a'), await state.get('b'), await state.get('c'), await state.keys(), \
                await state.keys('b'), await state.delete('a'), await state.delete('a')]";
    assert_eq!(value(code), json!([{ "x": 1 }, null, null, ["a", "b"], ["b"], true, false]));
}

#[test]
fn browser() {
    let with = |code: &str| {
        start(Start { code: code.into(), browser: true, ..Start::default() })
            .done
            .map_err(|failure| failure.message)
    };
    for (code, sent) in [
        ("browser.navigate('http://a')", json!({ "navigate": { "url": "http://a" } })),
        (
            "browser.navigate('http://a', { wait_until: 'networkidle' })",
            json!({ "navigate": { "url": "http://a", "wait_until": "networkidle" } }),
        ),
        ("browser.screenshot()", json!({ "screenshot": { "full_page": false } })),
        (
            "browser.screenshot({ selector: 'a', full_page: true })",
            json!({ "screenshot": { "selector": "a", "full_page": true } }),
        ),
        ("browser.extractText()", json!({ "extract_text": {} })),
        (
            "browser.extractHtml('a', { outer: true })",
            json!({ "extract_html": { "selector": "a", "outer": true } }),
        ),
        ("browser.evaluate('1')", json!({ "evaluate": { "code": "1" } })),
        ("browser.click('a')", json!(null)),
        ("browser.type('a', 'b', { clear_first: true })", json!(null)),
        ("browser.close()", json!(null)),
    ] {
        assert_eq!(with(&format!("return {code}")), Ok(sent), "{code}");
    }
    for (code, part) in [
        ("browser.navigate(1)", "the URL must be a string"),
        (
            "browser.navigate('http://a', { wait_until: 'idle' })",
            "wait_until must be one of [\"load\",\"domcontentloaded\",\"networkidle\"]",
        ),
        ("browser.click()", "the selector must be a string"),
        ("browser.type('a')", "the text must be a string"),
        ("browser.evaluate(() => 1)", "the code must be a string"),
    ] {
        let message = with(&format!("return {code}")).unwrap_err();
        assert!(message.contains(part), "{code}: {message}");
    }
    assert_eq!(value("typeof browser"), "undefined");
    assert_eq!(with("return [Object.isFrozen(browser), Object.keys(globalThis)]"), Ok(json!([true, []])));
}

#[test]
fn fetch() {
    let code = "const r = await fetch('http://a', { method: 'POST', headers: { x: '1' }, body: 'b' }); \
                return [r.ok, r.status, r.headers, await r.json(), typeof await r.text()]";
    assert_eq!(
        value(code),
        json!([true, 200, { "content-type": "application/json" },
            { "url": "http://a", "method": "POST", "headers": { "x": "1" }, "body": "b", "timeout": 30000 }, "string"])
    );
    let code = "const r = await fetch('http://a', { method: 'delete', headers: { n: 1, __proto__: { no: 2 } }, timeout: 1.5 }); \
                const { method, headers, timeout } = await r.json(); return [method, headers, timeout]";
    assert_eq!(value(code), json!(["DELETE", { "n": "1" }, 2]));
    assert_eq!(value("return (await fetch('http://a', null)).ok"), true);
    let code = "const { headers: h } = await fetch('http://a'); \
                return [h.get('Content-Type'), h.get('none'), h.get('get'), h.get('constructor'), Object.keys(h)]";
    assert_eq!(value(code), json!(["application/json", null, null, null, ["content-type"]]));
    assert!(
        failure("await fetch('http://a', { method: 'TRACE' })")
            .message
            .contains("the method must be one of [\"GET\",")
    );
    for (options, part) in [
        ("{ body: { a: 1 } }", "the body must be a string"),
        ("{ redirect: 'manual' }", "fetch follows redirects"),
        ("{ method: 1 }", "the method must be a string"),
        ("{ headers: 'a: b' }", "the headers must be an object"),
        ("{ headers: { get a() { throw new Error('getter') } } }", "getter"),
        ("{ timeout: 'soon' }", "the timeout must be a number of milliseconds"),
        ("{ timeout: -1 }", "the timeout must be a number of milliseconds"),
        ("{ timeout: Infinity }", "the timeout must be a number of milliseconds"),
    ] {
        let message = failure(&format!("await fetch('http://a', {options})")).message;
        assert!(message.contains(part), "{options}: {message}");
    }
    let message = failure("await (await fetch('http://text')).json()").message;
    assert!(
        message.starts_with("SyntaxError: the body of the response (status 200) is not JSON: "),
        "{message}"
    );
    let text = "TypeError: the URL must be a string";
    assert_eq!(failure("await fetch(new Date())").message, text);
    let never = short(50, "await fetch('http://never')").done.unwrap_err();
    assert_eq!(never.limit, Some(Limit::Time));
}

#[test]
fn libraries() {
    let with = |code: &str, libraries: &[(&str, &str)]| {
        let own = |(name, code): &(&str, &str)| ((*name).to_owned(), (*code).to_owned());
        let libraries = libraries.iter().map(own).collect();
        start(Start { code: code.into(), libraries, ..Start::default() }).done
    };
    let counts = ("counts", "exports.id = (globalThis.times = (globalThis.times ?? 0) + 1)");
    let uses = ("uses", "const { id } = require('counts');\nmodule.exports = { id, twice: (x) => 2 * x }");
    let ran = with("[require('uses').twice(4), require('counts').id, times]", &[counts, uses]);
    assert_eq!(ran, Ok(json!([8, 1, 1])));
    let round = [("a", "require('b')"), ("b", "\n require('a')")];
    let circle = with("require('a')", &round).unwrap_err();
    assert_eq!(circle.message, "Error: Circular dependency: a -> b -> a");
    let place = circle.place.unwrap();
    assert_eq!((place.library.as_deref(), place.line, place.column), (Some("b"), 2, 2));
    let missing = with("1;\nrequire('fs')", &[]).unwrap_err();
    assert_eq!((missing.message.as_str(), missing.place.unwrap().line), ("Error: Library not found: fs", 2));
    let deep: Vec<(String, String)> =
        (0..12).map(|at| (format!("l{at}"), format!("require('l{}')", at + 1))).collect();
    let deep: Vec<(&str, &str)> = deep.iter().map(|(name, code)| (name.as_str(), code.as_str())).collect();
    assert!(with("require('l0')", &deep).unwrap_err().message.contains("10 levels deep"));
    let broken = with("require('x')", &[("x", "let a = ;")]).unwrap_err();
    assert!(broken.message.starts_with("SyntaxError: library 'x': SyntaxError: "), "{broken:?}");
    assert!(broken.message.ends_with("(line 1, column 9)"), "{broken:?}");
    let thrown = with("try { require('x') } catch {}\nrequire('x')", &[("x", "throw new Error('no')")]);
    assert_eq!(thrown.unwrap_err().message, "Error: no");
}

#[test]
fn csv() {
    for (call, result) in [
        ("parseCSV('a,b\\n1,\"x, \"\"y\"\"\\nz\"\\r\\n')", json!([["a", "b"], ["1", "x, \"y\"\nz"]])),
        ("parseCSV('a,b\\n1,2\\n', { header: true })", json!([{ "a": "1", "b": "2" }])),
        ("parseCSV('\\ufeffa\\n1', { header: true })", json!([{ "a": "1" }])),
        ("parseCSV('')", json!([])),
        ("parseCSV('', { header: true })", json!([])),
        ("parseCSV('a,a\\n1,2', { header: true })", json!([{ "a": "2" }])),
        ("Object.keys(parseCSV('__proto__\\n1', { header: true })[0])", json!(["__proto__"])),
    ] {
        assert_eq!(value(call), result, "{call}");
    }
    assert!(
        failure("parseCSV('a,b\\n1', { header: true })")
            .message
            .ends_with("line 2 has 1 fields, but the first row has 2")
    );
}
