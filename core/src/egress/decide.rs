//! What happens to a request: it is allowed, denied, or gets the values of credentials in place of their placeholders.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode, utf8_percent_encode};

use super::credential::{Credential, Declared, Key, Placement};
use super::host::Host;
use super::path::normalize_path;
use super::policy::{Policy, Refused};
use super::sigv4::{AccessKey, BODY_HASH, Signature, Unsigned};

/// The fewest characters of a value. A shorter one occurs in ordinary text, so that responses could not be masked.
pub const MIN_VALUE: usize = 8;

/// The characters that are encoded in a part of a URL, and by AWS: all but those that never have another meaning.
pub(super) const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The head of a request. Its host is checked: it is that of the connection.
#[derive(Debug, Clone)]
pub struct RequestHead<'a> {
    /// Whether it goes over TLS.
    pub tls: bool,
    /// The host.
    pub host: &'a Host,
    /// The port.
    pub port: u16,
    /// The method.
    pub method: &'a str,
    /// The path and the query.
    pub target: &'a str,
    /// The headers, with lowercase names.
    pub headers: Vec<(&'a str, &'a [u8])>,
    /// The SHA-256 of the body in hexadecimal, if it has been read.
    pub body_sha256: Option<&'a str>,
}

impl<'a> RequestHead<'a> {
    /// Returns the first value of a header, if it is text.
    pub(super) fn header(&self, name: &str) -> Option<&'a str> {
        let (_, value) = self.headers.iter().find(|(known, _)| *known == name)?;
        std::str::from_utf8(value).ok().map(str::trim)
    }
}

/// What happens to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It is forwarded as it is.
    Allow {
        /// The rule that allows it. Empty if only the connection was checked.
        rule: String,
    },
    /// It is not forwarded.
    Deny(Refused),
    /// Its signature covers its body, so it is decided about once more with [`RequestHead::body_sha256`].
    ReadBody,
    /// It is forwarded with changes.
    Replace {
        /// The rule that allows it.
        rule: String,
        /// The names of the credentials whose values are in it.
        credentials: Vec<String>,
        /// The path and the query.
        target: String,
        /// The headers that differ, by their position.
        headers: Vec<(usize, Vec<u8>)>,
    },
}

impl Policy {
    /// Decides about a request to a host that the policy allows to connect to.
    pub fn decide(&self, head: &RequestHead<'_>, keys: &[Key]) -> Decision {
        match self.judge_and_replace(head, keys) {
            Ok(decision) => decision,
            Err(refused) => Decision::Deny(refused),
        }
    }

    fn judge_and_replace(&self, head: &RequestHead<'_>, keys: &[Key]) -> Result<Decision, Refused> {
        let mut rule = String::new();
        if self.inspects(head.host, head.port) {
            rule = self.judge_request(head.host, head.port, head.method, head.target)?;
        }
        let path = normalize_path(head.target);
        let mut target = head.target.to_owned();
        let mut headers: Vec<(usize, Vec<u8>)> = Vec::new();
        let mut credentials = Vec::new();
        for (declared, key) in self.declared_keys(keys) {
            if !declared.is_for(head, path.as_deref()) {
                continue;
            }
            let mut is_used = false;
            if let Placement::Query { key: parameter } = &declared.credential.placement {
                if let Some(replaced) = replace_parameter(&target, parameter, key)? {
                    target = replaced;
                    is_used = true;
                }
            } else if let Placement::Sigv4 { region, service } = &declared.credential.placement {
                match replace_signature(head, (region, service), key)? {
                    Signed::Again(at, header) => {
                        headers.push((at, header.into_bytes()));
                        is_used = true;
                    }
                    Signed::NeedsBody => return Ok(Decision::ReadBody),
                    Signed::Not => {}
                }
            } else {
                for (at, (name, value)) in head.headers.iter().enumerate() {
                    if let Some(replaced) = replace_header(declared, key, name, value)? {
                        headers.push((at, replaced));
                        is_used = true;
                    }
                }
            }
            if is_used {
                credentials.push(key.name.clone());
            }
        }
        self.check_rest(head, keys, &headers, &credentials)?;
        Ok(if credentials.is_empty() {
            Decision::Allow { rule }
        } else {
            Decision::Replace { rule, credentials, target, headers }
        })
    }

    /// Returns the credentials that a request may carry.
    pub fn credentials_for<'a>(&'a self, head: &RequestHead<'_>) -> impl Iterator<Item = &'a Credential> {
        let path = normalize_path(head.target);
        let is_for = move |declared: &&Declared| declared.is_for(head, path.as_deref());
        self.credentials.iter().filter(is_for).map(|declared| &declared.credential)
    }

