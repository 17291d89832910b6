//! Scripts that do not want to end. Every host ends them.

use koze_script::limits::Limit;

/// Scripts that do not want to end, and the limit that ends them. They have 400 ms.
pub(crate) const HOSTILE: &[(&str, &str, Option<Limit>)] = &[
    ("a loop", "while (true) {}", Some(Limit::Time)),
    (
        "a loop that catches",
        "for (;;) { try { for (;;) {} } catch {} finally { for (;;) {} } }",
        Some(Limit::Time),
    ),
    (
        "promises without end",
        "const f = () => Promise.resolve().then(f); await f(); await new Promise(() => {})",
        Some(Limit::Time),
    ),
    ("a regular expression", "/^(a+)+$/.test('a'.repeat(40) + 'b')", Some(Limit::Time)),
    (
        "a built-in function",
        "const a = Array(200000).fill(1.5); let n = 0; for (let i = 0; i < 1000; i++) n += JSON.stringify(a).length; return n",
        Some(Limit::Time),
    ),
    (
        "a sort",
        "for (;;) Array.from({ length: 300000 }, (_, i) => (i * 7919) % 300007).sort()",
        Some(Limit::Time),
    ),
    ("memory", "const a = []; for (;;) a.push(new Uint8Array(1000000))", Some(Limit::Memory)),
    (
        "memory that it catches",
        "const a = []; for (;;) { try { a.push('x'.repeat(1000000) + a.length) } catch {} }",
        None,
    ),
    ("one large text", "'x'.repeat(2 ** 29)", None),
    ("a promise that never settles", "await new Promise(() => {})", None),
    ("a call that never answers", "await fetch('http://slow')", Some(Limit::Time)),
    (
        "timers",
        "for (let i = 0; i < 10000; i++) setTimeout(() => {}, 30000); await new Promise(() => {})",
        None,
    ),
    ("recursion", "const f = () => f() + 1; f()", None),
    ("a getter that loops", "return { get a() { for (;;) {} } }", Some(Limit::Time)),
    ("a proxy that loops", "return new Proxy({}, { ownKeys() { for (;;) {} } })", Some(Limit::Time)),
    ("a log without end", "for (;;) console.log('x'.repeat(1000))", Some(Limit::Time)),
    ("calls without end", "for (;;) state.set('a', 'x'.repeat(100000))", None),
];
