//! Refuses the parts of an egress policy that only sandboxes on this machine enforce, when a Worker is built.

use koze_core::egress::Rule as Entry;
use koze_model::{Kind, Spanned};

use crate::discover::Sandboxes;
use crate::finding::Findings;
use crate::rules::Rule;

/// Reports credentials, and entries of `allowed_hosts` and `denied_hosts` with a method or a path.
pub(crate) fn check(sandboxes: &Sandboxes, findings: &mut Findings) {
    for sandbox in sandboxes.list.iter().filter(|sandbox| sandbox.kind() == Kind::Sandbox) {
        let attributes = &sandbox.attributes;
        let mut refuse = |what: String, span| {
            findings.add(Rule::NotInWorker { what }, Some(sandboxes.place(sandbox, span)));
        };
        for (key, hosts) in
            [("allowed_hosts", &attributes.allowed_hosts), ("denied_hosts", &attributes.denied_hosts)]
        {
            let Some(Spanned { value, span }) = hosts else { continue };
            let is_partial = |entry: &&String| Entry::parse(entry).is_ok_and(|entry| entry.is_partial());
            if let Some(entry) = value.iter().find(is_partial) {
                refuse(format!("the entry `{entry}` of `{key}`"), *span);
            }
        }
        if let Some(credentials) = &attributes.credentials {
            refuse("`credentials`".to_owned(), credentials.span);
        }
    }
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
            assert_eq!(is_request(entry), Entry::parse(entry).is_ok(), "{entry}");
        }
    }
}
