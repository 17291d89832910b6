//! The network of sandboxes in containers. The containers have only a loopback interface; koze's egress proxy serves the
//! connections that programs make to a port of it, over the connection to the guest.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use koze_core::egress::Policy;
use koze_core::error::{Error, Result};
use koze_core::id::SandboxId;
use koze_core::provider::Profile;
use koze_egress::{Authority, BUNDLE, Inspection, Internet, PORT, Reach, Refusals};
use koze_state::{EgressJournal, Secrets};
use tokio::sync::OnceCell;
use tokio::task::JoinSet;

use crate::guest::{Connection, GuestListener};
use crate::runtime;

/// The maximum number of open connections of a sandbox through the proxy; further ones wait. Each takes two threads of the guest.
const MAX_CONNECTIONS: usize = 32;

/// What the networks of a session's sandboxes share.
#[derive(Debug)]
pub(crate) struct Networks {
    /// The session's directory, with the journal and the certificate authority.
    dir: PathBuf,
    /// The values of credentials.
    secrets: OnceLock<Arc<Secrets>>,
    internet: OnceLock<Arc<Internet>>,
    authority: OnceCell<Arc<Authority>>,
}

/// The network of a sandbox.
#[derive(Debug, Default)]
pub(crate) struct Network {
    policy: Option<Policy>,
    inspection: Option<Arc<Inspection>>,
    /// The variables of programs: where the proxy is, placeholders of credentials, and which certificates to trust.
    variables: Vec<(String, String)>,
    /// The requests that the proxy refused.
    pub(crate) refusals: Arc<Refusals>,
}

impl Networks {
    pub(crate) fn new(dir: &Path) -> Self {
        Networks {
            dir: dir.to_owned(),
            secrets: OnceLock::new(),
            internet: OnceLock::new(),
            authority: OnceCell::new(),
        }
    }

    /// Returns the session's directory.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Sets the values of credentials, once.
    pub(crate) fn set_secrets(&self, secrets: Secrets) {
        let _ = self.secrets.set(Arc::new(secrets));
    }

    /// Sets the internet of a test, once.
    pub(crate) fn set_internet(&self, internet: Internet) {
        let _ = self.internet.set(Arc::new(internet));
    }

    fn internet(&self) -> Arc<Internet> {
        Arc::clone(self.internet.get_or_init(Arc::default))
    }

    /// Prepares the network of a sandbox.
    ///
    /// # Errors
    /// [`koze_core::Code::InvalidInput`] if a host of the profile is not valid, and the errors of [`Authority::open`].
    pub(crate) async fn prepare(&self, id: &SandboxId, profile: &Profile) -> Result<Network> {
        let policy = Policy::of(profile)?;
        let inspection = match &policy {
            Some(policy) if policy.inspects_any() => {
                let authority = Arc::clone(self.authority().await?);
                let secrets = self.secrets.get().cloned();
                Some(Arc::new(Inspection::new(authority, &id.key(), policy, secrets)))
            }
            _ => None,
        };
        let mut variables = koze_egress::proxy_environment(profile);
        if let (Some(policy), Some(inspection)) = (&policy, &inspection) {
            variables.extend(inspection.environment(policy));
        }
        // The container has those of the profile, which win.
        variables.retain(|(name, _)| !profile.env.iter().any(|(own, _)| own == name));
        Ok(Network { policy, inspection, variables, refusals: Arc::default() })
    }

    async fn authority(&self) -> Result<&Arc<Authority>> {
        let open = || async {
            let (dir, internet) = (self.dir.clone(), self.internet());
            let opened = koze_state::runtime::run_blocking(move || Authority::open(&dir, &internet)).await?;
            Ok::<_, Error>(Arc::new(opened))
        };
        self.authority.get_or_try_init(open).await
    }

    /// Starts the proxy of a sandbox, if it has a network. It stops when the result is dropped.
    ///
    /// # Errors
    /// [`koze_core::Code::Unavailable`] if a program of the container already listens on the port of the proxy.
    pub(crate) async fn start_proxy(
        &self,
        id: &SandboxId,
        network: &Network,
        connection: &Arc<Connection>,
    ) -> Result<JoinSet<()>> {
        let mut proxy = JoinSet::new();
        let Some(policy) = network.policy.clone() else { return Ok(proxy) };
        let listener = GuestListener::bind(connection, PORT).await?;
        let journal = EgressJournal::new(&self.dir, id.session.session(), id.name.as_str());
        let reach = Reach::new(policy, self.internet(), journal)
            .with_inspection(network.inspection.clone())
            .with_refusals(Arc::clone(&network.refusals));
        let proxying = koze_egress::serve_proxy(listener, MAX_CONNECTIONS, Arc::new(reach));
        proxy.spawn_on(proxying, runtime::handle()?);
        Ok(proxy)
    }
}

impl Network {
    /// Returns the file with the certificates that programs trust, if TLS ends in the proxy, and its path in the container.
    pub(crate) fn certificates(&self) -> Option<(&Path, &'static str)> {
        Some((self.inspection.as_ref()?.bundle(), BUNDLE))
    }

    /// Returns the variables of a program, with those of a call.
    pub(crate) fn environment(&self, call: Vec<(String, String)>) -> Vec<(String, String)> {
        self.variables.iter().cloned().chain(call).collect()
    }
}
