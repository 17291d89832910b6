//! The credentials of a profile: which names there are, for which requests, and where in a request they go.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use koze_protocol::{is_aws_name, is_credential_header, is_unreserved_word};
use sha2::{Digest as _, Sha256};

use super::decide::RequestHead;
use super::host::Host;
use super::mask::to_hex;
use super::policy::Policy;
use super::rule::Rule;
use crate::error::{Code, Error, Result};

/// The beginning of every placeholder.
const PLACEHOLDER_PREFIX: &str = "koze_cred_";
/// How many bytes of a hash a placeholder has.
const PLACEHOLDER_BYTES: usize = 16;
/// The port of a credential's host if it names none.
const HTTPS: u16 = 443;

/// Returns the placeholder of a credential in a sandbox. It is always the same there, because programs may keep it in a file, and different
/// in each sandbox.
pub fn placeholder(seed: &[u8], sandbox: &str, name: &str) -> String {
    let hash = Sha256::new()
        .chain_update(seed)
        .chain_update(sandbox)
        .chain_update([0])
        .chain_update(name)
        .finalize();
    format!("{PLACEHOLDER_PREFIX}{}", to_hex(&hash[..PLACEHOLDER_BYTES]))
}

/// A credential that a profile declares. Its value is a secret of the project, and never enters a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Credential {
    /// Its name: that of the secret, and of the environment variable with the placeholder.
    pub name: String,
    /// The requests that it is for, as an entry of `allowed_hosts`: `api.example.com`. Without a port, it is for 443.
    pub host: String,
    /// Where it goes in a request.
    pub placement: Placement,
}

/// Where a credential goes in a request. The placeholder is replaced nowhere else, because a server may publish other parts of a
/// request.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// `Authorization: Bearer VALUE`, or `token` in place of `Bearer`.
    Bearer,
    /// `Authorization: Basic`, with this user and the value as the password; or as with [`Placement::Bearer`].
    Basic {
        /// The user.
        user: String,
    },
    /// The whole value of this header.
    Header {
        /// The name of the header in lowercase: `x-api-key`.
        name: String,
    },
    /// The whole value of this parameter of the query.
    Query {
        /// The name of the parameter.
        key: String,
    },
    /// The signature of AWS (Signature Version 4) in `Authorization`. The value is `ACCESS_KEY_ID:SECRET_ACCESS_KEY`.
    Sigv4 {
        /// The region: `eu-central-1`.
        region: String,
        /// The service, as AWS names it in signatures: `s3`.
        service: String,
    },
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Placement::Bearer => f.write_str("`Authorization: Bearer`"),
            Placement::Basic { user } => write!(f, "`Authorization: Basic` with the user `{user}`"),
            Placement::Header { name } => write!(f, "the header `{name}`"),
            Placement::Query { key } => write!(f, "the parameter `{key}` of the query"),
            Placement::Sigv4 { region, service } => {
                write!(f, "the signature of AWS for `{service}` in `{region}`")
            }
        }
    }
}

/// A credential with its parsed host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Declared {
    pub(super) credential: Credential,
    pub(super) rule: Rule,
}

impl Declared {
    pub(super) fn parse(credential: &Credential) -> Result<Self> {
        let invalid = |what: &str, text: &str| {
            let text = format!("`{}` is not a valid {what} of a credential", text.escape_debug());
            Err(Error::new(Code::InvalidInput, text))
        };
        if !is_variable(&credential.name) {
            return invalid("name", &credential.name);
        }
        match &credential.placement {
            Placement::Basic { user } if !is_unreserved_word(user) => return invalid("user", user),
            Placement::Header { name } if !is_credential_header(name) => return invalid("header", name),
            Placement::Query { key } if !is_unreserved_word(key) => return invalid("parameter", key),
            Placement::Sigv4 { region, .. } if !is_aws_name(region) => return invalid("region", region),
            Placement::Sigv4 { service, .. } if !is_aws_name(service) => return invalid("service", service),
            _ => {}
        }
        Ok(Declared { credential: credential.clone(), rule: Rule::parse(&credential.host)? })
    }

    /// Returns whether it is for some requests to a port of a host.
    pub(super) fn covers(&self, host: &Host, port: u16) -> bool {
        self.rule.names(host) && self.rule.port().unwrap_or(HTTPS) == port
    }

    /// Returns whether it is for a request, whose path is in its normal form.
    pub(super) fn is_for(&self, head: &RequestHead<'_>, path: Option<&str>) -> bool {
        head.tls && self.covers(head.host, head.port) && self.rule.matches_request(head.method, path)
    }
}

