//! `fetch` and `fetch_url`: which servers scripts reach, and what a server can do to them. The internet is made of servers in this
//! process.

use std::collections::HashMap;
use std::io::{BufReader, Read as _, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use koze_core::script::Egress;
use koze_core::{Profiles, Session, SessionId};
use koze_local::{Internet, Local, Secrets};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::Test;
use crate::server;
use crate::stage::within;

pub(crate) const TESTS: &[Test] = &[
    ("fetch_reaches_a_server", reaches),
    ("fetch_is_off_by_default", off_by_default),
    ("fetch_follows_the_policy", policy),
    ("fetch_refuses_nearby_addresses", nearby),
    ("fetch_refuses_names_of_nearby_addresses", nearby_names),
    ("fetch_refuses_redirects_to_nearby_addresses", nearby_redirects),
    ("fetch_refuses_a_name_that_moves", rebinding),
    ("fetch_follows_redirects", redirects),
    ("fetch_limits_bodies", bodies),
    ("fetch_ends_in_time", times),
    ("fetch_survives_bad_servers", bad_servers),
    ("fetch_injects_no_headers", injection),
    ("fetch_decompresses_nothing", compressed),
    ("fetch_verifies_certificates", certificates),
    ("fetch_masks_secrets", masks),
    ("fetch_ends_with_its_script", ends),
    ("fetch_runs_a_few_at_once", at_once),
];

/// A server, and how many connections it accepted.
struct Server {
    at: SocketAddr,
    accepted: Arc<AtomicUsize>,
}

impl Server {
    /// Answers each request with a function that gets its head.
    fn new(answer: impl Fn(&str, &mut TcpStream) -> std::io::Result<()> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let accepted = Arc::new(AtomicUsize::new(0));
        let (answer, count) = (Arc::new(answer), Arc::clone(&accepted));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                count.fetch_add(1, Ordering::AcqRel);
                let answer = Arc::clone(&answer);
                std::thread::spawn(move || {
                    let head = server::head(&mut BufReader::new(stream.try_clone()?))?;
                    answer(&head, &mut stream)
                });
            }
        });
        Server { at, accepted }
    }

    /// Redirects each request for `/to/URL` to the URL, and answers others.
    fn redirecting() -> Self {
        Server::new(|head, stream| match path(head).strip_prefix("/to/") {
            Some(to) => write!(stream, "HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n"),
            None => write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhere"),
        })
    }

    fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Acquire)
    }
}

fn path(head: &str) -> &str {
    head.split(' ').nth(1).unwrap_or_default()
}

/// A session whose scripts can use an internet.
struct Scene {
    session: Session<Local>,
    state: TempDir,
}

impl Scene {
    fn new(internet: Internet, egress: Egress) -> Self {
        let state = tempfile::tempdir().unwrap();
        let local = Local::with_internet(state.path(), internet).unwrap();
        let profiles = Profiles::of_scripts().with_script_egress(egress);
        let session = Session::new(local, SessionId::new("tests", "scripts").unwrap(), profiles);
        Scene { session, state }
    }

    /// One with a server by the names `origin.example` and `other.example`.
    fn with(server: SocketAddr) -> Self {
        let names = ["origin.example", "other.example"].map(|name| (name.to_owned(), server));
        Scene::new(Internet { names: names.into(), ..Internet::default() }, online())
    }

    async fn call(&self, tool: &str, input: Value) -> Result<Value, String> {
        let reply = self.session.call_tool(tool, input).await;
        let shown = reply.content.clone();
        // Never a path of this machine.
        assert!(!shown.contains(&*self.state.path().to_string_lossy()), "{shown}");
        if reply.is_error { Err(shown) } else { Ok(serde_json::from_str(&shown).unwrap()) }
    }

    async fn fetch(&self, url: &str) -> Result<Value, String> {
        self.call("fetch_url", json!({ "url": url })).await
    }

    /// Runs a script. Returns its result.
    async fn run(&self, code: &str) -> Value {
        self.call("run_sandbox_code", json!({ "code": code })).await.unwrap()["result"].take()
    }
}

fn online() -> Egress {
    Egress { internet: true, ..Egress::default() }
}

fn hosts(all: &[&str]) -> Vec<String> {
    all.iter().map(|&host| host.to_owned()).collect()
}

