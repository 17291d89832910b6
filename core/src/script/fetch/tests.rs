use std::collections::BTreeMap;
use std::sync::Mutex;

use super::*;
use crate::egress::{Credential, Placement};
use crate::id::SandboxId;
use crate::provider::memory::{Memory, MemorySandbox, MemoryStore};
use crate::provider::{Info, Opened, ScriptProvider, Settings};
use crate::script::{Exchange, Method, ScriptCredentials};
use crate::workspace::OpenLimits;

/// A provider whose network is a function.
struct Web<F> {
    memory: Memory,
    serve: F,
    seen: Mutex<Vec<Exchange>>,
}

impl<F: Fn(&Exchange) -> Result<Exchanged> + Send + Sync + 'static> ScriptProvider for Web<F> {
    async fn script_exchange(&self, _: &SessionId, _: &Egress, exchange: Exchange) -> Result<Exchanged> {
        let response = (self.serve)(&exchange);
        self.seen.lock().unwrap().push(exchange);
        response
    }
}

impl<F: Fn(&Exchange) -> Result<Exchanged> + Send + Sync + 'static> Provider for Web<F> {
    type Sandbox = MemorySandbox;
    type Store = MemoryStore;

    fn open_limits(&self) -> &OpenLimits {
        self.memory.open_limits()
    }

    async fn open(&self, id: &SandboxId, settings: &Settings) -> Result<Opened<MemorySandbox>> {
        self.memory.open(id, settings).await
    }

    async fn find(&self, id: &SandboxId) -> Result<Option<Opened<MemorySandbox>>> {
        self.memory.find(id).await
    }

    async fn list(&self, session: &SessionId) -> Result<Vec<Info>> {
        self.memory.list(session).await
    }

    fn store(&self, session: &SessionId) -> Result<MemoryStore> {
        self.memory.store(session)
    }
}

fn web<F: Fn(&Exchange) -> Result<Exchanged> + Send + Sync + 'static>(serve: F) -> Web<F> {
    Web { memory: Memory::new(), serve, seen: Mutex::default() }
}

fn get(url: &str) -> Fetch {
    Fetch { url: url.into(), method: Method::Get, headers: BTreeMap::new(), body: None, timeout: 30_000 }
}

fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> Exchanged {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Exchanged { status, headers, body: body.as_bytes().to_vec() }
}

fn online() -> Egress {
    Egress { internet: true, ..Egress::default() }
}

fn without_credentials() -> Fetches<'static> {
    Fetches::new(Injection::default())
}

fn fetched<P: Provider>(web: &P, fetches: &Fetches<'_>, fetch: Fetch) -> Result<Map<String, Value>> {
    let agent = SessionId::new("tests", "a").unwrap();
    pollster::block_on(fetches.fetch(web, &agent, &online(), fetch))
}

fn one<P: Provider>(web: &P, fetch: Fetch) -> Result<Map<String, Value>> {
    fetched(web, &without_credentials(), fetch)
}

/// Returns the header of a request.
fn header<'a>(exchange: &'a Exchange, name: &str) -> Option<&'a str> {
    exchange.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

#[test]
fn a_request_and_its_response() {
    let web = web(|_| {
        Ok(answer(
            201,
            &[("content-type", "text/plain"), ("set-cookie", "a=1"), ("set-cookie", "b=2")],
            "ü\u{0}",
        ))
    });
    let fetch = Fetch {
        method: Method::Post,
        headers: BTreeMap::from([("X-Key".into(), " a ".into())]),
        body: Some("{}".into()),
        ..get("HTTPS://EXAMPLE.com:443/a b?q=ü#part")
    };
    let done = one(&web, fetch).unwrap();
    assert_eq!(
        Value::Object(done),
        json!({
            "status": 201, "url": "https://example.com/a%20b?q=%C3%BC", "body": "ü\u{0}",
            "headers": { "content-type": "text/plain", "set-cookie": "a=1, b=2" },
        })
    );
    let seen = web.seen.lock().unwrap();
    let [sent] = &seen[..] else { panic!("{seen:?}") };
    assert_eq!((sent.host.as_str(), sent.port, sent.tls), ("example.com", 443, true));
    assert_eq!((sent.target.as_str(), sent.body.as_deref()), ("/a%20b?q=%C3%BC", Some("{}")));
    assert_eq!(header(sent, "x-key"), Some("a"));
    assert_eq!(header(sent, "accept-encoding"), Some("identity"));
    assert_eq!(header(sent, "content-type"), Some("text/plain;charset=UTF-8"));
    assert!(sent.time <= Duration::from_secs(30) && sent.longest == BODY);
}

