//! Connects to hosts: resolves the name once, checks its addresses, and connects to one of the checked addresses.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hyper::{StatusCode, Uri};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::Internet;
use super::inspection::Inspection;
use super::metered::{Limited, Meter, Metered};
use super::refusals::Refusals;
use crate::http::Refusal;
use crate::preview::Port;
use koze_core::egress::{Host, Policy, Refused, is_open};
use koze_state::{EgressJournal, Reached};

/// The timeout for one address, and for a lookup.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum number of addresses to try for a name.
const TRIED: usize = 4;
/// The maximum number of concurrent lookups of a sandbox, or of the scripts of an agent. Each takes a thread, which file operations need too.
pub const LOOKUPS: usize = 8;

/// The previews that a client of the proxy may open.
pub trait OpenPreviews: Send + Sync {
    /// Returns the port of a sandbox that a lowercase host and a port lead to. Returns `None` if they are not those of a preview of
    /// this program.
    fn find<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, Option<Result<Port, Refusal>>>;

    /// Returns whether there is a session whose previews can be opened.
    fn has_session(&self) -> bool;
}

/// Connects to the hosts that a sandbox or scripts may reach.
pub struct Reach {
    pub(crate) policy: Arc<Policy>,
    /// What was used of the policy's limits.
    pub(crate) meter: Arc<Meter>,
    pub(crate) journal: EgressJournal,
    /// Collects the refused requests, if the caller needs them.
    pub(crate) refusals: Option<Arc<Refusals>>,
    /// What is needed to read requests, if the policy wants that.
    pub(crate) inspection: Option<Arc<Inspection>>,
    /// The previews that it may open in addition.
    previews: Option<Arc<dyn OpenPreviews>>,
    internet: Arc<Internet>,
    lookups: Arc<Semaphore>,
}

/// A connection to a host.
pub struct Connected {
    /// The connection.
    pub stream: Metered<TcpStream>,
    pub(crate) host: Host,
    /// Its journal entry.
    pub(crate) entry: Reached,
}

impl Reach {
    /// Creates it for a policy. Attempts are recorded in the journal.
    pub fn new(policy: Policy, internet: Arc<Internet>, journal: EgressJournal) -> Self {
        let lookups = Arc::new(Semaphore::new(LOOKUPS));
        let policy = Arc::new(policy);
        let meter = Arc::new(Meter::new(Arc::clone(&policy)));
        Reach { policy, meter, journal, refusals: None, inspection: None, previews: None, internet, lookups }
    }

    /// Shares the limit of lookups with others.
    #[must_use]
    pub fn with_lookups(self, lookups: Arc<Semaphore>) -> Self {
        Reach { lookups, ..self }
    }

    /// Sets what gets the requests that are refused.
    #[must_use]
    pub fn with_refusals(self, refusals: Arc<Refusals>) -> Self {
        Reach { refusals: Some(refusals), ..self }
    }

    /// Sets what is needed to read requests.
    #[must_use]
    pub fn with_inspection(self, inspection: Option<Arc<Inspection>>) -> Self {
        Reach { inspection, ..self }
    }

    /// Sets the previews that may be opened, whatever the policy allows.
    #[must_use]
    pub fn with_previews(self, previews: Arc<dyn OpenPreviews>) -> Self {
        Reach { previews: Some(previews), ..self }
    }

    /// Returns the port of a sandbox that a URL leads to, if it is that of a preview.
    pub(crate) async fn preview(&self, url: &Uri) -> Option<Result<Port, Refusal>> {
        let (name, port) = (url.host()?.to_ascii_lowercase(), url.port_u16()?);
        let found = self.previews.as_ref()?.find(&name, port).await?;
        let denied = self.policy.judge_denied(&Host::Name(name), port).err();
        Some(denied.map_or(found, |refused| Err(Refusal::new(StatusCode::FORBIDDEN, refused.text))))
    }

