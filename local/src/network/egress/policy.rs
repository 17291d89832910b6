//! The egress policy: the hosts that a sandbox or scripts may reach.

use std::net::IpAddr;

use super::host::Host;
use super::rule::Rule;
use crate::weakness::{Weakness, Weaknesses};
use koze_core::error;
use koze_core::provider::Profile;
use koze_core::script::Egress;

/// The policy of a profile, with the same meaning as for its class in a Worker: denied hosts are denied, and allowed
/// hosts can be reached even if internet access is off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super::super) struct Policy {
    /// Whether any host is allowed if `allowed` is empty.
    internet: bool,
    allowed: Vec<Rule>,
    denied: Vec<Rule>,
    /// For the controls of tests: rules are compared with the literal host only, and ports are ignored.
    weak: bool,
    subject: &'static Subject,
}

/// Who may reach the hosts, in messages.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Subject {
    /// The one that was refused.
    this: &'static str,
    /// All of its kind.
    pub(super) all: &'static str,
    /// Where its lists of hosts are, after their names.
    place: &'static str,
}

const SANDBOX: Subject = Subject { this: "this sandbox", all: "sandboxes", place: "" };
const SCRIPTS: Subject =
    Subject { this: "scripts", all: "scripts", place: " in `[package.metadata.koze.script]`" };

/// Why a host is denied: the rule for the journal, and a message for the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) rule: String,
    pub(super) text: String,
}

impl Policy {
    /// Returns the policy of a profile, or `None` if it allows no egress.
    ///
    /// # Errors
    /// [`Code::InvalidInput`](crate::Code::InvalidInput) if an entry is invalid, because it would neither match nor
    /// deny anything.
    pub(in super::super::super) fn of(profile: &Profile) -> error::Result<Option<Self>> {
        let policy = Self::new(profile.internet, &profile.allowed_hosts, &profile.denied_hosts, &SANDBOX)?;
        Ok((!policy.is_off()).then_some(policy))
    }

    /// The same for scripts.
    pub(in super::super::super) fn of_scripts(egress: &Egress) -> error::Result<Option<Self>> {
        let policy = Self::of_browser(egress)?;
        Ok((!policy.is_off()).then_some(policy))
    }

    /// Returns the policy of the browser of scripts, which may refuse all hosts: the browser can open previews even then.
    pub(in super::super::super) fn of_browser(egress: &Egress) -> error::Result<Self> {
        Self::new(egress.internet, &egress.allowed_hosts, &egress.denied_hosts, &SCRIPTS)
    }

    fn new(
        internet: bool,
        allowed: &[String],
        denied: &[String],
        subject: &'static Subject,
    ) -> error::Result<Self> {
        let all = |hosts: &[String]| hosts.iter().map(|host| Rule::parse(host)).collect::<error::Result<_>>();
        Ok(Policy { internet, allowed: all(allowed)?, denied: all(denied)?, weak: false, subject })
    }

    fn is_off(&self) -> bool {
        !self.internet && self.allowed.is_empty()
    }

