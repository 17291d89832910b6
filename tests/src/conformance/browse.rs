//! `browse`.

use serde_json::json;

use super::Capability::{Exec, Expose, List};
use super::session::{Session, text};
use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case("browse_ports_there_are_not", ports),
    case("browse_where_it_cannot", cannot).lacks(&[Expose]),
    case("browse_reaches_a_server", reaches).needs(&[Exec, Expose]),
    case("browse_port_of_the_sdk", port_of_the_sdk).needs(&[Exec, Expose]),
    case("browse_is_private_to_the_sandbox", private).needs(&[Exec, Expose]),
];

fn ports(session: &Session) {
    for port in [json!(-1), json!(0), json!(80), json!(1023), json!(65536), json!(8080.5), json!("8080")] {
        session.fails("browse", json!({ "port": port }), "invalid_input");
    }
    session.fails("browse", json!({}), "invalid_input");
    if session.can(List) {
        assert_eq!(session.sandboxes(), [""; 0], "none of these made a sandbox");
    }
}

fn cannot(session: &Session) {
    session.fails("browse", json!({ "port": 8080 }), "unsupported");
}

/// Starts a server in the background of a sandbox, in any installed language.
fn serve(session: &Session, sandbox: &str, port: u16, answer: &str) {
    let node =
        "require('http').createServer((q, r) => r.end(process.argv[2] + q.url)).listen(+process.argv[1])";
    let python = "import sys, http.server as h\n\
        class H(h.BaseHTTPRequestHandler):\n\
        \x20def do_GET(s): b = (sys.argv[2] + s.path).encode(); s.send_response(200); s.send_header('Content-Length', str(len(b))); s.end_headers(); s.wfile.write(b)\n\
        h.HTTPServer(('127.0.0.1', int(sys.argv[1])), H).serve_forever()";
    let perl = "use Socket; my ($p, $a) = @ARGV; socket(S, PF_INET, SOCK_STREAM, 6); setsockopt(S, SOL_SOCKET, SO_REUSEADDR, 1); \
        bind(S, sockaddr_in($p, INADDR_LOOPBACK)) or die; listen(S, 9); \
        while (accept(C, S)) { my $l = <C>; $l =~ m{^GET (\\S+)}; my $b = \"$a$1\"; while (<C>) { last if /^\\r?$/ } \
        syswrite(C, \"HTTP/1.1 200 OK\\r\\nConnection: close\\r\\nContent-Length: \" . length($b) . \"\\r\\n\\r\\n$b\"); close C }";
    for (path, program) in [("s.js", node), ("s.py", python), ("s.pl", perl)] {
        session.ok("write_file", json!({ "sandbox": sandbox, "path": path, "content": program }));
    }
    let start = format!(
        "if command -v node; then node -e \"$(cat s.js)\" {port} {answer} & \
         elif command -v python3; then python3 s.py {port} {answer} & \
         elif command -v perl; then perl s.pl {port} {answer} & else exit 1; fi"
    );
    assert_eq!(session.run_in(sandbox, &start)["exit_code"], 0, "no language for a server in the sandbox");
    let ready = format!("(exec 3<> /dev/tcp/127.0.0.1/{port}) 2> /dev/null");
    session.until("the server listens", |session| session.run_in(sandbox, &ready)["exit_code"] == 0);
}

fn url(session: &Session, sandbox: &str, port: u16) -> String {
    text(&session.ok("browse", json!({ "sandbox": sandbox, "port": port }))["url"])
}

fn reaches(session: &Session) {
    serve(session, "default", 8080, "one");
    let first = url(session, "default", 8080);
    let (status, body) = session.get(&first, "/a?b=c");
    assert_eq!(status, 200, "{body}");
    assert!(body.contains("one/a?b=c"), "{body}");
    assert_eq!(url(session, "default", 8080), first, "the URL stays the same as long as the sandbox lives");
    let listens = session.ok("browse", json!({ "port": 8080 }));
    assert_eq!(listens.get("note"), None, "{listens}");
    let silent = session.ok("browse", json!({ "port": 8099 }));
    let note = silent["note"].as_str().unwrap_or_default();
    assert!(note.starts_with("nothing listens on port 8099 yet: "), "{silent}");
    assert!(session.get(&text(&silent["url"]), "/").0 >= 500, "nobody listens there");
}

/// Sandboxes of the SDK reserve the port and reject it with a suggestion. Elsewhere it is an ordinary port.
fn port_of_the_sdk(session: &Session) {
    let result = session.call("browse", json!({ "port": 3000 }));
    if result.is_error {
        let says = ["invalid_input: ", "port 3000 cannot be reached", "reserved", "8080"];
        assert!(says.iter().all(|part| result.content.contains(part)), "{}", result.content);
        return;
    }
    serve(session, "default", 3000, "three");
    let (status, body) = session.get(&url(session, "default", 3000), "/");
    assert!(status == 200 && body.contains("three"), "{status} {body}");
}

fn private(session: &Session) {
    serve(session, "a", 8080, "one");
    serve(session, "b", 8080, "two");
    let (one, two) = (url(session, "a", 8080), url(session, "b", 8080));
    assert_ne!(one, two);
    assert!(session.get(&one, "/").1.contains("one") && session.get(&two, "/").1.contains("two"));
    let elsewhere = session.other("elsewhere");
    elsewhere.ok("sandbox_create", json!({ "sandbox": "a" }));
    assert_ne!(url(&elsewhere, "a", 8080), one, "nor does another session have it");
    // Replace one character of the token by another valid one.
    let (before, after) = one.split_at(one.find('.').expect("a name below another") - 1);
    let guessed = format!("{before}{}{}", if after.starts_with('a') { 'b' } else { 'a' }, &after[1..]);
    let (status, body) = session.get(&guessed, "/");
    assert!((400..500).contains(&status) && !body.contains("one"), "{status} {body}");
    if session.can(List) {
        assert_eq!(session.sandboxes(), ["a", "b"], "and to ask made none");
    }
}
