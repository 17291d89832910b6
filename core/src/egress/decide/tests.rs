//! The table of cases, and properties of all requests.

use base64::Engine as _;
use proptest::prelude::*;
use serde_json::Value;

use super::super::credential::Credential;
use super::*;
use crate::provider::{Profile, Size};

const PLACEHOLDER_PREFIX: &str = "koze_cred_";
const NAMES: [&str; 6] = ["API_KEY", "GIT", "MAPS", "STORE", "AWS", "UNSET"];

fn cases() -> Value {
    serde_json::from_str(include_str!("../cases.json")).unwrap()
}

fn policy() -> Policy {
    let policy = &cases()["policy"];
    let list = |key: &str| serde_json::from_value::<Vec<String>>(policy[key].clone()).unwrap();
    let credentials: Vec<Credential> = serde_json::from_value(policy["credentials"].clone()).unwrap();
    let profile = Profile {
        allowed_hosts: list("allowed_hosts"),
        denied_hosts: list("denied_hosts"),
        credentials,
        ..Profile::new("a", "a:1", Size { memory_mib: 1, disk_mb: 1 })
    };
    Policy::of(&profile).unwrap().unwrap()
}

fn placeholder(name: &str) -> String {
    format!("{PLACEHOLDER_PREFIX}{}", name.to_ascii_lowercase().replace('_', "0"))
}

fn value(name: &str) -> String {
    // An access key has two parts.
    format!("value{}of-{name}-itself", if name == "AWS" { "_of_a_key:" } else { "-" })
}

fn keys() -> Vec<Key> {
    let key = |name: &str| Key {
        worker_secret: name.into(),
        name: name.to_owned(),
        placeholder: placeholder(name),
        value: (name != "UNSET").then(|| value(name)),
    };
    NAMES.into_iter().map(key).collect()
}

/// Replaces `{NAME}` by the placeholder, `<NAME>` by the value, and encodes `base64(..)`.
fn fill(text: &str) -> String {
    let named = NAMES.iter().fold(text.to_owned(), |text, name| {
        text.replace(&format!("{{{name}}}"), &placeholder(name)).replace(&format!("<{name}>"), &value(name))
    });
    match named.split_once("base64(") {
        Some((before, rest)) => format!("{before}{}", STANDARD.encode(rest.strip_suffix(')').unwrap())),
        None => named,
    }
}

/// A request as `METHOD URL`, with headers.
fn decide(request: &str, headers: &[(String, String)]) -> Decision {
    let (method, url) = request.split_once(' ').unwrap();
    let (scheme, rest) = url.split_once("://").unwrap();
    let tls = scheme == "https";
    let (authority, target) = rest.split_at(rest.find('/').unwrap());
    let (host, port) = authority.split_once(':').unwrap_or((authority, if tls { "443" } else { "80" }));
    let host = Host::parse(host).unwrap();
    let port = port.parse().unwrap();
    let policy = policy();
    if let Err(refused) = policy.judge(&host, port) {
        return Decision::Deny(refused);
    }
    let headers = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    policy
        .decide(&RequestHead { tls, host: &host, port, method, target, headers, body_sha256: None }, &keys())
}

#[test]
fn the_table_of_cases() {
    for case in cases()["cases"].as_array().unwrap() {
        let headers: Vec<(String, String)> = case["headers"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, value)| (name.clone(), fill(value.as_str().unwrap())))
            .collect();
        let decision = decide(&fill(case["request"].as_str().unwrap()), &headers);
        let result = match &decision {
            Decision::Allow { .. } => "allow",
            Decision::ReadBody => "read_body",
            Decision::Deny(refused) => {
                let part = case["part"].as_str().unwrap_or("?");
                assert!(refused.text.contains(part), "{case}: {}", refused.text);
                "deny"
            }
            Decision::Replace { target, headers, .. } => {
                let sent = headers.iter().map(|(_, value)| String::from_utf8_lossy(value).into_owned());
                let sent: Vec<String> = sent.chain([target.clone()]).collect();
                for expected in case["expect"].as_array().unwrap() {
                    assert!(sent.contains(&fill(expected.as_str().unwrap())), "{case}: {sent:?}");
                }
                "replace"
            }
        };
        assert_eq!(result, case["result"], "{case}: {decision:?}");
        // Errors are read by models.
        if let Decision::Deny(refused) = decision {
            assert!(!refused.text.contains("-itself") && !refused.rule.contains("-itself"), "{refused:?}");
        }
    }
}

#[test]
fn a_value_that_cannot_be_in_a_header_is_refused() {
    for (value, part) in
        [("two\r\nlines: of text", "cannot"), ("short", "fewer than 8"), ("ünusual-value", "cannot")]
    {
        let keys = [Key { value: Some(value.into()), ..keys().swap_remove(0) }];
        let host = Host::parse("api.example.com").unwrap();
        let header = format!("Bearer {}", placeholder("API_KEY"));
        let headers = vec![("authorization", header.as_bytes())];
        let (method, target) = ("GET", "/");
        let head =
            RequestHead { tls: true, host: &host, port: 443, method, target, headers, body_sha256: None };
        let Decision::Deny(refused) = policy().decide(&head, &keys) else { panic!("{value}") };
        assert!(refused.text.contains(part) && !refused.text.contains(value), "{}", refused.text);
    }
}

