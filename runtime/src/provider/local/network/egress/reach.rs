//! From a host to a connection: the name is looked up once, its addresses are checked, and one of these very addresses
//! is connected to.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::super::http::Refusal;
use super::host::Host;
use super::policy::Policy;
use super::{Names, address};

/// How long one address may take to answer, and a name to be looked up.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most addresses of a name that are tried.
const TRIED: usize = 4;
/// The most names of a sandbox that are looked up at once: each takes a thread, which files need too.
const LOOKUPS: usize = 8;

/// What a sandbox reaches.
pub(super) struct Reach {
    policy: Policy,
    names: Names,
    lookups: Arc<Semaphore>,
}

impl Reach {
    pub(super) fn new(policy: Policy, names: Names) -> Self {
        Reach { policy, names, lookups: Arc::new(Semaphore::new(LOOKUPS)) }
    }

    /// A connection to a host, if the sandbox may have it.
    pub(super) async fn connect(&self, host: &str, port: u16) -> Result<TcpStream, Refusal> {
        let Some(host) = Host::parse(host) else {
            let text = format!(
                "`{}` is neither a name nor an address; an IPv4 address is four decimal numbers",
                host.escape_debug()
            );
            return Err(Refusal::new(StatusCode::BAD_REQUEST, text));
        };
        if let Some(text) = self.policy.refusal(&host) {
            return Err(Refusal::new(StatusCode::FORBIDDEN, text));
        }
        let unreachable = |why: &str| {
            Refusal::new(StatusCode::BAD_GATEWAY, format!("{host} cannot be reached at port {port}: {why}"))
        };
        let addresses = match &host {
            Host::Address(address) => open(vec![SocketAddr::new(*address, port)]),
            Host::Name(name) => match self.names.get(name) {
                Some(server) => vec![*server],
                None => open(self.look_up(name, port).await.map_err(|error| unreachable(&error))?),
            },
        };
        if addresses.is_empty() {
            let text = format!("{host} is not on the internet: sandboxes reach no private or local network");
            return Err(Refusal::new(StatusCode::FORBIDDEN, text));
        }
        let mut why = String::new();
        for address in addresses.into_iter().take(TRIED) {
            match timeout(PATIENCE, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Ok(Err(error)) => why = error.kind().to_string(),
                Err(_) => "no answer in time".clone_into(&mut why),
            }
        }
        Err(unreachable(&why))
    }

    async fn look_up(&self, name: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
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
        match timeout(PATIENCE, looked_up).await {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(_)) => Err("the name is not known".to_owned()),
            Err(_) => Err("the name took too long to look up".to_owned()),
        }
    }
}

/// Those of the addresses that a sandbox may reach.
fn open(mut addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    addresses.retain(|at| address::is_open(at.ip()) && !address::is_own(at.ip()));
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_mixed_addresses_the_open_ones_are_left() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let mixed = vec![at("127.0.0.1:80"), at("192.0.2.1:80"), at("[::1]:80"), at("169.254.169.254:80")];
        assert_eq!(open(mixed), [at("192.0.2.1:80")]);
    }
}
