//! Signs a request again that a program in a sandbox has signed with AWS Signature Version 4. The program has the placeholder as its
//! access key ID and as its secret access key.
//!
//! The program's own signature is verified first, with the placeholder. So koze signs what the program meant to send, and knows in which
//! of two ways the service encodes paths: S3 encodes them once, and other services twice.
//! Source: <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html>.

use std::fmt::Write as _;

use hmac::{Hmac, KeyInit as _, Mac as _};
use percent_encoding::{percent_decode, percent_encode};
use sha2::{Digest as _, Sha256};

use super::decide::{RESERVED, RequestHead};
use super::mask::to_hex;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// The header with the hash of the body, which S3 requires.
pub(super) const BODY_HASH: &str = "x-amz-content-sha256";
/// How the value of [`BODY_HASH`] begins if each piece of the body has a signature, which follows from that of the request.
const SIGNED_PIECES: &str = "STREAMING-AWS4-";

/// A key, as AWS has it.
#[derive(Clone, Copy)]
pub(super) struct AccessKey<'a> {
    pub(super) id: &'a str,
    pub(super) secret: &'a str,
}

impl<'a> AccessKey<'a> {
    /// Parses `ACCESS_KEY_ID:SECRET_ACCESS_KEY`.
    pub(super) fn parse(value: &'a str) -> Option<Self> {
        let (id, secret) = value.split_once(':')?;
        let is_usable = |text: &str| {
            text.chars().count() >= super::MIN_VALUE && text.bytes().all(|byte| byte.is_ascii_graphic())
        };
        let is_id = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        (is_id && is_usable(id) && is_usable(secret) && !secret.contains(':'))
            .then_some(AccessKey { id, secret })
    }
}

/// Why a request cannot be signed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unsigned {
    /// It is for another region or service.
    OtherScope,
    /// The hash of its body is missing.
    NeedsBody,
    /// Each piece of its body has a signature.
    SignedPieces,
    /// It was not signed with the placeholder, or not as AWS specifies it.
    WrongSignature,
}

/// The value of an `Authorization` header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Signature<'a> {
    pub(super) key_id: &'a str,
    date: &'a str,
    pub(super) region: &'a str,
    pub(super) service: &'a str,
    signed_headers: &'a str,
    /// The signature itself, in hexadecimal.
    sealed: &'a str,
}

impl<'a> Signature<'a> {
    /// Parses `AWS4-HMAC-SHA256 Credential=ID/DATE/REGION/SERVICE/aws4_request, SignedHeaders=host;…, Signature=…`.
    pub(super) fn parse(value: &'a str) -> Option<Self> {
        let fields = value.trim().strip_prefix(ALGORITHM)?.strip_prefix(' ')?;
        let field = |name: &str| {
            fields.split(',').find_map(|field| field.trim().strip_prefix(name)?.strip_prefix('='))
        };
        let scope: Vec<&str> = field("Credential")?.split('/').collect();
        let [key_id, date, region, service, "aws4_request"] = scope[..] else { return None };
        let signed_headers = field("SignedHeaders")?;
        Some(Signature { key_id, date, region, service, signed_headers, sealed: field("Signature")? })
    }

    /// Returns the header of the same request, signed with another key. The program's own secret is its key ID, the placeholder.
    pub(super) fn sign_again(
        &self,
        head: &RequestHead<'_>,
        scope: (&str, &str),
        key: AccessKey<'_>,
    ) -> Result<String, Unsigned> {
        if (self.region, self.service) != scope {
            return Err(Unsigned::OtherScope);
        }
        let body = head.header(BODY_HASH).or(head.body_sha256).ok_or(Unsigned::NeedsBody)?;
        if body.starts_with(SIGNED_PIECES) {
            return Err(Unsigned::SignedPieces);
        }
        let time = head.header("x-amz-date").ok_or(Unsigned::WrongSignature)?;
        for path in encoded_paths(head.target) {
            let original = self.canonical_request(head, &path, body, None).ok_or(Unsigned::WrongSignature)?;
            if self.compute(self.key_id, time, &original) == self.sealed {
                // Requests whose response is masked ask for an uncompressed one.
                let sent = self.canonical_request(head, &path, body, Some("identity"));
                let signature = self.compute(key.secret, time, &sent.unwrap_or(original));
                let Signature { date, region, service, signed_headers, .. } = self;
                return Ok(format!(
                    "{ALGORITHM} Credential={}/{date}/{region}/{service}/aws4_request, SignedHeaders={signed_headers}, Signature={signature}",
                    key.id
                ));
            }
        }
        Err(Unsigned::WrongSignature)
    }

