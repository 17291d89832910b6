//! Holds back what the client of a tunnel sends until its requested host is known and allowed. Data of the server is
//! forwarded all the time.

use std::io::{self, Cursor};
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use super::super::idle::Idle;
use super::super::tunnel::join_streams;
use super::hello::{self, Hello};
use super::host::Host;
use super::journal::Reached;
use super::policy::Refused;
use super::reach::Reach;
use super::tunneled::Requests;

/// The size of one read, in bytes.
const CHUNK: usize = 16 << 10;

/// The port of HTTP.
const HTTP: u16 = 80;
/// The port of HTTPS.
const HTTPS: u16 = 443;

/// A tunnel to a host that is allowed.
pub(super) struct Tunnel {
    pub(super) reach: Arc<Reach>,
    pub(super) host: Host,
    /// Its journal entry.
    pub(super) entry: Reached,
    pub(super) server: Idle<TcpStream>,
}

impl Tunnel {
    /// Forwards in both directions until both have ended. What the client requests within the tunnel is checked:
    ///
    /// | the client sends | what is checked |
    /// |---|---|
    /// | TLS | the server name |
    /// | HTTP/1 | the host of each request |
    /// | HTTP/2 without TLS | refused at the ports of HTTP and HTTPS, forwarded at others |
    /// | anything else | refused at the port of HTTP if the policy has an allowlist, forwarded at others |
    pub(super) async fn pass<C>(mut self, mut client: C)
    where
        C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Ok((hello, held)) = read_first_bytes(&mut client, &mut self.server).await else { return };
        if let Hello::Name(name) = &hello {
            self.entry.sni = Some(name.to_string());
        }
        if let Err(refused) = self.judge(&hello, held.is_empty()) {
            self.reach.journal.refused(&mut self.entry, &refused).await;
            return;
        }
        if self.entry.sni.is_some() {
            self.reach.journal.note(&self.entry).await;
        }
        let (rest, back) = tokio::io::split(client);
        let client = tokio::io::join(Cursor::new(held).chain(rest), back);
        if hello == Hello::Http && self.reach.policy.has_lists() {
            Requests::new(self.reach, self.host, self.entry).serve(client, self.server).await;
        } else {
            join_streams(client, self.server).await;
        }
    }

    fn judge(&self, hello: &Hello, sent_nothing: bool) -> Result<(), Refused> {
        let policy = &self.reach.policy;
        let port = self.entry.port;
        let refuse = |rule: &str| Err(Refused { rule: rule.to_owned(), text: rule.to_owned() });
        match hello {
            Hello::Name(name) => policy
                .judge_inner(&self.host, name, port)
                .map_err(|refused| Refused { rule: format!("server name: {}", refused.rule), ..refused }),
            Hello::Odd if policy.needs_name(&self.host) => refuse("server name: cannot be read"),
            Hello::Http2 if policy.has_lists() && matches!(port, HTTP | HTTPS) => {
                refuse("HTTP/2 without TLS: its hosts cannot be checked")
            }
            Hello::Other if policy.needs_name(&self.host) && port == HTTP && !sent_nothing => {
                refuse("port 80: neither HTTP nor TLS")
            }
            _ => Ok(()),
        }
    }
}

/// Reads from the client until its first bytes say what it requests. Returns this with the bytes.
async fn read_first_bytes<C, S>(client: &mut C, server: &mut S) -> io::Result<(Hello, Vec<u8>)>
where
    C: AsyncRead + AsyncWrite + Unpin,
    S: AsyncRead + Unpin,
{
    let mut held = Vec::new();
    let mut came = vec![0; CHUNK];
    let mut has_ended = false;
    loop {
        tokio::select! {
            read = client.read_buf(&mut held) => {
                // A client that disconnects early has requested nothing.
                let ended = (read? == 0).then_some(Hello::Other);
                if let Some(hello) = hello::read_hello(&held).or(ended) {
                    return Ok((hello, held));
                }
            }
            read = server.read(&mut came), if !has_ended => match read? {
                0 => {
                    has_ended = true;
                    client.shutdown().await?;
                }
                length => {
                    client.write_all(&came[..length]).await?;
                    client.flush().await?;
                }
            },
        }
    }
}
