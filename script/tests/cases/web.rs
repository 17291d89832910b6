//! What scripts have of the web: timers, URLs and other globals.

use koze_script::protocol::Start;
use serde_json::json;

use super::{fails_at, failure, start, value};

#[test]
fn timers() {
    let order = "const seen = []; setTimeout(() => seen.push(2), 2); const off = setTimeout(() => seen.push(9), 1);\n\
                 setTimeout((x) => seen.push(x), 0, 1); clearTimeout(off); clearTimeout(); clearTimeout(77);\n\
                 await new Promise((done) => setTimeout(done, 10)); seen";
    assert_eq!(value(order), json!([1, 2]));
    fails_at(
        "setTimeout(() => {\n  null.x }, 1);\nawait new Promise((d) => setTimeout(d, 99))",
        "TypeError: cannot read property 'x' of null",
        2,
        3,
    );
    assert!(
        failure("for (let i = 0; i < 10000; i++) setTimeout(() => {}, 1)")
            .message
            .contains("at most 1000 timers")
    );
    assert!(
        failure("for (let i = 0; i < 10000; i++) fetch('http://never')")
            .message
            .contains("at most 1000 calls")
    );
}

#[test]
fn urls() {
    for (code, result) in [
        (
            "const u = new URL('../b?x=1#h', 'https://ü.example:8443/a/c'); [u.href, u.host, u.port, u.pathname, u.search, u.hash, u.origin]",
            json!([
                "https://xn--tda.example:8443/b?x=1#h",
                "xn--tda.example:8443",
                "8443",
                "/b",
                "?x=1",
                "#h",
                "https://xn--tda.example:8443"
            ]),
        ),
        (
            "const u = new URL('http://a/'); u.searchParams.append('q', 'a b&ü'); u.searchParams.set('z', '~*'); u.pathname = '/ä'; \
          u.protocol = 'https'; u.port = '99999'; u.hash = 'x'; `${u} ${JSON.stringify({ u })}`",
            json!(
                "https://a/%C3%A4?q=a+b%26%C3%BC&z=%7E*#x {\"u\":\"https://a/%C3%A4?q=a+b%26%C3%BC&z=%7E*#x\"}"
            ),
        ),
        (
            "const u = new URL('http://a/?x=1&y=2'); u.search = '?y=3'; [u.searchParams.get('x'), u.searchParams.get('y'), u.searchParams.size]",
            json!([null, "3", 1]),
        ),
        ("[URL.canParse('no'), URL.canParse('x', 'http://a'), URL.parse('no')]", json!([false, true, null])),
        (
            "try { new URL('http://a/' + 'x'.repeat(1e6)) } catch (error) { error.message }",
            json!("a URL may have at most 65536 characters"),
        ),
        ("try { new URL('/x') } catch (error) { `${error}` }", json!("TypeError: Invalid URL: /x")),
        (
            "[...new URLSearchParams('?a=1&a=%C3%BC+%ff&b&c=%zz')]",
            json!([["a", "1"], ["a", "ü \u{fffd}"], ["b", ""], ["c", "%zz"]]),
        ),
        ("new URLSearchParams('a=\u{f8ff}%41+%').get('a')", json!("\u{f8ff}A %")),
        (
            "[new URLSearchParams({ a: 1, b: \"it's\" }).toString(), new URLSearchParams([['x', 'y']]).toString()]",
            json!(["a=1&b=it%27s", "x=y"]),
        ),
        (
            "const p = new URLSearchParams('b=1&a=2&b=3'); p.sort(); p.delete('b', '1'); [p.toString(), p.has('b', '3'), p.getAll('b')]",
            json!(["a=2&b=3", true, ["3"]]),
        ),
    ] {
        assert_eq!(value(code), result, "{code}");
    }
}

