//! Limits, and the life of the browser: who shares it, what it survives, when it ends.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use koze_core::script::Egress;
use koze_local::{Local, Secrets};
use rustix::fs::FlockOperation;
use serde_json::json;

use super::scene::{Site, browser, fails, html};
use crate::scripted::{Scene, internet, online};
use crate::stage::{until, within};

pub(super) fn limits() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let site = Site::of("<pre id=a></pre>");
        let scene = Scene::with_site(&site);
        scene.home().await;
        let most = 2 << 20;
        for (length, fits) in [(most, true), (most + 1, false)] {
            scene
                .evaluate(&format!("document.title = ''; a.textContent = 'x'.repeat({length}); 1"))
                .await
                .unwrap();
            let text = scene.call("browser_extract_text", json!({ "selector": "#a" })).await;
            let html = scene.call("browser_extract_html", json!({ "selector": "#a" })).await;
            let value = scene.evaluate("a.textContent").await;
            for done in [&text, &html, &value] {
                assert_eq!(done.is_ok(), fits);
                if !fits {
                    fails(done, "too_large: the ");
                }
            }
        }
        fails(&scene.evaluate("[a.textContent]").await, "too_large: the value has 2097157 bytes");
        // A message of the browser that is too long ends it.
        fails(
            &scene.evaluate("'x'.repeat(20 << 20)").await,
            "unavailable: the browser was ended: the page returned more than 16 MiB at once",
        );
        scene.home().await;
        let long = scene
            .evaluate("document.title = 'x'.repeat(1e6); history.pushState(0, '', '/' + 'y'.repeat(1e5)); 1")
            .await;
        assert_eq!(long, Ok(json!(1)));
        let about = scene.open("http://origin.example/to//#part").await.unwrap();
        assert_eq!(about["title"], "");
        for input in
            [json!({ "url": format!("http://origin.example/{}", "a".repeat(9000)) }), json!({ "url": "" })]
        {
            fails(&scene.call("browser_navigate", input).await, "invalid_input: the URL ");
        }
        fails(&scene.click(&"a".repeat(70_000)).await, "invalid_input: the selector has 70000 bytes");
        fails(&scene.enter("#a", &"a".repeat(70_000)).await, "invalid_input: the text has 70000 bytes");
        fails(&scene.evaluate(&" ".repeat(300_000)).await, "invalid_input: the code has 300000 bytes");
    })
}

pub(super) fn endless() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let site = Site::of("<title>Home</title>");
        let scene = Scene::with_site(&site);
        scene.home().await;
        // Code that never ends, and the page stays.
        let other = Scene::on(scene.local.clone(), Arc::clone(&scene.state), browser(online()), "other");
        other.home().await;
        // One that floods koze, too.
        let (done, flooding) = tokio::join!(
            scene.evaluate("for (;;) {}"),
            other.evaluate("for (let at = 0; ; at++) { alert(at); history.replaceState(at, '') }")
        );
        for done in [done, flooding] {
            fails(&done, "timeout: the page did not answer within 25 s");
        }
        assert_eq!(scene.evaluate("document.title").await, Ok(json!("Home")));
        other.home().await;
        // A script of the page that never ends, and the next call.
        assert_eq!(
            scene.evaluate("document.cookie = 'kept=yes'; setTimeout(() => { for (;;) {} }, 50); 1").await,
            Ok(json!(1))
        );
        tokio::time::sleep(Duration::from_millis(300)).await;
        let error = "unavailable: the page crashed, or its scripts blocked it for seconds, so it was closed";
        fails(&scene.evaluate("1").await, error);
        fails(&scene.evaluate("1").await, "not_found: no page is open");
        scene.home().await;
        assert_eq!(scene.evaluate("document.cookie").await, Ok(json!("kept=yes")), "cookies stay");
        // The same, and the next call opens another page.
        assert_eq!(scene.evaluate("setTimeout(() => { for (;;) {} }, 50); 1").await, Ok(json!(1)));
        tokio::time::sleep(Duration::from_millis(300)).await;
        scene.home().await;
        assert_eq!(scene.text().await, "");
    })
}

