//! The policies of sandboxes that are about requests, and not only about hosts: with methods, paths,
//! credentials or limits.

use koze_core::egress::Rule;
use koze_model::Sandbox;
use koze_templates::REQUESTS_MODULE;
use serde_json::{Map, Value, json};

use crate::images::declared_policy;
use crate::write::Content;

/// The module of the Rust Worker that decides about requests.
pub(super) const MODULE: &str = "requests.rs";

/// Returns whether each request of a sandbox has to be read.
pub(super) fn reads_requests(sandbox: &Sandbox) -> bool {
    let attributes = &sandbox.attributes;
    let lists = [&attributes.allowed_hosts, &attributes.denied_hosts];
    let mut entries = lists.into_iter().flatten().flat_map(|list| &list.value);
    attributes.credentials.is_some()
        || attributes.limits.is_some()
        || entries.any(|entry| Rule::parse(entry).is_ok_and(|rule| rule.is_partial()))
}

/// Returns the policies by class.
pub(super) fn policies(sandboxes: &[Sandbox]) -> Value {
    let read = sandboxes.iter().filter(|sandbox| reads_requests(sandbox));
    let policy = |sandbox: &Sandbox| (sandbox.class.value.clone(), json!(declared_policy(sandbox)));
    Value::Object(read.map(policy).collect::<Map<_, _>>())
}

/// Returns the module, if a sandbox needs it.
pub(super) fn module(sandboxes: &[Sandbox]) -> Option<(&'static str, Content)> {
    sandboxes.iter().any(reads_requests).then(|| (MODULE, super::constant_content(REQUESTS_MODULE)))
}

#[cfg(test)]
mod tests {
    use koze_model::attrs::is_request;

    use super::*;

    /// The attribute and the policy have one grammar.
    #[test]
    fn every_entry_of_the_attribute_is_one_of_the_policy() {
        for entry in [
            "a.example",
            "*.a.example:81",
            "GET a.example",
            "GET a.example/**",
            "a.example/v1/*",
            "POST *.a.example:1/a-*/**/b/",
            "get a.example",
            "a.example//",
            "a.example/..",
            "a.example/a?b",
            "CONNECT a.example",
            "https://a.example",
            "a.example:0",
            "*",
            "",
            "GET ",
            " ",
            "/",
            "a.example/ä",
        ] {
            assert_eq!(is_request(entry), Rule::parse(entry).is_ok(), "{entry}");
        }
    }
}
