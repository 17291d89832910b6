//! The hosts on the internet that sandboxes can reach: servers on this machine's loopback address, with and without
//! TLS, through the tests' sidecar, workerd, and the Worker's egress policy.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use koze_sidecar::Authority;
use rustls::{ServerConnection, StreamOwned};
use serde_json::json;

use super::calls::{exec_for, one, open, sandbox};
use super::engine::engine;
use super::project::{egress_worker, start_among};
use crate::dev::run::Client;

/// The host names that resolve to this machine where the Worker runs.
const NAMES: [&str; 7] = [
    "allowed.test",
    "a.wide.test",
    "a.b.wide.test",
    "wide.test",
    "notallowed.test",
    "denied.test",
    "a.deep.test",
];

/// The port of HTTPS.
const HTTPS: u16 = 443;

/// A server for all host names, which records the requested paths. Over HTTPS, its own authority certifies the names
/// that resolve to this machine.
struct Internet {
    http: u16,
    https: u16,
    authority: Authority,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Internet {
    fn start() -> Self {
        let authority = Authority::new().expect("an authority");
        let tls = authority.server(&NAMES).expect("its certificate");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let list = Arc::clone(&asked);
        let http = listen(move |stream| serve(stream, &list));
        let list = Arc::clone(&asked);
        let https = listen(move |stream| {
            let session = ServerConnection::new(Arc::clone(&tls)).expect("a session");
            serve(StreamOwned::new(session, stream), &list);
        });
        Internet { http, https, authority, asked }
    }

    /// Returns the server's port for requests to a standard port.
    fn port(&self, port: u16) -> u16 {
        if port == HTTPS { self.https } else { self.http }
    }

    /// Returns whether a path was requested.
    fn heard_of(&self, path: &str) -> bool {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|asked| asked == path)
    }
}

/// Listens on a free port, and returns it.
fn listen(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("its number").port();
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let serve = Arc::clone(&serve);
            thread::spawn(move || serve(stream));
        }
    });
    port
}

fn serve(mut stream: impl Read + Write, asked: &Mutex<Vec<String>>) {
    let mut lines = BufReader::new(&mut stream).lines().map_while(Result::ok);
    let first = lines.next().unwrap_or_default();
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let host = lines.take_while(|line| !line.is_empty()).find_map(|line| {
        let (name, host) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("host").then(|| host.to_owned())
    });
    let host = host.unwrap_or_default();
    let (status, more) = if path.ends_with("/moved") {
        ("302 Found", "location: http://denied.test/\r\n")
    } else {
        ("200 OK", "")
    };
    asked.lock().unwrap_or_else(PoisonError::into_inner).push(path);
    let body = format!("reached {host}");
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\n{more}content-length: {length}\r\nconnection: close\r\n\r\n");
    let _ = stream.write_all(format!("{head}{body}").as_bytes());
}

/// The outcome of a request from a sandbox.
#[derive(Debug, PartialEq)]
enum Became {
    /// The server received it, and the response came back.
    Reached,
    /// The server received it and returned a redirect.
    Moved,
    /// The egress policy refused it, with its own message.
    Refused,
    /// No response came back.
    Nothing,
    /// Something else.
    Other(String),
}

/// A request: the name or address and the port to connect to, and the requested host. Connections to the HTTPS port use
/// TLS, with the name as the server name, or none for an address.
type Request<'a> = (&'a str, u16, &'a str);