    /// Connects to a host if the policy allows it.
    ///
    /// # Errors
    /// Why the host is refused, or cannot be reached.
    pub async fn connect(&self, host: &str, port: u16) -> Result<Connected, Refusal> {
        let Some(host) = Host::parse(host) else {
            let text = format!(
                "`{}` is neither a hostname nor an address; an IPv4 address has four decimal numbers",
                host.escape_debug()
            );
            return Err(Refusal::new(StatusCode::BAD_REQUEST, text));
        };
        let mut entry = self.journal.entry(&host.to_string(), port);
        // Checked first: it would not help to allow the host.
        if is_near(&host) && !self.internet.unchecked {
            return Err(self.refuse(&mut entry, StatusCode::FORBIDDEN, self.near(&host)).await);
        }
        match self.policy.judge(&host, port) {
            Ok(rule) => entry.rule = rule,
            Err(refused) => return Err(self.refuse(&mut entry, StatusCode::FORBIDDEN, refused).await),
        }
        if let Err(refused) = self.meter.count_bytes(&host, 0) {
            return Err(self.refuse(&mut entry, StatusCode::TOO_MANY_REQUESTS, refused).await);
        }
        let unreachable = |why: &str| {
            Refusal::new(StatusCode::BAD_GATEWAY, format!("{host} cannot be reached at port {port}: {why}"))
        };
        let found = match &host {
            Host::Address(address) => self.open(vec![SocketAddr::new(*address, port)]),
            Host::Name(name) => match self.internet.names.get(name) {
                Some(server) => vec![*server],
                None => self.open(self.look_up(name, port).await.map_err(|error| unreachable(&error))?),
            },
        };
        let (mut addresses, mut refused) = (Vec::new(), None);
        for address in found {
            match self.policy.judge_found(&host, address.ip(), port) {
                Ok(()) => addresses.push(address),
                Err(why) => {
                    entry.address = Some(address.ip());
                    refused = Some(why);
                }
            }
        }
        if addresses.is_empty() {
            let refused = refused.unwrap_or_else(|| self.near(&host));
            return Err(self.refuse(&mut entry, StatusCode::FORBIDDEN, refused).await);
        }
        let mut why = String::new();
        for address in addresses.into_iter().take(TRIED) {
            match timeout(TIMEOUT, TcpStream::connect(self.internet.server(address))).await {
                Ok(Ok(stream)) => {
                    let _ = stream.set_nodelay(true);
                    entry.address = Some(address.ip());
                    self.journal.note(&entry).await;
                    let stream = Metered::new(stream, self.limit_bytes(&host, &entry));
                    return Ok(Connected { stream, host, entry });
                }
                Ok(Err(error)) => why = error.kind().to_string(),
                Err(_) => "no answer in time".clone_into(&mut why),
            }
        }
        Err(unreachable(&why))
    }

    /// Records the credentials whose values a request carries over a connection.
    pub async fn note_credentials(&self, connected: &mut Connected, names: &[String]) {
        if !names.is_empty() {
            let entry = &mut connected.entry;
            entry.rule = credentials_rule(&entry.rule, names);
            self.journal.note(entry).await;
        }
    }

    /// Returns what is needed to count the bytes of a connection, if they are limited.
    fn limit_bytes(&self, host: &Host, entry: &Reached) -> Option<Limited> {
        self.policy.limits_bytes().then(|| Limited {
            meter: Arc::clone(&self.meter),
            host: host.clone(),
            journal: self.journal.clone(),
            refusals: self.refusals.clone(),
            entry: entry.clone(),
        })
    }

    /// Refuses a host of a private or local network.
    fn near(&self, host: &Host) -> Refused {
        let all = self.policy.subject().all;
        let mut text = format!(
            "{host} is not on the internet: {all} cannot reach private or local networks, and no entry of `allowed_hosts` changes that"
        );
        if self.previews.as_ref().is_some_and(|previews| previews.has_session()) {
            text += ". To open a server in a sandbox of this session, use the URL that `browse` returns";
        }
        Refused { rule: "not on the internet".to_owned(), text }
    }

    /// Returns the addresses that may be reached.
    fn open(&self, addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
        if self.internet.unchecked { addresses } else { internet_addresses(addresses) }
    }

    /// Records that something is refused, and returns the response.
    pub(crate) async fn refuse(&self, entry: &mut Reached, status: StatusCode, refused: Refused) -> Refusal {
        self.journal.refuse(entry, &refused.rule).await;
        Refusal::new(status, refused.text)
    }

    async fn look_up(&self, name: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
        if let Some(answer) = self.internet.look_up(name, port) {
            return Ok(answer);
        }
        let wanted = (name.to_owned(), port);
        let looked_up = async {
            let permit = Arc::clone(&self.lookups).acquire_owned().await.map_err(io::Error::other)?;
            let looking = tokio::task::spawn_blocking(move || {
                let found = wanted.to_socket_addrs().map(Iterator::collect);
                drop(permit);
                found
            });
            looking.await?
        };
        match timeout(TIMEOUT, looked_up).await {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(_)) => Err("the name does not exist".to_owned()),
            Err(_) => Err("the name lookup timed out".to_owned()),
        }
    }
}

/// Returns the rule in the journal for a request with the values of credentials.
pub(crate) fn credentials_rule(rule: &str, names: &[String]) -> String {
    format!("{rule}; credentials: {}", names.join(", "))
}

/// Returns whether a host is in a private or local network, without looking it up.
pub(crate) fn is_near(host: &Host) -> bool {
    match host {
        Host::Address(address) => internet_addresses(vec![SocketAddr::new(*address, 0)]).is_empty(),
        Host::Name(name) => name == "localhost" || name.ends_with(".localhost"),
    }
}

/// Returns the addresses that are on the internet.
fn internet_addresses(mut addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    addresses.retain(|at| is_open(at.ip()) && !is_own(at.ip()));
    addresses
}

/// Returns whether an address belongs to this machine. Such a connection would bypass its firewall, and reach services that the firewall
/// protects.
fn is_own(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_addresses() {
        assert!(is_own("127.0.0.1".parse().unwrap()));
        assert!(!is_own("192.0.2.1".parse().unwrap()));
    }

    #[test]
    fn closed_addresses_are_filtered_out() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let mixed = vec![at("127.0.0.1:80"), at("192.0.2.1:80"), at("[::1]:80"), at("169.254.169.254:80")];
        assert_eq!(internet_addresses(mixed), [at("192.0.2.1:80")]);
    }
}
