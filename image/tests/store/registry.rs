//! A small registry on 127.0.0.1, with a token endpoint. It can fail in the ways in which registries do.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use base64::Engine as _;
use serde_json::json;

use super::archives::digest;

/// What the registry does.
#[derive(Clone, Default)]
pub(crate) struct Behavior {
    /// Whether only this user gets a token, by name and password.
    pub(crate) login: Option<(String, String)>,
    /// How many answers with blobs end after half of them.
    pub(crate) cut_blobs: usize,
    /// Whether it ignores ranges.
    pub(crate) without_ranges: bool,
    /// How many requests fail with the status 503 first.
    pub(crate) overloaded: usize,
    /// Whether manifests never end.
    pub(crate) endless_manifests: bool,
    /// Whether blobs never end.
    pub(crate) endless_blobs: bool,
}

#[derive(Default)]
struct State {
    behavior: Behavior,
    /// Manifests by repository and tag or digest.
    manifests: HashMap<String, Vec<u8>>,
    blobs: HashMap<String, Vec<u8>>,
    log: Vec<String>,
}

pub(crate) struct Registry {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
    is_stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Registry {
    pub(crate) fn start(behavior: Behavior) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State { behavior, ..State::default() }));
        let is_stopped = Arc::new(AtomicBool::new(false));
        let thread = thread::spawn({
            let (state, is_stopped) = (Arc::clone(&state), Arc::clone(&is_stopped));
            move || {
                for stream in listener.incoming() {
                    if is_stopped.load(Ordering::Relaxed) {
                        return;
                    }
                    let state = Arc::clone(&state);
                    // A client that hangs up is no failure of the registry.
                    thread::spawn(move || stream.and_then(|stream| serve(stream, address, &state)));
                }
            }
        });
        Self { address, state, is_stopped, thread: Some(thread) }
    }

    /// Adds a blob, and returns its descriptor.
    pub(crate) fn add_blob(&self, content: &[u8]) -> serde_json::Value {
        let digest = digest(content);
        self.state.lock().unwrap().blobs.insert(digest.clone(), content.to_vec());
        json!({ "mediaType": "application/octet-stream", "digest": digest, "size": content.len() })
    }

    /// Adds a manifest under a name, and returns its descriptor.
    pub(crate) fn add_manifest(&self, name: &str, manifest: &serde_json::Value) -> serde_json::Value {
        let content = manifest.to_string().into_bytes();
        let digest = digest(&content);
        let size = content.len();
        let (repository, _) = name.split_once(':').unwrap();
        let mut state = self.state.lock().unwrap();
        state.manifests.insert(format!("{repository}:{digest}"), content.clone());
        state.manifests.insert(name.to_owned(), content);
        json!({ "mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": digest, "size": size })
    }

    /// Adds an image of these blobs, and returns the descriptor of its manifest.
    pub(crate) fn add_image(
        &self,
        name: &str,
        blobs: &[Vec<u8>],
        config: &serde_json::Value,
    ) -> serde_json::Value {
        let config = self.add_blob(config.to_string().as_bytes());
        let layers: Vec<_> = blobs.iter().map(|blob| self.add_blob(blob)).collect();
        self.add_manifest(name, &json!({ "schemaVersion": 2, "config": config, "layers": layers }))
    }

    /// Replaces the content of a blob, and keeps its name.
    pub(crate) fn replace_blob(&self, descriptor: &serde_json::Value, content: &[u8]) {
        let digest = descriptor["digest"].as_str().unwrap().to_owned();
        self.state.lock().unwrap().blobs.insert(digest, content.to_vec());
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Behavior)) {
        change(&mut self.state.lock().unwrap().behavior);
    }

    /// Returns the requests so far, and forgets them.
    pub(crate) fn take_log(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unwrap().log)
    }

    /// Returns the whole reference of an image.
    pub(crate) fn reference(&self, name: &str) -> String {
        format!("{}/{name}", self.address)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        // Wakes the listener.
        let _ = TcpStream::connect(self.address);
        let _ = self.thread.take().unwrap().join();
    }
}

