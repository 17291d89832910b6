//! What pages reach: hosts, addresses and files.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::Ordering;

use koze_core::script::Egress;
use koze_core::{Profiles, Session, SessionId};
use koze_local::{Internet, Local};
use serde_json::json;

use super::life::directory;
use super::scene::{Site, fails, html};
use crate::fetch::Authority;
use crate::scripted::{Scene, internet, online};
use crate::stage::{until, within};

pub(super) fn off_by_default() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let site = Site::of("");
        let scene = Scene::browsing(internet(site.at), Egress::default());
        fails(
            &scene.open("http://origin.example/").await,
            "permission_denied: scripts of this project may not reach the internet",
        );
        let profiles = Profiles::of_scripts().with_script_egress(online());
        let id = SessionId::new("tests", "scripts").unwrap();
        let session = Session::new(scene.local.clone(), id, profiles);
        let scene = Scene { session, ..scene };
        fails(
            &scene.open("http://origin.example/").await,
            "unsupported: this project has no browser for scripts: ask the user to set `browser = true`",
        );
        assert_eq!(scene.run("return typeof browser").await, "undefined");
        assert_eq!(site.accepted.load(Ordering::Acquire), 0);
        assert!(!scene.state.path().join("browsers").exists(), "nothing was started");
    })
}

pub(super) fn policy() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let site = Site::new(|path, _| match path {
            "/" => html(
                "<title>pending</title><img src=http://other.example/picture><script>fetch('http://third.example/')\
                         .catch((error) => document.title = error.message)</script>",
            ),
            _ => html("here"),
        });
        let names = ["api.origin.example", "origin.example", "other.example", "third.example"];
        let internet =
            Internet { names: names.map(|name| (name.to_owned(), site.at)).into(), ..Internet::default() };
        let egress = Egress {
            internet: false,
            allowed_hosts: ["*.origin.example", "origin.example:81", "other.example"]
                .map(str::to_owned)
                .into(),
            denied_hosts: vec!["other.example".to_owned()],
        };
        let scene = Scene::browsing(internet, egress);
        for (url, reached) in [
            ("http://api.origin.example/here", true),
            ("http://API.Origin.EXAMPLE/here", true),
            ("http://api.origin.example:82/", false),
            ("http://origin.example:81/here", true),
            ("http://origin.example/", false),
            ("http://other.example/", false),
            ("https://other.example/", false),
            ("http://203.0.113.80/", false),
            ("http://api.origin.example/to/http://origin.example:81/here", true),
            ("http://api.origin.example/to/http://other.example/", false),
            ("http://api.origin.example/to/https://other.example/", false),
            ("http://api.origin.example/to/http://api.origin.example:8022/", false),
        ] {
            let done = scene.open(url).await;
            assert_eq!(done.is_ok(), reached, "{url}: {done:?}");
            if !reached {
                let error = done.unwrap_err();
                assert!(error.starts_with("permission_denied: scripts may not reach "), "{url}: {error}");
                assert!(error.contains("_hosts` in `[package.metadata.koze.script]`"), "{url}: {error}");
            }
        }
        // What a page embeds and requests is judged in the same way. A refusal there is not one of the page.
        assert_eq!(scene.open("http://api.origin.example/").await.unwrap()["status"], 200);
        until("the page's own request was refused", async || {
            scene.evaluate("document.title").await == Ok(json!("Failed to fetch"))
        })
        .await;
        assert!(!site.asked().contains(&"/picture".to_owned()));
        // The journal names the browser.
        let journal = Local::egress(scene.state.path()).unwrap();
        let seen = |host: &str, allowed| {
            journal
                .iter()
                .any(|entry| entry.sandbox == "(browser)" && entry.host == host && entry.allowed == allowed)
        };
        assert!(
            seen("api.origin.example", true) && seen("other.example", false) && seen("third.example", false)
        );
        assert!(
            journal.iter().all(|entry| entry.host.ends_with(".example") || entry.host == "203.0.113.80"),
            "{journal:?}"
        );
    })
}

