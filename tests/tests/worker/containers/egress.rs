//! What sandboxes reach of the internet: a server on this machine's loopback address, through the sidecar of the tests,
//! workerd and the gate of the Worker.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use serde_json::json;

use super::calls::{exec_for, one, open, sandbox};
use super::engine::engine;
use super::project::{egress_worker, start_among};
use crate::dev::run::Client;

/// The names that are this machine's, where the Worker runs.
const NAMES: [&str; 7] = [
    "allowed.test",
    "a.wide.test",
    "a.b.wide.test",
    "wide.test",
    "notallowed.test",
    "denied.test",
    "a.deep.test",
];

/// A server for all names there are, which remembers who was asked for.
struct Internet {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Internet {
    fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("its number").port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let list = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let list = Arc::clone(&list);
                thread::spawn(move || serve(stream, &list));
            }
        });
        Internet { port, asked }
    }

    /// Whether a name was asked for since the last time.
    fn heard_of(&self, name: &str) -> bool {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *asked).iter().any(|host| host.split(':').next() == Some(name))
    }
}

fn serve(mut stream: TcpStream, asked: &Mutex<Vec<String>>) {
    let mut lines = BufReader::new(stream.try_clone().expect("another handle")).lines().map_while(Result::ok);
    let first = lines.next().unwrap_or_default();
    let host = lines.take_while(|line| !line.is_empty()).find_map(|line| {
        let (name, host) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("host").then(|| host.to_owned())
    });
    let host = host.unwrap_or_default();
    asked.lock().unwrap_or_else(PoisonError::into_inner).push(host.clone());
    let body = format!("reached {host}");
    let (status, more) = match first.contains(" /moved ") {
        true => ("302 Found", "location: http://denied.test/\r\n"),
        false => ("200 OK", ""),
    };
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\n{more}content-length: {length}\r\nconnection: close\r\n\r\n");
    let _ = stream.write_all(format!("{head}{body}").as_bytes());
}

/// What became of a request from within a sandbox.
#[derive(Debug, PartialEq)]
enum Became {
    /// The server has it, and its answer came back.
    Reached,
    /// The gate has refused it, in words of its own.
    Refused,
    /// Nothing came back at all.
    Nothing,
    /// Something else.
    Other(String),
}

/// Asks for a path of a host, by way of an address and a port, from within a sandbox: the head and the body that come.
fn ask(dev: &Client, object: &str, (address, port): (&str, u16), host: &str, path: &str) -> String {
    let script = "exec 3<>\"/dev/tcp/$1/$2\" || exit 7
        printf 'GET %s HTTP/1.1\\r\\nHost: %s\\r\\nConnection: close\\r\\n\\r\\n' \"$4\" \"$3\" >&3; cat <&3";
    let port = port.to_string();
    let answer =
        one(dev, object, &exec_for(&["bash", "-c", script, "bash", address, &port, host, path], 10_000));
    assert_eq!(answer["ok"], true, "{object}: {answer}");
    assert_eq!(answer["value"]["timedOut"], false, "{object}: {answer}");
    let script = "return Buffer.from(data, 'base64').toString()";
    let text = dev.ask(script, &answer["value"]["stdout"]["base64"]);
    text.as_str().expect("a text").to_owned()
}

/// The same for a name and a port of the internet, which is at another of this machine: the request names it.
fn became(dev: &Client, internet: &Internet, object: &str, (name, port): (&str, u16)) -> Became {
    let said = ask(dev, object, (name, port), &format!("{name}:{}", internet.port), "/");
    let heard = internet.heard_of(name);
    let begins = |start: &str| said.starts_with(start);
    if begins("HTTP/1.1 200") && said.ends_with(&format!("reached {name}:{}", internet.port)) && heard {
        Became::Reached
    } else if begins("HTTP/1.1 403")
        && said.ends_with(&format!("The sandbox may not reach {name}\n"))
        && !heard
    {
        Became::Refused
    } else if said.is_empty() && !heard {
        Became::Nothing
    } else {
        Became::Other(format!("{said:?}, and the server has heard of it: {heard}"))
    }
}

