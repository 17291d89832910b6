//! The engine's socket for wrangler and workerd, which waits for the end of each container.
//!
//! In the API of Docker, such a request makes podman read its database without a pause, which takes a whole processor. It
//! is answered here, with podman's own API, where a wait costs next to nothing. Everything else is passed on.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

/// The path of podman's own API. Later versions serve it, too.
const API: &str = "/v4.0.0/libpod";

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";

/// Listens at `socket`, until the process ends, in front of the engine at `podman`.
pub(super) fn listen(socket: &Path, podman: PathBuf) -> io::Result<()> {
    let listener = UnixListener::bind(socket)?;
    let podman = Podman(Arc::new(podman));
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
        let sent = &buffer[..read];
        match waits_for(sent) {
            Some(container) if podman.has(container)? => podman.wait(container, &mut client)?,
            _ => to.write_all(sent)?,
        }
    }
}

/// Returns the container whose end a request waits for. A request that arrives in pieces is not recognized: podman
/// answers it, at its own cost.
fn waits_for(sent: &[u8]) -> Option<&str> {
    let request = std::str::from_utf8(sent).ok()?.strip_suffix("\r\n\r\n")?;
    let (line, _) = request.split_once("\r\n")?;
    line.strip_prefix("POST /containers/")?.strip_suffix("/wait HTTP/1.1")
}

/// The socket of podman.
#[derive(Clone)]
struct Podman(Arc<PathBuf>);

impl Podman {
    fn connect(&self) -> io::Result<UnixStream> {
        UnixStream::connect(self.0.as_path())
    }

    fn has(&self, container: &str) -> io::Result<bool> {
        let response = self.ask(&format!("GET {API}/containers/{container}/exists"))?;
        Ok(response.starts_with("HTTP/1.1 204 "))
    }

    /// Answers a request that waits for the end of a container, as Docker does: with the head at once.
    fn wait(&self, container: &str, client: &mut UnixStream) -> io::Result<()> {
        client.write_all(HEAD.as_bytes())?;
        let conditions = "condition=stopped&condition=exited";
        let response =
            self.ask(&format!("POST {API}/containers/{container}/wait?{conditions}&interval=1s"))?;
        let body = response.split_once("\r\n\r\n").map(|(_, body)| body.trim());
        let Some(code) = body.and_then(|body| body.parse::<i64>().ok()) else {
            return Err(io::Error::other(response));
        };
        let body = format!("{{\"StatusCode\":{code}}}");
        write!(client, "{:x}\r\n{body}\r\n0\r\n\r\n", body.len())
    }

    fn ask(&self, request: &str) -> io::Result<String> {
        let mut stream = self.connect()?;
        write!(stream, "{request} HTTP/1.1\r\nHost: podman\r\nConnection: close\r\n\r\n")?;
        let mut response = String::new();
        stream.read_to_string(&mut response)?;
        Ok(response)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_wait() {
        let container = |sent: &str| waits_for(sent.as_bytes()).map(str::to_owned);
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
}