    /// Returns the canonical request, or `None` if a signed header is missing.
    fn canonical_request(
        &self,
        head: &RequestHead<'_>,
        path: &str,
        body: &str,
        accept_encoding: Option<&str>,
    ) -> Option<String> {
        let mut headers = String::new();
        for name in self.signed_headers.split(';') {
            let value = match (name, accept_encoding) {
                ("accept-encoding", Some(encoding)) => encoding.to_owned(),
                _ => header_values(head, name)?,
            };
            let _ = writeln!(headers, "{name}:{value}");
        }
        let query = canonical_query(head.target);
        Some(format!("{}\n{path}\n{query}\n{headers}\n{}\n{body}", head.method, self.signed_headers))
    }

    fn compute(&self, secret: &str, time: &str, canonical_request: &str) -> String {
        let Signature { date, region, service, .. } = self;
        let hash = to_hex(&Sha256::digest(canonical_request));
        let text = format!("{ALGORITHM}\n{time}\n{date}/{region}/{service}/aws4_request\n{hash}");
        let key = [date, region, service, "aws4_request", &text]
            .iter()
            .fold(format!("AWS4{secret}").into_bytes(), |key, part| authenticate(&key, part));
        to_hex(&key)
    }
}

fn authenticate(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

/// Returns the values of a header, as they are signed.
fn header_values(head: &RequestHead<'_>, name: &str) -> Option<String> {
    let mut values = Vec::new();
    for (_, value) in head.headers.iter().filter(|(known, _)| *known == name) {
        let words: Vec<&str> = std::str::from_utf8(value).ok()?.split_ascii_whitespace().collect();
        values.push(words.join(" "));
    }
    (!values.is_empty()).then(|| values.join(","))
}

/// Returns the path, encoded once and twice.
fn encoded_paths(target: &str) -> [String; 2] {
    let path = target.split('?').next().unwrap_or_default();
    // A `%2F` is not a slash.
    let once = path.split('/').map(encode).collect::<Vec<_>>().join("/");
    let twice = once.replace('%', "%25");
    [once, twice]
}

/// Encodes what may be encoded already.
fn encode(text: &str) -> String {
    let decoded: Vec<u8> = percent_decode(text.as_bytes()).collect();
    percent_encode(&decoded, RESERVED).to_string()
}

/// Returns the parameters of the query, encoded and sorted.
fn canonical_query(target: &str) -> String {
    let query = target.split_once('?').map_or("", |(_, query)| query);
    let mut all: Vec<(String, String)> = Vec::new();
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let parameter = (encode(name), encode(value));
        // There are few. Sorting them would add 10 kB to a Worker.
        all.insert(all.partition_point(|known| *known <= parameter), parameter);
    }
    let all: Vec<String> = all.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    all.join("&")
}

#[cfg(test)]
mod tests {
    use super::super::Host;
    use super::*;