#[test]
fn sandboxes_reach_what_their_attribute_says() {
    use Became::{Nothing, Reached, Refused};

    let Some(engine) = engine() else { return };
    let worker = egress_worker(&engine);
    let internet = Internet::start();
    let running = start_among(&worker, &engine, &NAMES);
    let dev = running.client();
    // The network is there as soon as one container is, and workerd listens in it from then on.
    sandbox(&dev, &engine, "first");
    let [nothing, all, allowed, denied] =
        ["SHELL_SANDBOX.a", "OPEN_SANDBOX.a", "ALLOWED_SANDBOX.a", "DENIED_SANDBOX.a"];
    for object in [nothing, all, allowed, denied] {
        assert_eq!(one(&dev, object, &open())["ok"], true);
    }
    let port = internet.port;
    let mut wrong = Vec::new();
    let mut expect = |object: &str, to: (&str, u16), what: Became| {
        let became = became(&dev, &internet, object, to);
        if became != what {
            wrong.push(format!("{object} to {to:?}: {became:?}, and not {what:?}"));
        }
    };
    for name in NAMES {
        // Where there is no policy, connections go through as they are, or not at all.
        expect(nothing, (name, 80), Nothing);
        expect(nothing, (name, port), Nothing);
        expect(all, (name, port), Reached);
        // Where there is one, requests are judged.
        let is_listed = ["allowed.test", "a.wide.test", "a.b.wide.test"].contains(&name);
        expect(allowed, (name, 80), if is_listed { Reached } else { Refused });
        expect(allowed, (name, port), Nothing);
        let is_listed = ["denied.test", "a.deep.test"].contains(&name);
        expect(denied, (name, 80), if is_listed { Refused } else { Reached });
        // What goes to other ports than those of HTTP and HTTPS is judged by nobody, and this sandbox has the internet.
        expect(denied, (name, port), Reached);
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), engine.log());

    // By an address, and by another name than that of the request: what is asked for counts.
    let address = "198.18.0.1";
    let host = |name: &str| format!("{name}:{port}");
    for (object, to) in
        [(allowed, address), (denied, address), (allowed, "allowed.test"), (denied, "wide.test")]
    {
        let said = ask(&dev, object, (to, 80), &host("denied.test"), "/");
        assert!(said.starts_with("HTTP/1.1 403"), "{object} to {to}: {said}");
    }
    assert_eq!(ask(&dev, nothing, (address, 80), &host("allowed.test"), "/"), "");
    assert_eq!(ask(&dev, nothing, (address, port), &host("allowed.test"), "/"), "");
    assert!(!internet.heard_of("denied.test") && !internet.heard_of("allowed.test"));
    // A way on to a host is told, and not gone.
    let said = ask(&dev, allowed, ("allowed.test", 80), &host("allowed.test"), "/moved");
    assert!(said.starts_with("HTTP/1.1 302") && said.contains("http://denied.test/"), "{said}");
    assert!(!internet.heard_of("denied.test"));

    // The policy is that of the class, also of a container that comes after this one, and where the object has ended.
    let container = sandbox(&dev, &engine, allowed);
    engine.podman(&["kill", &container]);
    one(&dev, allowed, &exec_for(&["true"], 2_000));
    assert_eq!(became(&dev, &internet, allowed, ("allowed.test", 80)), Reached);
    assert_eq!(became(&dev, &internet, allowed, ("denied.test", 80)), Refused);
    assert_eq!(dev.call(allowed, &json!([["kozeDestroy", {}], open()]))[1]["value"]["created"], true);
    assert_eq!(became(&dev, &internet, allowed, ("denied.test", 80)), Refused);
    assert_eq!(became(&dev, &internet, allowed, ("allowed.test", 80)), Reached);
}
