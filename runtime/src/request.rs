//! What the generated `worker.mjs` asks about the requests of sandboxes whose policy has methods, paths, credentials or limits. It passes JSON.
//!
//! JavaScript has one object for all requests, and names each by a number. It could not free an object for each: worker-build passes objects
//! through proxies, which the registry of wasm-bindgen does not recognize.

use std::collections::HashMap;
use std::time::Duration;

use koze_core::egress::{
    Credential, Decision, DeclaredPolicy, Host, Key, Mask, Policy, Refused, RequestHead, StreamMask, Usage,
    environment, placeholder,
};
use koze_core::script::read;
use koze_core::{Code, Error, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// For how many sandboxes usage is counted.
const MAX_SANDBOXES: usize = 10_000;

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
    Denied { status: u16, rule: String, text: String },
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
        /// Whether the bytes of the request and the response are counted.
        counts: bool,
    },
}

/// The requests of sandboxes that are in progress.
#[derive(Debug, Default)]
pub struct SandboxRequests {
    next: u32,
    /// By number. There are few at the same time.
    open: Vec<(u32, SandboxRequest)>,
    /// What sandboxes have used of their limits, by the IDs of their objects.
    usage: HashMap<String, Usage>,
}

impl SandboxRequests {
    /// Begins a request, for the policy of a class, the ID of the sandbox's object, and the values of its credentials by name. Returns
    /// its number, which is valid until [`close`](Self::close).
    ///
    /// # Errors
    /// If the policy is not one of `worker.mjs`.
    pub fn open(&mut self, policy: &str, sandbox: &str, values: &str) -> Result<u32> {
        let request = SandboxRequest::new(policy, sandbox, values)?;
        while self.open.iter().any(|(number, _)| *number == self.next) {
            self.next = self.next.wrapping_add(1);
        }
        self.open.push((self.next, request));
        Ok(self.next)
    }

    /// Returns a request.
    ///
    /// # Errors
    /// If no request has this number, because the module was restarted after a panic.
    pub fn get(&mut self, number: u32) -> Result<&mut SandboxRequest> {
        let found = self.open.iter_mut().find(|(open, _)| *open == number);
        found.map(|(_, request)| request).ok_or_else(lost_error)
    }

    /// Decides about a request. `now` is the time in milliseconds.
    ///
    /// # Errors
    /// If it is not one of `worker.mjs`.
    pub fn decide(&mut self, number: u32, head: &str, now: f64) -> Result<String> {
        let head = parse("a request", head)?;
        let request = self.get(number)?;
        let denied = |status, Refused { rule, text }| Decided::Denied { status, rule, text };
        let decided = match request.judge(head) {
            Err(refused) => denied(403, refused),
            Ok(decided @ Decided::Sent { .. }) => match self.count(number, Counted::Request, now)? {
                Some(refused) => denied(429, refused),
                None => decided,
            },
            Ok(decided) => decided,
        };
        Ok(to_json(&decided))
    }

    /// Counts bytes of a request or its response. Returns why the connection ends here, if they exceed a limit.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn count_bytes(&mut self, number: u32, bytes: u32, now: f64) -> Result<Option<String>> {
        Ok(self.count(number, Counted::Bytes(bytes.into()), now)?.map(|refused| refused.text))
    }

    fn count(&mut self, number: u32, counted: Counted, now: f64) -> Result<Option<Refused>> {
        let (_, request) = self.open.iter().find(|(open, _)| *open == number).ok_or_else(lost_error)?;
        let SandboxRequest { sandbox, host, policy, .. } = request;
        let Some(host) = host.as_ref().filter(|_| policy.has_limits()) else { return Ok(None) };
        // The isolate has no room for all sandboxes there ever were.
        if self.usage.len() >= MAX_SANDBOXES && !self.usage.contains_key(sandbox) {
            self.usage.clear();
        }
        let usage = self.usage.entry(sandbox.clone()).or_default();
        let now = Duration::from_secs_f64(now / 1000.0);
        let counted = match counted {
            Counted::Request => {
                policy.count_request(usage, host, now).and_then(|()| policy.count_bytes(usage, host, 0, now))
            }
            Counted::Bytes(bytes) => policy.count_bytes(usage, host, bytes, now),
        };
        Ok(counted.err())
    }

    /// Ends a request.
    pub fn close(&mut self, number: u32) {
        self.open.retain(|(open, _)| *open != number);
    }
}

fn lost_error() -> Error {
    Error::new(Code::Unavailable, "the Worker has lost this request of a sandbox: send it again")
}

/// What is counted.
#[derive(Clone, Copy)]
enum Counted {
    Request,
    Bytes(u64),
}

/// One request of a sandbox, and its response.
#[derive(Debug)]
pub struct SandboxRequest {
    /// The ID of the sandbox's object.
    sandbox: String,
    /// The host, once the request is allowed.
    host: Option<Host>,
    policy: Policy,
    keys: Vec<Key>,
    mask: Mask,
    body: StreamMask,
}