    /// The key of AWS's documentation, of <https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html>.
    const KEY: AccessKey<'_> =
        AccessKey { id: "AKIAIOSFODNN7EXAMPLE", secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY" };
    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    const PLACEHOLDER: &str = "koze_cred_0123456789abcdef0123456789abcdef";

    struct Example {
        host: &'static str,
        method: &'static str,
        target: &'static str,
        headers: Vec<(&'static str, &'static str)>,
        body_sha256: Option<&'static str>,
    }

    impl Example {
        fn head<'a>(&'a self, host: &'a Host) -> RequestHead<'a> {
            let headers = self.headers.iter().map(|(name, value)| (*name, value.as_bytes()));
            RequestHead {
                tls: true,
                host,
                port: 443,
                method: self.method,
                target: self.target,
                headers: [("host", self.host.as_bytes())].into_iter().chain(headers).collect(),
                body_sha256: self.body_sha256,
            }
        }

        /// Signs it with the placeholder as a program does, then again with a key. Returns the new signature.
        fn sign_again(
            &self,
            scope: [&str; 3],
            signed_headers: &str,
            path: usize,
        ) -> Result<String, Unsigned> {
            let host = Host::parse(self.host).unwrap();
            let head = self.head(&host);
            let [date, region, service] = scope;
            let unsigned =
                Signature { key_id: PLACEHOLDER, date, region, service, signed_headers, sealed: "" };
            let body = head.header(BODY_HASH).or(self.body_sha256).unwrap_or_default();
            let canonical = unsigned.canonical_request(&head, &encoded_paths(self.target)[path], body, None);
            let time = head.header("x-amz-date").unwrap();
            let signature = unsigned.compute(PLACEHOLDER, time, &canonical.unwrap());
            let text = format!(
                "AWS4-HMAC-SHA256 Credential={PLACEHOLDER}/{date}/{region}/{service}/aws4_request,SignedHeaders={signed_headers},Signature={signature}"
            );
            let again = Signature::parse(&text).unwrap().sign_again(&head, (region, service), KEY)?;
            assert!(again.starts_with("AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/"), "{again}");
            Ok(Signature::parse(&again).unwrap().sealed.to_owned())
        }
    }

    fn example(
        method: &'static str,
        target: &'static str,
        headers: &[(&'static str, &'static str)],
    ) -> Example {
        let always = [("x-amz-date", "20130524T000000Z")];
        let headers = always.iter().chain(headers).copied().collect();
        Example { host: "examplebucket.s3.amazonaws.com", method, target, headers, body_sha256: None }
    }

    /// The four examples of the documentation, with its signatures.
    #[test]
    fn the_examples_of_aws() {
        let scope = ["20130524", "us-east-1", "s3"];
        let empty = (BODY_HASH, EMPTY);
        let put = [
            ("date", "Fri, 24 May 2013 00:00:00 GMT"),
            ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
            (BODY_HASH, "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"),
        ];
        for (example, signed_headers, signature) in [
            (
                example("GET", "/test.txt", &[("range", "bytes=0-9"), empty]),
                "host;range;x-amz-content-sha256;x-amz-date",
                "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
            ),
            (
                example("PUT", "/test%24file.text", &put),
                "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
                "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
            ),
            (
                example("GET", "/?lifecycle", &[empty]),
                "host;x-amz-content-sha256;x-amz-date",
                "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
            ),
            (
                example("GET", "/?max-keys=2&prefix=J", &[empty]),
                "host;x-amz-content-sha256;x-amz-date",
                "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
            ),
        ] {
            assert_eq!(example.sign_again(scope, signed_headers, 0).as_deref(), Ok(signature));
        }
    }

    /// A request of an SDK, signed with the placeholder, and the signature of the same request with the key.
    #[derive(serde::Deserialize)]
    struct Case {
        operation: String,
        region: String,
        service: String,
        method: String,
        target: String,
        headers: std::collections::BTreeMap<String, String>,
        body_sha256: Option<String>,
        sealed: String,
    }

    /// Requests of botocore 1.44.8 and of the SDK for JavaScript 3.1174.0, which signed each of them with the placeholder and with the key.
    #[test]
    fn the_signatures_of_sdks() {
        let cases: Vec<Case> = serde_json::from_str(include_str!("sigv4.json")).unwrap();
        for case in &cases {
            let host = Host::parse(&case.headers["host"]).unwrap();
            let headers = case.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
            let head = RequestHead {
                tls: true,
                host: &host,
                port: 443,
                method: &case.method,
                target: &case.target,
                headers: headers.collect(),
                body_sha256: case.body_sha256.as_deref(),
            };
            let signature = Signature::parse(head.header("authorization").unwrap()).unwrap();
            let again = signature.sign_again(&head, (&case.region, &case.service), KEY);
            let again = again.unwrap_or_else(|error| panic!("{}: {error:?}", case.operation));
            assert!(again.ends_with(&format!("Signature={}", case.sealed)), "{}: {again}", case.operation);
        }
        assert_eq!(cases.len(), 12);
    }

    #[test]
    fn bodies_are_part_of_the_signature() {
        let scope = ["20130524", "us-east-1", "dynamodb"];
        let signed = "host;x-amz-date";
        let mut post = example("POST", "/a%20b", &[]);
        assert_eq!(post.sign_again(scope, signed, 1), Err(Unsigned::NeedsBody));
        post.body_sha256 = Some(EMPTY);
        // Services other than S3 encode the path twice.
        let twice = post.sign_again(scope, signed, 1).unwrap();
        assert_ne!(twice, post.sign_again(scope, signed, 0).unwrap());
        post.headers.push((BODY_HASH, "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"));
        assert_eq!(post.sign_again(scope, signed, 0), Err(Unsigned::SignedPieces));
    }

    /// The proxy changes this header, if its response is masked.
    #[test]
    fn a_signed_accept_encoding_is_the_one_that_is_sent() {
        let signed = |encoding: &'static str| {
            let get = example("GET", "/", &[(BODY_HASH, EMPTY), ("accept-encoding", encoding)]);
            get.sign_again(["20130524", "us-east-1", "s3"], "accept-encoding;host;x-amz-date", 0).unwrap()
        };
        assert_eq!(signed("gzip"), signed("identity"));
    }

