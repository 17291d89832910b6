//! What a server can do to scripts: limits, broken responses, secrets that it repeats.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use koze_core::script::Egress;
use koze_local::{Internet, Secrets};
use serde_json::json;

use super::scene::{Server, hosts, path, refused};
use crate::scripted::{Scene, internet, online};
use crate::server;
use crate::stage::within;

const LONGEST: usize = 2 << 20;

pub(super) fn bodies() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let server = Server::new(|head, stream| {
            let (kind, length) = path(head)[1..].split_once('/').unwrap();
            let length: usize = length.parse().unwrap();
            match kind {
                "known" => write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n")?,
                "chunked" => {
                    write!(stream, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{length:x}\r\n")?;
                }
                _ => write!(stream, "HTTP/1.1 200 OK\r\n\r\n")?,
            }
            stream.write_all(&vec![b'x'; length])?;
            if kind == "chunked" { write!(stream, "\r\n0\r\n\r\n") } else { Ok(()) }
        });
        let scene = Scene::with(server.at);
        for kind in ["known", "chunked", "until-closed"] {
            let url = |length: usize| format!("http://origin.example/{kind}/{length}");
            let done = scene.fetch(&url(LONGEST)).await.unwrap();
            assert_eq!(done["body"].as_str().unwrap().len(), LONGEST, "{kind}");
            refused(&scene.fetch(&url(LONGEST + 1)).await, "too_large", "more than 2 MiB");
        }
        let head = json!({ "url": "http://origin.example/known/30000000", "method": "HEAD" });
        assert_eq!(scene.call("fetch_url", head).await.unwrap()["headers"]["content-length"], "30000000");
        // All of a run.
        let code = "let n = 0; try { for (;;) { await fetch('http://origin.example/known/2097152'); n++ } } catch (error) { \
                    return [n, error.message] }";
        let done = scene.run(code).await;
        assert_eq!(done[0], 16, "{done}");
        assert!(done[1].as_str().unwrap().contains("32 MiB in all"), "{done}");
        // Control characters are longer in the messages than on the network.
        let code =
            "const r = await fetch('http://origin.example/known/1000'); return (await r.text()).length";
        assert_eq!(scene.run(code).await, 1000);
        let long = "x".repeat(LONGEST + 1);
        let input = json!({ "url": "http://origin.example/known/1", "method": "POST", "body": long });
        refused(&scene.call("fetch_url", input).await, "too_large", "may have 2 MiB");
    })
}

pub(super) fn times() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let server = Server::new(|head, stream| {
            match path(head) {
                // No response.
                "/silent" => {}
                // A response that never ends, byte by byte.
                "/drip" => {
                    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")?;
                    for _ in 0..600 {
                        stream.write_all(b"x")?;
                        std::thread::sleep(Duration::from_millis(50));
                    }
                }
                "/head" => {
                    write!(stream, "HTTP/1.1 200 OK\r\n")?;
                    for number in 0..600 {
                        write!(stream, "x-{number}: 1\r\n")?;
                        std::thread::sleep(Duration::from_millis(50));
                    }
                }
                // Redirects count together.
                _ => {
                    std::thread::sleep(Duration::from_millis(150));
                    write!(stream, "HTTP/1.1 302 Found\r\nLocation: /again\r\nContent-Length: 0\r\n\r\n")?;
                }
            }
            std::thread::sleep(Duration::from_secs(30));
            Ok(())
        });
        let scene = Scene::with(server.at);
        for path in ["silent", "drip", "head", "slow"] {
            let before = Instant::now();
            let input = json!({ "url": format!("http://origin.example/{path}"), "timeout": 400 });
            refused(&scene.call("fetch_url", input).await, "timeout", "did not answer within 400 ms");
            assert!(before.elapsed() >= Duration::from_millis(400), "{path}");
            assert!(before.elapsed() < Duration::from_secs(15), "{path}: {:?}", before.elapsed());
        }
        let code = "try { await fetch('http://origin.example/silent', { timeout: 99.5 }) } catch (error) { return error.message }";
        let message = scene.run(code).await;
        assert!(message.as_str().unwrap().contains("within 100 ms"), "{message}");
        let zero = json!({ "url": "http://origin.example/silent", "timeout": 0 });
        refused(&scene.call("fetch_url", zero).await, "invalid_input", "from 1 to 30000");
    })
}