/// Returns the environment variables of a sandbox with these keys: the placeholders, those that AWS's programs read, and a configuration
/// with which git sends those of `basic` to their hosts, because it would ask for a password otherwise. A host with `*.` or a path is left
/// out, because such a header would go to other hosts or paths, too.
pub fn environment(policy: &Policy, keys: &[Key]) -> Vec<(String, String)> {
    let header = |(declared, key): (&Declared, &Key)| {
        let Placement::Basic { user } = &declared.credential.placement else { return None };
        let host = &declared.credential.host;
        let is_whole = !declared.rule.is_partial() && !host.starts_with("*.");
        let header = STANDARD.encode(format!("{user}:{}", key.placeholder));
        is_whole
            .then(|| (format!("http.https://{host}/.extraHeader"), format!("Authorization: Basic {header}")))
    };
    let headers: Vec<_> = policy.declared_keys(keys).filter_map(header).collect();
    let mut all: Vec<_> = keys.iter().map(|key| (key.name.clone(), key.placeholder.clone())).collect();
    if !headers.is_empty() {
        all.push(("GIT_CONFIG_COUNT".to_owned(), headers.len().to_string()));
    }
    for (at, (key, value)) in headers.into_iter().enumerate() {
        all.push((format!("GIT_CONFIG_KEY_{at}"), key));
        all.push((format!("GIT_CONFIG_VALUE_{at}"), value));
    }
    all.extend(aws_environment(policy, keys));
    all
}

/// Returns the variables with the first credential of AWS.
fn aws_environment(policy: &Policy, keys: &[Key]) -> Vec<(String, String)> {
    let first = policy.declared_keys(keys).find_map(|(declared, key)| match &declared.credential.placement {
        Placement::Sigv4 { region, .. } => Some((&key.placeholder, region)),
        _ => None,
    });
    let Some((placeholder, region)) = first else { return Vec::new() };
    [
        ("AWS_ACCESS_KEY_ID", placeholder),
        ("AWS_SECRET_ACCESS_KEY", placeholder),
        ("AWS_REGION", region),
        ("AWS_DEFAULT_REGION", region),
    ]
    .map(|(name, value)| (name.to_owned(), value.clone()))
    .into()
}

fn is_variable(text: &str) -> bool {
    let is_first = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
    text.len() <= 64
        && text.as_bytes().first().is_some_and(is_first)
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// What a sandbox has of a credential, and what it does not have: the value.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    /// The name of the credential.
    pub name: String,
    /// The name of the Worker's secret with the value.
    pub worker_secret: String,
    /// What programs have instead of the value.
    pub placeholder: String,
    /// The value, unless nobody has set it.
    pub value: Option<String>,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_credentials_are_rejected() {
        let of = |name: &str, host: &str, placement| {
            Declared::parse(&Credential { name: name.into(), host: host.into(), placement })
        };
        assert!(of("API_KEY", "GET api.example.com:8443/v1/**", Placement::Bearer).is_ok());
        for (name, host, placement) in [
            ("1A", "a.example", Placement::Bearer),
            ("A-B", "a.example", Placement::Bearer),
            ("A", "https://a.example", Placement::Bearer),
            ("A", "a.example", Placement::Basic { user: "a:b".into() }),
            ("A", "a.example", Placement::Header { name: "Host".into() }),
            ("A", "a.example", Placement::Header { name: "host".into() }),
            ("A", "a.example", Placement::Header { name: "proxy-authorization".into() }),
            ("A", "a.example", Placement::Query { key: "a&b".into() }),
        ] {
            assert!(of(name, host, placement.clone()).is_err(), "{name} {host} {placement:?}");
        }
    }

    #[test]
    fn placeholders_differ_by_sandbox_and_name() {
        let first = placeholder(b"seed", "sandbox", "A");
        assert_eq!(first.len(), PLACEHOLDER_PREFIX.len() + 2 * PLACEHOLDER_BYTES);
        assert_eq!(first, placeholder(b"seed", "sandbox", "A"));
        for (seed, sandbox, name) in
            [("other", "sandbox", "A"), ("seed", "sandbox2", "A"), ("seed", "sandbo", "xA")]
        {
            assert_ne!(first, placeholder(seed.as_bytes(), sandbox, name));
        }
    }

    #[test]
    fn a_value_is_not_in_debug_text() {
        let key = Key {
            name: "A".into(),
            worker_secret: "A".into(),
            placeholder: "p".into(),
            value: Some("a long value".into()),
        };
        assert!(!format!("{key:?}").contains("value\""), "{key:?}");
    }
}
