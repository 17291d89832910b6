//! Checks what networks this machine's kernel gives to sandboxes.

use std::io;

use super::visible_limits::VisibleGroup;
use super::{PLAIN_USER, Spec, Task, launch_sandbox, reap_process};
use crate::weakness::Weaknesses;
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
    let spec = Spec {
        binds: Vec::new(),
        image: None,
        overlay: None,
        user: PLAIN_USER,
        links: Vec::new(),
        texts: Vec::new(),
        visible_group: VisibleGroup::Files,
        hostname: "network".into(),
        shared_mib: 0,
        processes: 1,
        file_size: 0,
        filters: Vec::new(),
        owner: None,
        weak: Weaknesses::default(),
        is_redirected: true,
        task: Task::Network,
    };
    let (launched, _) = launch_sandbox(spec, None).await?;
    reap_process(&launched.process.descriptor);
    Ok(launched.network.map_or_else(Network::ProxyOnly, |_| Network::Redirected))
}
