//! Servers that requests with credentials go to, and sandboxes that send them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use koze_core::egress::{Credential, Placement};
use koze_core::{Provider, Sandbox};
use koze_local::{Internet, Local, LocalSandbox, Secrets};

use crate::fetch::Authority;
use crate::server;
use crate::stage::{command, id, settings};

pub(super) const VALUE: &str = "the-real-value-0123456789";
pub(super) const TOKEN: &str = "git-token-9876543210";

/// What servers received.
pub(super) type Received = Arc<Mutex<Vec<String>>>;

pub(super) struct Scene {
    pub(super) local: Local,
    pub(super) state: tempfile::TempDir,
    pub(super) secrets: tempfile::TempDir,
    pub(super) received: Received,
}

impl Scene {
    pub(super) fn new() -> Self {
        Self::on(&Authority::new(), &Authority::new())
    }

    /// `trusted` is an authority of the machine, and `strange` is not.
    pub(super) fn on(trusted: &Authority, strange: &Authority) -> Self {
        let received = Received::default();
        let echo = |received: &Received| {
            let received = Arc::clone(received);
            move |head: &str, stream: &mut dyn std::io::Write| {
                received.lock().unwrap().push(head.to_owned());
                let length = head.len();
                write!(
                    stream,
                    "HTTP/1.1 200 OK\r\nX-Echo: {}\r\nContent-Length: {length}\r\n\r\n{head}",
                    authorization(head)
                )
            }
        };
        let compressed = |_: &str, stream: &mut dyn std::io::Write| {
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd")
        };
        let names = HashMap::from([
            ("api.example".to_owned(), trusted.serve("api.example", echo(&received))),
            ("other.example".to_owned(), trusted.serve("other.example", echo(&received))),
            ("gzip.example".to_owned(), trusted.serve("gzip.example", compressed)),
            ("strange.example".to_owned(), strange.serve("strange.example", echo(&received))),
            ("plain.example".to_owned(), server::here()),
        ]);
        let internet = Internet { names, roots: vec![trusted.root.clone()], ..Internet::default() };
        Self::with(internet, received)
    }

    pub(super) fn with(internet: Internet, received: Received) -> Self {
        let (state, directory) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let secrets = Secrets::at(directory.path());
        secrets.set("API_KEY", VALUE).unwrap();
        secrets.set("GIT", TOKEN).unwrap();
        let local = Local::with_internet(state.path(), internet).unwrap().with_secrets(secrets);
        Scene { local, state, secrets: directory, received }
    }

    pub(super) async fn open(
        &self,
        allowed: &[&str],
        denied: &[&str],
        credentials: &[Credential],
    ) -> LocalSandbox {
        let mut settings = settings();
        settings.profile.allowed_hosts = allowed.iter().map(|&host| host.to_owned()).collect();
        settings.profile.denied_hosts = denied.iter().map(|&host| host.to_owned()).collect();
        settings.profile.credentials = credentials.to_vec();
        self.local.open(&id("a"), &settings).await.unwrap().sandbox
    }

    /// Returns what servers received since the last call.
    pub(super) fn received(&self) -> String {
        std::mem::take(&mut *self.received.lock().unwrap()).concat()
    }

    pub(super) fn journal(&self) -> String {
        let entries = Local::egress(self.state.path()).unwrap();
        entries.iter().map(|entry| [&entry.allowed.to_string(), " ", &entry.rule, "\n"].concat()).collect()
    }
}

pub(super) fn authorization(head: &str) -> &str {
    let header = head.lines().find(|line| line.to_ascii_lowercase().starts_with("authorization: "));
    header.map_or("none", |line| &line["authorization: ".len()..])
}

pub(super) fn bearer(name: &str, host: &str) -> Credential {
    Credential { name: name.into(), host: host.into(), placement: Placement::Bearer }
}

/// Sends a request over TLS with Python, whose standard library sends what it is told: the host of the tunnel, the server name, and
/// the bytes in Python's notation. `KEY` in them is the placeholder.
pub(super) async fn request(sandbox: &LocalSandbox, tunnel: &str, name: &str, bytes: &str) -> String {
    let script = r"
import os, socket, ssl, sys
tunnel, name, data = sys.argv[1:4]
s = socket.create_connection(('127.0.0.1', 3128))
s.sendall(f'CONNECT {tunnel} HTTP/1.1\r\nHost: {tunnel}\r\n\r\n'.encode())
head = b''
while not head.endswith(b'\r\n\r\n'):
    head += s.recv(1) or sys.exit('closed: ' + head.decode())
if b' 200 ' not in head: sys.exit('refused: ' + head.decode() + s.recv(9999).decode())
data = data.encode().decode('unicode_escape').replace('KEY', os.environ.get('API_KEY', '')).encode()
if name == '-':
    t = s
else:
    c = ssl.create_default_context()
    c.check_hostname = False
    t = c.wrap_socket(s, server_hostname=name)
t.sendall(data)
try:
    while got := t.recv(65536): sys.stdout.write(got.decode('latin-1'))
except (ssl.SSLError, ConnectionError) as e: print(e)
";
    let argv = ["python3", "-c", script, tunnel, name, bytes];
    let output = sandbox.exec(command(&argv)).await.unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

pub(super) fn get(path: &str, host: &str, more: &str) -> String {
    format!("GET {path} HTTP/1.1\\r\\nHost: {host}\\r\\n{more}Connection: close\\r\\n\\r\\n")
}
