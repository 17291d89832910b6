//! How much memory requests take that are all values, as small as JSON can write them.

use fs_err as fs;
use koze_tests::Sandboxes;

use crate::http::{JSON, bearer, send};
use crate::server::{Http, project};

/// How many bytes the values of a request have.
const SIZE: usize = 19_000_000;
/// How much memory a process may take for each byte of a request: it holds it as text several times, in buffers that double.
/// As values, `[0],` takes a hundred times as much.
const MOST: u64 = 10;

/// What a client sends.
struct Attack {
    path: &'static str,
    body: String,
    /// The status, and a part of the answer.
    expected: (u16, &'static str),
}

fn attacks() -> Vec<Attack> {
    let lists = format!("[{}0]", "[0],".repeat(SIZE / 4));
    let objects = format!("[{}0]", "{\"a\":0},".repeat(SIZE / 8));
    let call = "/sessions/default/tools/shell";
    let tool = |body: String, expected| Attack { path: call, body, expected };
    let message = |method: &str, params: &str, expected| Attack {
        path: "/mcp",
        body: format!(r#"{{"jsonrpc":"2.0","id":2,"method":"{method}","params":{params}}}"#),
        expected,
    };
    let many = "too_large: the JSON has too many values";
    // Fewer values than are refused: no tool has this member, so that they are never built.
    let fewer = format!("[{}0]", "[0],".repeat(500_000));
    vec![
        tool(format!(r#"{{"command":"true","x":{lists}}}"#), (200, many)),
        tool(format!(r#"{{"command":"true","x":{objects}}}"#), (200, many)),
        tool(lists.clone(), (200, many)),
        tool(format!(r#"{{"command":"true","x":{fewer}}}"#), (200, "unknown field `x`")),
        message("tools/call", &format!(r#"{{"name":"shell","arguments":{{"x":{lists}}}}}"#), (200, many)),
        message(
            "tools/call",
            &format!(r#"{{"name":"shell","arguments":{{"x":{fewer}}}}}"#),
            (200, "unknown field `x`"),
        ),
        message("tools/call", &format!(r#"{{"name":"shell","_meta":{{"x":{lists}}}}}"#), (200, many)),
        message("tools/call", &format!(r#"{{"name":"shell","x":{lists}}}"#), (413, "at most 16384 values")),
        message("ping", &format!(r#"{{"x":{lists}}}"#), (413, "at most 16384 values")),
    ]
}

/// Forgets how much memory a process has had.
fn forget(process: u32) {
    fs::write(format!("/proc/{process}/clear_refs"), "5").expect("a process of this user");
}

/// Returns how much memory a process has had since then, in bytes.
fn peak(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("a process");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
    1024 * peak.expect("a peak").parse::<u64>().expect("a number")
}

/// The processes that handle a call.
fn processes(host: &Sandboxes, server: &Http) -> Vec<u32> {
    let supervisors = host.supervisors().into_iter();
    supervisors.map(i32::cast_unsigned).chain([server.id()]).collect()
}

#[test]
fn values_are_not_built() {
    let host = project();
    let server = Http::start(&host, &[]);
    let headers = format!("Host: {}\r\n{JSON}{}", server.address(), bearer(&server));
    let ask = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"hand","version":"1"}}}"#;
    let begun = send(&server, "POST /mcp", &headers, ask.as_bytes()).1;
    let session = begun.lines().find(|line| line.to_lowercase().starts_with("mcp-session-id:"));
    let headers = format!("{headers}{}\r\n", session.expect("a session").trim());
    send(&server, "POST /mcp", &headers, br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    // Ordinary input of this size is accepted. It starts the supervisor.
    let content = "ä\\n".repeat(SIZE / 4);
    let write = Attack {
        path: "/sessions/default/tools/write_file",
        body: format!(r#"{{"path":"f","content":"{content}"}}"#),
        expected: (200, r#"\"size\":14250000"#),
    };
    let first = Attack {
        path: "/sessions/default/tools/shell",
        body: r#"{"command":"true"}"#.into(),
        expected: (200, ""),
    };
    for Attack { path, body, expected: (status, part) } in [first, write].into_iter().chain(attacks()) {
        let all = processes(&host, &server);
        let before: Vec<u64> = all
            .iter()
            .map(|process| {
                forget(*process);
                peak(*process)
            })
            .collect();
        let headers =
            if path == "/mcp" { headers.clone() } else { headers.replace(", text/event-stream", "") };
        let (told, answer) = send(&server, &format!("POST {path}"), &headers, body.as_bytes());
        let start: String = body.chars().take(80).collect();
        for (process, before) in all.into_iter().zip(before) {
            let taken = peak(process).saturating_sub(before);
            assert!(
                taken <= MOST * body.len() as u64 + (4 << 20),
                "{path} {start}: {} bytes took {taken} bytes of memory",
                body.len()
            );
        }
        let shown: String = answer.chars().take(2000).collect();
        assert!(told == status && answer.contains(part), "{path} {start}: {told} {shown}");
    }
    assert_eq!(server.end(), "");
}
