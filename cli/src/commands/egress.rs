//! `koze egress explain` and `koze list --egress`: the egress policy of the project's sandboxes, without starting anything.

use std::fmt::Write as _;
use std::process::ExitCode;

use koze_core::Result;
use koze_core::egress::{Credential, Decision, DeclaredPolicy, Host, Limits, Policy, RequestHead};
use koze_core::provider::Profile;
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
    let Some(mut profiles) = read_profiles(place) else { return ExitCode::FAILURE };
    if let Some(name) = sandbox {
        let known: Vec<String> = profiles.iter().map(|profile| format!("`{}`", profile.name)).collect();
        profiles.retain(|profile| profile.name == name);
        if profiles.is_empty() {
            return show::usage(&format!(
                "--sandbox: there is no `{name}`: the sandboxes are {}",
                known.join(", ")
            ));
        }
    }
    let explained: Result<Vec<Explained>> =
        profiles.iter().map(|profile| explain(profile, &request)).collect();
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

/// Prints the policies of all profiles.
pub(super) fn list(place: &ProjectArgs) -> ExitCode {
    let Some(profiles) = read_profiles(place) else { return ExitCode::FAILURE };
    show::out(&match place.format {
        Format::Json => {
            let policies = profiles.iter().map(policy_json).collect::<Vec<Value>>();
            format!("{:#}\n", json!({ "egress": policies }))
        }
        Format::Human | Format::GitHub => profiles.iter().map(policy_text).collect(),
    });
    ExitCode::SUCCESS
}

fn read_profiles(place: &ProjectArgs) -> Option<Vec<Profile>> {
    let mut findings = Findings::new(place.strict);
    let offered = project::offered(place, &mut findings);
    show::findings(&findings);
    offered.ok().map(|(_, profiles)| profiles.list().to_vec())
}

fn policy_text(profile: &Profile) -> String {
    let mut text = format!("{}\n", profile.name);
    let mut line = |key: &str, value: &str| {
        let _ = writeln!(text, "  {key:<11} {value}");
    };
    match (profile.internet, profile.allowed_hosts.is_empty()) {
        (false, true) => line("internet", "off"),
        (true, true) => line("internet", "on"),
        (_, false) => profile.allowed_hosts.iter().for_each(|host| line("allow", host)),
    }
    profile.denied_hosts.iter().for_each(|host| line("deny", host));
    for Credential { name, host, placement } in &profile.credentials {
        line("credential", &format!("{name} for {host}, in {placement}"));
    }
    let Limits { requests, bytes } = &profile.limits;
    let requests = requests.as_ref().map(|limit| format!("{limit} requests"));
    for limit in requests.iter().chain(bytes) {
        line("limit", &format!("{limit} for each host"));
    }
    text
}

fn policy_json(profile: &Profile) -> Value {
    let mut policy = json!(DeclaredPolicy::from(profile));
    policy["sandbox"] = json!(profile.name);
    policy
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

fn explain(profile: &Profile, request: &Request) -> Result<Explained> {
    let Request { tls, host, port, method, target } = request;
    let policy = Policy::of_declared(&profile.into())?;
    let head =
        RequestHead { tls: *tls, host, port: *port, method, target, headers: Vec::new(), body_sha256: None };
    let decided = policy.judge(host, *port).map(|rule| (rule, policy.decide(&head, &[])));
    let mut explained = Explained {
        sandbox: profile.name.clone(),
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
            text.push_str("  koze's proxy reads the request: TLS ends there\n");
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