#[track_caller]
fn refused(answer: &Result<Value, String>, code: &str, part: &str) {
    let error = answer.as_ref().expect_err("it is refused");
    assert!(error.starts_with(&format!("{code}: ")) && error.contains(part), "{error}");
}

fn reaches() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let scene = Scene::with(server::here());
        let sent = json!({
            "url": "http://origin.example/echo?q=1#part", "method": "POST", "headers": { "X-Mine": "yes" }, "body": "ä",
        });
        let done = scene.call("fetch_url", sent).await.unwrap();
        assert_eq!((&done["ok"], &done["status"]), (&json!(true), &json!(200)));
        assert_eq!(done["url"], "http://origin.example/echo?q=1");
        let body = done["body"].as_str().unwrap().to_ascii_lowercase();
        for line in [
            "post /echo?q=1 http/1.1\r\n",
            "host: origin.example\r\n",
            "x-mine: yes\r\n",
            "accept-encoding: identity\r\n",
            "content-length: 2\r\n",
            "content-type: text/plain;charset=utf-8\r\n",
            "user-agent: koze/",
        ] {
            assert!(body.contains(line), "{line}: {body}");
        }
        assert!(body.ends_with("\r\n\r\nä"), "{body}");
        let code = "const r = await fetch('http://origin.example:8080/echo', { method: 'put', headers: { 'content-type': 'a/b', n: 1 }, \
                    body: '[1]' }); const t = await r.text(); return [r.ok, r.status, r.url, typeof r.headers['content-length'], \
                    t.includes('PUT /echo'), t.includes('host: origin.example:8080') || t.includes('Host: origin.example:8080'), \
                    t.endsWith('[1]')]";
        let wanted = json!([true, 200, "http://origin.example:8080/echo", "string", true, true, true]);
        assert_eq!(scene.run(code).await, wanted);
        // The journal names the scripts.
        let journal = Local::egress(scene.state.path()).unwrap();
        let seen: Vec<_> =
            journal.iter().map(|entry| (&*entry.sandbox, &*entry.session, &*entry.host)).collect();
        assert_eq!(seen, [("(scripts)", "scripts", "origin.example"); 2]);
    })
}

fn off_by_default() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let server = Server::redirecting();
        let names = || HashMap::from([("origin.example".to_owned(), server.at)]);
        let scene = Scene::new(Internet { names: names(), ..Internet::default() }, Egress::default());
        let place = "`[package.metadata.koze.script]`";
        refused(&scene.fetch("http://origin.example/").await, "permission_denied", place);
        let code = "try { await fetch('http://origin.example/') } catch (error) { return error.message }";
        assert!(scene.run(code).await.as_str().unwrap().contains(place));
        assert_eq!(server.accepted(), 0);
    })
}

fn policy() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let server = Server::redirecting();
        let names = ["origin.example", "api.origin.example", "other.example"];
        let internet = || Internet {
            names: names.iter().map(|&name| (name.to_owned(), server.at)).collect(),
            ..Internet::default()
        };
        let egress = Egress {
            internet: false,
            allowed_hosts: hosts(&["*.origin.example", "origin.example:81", "other.example"]),
            denied_hosts: hosts(&["other.example"]),
        };
        let scene = Scene::new(internet(), egress);
        for (url, reached) in [
            ("http://api.origin.example/", true),
            ("http://API.Origin.EXAMPLE./", true),
            ("http://api.origin.example:82/", false),
            ("http://origin.example:81/", true),
            ("http://origin.example/", false),
            ("http://other.example/", false),
            ("http://203.0.113.80/", false),
            ("http://api.origin.example/to/http://origin.example:81/", true),
            ("http://api.origin.example/to/http://other.example/", false),
            ("http://api.origin.example/to/http://api.origin.example:22/", false),
        ] {
            let done = scene.fetch(url).await;
            assert_eq!(done.is_ok(), reached, "{url}: {done:?}");
            if !reached {
                refused(&done, "permission_denied", "_hosts` in `[package.metadata.koze.script]`");
            }
        }
        // A name that leads to a denied address.
        let egress = Egress { denied_hosts: hosts(&["127.0.0.1"]), ..online() };
        let scene = Scene::new(internet(), egress);
        refused(&scene.fetch("http://origin.example/").await, "permission_denied", "its address 127.0.0.1");
    })
}

