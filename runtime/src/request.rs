//! What the generated `worker.mjs` asks about the requests of sandboxes whose policy has methods, paths or credentials. It passes JSON.
//!
//! JavaScript has one object for all requests, and names each by a number. It could not free an object for each: worker-build passes objects
//! through proxies, which the registry of wasm-bindgen does not recognize.

use std::collections::{BTreeMap, HashMap};

use koze_core::egress::{
    Credential, Decision, DeclaredPolicy, Host, Key, Mask, Policy, Refused, RequestHead, StreamMask,
    environment, placeholder,
};
use koze_core::{Code, Error, Result};
use serde::{Deserialize, Serialize};

/// The head of a request.
#[derive(Deserialize)]
struct Head {
    tls: bool,
    host: String,
    port: u16,
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    /// The SHA-256 of the body in hexadecimal, if it has been read.
    #[serde(default)]
    body_sha256: Option<String>,
}

/// What happens to a request.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Decided {
    /// It is answered with this text.
    Denied { rule: String, text: String },
    /// Its signature covers its body, so it is decided about once more with `body_sha256`.
    ReadBody,
    /// It is sent, with these changes.
    Sent {
        /// The path and the query.
        target: String,
        /// The headers that differ.
        headers: Vec<(String, String)>,
        /// The credentials whose values are in it.
        credentials: Vec<String>,
        /// Whether the response has to be masked.
        masks: bool,
    },
}

/// The requests of sandboxes that are in progress.
#[derive(Debug, Default)]
pub struct SandboxRequests {
    next: u32,
    open: HashMap<u32, SandboxRequest>,
}

impl SandboxRequests {
    /// Begins a request, for the policy of a class, the ID of the sandbox's object, and the values of its credentials by name. Returns
    /// its number, which is valid until [`close`](Self::close).
    ///
    /// # Errors
    /// If the policy is not one of `worker.mjs`.
    pub fn open(&mut self, policy: &str, sandbox: &str, values: &str) -> Result<u32> {
        let request = SandboxRequest::new(policy, sandbox, values)?;
        while self.open.contains_key(&self.next) {
            self.next = self.next.wrapping_add(1);
        }
        self.open.insert(self.next, request);
        Ok(self.next)
    }

    /// Returns a request.
    ///
    /// # Errors
    /// If no request has this number, because the module was restarted after a panic.
    pub fn get(&mut self, number: u32) -> Result<&mut SandboxRequest> {
        self.open.get_mut(&number).ok_or_else(|| {
            Error::new(Code::Unavailable, "the Worker has lost this request of a sandbox: send it again")
        })
    }

    /// Ends a request.
    pub fn close(&mut self, number: u32) {
        self.open.remove(&number);
    }
}

/// One request of a sandbox, and its response.
#[derive(Debug)]
pub struct SandboxRequest {
    policy: Policy,
    keys: Vec<Key>,
    mask: Mask,
    body: StreamMask,
}

impl SandboxRequest {
    fn new(policy: &str, sandbox: &str, values: &str) -> Result<Self> {
        let declared: DeclaredPolicy = parse("a policy", policy)?;
        let mut values: BTreeMap<String, String> = parse("values", values)?;
        let key = |Credential { name, .. }: &Credential| Key {
            name: name.clone(),
            // Nobody outside of the sandbox replaces it, so it need not be a secret.
            placeholder: placeholder(&[], sandbox, name),
            value: values.remove(name),
        };
        let keys = declared.credentials.iter().map(key).collect();
        let mask = Mask::default();
        Ok(SandboxRequest {
            policy: Policy::of_declared(&declared)?,
            keys,
            body: StreamMask::new(mask.clone()),
            mask,
        })
    }

    /// Returns the environment variables of the sandbox's programs, as an object.
    pub fn environment(&self) -> String {
        let all: BTreeMap<_, _> = environment(&self.policy, &self.keys).into_iter().collect();
        to_json(&all)
    }

    /// Decides about a request.
    ///
    /// # Errors
    /// If it is not one of `worker.mjs`.
    pub fn decide(&mut self, head: &str) -> Result<String> {
        let head = parse("a request", head)?;
        Ok(to_json(&self.judge(head).unwrap_or_else(|Refused { rule, text }| Decided::Denied { rule, text })))
    }

    fn judge(&mut self, head: Head) -> std::result::Result<Decided, Refused> {
        let Some(host) = Host::parse(&head.host) else {
            let text = format!("`{}` is not a host that a policy can name", head.host.escape_debug());
            return Err(Refused { rule: "no host".to_owned(), text });
        };
        self.policy.judge(&host, head.port)?;
        if head.tls {
            self.mask = Mask::of_host(&self.policy, &host, head.port, &self.keys);
            self.body = StreamMask::new(self.mask.clone());
        }
        let headers = head.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        let asked = RequestHead {
            tls: head.tls,
            host: &host,
            port: head.port,
            method: &head.method,
            target: &head.target,
            headers: headers.collect(),
            body_sha256: head.body_sha256.as_deref(),
        };
        let masks = !self.mask.is_empty();
        match self.policy.decide(&asked, &self.keys) {
            Decision::Deny(refused) => Err(refused),
            Decision::ReadBody => Ok(Decided::ReadBody),
            Decision::Allow { .. } => {
                Ok(Decided::Sent { target: head.target, headers: Vec::new(), credentials: Vec::new(), masks })
            }
            Decision::Replace { credentials, target, headers, .. } => {
                let changed = |(at, value): (usize, Vec<u8>)| {
                    let (name, _) = head.headers.get(at)?;
                    Some((name.clone(), String::from_utf8(value).ok()?))
                };
                let headers = headers.into_iter().filter_map(changed).collect();
                Ok(Decided::Sent { target, headers, credentials, masks })
            }
        }
    }

