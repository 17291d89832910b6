//! Egress: an HTTP proxy in this program, which a sandbox can reach only at a port of its own loopback interface.

mod authority;
mod hello;
mod inspection;
mod listening;
mod masked;
mod plain;
mod proxy;
mod reach;
mod refusals;
mod tunneled;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

pub(in super::super) use self::authority::Authority;
pub(in super::super) use self::inspection::{BUNDLE, Inspection, TRUST_STORES};
pub(super) use self::reach::LOOKUPS;
pub(in super::super) use self::reach::Reach;
pub(in super::super) use self::refusals::Refusals;
pub(super) use self::refusals::code_of_status;
use super::accept;
use crate::engine::engine;
use crate::sandbox::running::Running;
use koze_core::Profiles;
use koze_core::egress::Policy;
use koze_core::error::Result;
use koze_core::provider::Profile;

/// The port of the proxy in a sandbox.
pub(in super::super) const PORT: u16 = 3128;

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
pub(in super::super) fn check_profile(profile: &Profile) -> Result<()> {
    Policy::of(profile).map(drop)
}

/// Validates the hosts of all profiles, and of scripts.
pub(in super::super) fn check_all(profiles: &Profiles) -> Result<()> {
    profiles.list().iter().try_for_each(check_profile)?;
    profiles.script_egress().map_or(Ok(()), |egress| Policy::of_scripts(egress).map(drop))
}

/// Starts the proxy of a sandbox. It stops with the sandbox.
pub(in super::super) async fn start_proxy(running: &Running, reach: Reach) -> Result<()> {
    let listener = super::listen_in_sandbox(running, PORT).await?;
    let reach = Arc::new(reach);
    let ended = running.end_of();
    engine()?.spawn(async move {
        tokio::select! {
            () = accept::serve_each(listener, |stream, proof| proxy::serve_program(stream, proof, Arc::clone(&reach))) => {}
            () = ended => {}
        }
    });
    Ok(())
}

/// Returns the environment variables for the proxy. Tools differ in the spelling that they read. Without a network, they tell package
/// managers to fail at once, instead of trying again for half a minute.
pub(in super::super) fn proxy_environment(profile: &Profile) -> Vec<(String, String)> {
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
