//! Holds back what the client of a tunnel sends until its requested host is known and allowed. Data of the server is
//! forwarded all the time.

use std::io::{self, Cursor};
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use super::hello::{self, Hello};
use super::metered::Metered;
use super::reach::Reach;
use super::tunneled::Requests;
use crate::idle::Idle;
use crate::tunnel::join_streams;
use koze_core::egress::{Host, Refused};
use koze_state::Reached;

/// The size of one read, in bytes.
const CHUNK: usize = 16 << 10;

/// The port of HTTP.
const HTTP: u16 = 80;
/// The port of HTTPS.
const HTTPS: u16 = 443;

/// A tunnel to a host that is allowed.
pub(crate) struct Tunnel {
    pub(crate) reach: Arc<Reach>,
    pub(crate) host: Host,
    /// Its journal entry.
    pub(crate) entry: Reached,
    pub(crate) server: Idle<Metered<TcpStream>>,
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
    ///
    /// If the policy must read the requests to the host, TLS ends here, and all but TLS and HTTP/1 is refused.
    pub(crate) async fn pass<C>(mut self, mut client: C)
    where
        C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Ok((hello, held)) = read_first_bytes(&mut client, &mut self.server).await else { return };
        if let Hello::Name(name) = &hello {
            self.entry.sni = Some(name.to_string());
        }
        let has_sent_nothing = held.is_empty();
        if let Err(refused) = self.judge(&hello, has_sent_nothing) {
            self.reach.journal.refuse(&mut self.entry, &refused.rule).await;
            return;
        }
        if self.entry.sni.is_some() {
            self.reach.journal.note(&self.entry).await;
        }
        let is_inspected = self.reach.policy.inspects(&self.host, self.entry.port);
        if is_inspected && has_sent_nothing {
            return;
        }
        let (rest, back) = tokio::io::split(client);
        let client = tokio::io::join(Cursor::new(held).chain(rest), back);
        if is_inspected && hello != Hello::Http {
            self.end_tls(client).await;
        } else if hello == Hello::Http && (self.reach.policy.has_lists() || self.reach.policy.has_limits()) {
            Requests::new(self.reach, self.host, self.entry, false).serve(client, self.server).await;
        } else if let Err(refused) = self.reach.meter.count_request(&self.host) {
            self.reach.journal.refuse(&mut self.entry, &refused.rule).await;
        } else {
            join_streams(client, self.server).await;
        }
    }

    /// Ends the TLS of the client, and forwards its requests over TLS to the server.
    async fn end_tls<C>(mut self, client: C)
    where
        C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Some(inspection) = self.reach.inspection.clone() else { return };
        match inspection.accept(client, &self.host).await {
            Ok(client) => {
                Requests::new(self.reach, self.host, self.entry, true).serve(client, self.server).await;
            }
            Err(why) => {
                let rule =
                    format!("TLS ends in koze's proxy, whose certificate the program does not accept: {why}");
                let refused = Refused { rule: rule.clone(), text: rule };
                self.reach.journal.refuse(&mut self.entry, &refused.rule).await;
            }
        }
    }

    fn judge(&self, hello: &Hello, sent_nothing: bool) -> Result<(), Refused> {
        let policy = &self.reach.policy;
        let port = self.entry.port;
        let refuse = |rule: &str| Err(Refused { rule: rule.to_owned(), text: rule.to_owned() });
        let is_inspected = policy.inspects(&self.host, port);
        match hello {
            Hello::Name(name) if *name != self.host && (is_inspected || policy.inspects(name, port)) => {
                refuse("server name: not that of the tunnel, whose requests are read")
            }
            Hello::Nameless if is_inspected && matches!(self.host, Host::Name(_)) => {
                refuse("server name: missing, and the requests to this host are read")
            }
            Hello::Odd | Hello::Http2 | Hello::Other if is_inspected && !sent_nothing => {
                refuse("neither HTTP/1 nor TLS, and the requests to this host are read")
            }
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