/// A text that may contain a placeholder, in one of many forms.
fn any_text() -> impl Strategy<Value = String> {
    let name = prop::sample::select(NAMES.to_vec());
    let form = (name, 0..9, "[a-zA-Z0-9 =&?/:%.-]{0,6}").prop_map(|(name, form, other)| {
        let held = placeholder(name);
        match form {
            0 => held,
            1 => held.to_ascii_uppercase(),
            2 => format!("Bearer {held}"),
            3 => format!("token {held}{other}"),
            4 => format!("Basic {}", STANDARD.encode(format!("x-access-token:{held}"))),
            5 => format!("Basic {}", STANDARD.encode(format!("{other}:{held}"))),
            6 => percent_encoding::percent_encode_byte(held.as_bytes()[0]).to_owned() + &held[1..],
            7 => format!("{other}{held}{other}"),
            _ => other,
        }
    });
    form.prop_map(|text| text.replace(' ', "\t").replacen('\t', " ", 1))
}

fn any_header() -> impl Strategy<Value = (String, String)> {
    let names = [
        "authorization",
        "x-api-key",
        "cookie",
        "host",
        "referer",
        "x-a",
        "proxy-authorization",
        "content-type",
    ];
    (prop::sample::select(names.to_vec()), any_text()).prop_map(|(name, text)| (name.to_owned(), text))
}

fn any_target() -> impl Strategy<Value = String> {
    let path = prop::sample::select(vec![
        "/",
        "/v1/a",
        "/v2",
        "/admin/x",
        "/v1/../v2",
        "//",
        "/pkg/a",
        "/%2e%2e/v1",
    ]);
    let parameter = (prop::sample::select(vec!["key", "KEY", "%6bey", "q", ""]), any_text())
        .prop_map(|(name, text)| format!("{name}={}", text.replace([' ', '\t'], "+")));
    (path, prop::collection::vec(parameter, 0..4)).prop_map(|(path, query)| {
        if query.is_empty() { path.to_owned() } else { format!("{path}?{}", query.join("&")) }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever a request looks like, a value goes only to the declared host, over TLS, at the declared place, and alone.
    #[test]
    fn a_value_goes_only_where_it_is_declared(
        host in prop::sample::select(vec![
            "api.example.com", "git.example.com", "maps.example.com", "a.store.example.com", "store.example.com",
            "other.example.com", "registry.example.com", "aws.example.com", "secret.store.example.com",
        ]),
        port in prop::sample::select(vec!["", ":443", ":80", ":8443"]),
        tls in any::<bool>(),
        method in prop::sample::select(vec!["GET", "POST", "DELETE", "get", "OPTIONS"]),
        target in any_target(),
        headers in prop::collection::vec(any_header(), 0..4),
    ) {
        let scheme = if tls { "https" } else { "http" };
        let decision = decide(&format!("{method} {scheme}://{host}{port}{target}"), &headers);
        let Decision::Replace { credentials, target, headers: changed, .. } = decision else { return Ok(()) };
        prop_assert!(tls && matches!(port, "" | ":443"));
        for name in &credentials {
            let expected = match name.as_str() {
                "API_KEY" => "api.example.com",
                "GIT" => "git.example.com",
                "MAPS" => "maps.example.com",
                "STORE" => "a.store.example.com",
                other => panic!("{other} has no value"),
            };
            prop_assert_eq!(host, expected);
        }
        // What is sent, with the changed headers in their places.
        let sent = headers.iter().enumerate().map(|(at, (name, text))| {
            let changed = changed.iter().find(|(changed, _)| *changed == at);
            (name.as_str(), changed.map_or_else(|| text.clone(), |(_, value)| String::from_utf8(value.clone()).unwrap()))
        });
        for (name, text) in sent {
            let plain = decode_basic(text.as_bytes()).unwrap_or_else(|| text.clone());
            for key in NAMES {
                if plain.contains(&value(key)) {
                    prop_assert!(credentials.iter().any(|used| used == key));
                    let wanted = if key == "STORE" { "x-api-key" } else { "authorization" };
                    prop_assert_eq!(name, wanted);
                }
            }
            prop_assert!(!plain.to_ascii_lowercase().contains(PLACEHOLDER_PREFIX), "{}", plain);
        }
        for key in NAMES {
            if target.contains(&value(key)) {
                prop_assert_eq!(key, "MAPS");
                prop_assert!(target.starts_with("/v1/") && method == "GET");
                prop_assert_eq!(target.matches(&value(key)).count(), 1);
            }
        }
    }
}
