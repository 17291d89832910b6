//! `package.metadata.koze.script`: the scripts of agents.

use koze_core::Profiles;
use koze_core::egress::{Credential, Placement, Policy};
use koze_core::script::Egress;
use koze_model::attrs::{HOST_FORM, allowing_entry, allows, is_host, is_request};
use toml_edit::Item;

use super::{Wrong, parse_bool, parse_table, unknown_key};

/// The keys of the table.
const KEYS: &[&str] = &["internet", "allowed_hosts", "denied_hosts", "credentials", "browser", "worker"];

/// The keys of a credential.
const CREDENTIAL_KEYS: &[&str] = &["host", "basic", "header", "query", "sigv4"];

/// `package.metadata.koze.script`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptTable {
    /// The hosts that scripts may reach: those of `allowed_hosts`, and those of credentials.
    pub egress: Egress,
    /// The credentials of their requests.
    pub credentials: Vec<Credential>,
    /// Whether scripts have a browser.
    pub browser: bool,
    /// Whether the Worker serves the tools `script`, too.
    pub worker: bool,
}

impl Default for ScriptTable {
    fn default() -> Self {
        ScriptTable { egress: Egress::default(), credentials: Vec::new(), browser: false, worker: true }
    }
}

impl ScriptTable {
    /// Adds the tools `script` to profiles.
    pub fn add_to(&self, profiles: Profiles) -> Profiles {
        profiles
            .with_script_egress(self.egress.clone())
            .with_script_credentials(self.credentials.clone())
            .with_script_browser(self.browser)
    }
}

/// Reads the table.
pub(super) fn parse(value: &Item, wrong: &mut Vec<Wrong>) -> ScriptTable {
    let mut scripts = ScriptTable::default();
    let ScriptTable { egress, credentials, browser, worker } = &mut scripts;
    let Some(table) = parse_table("script", value, wrong) else { return scripts };
    for (key, value) in table.iter() {
        match key {
            "internet" => egress.internet = parse_bool("script", key, value, wrong),
            "browser" => *browser = parse_bool("script", key, value, wrong),
            "allowed_hosts" => egress.allowed_hosts = parse_hosts(key, value, wrong),
            "denied_hosts" => egress.denied_hosts = parse_hosts(key, value, wrong),
            "credentials" => *credentials = parse_credentials(value, wrong),
            "worker" => *worker = parse_bool("script", key, value, wrong),
            _ => wrong.push((unknown_key("script", key, KEYS), value.span())),
        }
    }
    // As in the attribute, the hosts of credentials need not be listed, and an empty list allows no other hosts. For a provider, an empty
    // list means that there is no allowlist.
    let is_list = table.contains_key("allowed_hosts");
    if is_list || !egress.internet {
        add_hosts(&mut egress.allowed_hosts, credentials);
    }
    if is_list && egress.allowed_hosts.is_empty() {
        egress.internet = false;
    }
    scripts
}

/// Reads a list of hosts.
fn parse_hosts(key: &str, value: &Item, wrong: &mut Vec<Wrong>) -> Vec<String> {
    let Some(list) = value.as_array() else {
        let message = format!("`package.metadata.koze.script.{key}` must be a list of {HOST_FORM}");
        wrong.push((message, value.span()));
        return Vec::new();
    };
    let mut all = Vec::with_capacity(list.len());
    for entry in list {
        match entry.as_str().filter(|host| is_host(host)) {
            Some(host) => all.push(host.to_owned()),
            None => wrong.push((
                format!(
                    "{} is not valid in `package.metadata.koze.script.{key}`: write {HOST_FORM}",
                    entry.to_string().trim()
                ),
                entry.span(),
            )),
        }
    }
    all
}

/// Reads `package.metadata.koze.script.credentials`.
fn parse_credentials(value: &Item, wrong: &mut Vec<Wrong>) -> Vec<Credential> {
    let Some(table) = parse_table("script.credentials", value, wrong) else { return Vec::new() };
    let mut all = Vec::new();
    for (name, entry) in table.iter() {
        let mut errors = Vec::new();
        let credential = parse_credential(name, entry, &mut errors);
        // Names, users, headers and the like.
        let checked =
            credential.as_ref().map(|one| Policy::of_fetch(&Egress::default(), std::slice::from_ref(one)));
        if let Some(Err(error)) = checked {
            let message = format!("`package.metadata.koze.script.credentials.{name}`: {}", error.message);
            errors.push((message, entry.span()));
        }
        all.extend(credential.filter(|_| errors.is_empty()));
        wrong.append(&mut errors);
    }
    all
}

fn parse_credential(name: &str, value: &Item, wrong: &mut Vec<Wrong>) -> Option<Credential> {
    let place = format!("script.credentials.{name}");
    let invalid = |why: &str| format!("`package.metadata.koze.{place}` {why}");
    let Some(table) = value.as_table_like() else {
        wrong.push((invalid("must be a table: `{ host = \"api.example.com\" }`"), value.span()));
        return None;
    };
    let (mut host, mut placements) = (None, Vec::new());
    for (key, entry) in table.iter() {
        let word = entry.as_str().map(str::to_owned);
        let placement = match (key, word) {
            ("host", Some(text)) if is_request(&text) => {
                host = Some(text);
                continue;
            }
            ("host", _) => {
                let form = format!(
                    "has no valid `host`: write {HOST_FORM}. A method may precede it, and a path pattern follow: `GET api.example.com/v1/**`"
                );
                wrong.push((invalid(&form), entry.span()));
                return None;
            }
            ("basic", Some(user)) => Some(Placement::Basic { user }),
            ("header", Some(name)) => Some(Placement::Header { name }),
            ("query", Some(key)) => Some(Placement::Query { key }),
            ("sigv4", _) => parse_sigv4(entry),
            ("basic" | "header" | "query", None) => None,
            _ => {
                wrong.push((unknown_key(&place, key, CREDENTIAL_KEYS), entry.span()));
                return None;
            }
        };
        let Some(placement) = placement else {
            let form = match key {
                "sigv4" => "must be `{ region = \"eu-central-1\", service = \"s3\" }`",
                _ => "must be a text",
            };
            wrong.push((invalid(&format!("has no valid `{key}`: it {form}")), entry.span()));
            return None;
        };
        placements.push(placement);
    }
    let Some(host) = host else {
        wrong.push((invalid("has no `host`: write `{ host = \"api.example.com\" }`"), value.span()));
        return None;
    };
    if placements.len() > 1 {
        let why = "goes in one place of a request: keep one of `basic`, `header`, `query` and `sigv4`";
        wrong.push((invalid(why), value.span()));
        return None;
    }
    let placement = placements.pop().unwrap_or(Placement::Bearer);
    Some(Credential { name: name.to_owned(), host, placement })
}

fn parse_sigv4(value: &Item) -> Option<Placement> {
    let table = value.as_table_like().filter(|table| table.len() == 2)?;
    let word = |key: &str| table.get(key)?.as_str().map(str::to_owned);
    Some(Placement::Sigv4 { region: word("region")?, service: word("service")? })
}

/// Adds the hosts of credentials to a list of allowed hosts, unless an entry of it allows them.
fn add_hosts(allowed: &mut Vec<String>, credentials: &[Credential]) {
    for Credential { host, .. } in credentials {
        if !allowed.iter().any(|entry| allows(entry, host)) {
            allowed.push(allowing_entry(host));
        }
    }
}
