//! The key `credentials(..)`: secrets that a sandbox's requests carry, and that the sandbox does not have.

use koze_protocol::{is_credential_header, is_unreserved_word};
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
}

/// The keys of a credential.
const KEYS: [&str; 4] = ["host", "basic", "header", "query"];

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
    let mut placement: Option<Spanned<Placement>> = None;
    for (key, key_span, entry) in entries(&name, meta, report)? {
        let (is_valid, expected): (fn(&str) -> bool, &str) = match key.as_str() {
            "host" => (is_request, HOST),
            "basic" | "query" => (is_unreserved_word, "1 to 64 letters, digits, `-`, `.`, `_` and `~`"),
            "header" => (
                is_credential_header,
                "the name of a header in lower case that describes neither the message nor the connection, such as `x-api-key`",
            ),
            _ => {
                unknown(&key, &name, &KEYS, key_span, report);
                continue;
            }
        };
        let text = literal::text(&key, &entry, report)?;
        if !is_valid(&text.value) {
            return literal::bad_value(&key, &text.value, expected, text.span, report);
        }
        let new = match key.as_str() {
            "host" => {
                host = Some(text);
                continue;
            }
            "basic" => Placement::Basic(text.value),
            "header" => Placement::Header(text.value),
            _ => Placement::Query(text.value),
        };
        if placement.is_some() {
            let rule = Rule::Exclusive {
                key,
                other: "the former key".to_owned(),
                why: "a credential goes in one place of a request: keep one of `basic`, `header` and `query`"
                    .to_owned(),
            };
            report.add(rule, key_span);
            return None;
        }
        placement = Some(Spanned::new(new, key_span));
    }
    let Some(host) = host else { return literal::bad_form("credentials", FORM, span, report) };
    Some(Credential {
        name,
        host,
        placement: placement.map_or(Placement::Bearer, |placement| placement.value),
    })
}

/// The form of a credential's host, in words.
const HOST: &str = "a host name in lower case, without scheme; `*.` and a method may precede it, and a port and a path pattern \
                    follow: `GET api.example.com/v1/**`";

/// Returns whether an entry of `allowed_hosts` allows a connection to the host of a credential.
pub(super) fn allows(entry: &str, host: &str) -> bool {
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

/// Returns the host of an entry, and its port.
fn name_and_port(entry: &str) -> (&str, Option<&str>) {
    let host = koze_protocol::RequestPattern::split(entry).map_or(entry, |pattern| pattern.host);
    host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port)))
}
