//! What scripts reach, and where redirects lead them.

use std::collections::HashMap;
use std::io::Write as _;
use std::sync::{Arc, Mutex};

use koze_core::script::Egress;
use koze_local::{Internet, Local};
use serde_json::json;

use super::scene::{Server, hosts, path, refused};
use crate::scripted::{Scene, online};
use crate::server;
use crate::stage::within;

pub(super) fn reaches() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let scene = Scene::with(server::here());
        let sent = json!({
            "url": "http://origin.example/echo?q=1#part", "method": "POST", "headers": { "X-Mine": "yes" }, "body": "ä",
        });
        let done = scene.call("fetch_url", sent).await.unwrap();
        assert_eq!((&done["ok"], &done["status"]), (&json!(true), &json!(200)));
        assert_eq!(done["url"], "http://origin.example/echo?q=1");
        let body = done["body"].as_str().unwrap().to_ascii_lowercase();
        for line in [
            "post /echo?q=1 http/1.1\r\n",
            "host: origin.example\r\n",
            "x-mine: yes\r\n",
            "accept-encoding: identity\r\n",
            "content-length: 2\r\n",
            "content-type: text/plain;charset=utf-8\r\n",
            "user-agent: koze/",
        ] {
            assert!(body.contains(line), "{line}: {body}");
        }
        assert!(body.ends_with("\r\n\r\nä"), "{body}");
        let code = "const r = await fetch('http://origin.example:8080/echo', { method: 'put', headers: { 'content-type': 'a/b', n: 1 }, \
                    body: '[1]' }); const t = await r.text(); return [r.ok, r.status, r.url, typeof r.headers['content-length'], \
                    t.includes('PUT /echo'), t.includes('host: origin.example:8080') || t.includes('Host: origin.example:8080'), \
                    t.endsWith('[1]')]";
        let wanted = json!([true, 200, "http://origin.example:8080/echo", "string", true, true, true]);
        assert_eq!(scene.run(code).await, wanted);
        // The journal names the scripts.
        let journal = Local::egress(scene.state.path()).unwrap();
        let seen: Vec<_> =
            journal.iter().map(|entry| (&*entry.sandbox, &*entry.session, &*entry.host)).collect();
        assert_eq!(seen, [("(scripts)", "scripts", "origin.example"); 2]);
    })
}

pub(super) fn off_by_default() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let server = Server::redirecting();
        let names = || HashMap::from([("origin.example".to_owned(), server.at)]);
        let scene = Scene::new(Internet { names: names(), ..Internet::default() }, Egress::default());
        let place = "`[package.metadata.koze.script]`";
        refused(&scene.fetch("http://origin.example/").await, "permission_denied", place);
        let code = "try { await fetch('http://origin.example/') } catch (error) { return error.message }";
        assert!(scene.run(code).await.as_str().unwrap().contains(place));
        assert_eq!(server.accepted(), 0);
    })
}

pub(super) fn policy() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let server = Server::redirecting();
        let names = ["origin.example", "api.origin.example", "other.example"];
        let internet = || Internet {
            names: names.iter().map(|&name| (name.to_owned(), server.at)).collect(),
            ..Internet::default()
        };
        let egress = Egress {
            internet: false,
            allowed_hosts: hosts(&["*.origin.example", "origin.example:81", "other.example"]),
            denied_hosts: hosts(&["other.example"]),
        };
        let scene = Scene::new(internet(), egress);
        for (url, reached) in [
            ("http://api.origin.example/", true),
            ("http://API.Origin.EXAMPLE./", true),
            ("http://api.origin.example:82/", false),
            ("http://origin.example:81/", true),
            ("http://origin.example/", false),
            ("http://other.example/", false),
            ("http://203.0.113.80/", false),
            ("http://api.origin.example/to/http://origin.example:81/", true),
            ("http://api.origin.example/to/http://other.example/", false),
            ("http://api.origin.example/to/http://api.origin.example:22/", false),
        ] {
            let done = scene.fetch(url).await;
            assert_eq!(done.is_ok(), reached, "{url}: {done:?}");
            if !reached {
                refused(&done, "permission_denied", "_hosts` in `[package.metadata.koze.script]`");
            }
        }
        // A name that leads to a denied address.
        let egress = Egress { denied_hosts: hosts(&["127.0.0.1"]), ..online() };
        let scene = Scene::new(internet(), egress);
        refused(&scene.fetch("http://origin.example/").await, "permission_denied", "its address 127.0.0.1");
    })
}

pub(super) fn redirects() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let heads = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&heads);
        let server = Server::new(move |head, stream| {
            seen.lock().unwrap().push(head.to_ascii_lowercase());
            let number: usize = path(head).trim_start_matches('/').parse().unwrap_or(0);
            match path(head) {
                "/loop" => write!(
                    stream,
                    "HTTP/1.1 302 Found\r\nLocation: /loop\r\nContent-Length: 9\r\n\r\nredirects"
                ),
                "/other" => write!(stream, "HTTP/1.1 307 Found\r\nLocation: http://other.example/0\r\n\r\n"),
                _ if number == 0 => write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nthere"),
                _ => write!(
                    stream,
                    "HTTP/1.1 302 Found\r\nLocation: {}\r\nContent-Length: 0\r\n\r\n",
                    number - 1
                ),
            }
        });
        let scene = Scene::with(server.at);
        let done = scene.fetch("http://origin.example/10").await.unwrap();
        assert_eq!((&done["url"], &done["body"]), (&json!("http://origin.example/0"), &json!("there")));
        refused(&scene.fetch("http://origin.example/11").await, "unavailable", "more than 10 times");
        let before = server.accepted();
        refused(&scene.fetch("http://origin.example/loop").await, "unavailable", "more than 10 times");
        assert_eq!(server.accepted() - before, 11);
        heads.lock().unwrap().clear();
        let headers = json!({ "authorization": "Bearer a", "cookie": "b", "x-key": "c", "accept": "text/a" });
        let input = json!({ "url": "http://origin.example/other", "headers": headers });
        scene.call("fetch_url", input).await.unwrap();
        let heads = heads.lock().unwrap().clone();
        let [first, second] = &heads[..] else { panic!("{heads:?}") };
        for part in ["authorization: bearer a", "cookie: b", "x-key: c"] {
            assert!(first.contains(part) && !second.contains(part), "{part}: {heads:?}");
        }
        assert!(
            second.contains("host: other.example\r\n") && second.contains("accept: text/a\r\n"),
            "{second}"
        );
        let input = json!({ "url": "http://origin.example/other", "method": "POST", "body": "secret" });
        refused(&scene.call("fetch_url", input).await, "permission_denied", "to another origin");
    })
}
