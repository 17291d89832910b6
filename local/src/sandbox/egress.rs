//! The network of a sandbox: the proxy to the hosts of its policy, and what the proxy sends in its requests.

use std::sync::Arc;

use koze_core::egress::Policy;
use koze_core::error::Result;
use koze_egress::{Authority, Inspection, Reach};
use koze_state::EgressJournal;

use super::inner::Inner;
use super::running::Running;
use crate::weakness::Weakness;
use crate::{Shared, engine, network};

impl Inner {
    /// Starts the proxy of a sandbox, which has the hosts of a policy.
    pub(super) async fn start_network(
        &self,
        running: &Arc<Running>,
        policy: Policy,
        inspection: Option<Arc<Inspection>>,
    ) -> Result<()> {
        let variables = inspection.as_ref().map(|inspection| inspection.environment(&policy));
        let mut variables = variables.unwrap_or_default();
        if self.weak.has(&Weakness::Credentials) {
            self.expose_values(&mut variables)?;
        }
        running.set_egress_variables(variables);
        let journal = EgressJournal::new(&self.state_directory, &self.session()?, self.name.as_str());
        let reach = Reach::new(policy, Arc::clone(&self.internet), journal).with_inspection(inspection);
        let refusals = Arc::clone(&running.judgements.refusals);
        network::start_proxy(running, reach.with_refusals(refusals)).await
    }

    /// Returns what the proxy needs to read requests.
    pub(super) async fn inspect(&self, policy: &Policy, provider: &Arc<Shared>) -> Result<Arc<Inspection>> {
        let authority = if let Some(known) = provider.authority.get() {
            Arc::clone(known)
        } else {
            let (state, internet) = (self.state_directory.clone(), Arc::clone(&self.internet));
            let opened = engine::run_blocking(move || Authority::open(&state, &internet)).await?;
            Arc::clone(provider.authority.get_or_init(|| Arc::new(opened)))
        };
        let secrets = provider.secrets.get().cloned();
        Ok(Arc::new(Inspection::new(authority, &self.key, policy, secrets)))
    }

    /// Gives programs the values of credentials, for a control.
    fn expose_values(&self, variables: &mut Vec<(String, String)>) -> Result<()> {
        let provider = self.provider.upgrade();
        let Some(secrets) = provider.as_ref().and_then(|provider| provider.secrets.get()) else {
            return Ok(());
        };
        let values = secrets.values()?;
        let is_declared = |name: &str| self.settings.profile.credentials.iter().any(|one| one.name == name);
        for (name, value) in values.iter().filter(|(name, _)| is_declared(name)) {
            variables.retain(|(known, _)| known != name);
            variables.push((name.to_owned(), value.to_owned()));
        }
        Ok(())
    }
}
