//! The network of sandboxes, whatever runs them: an egress proxy with a policy, and previews. It works on every Unix.
//!
//! **The proxy** serves byte streams that a host has accepted from the programs of a sandbox. It resolves a name once, and connects
//! to an address that it has checked. It rejects denied hosts, hosts that are not allowed, private, loopback, link-local, multicast
//! and metadata addresses, and the addresses of this machine. For hosts with a credential, a method or a path in the policy, TLS ends
//! in the proxy, which replaces placeholders in requests and masks values in responses.
//!
//! **Previews** are ports of sandboxes at subdomains of `localhost`, on one loopback port of this machine.
//!
//! | module | job |
//! |---|---|
//! | `proxy` | the proxy: `CONNECT`, and requests with an absolute URL |
//! | `transparent` | connections that the host redirects, and lookups of names |
//! | `reach` | resolves names, checks addresses, and connects |
//! | `listening`, `tunneled` | tunnels: what their client requests is checked, by its first bytes and by each request |
//! | `hello`, `plain` | parse the first bytes of a client |
//! | `inspection`, `masked` | requests that are read: placeholders are replaced, and values in responses are masked |
//! | `metered` | counts requests and bytes |
//! | `authority`, `authorities` | the certificate authority of the proxy, and those that this machine trusts |
//! | `refusals` | the requests that the proxy refused |
//! | `preview` | previews: the listener, and how requests are forwarded |
//! | `token` | random tokens, such as those of previews |
//! | `accept` | accepts connections within a budget |
//! | `http`, `tunnel`, `idle`, `linger` | HTTP for both; tunnels; idle timeouts; connections that end in the middle of an upload |

#![cfg(unix)]

pub mod accept;
pub mod authorities;
mod authority;
mod hello;
pub mod http;
mod idle;
mod inspection;
mod linger;
mod listening;
mod masked;
mod metered;
mod plain;
pub mod preview;
mod proxy;
mod reach;
mod refusals;
mod token;
pub mod transparent;
mod tunnel;
mod tunneled;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use koze_core::Profiles;
use koze_core::egress::Policy;
use koze_core::error::Result;
use koze_core::provider::Profile;

pub use self::authority::Authority;
pub use self::inspection::{BUNDLE, Inspection, TRUST_STORES, TRUST_VARIABLES};
pub use self::metered::Metered;
pub use self::reach::{Connected, LOOKUPS, OpenPreviews, Reach};
pub use self::refusals::{Refusals, code_of_status};
pub use self::token::create_token;

/// The port of the proxy in a sandbox.
pub const PORT: u16 = 3128;

/// The internet of a test: servers on this machine. By default, it is empty, and names and addresses are the real ones.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct Internet {
    /// Names of servers, which are neither resolved nor checked.
    pub names: HashMap<String, SocketAddr>,
    /// What names resolve to, lookup by lookup; the last answer stays. The addresses are checked as real ones.
    pub answers: HashMap<String, Vec<Vec<IpAddr>>>,
    /// The servers at addresses that passed the checks.
    pub servers: HashMap<IpAddr, SocketAddr>,
    /// Authorities that scripts trust in addition, in DER.
    pub roots: Vec<Vec<u8>>,
    /// Whether addresses are not checked, for controls.
    pub unchecked: bool,
    /// How many times names were looked up.
    pub lookups: Mutex<HashMap<String, usize>>,
}

impl Internet {
    /// Looks a name up, if the test says what it resolves to.
    fn look_up(&self, name: &str, port: u16) -> Option<Vec<SocketAddr>> {
        let answers = self.answers.get(name)?;
        let mut lookups = self.lookups.lock().unwrap_or_else(PoisonError::into_inner);
        let count = lookups.entry(name.to_owned()).or_default();
        let answer = answers.get(*count).or(answers.last())?;
        *count += 1;
        Some(answer.iter().map(|address| SocketAddr::new(*address, port)).collect())
    }

    /// Returns where a checked address is.
    fn server(&self, at: SocketAddr) -> SocketAddr {
        self.servers.get(&at.ip()).copied().unwrap_or(at)
    }
}

/// Validates the hosts of a profile.
///
/// # Errors
/// [`InvalidInput`](koze_core::Code::InvalidInput) if one is not valid.
pub fn check_profile(profile: &Profile) -> Result<()> {
    Policy::of(profile).map(drop)
}

/// Validates the hosts of all profiles, and of scripts.
///
/// # Errors
/// As [`check_profile`].
pub fn check_all(profiles: &Profiles) -> Result<()> {
    profiles.list().iter().try_for_each(check_profile)?;
    profiles.script_egress().map_or(Ok(()), |egress| Policy::of_scripts(egress).map(drop))
}

/// Serves the programs of a sandbox that connect to the listener. Dropping the future closes all connections.
pub async fn serve_proxy<L: accept::Listen>(listener: L, max_connections: usize, reach: Arc<Reach>) {
    accept::serve_each(listener, max_connections, |stream, proof| {
        proxy::serve_program(stream, proof, Arc::clone(&reach))
    })
    .await;
}

/// Returns the environment variables for the proxy. Tools differ in the spelling that they read. Without a network, they tell package
/// managers to fail at once, instead of trying again for half a minute.
pub fn proxy_environment(profile: &Profile) -> Vec<(String, String)> {
    if !matches!(Policy::of(profile), Ok(Some(_))) {
        let retries = ["PIP_RETRIES", "npm_config_fetch_retries", "UV_HTTP_RETRIES"];
        return retries.map(|name| (name.to_owned(), "0".to_owned())).into();
    }
    let proxy = format!("http://127.0.0.1:{PORT}");
    let near = "localhost,127.0.0.1,::1";
    [
        ("HTTP_PROXY", &proxy[..]),
        ("http_proxy", &proxy),
        ("HTTPS_PROXY", &proxy),
        ("https_proxy", &proxy),
        ("NO_PROXY", near),
        ("no_proxy", near),
        ("NODE_USE_ENV_PROXY", "1"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}
