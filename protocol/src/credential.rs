//! Where credentials may go in a request.

/// The headers that describe the message or the connection, and the one that `bearer` and `basic` are for.
const FRAMING: [&str; 12] = [
    "authorization",
    "connection",
    "content-length",
    "content-type",
    "expect",
    "host",
    "range",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "accept-encoding",
];

/// Returns whether a text is the name, in lowercase, of a header that may hold a credential.
pub fn is_credential_header(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && !FRAMING.contains(&text)
        && !text.starts_with("proxy-")
}

/// Returns whether a text can be a region or a service in a signature of AWS.
pub fn is_aws_name(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

/// Returns whether a text needs no encoding in a query or before the colon of `Basic`.
pub fn is_unreserved_word(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
}
