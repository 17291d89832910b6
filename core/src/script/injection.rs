//! Puts the values of credentials into the requests of scripts, and removes them from responses.

use std::fmt;

use sha2::{Digest as _, Sha256};

use super::{Egress, Exchange, Exchanged, SECRET_PREFIX};
use crate::egress::{
    Credential, Decision, Host, Key, Mask, Policy, Refused, RequestHead, placeholder, to_hex,
};
use crate::id::SessionId;
use crate::maybe_send::{MaybeSend, MaybeSync};

/// The credentials of an agent's scripts, with their values.
#[derive(Debug, Default)]
pub(crate) struct Injection<'a> {
    pub(super) declared: &'a [Credential],
    pub(super) keys: Vec<Key>,
    pub(super) injector: Option<&'static dyn Inject>,
}

impl Injection<'_> {
    /// Returns the names and the placeholders.
    pub(crate) fn placeholders(&self) -> impl Iterator<Item = (&str, &str)> {
        self.keys.iter().map(|key| (key.name.as_str(), key.placeholder.as_str()))
    }

    /// Puts values in place of placeholders. Returns what must not be in the response.
    ///
    /// # Errors
    /// Why the request must not be sent.
    pub(crate) fn inject(
        &self,
        egress: &Egress,
        exchange: &mut Exchange,
    ) -> std::result::Result<Mask, Refused> {
        let Some(injector) = self.injector else { return Ok(Mask::default()) };
        injector.inject(self.declared, &self.keys, egress, exchange)
    }

    /// Removes values from a response.
    pub(crate) fn mask(&self, mask: &Mask, response: &mut Exchanged) {
        if let Some(injector) = self.injector {
            injector.mask(mask, response);
        }
    }
}

/// What knows credentials. A Worker without them does not contain the only implementation.
pub(super) trait Inject: fmt::Debug + MaybeSend + MaybeSync {
    fn key(&self, agent: &SessionId, name: &str, value: Option<String>) -> Key;

    fn inject(
        &self,
        declared: &[Credential],
        keys: &[Key],
        egress: &Egress,
        exchange: &mut Exchange,
    ) -> std::result::Result<Mask, Refused>;

    fn mask(&self, mask: &Mask, response: &mut Exchanged);
}

#[derive(Debug)]
pub(super) struct Injector;

impl Inject for Injector {
    fn key(&self, agent: &SessionId, name: &str, value: Option<String>) -> Key {
        // Only the requests of the agent's own scripts replace it, so it need not be a secret.
        Key {
            name: name.to_owned(),
            worker_secret: format!("{SECRET_PREFIX}{name}"),
            placeholder: placeholder(&[], &agent.key(), name),
            value,
        }
    }

    fn inject(
        &self,
        declared: &[Credential],
        keys: &[Key],
        egress: &Egress,
        exchange: &mut Exchange,
    ) -> std::result::Result<Mask, Refused> {
        let policy = Policy::of_fetch(egress, declared)
            .map_err(|error| Refused { rule: "credentials: invalid".to_owned(), text: error.message })?;
        let Some(host) = Host::parse(&exchange.host) else { return Ok(Mask::default()) };
        let (port, tls) = (exchange.port, exchange.tls);
        // The provider refuses it, and records that.
        if policy.judge(&host, port).is_err() {
            return Ok(Mask::default());
        }
        let headers = exchange.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        let sha256 = to_hex(&Sha256::digest(exchange.body.as_deref().unwrap_or_default()));
        let head = RequestHead {
            tls,
            host: &host,
            port,
            method: exchange.method.as_str(),
            target: &exchange.target,
            headers: headers.collect(),
            body_sha256: Some(&sha256),
        };
        match policy.decide(&head, keys) {
            Decision::Allow { .. } => {}
            Decision::Deny(refused) => return Err(refused),
            Decision::ReadBody => unreachable!("the body was read"),
            Decision::Replace { credentials, target, headers, .. } => {
                for (at, value) in headers {
                    // The value of a credential is ASCII in a header.
                    exchange.headers[at].1 = String::from_utf8_lossy(&value).into_owned();
                }
                exchange.target = target;
                exchange.credentials = credentials;
            }
        }
        Ok(if tls { Mask::of_host(&policy, &host, port, keys) } else { Mask::default() })
    }

    fn mask(&self, mask: &Mask, response: &mut Exchanged) {
        for (_, value) in &mut response.headers {
            if let Some(masked) = mask.mask(value.as_bytes()) {
                *value = String::from_utf8_lossy(&masked).into_owned();
            }
        }
        if let Some(masked) = mask.mask(&response.body) {
            response.body = masked;
        }
    }
}
