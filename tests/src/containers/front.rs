//! The engine's socket for wrangler and workerd. It refuses to save the disks that a test names, answers two requests that cost
//! podman much, and passes on all others:
//!
//! - workerd waits for the end of each container. In the API of Docker, podman then reads its database without a pause,
//!   which takes a whole processor. In its own API, a wait costs next to nothing.
//! - Before each container, workerd reads the addresses of the network. Podman then inspects all containers, to list those
//!   on it.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

/// The path of podman's own API. Later versions serve it, too.
const API: &str = "/v4.0.0/libpod";

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";

/// The answer to a request to save a disk, as of an engine whose own disk is full.
const REFUSAL: &[u8] = b"HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\nContent-Length: 37\r\n\r\n{\"message\":\"no space left on device\"}";

/// The request for the network.
const NETWORK: &str = "GET /networks/bridge HTTP/1.1";

/// The containers whose disks are not saved, by name, and how often each of them was refused.
#[derive(Clone, Default)]
pub(super) struct Unsaved(Arc<Mutex<BTreeMap<String, usize>>>);

impl Unsaved {
    /// Refuses to save the disk of a container from now on.
    pub(super) fn add(&self, container: &str) {
        self.containers().insert(container.to_owned(), 0);
    }

    /// Saves the disk of a container again.
    pub(super) fn remove(&self, container: &str) {
        self.containers().remove(container);
    }

    /// Returns how often a container was refused.
    pub(super) fn count(&self, container: &str) -> usize {
        self.containers().get(container).copied().unwrap_or_default()
    }

    /// Returns whether a request saves the disk of one of them, and counts it.
    fn refuses(&self, request: &str) -> bool {
        let Some(container) = saves(request) else { return false };
        let mut containers = self.containers();
        let Some(count) = containers.get_mut(container) else { return false };
        *count += 1;
        true
    }

    fn containers(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Listens at `socket`, until the process ends, in front of the engine at `podman`.
pub(super) fn listen(socket: &Path, podman: PathBuf, unsaved: Unsaved) -> io::Result<()> {
    let listener = UnixListener::bind(socket)?;
    let podman = Podman { socket: Arc::new(podman), network: Arc::default(), unsaved };
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            // If the engine has ended, so does the connection.
            let _ = serve(client, podman.clone());
        }
    });
    Ok(())
}

fn serve(client: UnixStream, podman: Podman) -> io::Result<()> {
    let (to, from) = (podman.connect()?, client.try_clone()?);
    let (mut responses, mut back) = (to.try_clone()?, client);
    thread::spawn(move || {
        let _ = io::copy(&mut responses, &mut back);
        let _ = back.shutdown(Shutdown::Write);
    });
    thread::spawn(move || {
        let _ = pass_on(from, &to, &podman);
        let _ = to.shutdown(Shutdown::Write);
    });
    Ok(())
}

/// Passes requests on. A client sends its next request after the response to the last one.
fn pass_on(mut client: UnixStream, mut to: &UnixStream, podman: &Podman) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = client.read(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        replace_platform_image(&mut buffer[..read]);
        let sent = &buffer[..read];
        let request = request(sent);
        if request.is_some_and(|request| podman.unsaved.refuses(request)) {
            client.write_all(REFUSAL)?;
        } else if let Some(commit) = with_body(sent) {
            to.write_all(&commit)?;
        } else if request == Some(NETWORK) {
            podman.network(&mut client)?;
        } else if let Some(container) = request.and_then(waits_for)
            && podman.has(container)?
        {
            podman.wait(container, &mut client)?;
        } else {
            to.write_all(sent)?;
        }
    }
}

/// The image that workerd pulls from Docker Hub for `cloudflare/debian-trixie`.
const PLATFORM: &str = "docker.io/library/node:24.20.0-trixie-slim@sha256:a747ad80c8a161b650d79a6da9c422005b91148b18b8d2c669eb5a0b7c07e600";