/// Hosts that are this machine or its surroundings, in every notation.
const NEARBY: &[&str] = &[
    "127.0.0.1",
    "127.0.0.1.",
    "127.1",
    "127.0.1",
    "0x7f.1",
    "0x7f000001",
    "0177.0.0.1",
    "017700000001",
    "2130706433",
    "%31%32%37.0.0.1",
    "127%2e0%2e0%2e1",
    "\u{ff11}\u{ff12}\u{ff17}.0.0.1",
    "127\u{3002}0\u{3002}0\u{3002}1",
    "localhost",
    "LOCALHOST.",
    "0.0.0.0",
    "0",
    "0.1.2.3",
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "169.254.169.254",
    "0xa9fea9fe",
    "2852039166",
    "0251.0376.0251.0376",
    "168.63.129.16",
    "100.64.0.1",
    "100.100.100.200",
    "192.0.0.192",
    "192.88.99.1",
    "198.18.0.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "[::]",
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[::127.0.0.1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::FFFF:169.254.169.254]",
    "[::ffff:0:10.0.0.1]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b::a9fe:a9fe]",
    "[64:ff9b:1::127.0.0.1]",
    "[2002:7f00:1::]",
    "[2002:a9fe:a9fe::1]",
    "[2001::1]",
    "[2001:0:c633:6401:0:63bf:80ff:fffe]",
    "[2606:4700::5efe:127.0.0.1]",
    "[2606:4700::200:5efe:10.0.0.1]",
    "[100::1]",
    "[fc00::1]",
    "[fd00:ec2::254]",
    "[fe80::1]",
    "[fec0::1]",
    "[ff02::1]",
];

/// Ways to write a request to a nearby address that are not URLs.
const NO_URLS: &[&str] =
    &["[::1%25lo]", "[127.0.0.1]", "127.0.0.0x1.1", "1.2.3.4.5", "127.0.0.256", "user@127.0.0.1", ":a@[::1]"];

fn nearby() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let server = Server::redirecting();
        let port = server.at.port();
        let scene = Scene::new(Internet { servers: everywhere(server.at), ..Internet::default() }, online());
        for host in NEARBY {
            let done = scene.fetch(&format!("http://{host}:{port}/")).await;
            refused(&done, "permission_denied", "scripts cannot reach private or local networks");
        }
        for host in NO_URLS {
            refused(&scene.fetch(&format!("http://{host}:{port}/")).await, "invalid_input", "URL");
        }
        for scheme in [
            "file:///etc/passwd",
            "ftp://127.0.0.1/",
            "gopher://127.0.0.1/",
            "unix:/run/a",
            "ws://127.0.0.1/",
        ] {
            refused(&scene.fetch(scheme).await, "invalid_input", "`https:` or `http:`");
        }
        // Also if the table allows them.
        let allowed = ["127.0.0.1", "localhost", "[::1]"].map(|host| format!("{host}:{port}"));
        let egress = Egress { allowed_hosts: allowed.to_vec(), ..Egress::default() };
        let scene = Scene::new(Internet::default(), egress);
        for host in allowed {
            let done = scene.fetch(&format!("http://{host}/")).await;
            refused(&done, "permission_denied", "scripts cannot reach private or local networks");
        }
        assert_eq!(server.accepted(), 0);
        // The control: without the check, each of them reaches the server.
        let scene = Scene::new(unchecked(server.at), online());
        for host in NEARBY {
            let done = scene.fetch(&format!("http://{host}:{port}/")).await;
            assert_eq!(done.expect(host)["body"], "here", "{host}");
        }
        assert_eq!(server.accepted(), NEARBY.len());
    })
}

/// Returns the addresses of [`NEARBY`].
fn nearby_addresses() -> Vec<IpAddr> {
    NEARBY.iter().filter_map(|host| host.trim_matches(['[', ']']).parse().ok()).collect()
}

/// An internet with a server at all of these addresses, to which connections lead if they are made.
fn everywhere(server: SocketAddr) -> HashMap<IpAddr, SocketAddr> {
    nearby_addresses().into_iter().map(|address| (address.to_canonical(), server)).collect()
}

/// The same, without the check of addresses: for controls.
fn unchecked(server: SocketAddr) -> Internet {
    let names = ["origin.example", "other.example"].map(|name| (name.to_owned(), server));
    Internet { names: names.into(), servers: everywhere(server), unchecked: true, ..Internet::default() }
}