    #[test]
    fn other_signatures_are_refused() {
        let get = example("GET", "/", &[(BODY_HASH, EMPTY)]);
        let host = Host::parse(get.host).unwrap();
        let again = |text: &str, scope| {
            Signature::parse(text).map(|parsed| parsed.sign_again(&get.head(&host), scope, KEY))
        };
        let text = format!(
            "AWS4-HMAC-SHA256 Credential={PLACEHOLDER}/20130524/eu-1/s3/aws4_request, SignedHeaders=host, Signature={}",
            "0".repeat(64)
        );
        assert_eq!(again(&text, ("eu-1", "s3")), Some(Err(Unsigned::WrongSignature)));
        assert_eq!(again(&text, ("eu-2", "s3")), Some(Err(Unsigned::OtherScope)));
        assert_eq!(again(&text, ("eu-1", "sts")), Some(Err(Unsigned::OtherScope)));
        let missing = text.replace("=host", "=host;x-other");
        assert_eq!(again(&missing, ("eu-1", "s3")), Some(Err(Unsigned::WrongSignature)));
        for malformed in
            ["", "AWS4-HMAC-SHA256", "AWS4-HMAC-SHA256 Credential=a/b, SignedHeaders=c", "Bearer a"]
        {
            assert_eq!(again(malformed, ("eu-1", "s3")), None, "{malformed}");
        }
    }

    #[test]
    fn values_of_keys() {
        assert!(AccessKey::parse("AKIAIOSFODNN7EXAMPLE:wJalrXUtnFEMI/K7MDENG").is_some());
        for value in [
            "AKIAIOSFODNN7EXAMPLE",
            "short:wJalrXUtnFEMI/K7MDENG",
            "AKIAIOSFODNN7EXAMPLE:short",
            "AKIAIOSFODNN7/XAMPLE:wJalrXUtnFEMI",
            "AKIAIOSFODNN7EXAMPLE:wJalrXUtnFEMI:token",
        ] {
            assert!(AccessKey::parse(value).is_none(), "{value}");
        }
    }
}