/// Returns the image that stands in for it. Its name has the same length, also in a URL, so that requests keep theirs.
pub(super) fn platform_image() -> String {
    format!("{:x<length$}", "localhost/koze/tests/platform/image:", length = PLATFORM.len())
}

fn replace_platform_image(sent: &mut [u8]) {
    let encode = |name: &str| name.replace('/', "%2F").replace(':', "%3A").replace('@', "%40");
    let alias = platform_image();
    for (from, to) in [(PLATFORM.to_owned(), alias.clone()), (encode(PLATFORM), encode(&alias))] {
        while let Some(start) = sent.windows(from.len()).position(|window| window == from.as_bytes()) {
            sent[start..start + from.len()].copy_from_slice(to.as_bytes());
        }
    }
}

/// Returns a request to save a container's disk with an empty object as its body: podman 4.3 rejects an empty body, which
/// Docker accepts.
fn with_body(sent: &[u8]) -> Option<Vec<u8>> {
    let head = std::str::from_utf8(sent).ok()?.strip_suffix("\r\n\r\n")?;
    let mut lines = head.split("\r\n");
    let first = lines.next().filter(|first| first.starts_with("POST ") && first.contains("/commit?"))?;
    let is_of_body = |line: &&str| line.to_ascii_lowercase().starts_with("content-");
    let kept: Vec<&str> = std::iter::once(first).chain(lines.filter(|line| !is_of_body(line))).collect();
    let head = kept.join("\r\n");
    Some(format!("{head}\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{{}}").into_bytes())
}

/// Returns the first line of a request without a body. One that arrives in pieces is not recognized: podman answers it, at
/// its own cost.
fn request(sent: &[u8]) -> Option<&str> {
    let head = std::str::from_utf8(sent).ok()?.strip_suffix("\r\n\r\n")?;
    Some(head.split_once("\r\n")?.0)
}

/// Returns the container whose disk a request saves.
fn saves(request: &str) -> Option<&str> {
    let (path, query) = request.strip_prefix("POST ")?.split_once('?')?;
    let query = query.strip_suffix(" HTTP/1.1").filter(|_| path.ends_with("/commit"))?;
    query.split('&').find_map(|pair| pair.strip_prefix("container="))
}

/// Returns the container whose end a request waits for.
fn waits_for(request: &str) -> Option<&str> {
    request.strip_prefix("POST /containers/")?.strip_suffix("/wait HTTP/1.1")
}

/// Podman, through its socket.
#[derive(Clone)]
struct Podman {
    socket: Arc<PathBuf>,
    /// The network as JSON, as it was when it was first asked for.
    network: Arc<OnceLock<String>>,
    unsaved: Unsaved,
}

impl Podman {
    fn connect(&self) -> io::Result<UnixStream> {
        UnixStream::connect(self.socket.as_path())
    }

    fn has(&self, container: &str) -> io::Result<bool> {
        Ok(self.ask(&format!("GET {API}/containers/{container}/exists"))?.0 == 204)
    }

    /// Answers a request for the network.
    fn network(&self, client: &mut UnixStream) -> io::Result<()> {
        let network = if let Some(network) = self.network.get() {
            network
        } else {
            let (status, body) = self.ask("GET /networks/bridge")?;
            if status != 200 {
                return Err(io::Error::other(body));
            }
            self.network.get_or_init(|| body)
        };
        let length = network.len();
        write!(
            client,
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{network}"
        )
    }

    /// Answers a request that waits for the end of a container, as Docker does: with the head at once.
    fn wait(&self, container: &str, client: &mut UnixStream) -> io::Result<()> {
        client.write_all(HEAD.as_bytes())?;
        let conditions = "condition=stopped&condition=exited";
        let (status, body) =
            self.ask(&format!("POST {API}/containers/{container}/wait?{conditions}&interval=1s"))?;
        let Some(code) = body.trim().parse::<i64>().ok().filter(|_| status == 200) else {
            return Err(io::Error::other(body));
        };
        let body = format!("{{\"StatusCode\":{code}}}");
        write!(client, "{:x}\r\n{body}\r\n0\r\n\r\n", body.len())
    }

