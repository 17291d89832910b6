//! The key `limits(..)`: how much a sandbox exchanges with each host.

use koze_protocol::Limit;
use syn::Meta;
use syn::spanned::Spanned as _;

use super::literal;
use super::nested::{entries, unknown};
use crate::report::Report;
use crate::value::Spanned;

/// The limits for each host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits {
    /// The number of requests in a period: `100/m`.
    pub requests: Option<String>,
    /// The number of bytes, which may be for a period: `50MB`, `1GB/d`.
    pub bytes: Option<String>,
}

/// What the key takes, in words.
const FORM: &str =
    "`requests`, `bytes` or both, in parentheses: `limits(requests = \"100/m\", bytes = \"50MB\")`";

/// Parses `limits(requests = "100/m", bytes = "50MB")`.
pub(super) fn limits(meta: &Meta, report: &mut Report) -> Option<Spanned<Limits>> {
    const REQUESTS: &str = "a number of requests in a second, minute, hour or day, such as `100/m`";
    const BYTES: &str =
        "a number of bytes with a unit, such as `50MB` or `1GiB`; a period may follow: `1GB/d`";
    let mut limits = Limits::default();
    for (name, span, entry) in entries("limits", meta, report)? {
        let (field, is_valid, expected): (_, fn(&str) -> bool, _) = match name.as_str() {
            "requests" => (&mut limits.requests, |text| Limit::of_requests(text).is_some(), REQUESTS),
            "bytes" => (&mut limits.bytes, |text| Limit::of_bytes(text).is_some(), BYTES),
            _ => {
                unknown(&name, "limits", &["requests", "bytes"], span, report);
                continue;
            }
        };
        let text = literal::text(&name, &entry, report)?;
        if !is_valid(&text.value) {
            return literal::bad_value(&name, &text.value, expected, text.span, report);
        }
        *field = Some(text.value);
    }
    if limits == Limits::default() {
        return literal::bad_form("limits", FORM, meta.path().span(), report);
    }
    Some(Spanned::new(limits, meta.path().span()))
}
