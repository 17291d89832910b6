//! The servers, and what the tests ask of them.

use std::io::{BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::scripted::Scene;
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

impl Scene {
    pub(super) async fn fetch(&self, url: &str) -> Result<Value, String> {
        self.call("fetch_url", json!({ "url": url })).await
    }
}

pub(super) fn hosts(all: &[&str]) -> Vec<String> {
    all.iter().map(|&host| host.to_owned()).collect()
}

#[track_caller]
pub(super) fn refused(answer: &Result<Value, String>, code: &str, part: &str) {
    let error = answer.as_ref().expect_err("it is refused");
    assert!(error.starts_with(&format!("{code}: ")) && error.contains(part), "{error}");
}
