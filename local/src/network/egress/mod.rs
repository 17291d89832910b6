//! Egress: an HTTP proxy in this program, which a sandbox can reach only at a port of its own loopback interface.

mod address;
mod hello;
mod host;
mod journal;
mod listening;
mod policy;
mod proxy;
mod reach;
mod rule;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

pub use self::journal::Reached;
pub(in super::super) use self::journal::{Journal, read as read_journal};
use self::policy::Policy;
use self::reach::Reach;
use super::super::engine::engine;
use super::super::running::Running;
use super::accept;
use koze_core::error::Result;
use koze_core::provider::Profile;

/// The port of the proxy in a sandbox.
const PORT: u16 = 3128;

/// Names of test servers, which are neither resolved nor checked. Empty without the feature `testing`.
pub(in super::super) type Names = Arc<HashMap<String, SocketAddr>>;

/// Validates the hosts of a profile.
pub(in super::super) fn check(profile: &Profile) -> Result<()> {
    Policy::of(profile).map(drop)
}

/// Starts the proxy of a sandbox if its profile allows egress. It stops with the sandbox.
pub(in super::super) async fn open(
    running: &Running,
    profile: &Profile,
    names: Names,
    journal: Journal,
    weak: bool,
) -> Result<()> {
    let Some(policy) = Policy::of(profile)? else { return Ok(()) };
    let listener = super::listen(running, PORT).await?;
    let reach = Arc::new(Reach::new(policy.weakened(weak), names, journal));
    let ended = running.end_of();
    engine()?.spawn(async move {
        tokio::select! {
            () = accept::each(listener, |stream, proof| proxy::serve(stream, proof, Arc::clone(&reach))) => {}
            () = ended => {}
        }
    });
    Ok(())
}

/// Returns the environment variables for the proxy. Tools differ in the spelling that they read.
pub(in super::super) fn environment(profile: &Profile) -> Vec<(String, String)> {
    if !matches!(Policy::of(profile), Ok(Some(_))) {
        return Vec::new();
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
