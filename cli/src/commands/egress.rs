//! `koze egress explain` and `koze list --egress`: the egress policies of the project's sandboxes and scripts, without starting anything.

use std::fmt::Write as _;
use std::process::ExitCode;

use koze_core::egress::{Credential, Decision, DeclaredPolicy, Host, Limits, Policy, RequestHead, SCRIPTS};
use koze_core::provider::Profile;
use koze_core::script::Egress;
use koze_core::{Profiles, Result};
use serde_json::{Value, json};

use super::{local, project, show};
use crate::args::{self, EgressAction, Format, ProjectArgs};
use crate::finding::Findings;

pub(super) fn run(args: &args::Egress) -> ExitCode {
    match &args.action {
        EgressAction::Learn(args) => local::learn(args),
        EgressAction::Explain { url, method, sandbox, place } => {
            explain_request(url, method, sandbox.as_deref(), place)
        }
    }
}

fn explain_request(url: &str, method: &str, sandbox: Option<&str>, place: &ProjectArgs) -> ExitCode {
    let request = match Request::parse(method, url) {
        Ok(request) => request,
        Err(text) => return show::usage(&text),
    };
    let Some(mut policies) = read_policies(place) else { return ExitCode::FAILURE };
    if let Some(name) = sandbox {
        let known: Vec<String> = policies.iter().map(|named| format!("`{}`", named.name)).collect();
        policies.retain(|named| named.name == name);
        if policies.is_empty() {
            return show::usage(&format!(
                "--sandbox: there is no `{name}`: the sandboxes are {}",
                known.join(", ")
            ));
        }
    }
    let explained: Result<Vec<Explained>> = policies.iter().map(|named| explain(named, &request)).collect();
    let explained = match explained {
        Ok(explained) => explained,
        Err(error) => return show::failed(&error),
    };
    let is_allowed = explained.iter().all(|one| one.allowed);
    show::out(&match place.format {
        Format::Json => {
            format!(
                "{:#}\n",
                json!({ "requests": explained.iter().map(Explained::to_json).collect::<Vec<Value>>() })
            )
        }
        Format::Human | Format::GitHub => explained.iter().map(Explained::to_text).collect(),
    });
    ExitCode::from(u8::from(!is_allowed))
}

/// Prints all policies.
pub(super) fn list(place: &ProjectArgs) -> ExitCode {
    let Some(policies) = read_policies(place) else { return ExitCode::FAILURE };
    show::out(&match place.format {
        Format::Json => {
            let policies = policies.iter().map(NamedPolicy::to_json).collect::<Vec<Value>>();
            format!("{:#}\n", json!({ "egress": policies }))
        }
        Format::Human | Format::GitHub => policies.iter().map(NamedPolicy::to_text).collect(),
    });
    ExitCode::SUCCESS
}

/// A policy, with the name of its sandboxes.
struct NamedPolicy {
    name: String,
    declared: DeclaredPolicy,
    of_scripts: bool,
}

fn read_policies(place: &ProjectArgs) -> Option<Vec<NamedPolicy>> {
    let mut findings = Findings::new(place.strict);
    let offered = project::offered(place, &mut findings);
    show::findings(&findings);
    let (_, profiles) = offered.ok()?;
    let of_profile = |profile: &Profile| NamedPolicy {
        name: profile.name.clone(),
        declared: profile.into(),
        of_scripts: false,
    };
    Some(profiles.list().iter().map(of_profile).chain(NamedPolicy::of_scripts(&profiles)).collect())
}

impl NamedPolicy {
    /// Returns the policy of scripts, if the project has some.
    fn of_scripts(profiles: &Profiles) -> Option<Self> {
        let Egress { internet, allowed_hosts, denied_hosts } = profiles.script_egress()?.clone();
        let credentials = profiles.script_credentials().list().to_vec();
        let limits = Limits::default();
        let declared = DeclaredPolicy { internet, allowed_hosts, denied_hosts, credentials, limits };
        Some(NamedPolicy { name: SCRIPTS.to_owned(), declared, of_scripts: true })
    }

    fn parse(&self) -> Result<Policy> {
        if !self.of_scripts {
            return Policy::of_declared(&self.declared);
        }
        let DeclaredPolicy { internet, allowed_hosts, denied_hosts, credentials, .. } = self.declared.clone();
        Policy::of_fetch(&Egress { internet, allowed_hosts, denied_hosts }, &credentials)
    }

    fn to_text(&self) -> String {
        let mut text = format!("{}\n", self.name);
        let mut line = |key: &str, value: &str| {
            let _ = writeln!(text, "  {key:<11} {value}");
        };
        let DeclaredPolicy { internet, allowed_hosts, denied_hosts, credentials, limits } = &self.declared;
        if allowed_hosts.is_empty() {
            line("internet", if *internet { "on" } else { "off" });
        }
        for host in allowed_hosts {
            line("allow", host);
        }
        for host in denied_hosts {
            line("deny", host);
        }
        for Credential { name, host, placement } in credentials {
            line("credential", &format!("{name} for {host}, in {placement}"));
        }
        let requests = limits.requests.as_ref().map(|limit| format!("{limit} requests"));
        for limit in requests.iter().chain(&limits.bytes) {
            line("limit", &format!("{limit} for each host"));
        }
        text
    }