/// Ways in which a page requests something.
const REQUESTS: &str = "
    const near = NEAR;
    for (const url of near) {
        fetch(url, { mode: 'no-cors' }).catch(() => {});
        new Image().src = url;
        try { new WebSocket(url.replace('http', 'ws')) } catch {}
        try { new EventSource(url) } catch {}
        navigator.sendBeacon(url, 'x');
        document.head.insertAdjacentHTML('beforeend', `<link rel=preconnect href=${url}><link rel=prefetch href=${url}>`);
        document.body.insertAdjacentHTML('beforeend', `<iframe src=${url}></iframe>`);
        const script = document.createElement('script');
        script.src = url;
        document.body.append(script);
    }
    const link = new RTCPeerConnection({ iceServers: [{ urls: 'stun:127.0.0.1:PORT' }, { urls: 'turn:127.0.0.1:PORT?transport=tcp', username: 'a', credential: 'b' }] });
    link.createDataChannel('a');
    link.createOffer().then((offer) => link.setLocalDescription(offer));
    new Promise((done) => setTimeout(() => done('asked'), 1500))";

/// Hosts that are this machine or its surroundings.
const NEARBY: &[&str] = &[
    "127.0.0.1",
    "127.1",
    "2130706433",
    "0x7f.1",
    "localhost",
    "0.0.0.0",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "[::1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[fd00:ec2::254]",
    "[fe80::1]",
    "near.example",
    "moving.example",
];

pub(super) fn nearby() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let near = Site::of("near");
        let site = Site::of("<body></body>");
        let port = near.at.port();
        let far: IpAddr = "203.0.113.80".parse().unwrap();
        let this: IpAddr = "127.0.0.1".parse().unwrap();
        let internet = |unchecked| {
            let answers = HashMap::from([
                ("origin.example".to_owned(), vec![vec![far]]),
                ("near.example".to_owned(), vec![vec![this]]),
                // The first lookup is for the check of the name, as an attacker would have it.
                ("moving.example".to_owned(), vec![vec![far], vec![this]]),
            ]);
            let all = [
                "127.0.0.1",
                "0.0.0.0",
                "10.0.0.1",
                "172.16.0.1",
                "192.168.1.1",
                "169.254.169.254",
                "::1",
                "::",
                "::ffff:127.0.0.1",
                "fd00:ec2::254",
                "fe80::1",
            ];
            let servers = all.map(|address| (address.parse().unwrap(), near.at));
            Internet {
                answers,
                servers: servers.into_iter().chain([(far, site.at)]).collect(),
                unchecked,
                ..Internet::default()
            }
        };
        let scene = Scene::browsing(internet(false), online());
        assert_eq!(scene.open(&format!("http://moving.example:{port}/")).await.unwrap()["status"], 200);
        for host in NEARBY {
            for to in ["", "http://origin.example/to/"] {
                let done = scene.open(&format!("{to}http://{host}:{port}/")).await;
                fails(&done, "permission_denied: ");
                assert!(
                    done.unwrap_err().contains("scripts cannot reach private or local networks"),
                    "{host}"
                );
            }
        }
        for (url, start) in [
            ("file:///etc/passwd", "invalid_input: the browser opens only URLs with `https:` or `http:`"),
            ("chrome://version/", "invalid_input: the browser opens"),
            ("data:text/html,a", "invalid_input: the browser opens"),
            ("javascript:1", "invalid_input: the browser opens"),
            ("about:blank", "invalid_input: the browser opens"),
            ("view-source:http://origin.example/", "invalid_input: the browser opens"),
            ("http://user@origin.example/", "invalid_input: the URL contains a user"),
            ("origin.example", "invalid_input: the URL is not valid"),
        ] {
            fails(&scene.open(url).await, start);
        }
        let urls: Vec<String> = NEARBY.iter().map(|host| format!("http://{host}:{port}/")).collect();
        let requests = REQUESTS.replace("NEAR", &json!(urls).to_string()).replace("PORT", &port.to_string());
        scene.home().await;
        assert_eq!(scene.evaluate(&requests).await, Ok(json!("asked")));
        assert_eq!(near.accepted.load(Ordering::Acquire), 0);
        // The control: without the check of addresses, the same requests reach the server.
        let scene = Scene::browsing(internet(true), online());
        scene.home().await;
        assert_eq!(scene.evaluate(&requests).await, Ok(json!("asked")));
        assert!(near.accepted.load(Ordering::Acquire) > 10);
    })
}