fn nearby_names() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let server = Server::redirecting();
        let public: IpAddr = "203.0.113.80".parse().unwrap();
        let addresses = nearby_addresses();
        assert!(addresses.len() > 35, "{addresses:?}");
        let servers: HashMap<IpAddr, SocketAddr> =
            addresses.iter().chain([&public]).map(|address| (*address, server.at)).collect();
        for address in addresses {
            let answers = HashMap::from([
                ("near.example".to_owned(), vec![vec![address]]),
                ("both.example".to_owned(), vec![vec![address, public]]),
            ]);
            let scene =
                Scene::new(Internet { answers, servers: servers.clone(), ..Internet::default() }, online());
            let done = scene.fetch("http://near.example/").await;
            refused(&done, "permission_denied", "near.example is not on the internet");
            // Of several addresses, the public one is used.
            assert_eq!(scene.fetch("http://both.example/").await.unwrap()["body"], "here", "{address}");
            let reached = |entry: &koze_local::Reached| (entry.allowed, entry.address);
            let mut seen: Vec<_> = Local::egress(scene.state.path()).unwrap().iter().map(reached).collect();
            seen.sort_unstable();
            assert_eq!(seen, [(false, None), (true, Some(public))], "{address}");
            let answers = HashMap::from([("near.example".to_owned(), vec![vec![address]])]);
            let control =
                Internet { answers, servers: servers.clone(), unchecked: true, ..Internet::default() };
            let done = Scene::new(control, online()).fetch("http://near.example/").await;
            assert_eq!(done.expect("the control")["body"], "here", "{address}");
        }
        assert_eq!(server.accepted(), 2 * nearby_addresses().len());
    })
}

fn nearby_redirects() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let server = Server::redirecting();
        let target = Server::redirecting();
        let public: IpAddr = "203.0.113.80".parse().unwrap();
        let answers = ["origin.example", "other.example"].map(|name| (name.to_owned(), vec![vec![public]]));
        let mut servers = everywhere(target.at);
        servers.insert(public, server.at);
        let scene =
            Scene::new(Internet { answers: answers.into(), servers, ..Internet::default() }, online());
        let control = Scene::new(unchecked(server.at), online());
        let port = target.at.port();
        for host in NEARBY.iter().filter(|host| host.is_ascii()) {
            let url = format!("http://origin.example/to/http://{host}:{port}/");
            assert_eq!(control.fetch(&url).await.expect("the control")["body"], "here", "{host}");
            refused(&scene.fetch(&url).await, "permission_denied", "is not on the internet");
            // After another redirect.
            let url = format!("http://origin.example/to/http://other.example/to/http://{host}:{port}/");
            refused(&scene.fetch(&url).await, "permission_denied", "is not on the internet");
        }
        for host in NO_URLS {
            let url = format!("http://origin.example/to/http://{host}/");
            refused(&scene.fetch(&url).await, "invalid_input", "is not followed");
        }
        for to in ["file:///etc/passwd", "ftp://a.example/", "data:text/plain,a"] {
            let url = format!("http://origin.example/to/{to}");
            refused(&scene.fetch(&url).await, "invalid_input", "`https:` or `http:`");
        }
        let code = format!(
            "try {{ await fetch('http://origin.example/to/http://127.0.0.1:{port}/') }} catch (error) {{ return error.message }}"
        );
        assert!(scene.run(&code).await.as_str().unwrap().contains("is not on the internet"));
        assert_eq!(target.accepted(), 0);
        assert!(server.accepted() > NEARBY.len());
    })
}

/// The first answer is public, the second one is not. Each connection goes to an address that was checked for it.
fn rebinding() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let public: IpAddr = "203.0.113.80".parse().unwrap();
        let outside = Server::redirecting();
        let inside = Server::redirecting();
        let near = inside.at.ip();
        let answers = HashMap::from([("moves.example".to_owned(), vec![vec![public], vec![near]])]);
        let internet =
            Internet { answers, servers: HashMap::from([(public, outside.at)]), ..Internet::default() };
        let scene = Scene::new(internet, online());
        let port = inside.at.port();
        let url = format!("http://moves.example:{port}/to/http://moves.example:{port}/");
        refused(&scene.fetch(&url).await, "permission_denied", "moves.example is not on the internet");
        refused(&scene.fetch(&url).await, "permission_denied", "moves.example is not on the internet");
        assert_eq!((outside.accepted(), inside.accepted()), (1, 0));
        let reached = |entry: &koze_local::Reached| (entry.allowed, entry.address);
        let mut seen: Vec<_> = Local::egress(scene.state.path()).unwrap().iter().map(reached).collect();
        seen.sort_unstable();
        assert_eq!(seen, [(false, None), (false, None), (true, Some(public))]);
        // The control.
        let answers = HashMap::from([("moves.example".to_owned(), vec![vec![public], vec![near]])]);
        let servers = HashMap::from([(public, outside.at)]);
        let scene =
            Scene::new(Internet { answers, servers, unchecked: true, ..Internet::default() }, online());
        assert_eq!(
            scene.fetch(&url).await.expect("the control")["url"],
            format!("http://moves.example:{port}/")
        );
        assert_eq!((outside.accepted(), inside.accepted()), (2, 1));
    })
}