/// Answers one request, and closes the connection.
fn serve(mut stream: TcpStream, address: SocketAddr, state: &Mutex<State>) -> std::io::Result<()> {
    let mut lines = Vec::new();
    let mut reader = BufReader::new(stream.try_clone()?.take(64 << 10));
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        if line.trim().is_empty() {
            break;
        }
        lines.push(line.trim().to_owned());
    }
    let header = |name: &str| {
        let found = lines.iter().filter_map(|line| line.split_once(": "));
        found.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned()).next()
    };
    let path = lines[0].split(' ').nth(1).unwrap_or_default().to_owned();
    let (authorization, range) = (header("authorization"), header("range"));
    let logged = range.as_ref().map_or_else(|| path.clone(), |range| format!("{path} {range}"));
    let behavior = {
        let mut state = state.lock().unwrap();
        state.log.push(logged);
        if state.behavior.overloaded > 0 {
            state.behavior.overloaded -= 1;
            return respond(&mut stream, "503 Busy", "", b"busy");
        }
        state.behavior.clone()
    };
    if let Some(query) = path.strip_prefix("/token?") {
        let login = behavior.login.as_ref().map(|(name, password)| {
            let login = base64::engine::general_purpose::STANDARD.encode(format!("{name}:{password}"));
            format!("Basic {login}")
        });
        if !query.contains("scope=repository") || (login.is_some() && login != authorization) {
            return respond(&mut stream, "401 Unauthorized", "", b"{}");
        }
        return respond(&mut stream, "200 OK", "", br#"{"token": "the-token"}"#);
    }
    if authorization.as_deref() != Some("Bearer the-token") {
        let challenge =
            format!("WWW-Authenticate: Bearer realm=\"http://{address}/token\",service=\"test\"\r\n");
        return respond(&mut stream, "401 Unauthorized", &challenge, b"{}");
    }
    let path = path.strip_prefix("/v2/").unwrap_or_default();
    if let Some((repository, name)) = path.split_once("/manifests/") {
        if behavior.endless_manifests {
            return respond_endlessly(&mut stream);
        }
        let manifest = state.lock().unwrap().manifests.get(&format!("{repository}:{name}")).cloned();
        return match manifest {
            Some(content) => respond(&mut stream, "200 OK", "", &content),
            None => respond(&mut stream, "404 Not Found", "", b"{}"),
        };
    }
    let Some((_, digest)) = path.split_once("/blobs/") else {
        return respond(&mut stream, "404 Not Found", "", b"{}");
    };
    if behavior.endless_blobs {
        return respond_endlessly(&mut stream);
    }
    let Some(content) = state.lock().unwrap().blobs.get(digest).cloned() else {
        return respond(&mut stream, "404 Not Found", "", b"{}");
    };
    let start = range.filter(|_| !behavior.without_ranges);
    let start =
        start.and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse::<usize>().ok());
    let (status, content) = match start {
        Some(start) => ("206 Partial Content", &content[start..]),
        None => ("200 OK", &content[..]),
    };
    // Configurations are small, and are not cut off.
    if behavior.cut_blobs > 0 && content.len() > 2000 {
        state.lock().unwrap().behavior.cut_blobs -= 1;
        let head =
            format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", content.len());
        stream.write_all(head.as_bytes())?;
        return stream.write_all(&content[..content.len() / 2]);
    }
    respond(&mut stream, status, "", content)
}

fn respond(stream: &mut TcpStream, status: &str, headers: &str, content: &[u8]) -> std::io::Result<()> {
    let length = content.len();
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(head.as_bytes())?;
    stream.write_all(content)
}

/// Sends spaces until the client hangs up.
fn respond_endlessly(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")?;
    let spaces = vec![b' '; 64 << 10];
    loop {
        stream.write_all(&spaces)?;
    }
}