pub(super) fn survives() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let site = Site::of(
            "<title>Home</title><button id=ask onclick=\"document.title = [alert('a'), confirm('b'), prompt('c')]\">ask</button>",
        );
        let scene = Scene::with_site(&site);
        scene.home().await;
        // Dialogs do not stop the page.
        scene.click("#ask").await.unwrap();
        assert_eq!(scene.evaluate("document.title").await, Ok(json!(",false,")));
        assert_eq!(scene.evaluate("confirm('now')").await, Ok(json!(false)));
        scene
            .evaluate(
                "onbeforeunload = (event) => event.preventDefault(); setTimeout(() => alert('later')); 1",
            )
            .await
            .unwrap();
        scene.click("#ask").await.unwrap();
        scene.home().await;
        // New windows do not open.
        assert_eq!(
            scene
                .evaluate("Array.from({ length: 50 }, () => open('/')).every((opened) => opened === null)")
                .await,
            Ok(json!(true))
        );
        // Functions of the page are not koze's.
        let code = "document.querySelector = document.querySelectorAll = Promise = JSON.stringify = () => { throw 1 }; \
                    Object.defineProperty(document, 'title', { get() { for (;;) {} } }); 1";
        assert_eq!(scene.evaluate(code).await, Ok(json!(1)));
        assert_eq!(scene.text().await, "ask");
        scene.home().await;
        // A page that moves on all the time.
        scene.evaluate("setTimeout(() => location.reload()); 1").await.unwrap();
        assert_eq!(scene.text().await, "ask");
        // Too much memory.
        let done = scene.evaluate("const all = []; for (;;) all.push(new Uint8Array(1 << 26).fill(1))").await;
        let error = done.unwrap_err();
        let is_known = error.starts_with("unavailable: the page crashed")
            || error.starts_with("unavailable: the browser was ended: ")
            || error.starts_with("invalid_input: the code failed in the page: RangeError");
        assert!(is_known, "{error}");
        scene.home().await;
    })
}

/// Returns whether the browser of a state directory runs: its sandbox then holds a lock.
fn runs(state: &Path) -> bool {
    let Ok(lock) = File::open(directory(state).join("lock")) else { return false };
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared).is_err()
}

/// Returns the directory of the only browser of a state directory.
pub(super) fn directory(state: &Path) -> PathBuf {
    let mut all: Vec<_> = std::fs::read_dir(state.join("browsers")).unwrap().flatten().collect();
    assert_eq!(all.len(), 1);
    all.remove(0).path()
}

pub(super) fn dies() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let site = Site::of("<title>Home</title>");
        let scene = Scene::with_site(&site);
        scene.home().await;
        let pending = async {
            let done = scene.evaluate("new Promise(() => {})").await;
            fails(&done, "unavailable: the browser has ended: navigate again, which starts a new one");
        };
        let end = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            // As if it crashed: another call closes it.
            assert_eq!(scene.call("browser_close", json!({})).await, Ok(json!({ "ok": true })));
        };
        tokio::join!(pending, end);
        scene.home().await;
        assert_eq!(scene.evaluate("document.title").await, Ok(json!("Home")));
    })
}

pub(super) fn shared() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let site = Site::new(|path, head| match path {
            "/" => ("200 OK", "Set-Cookie: seen=yes\r\n".to_owned(), String::new()),
            _ => html(head.lines().find(|line| line.starts_with("Cookie: ")).unwrap_or("none")),
        });
        let scene = Scene::with_site(&site);
        // A script goes on where a tool has left, and the other way around; so does a created tool.
        scene.home().await;
        assert_eq!(scene.run("return browser.evaluate('location.href')").await, "http://origin.example/");
        scene.run("await browser.navigate('http://origin.example/cookie')").await;
        assert_eq!(scene.text().await, "Cookie: seen=yes");
        let tool = json!({
            "name": "look", "description": "Looks.", "code": "return browser.extractText()",
            "parameter_schema": { "type": "object" },
        });
        scene.call("create_tool", tool).await.unwrap();
        assert_eq!(scene.call("look", json!({})).await.unwrap()["result"], "Cookie: seen=yes");
        // Another agent has a browser of its own.
        let other = Scene::on(scene.local.clone(), Arc::clone(&scene.state), browser(online()), "other");
        fails(&other.call("browser_extract_text", json!({})).await, "not_found: no page is open");
        other.open("http://origin.example/cookie").await.unwrap();
        assert_eq!(other.text().await, "none");
        // A session of the same agent has the same.
        let same = Scene { session: other.session.clone().with_agent("scripts").unwrap(), ..other };
        assert_eq!(same.text().await, "Cookie: seen=yes");
        // The policy of the project holds at once: the browser starts again with it.
        let none =
            Egress { internet: true, denied_hosts: vec!["origin.example".to_owned()], ..Egress::default() };
        let changed = Scene::on(scene.local.clone(), Arc::clone(&scene.state), browser(none), "scripts");
        fails(&changed.call("browser_extract_text", json!({})).await, "not_found: no page is open");
        fails(&changed.open("http://origin.example/").await, "permission_denied: ");
        // Closing it forgets the cookies.
        scene.home().await;
        assert_eq!(scene.run("await browser.close(); await browser.navigate('http://origin.example/cookie'); return browser.extractText()").await, "none");
    })
}