#[test]
fn bytes_that_are_no_text_are_replaced() {
    let web = web(|_| Ok(Exchanged { status: 200, body: vec![b'a', 0xff, b'b'], ..Exchanged::default() }));
    assert_eq!(one(&web, get("http://a.example")).unwrap()["body"], "a\u{fffd}b");
}

/// Unusual notations of addresses are those that a browser requests, so that the provider checks what it connects to.
#[test]
fn hosts_are_parsed_as_in_a_browser() {
    for (url, host, port) in [
        ("http://127.1/", "127.0.0.1", 80),
        ("http://0x7f.1:81/", "127.0.0.1", 81),
        ("http://0177.0.0.1/", "127.0.0.1", 80),
        ("http://2130706433/", "127.0.0.1", 80),
        ("http://127.0.0.1./", "127.0.0.1", 80),
        ("http://%31%32%37.0.0.1/", "127.0.0.1", 80),
        ("http://１２７.0.0.1/", "127.0.0.1", 80),
        ("http:\\\\169.254.169.254\\a", "169.254.169.254", 80),
        ("http://[::ffff:7f00:1]/", "[::ffff:7f00:1]", 80),
        ("http://[0:0::0:1]/", "[::1]", 80),
        ("https://bücher.example/", "xn--bcher-kva.example", 443),
    ] {
        let web = web(|_| Ok(answer(200, &[], "")));
        one(&web, get(url)).unwrap();
        let seen = web.seen.lock().unwrap();
        assert_eq!((seen[0].host.as_str(), seen[0].port), (host, port), "{url}");
    }
}

#[test]
fn invalid_requests_are_not_sent() {
    let long = format!("http://a.example/{}", "x".repeat(8 << 10));
    for (url, part) in [
        ("", "Write an absolute one"),
        ("/path", "it has no scheme"),
        ("example.com/path", "it has no scheme"),
        ("ftp://a.example/", "not `ftp:`"),
        ("file:///etc/passwd", "not `file:`"),
        ("data:text/plain,a", "not `data:`"),
        ("javascript:1", "not `javascript:`"),
        (&format!("{}:1", "secret".repeat(20)), "`https:` or `http:`"),
        ("http://", "is not valid"),
        ("http://a b/", "is not valid"),
        ("http://1.2.3.4.5/", "is not valid"),
        ("http://[::1%25eth0]/", "is not valid"),
        ("http://a.example:65536/", "is not valid"),
        ("http://a.example:0/", "from 1 to 65535"),
        ("http://user@a.example/", "`authorization`"),
        ("http://:secret@a.example/", "`authorization`"),
        (&long, "may have 8192"),
    ] {
        let web = web(|_| panic!("it is sent"));
        let error = one(&web, get(url)).unwrap_err();
        assert_eq!(error.code, Code::InvalidInput, "{url}");
        assert!(error.message.contains(part), "{url}: {}", error.message);
        assert!(!error.message.contains("secret"), "{}", error.message);
    }
    let web = web(|_| panic!("it is sent"));
    let with = |headers: &[(&str, &str)]| {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Fetch { headers, ..get("http://a.example/") }
    };
    let many: Vec<(String, String)> = (0..65).map(|number| (format!("x-{number}"), String::new())).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    for (fetch, part) in [
        (with(&[("x-a", "1\r\nx-b: 2")]), "line break"),
        (with(&[("x-a", "1\nx-b: 2")]), "line break"),
        (with(&[("x-a", "\u{0}")]), "line break"),
        (with(&[("x-a", "ü")]), "printable ASCII"),
        (with(&[("x-a\r\nx-b", "1")]), "is not the name of a header"),
        (with(&[("x a", "1")]), "is not the name of a header"),
        (with(&[("", "1")]), "is not the name of a header"),
        (with(&[(&"secret ".repeat(20), "1")]), "`a name of 140 bytes` is not"),
        (with(&[("Host", "b.example")]), "cannot be set"),
        (with(&[("content-length", "1")]), "cannot be set"),
        (with(&[("Transfer-Encoding", "chunked")]), "cannot be set"),
        (with(&[("connection", "upgrade")]), "cannot be set"),
        (with(&[("Proxy-Authorization", "x")]), "cannot be set"),
        (with(&[("accept-encoding", "gzip")]), "cannot be set"),
        (with(&[("x-a", "1"), ("X-A", "2")]), "set twice"),
        (with(&[("x-a", &"x".repeat(17 << 10))]), "16 KiB in all"),
        (with(&many), "64 headers"),
        (Fetch { timeout: 0, ..get("http://a.example/") }, "from 1 to 30000"),
        (Fetch { body: Some("a".into()), ..get("http://a.example/") }, "a GET request has no body"),
        (
            Fetch { method: Method::Head, body: Some("a".into()), ..get("http://a.example/") },
            "a HEAD request has no body",
        ),
    ] {
        let error = one(&web, fetch).unwrap_err();
        assert_eq!(error.code, Code::InvalidInput, "{part}");
        assert!(
            error.message.contains(part) && !error.message.contains("secret"),
            "{part}: {}",
            error.message
        );
    }
    let long = Fetch { method: Method::Put, body: Some("x".repeat(BODY + 1)), ..get("http://a.example/") };
    assert_eq!(one(&web, long).unwrap_err().code, Code::TooLarge);
}

