//! The egress policy: the hosts that a sandbox or scripts may reach.

use std::net::IpAddr;

use super::credential::{Credential, Declared};
use super::host::Host;
use super::limits::{Limits, ParsedLimits};
use super::path::normalize_path;
use super::rule::Rule;
use crate::error::{self, Code, Error};
use crate::provider::Profile;
use crate::script::Egress;

/// A policy as it is declared. An empty `allowed_hosts` means that there is no such list.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct DeclaredPolicy {
    /// Whether any host is allowed if `allowed_hosts` is empty.
    pub internet: bool,
    /// The hosts and requests that are allowed.
    pub allowed_hosts: Vec<String>,
    /// The hosts and requests that are denied.
    pub denied_hosts: Vec<String>,
    /// The credentials of requests.
    pub credentials: Vec<Credential>,
    /// How much may be exchanged with each host.
    #[serde(default, skip_serializing_if = "Limits::is_empty")]
    pub limits: Limits,
}

impl From<&Profile> for DeclaredPolicy {
    fn from(profile: &Profile) -> Self {
        DeclaredPolicy {
            internet: profile.internet,
            allowed_hosts: profile.allowed_hosts.clone(),
            denied_hosts: profile.denied_hosts.clone(),
            credentials: profile.credentials.clone(),
            limits: profile.limits.clone(),
        }
    }
}

/// The policy of a profile, with the same meaning as for its class in a Worker: denied hosts are denied, and allowed
/// hosts can be reached even if internet access is off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Whether any host is allowed if `allowed` is empty.
    internet: bool,
    allowed: Vec<Rule>,
    denied: Vec<Rule>,
    pub(super) credentials: Vec<Declared>,
    pub(super) limits: ParsedLimits,
    /// For the controls of tests: rules are compared with the literal host only, and ports are ignored.
    pub(super) weak: bool,
    subject: &'static Subject,
}

/// Who may reach the hosts, in messages.
#[derive(Debug, PartialEq, Eq)]
pub struct Subject {
    /// The one that was refused.
    this: &'static str,
    /// All of its kind.
    pub all: &'static str,
    /// Where its lists of hosts are, after their names.
    place: &'static str,
}

const SANDBOX: Subject = Subject { this: "this sandbox", all: "sandboxes", place: "" };
const SCRIPTS: Subject =
    Subject { this: "scripts", all: "scripts", place: " in `[package.metadata.koze.script]`" };

/// Why a host is denied: the rule for the journal, and a message for the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The rule.
    pub rule: String,
    /// The message.
    pub text: String,
}

impl Policy {
    /// Returns the policy of a profile, or `None` if it allows no egress.
    ///
    /// # Errors
    /// [`Code::InvalidInput`] if an entry is invalid, because it would neither match nor
    /// deny anything.
    pub fn of(profile: &Profile) -> error::Result<Option<Self>> {
        let policy = Self::of_declared(&profile.into())?;
        Ok((!policy.is_off()).then_some(policy))
    }

    /// Returns the policy that a sandbox declares, also if it allows no egress.
    ///
    /// # Errors
    /// As [`Policy::of`].
    pub fn of_declared(declared: &DeclaredPolicy) -> error::Result<Self> {
        let DeclaredPolicy { internet, allowed_hosts, denied_hosts, credentials, limits } = declared;
        let policy = Self::new(*internet, allowed_hosts, denied_hosts, &SANDBOX)?;
        let credentials = credentials.iter().map(Declared::parse).collect::<error::Result<_>>()?;
        Ok(Policy { credentials, limits: ParsedLimits::parse(limits)?, ..policy })
    }

    /// The same for scripts.
    ///
    /// # Errors
    /// As [`Policy::of`]. Entries with a method or a path are invalid, because nothing reads the requests of the browser.
    pub fn of_scripts(egress: &Egress) -> error::Result<Option<Self>> {
        let policy = Self::of_browser(egress)?;
        Ok((!policy.is_off()).then_some(policy))
    }

    /// Returns the policy of the requests of `fetch`, with the credentials of scripts.
    ///
    /// # Errors
    /// As [`Policy::of_scripts`], and if a credential is invalid.
    pub fn of_fetch(egress: &Egress, credentials: &[Credential]) -> error::Result<Self> {
        let credentials = credentials.iter().map(Declared::parse).collect::<error::Result<_>>()?;
        Ok(Policy { credentials, ..Self::of_browser(egress)? })
    }