pub(super) fn canceled() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let site = Site::of("<title>Home</title>");
        let scene = Scene::with_site(&site);
        scene.home().await;
        let short = Duration::from_millis(500);
        for code in ["for (;;) {}", "new Promise(() => {})", "alert('a'); for (;;) {}"] {
            assert!(tokio::time::timeout(short, scene.evaluate(code)).await.is_err(), "{code}");
            assert_eq!(scene.evaluate("document.title").await, Ok(json!("Home")), "{code}");
        }
        assert!(tokio::time::timeout(short, scene.open("http://origin.example/never")).await.is_err());
        assert_eq!(scene.evaluate("document.title").await, Ok(json!("Home")));
        // A script that ends before its calls.
        assert_eq!(scene.run("browser.evaluate('for (;;) {}'); return 1").await, 1);
        assert_eq!(scene.evaluate("document.title").await, Ok(json!("Home")));
    })
}

pub(super) fn at_once() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let site = Site::new(|path, _| html(format!("<title>{path}</title>")));
        let scene = Scene::with_site(&site);
        let code = "const paths = Array.from({ length: 10 }, (_, at) => `/${at}`); \
                    const pages = await Promise.all(paths.map((path) => browser.navigate(`http://origin.example${path}`))); \
                    return pages.every((page, at) => page.title === paths[at])";
        assert_eq!(scene.run(code).await, true);
        let calls = (0..10).map(|at| scene.open_titled(at));
        futures_util::future::join_all(calls).await;
    })
}

impl Scene {
    async fn open_titled(&self, at: usize) {
        let page = self.open(&format!("http://origin.example/{at}")).await.unwrap();
        assert_eq!(page["title"], format!("/{at}"));
    }
}

pub(super) fn masks() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let site = Site::new(|_, head| html(head.lines().next().unwrap().to_owned()));
        let scene = Scene::with_site(&site);
        let secrets = Secrets::at(scene.state.path().join("secrets"));
        secrets.set("API_KEY", "k3y-0123456789").unwrap();
        let local = scene.local.clone().with_secrets(secrets);
        let scene = Scene::on(local, Arc::clone(&scene.state), browser(online()), "scripts");
        let code = "const page = await browser.navigate(`http://origin.example/?key=${secrets.API_KEY}`); \
                    return [page.url, await browser.evaluate('location.search.length')]";
        assert_eq!(scene.run(code).await, json!(["http://origin.example/?key=[secret API_KEY]", 19]));
        assert_eq!(scene.text().await, "GET /?key=[secret API_KEY] HTTP/1.1");
        assert_eq!(
            scene.evaluate("location.href").await,
            Ok(json!("http://origin.example/?key=[secret API_KEY]"))
        );
        fails(
            &scene.evaluate("throw new Error(location.search)").await,
            "invalid_input: the code failed in the page: Error: ?key=[secret API_KEY]",
        );
    })
}

pub(super) fn ends() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let site = Site::of("<title>Home</title>");
        let scene = Scene::with_site(&site);
        // Closing one that does not run is no error.
        assert_eq!(scene.call("browser_close", json!({})).await, Ok(json!({ "ok": true })));
        scene.home().await;
        assert!(runs(scene.state.path()));
        scene.call("browser_close", json!({})).await.unwrap();
        assert!(!runs(scene.state.path()), "it has ended with the call");
        scene.home().await;
        assert!(runs(scene.state.path()));
        // It ends with the provider.
        let Scene { session, local, state } = scene;
        drop((session, local));
        until("the browser has ended", async || !runs(state.path())).await;
    })
}

pub(super) fn idle() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let site = Site::of("<title>Home</title>");
        let scene = Scene::with_site(&site);
        let local = scene.local.clone().with_browser_idle(Duration::from_millis(1500));
        let scene = Scene::on(local, Arc::clone(&scene.state), browser(online()), "scripts");
        scene.home().await;
        // A call keeps it alive, however long it takes.
        let code = "new Promise((done) => setTimeout(() => done(document.title), 3000))";
        assert_eq!(scene.evaluate(code).await, Ok(json!("Home")));
        until("the browser has ended", async || !runs(scene.state.path())).await;
        fails(&scene.evaluate("1").await, "not_found: no page is open");
        scene.home().await;
    })
}

pub(super) fn one_program() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let site = Site::of("<title>Home</title>");
        let scene = Scene::with_site(&site);
        scene.home().await;
        // As another program on the same state directory.
        let local = Local::with_internet(scene.state.path(), internet(site.at)).unwrap();
        let other = Scene::on(local, Arc::clone(&scene.state), browser(online()), "scripts");
        fails(
            &other.open("http://origin.example/").await,
            "unavailable: another koze process on this machine runs the browser",
        );
        scene.call("browser_close", json!({})).await.unwrap();
        other.home().await;
    })
}