#[test]
fn without_egress_nothing_is_sent() {
    let web = web(|_| panic!("it is sent"));
    let agent = SessionId::new("tests", "a").unwrap();
    for egress in [Egress::default(), Egress { denied_hosts: vec!["b.example".into()], ..Egress::default() }]
    {
        let fetches = without_credentials();
        let fetching = fetches.fetch(&web, &agent, &egress, get("http://a.example"));
        let error = pollster::block_on(fetching).unwrap_err();
        assert_eq!(error.code, Code::PermissionDenied);
        assert!(error.message.contains("`[package.metadata.koze.script]`"), "{}", error.message);
    }
}

/// Sends a request to a server that redirects once. Returns the second request.
fn redirected(fetch: Fetch, status: u16, to: &'static str) -> Result<Exchange> {
    let first = Mutex::new(true);
    let web = web(move |_| {
        let is_first = std::mem::replace(&mut *first.lock().unwrap(), false);
        Ok(if is_first { answer(status, &[("location", to)], "") } else { answer(200, &[], "there") })
    });
    one(&web, fetch).map(|done| assert_eq!(done["body"], "there"))?;
    let mut seen = web.seen.lock().unwrap();
    assert_eq!(seen.len(), 2);
    Ok(seen.remove(1))
}

#[test]
fn redirects_change_the_method_as_in_a_browser() {
    for (status, method, wanted) in [
        (301, Method::Post, Method::Get),
        (302, Method::Post, Method::Get),
        (303, Method::Post, Method::Get),
        (303, Method::Put, Method::Get),
        (303, Method::Head, Method::Head),
        (301, Method::Put, Method::Put),
        (307, Method::Post, Method::Post),
        (308, Method::Patch, Method::Patch),
        (302, Method::Get, Method::Get),
    ] {
        let body = (!matches!(method, Method::Get | Method::Head)).then(|| "a".to_owned());
        let headers = BTreeMap::from([("content-type".into(), "text/a".into())]);
        let fetch = Fetch { method, body: body.clone(), headers, ..get("http://a.example/a/b?c") };
        let sent = redirected(fetch, status, "../d?e#f").unwrap();
        assert_eq!((sent.method, sent.target.as_str()), (wanted, "/d?e"), "{status} {method:?}");
        let keeps = wanted == method;
        assert_eq!(sent.body, body.filter(|_| keeps), "{status} {method:?}");
        assert_eq!(header(&sent, "content-type").is_some(), keeps, "{status} {method:?}");
    }
    // Neither of these redirects.
    for response in
        [answer(302, &[], "here"), answer(300, &[("location", "/b")], "here"), answer(304, &[], "here")]
    {
        let web = web(move |_| Ok(response.clone()));
        assert_eq!(one(&web, get("http://a.example")).unwrap()["body"], "here");
    }
}

#[test]
fn other_origins_do_not_learn_secrets() {
    let headers = || {
        let all = ["Authorization", "Cookie", "X-Api-Key", "Accept", "User-Agent"];
        all.map(|name| (name.to_owned(), "value".to_owned())).into()
    };
    for (from, to, keeps) in [
        ("https://a.example/", "/b", true),
        ("https://a.example/", "https://a.example:443/b", true),
        ("http://a.example/", "https://a.example/b", true),
        ("https://a.example/", "https://b.example/", false),
        ("https://a.example/", "//b.example/", false),
        ("https://a.example/", "https://b.a.example/", false),
        ("https://a.example/", "https://a.example:444/", false),
        ("http://a.example:81/", "https://a.example/", false),
        ("http://a.example/", "http://a.example:81/", false),
    ] {
        let sent = redirected(Fetch { headers: headers(), ..get(from) }, 307, to).unwrap();
        for name in ["authorization", "cookie", "x-api-key"] {
            assert_eq!(header(&sent, name).is_some(), keeps, "{from} {to} {name}");
        }
        assert_eq!((header(&sent, "accept"), header(&sent, "user-agent")), (Some("value"), Some("value")));
        let post = Fetch { method: Method::Post, body: Some("secret".into()), ..get(from) };
        match redirected(post, 307, to) {
            Ok(sent) => assert!(keeps && sent.body.is_some(), "{from} {to}"),
            Err(error) => {
                assert!(!keeps && error.message.contains("another origin"), "{from} {to}: {}", error.message);
            }
        }
    }
}