    /// Returns the policy of the browser of scripts, which may refuse all hosts: the browser can open previews even then.
    ///
    /// # Errors
    /// As [`Policy::of_scripts`].
    pub fn of_browser(egress: &Egress) -> error::Result<Self> {
        let policy = Self::new(egress.internet, &egress.allowed_hosts, &egress.denied_hosts, &SCRIPTS)?;
        match policy.allowed.iter().chain(&policy.denied).find(|rule| rule.is_partial()) {
            Some(rule) => {
                let text = format!(
                    "`{rule}` has a method or a path, which the hosts of scripts cannot have: name the host only"
                );
                Err(Error::new(Code::InvalidInput, text))
            }
            None => Ok(policy),
        }
    }

    fn new(
        internet: bool,
        allowed: &[String],
        denied: &[String],
        subject: &'static Subject,
    ) -> error::Result<Self> {
        let all = |hosts: &[String]| hosts.iter().map(|host| Rule::parse(host)).collect::<error::Result<_>>();
        Ok(Policy {
            internet,
            allowed: all(allowed)?,
            denied: all(denied)?,
            credentials: Vec::new(),
            limits: ParsedLimits::default(),
            weak: false,
            subject,
        })
    }

    /// Returns whether no host can be reached.
    pub fn is_off(&self) -> bool {
        !self.internet && self.allowed.is_empty()
    }

