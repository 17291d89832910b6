//! The key `credentials(..)`: secrets that a sandbox's requests carry, and that the sandbox does not have.

use koze_protocol::{is_aws_name, is_credential_header, is_unreserved_word};
use proc_macro2::Span;
use syn::Meta;
use syn::spanned::Spanned as _;

use super::literal::{self, is_request};
use super::nested::{entries, unknown};
use crate::report::Report;
use crate::rules::Rule;
use crate::value::Spanned;

/// A credential.
#[derive(Debug, Clone)]
pub struct Credential {
    /// Its name: that of the secret and of the variable in the sandbox.
    pub name: String,
    /// The requests that it is for: `api.example.com`.
    pub host: Spanned<String>,
    /// Where it goes in a request.
    pub placement: Placement,
}

/// Where a credential goes in a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// `Authorization: Bearer`.
    Bearer,
    /// `Authorization: Basic` with this user.
    Basic(String),
    /// A header of its own, in lowercase.
    Header(String),
    /// A parameter of the query.
    Query(String),
    /// The signature of AWS.
    Sigv4 {
        /// The region.
        region: String,
        /// The service, as in signatures.
        service: String,
    },
}

/// The keys of a credential.
const KEYS: [&str; 5] = ["host", "basic", "header", "query", "sigv4"];

/// What `sigv4` takes, in words.
const SIGV4_FORM: &str = "a region and a service: `sigv4(region = \"eu-central-1\", service = \"s3\")`";

/// What a credential takes, in words.
const FORM: &str = "names with a host each, in parentheses: `API_KEY(host = \"api.example.com\")`";

/// Parses `credentials(API_KEY(host = "api.example.com"), GITHUB_TOKEN(host = "github.com", basic = "x-access-token"))`.
pub(super) fn credentials(meta: &Meta, report: &mut Report) -> Option<Spanned<Vec<Credential>>> {
    let mut all = Vec::new();
    for (name, span, entry) in entries("credentials", meta, report)? {
        let is_portable = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') && name.len() <= 64;
        if !is_portable || name == "__proto__" {
            report.add(Rule::BadVariable { key: "credentials".to_owned(), name }, span);
        } else if matches!(&entry, Meta::List(_)) {
            all.extend(credential(name, span, &entry, report));
        } else {
            literal::bad_form::<()>("credentials", FORM, span, report);
        }
    }
    if all.is_empty() {
        return literal::bad_form("credentials", FORM, meta.path().span(), report);
    }
    Some(Spanned::new(all, meta.path().span()))
}

fn credential(name: String, span: Span, meta: &Meta, report: &mut Report) -> Option<Credential> {
    let mut host = None;
    let mut placement = None;
    for (key, key_span, entry) in entries(&name, meta, report)? {
        if key == "host" {
            host = Some(word(&key, &entry, is_request, HOST, report)?);
            continue;
        }
        if !KEYS.contains(&key.as_str()) {
            unknown(&key, &name, &KEYS, key_span, report);
            continue;
        }
        let new = parse_placement(&key, &entry, report)?;
        if placement.is_some() {
            let rule = Rule::Exclusive {
                key,
                other: "the former key".to_owned(),
                why: "a credential goes in one place of a request: keep one of `basic`, `header`, `query` and `sigv4`"
                    .to_owned(),
            };
            report.add(rule, key_span);
            return None;
        }
        placement = Some(new);
    }
    let Some(host) = host else { return literal::bad_form("credentials", FORM, span, report) };
    Some(Credential { name, host, placement: placement.unwrap_or(Placement::Bearer) })
}

/// Parses `basic = "user"`, `header = "x-api-key"`, `query = "key"` or `sigv4(..)`.
fn parse_placement(key: &str, meta: &Meta, report: &mut Report) -> Option<Placement> {
    const WORD: &str = "1 to 64 letters, digits, `-`, `.`, `_` and `~`";
    const HEADER: &str = "the name of a header in lower case that describes neither the message nor the connection, such as `x-api-key`";
    Some(match key {
        "basic" => Placement::Basic(word(key, meta, is_unreserved_word, WORD, report)?.value),
        "header" => Placement::Header(word(key, meta, is_credential_header, HEADER, report)?.value),
        "query" => Placement::Query(word(key, meta, is_unreserved_word, WORD, report)?.value),
        _ => return sigv4(key, meta, report),
    })
}

/// Parses `sigv4(region = "eu-central-1", service = "s3")`.
fn sigv4(key: &str, meta: &Meta, report: &mut Report) -> Option<Placement> {
    let (mut region, mut service) = (None, None);
    for (name, span, entry) in entries(key, meta, report)? {
        let field = match name.as_str() {
            "region" => &mut region,
            "service" => &mut service,
            _ => {
                unknown(&name, key, &["region", "service"], span, report);
                continue;
            }
        };
        let expected = "1 to 64 lowercase letters, digits and `-`";
        *field = Some(word(&name, &entry, is_aws_name, expected, report)?.value);
    }
    let (Some(region), Some(service)) = (region, service) else {
        return literal::bad_form(key, SIGV4_FORM, meta.path().span(), report);
    };
    Some(Placement::Sigv4 { region, service })
}

/// Parses `key = "text"`, whose text must be valid.
fn word(
    key: &str,
    meta: &Meta,
    is_valid: fn(&str) -> bool,
    expected: &str,
    report: &mut Report,
) -> Option<Spanned<String>> {
    let text = literal::text(key, meta, report)?;
    if is_valid(&text.value) {
        return Some(text);
    }
    literal::bad_value(key, &text.value, expected, text.span, report)
}

/// The form of a credential's host, in words.
const HOST: &str = "a host name in lower case, without scheme; `*.` and a method may precede it, and a port and a path pattern \
                    follow: `GET api.example.com/v1/**`";

/// Returns whether an entry of `allowed_hosts` allows a connection to the host of a credential.
pub fn allows(entry: &str, host: &str) -> bool {
    let (entry, entry_port) = name_and_port(entry);
    let (host, port) = name_and_port(host);
    let port = port.unwrap_or("443");
    let is_port = entry_port.map_or(matches!(port, "80" | "443"), |only| only == port);
    let is_name = match entry.strip_prefix('*') {
        Some(end) => host.len() > end.len() && host.ends_with(end),
        None => entry == host,
    };
    is_port && is_name
}

/// Returns the entry of `allowed_hosts` that allows connections to the host of a credential, and nothing else.
pub fn allowing_entry(host: &str) -> String {
    let (name, port) = name_and_port(host);
    format!("{name}:{}", port.unwrap_or("443"))
}

/// Returns the host of an entry, and its port.
fn name_and_port(entry: &str) -> (&str, Option<&str>) {
    let host = koze_protocol::RequestPattern::split(entry).map_or(entry, |pattern| pattern.host);
    host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port)))
}