pub(super) fn bad_servers() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let scene = Scene::with(server::here());
        for (path, part) in [
            ("garbage", "did not answer with HTTP/1.1"),
            ("long-head", "did not answer with HTTP/1.1"),
            ("half", "before the end of its response"),
            ("", "without a response"),
        ] {
            refused(&scene.fetch(&format!("http://origin.example/{path}")).await, "unavailable", part);
        }
        assert!(scene.fetch("http://origin.example/unasked").await.is_err());
        // `Content-Length` and `Transfer-Encoding` at once.
        assert_eq!(scene.fetch("http://origin.example/twice").await.unwrap()["body"], "four");
        // Nothing listens.
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        refused(
            &Scene::with(closed).fetch("http://origin.example/").await,
            "unavailable",
            "cannot be reached",
        );
        let answers = HashMap::from([("none.example".to_owned(), vec![vec![]])]);
        let scene = Scene::new(Internet { answers, ..Internet::default() }, online());
        assert!(scene.fetch("http://none.example/").await.is_err());
        // A flood of data after which nothing else fits.
        let flood = Server::new(|_, stream| {
            write!(stream, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
            loop {
                stream.write_all(b"400\r\n")?;
                stream.write_all(&[b'x'; 1024])?;
                stream.write_all(b"\r\n")?;
            }
        });
        refused(&Scene::with(flood.at).fetch("http://origin.example/").await, "too_large", "more than 2 MiB");
    })
}

pub(super) fn injection() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let server = Server::redirecting();
        let scene = Scene::with(server.at);
        for (name, value) in [
            ("x-a", "1\r\nx-b: 2"),
            ("x-a", "1\n"),
            ("x-a", "\u{0}"),
            ("x-a\r\nx-b", "1"),
            ("x-a: 1\r\nx-b", "2"),
            ("Host", "other.example"),
            ("Content-Length", "0"),
            ("Transfer-Encoding", "chunked"),
            ("Connection", "upgrade"),
            ("Upgrade", "h2c"),
            ("Proxy-Authorization", "a"),
        ] {
            let input = json!({ "url": "http://origin.example/", "headers": { name: value } });
            refused(&scene.call("fetch_url", input).await, "invalid_input", "header");
            let code = format!(
                "try {{ await fetch('http://origin.example/', {{ headers: {{ {}: {} }} }}) }} catch (error) {{ return error.message }}",
                json!(name),
                json!(value)
            );
            assert!(scene.run(&code).await.as_str().unwrap().contains("header"), "{name}");
        }
        assert_eq!(server.accepted(), 0);
        // A line break in a URL is left out, as in a browser.
        let done = scene.fetch("http://origin.example/a\r\nHost: b").await.unwrap();
        assert_eq!(done["url"], "http://origin.example/aHost:%20b");
    })
}

pub(super) fn compressed() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let server = Server::new(|_, stream| {
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n")?;
            stream.write_all(b"\x1f\x8b\x08\x00")
        });
        let scene = Scene::with(server.at);
        refused(&scene.fetch("http://origin.example/").await, "unsupported", "the encoding `gzip`");
    })
}