    /// Returns the status and the body of a response, which ends with its connection in this version of HTTP.
    fn ask(&self, request: &str) -> io::Result<(u16, String)> {
        let mut stream = self.connect()?;
        write!(stream, "{request} HTTP/1.0\r\nHost: podman\r\n\r\n")?;
        let mut response = String::new();
        stream.read_to_string(&mut response)?;
        let (head, body) = response.split_once("\r\n\r\n").unwrap_or_default();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Ok((status.ok_or_else(|| io::Error::other("podman sent no response"))?, body.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_wait() {
        let container = |sent: &str| request(sent.as_bytes()).and_then(waits_for).map(str::to_owned);
        let a = Some("a".to_owned());
        assert_eq!(container("POST /containers/a/wait HTTP/1.1\r\nHost: b\r\n\r\n"), a);
        for other in [
            "POST /containers/a/start HTTP/1.1\r\nHost: b\r\n\r\n",
            "GET /containers/a/wait HTTP/1.1\r\nHost: b\r\n\r\n",
            "POST /containers/a/wait?condition=removed HTTP/1.1\r\nHost: b\r\n\r\n",
            "POST /containers/a/wait HTTP/1.1\r\nHo",
            "{}",
            "",
        ] {
            assert_eq!(container(other), None, "{other}");
        }
    }

    #[test]
    fn requests_to_save_a_disk_that_are_refused() {
        let unsaved = Unsaved::default();
        unsaved.add("a");
        for (request, expected) in [
            ("POST /commit?repo=b&container=a&tag=c HTTP/1.1", true),
            ("POST /v1.44/commit?container=a HTTP/1.1", true),
            ("POST /commit?container=ab HTTP/1.1", false),
            ("POST /containers/a/start?container=a HTTP/1.1", false),
            ("GET /commit?container=a HTTP/1.1", false),
        ] {
            assert_eq!(unsaved.refuses(request), expected, "{request}");
        }
        assert_eq!(unsaved.count("a"), 2);
        unsaved.remove("a");
        assert!(!unsaved.refuses("POST /commit?container=a HTTP/1.1"));
        let (head, body) = std::str::from_utf8(REFUSAL).unwrap().split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with(&format!("Content-Length: {}", body.len())), "{head}");
    }

    #[test]
    fn the_platform_s_image_has_a_stand_in() {
        let alias = platform_image();
        for (sent, expected) in [
            (format!("{{\"Image\":\"{PLATFORM}\"}}"), format!("{{\"Image\":\"{alias}\"}}")),
            (format!("GET /images/{PLATFORM}/json"), format!("GET /images/{alias}/json")),
        ] {
            let mut bytes = sent.clone().into_bytes();
            replace_platform_image(&mut bytes);
            assert_eq!((String::from_utf8(bytes).unwrap(), sent.len()), (expected.clone(), expected.len()));
        }
        let mut encoded = PLATFORM.replace('/', "%2F").replace(':', "%3A").replace('@', "%40").into_bytes();
        replace_platform_image(&mut encoded);
        let decoded = String::from_utf8(encoded).unwrap().replace("%2F", "/").replace("%3A", ":");
        assert_eq!(decoded, alias);
    }

    #[test]
    fn requests_to_save_a_disk_get_a_body() {
        let sent = b"POST /commit?container=a HTTP/1.1\r\nContent-Length: 0\r\nHost: b\r\n\r\n";
        let expected = "POST /commit?container=a HTTP/1.1\r\nHost: b\r\nContent-Type: application/json\r\n\
                        Content-Length: 2\r\n\r\n{}";
        assert_eq!(with_body(sent).map(|sent| String::from_utf8(sent).unwrap()).as_deref(), Some(expected));
        assert_eq!(with_body(b"POST /containers/a/start HTTP/1.1\r\nHost: b\r\n\r\n"), None);
    }
}
