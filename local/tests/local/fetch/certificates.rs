//! The certificates of servers.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::process::{Command, ExitCode};
use std::sync::Arc;

use data_encoding::BASE64;
use koze_local::Internet;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::scene::{Server, path, refused};
use crate::scripted::{Scene, online};
use crate::stage::within;

/// An authority of the test.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) root: Vec<u8>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = params.self_signed(&key).unwrap().der().to_vec();
        Authority { issuer: Issuer::new(params, key), root }
    }

    /// Returns the configuration of a server with a certificate for a name.
    pub(crate) fn server_config(&self, name: &str) -> Arc<ServerConfig> {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().der().clone();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        Arc::new(config.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap())
    }

    /// Starts a server with a certificate for a name.
    pub(crate) fn server(&self, name: &str) -> SocketAddr {
        self.serve(name, |head, stream| match path(head).strip_prefix("/to/") {
            Some(to) => write!(stream, "HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n"),
            None => write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret"),
        })
    }

    /// Starts a server with a certificate for a name, which answers one request of each connection with a function that gets its head.
    pub(crate) fn serve(
        &self,
        name: &str,
        answer: impl Fn(&str, &mut dyn std::io::Write) -> std::io::Result<()> + Send + Sync + 'static,
    ) -> SocketAddr {
        let (config, answer) = (self.server_config(name), Arc::new(answer));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
                let mut stream = StreamOwned::new(connection, stream.unwrap());
                let answer = Arc::clone(&answer);
                std::thread::spawn(move || {
                    let mut head = Vec::new();
                    let mut byte = [0];
                    while !head.ends_with(b"\r\n\r\n") {
                        stream.read_exact(&mut byte)?;
                        head.push(byte[0]);
                    }
                    answer(&String::from_utf8_lossy(&head), &mut stream)?;
                    stream.conn.send_close_notify();
                    stream.flush()?;
                    // Closed with unread data, TCP would reset the connection, and the response could be lost.
                    stream.sock.shutdown(Shutdown::Write)?;
                    std::io::copy(&mut stream.sock, &mut std::io::sink())
                });
            }
        });
        at
    }
}

pub(super) fn certificates() -> Result<(), libtest_mimic::Failed> {
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

/// The argument of a process whose machine has an authority of its own.
pub(crate) const MACHINE: &str = "--fetch-with-machine-authorities";

/// The file with the authorities of a machine, as for OpenSSL.
const FILE: &str = "SSL_CERT_FILE";

pub(super) fn authorities_of_the_machine() -> Result<(), libtest_mimic::Failed> {
    let scratch = tempfile::tempdir().unwrap();
    // The environment is that of a process, which the other tests must not see.
    let run = Command::new(std::env::current_exe().unwrap())
        .arg(MACHINE)
        .env(FILE, scratch.path().join("authorities.pem"))
        .output()
        .unwrap();
    let log = String::from_utf8_lossy(&run.stderr);
    if run.status.success() { Ok(()) } else { Err(log.into_owned().into()) }
}

/// Writes the authorities of the machine, and reaches a server that only they vouch for.
pub(crate) fn fetch_with_machine_authorities() -> ExitCode {
    let run: Result<(), libtest_mimic::Failed> = within(async {
        let (authority, stranger) = (Authority::new(), Authority::new());
        let lines: Vec<String> = BASE64
            .encode(&authority.root)
            .as_bytes()
            .chunks(64)
            .map(|line| String::from_utf8_lossy(line).into())
            .collect();
        let pem = format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"));
        std::fs::write(std::env::var_os(FILE).unwrap(), pem).unwrap();
        let names = HashMap::from([
            ("good.example".to_owned(), authority.server("good.example")),
            ("strange.example".to_owned(), stranger.server("strange.example")),
        ]);
        let scene = Scene::new(Internet { names, ..Internet::default() }, online());
        assert_eq!(scene.fetch("https://good.example/").await.unwrap()["body"], "secret");
        refused(&scene.fetch("https://strange.example/").await, "unavailable", "invalid peer certificate");
    });
    if run.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