/// What a server repeats, and errors that name hosts, contain no secrets.
pub(super) fn masks() -> Result<(), libtest_mimic::Failed> {
    within(async {
        const KEY: &str = "key-12345678";
        let egress = Egress { allowed_hosts: hosts(&["origin.example"]), ..Egress::default() };
        let scene = Scene::new(internet(server::here()), egress);
        let secrets = Secrets::at(scene.state.path().join("secrets"));
        secrets.set("KEY", KEY).unwrap();
        let local = scene.local.clone().with_secrets(secrets);
        let scene = Scene::on(local, scene.state, scene.session.profiles().clone(), "scripts");
        for code in [
            "const r = await fetch(`http://origin.example/echo?${secrets.KEY}`, { headers: { 'x-key': secrets.KEY } }); \
             return [r.url, await r.text()]",
            "await fetch(`http://${secrets.KEY}.example/`)",
            "await fetch(`${secrets.KEY}://origin.example/`)",
            "await fetch('http://origin.example/', { headers: { [`${secrets.KEY} a`]: '1' } })",
            "try { await fetch(`http://origin.example:81/${secrets.KEY}`) } catch (error) { console.log(error.message); throw error }",
        ] {
            let reply = scene.session.call_tool("run_sandbox_code", json!({ "code": code })).await;
            assert!(!reply.content.contains(KEY), "{code}: {}", reply.content);
        }
        let url = format!("http://{KEY}.example/");
        let reply = scene.session.call_tool("fetch_url", json!({ "url": url })).await;
        assert!(reply.is_error && reply.content.contains("[secret KEY].example"), "{}", reply.content);
        let input = json!({ "url": "http://origin.example/echo", "headers": { "authorization": format!("Bearer {KEY}") } });
        let reply = scene.session.call_tool("fetch_url", input).await;
        assert!(!reply.is_error && reply.content.contains("Bearer [secret KEY]"), "{}", reply.content);
        // The journal has hosts, not URLs: a secret in a path is not in it.
        let journal = std::fs::read_to_string(scene.state.path().join("egress-reached.jsonl")).unwrap();
        assert!(journal.contains("origin.example") && !journal.contains(KEY), "{journal}");
    })
}

/// Connections are closed when the script ends, or its caller is gone.
pub(super) fn ends() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let (begun, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (first, last) = (Arc::clone(&begun), Arc::clone(&ended));
        let server = Server::new(move |_, stream| {
            first.fetch_add(1, Ordering::AcqRel);
            stream.set_read_timeout(Some(Duration::from_mins(1)))?;
            // Until the other side closes.
            if stream.read(&mut [0]).is_ok_and(|length| length == 0) {
                last.fetch_add(1, Ordering::AcqRel);
            }
            Ok(())
        });
        let reach = async |counter: &AtomicUsize, count: usize| {
            let before = Instant::now();
            while counter.load(Ordering::Acquire) < count {
                assert!(before.elapsed() < Duration::from_secs(20), "{count} connections");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let scene = Scene::with(server.at);
        // The script does not wait for the response, only until the server has the request.
        let code = "fetch('http://origin.example/'); \
                    while (!await state.get('go')) await new Promise(done => setTimeout(done, 10)); return 1";
        let (done, _) = tokio::join!(scene.run(code), async {
            reach(&begun, 1).await;
            scene.call("set_state", json!({ "key": "go", "value": true })).await.unwrap()
        });
        assert_eq!(done, 1);
        reach(&ended, 1).await;
        let code = json!({ "code": "await fetch('http://origin.example/')" });
        let abandoned = scene.call("run_sandbox_code", code);
        tokio::select! {
            done = abandoned => panic!("{done:?}"),
            () = reach(&begun, 2) => {}
        }
        reach(&ended, 2).await;
        let abandoned = scene.fetch("http://origin.example/");
        tokio::select! {
            done = abandoned => panic!("{done:?}"),
            () = reach(&begun, 3) => {}
        }
        reach(&ended, 3).await;
    })
}

pub(super) fn at_once() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let peak = Arc::clone(&most);
        let server = Server::new(move |_, stream| {
            peak.fetch_max(now.fetch_add(1, Ordering::AcqRel) + 1, Ordering::AcqRel);
            std::thread::sleep(Duration::from_millis(50));
            now.fetch_sub(1, Ordering::AcqRel);
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1")
        });
        let scene = Scene::with(server.at);
        let code = "const all = []; for (let i = 0; i < 60; i++) all.push(fetch('http://origin.example/').then(r => r.json())); \
                    return (await Promise.all(all)).length";
        assert_eq!(scene.run(code).await, 60);
        let most = most.load(Ordering::Acquire);
        assert!((2..=6).contains(&most), "{most}");
    })
}