fn redirects() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let heads = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&heads);
        let server = Server::new(move |head, stream| {
            seen.lock().unwrap().push(head.to_ascii_lowercase());
            let number: usize = path(head).trim_start_matches('/').parse().unwrap_or(0);
            match path(head) {
                "/loop" => write!(
                    stream,
                    "HTTP/1.1 302 Found\r\nLocation: /loop\r\nContent-Length: 9\r\n\r\nredirects"
                ),
                "/other" => write!(stream, "HTTP/1.1 307 Found\r\nLocation: http://other.example/0\r\n\r\n"),
                _ if number == 0 => write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nthere"),
                _ => write!(
                    stream,
                    "HTTP/1.1 302 Found\r\nLocation: {}\r\nContent-Length: 0\r\n\r\n",
                    number - 1
                ),
            }
        });
        let scene = Scene::with(server.at);
        let done = scene.fetch("http://origin.example/10").await.unwrap();
        assert_eq!((&done["url"], &done["body"]), (&json!("http://origin.example/0"), &json!("there")));
        refused(&scene.fetch("http://origin.example/11").await, "unavailable", "more than 10 times");
        let before = server.accepted();
        refused(&scene.fetch("http://origin.example/loop").await, "unavailable", "more than 10 times");
        assert_eq!(server.accepted() - before, 11);
        heads.lock().unwrap().clear();
        let headers = json!({ "authorization": "Bearer a", "cookie": "b", "x-key": "c", "accept": "text/a" });
        let input = json!({ "url": "http://origin.example/other", "headers": headers });
        scene.call("fetch_url", input).await.unwrap();
        let heads = heads.lock().unwrap().clone();
        let [first, second] = &heads[..] else { panic!("{heads:?}") };
        for part in ["authorization: bearer a", "cookie: b", "x-key: c"] {
            assert!(first.contains(part) && !second.contains(part), "{part}: {heads:?}");
        }
        assert!(
            second.contains("host: other.example\r\n") && second.contains("accept: text/a\r\n"),
            "{second}"
        );
        let input = json!({ "url": "http://origin.example/other", "method": "POST", "body": "secret" });
        refused(&scene.call("fetch_url", input).await, "permission_denied", "to another origin");
    })
}

const LONGEST: usize = 2 << 20;

fn bodies() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let server = Server::new(|head, stream| {
            let (kind, length) = path(head)[1..].split_once('/').unwrap();
            let length: usize = length.parse().unwrap();
            match kind {
                "known" => write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n")?,
                "chunked" => {
                    write!(stream, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{length:x}\r\n")?;
                }
                _ => write!(stream, "HTTP/1.1 200 OK\r\n\r\n")?,
            }
            stream.write_all(&vec![b'x'; length])?;
            if kind == "chunked" { write!(stream, "\r\n0\r\n\r\n") } else { Ok(()) }
        });
        let scene = Scene::with(server.at);
        for kind in ["known", "chunked", "until-closed"] {
            let url = |length: usize| format!("http://origin.example/{kind}/{length}");
            let done = scene.fetch(&url(LONGEST)).await.unwrap();
            assert_eq!(done["body"].as_str().unwrap().len(), LONGEST, "{kind}");
            refused(&scene.fetch(&url(LONGEST + 1)).await, "too_large", "more than 2 MiB");
        }
        let head = json!({ "url": "http://origin.example/known/30000000", "method": "HEAD" });
        assert_eq!(scene.call("fetch_url", head).await.unwrap()["headers"]["content-length"], "30000000");
        // All of a run.
        let code = "let n = 0; try { for (;;) { await fetch('http://origin.example/known/2097152'); n++ } } catch (error) { \
                    return [n, error.message] }";
        let done = scene.run(code).await;
        assert_eq!(done[0], 16, "{done}");
        assert!(done[1].as_str().unwrap().contains("32 MiB in all"), "{done}");
        // Control characters are longer in the messages than on the network.
        let code =
            "const r = await fetch('http://origin.example/known/1000'); return (await r.text()).length";
        assert_eq!(scene.run(code).await, 1000);
        let long = "x".repeat(LONGEST + 1);
        let input = json!({ "url": "http://origin.example/known/1", "method": "POST", "body": long });
        refused(&scene.call("fetch_url", input).await, "too_large", "may have 2 MiB");
    })
}