/// Makes requests sequentially and prints the outcomes. Its arguments are the ports of the server, and four words for
/// each request. TLS clients find the trusted authority in the sandbox's environment.
///
/// workerd keeps connections open for a while, so only the announced length of a response is read.
const SCRIPT: &str = r#"http=$1 https=$2; shift 2
    connect() {
      if (($2 != 443)); then exec 3<>"/dev/tcp/$1/$2" 4>&3; return; fi
      local name=(-servername "$1" -verify_hostname "$1")
      [[ $1 == *[a-z]* ]] || name=(-noservername)
      coproc openssl s_client -quiet -verify_return_error "${name[@]}" -connect "$1:$2"
      exec 3<&"${COPROC[0]}" 4>&"${COPROC[1]}"
      trap "kill $COPROC_PID" EXIT
    }
    ask() {
      local line length=0 port=$http
      connect "$1" "$2" || return
      (($2 != 443)) || port=$https
      printf 'GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n' "$4" "$3:$port" >&4
      while IFS= read -r line <&3; do
        printf '%s\n' "$line"
        line=${line,,}
        [[ $line != content-length:* ]] || length=${line//[^0-9]/}
        [[ $line != $'\r' ]] || break
      done
      head -c "$length" <&3
    }
    while (($#)); do
      (ask "$@") 2>/dev/null
      printf '\n=====\n'; shift 4
    done"#;

/// Returns the requests whose outcome is not as expected. Intercepted requests must name the server's actual port,
/// which differs from the standard ones.
fn became(dev: &Client, internet: &Internet, object: &str, requests: &[(Request, Became)]) -> Vec<String> {
    // Every request has a unique path, which shows whether it has arrived.
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let paths: Vec<String> = requests
        .iter()
        .map(|(_, what)| {
            let number = ASKED.fetch_add(1, Ordering::Relaxed);
            if *what == Became::Moved { format!("/{number}/moved") } else { format!("/{number}") }
        })
        .collect();
    let mut argv = ["bash", "-c", SCRIPT, "bash"].map(str::to_owned).to_vec();
    argv.extend([internet.http, internet.https].map(|port| port.to_string()));
    for (((to, port, name), _), path) in requests.iter().zip(&paths) {
        argv.extend([(*to).to_owned(), port.to_string(), (*name).to_owned(), path.clone()]);
    }
    let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
    let mut call = exec_for(&argv, 60_000);
    call[1]["maxOutput"] = json!(1 << 20);
    let answers = dev.call(object, &json!([open(), call]));
    let answer = &answers[1]["value"];
    assert_eq!(
        (&answer["exitCode"], &answer["timedOut"]),
        (&json!(0), &json!(false)),
        "{object}: {answers:?}"
    );
    let printed = STANDARD.decode(answer["stdout"]["base64"].as_str().expect("bytes")).expect("base64");
    let printed = String::from_utf8(printed).expect("a text");
    let mut output: Vec<&str> = printed.split("\n=====\n").collect();
    assert_eq!(output.pop(), Some(""), "{object}: {printed}");
    assert_eq!(output.len(), requests.len(), "{object}: {printed}");
    let mut wrong = Vec::new();
    for (((request, what), output), path) in requests.iter().zip(output).zip(&paths) {
        let became = judged(output, request.2, internet.heard_of(path), internet.port(request.1));
        if became != *what {
            wrong.push(format!("{object}, {request:?}: {became:?}, and not {what:?}"));
        }
    }
    wrong
}

fn judged(output: &str, name: &str, heard: bool, port: u16) -> Became {
    let is = |start: &str, end: &str| output.starts_with(start) && output.ends_with(end);
    let reached = format!("reached {name}:{port}");
    if heard && is("HTTP/1.1 200", &reached) {
        Became::Reached
    } else if heard && is("HTTP/1.1 302", &reached) && output.contains("http://denied.test/") {
        Became::Moved
    } else if !heard && is("HTTP/1.1 403", &format!("The sandbox may not reach {name}:{port}\n")) {
        Became::Refused
    } else if !heard && output.is_empty() {
        Became::Nothing
    } else {
        Became::Other(format!("{output:?}, and the server has heard of it: {heard}"))
    }
}

#[test]
fn sandboxes_reach_what_their_attribute_says() {
    use Became::{Moved, Nothing, Reached, Refused};

    let Some(engine) = engine() else { return };
    let internet = Internet::start();
    let worker = egress_worker(&engine, [internet.http, internet.https]);
    let port = internet.http;
    let running = start_among(&worker, &engine, &NAMES, internet.authority.certificate());
    let dev = running.client();
    // The network exists from the first container on, and workerd listens in it then.
    sandbox(&dev, &engine, "first");

    let address = "198.18.0.1";
    let [mut nothing, mut all, mut allowed, mut denied] = [const { Vec::new() }; 4];
    for name in NAMES {
        // Without a policy, connections pass unchanged, or not at all.
        nothing.extend([80, HTTPS, port].map(|port| ((name, port, name), Nothing)));
        all.push(((name, port, name), Reached));
        // With a policy, HTTP and HTTPS requests are checked. Connections to other ports are not checked: they either
        // pass or do not.
        let is_listed = ["allowed.test", "a.wide.test", "a.b.wide.test"].contains(&name);
        let judged = |port| ((name, port, name), if is_listed { Reached } else { Refused });
        allowed.extend([judged(80), judged(HTTPS), ((name, port, name), Nothing)]);
        let is_listed = ["denied.test", "a.deep.test"].contains(&name);
        let judged = |port| ((name, port, name), if is_listed { Refused } else { Reached });
        denied.extend([judged(80), judged(HTTPS), ((name, port, name), Reached)]);
    }
    // Connecting to an address, or to another name than that of the request: the requested host counts.
    nothing.extend([((address, 80, "allowed.test"), Nothing), ((address, port, "allowed.test"), Nothing)]);
    for to in [address, "allowed.test"] {
        allowed.extend([((to, 80, "denied.test"), Refused), ((to, 80, "allowed.test"), Reached)]);
        denied.extend([((to, 80, "denied.test"), Refused), ((to, 80, "allowed.test"), Reached)]);
    }
    let other = ("allowed.test", HTTPS, "denied.test");
    allowed.extend([(other, Refused), ((address, HTTPS, "allowed.test"), Nothing)]);
    denied.push((other, Refused));
    // Redirects are returned and not followed.
    allowed.push((("allowed.test", 80, "allowed.test"), Moved));
    let mut wrong = Vec::new();
    let all = [("SHELL", nothing), ("OPEN", all), ("ALLOWED", allowed), ("DENIED", denied)];
    for (class, requests) in &all {
        wrong.extend(became(&dev, &internet, &format!("{class}_SANDBOX.a"), requests));
    }

    // The policy belongs to the class, so it applies to a later container and to another sandbox, too.
    let [_, _, (_, allowed), _] = &all;
    let object = "ALLOWED_SANDBOX.a";
    engine.podman(&["kill", &sandbox(&dev, &engine, object)]);
    wrong.extend(became(&dev, &internet, object, &allowed[..4]));
    assert_eq!(one(&dev, object, &json!(["destroy", {}]))["ok"], true);
    wrong.extend(became(&dev, &internet, object, &allowed[..4]));
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), engine.log());
}
