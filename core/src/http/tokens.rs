//! Authentication: the token of a request, and its tenant. Every host that serves several tenants reads its tokens with this
//! code.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::id::SessionId;

/// The secret with the single token.
pub const TOKEN: &str = "KOZE_TOKEN";
/// The tenant of the single token.
pub const TENANT: &str = "default";
/// The secret with the tokens of several tenants: a JSON object from tenant to token.
pub const TOKENS: &str = "KOZE_TOKENS";

/// The shortest token, in bytes.
pub const MIN_TOKEN: usize = 16;
/// Characters that may separate a token from other words in a header.
const BETWEEN: [char; 6] = [' ', '\t', ',', ';', '=', '"'];

/// The tokens of a server, by tenant.
#[derive(Debug, PartialEq, Eq)]
pub struct Tokens {
    tenants: Vec<(String, String)>,
    secret: String,
}

/// A secret that cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub struct InvalidSecret {
    /// Its name.
    pub name: &'static str,
    /// What is wrong with it.
    pub why: String,
}

impl Tokens {
    /// Parses the two secrets. Returns `None` if they contain no token.
    ///
    /// # Errors
    /// [`InvalidSecret`] names the first secret that is not valid.
    pub fn read(one: Option<&str>, several: Option<&str>) -> Result<Option<Self>, InvalidSecret> {
        let mut tenants = Vec::new();
        if let Some(token) = one {
            tenants.push((TENANT.to_owned(), token.to_owned(), TOKEN));
        }
        if let Some(text) = several {
            let map: BTreeMap<String, String> = serde_json::from_str(text)
                .map_err(|_| unusable(TOKENS, "it is not a JSON object from tenants to tokens"))?;
            tenants.extend(map.into_iter().map(|(tenant, token)| (tenant, token, TOKENS)));
        }
        // Derived from both. From one alone, the tenant with that token could derive the keys of the others.
        let secret = serde_json::json!([one, several]).to_string();
        if tenants.is_empty() {
            return Ok(None);
        }
        for (index, (tenant, token, name)) in tenants.iter().enumerate() {
            if SessionId::new(tenant.as_str(), "s").is_err() {
                return Err(unusable(
                    name,
                    "a tenant's name must have 1 to 256 bytes and no control characters",
                ));
            }
            if token.len() < MIN_TOKEN {
                return Err(unusable(name, format!("a token must have at least {MIN_TOKEN} bytes")));
            }
            if tenants[..index].iter().any(|(other, same, _)| same == token || other == tenant) {
                return Err(unusable(TOKENS, "each tenant must appear once and have its own token"));
            }
        }
        let tenants = tenants.into_iter().map(|(tenant, token, _)| (tenant, token)).collect();
        Ok(Some(Tokens { tenants, secret }))
    }

    /// Returns the tenants.
    pub fn tenants(&self) -> impl Iterator<Item = &str> {
        self.tenants.iter().map(|(tenant, _)| tenant.as_str())
    }

    /// Returns the secret that the server's own keys are derived from.
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// Returns whether a header contains a token of the server, in any scheme. Takes constant time.
    pub fn are_in(&self, header: &str) -> bool {
        let mut found = false;
        let tokens: Vec<_> = self
            .tenants
            .iter()
            .map(|(_, token)| (token, Sha256::digest(token), token.contains(BETWEEN)))
            .collect();
        let starts = header.match_indices(BETWEEN).map(|(at, _)| at + 1);
        for rest in std::iter::once(0).chain(starts).map(|start| &header.as_bytes()[start..]) {
            let word = rest.split(|byte| BETWEEN.contains(&char::from(*byte))).next().map(Sha256::digest);
            for (token, digest, is_broken) in &tokens {
                // A token can contain such a character.
                let part = if *is_broken { rest.get(..token.len()).map(Sha256::digest) } else { word };
                found |= part.is_some_and(|part| part.as_slice().ct_eq(digest.as_slice()).into());
            }
        }
        found
    }

    /// Returns the tenant whose token is in the `Authorization` header. Takes constant time.
    ///
    /// # Errors
    /// Returns the message of the response, with the status 401.
    pub fn tenant(&self, header: Option<&str>) -> Result<&str, &'static str> {
        let given = header.and_then(bearer).map(Sha256::digest);
        let given = given.as_deref().ok_or("the header `Authorization: Bearer` is missing")?;
        let mut found = None;
        for (tenant, token) in &self.tenants {
            if bool::from(Sha256::digest(token).as_slice().ct_eq(given)) {
                found = Some(tenant.as_str());
            }
        }
        found.ok_or("the token is not one of this server's")
    }
}