impl SandboxRequest {
    fn new(policy: &str, sandbox: &str, values: &str) -> Result<Self> {
        let declared: DeclaredPolicy = parse("a policy", policy)?;
        let values: Map<String, Value> = parse("values", values)?;
        let key = |Credential { name, .. }: &Credential| Key {
            name: name.clone(),
            worker_secret: name.clone(),
            // Nobody outside of the sandbox replaces it, so it need not be a secret.
            placeholder: placeholder(&[], sandbox, name),
            value: values.get(name).and_then(Value::as_str).map(str::to_owned),
        };
        let keys = declared.credentials.iter().map(key).collect();
        let mask = Mask::default();
        Ok(SandboxRequest {
            sandbox: sandbox.to_owned(),
            host: None,
            policy: Policy::of_declared(&declared)?,
            keys,
            body: StreamMask::new(mask.clone()),
            mask,
        })
    }

    /// Returns the environment variables of the sandbox's programs, as an object.
    pub fn environment(&self) -> String {
        let all = environment(&self.policy, &self.keys);
        let all: Map<String, Value> = all.into_iter().map(|(name, value)| (name, value.into())).collect();
        Value::from(all).to_string()
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
        let (masks, counts) = (!self.mask.is_empty(), self.policy.limits_bytes());
        let decision = self.policy.decide(&asked, &self.keys);
        self.host = Some(host);
        match decision {
            Decision::Deny(refused) => Err(refused),
            Decision::ReadBody => Ok(Decided::ReadBody),
            Decision::Allow { .. } => {
                let (headers, credentials) = (Vec::new(), Vec::new());
                Ok(Decided::Sent { target: head.target, headers, credentials, masks, counts })
            }
            Decision::Replace { credentials, target, headers, .. } => {
                let changed = |(at, value): (usize, Vec<u8>)| {
                    let (name, _) = head.headers.get(at)?;
                    Some((name.clone(), String::from_utf8(value).ok()?))
                };
                let headers = headers.into_iter().filter_map(changed).collect();
                Ok(Decided::Sent { target, headers, credentials, masks, counts })
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

fn parse<T: DeserializeOwned>(what: &str, json: &str) -> Result<T> {
    // The error of serde could quote a value.
    read(json.as_bytes()).map_err(|_| {
        let text = format!("this is not {what} as `worker.mjs` passes it: run `koze build`");
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

    fn requests() -> SandboxRequests {
        let cases: Value = serde_json::from_str(include_str!("../../core/src/egress/cases.json")).unwrap();
        let mut policy = cases["policy"].clone();
        policy["internet"] = json!(false);
        let mut requests = SandboxRequests::default();
        assert_eq!(requests.open(&policy.to_string(), "1", VALUES).unwrap(), 0);
        requests
    }

    fn decide(requests: &mut SandboxRequests, host: &str, target: &str, headers: &Value) -> Value {
        let head = json!({
            "tls": true, "host": host, "port": 443, "method": "GET", "target": target, "headers": headers,
        });
        serde_json::from_str(&requests.decide(0, &head.to_string(), 0.0).unwrap()).unwrap()
    }

    /// The whole table of cases is tested in the core.
    #[test]
    fn placeholders_are_replaced_and_values_masked() {
        let mut requests = requests();
        let environment: Value = serde_json::from_str(&requests.get(0).unwrap().environment()).unwrap();
        let held = environment["API_KEY"].as_str().unwrap();
        assert!(held.starts_with("koze_cred_"), "{held}");
        assert_eq!(environment["GIT_CONFIG_COUNT"], "1");
        let headers = json!([["accept", "*/*"], ["authorization", format!("Bearer {held}")]]);
        let decided = decide(&mut requests, "api.example.com", "/v1", &headers);
        let wanted = json!({ "sent": {
            "target": "/v1", "headers": [["authorization", "Bearer value-of-API_KEY-itself"]],
            "credentials": ["API_KEY"], "masks": true, "counts": false,
        } });
        assert_eq!(decided, wanted);
        let request = requests.get(0).unwrap();
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
        let mut requests = requests();
        let environment: Value = serde_json::from_str(&requests.get(0).unwrap().environment()).unwrap();
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
            let decided = decide(&mut requests, host, target, headers);
            let text = decided["denied"]["text"].as_str().unwrap_or_default();
            assert!(text.contains(part) && (part.is_empty() == text.is_empty()), "{host}{target}: {decided}");
        }
    }

    #[test]
    fn limits_are_those_of_a_sandbox() {
        let policy = r#"{"internet":true,"allowed_hosts":[],"denied_hosts":[],"credentials":[],"limits":{"requests":"1/m","bytes":"1KB"}}"#;
        let mut requests = SandboxRequests::default();
        for sandbox in ["1", "1", "2"] {
            requests.open(policy, sandbox, "{}").unwrap();
        }
        let head = json!({ "tls": false, "host": "a.example", "port": 80, "method": "GET", "target": "/", "headers": [] });
        let mut decide = |number: u32, now: f64| {
            let text = requests.decide(number, &head.to_string(), now).unwrap();
            let decided: Value = serde_json::from_str(&text).unwrap();
            let bytes = requests.count_bytes(number, 600, now).unwrap();
            (decided["denied"]["status"].as_u64(), decided["sent"]["counts"].as_bool(), bytes.is_some())
        };
        assert_eq!(decide(0, 1e12), (None, Some(true), false));
        assert_eq!(decide(1, 1e12), (Some(429), None, true));
        assert_eq!(decide(2, 1e12), (None, Some(true), false));
        assert_eq!(decide(0, 1e12 + 60_000.0), (Some(429), None, true), "no bytes are left");
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
        let error = SandboxRequest::new(policy, "1", r#"["secret-value"]"#).unwrap_err();
        assert!(!error.message.contains("secret-value"), "{error}");
    }
}