#[test]
fn globals_of_the_web() {
    for (code, result) in [
        (
            "Array.from(new TextEncoder().encode('aü€😀\\ud800'))",
            json!([97, 195, 188, 226, 130, 172, 240, 159, 152, 128, 239, 191, 189]),
        ),
        ("new TextEncoder().encodeInto('a€b', new Uint8Array(4))", json!({ "read": 2, "written": 4 })),
        (
            "const d = new TextDecoder(); const b = new TextEncoder().encode('\\ufeffa😀'); \
          let t = ''; for (const byte of b) t += d.decode(new Uint8Array([byte]), { stream: true }); [t + d.decode(), new TextDecoder().decode(b.buffer)]",
            json!(["a😀", "a😀"]),
        ),
        (
            "const bad = new Uint8Array([97, 255]); let e; try { new TextDecoder('utf-8', { fatal: true }).decode(bad) } catch (x) { e = x.name }\n\
          let l; try { new TextDecoder('latin1') } catch (x) { l = x.name }\n[new TextDecoder().decode(bad), e, l]",
            json!(["a\u{fffd}", "TypeError", "RangeError"]),
        ),
        (
            "const a = { d: new Date(0), m: new Map([[1, new Set([2])]]), b: new Uint8Array([1, 2]), n: undefined, r: /x/g, e: new RangeError('x') }; a.self = a; \
          const c = structuredClone(a); a.b[0] = 9; \
          [c !== a, c.self === c, c.d.getTime(), [...c.m.get(1)], [...c.b], 'n' in c, c.r.flags, c.e instanceof RangeError]",
            json!([true, true, 0, [2], [1, 2], true, "g", true]),
        ),
        (
            "try { structuredClone(() => {}) } catch (error) { [error.name, error instanceof DOMException] }",
            json!(["DataCloneError", true]),
        ),
        (
            "const ids = Array.from({ length: 100 }, () => crypto.randomUUID()); \
          [new Set(ids).size, ids.every((id) => /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(id))]",
            json!([100, true]),
        ),
        (
            "const a = crypto.getRandomValues(new Uint32Array(64)); [a.length, new Set(a).size > 60]",
            json!([64, true]),
        ),
        (
            "try { crypto.getRandomValues(new Uint8Array(65537)) } catch (error) { error.name }",
            json!("QuotaExceededError"),
        ),
        (
            "const from = performance.now(); await new Promise((d) => setTimeout(d, 20)); const took = performance.now() - from; [from >= 0 && from < 5000, took >= 19]",
            json!([true, true]),
        ),
        (
            "let n = 0; await new Promise((done) => { const id = setInterval((by) => { n += by; if (n === 6) { clearInterval(id); setTimeout(done, 20) } }, 1, 2) }); n",
            json!(6),
        ),
        (
            "const c = new AbortController(); const seen = []; c.signal.addEventListener('abort', () => seen.push('heard')); c.abort(); c.abort(); \
          try { c.signal.throwIfAborted() } catch (error) { seen.push(error.name, c.signal.aborted) } seen",
            json!(["heard", "AbortError", true]),
        ),
        (
            "try { await fetch('http://never', { signal: AbortSignal.timeout(5) }) } catch (error) { error.name }",
            json!("TimeoutError"),
        ),
        (
            "try { await fetch('http://a', { signal: AbortSignal.abort() }) } catch (error) { error.name }",
            json!("AbortError"),
        ),
        (
            "const r = await fetch(new URL('http://a/?x'), { method: 'POST', body: new URLSearchParams({ a: 'b c' }) }); const { url, body, headers } = await r.json(); [url, body, headers]",
            json!(["http://a/?x", "a=b+c", { "content-type": "application/x-www-form-urlencoded;charset=UTF-8" }]),
        ),
    ] {
        assert_eq!(value(code), result, "{code}");
    }
    assert_eq!(failure("throw new DOMException('gone', 'AbortError')").message, "AbortError: gone");
    assert_eq!(
        failure("AbortSignal.abort().throwIfAborted()").message,
        "AbortError: the operation was aborted"
    );
    assert_eq!(value("new Date(0).toLocaleDateString()"), json!("01/01/1970"));
    for code in [
        "new Intl.NumberFormat('de')",
        "(1234.5).toLocaleString()",
        "new Date(0).toLocaleDateString('de')",
        "[1].toLocaleString()",
    ] {
        let message = failure(code).message;
        assert!(message.contains("is not available, because scripts have no locales"), "{code}: {message}");
    }
}

#[test]
fn random_numbers() {
    let of = |seed| {
        // Whole numbers, whose digits are the same on every way.
        let code = "Array.from({ length: 1000 }, () => Math.floor(Math.random() * 2 ** 40))".to_owned();
        let ran = start(Start { code, seed, ..Start::default() });
        serde_json::from_value::<Vec<u64>>(ran.done.expect("numbers")).expect("whole numbers")
    };
    let (one, other) = (of(1), of(2));
    assert!(one.iter().chain(&other).all(|number| *number < 1 << 40));
    assert_eq!(one, of(1));
    assert!(one.iter().all(|number| !other.contains(number)), "another start gives other numbers");
    let low = one.iter().filter(|number| **number < 1 << 39).count();
    assert!((400..600).contains(&low), "{low} of 1000 are below a half");
    // The function is as that of the engine.
    assert_eq!(
        value(
            "const { enumerable, writable } = Object.getOwnPropertyDescriptor(Math, 'random'); let made;\n\
             try { new Math.random() } catch (error) { made = error.name }\n\
             [enumerable, writable, Math.random.name, Math.random.length, made]"
        ),
        json!([false, true, "random", 0, "TypeError"])
    );
}