    /// Returns who may reach the hosts.
    pub fn subject(&self) -> &'static Subject {
        self.subject
    }

    /// Weakens the policy, for the controls of tests.
    #[must_use]
    pub fn weakened(self, weak: bool) -> Self {
        Policy { weak, ..self }
    }

    /// Returns the credentials.
    pub fn credentials(&self) -> impl Iterator<Item = &Credential> {
        self.credentials.iter().map(|declared| &declared.credential)
    }

    /// Returns whether each request to a port of a host must be read: an entry with a method or a path, or a credential is for it. TLS
    /// of such a host ends in the proxy.
    pub fn inspects(&self, host: &Host, port: u16) -> bool {
        let allows = |rule: &Rule| rule.is_partial() && rule.allows(host, port);
        let denies = |rule: &Rule| rule.is_partial() && rule.denies(host, port);
        !self.weak
            && (self.allowed.iter().any(allows)
                || self.denied.iter().any(denies)
                || self.credentials.iter().any(|declared| declared.covers(host, port)))
    }

    /// Returns whether requests to some host must be read.
    pub fn inspects_any(&self) -> bool {
        let is_partial = |rules: &[Rule]| rules.iter().any(Rule::is_partial);
        !self.weak && (is_partial(&self.allowed) || is_partial(&self.denied) || !self.credentials.is_empty())
    }

    /// Checks a request to a port of a host, which [`judge`](Self::judge) has allowed. Returns the rule that allows it.
    ///
    /// # Errors
    /// Returns the rule that denies it.
    pub fn judge_request(
        &self,
        host: &Host,
        port: u16,
        method: &str,
        target: &str,
    ) -> Result<String, Refused> {
        let path = normalize_path(target);
        let path = path.as_deref();
        let Subject { this, place, .. } = self.subject;
        let denied = |rule: &&Rule| rule.denies(host, port) && rule.may_match_request(method, path);
        if let Some(rule) = self.denied.iter().find(denied) {
            let text = format!(
                "{this} may not send this {method} request to {host}: `denied_hosts`{place} has `{rule}`"
            );
            return Err(Refused { rule: format!("denied_hosts: {rule}"), text });
        }
        if self.allowed.is_empty() {
            return Ok("internet".to_owned());
        }
        let allowed = |rule: &&Rule| rule.allows(host, port) && rule.matches_request(method, path);
        if let Some(rule) = self.allowed.iter().find(allowed) {
            return Ok(format!("allowed_hosts: {rule}"));
        }
        let rules: Vec<String> = self
            .allowed
            .iter()
            .filter(|rule| rule.allows(host, port))
            .map(|rule| format!("`{rule}`"))
            .collect();
        let odd = if path.is_none() { ", and the path is not in its normal form" } else { "" };
        let text = format!(
            "{this} may not send this {method} request to {host}: `allowed_hosts`{place} has only {}{odd}",
            rules.join(", ")
        );
        Err(Refused { rule: "not in allowed_hosts".to_owned(), text })
    }

    /// Checks a port of a host that a program requests. Returns the rule that allows it.
    ///
    /// # Errors
    /// Returns the rule that denies it.
    pub fn judge(&self, host: &Host, port: u16) -> Result<String, Refused> {
        if self.weak {
            let of = |rules: &[Rule]| rules.iter().any(|rule| rule.names(host));
            let refused = of(&self.denied) || !(self.allowed.is_empty() || of(&self.allowed));
            let (rule, text) = (String::new(), String::new());
            return if refused { Err(Refused { rule, text }) } else { Ok(rule) };
        }
        self.judge_denied(host, port)?;
        let Subject { this, place, .. } = self.subject;
        if self.is_off() {
            let text = format!("{this} may not reach {host}: `allowed_hosts`{place} lists no host");
            return Err(Refused { rule: "no allowed_hosts".to_owned(), text });
        }
        if self.allowed.is_empty() {
            return Ok("internet".to_owned());
        }
        if let Some(rule) = self.allowed.iter().find(|rule| rule.allows(host, port)) {
            return Ok(format!("allowed_hosts: {rule}"));
        }
        let text = if self.allowed.iter().any(|rule| rule.names(host)) {
            format!(
                "{this} may not reach port {port} of {host}: an entry of `allowed_hosts`{place} without a port \
                 allows ports 80 and 443; to allow this one, add `{host}:{port}`"
            )
        } else {
            format!("{this} may not reach {host}: `allowed_hosts`{place} does not list it")
        };
        Err(Refused { rule: "not in allowed_hosts".to_owned(), text })
    }

    /// Checks a name that a program looks up, before it connects to a port.
    ///
    /// # Errors
    /// Returns the rule that denies all ports of the name.
    pub fn judge_name(&self, name: &Host) -> Result<(), Refused> {
        let Subject { this, place, .. } = self.subject;
        if let Some(rule) = self.denied.iter().find(|rule| rule.denies_all(name)) {
            let text = format!("{this} may not reach {name}: `denied_hosts`{place} lists it");
            return Err(Refused { rule: format!("denied_hosts: {rule}"), text });
        }
        if self.allowed.iter().any(|rule| rule.names(name)) || (self.internet && self.allowed.is_empty()) {
            return Ok(());
        }
        let text = format!("{this} may not reach {name}: `allowed_hosts`{place} does not list it");
        Err(Refused { rule: "not in allowed_hosts".to_owned(), text })
    }

    /// Checks that a host is not denied.
    ///
    /// # Errors
    /// Returns the rule that denies it.
    pub fn judge_denied(&self, host: &Host, port: u16) -> Result<(), Refused> {
        self.deny(host, host, port)
    }

    /// Checks an address that a host resolved to.
    ///
    /// # Errors
    /// Returns the rule that denies it.
    pub fn judge_found(&self, host: &Host, address: IpAddr, port: u16) -> Result<(), Refused> {
        if self.weak { Ok(()) } else { self.deny(host, &Host::Address(address), port) }
    }

    /// Checks the host that a program requests within a tunnel to a host: a server name of TLS, or a `Host` of HTTP. The tunnel is allowed to that host
    /// only, because a server that several hosts share would serve another of them. Within a tunnel to an allowed
    /// address, any name may be requested.
    ///
    /// # Errors
    /// Returns the rule that denies it.
    pub fn judge_inner(&self, tunnel: &Host, inner: &Host, port: u16) -> Result<(), Refused> {
        if self.weak || tunnel == inner {
            return Ok(());
        }
        match tunnel {
            Host::Name(_) => self.judge(inner, port).map(drop),
            Host::Address(_) => self.deny(inner, inner, port),
        }
    }

    /// Returns whether there are rules that a host requested within a tunnel could break.
    pub fn has_lists(&self) -> bool {
        !(self.weak || self.allowed.is_empty() && self.denied.is_empty() && self.credentials.is_empty())
    }

    /// Returns whether an unknown host within a tunnel must be rejected.
    pub fn needs_name(&self, tunnel: &Host) -> bool {
        !self.weak && !self.allowed.is_empty() && matches!(tunnel, Host::Name(_))
    }

    fn deny(&self, asked: &Host, host: &Host, port: u16) -> Result<(), Refused> {
        let whole = |rule: &&Rule| !rule.is_partial() && rule.denies(host, port);
        let Some(rule) = self.denied.iter().find(whole) else { return Ok(()) };
        let Subject { this, place, .. } = self.subject;
        let text = if asked == host {
            format!("{this} may not reach {asked}: `denied_hosts`{place} lists it")
        } else {
            format!("{this} may not reach {asked}: `denied_hosts`{place} lists its address {host}")
        };
        Err(Refused { rule: format!("denied_hosts: {rule}"), text })
    }
}

#[cfg(test)]
mod tests;