fn times() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let server = Server::new(|head, stream| {
            match path(head) {
                // No response.
                "/silent" => {}
                // A response that never ends, byte by byte.
                "/drip" => {
                    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")?;
                    for _ in 0..600 {
                        stream.write_all(b"x")?;
                        std::thread::sleep(Duration::from_millis(50));
                    }
                }
                "/head" => {
                    write!(stream, "HTTP/1.1 200 OK\r\n")?;
                    for number in 0..600 {
                        write!(stream, "x-{number}: 1\r\n")?;
                        std::thread::sleep(Duration::from_millis(50));
                    }
                }
                // Redirects count together.
                _ => {
                    std::thread::sleep(Duration::from_millis(150));
                    write!(stream, "HTTP/1.1 302 Found\r\nLocation: /again\r\nContent-Length: 0\r\n\r\n")?;
                }
            }
            std::thread::sleep(Duration::from_secs(30));
            Ok(())
        });
        let scene = Scene::with(server.at);
        for path in ["silent", "drip", "head", "slow"] {
            let before = Instant::now();
            let input = json!({ "url": format!("http://origin.example/{path}"), "timeout": 400 });
            refused(&scene.call("fetch_url", input).await, "timeout", "did not answer within 400 ms");
            assert!(before.elapsed() >= Duration::from_millis(400), "{path}");
            assert!(before.elapsed() < Duration::from_secs(15), "{path}: {:?}", before.elapsed());
        }
        let code = "try { await fetch('http://origin.example/silent', { timeout: 99.5 }) } catch (error) { return error.message }";
        let message = scene.run(code).await;
        assert!(message.as_str().unwrap().contains("within 100 ms"), "{message}");
        let zero = json!({ "url": "http://origin.example/silent", "timeout": 0 });
        refused(&scene.call("fetch_url", zero).await, "invalid_input", "from 1 to 30000");
    })
}

fn bad_servers() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let scene = Scene::with(server::here());
        for (path, part) in [
            ("garbage", "did not answer with HTTP/1.1"),
            ("long-head", "did not answer with HTTP/1.1"),
            ("half", "before the end of its response"),
            ("", "without a response"),
        ] {
            refused(&scene.fetch(&format!("http://origin.example/{path}")).await, "unavailable", part);
        }
        assert!(scene.fetch("http://origin.example/unasked").await.is_err());
        // `Content-Length` and `Transfer-Encoding` at once.
        assert_eq!(scene.fetch("http://origin.example/twice").await.unwrap()["body"], "four");
        // Nothing listens.
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        refused(
            &Scene::with(closed).fetch("http://origin.example/").await,
            "unavailable",
            "cannot be reached",
        );
        let answers = HashMap::from([("none.example".to_owned(), vec![vec![]])]);
        let scene = Scene::new(Internet { answers, ..Internet::default() }, online());
        assert!(scene.fetch("http://none.example/").await.is_err());
        // A flood of data after which nothing else fits.
        let flood = Server::new(|_, stream| {
            write!(stream, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
            loop {
                stream.write_all(b"400\r\n")?;
                stream.write_all(&[b'x'; 1024])?;
                stream.write_all(b"\r\n")?;
            }
        });
        refused(&Scene::with(flood.at).fetch("http://origin.example/").await, "too_large", "more than 2 MiB");
    })
}