pub(super) fn files() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let site = Site::of("<title>Home</title><body></body>");
        let scene = Scene::with_site(&site);
        scene.home().await;
        for url in [
            "file:///etc/passwd",
            "file:///usr",
            "chrome://version",
            "devtools://devtools/bundled/inspector.html",
            "view-source:file:///etc/passwd",
            "filesystem:http://origin.example/temporary/a",
            "data:text/html,<title>data</title>",
        ] {
            let url = json!(url);
            let code = format!(
                "const url = {url}; const reached = []; \
                 try {{ location = url }} catch {{}} \
                 try {{ await fetch(url); reached.push('fetch') }} catch {{}} \
                 const frame = document.createElement('iframe'); frame.src = url; document.body.append(frame); \
                 const link = document.createElement('a'); link.href = url; document.body.append(link); link.click(); \
                 const opened = window.open(url); \
                 await new Promise((done) => setTimeout(done, 200)); \
                 try {{ reached.push(frame.contentDocument.body.innerText) }} catch {{}} \
                 return [location.href, document.title, String(opened), reached.filter((text) => text)]"
            );
            let expected = if url.as_str().unwrap().starts_with("data:") {
                // Data is no file: a page may read its own.
                json!(["http://origin.example/", "Home", "null", ["fetch"]])
            } else {
                json!(["http://origin.example/", "Home", "null", []])
            };
            assert_eq!(scene.evaluate(&code).await, Ok(expected), "{url}");
            let done = scene.open(&format!("http://origin.example/to/{}", url.as_str().unwrap())).await;
            let error = done.expect_err("it is refused");
            assert!(error.contains("redirects to a URL"), "{error}");
            let shown = scene.evaluate("[location.href, document.title]").await;
            let home = Ok(json!(["http://origin.example/", "Home"]));
            assert!(
                shown == home || shown.as_ref().is_err_and(|error| error.starts_with("not_found: ")),
                "{shown:?}"
            );
            scene.home().await;
        }
        // What the browser writes is in memory.
        assert_eq!(std::fs::read_dir(directory(scene.state.path()).join("files")).unwrap().count(), 0);
    })
}

/// The name in the handshake is judged, too, so this also says that the proxy reads Chromium's.
pub(super) fn certificates() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let server = Authority::new().server("origin.example");
        for (allowed, start) in [
            (
                "origin.example",
                "unavailable: the page cannot be opened (net::ERR_CERT_AUTHORITY_INVALID): the connection is not secure",
            ),
            ("other.example", "permission_denied: scripts may not reach origin.example"),
        ] {
            let egress = Egress { allowed_hosts: vec![allowed.to_owned()], ..Egress::default() };
            let names = [("origin.example".to_owned(), server)].into();
            let scene = Scene::browsing(Internet { names, ..Internet::default() }, egress);
            fails(&scene.open("https://origin.example/").await, start);
        }
    })
}

pub(super) fn authorities() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let (authority, stranger) = (Authority::new(), Authority::new());
        let names = [
            ("good.example", authority.server("good.example")),
            ("wrong.example", authority.server("other.example")),
            ("strange.example", stranger.server("strange.example")),
        ];
        let names = names.map(|(name, at)| (name.to_owned(), at)).into();
        let roots = vec![authority.root.clone(), Authority::new().root];
        let scene = Scene::browsing(Internet { names, roots, ..Internet::default() }, online());
        let opened = scene.open("https://good.example/").await;
        if !Path::new("/usr/bin/certutil").exists() {
            assert!(std::env::var_os("CI").is_none(), "certutil is missing: run `cargo xtask setup`");
            eprintln!("certutil is missing, so the browser trusts no authority of the test");
            return assert!(opened.unwrap_err().contains("`apt-get install libnss3-tools`"));
        }
        assert_eq!(opened.unwrap()["status"], 200);
        assert_eq!(scene.text().await, "secret");
        for (host, error) in
            [("wrong", "net::ERR_CERT_COMMON_NAME_INVALID"), ("strange", "net::ERR_CERT_AUTHORITY_INVALID")]
        {
            let start =
                format!("unavailable: the page cannot be opened ({error}): the connection is not secure");
            fails(&scene.open(&format!("https://{host}.example/")).await, &start);
        }
    })
}