/// Returns the token of a header. The scheme is not case-sensitive.
fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim_start())
}

fn unusable(name: &'static str, why: impl Into<String>) -> InvalidSecret {
    InvalidSecret { name, why: why.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "0123456789abcdef";

    #[test]
    fn tokens_in_headers() {
        let tokens = Tokens::read(Some(ONE), Some(r#"{"a": "a token of sixteen"}"#)).unwrap().unwrap();
        for header in
            [ONE, &format!("Bearer {ONE}"), &format!("bearer  {ONE}, x"), &format!("Token token=\"{ONE}\"")]
        {
            assert!(tokens.are_in(header), "{header}");
        }
        for header in ["", "Bearer", "Bearer x", &format!("Bearer x{ONE}"), &format!("Bearer {}", &ONE[1..])]
        {
            assert!(!tokens.are_in(header), "{header}");
        }
        let spaced = Tokens::read(None, Some(r#"{"a": "a token of sixteen"}"#)).unwrap().unwrap();
        for header in ["Bearer a token of sixteen", "a token of sixteen", "x=y; b=a token of sixteen; c=d"] {
            assert!(spaced.are_in(header), "{header}");
        }
        for header in ["Bearer a token of sixtee", "Bearer xa token of sixteen", "ä, a token of thirty"] {
            assert!(!spaced.are_in(header), "{header}");
        }
    }

    #[test]
    fn invalid_secrets_are_refused() {
        let long = format!("{{\"a\": \"{ONE}\", \"b\": \"{ONE}\"}}");
        for (one, several, what) in [
            (Some(""), None, "KOZE_TOKEN: a token must have at least 16"),
            (Some(&ONE[1..]), None, "KOZE_TOKEN: a token must have at least 16"),
            (None, Some(""), "not a JSON object"),
            (None, Some("[]"), "not a JSON object"),
            (None, Some("{\"a\": 1}"), "not a JSON object"),
            (None, Some("{\"a\": \"short\"}"), "KOZE_TOKENS: a token must have at least 16"),
            (None, Some("{\"\": \"0123456789abcdef\"}"), "a tenant's name must have"),
            (Some(ONE), Some("{\"a\": \"short\"}"), "KOZE_TOKENS: a token must have at least 16"),
            (Some(ONE), Some("{\"default\": \"fedcba9876543210\"}"), "each tenant must appear once"),
            (Some(ONE), Some("{\"a\": \"0123456789abcdef\"}"), "its own token"),
            (None, Some(long.as_str()), "its own token"),
        ] {
            let InvalidSecret { name, why } = Tokens::read(one, several).unwrap_err();
            assert!(format!("{name}: {why}").contains(what), "{one:?} {several:?}: {name}: {why}");
        }
        for several in [None, Some("{}")] {
            assert_eq!(Tokens::read(None, several), Ok(None));
        }
    }

    #[test]
    fn the_signing_secret_depends_on_all_tokens() {
        let several = "{\"a\": \"fedcba9876543210\"}";
        let read = |one: Option<&str>, several: Option<&str>| Tokens::read(one, several).unwrap().unwrap();
        let both = read(Some(ONE), Some(several));
        for alone in [read(Some(ONE), None), read(None, Some(several))] {
            assert_ne!(both.secret(), alone.secret());
        }
    }

    #[test]
    fn a_token_is_a_tenants() {
        let both = Tokens::read(Some(ONE), Some("{\"a\": \"fedcba9876543210\"}")).unwrap().unwrap();
        assert_eq!(both.tenants().collect::<Vec<_>>(), ["default", "a"]);
        let tenant = |header: &str| both.tenant(Some(header));
        for header in [format!("Bearer {ONE}"), format!("bearer  {ONE}"), format!(" BEARER {ONE} ")] {
            assert_eq!(tenant(&header), Ok("default"), "{header}");
        }
        assert_eq!(tenant("Bearer fedcba9876543210"), Ok("a"));
        for header in ["", "Bearer", "Bearer ", "Basic 0123456789abcdef", ONE, "Bearer 0123456789abcdeF"] {
            assert!(tenant(header).is_err(), "{header}");
        }
        assert!(both.tenant(None).is_err());
    }
}