#[test]
fn redirects_that_are_not_followed() {
    for (from, to, part) in [
        ("https://a.example/", "http://a.example/", "from `https:` to `http:`"),
        ("http://a.example/", "file:///etc/passwd", "not `file:`"),
        ("http://a.example/", "http://user:secret@b.example/", "`authorization`"),
        ("http://a.example/", "http://", "is not valid"),
    ] {
        let error = redirected(get(from), 302, to).unwrap_err();
        assert!(error.message.contains("redirects, which is not followed"), "{}", error.message);
        assert!(error.message.contains(part) && !error.message.contains("secret"), "{}", error.message);
    }
    let web = web(|exchange: &Exchange| {
        let number: usize = exchange.target[1..].parse().unwrap();
        let next = format!("/{}", number + 1);
        Ok(answer(if number < 10 { 302 } else { 200 }, &[("location", &next)], ""))
    });
    assert_eq!(one(&web, get("http://a.example/0")).unwrap()["url"], "http://a.example/10");
    let circle = self::web(|_| Ok(answer(302, &[("location", "/")], "")));
    let error = one(&circle, get("http://a.example/")).unwrap_err();
    assert!(error.message.contains("more than 10 times"), "{}", error.message);
    assert_eq!(circle.seen.lock().unwrap().len(), 11);
}

#[test]
fn limits_name_themselves() {
    let late = web(|_| Err(Error::new(Code::Timeout, "late")));
    let error = one(&late, Fetch { timeout: 70, ..get("http://a.example") }).unwrap_err();
    assert_eq!(error.message, "a.example did not answer within 70 ms: `timeout` can be up to 30000 ms");
    let long = web(|_| Err(Error::new(Code::TooLarge, "long")));
    let error = one(&long, get("http://a.example")).unwrap_err();
    assert!(error.message.contains("a.example has more than 2 MiB"), "{}", error.message);
    let packed = web(|_| Ok(answer(200, &[("content-encoding", "gzip")], "\u{1f}")));
    let error = one(&packed, get("http://a.example")).unwrap_err();
    assert!(error.message.contains("the encoding `gzip`"), "{}", error.message);
    for response in [
        answer(200, &[("content-encoding", "gzip")], ""),
        answer(200, &[("content-encoding", "Identity")], "a"),
    ] {
        let web = web(move |_| Ok(response.clone()));
        one(&web, get("http://a.example")).unwrap();
    }
}

#[test]
fn a_run_transfers_a_limited_number_of_bytes() {
    let web = web(|exchange: &Exchange| match exchange.longest {
        0 => panic!("nothing is left"),
        longest => {
            Ok(Exchanged { status: 200, body: vec![b'a'; longest.min(3 << 19)], ..Exchanged::default() })
        }
    });
    let fetches = without_credentials();
    let mut count = 0;
    let error = loop {
        match fetched(&web, &fetches, get("http://a.example")) {
            Ok(_) => count += 1,
            Err(error) => break error,
        }
    };
    // The last one gets what is left.
    assert_eq!(count, 22);
    assert_eq!(error.code, Code::TooLarge);
    assert!(error.message.contains("32 MiB in all"), "{}", error.message);
    let post = |body| Fetch { method: Method::Post, body: Some(body), ..get("http://a.example") };
    let fetches = without_credentials();
    for _ in 0..16 {
        fetches.count_sent(BODY).unwrap();
    }
    assert_eq!(fetched(&web, &fetches, post("a".into())).unwrap_err().code, Code::TooLarge);
}

/// Has the credentials of a test's requests.
fn credentials() -> ScriptCredentials {
    let credential =
        |name: &str, host: &str, placement| Credential { name: name.into(), host: host.into(), placement };
    vec![
        credential("API_KEY", "api.example", Placement::Bearer),
        credential("MAPS", "GET maps.example/v1/**", Placement::Query { key: "key".into() }),
        credential("UNSET", "unset.example", Placement::Header { name: "x-api-key".into() }),
    ]
    .into()
}