    /// Returns the value of a header of the response without the values of credentials, or `None` if it has none.
    pub fn mask_header(&self, value: &str) -> Option<String> {
        let masked = self.mask.mask(value.as_bytes())?;
        Some(String::from_utf8_lossy(&masked).into_owned())
    }

    /// Takes a piece of the response's body, and returns what can be passed on.
    pub fn mask_piece(&mut self, piece: &[u8]) -> Vec<u8> {
        self.body.push(piece)
    }

    /// Returns the rest of the body.
    pub fn finish(&mut self) -> Vec<u8> {
        self.body.finish()
    }
}

fn parse<'a, T: Deserialize<'a>>(what: &str, json: &'a str) -> Result<T> {
    // The error of serde could quote a value.
    serde_json::from_str(json).map_err(|error| {
        let text = format!(
            "this is not {what} as `worker.mjs` passes it, at column {}: run `koze build`",
            error.column()
        );
        Error::new(Code::Internal, text)
    })
}

fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("a structure of texts")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const VALUES: &str = r#"{"API_KEY":"value-of-API_KEY-itself","MAPS":"value-of-MAPS-itself"}"#;

    fn request() -> SandboxRequest {
        let cases: Value = serde_json::from_str(include_str!("../../core/src/egress/cases.json")).unwrap();
        let mut policy = cases["policy"].clone();
        policy["internet"] = json!(false);
        SandboxRequest::new(&policy.to_string(), "1", VALUES).unwrap()
    }

    fn decide(request: &mut SandboxRequest, host: &str, target: &str, headers: &Value) -> Value {
        let head = json!({
            "tls": true, "host": host, "port": 443, "method": "GET", "target": target, "headers": headers,
        });
        serde_json::from_str(&request.decide(&head.to_string()).unwrap()).unwrap()
    }

    /// The whole table of cases is tested in the core.
    #[test]
    fn placeholders_are_replaced_and_values_masked() {
        let mut request = request();
        let environment: Value = serde_json::from_str(&request.environment()).unwrap();
        let held = environment["API_KEY"].as_str().unwrap();
        assert!(held.starts_with("koze_cred_"), "{held}");
        assert_eq!(environment["GIT_CONFIG_COUNT"], "1");
        let headers = json!([["accept", "*/*"], ["authorization", format!("Bearer {held}")]]);
        let decided = decide(&mut request, "api.example.com", "/v1", &headers);
        let wanted = json!({ "sent": {
            "target": "/v1", "headers": [["authorization", "Bearer value-of-API_KEY-itself"]],
            "credentials": ["API_KEY"], "masks": true,
        } });
        assert_eq!(decided, wanted);
        assert_eq!(
            request.mask_header("a value-of-API_KEY-itself").unwrap(),
            format!("a {}", "*".repeat(23))
        );
        assert_eq!(request.mask_header("other"), None);
        let mut body = request.mask_piece(b"begin value-of-A");
        body.extend(request.mask_piece(b"PI_KEY-itself end"));
        body.extend(request.finish());
        assert_eq!(String::from_utf8(body).unwrap(), format!("begin {} end", "*".repeat(23)));
    }

    #[test]
    fn other_requests_are_refused() {
        let mut request = request();
        let environment: Value = serde_json::from_str(&request.environment()).unwrap();
        let held = environment["API_KEY"].as_str().unwrap();
        let elsewhere = json!([["x-other", held]]);
        for (host, target, headers, part) in [
            ("api.example.com", "/v1", &elsewhere, "in the header `x-other`"),
            ("api.example.com", "/admin/1", &json!([]), "`denied_hosts` has `api.example.com/admin/**`"),
            ("registry.example.com", "/other", &json!([]), "`allowed_hosts` has only"),
            ("b.example.com", "/", &json!([]), "does not list it"),
            ("0x7f.1", "/", &json!([]), "is not a host"),
            ("git.example.com", "/", &json!([["authorization", "Bearer koze_cred_0"]]), ""),
        ] {
            let decided = decide(&mut request, host, target, headers);
            let text = decided["denied"]["text"].as_str().unwrap_or_default();
            assert!(text.contains(part) && (part.is_empty() == text.is_empty()), "{host}{target}: {decided}");
        }
    }

    #[test]
    fn requests_have_numbers_of_their_own() {
        let policy = r#"{"internet":true,"allowed_hosts":[],"denied_hosts":[],"credentials":[]}"#;
        let mut requests = SandboxRequests::default();
        let [first, second] = [(); 2].map(|()| requests.open(policy, "1", "{}").unwrap());
        assert_ne!(first, second);
        requests.close(first);
        assert!(requests.get(second).is_ok());
        assert!(requests.get(first).unwrap_err().message.contains("lost this request"));
        let third = requests.open(policy, "1", "{}").unwrap();
        assert_ne!(third, second);
        requests.close(first);
        requests.close(first);
    }

    #[test]
    fn errors_quote_no_value() {
        let error = SandboxRequest::new("{}", "1", VALUES).unwrap_err();
        assert!(error.message.contains("not a policy"), "{error}");
        let policy = r#"{"internet":true,"allowed_hosts":[],"denied_hosts":[],"credentials":[]}"#;
        let error = SandboxRequest::new(policy, "1", r#"{"A":["secret-value"]}"#).unwrap_err();
        assert!(!error.message.contains("secret-value"), "{error}");
    }
}