fn injection() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let server = Server::redirecting();
        let scene = Scene::with(server.at);
        for (name, value) in [
            ("x-a", "1\r\nx-b: 2"),
            ("x-a", "1\n"),
            ("x-a", "\u{0}"),
            ("x-a\r\nx-b", "1"),
            ("x-a: 1\r\nx-b", "2"),
            ("Host", "other.example"),
            ("Content-Length", "0"),
            ("Transfer-Encoding", "chunked"),
            ("Connection", "upgrade"),
            ("Upgrade", "h2c"),
            ("Proxy-Authorization", "a"),
        ] {
            let input = json!({ "url": "http://origin.example/", "headers": { name: value } });
            refused(&scene.call("fetch_url", input).await, "invalid_input", "header");
            let code = format!(
                "try {{ await fetch('http://origin.example/', {{ headers: {{ {}: {} }} }}) }} catch (error) {{ return error.message }}",
                json!(name),
                json!(value)
            );
            assert!(scene.run(&code).await.as_str().unwrap().contains("header"), "{name}");
        }
        assert_eq!(server.accepted(), 0);
        // A line break in a URL is left out, as in a browser.
        let done = scene.fetch("http://origin.example/a\r\nHost: b").await.unwrap();
        assert_eq!(done["url"], "http://origin.example/aHost:%20b");
    })
}

fn compressed() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let server = Server::new(|_, stream| {
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n")?;
            stream.write_all(b"\x1f\x8b\x08\x00")
        });
        let scene = Scene::with(server.at);
        refused(&scene.fetch("http://origin.example/").await, "unsupported", "the encoding `gzip`");
    })
}

/// An authority of the test.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    root: Vec<u8>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = params.self_signed(&key).unwrap().der().to_vec();
        Authority { issuer: Issuer::new(params, key), root }
    }

    /// Starts a server with a certificate for a name.
    pub(crate) fn server(&self, name: &str) -> SocketAddr {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().der().clone();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
                let mut stream = StreamOwned::new(connection, stream.unwrap());
                std::thread::spawn(move || {
                    let mut buffer = [0; 4096];
                    let length = stream.read(&mut buffer)?;
                    let head = String::from_utf8_lossy(&buffer[..length]).into_owned();
                    let to = path(&head).strip_prefix("/to/").map(str::to_owned);
                    match to {
                        Some(to) => write!(
                            stream,
                            "HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n"
                        ),
                        None => write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret"),
                    }?;
                    stream.flush()
                });
            }
        });
        at
    }
}

fn certificates() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let (authority, stranger) = (Authority::new(), Authority::new());
        let plain = Server::redirecting();
        let names = || {
            HashMap::from([
                ("good.example".to_owned(), authority.server("good.example")),
                ("wrong.example".to_owned(), authority.server("other.example")),
                ("strange.example".to_owned(), stranger.server("strange.example")),
                ("plain.example".to_owned(), plain.at),
            ])
        };
        let roots = vec![authority.root.clone()];
        let scene = Scene::new(Internet { names: names(), roots, ..Internet::default() }, online());
        assert_eq!(scene.fetch("https://good.example/").await.unwrap()["body"], "secret");
        assert_eq!(
            scene.fetch("http://plain.example/to/https://good.example/").await.unwrap()["url"],
            "https://good.example/"
        );
        for (url, part) in [
            ("https://wrong.example/", "invalid peer certificate"),
            ("https://strange.example/", "invalid peer certificate"),
            ("https://plain.example/", "cannot be reached with TLS"),
            ("https://good.example/to/https://wrong.example/", "invalid peer certificate"),
        ] {
            refused(&scene.fetch(url).await, "unavailable", part);
        }
        let down = scene.fetch("https://good.example/to/http://plain.example/").await;
        refused(&down, "permission_denied", "from `https:` to `http:`");
        // Without the test's authority, nobody is trusted.
        let scene = Scene::new(Internet { names: names(), ..Internet::default() }, online());
        refused(&scene.fetch("https://good.example/").await, "unavailable", "invalid peer certificate");
    })
}