    /// Returns the credentials with their keys.
    pub(super) fn declared_keys<'a>(
        &'a self,
        keys: &'a [Key],
    ) -> impl Iterator<Item = (&'a Declared, &'a Key)> {
        self.credentials.iter().filter(|_| !self.weak).filter_map(|declared| {
            let key = keys.iter().find(|key| key.name == declared.credential.name)?;
            Some((declared, key))
        })
    }

    /// Refuses a placeholder that is not replaced.
    fn check_rest(
        &self,
        head: &RequestHead<'_>,
        keys: &[Key],
        replaced: &[(usize, Vec<u8>)],
        used: &[String],
    ) -> Result<(), Refused> {
        let is_left = |at: &usize| replaced.iter().all(|(done, _)| done != at);
        for (declared, key) in self.declared_keys(keys) {
            let is_in = |text: &[u8]| contains(text, &key.placeholder);
            let in_header = head.headers.iter().enumerate().find(|(at, (name, value))| {
                is_left(at)
                    && (is_in(value)
                        || is_in(name.as_bytes())
                        || decode_basic(value).is_some_and(|text| is_in(text.as_bytes())))
            });
            let is_query =
                matches!(declared.credential.placement, Placement::Query { .. }) && used.contains(&key.name);
            // One parameter is replaced; the placeholder may be in the target once more.
            let count = count_in(head.target, &key.placeholder);
            let place = match in_header {
                Some((_, (name, _))) => format!("the header `{name}`"),
                None if count > usize::from(is_query) => "the URL".to_owned(),
                None => continue,
            };
            let tls = if head.tls { "" } else { " without TLS" };
            let text = format!(
                "the placeholder of `{}` was sent to {} in {place}{tls}, but the credential is only for `{}`, over TLS, in {}",
                key.name, head.host, declared.credential.host, declared.credential.placement
            );
            return Err(Refused { rule: format!("credentials: {} is not for this request", key.name), text });
        }
        Ok(())
    }
}

/// Returns the value of a credential for a request.
fn value_of(key: &Key) -> Result<&str, Refused> {
    let refuse = |what: &str| {
        let rule = format!("credentials: {} {what}", key.name);
        let Key { name, worker_secret, .. } = key;
        let text = format!(
            "the credential `{name}` {what}: the user must run `koze secret set {name}`, or `wrangler secret put {worker_secret}` for a Worker"
        );
        Err(Refused { rule, text })
    };
    match key.value.as_deref() {
        None => refuse("has no value"),
        Some(value) if value.chars().count() < MIN_VALUE => refuse("has a value of fewer than 8 characters"),
        Some(value) => Ok(value),
    }
}

/// Replaces the placeholder in a header, if that is where the credential goes.
fn replace_header(
    declared: &Declared,
    key: &Key,
    name: &str,
    value: &[u8],
) -> Result<Option<Vec<u8>>, Refused> {
    let Ok(text) = std::str::from_utf8(value) else { return Ok(None) };
    let is_placeholder = |text: &str| text.trim() == key.placeholder;
    match &declared.credential.placement {
        Placement::Header { name: only } if name == only && is_placeholder(text) => {
            Ok(Some(header_value(key)?.as_bytes().to_vec()))
        }
        Placement::Bearer | Placement::Basic { .. } if name == "authorization" => {
            let Some((scheme, rest)) = text.trim().split_once(' ') else { return Ok(None) };
            if ["bearer", "token"].iter().any(|known| scheme.eq_ignore_ascii_case(known))
                && is_placeholder(rest)
            {
                return Ok(Some(format!("{scheme} {}", header_value(key)?).into_bytes()));
            }
            let Placement::Basic { user } = &declared.credential.placement else { return Ok(None) };
            match decode_basic(value).as_deref().and_then(|text| text.split_once(':')) {
                Some((sent, password)) if sent == user && password == key.placeholder => {
                    let text = format!("{user}:{}", value_of(key)?);
                    Ok(Some(format!("Basic {}", STANDARD.encode(text)).into_bytes()))
                }
                _ => Ok(None),
            }
        }
        _ => Ok(None),
    }
}

/// Whether a request has the signature of AWS.
enum Signed {
    /// It was signed with the placeholder: the position of the header, and its new value.
    Again(usize, String),
    /// It was, and its body is needed.
    NeedsBody,
    /// It was not signed, or with another key.
    Not,
}