    fn to_json(&self) -> Value {
        let mut policy = json!(self.declared);
        policy["sandbox"] = json!(self.name);
        policy
    }
}

/// A request, as a URL says it.
struct Request {
    tls: bool,
    host: Host,
    port: u16,
    method: String,
    target: String,
}

impl Request {
    fn parse(method: &str, url: &str) -> std::result::Result<Self, String> {
        let invalid =
            || format!("`{}` is not a URL such as `https://api.example.com/v1`", url.escape_debug());
        let (scheme, rest) = url.split_once("://").ok_or_else(invalid)?;
        let tls = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return Err(invalid()),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        let target = target.split('#').next().unwrap_or_default();
        let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
        let (host, port) = match authority.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')) {
            Some((host, port)) => (host, port.parse().ok().filter(|port| *port != 0).ok_or_else(invalid)?),
            None => (authority, if tls { 443 } else { 80 }),
        };
        if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-') {
            return Err(format!("--method: `{}` is not a method such as `GET`", method.escape_debug()));
        }
        let host = Host::parse(host).ok_or_else(invalid)?;
        Ok(Request { tls, host, port, method: method.to_ascii_uppercase(), target })
    }
}

/// What happens to a request of a sandbox.
struct Explained {
    sandbox: String,
    allowed: bool,
    rule: String,
    why: String,
    /// Whether koze's proxy reads the request.
    is_read: bool,
    /// The credentials that the request may carry, and where.
    credentials: Vec<(String, String)>,
}

fn explain(named: &NamedPolicy, request: &Request) -> Result<Explained> {
    let Request { tls, host, port, method, target } = request;
    let policy = named.parse()?;
    let head =
        RequestHead { tls: *tls, host, port: *port, method, target, headers: Vec::new(), body_sha256: None };
    let decided = policy.judge(host, *port).map(|rule| (rule, policy.decide(&head, &[])));
    let mut explained = Explained {
        sandbox: named.name.clone(),
        allowed: false,
        rule: String::new(),
        why: String::new(),
        is_read: policy.inspects(host, *port),
        credentials: Vec::new(),
    };
    match decided {
        Err(refused) | Ok((_, Decision::Deny(refused))) => {
            explained.rule = refused.rule;
            explained.why = refused.text;
        }
        // Without headers, a request has no signature that covers its body.
        Ok((_, Decision::ReadBody)) => unreachable!("a request without headers"),
        Ok((of_host, Decision::Allow { rule } | Decision::Replace { rule, .. })) => {
            explained.allowed = true;
            explained.rule = if rule.is_empty() { of_host } else { rule };
            let carried = policy.credentials_for(&head);
            explained.credentials = carried
                .map(|credential| (credential.name.clone(), credential.placement.to_string()))
                .collect();
        }
    }
    Ok(explained)
}

impl Explained {
    fn to_text(&self) -> String {
        let mut text = if self.allowed {
            format!("{}: allowed by `{}`\n", self.sandbox, self.rule)
        } else {
            format!("{}: refused by `{}`: {}\n", self.sandbox, self.rule, self.why)
        };
        if self.allowed && self.is_read {
            let read = if self.sandbox == SCRIPTS {
                "koze reads the request"
            } else {
                "koze's proxy reads the request: TLS ends there"
            };
            let _ = writeln!(text, "  {read}");
        }
        for (name, place) in &self.credentials {
            let _ = writeln!(text, "  {name}: its placeholder is replaced in {place}");
        }
        text
    }

    fn to_json(&self) -> Value {
        let credentials = self.credentials.iter().map(|(name, _)| name).collect::<Vec<_>>();
        json!({
            "sandbox": self.sandbox, "allowed": self.allowed, "rule": self.rule,
            "why": (!self.allowed).then_some(&self.why), "read": self.is_read, "credentials": credentials,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed() {
        let all = |url: &str| {
            Request::parse("get", url)
                .map(|request| (request.tls, request.host.to_string(), request.port, request.target))
        };
        assert_eq!(all("https://A.example"), Ok((true, "a.example".into(), 443, "/".into())));
        assert_eq!(all("http://a.example:81/b?c#d"), Ok((false, "a.example".into(), 81, "/b?c".into())));
        assert_eq!(all("https://[::1]:1?c"), Ok((true, "::1".into(), 1, "/?c".into())));
        for url in [
            "a.example",
            "ftp://a.example/",
            "https://",
            "https://a:0/",
            "https://u@a.example/",
            "https://a b/",
        ] {
            assert!(all(url).is_err(), "{url}");
        }
        assert!(Request::parse("G T", "https://a.example").is_err());
    }
}
