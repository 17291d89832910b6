//! The servers, and a session whose scripts can use an internet.

use std::io::{BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use koze_core::script::Egress;
use koze_core::{Profiles, Session, SessionId};
use koze_local::{Internet, Local};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::server;

/// A server, and how many connections it accepted.
pub(super) struct Server {
    pub(super) at: SocketAddr,
    pub(super) accepted: Arc<AtomicUsize>,
}

impl Server {
    /// Answers each request with a function that gets its head.
    pub(super) fn new(
        answer: impl Fn(&str, &mut TcpStream) -> std::io::Result<()> + Send + Sync + 'static,
    ) -> Self {
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
    pub(super) fn redirecting() -> Self {
        Server::new(|head, stream| match path(head).strip_prefix("/to/") {
            Some(to) => write!(stream, "HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n"),
            None => write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhere"),
        })
    }

    pub(super) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Acquire)
    }
}

pub(super) fn path(head: &str) -> &str {
    head.split(' ').nth(1).unwrap_or_default()
}

/// A session whose scripts can use an internet.
pub(super) struct Scene {
    pub(super) session: Session<Local>,
    pub(super) state: TempDir,
}

impl Scene {
    pub(super) fn new(internet: Internet, egress: Egress) -> Self {
        let state = tempfile::tempdir().unwrap();
        let local = Local::with_internet(state.path(), internet).unwrap();
        let profiles = Profiles::of_scripts().with_script_egress(egress);
        let session = Session::new(local, SessionId::new("tests", "scripts").unwrap(), profiles);
        Scene { session, state }
    }

    /// One with a server by the names `origin.example` and `other.example`.
    pub(super) fn with(server: SocketAddr) -> Self {
        let names = ["origin.example", "other.example"].map(|name| (name.to_owned(), server));
        Scene::new(Internet { names: names.into(), ..Internet::default() }, online())
    }

    pub(super) async fn call(&self, tool: &str, input: Value) -> Result<Value, String> {
        let reply = self.session.call_tool(tool, input).await;
        let shown = reply.content.clone();
        // Never a path of this machine.
        assert!(!shown.contains(&*self.state.path().to_string_lossy()), "{shown}");
        if reply.is_error { Err(shown) } else { Ok(serde_json::from_str(&shown).unwrap()) }
    }

    pub(super) async fn fetch(&self, url: &str) -> Result<Value, String> {
        self.call("fetch_url", json!({ "url": url })).await
    }

    /// Runs a script. Returns its result.
    pub(super) async fn run(&self, code: &str) -> Value {
        self.call("run_sandbox_code", json!({ "code": code })).await.unwrap()["result"].take()
    }
}

pub(super) fn online() -> Egress {
    Egress { internet: true, ..Egress::default() }
}

pub(super) fn hosts(all: &[&str]) -> Vec<String> {
    all.iter().map(|&host| host.to_owned()).collect()
}

#[track_caller]
pub(super) fn refused(answer: &Result<Value, String>, code: &str, part: &str) {
    let error = answer.as_ref().expect_err("it is refused");
    assert!(error.starts_with(&format!("{code}: ")) && error.contains(part), "{error}");
}