/// Signs a request again, if it was signed with the placeholder.
fn replace_signature(head: &RequestHead<'_>, scope: (&str, &str), key: &Key) -> Result<Signed, Refused> {
    let Some(at) = head.headers.iter().position(|(name, _)| *name == "authorization") else {
        return Ok(Signed::Not);
    };
    let text = std::str::from_utf8(head.headers[at].1).unwrap_or_default();
    let Some(signature) = Signature::parse(text).filter(|signature| signature.key_id == key.placeholder)
    else {
        return Ok(Signed::Not);
    };
    let name = &key.name;
    let refuse =
        |rule: &str, text: String| Err(Refused { rule: format!("credentials: {name} {rule}"), text });
    let Some(access_key) = AccessKey::parse(value_of(key)?) else {
        let text = format!(
            "the value of the credential `{name}` is not `ACCESS_KEY_ID:SECRET_ACCESS_KEY`, without a session token: the user must set it again"
        );
        return refuse("is not an access key", text);
    };
    let (region, service) = scope;
    match signature.sign_again(head, scope, access_key) {
        Ok(header) => Ok(Signed::Again(at, header)),
        Err(Unsigned::NeedsBody) => Ok(Signed::NeedsBody),
        Err(Unsigned::OtherScope) => {
            let text = format!(
                "this request is signed for `{}` in `{}`, but the credential `{name}` is for `{service}` in `{region}`",
                signature.service.escape_debug(),
                signature.region.escape_debug()
            );
            refuse("is for another region or service", text)
        }
        Err(Unsigned::SignedPieces) => {
            let text = format!(
                "each piece of this request's body is signed, and koze can only sign whole requests with `{name}`: let the program send \
                 `{BODY_HASH}: UNSIGNED-PAYLOAD`, as AWS's SDKs do over HTTPS"
            );
            refuse("cannot sign pieces of a body", text)
        }
        Err(Unsigned::WrongSignature) => {
            let text = format!(
                "the signature of this request is not that of the placeholder of `{name}`: the program must use it as the access key ID and \
                 as the secret access key, and sign `x-amz-date`"
            );
            refuse("did not sign this request", text)
        }
    }
}

/// Returns a value that can be in a header.
fn header_value(key: &Key) -> Result<&str, Refused> {
    let value = value_of(key)?;
    if value.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(value);
    }
    let rule = format!("credentials: {} cannot be in a header", key.name);
    let text = format!(
        "the value of the credential `{}` has characters that a header cannot have, such as a space or a line ending: the user must set it again",
        key.name
    );
    Err(Refused { rule, text })
}

/// Replaces the placeholder in the first parameter of this name whose value it is.
fn replace_parameter(target: &str, parameter: &str, key: &Key) -> Result<Option<String>, Refused> {
    let Some((path, query)) = target.split_once('?') else { return Ok(None) };
    let decode = |text: &str| percent_decode(text.as_bytes()).collect::<Vec<u8>>();
    let mut parts: Vec<String> = query.split('&').map(str::to_owned).collect();
    let is_it = |part: &String| {
        part.split_once('=').is_some_and(|(name, value)| {
            decode(name) == parameter.as_bytes() && decode(value) == key.placeholder.as_bytes()
        })
    };
    let Some(at) = parts.iter().position(is_it) else { return Ok(None) };
    parts[at] = format!("{parameter}={}", utf8_percent_encode(value_of(key)?, RESERVED));
    Ok(Some(format!("{path}?{}", parts.join("&"))))
}

/// Decodes the user and the password of `Basic`.
fn decode_basic(value: &[u8]) -> Option<String> {
    let (scheme, rest) = std::str::from_utf8(value).ok()?.trim().split_once(' ')?;
    let decoded = scheme.eq_ignore_ascii_case("basic").then(|| STANDARD.decode(rest.trim()).ok())??;
    String::from_utf8(decoded).ok()
}

/// Returns whether a text has a placeholder, in either case and also percent-encoded.
fn contains(text: &[u8], placeholder: &str) -> bool {
    let decoded = percent_decode(text).collect::<Vec<u8>>().to_ascii_lowercase();
    memchr::memmem::find(&decoded, placeholder.as_bytes()).is_some()
}

fn count_in(target: &str, placeholder: &str) -> usize {
    let decoded = percent_decode(target.as_bytes()).collect::<Vec<u8>>().to_ascii_lowercase();
    memchr::memmem::find_iter(&decoded, placeholder.as_bytes()).count()
}

#[cfg(test)]
mod tests;