    pub(super) fn subject(&self) -> &'static Subject {
        self.subject
    }

    /// Weakens the policy, if the sandbox lacks this protection.
    pub(in super::super::super) fn weakened(self, weak: &Weaknesses) -> Self {
        Policy { weak: weak.has(&Weakness::Egress), ..self }
    }

    /// Checks a port of a host that a program requests. Returns the rule that allows it.
    pub(super) fn judge(&self, host: &Host, port: u16) -> Result<String, Refused> {
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

    /// Checks that a host is not denied.
    pub(super) fn judge_denied(&self, host: &Host, port: u16) -> Result<(), Refused> {
        self.deny(host, host, port)
    }

    /// Checks an address that a host resolved to.
    pub(super) fn judge_found(&self, host: &Host, address: IpAddr, port: u16) -> Result<(), Refused> {
        if self.weak { Ok(()) } else { self.deny(host, &Host::Address(address), port) }
    }

    /// Checks the host that a program requests within a tunnel to a host: a server name of TLS, or a `Host` of HTTP. The tunnel is allowed to that host
    /// only, because a server that several hosts share would serve another of them. Within a tunnel to an allowed
    /// address, any name may be requested.
    pub(super) fn judge_inner(&self, tunnel: &Host, inner: &Host, port: u16) -> Result<(), Refused> {
        if self.weak || tunnel == inner {
            return Ok(());
        }
        match tunnel {
            Host::Name(_) => self.judge(inner, port).map(drop),
            Host::Address(_) => self.deny(inner, inner, port),
        }
    }

    /// Returns whether there are rules that a host requested within a tunnel could break.
    pub(super) fn has_lists(&self) -> bool {
        !(self.weak || self.allowed.is_empty() && self.denied.is_empty())
    }

    /// Returns whether an unknown host within a tunnel must be rejected.
    pub(super) fn needs_name(&self, tunnel: &Host) -> bool {
        !self.weak && !self.allowed.is_empty() && matches!(tunnel, Host::Name(_))
    }

    fn deny(&self, asked: &Host, host: &Host, port: u16) -> Result<(), Refused> {
        let Some(rule) = self.denied.iter().find(|rule| rule.denies(host, port)) else { return Ok(()) };
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
mod tests {
    use super::*;
    use koze_core::error::Code;
    use koze_core::provider::Size;

    fn profile(internet: bool, allowed: &[&str], denied: &[&str]) -> Profile {
        let all = |hosts: &[&str]| hosts.iter().map(|&host| host.to_owned()).collect();
        Profile {
            name: "a".into(),
            reference: "a:1".into(),
            stored: None,
            internet,
            allowed_hosts: all(allowed),
            denied_hosts: all(denied),
            env: Vec::new(),
            size: Size { memory_mib: 1, disk_mb: 1 },
            sizes: Vec::new(),
            sleep_after: None,
            keep_files: false,
            processes: true,
            tools: Vec::new(),
            workspace: None,
        }
    }

    fn policy(profile: &Profile) -> Policy {
        Policy::of(profile).unwrap().unwrap()
    }

    fn reaches(profile: &Profile, host: &str) -> bool {
        policy(profile).judge(&Host::parse(host).unwrap(), 443).is_ok()
    }

    #[test]
    fn off_by_default() {
        assert_eq!(Policy::of(&profile(false, &[], &[])).unwrap(), None);
        assert_eq!(Policy::of(&profile(false, &[], &["a.example"])).unwrap(), None);
        assert!(reaches(&profile(true, &[], &[]), "any.example"));
        // As in a Worker, allowed hosts can be reached even if internet access is off.
        let some = profile(false, &["a.example"], &[]);
        assert!(reaches(&some, "a.example") && !reaches(&some, "b.example"));
    }

    #[test]
    fn patterns() {
        let profile =
            profile(true, &["a.example", "*.b.example", "203.0.113.7", "*.c.d"], &["*.x.b.example", "c.c.d"]);
        for host in
            ["a.example", "A.EXAMPLE.", "y.b.example", "y.y.b.example", "203.0.113.7", "x.b.example", "e.c.d"]
        {
            assert!(reaches(&profile, host), "{host}");
        }
        for host in [
            "b.example",
            "y.a.example",
            "ya.example",
            "yb.example",
            "203.0.113.8",
            "[::1]",
            "y.x.b.example",
            "c.c.d",
        ] {
            assert!(!reaches(&profile, host), "{host}");
        }
        // One address in two notations.
        assert!(reaches(&profile, "[::ffff:203.0.113.7]"));
    }

    #[test]
    fn ports() {
        let profile = profile(
            true,
            &[
                "a.example",
                "b.example:8080",
                "*.c.example",
                "*.c.example:22",
                "203.0.113.7:81",
                "[2001:db8::1]:81",
            ],
            &["d.a.example", "x.c.example:80"],
        );
        for (host, port, wanted) in [
            ("a.example", 80, true),
            ("a.example", 443, true),
            ("a.example", 22, false),
            ("a.example", 8080, false),
            ("b.example", 8080, true),
            ("b.example", 80, false),
            ("b.example", 443, false),
            ("y.c.example", 443, true),
            ("y.c.example", 22, true),
            ("y.c.example", 25, false),
            ("203.0.113.7", 81, true),
            ("203.0.113.7", 80, false),
            ("[2001:db8::1]", 81, true),
            ("[2001:db8::1]", 80, false),
            ("x.c.example", 80, false),
            ("x.c.example", 443, true),
        ] {
            let judged = policy(&profile).judge(&Host::parse(host).unwrap(), port);
            assert_eq!(judged.is_ok(), wanted, "{host} {port}: {judged:?}");
            // The control.
            let weak = policy(&profile)
                .weakened(&Weaknesses::of_test(&[Weakness::Egress]))
                .judge(&Host::parse(host).unwrap(), port);
            assert_eq!(weak.is_ok(), host != "x.c.example", "{host} {port}");
        }
        // Without lists of hosts, ports are not restricted.
        let all = self::profile(true, &[], &["a.example"]);
        for (host, port, wanted) in
            [("b.example", 22, true), ("a.example", 22, false), ("a.example", 443, false)]
        {
            assert_eq!(
                policy(&all).judge(&Host::parse(host).unwrap(), port).is_ok(),
                wanted,
                "{host} {port}"
            );
        }
    }

    #[test]
    fn embedded_addresses() {
        let profile = profile(true, &[], &["203.0.113.7", "198.51.100.1:80"]);
        let cases: serde_json::Value = serde_json::from_str(include_str!("addresses.json")).unwrap();
        let denied: Host = Host::parse("203.0.113.7").unwrap();
        for case in cases.as_array().unwrap() {
            let address = case["address"].as_str().unwrap();
            let host = Host::Address(address.parse().unwrap());
            let holds = case["holds"].as_array().unwrap().iter().any(|held| held == "203.0.113.7");
            let wanted = !holds && host != denied;
            assert_eq!(policy(&profile).judge(&host, 443).is_ok(), wanted, "{address}");
            let found =
                policy(&profile).judge_found(&Host::Name("a.example".into()), address.parse().unwrap(), 443);
            assert_eq!(found.is_ok(), wanted, "{address}");
        }
        let weak = policy(&profile).weakened(&Weaknesses::of_test(&[Weakness::Egress]));
        let mapped = Host::Address("64:ff9b::203.0.113.7".parse().unwrap());
        assert!(weak.judge(&mapped, 443).is_ok(), "the control");
        let found = policy(&profile).judge_found(&mapped, "198.51.100.1".parse().unwrap(), 443);
        assert!(found.is_ok(), "of another port");
        // A rule for a name does not apply to the addresses that it resolves to.
        let refused =
            policy(&profile).judge_found(&Host::Name("a.example".into()), "203.0.113.7".parse().unwrap(), 1);
        let text = "this sandbox may not reach a.example: `denied_hosts` lists its address 203.0.113.7";
        assert_eq!(refused.unwrap_err().text, text);
    }

    #[test]
    fn names_within_tunnels() {
        let name = |text: &str| Host::parse(text).unwrap();
        let some = policy(&profile(false, &["a.example", "*.b.example", "203.0.113.7"], &["x.b.example"]));
        for (tunnel, inner, wanted) in [
            ("a.example", "a.example", true),
            ("a.example", "c.b.example", true),
            ("a.example", "other.example", false),
            ("a.example", "x.b.example", false),
            ("203.0.113.7", "other.example", true),
            ("203.0.113.7", "x.b.example", false),
        ] {
            assert_eq!(
                some.judge_inner(&name(tunnel), &name(inner), 443).is_ok(),
                wanted,
                "{tunnel} {inner}"
            );
            assert!(
                some.clone()
                    .weakened(&Weaknesses::of_test(&[Weakness::Egress]))
                    .judge_inner(&name(tunnel), &name(inner), 443)
                    .is_ok(),
                "the control"
            );
        }
        let all = policy(&profile(true, &[], &["x.b.example"]));
        assert!(all.judge_inner(&name("a.example"), &name("b.example"), 443).is_ok());
        assert!(all.judge_inner(&name("a.example"), &name("x.b.example"), 443).is_err());
    }

    #[test]
    fn invalid_hosts() {
        for host in [
            "",
            "*",
            "*.",
            "a*b.example",
            "https://a.example",
            "a.example:",
            "a.example:0",
            "a.example:080",
            "a.example:65536",
            "a.example:+80",
            "a.example:443/x",
            ":80",
            "2001:db8::1",
            "*.*.example",
            "*.1.2.3.4",
            "0x7f.1",
        ] {
            for profile in [profile(true, &[host], &[]), profile(false, &[], &[host])] {
                let error = Policy::of(&profile).unwrap_err();
                assert_eq!(error.code, Code::InvalidInput, "{host}");
            }
        }
    }
}