/// Sends a request with credentials. `{NAME}` in the URL and in the header stands for a placeholder.
fn fetched_with_credentials<P: Provider>(
    web: &P,
    url: &str,
    header: (&str, &str),
) -> Result<Map<String, Value>> {
    let credentials = credentials();
    let secrets =
        [("API_KEY", "value of the key".replace(' ', "-")), ("MAPS", "value of/maps".replace(' ', "-"))];
    let secrets = secrets.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let injection = credentials.with_values(&SessionId::new("tests", "a").unwrap(), &secrets);
    let fill = |text: &str| {
        let fill = |text: String, (name, held): (&str, &str)| text.replace(&format!("{{{name}}}"), held);
        injection.placeholders().fold(text.to_owned(), fill)
    };
    let fetch = Fetch { headers: [(header.0.to_owned(), fill(header.1))].into(), ..get(&fill(url)) };
    fetched(web, &Fetches::new(injection), fetch)
}

#[test]
fn values_take_the_place_of_placeholders() {
    let web = web(|exchange| {
        let seen = format!("{} {}", header(exchange, "authorization").unwrap_or_default(), exchange.target);
        Ok(answer(200, &[("x-seen", &seen)], &seen))
    });
    let response =
        fetched_with_credentials(&web, "https://api.example/a", ("authorization", "Bearer {API_KEY}"));
    let masked = format!("Bearer {} /a", "*".repeat(16));
    let response = response.unwrap();
    assert_eq!((&response["body"], &response["headers"]["x-seen"]), (&json!(masked), &json!(masked)));
    let url = "https://maps.example/v1/a?key={MAPS}";
    let response = fetched_with_credentials(&web, url, ("accept", "*/*")).unwrap();
    assert_eq!(response["body"], format!(" /v1/a?key={}", "*".repeat(15)));
    assert!(response["url"].as_str().unwrap().contains("?key=koze_cred_"), "{response:?}");
    let seen = web.seen.lock().unwrap();
    assert_eq!(header(&seen[0], "authorization"), Some("Bearer value-of-the-key"));
    assert_eq!(seen[1].target, "/v1/a?key=value-of%2Fmaps");
    assert_eq!(
        seen.iter().flat_map(|exchange| &exchange.credentials).collect::<Vec<_>>(),
        ["API_KEY", "MAPS"]
    );
}

#[test]
fn placeholders_are_refused_elsewhere() {
    let web = web(|_| Ok(answer(200, &[], "")));
    let bearer = ("authorization", "Bearer {API_KEY}");
    for (url, header, part) in [
        ("https://other.example", bearer, "was sent to other.example in the header `authorization`"),
        ("http://api.example", bearer, "without TLS"),
        ("https://api.example:8443", bearer, "but the credential is only for"),
        ("https://api.example", ("x-other", "{API_KEY}"), "in the header `x-other`"),
        ("https://api.example/{API_KEY}", ("accept", "*/*"), "in the URL"),
        ("https://maps.example/v2?key={MAPS}", ("accept", "*/*"), "in the URL"),
        ("https://unset.example", ("x-api-key", "{UNSET}"), "`wrangler secret put KOZE_SECRET_UNSET`"),
    ] {
        let error = fetched_with_credentials(&web, url, header).unwrap_err();
        assert_eq!(error.code, Code::PermissionDenied, "{url}: {error}");
        assert!(error.message.contains(part), "{url}: {error}");
    }
    assert!(web.seen.lock().unwrap().is_empty());
}

#[test]
fn redirects_carry_no_value_to_another_host() {
    let web = web(|exchange| {
        let location = match exchange.target.as_str() {
            "/" => "https://other.example/b",
            // The value that was sent, which is masked before it is followed.
            "/echo" => "https://api.example/value-of-the-key",
            _ => return Ok(answer(200, &[], "")),
        };
        Ok(answer(302, &[("location", location)], ""))
    });
    let bearer = ("authorization", "Bearer {API_KEY}");
    fetched_with_credentials(&web, "https://api.example", bearer).unwrap();
    fetched_with_credentials(&web, "https://api.example/echo", bearer).unwrap();
    let seen = web.seen.lock().unwrap();
    assert_eq!((seen[1].host.as_str(), header(&seen[1], "authorization")), ("other.example", None));
    assert_eq!(seen[3].target, format!("/{}", "*".repeat(16)));
    assert_eq!(header(&seen[3], "authorization"), Some("Bearer value-of-the-key"));
}