/// What a server repeats, and errors that name hosts, contain no secrets.
fn masks() -> Result<(), libtest_mimic::Failed> {
    within(async {
        const KEY: &str = "key-12345678";
        let state = tempfile::tempdir().unwrap();
        let secrets = Secrets::at(state.path().join("secrets"));
        secrets.set("KEY", KEY).unwrap();
        let names = HashMap::from([("origin.example".to_owned(), server::here())]);
        let internet = Internet { names, ..Internet::default() };
        let local = Local::with_internet(state.path(), internet).unwrap().with_secrets(secrets);
        let profiles = Profiles::of_scripts()
            .with_script_egress(Egress { allowed_hosts: hosts(&["origin.example"]), ..Egress::default() });
        let session = Session::new(local, SessionId::new("tests", "scripts").unwrap(), profiles);
        for code in [
            "const r = await fetch(`http://origin.example/echo?${secrets.KEY}`, { headers: { 'x-key': secrets.KEY } }); \
             return [r.url, await r.text()]",
            "await fetch(`http://${secrets.KEY}.example/`)",
            "await fetch(`${secrets.KEY}://origin.example/`)",
            "await fetch('http://origin.example/', { headers: { [`${secrets.KEY} a`]: '1' } })",
            "try { await fetch(`http://origin.example:81/${secrets.KEY}`) } catch (error) { console.log(error.message); throw error }",
        ] {
            let reply = session.call_tool("run_sandbox_code", json!({ "code": code })).await;
            assert!(!reply.content.contains(KEY), "{code}: {}", reply.content);
        }
        let url = format!("http://{KEY}.example/");
        let reply = session.call_tool("fetch_url", json!({ "url": url })).await;
        assert!(reply.is_error && reply.content.contains("[secret KEY].example"), "{}", reply.content);
        let input = json!({ "url": "http://origin.example/echo", "headers": { "authorization": format!("Bearer {KEY}") } });
        let reply = session.call_tool("fetch_url", input).await;
        assert!(!reply.is_error && reply.content.contains("Bearer [secret KEY]"), "{}", reply.content);
        // The journal has hosts, not URLs: a secret in a path is not in it.
        let journal = std::fs::read_to_string(state.path().join("egress-reached.jsonl")).unwrap();
        assert!(journal.contains("origin.example") && !journal.contains(KEY), "{journal}");
    })
}

/// Connections are closed when the script ends, or its caller is gone.
fn ends() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let (begun, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (first, last) = (Arc::clone(&begun), Arc::clone(&ended));
        let server = Server::new(move |_, stream| {
            first.fetch_add(1, Ordering::AcqRel);
            stream.set_read_timeout(Some(Duration::from_mins(1)))?;
            // Until the other side closes.
            if stream.read(&mut [0]).is_ok_and(|length| length == 0) {
                last.fetch_add(1, Ordering::AcqRel);
            }
            Ok(())
        });
        let reach = async |counter: &AtomicUsize, count: usize| {
            let before = Instant::now();
            while counter.load(Ordering::Acquire) < count {
                assert!(before.elapsed() < Duration::from_secs(20), "{count} connections");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let scene = Scene::with(server.at);
        // The script does not wait for the response, only until the server has the request.
        let code = "fetch('http://origin.example/'); \
                    while (!await state.get('go')) await new Promise(done => setTimeout(done, 10)); return 1";
        let (done, _) = tokio::join!(scene.run(code), async {
            reach(&begun, 1).await;
            scene.call("set_state", json!({ "key": "go", "value": true })).await.unwrap()
        });
        assert_eq!(done, 1);
        reach(&ended, 1).await;
        let code = json!({ "code": "await fetch('http://origin.example/')" });
        let abandoned = scene.call("run_sandbox_code", code);
        tokio::select! {
            done = abandoned => panic!("{done:?}"),
            () = reach(&begun, 2) => {}
        }
        reach(&ended, 2).await;
        let abandoned = scene.fetch("http://origin.example/");
        tokio::select! {
            done = abandoned => panic!("{done:?}"),
            () = reach(&begun, 3) => {}
        }
        reach(&ended, 3).await;
    })
}

fn at_once() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let peak = Arc::clone(&most);
        let server = Server::new(move |_, stream| {
            peak.fetch_max(now.fetch_add(1, Ordering::AcqRel) + 1, Ordering::AcqRel);
            std::thread::sleep(Duration::from_millis(50));
            now.fetch_sub(1, Ordering::AcqRel);
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1")
        });
        let scene = Scene::with(server.at);
        let code = "const all = []; for (let i = 0; i < 60; i++) all.push(fetch('http://origin.example/').then(r => r.json())); \
                    return (await Promise.all(all)).length";
        assert_eq!(scene.run(code).await, 60);
        let most = most.load(Ordering::Acquire);
        assert!((2..=6).contains(&most), "{most}");
    })
}
