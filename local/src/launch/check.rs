//! Checks what networks this machine's kernel gives to sandboxes.

use std::io;

use super::{Spec, Task, launch_sandbox, reap_process};
use koze_core::error::Result;

/// How programs in sandboxes of this machine reach the hosts that their policy allows.
#[derive(Debug)]
pub enum Network {
    /// All connections are redirected to koze's proxy.
    Redirected,
    /// Only programs that read `HTTP_PROXY` and `HTTPS_PROXY` reach hosts: the kernel refused the rules for redirection.
    ProxyOnly(io::Error),
}

/// Sets up the network of a sandbox once, and reports what the kernel allowed.
///
/// # Errors
/// If this machine cannot start sandboxes at all.
pub async fn check_network() -> Result<Network> {
    let spec = Spec { is_redirected: true, ..Spec::bare("network", Task::Network) };
    let (launched, _) = launch_sandbox(spec, None).await?;
    reap_process(&launched.process.descriptor);
    Ok(launched.network.map_or_else(Network::ProxyOnly, |_| Network::Redirected))
}
