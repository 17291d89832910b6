//! The browser of scripts: Chromium in its sandbox. The internet is made of servers in this process.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use koze_core::script::Egress;
use koze_core::{Profiles, Session, SessionId};
use koze_local::{Internet, Local, Objects, Secrets};
use rustix::fs::FlockOperation;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{self, HandshakeError, Message, WebSocket};

use crate::Test;
use crate::fetch::Authority;
use crate::server;
use crate::stage::{until, within};

pub(crate) const TESTS: &[Test] = &[
    ("browser_reads_pages", reads),
    ("browser_clicks_and_types", acts),
    ("browser_says_why_an_element_cannot_be_used", elements),
    ("browser_waits_for_pages", waits),
    ("browser_takes_pictures", pictures),
    ("browser_is_off_by_default", off_by_default),
    ("browser_follows_the_policy", policy),
    ("browser_reaches_no_nearby_addresses", nearby),
    ("browser_opens_no_files", files),
    ("browser_verifies_certificates", certificates),
    ("browser_limits_results", limits),
    ("browser_ends_scripts_of_pages", endless),
    ("browser_survives_pages", survives),
    ("browser_survives_its_end", dies),
    ("browser_is_shared_within_an_agent", shared),
    ("browser_is_left_by_canceled_calls", canceled),
    ("browser_runs_one_call_at_a_time", at_once),
    ("browser_masks_secrets", masks),
    ("browser_ends", ends),
    ("browser_ends_when_it_is_idle", idle),
    ("browser_is_that_of_one_program", one_program),
    ("browser_serves_workers", serves_workers),
];

/// Returns why this machine cannot run the tests, which are left out then. Continuous integration runs all of them.
pub(crate) fn missing() -> Option<String> {
    let missing = koze_local::check_browser().err()?.to_string();
    if std::env::var_os("CI").is_some() {
        return None;
    }
    eprintln!("the tests of the browser are left out: {missing}");
    Some(missing)
}

/// The answer to a request: status, further headers, body.
type Page = (&'static str, String, String);

/// A site, and what it was asked for.
struct Site {
    at: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    accepted: Arc<AtomicUsize>,
}

impl Site {
    /// A site whose pages a function makes from the path and the head of a request.
    fn new(page: impl Fn(&str, &str) -> Page + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let site =
            Site { at: listener.local_addr().unwrap(), asked: Arc::default(), accepted: Arc::default() };
        let (page, asked, accepted) = (Arc::new(page), Arc::clone(&site.asked), Arc::clone(&site.accepted));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                accepted.fetch_add(1, Ordering::AcqRel);
                let (page, asked) = (Arc::clone(&page), Arc::clone(&asked));
                std::thread::spawn(move || serve(stream, &*page, &asked));
            }
        });
        site
    }

    /// A site of one page.
    fn of(body: &'static str) -> Self {
        Site::new(move |path, _| match path {
            "/" => html(body),
            _ => ("404 Not Found", String::new(), String::new()),
        })
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn serve(
    mut stream: TcpStream,
    page: &dyn Fn(&str, &str) -> Page,
    asked: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let head = server::head(&mut BufReader::new(stream.try_clone()?))?;
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    asked.lock().unwrap().push(path.clone());
    if path == "/never" {
        std::thread::sleep(Duration::from_mins(1));
        return Ok(());
    }
    let (status, headers, body) = match path.strip_prefix("/to/") {
        Some(to) => ("302 Found", format!("Location: {to}\r\n"), String::new()),
        None => page(&path, &head),
    };
    let kind =
        if headers.contains("Content-Type") { "" } else { "Content-Type: text/html; charset=utf-8\r\n" };
    write!(stream, "HTTP/1.1 {status}\r\n{kind}Content-Length: {}\r\n{headers}\r\n{body}", body.len())
}

fn html(body: impl Into<String>) -> Page {
    ("200 OK", String::new(), body.into())
}

/// A session whose scripts have a browser.
struct Scene {
    session: Session<Local>,
    local: Local,
    state: Arc<TempDir>,
}

impl Scene {
    fn new(internet: Internet, egress: Egress) -> Self {
        let state = tempfile::tempdir().unwrap();
        let local = Local::with_internet(state.path(), internet).unwrap();
        Scene::on(local, Arc::new(state), egress, "scripts")
    }

    fn on(local: Local, state: Arc<TempDir>, egress: Egress, session: &str) -> Self {
        let profiles = Profiles::of_scripts().with_script_egress(egress).with_script_browser(true);
        let session = Session::new(local.clone(), SessionId::new("tests", session).unwrap(), profiles);
        Scene { session, local, state }
    }

    /// One with a site by the names `origin.example` and `other.example`.
    fn with(site: &Site) -> Self {
        Scene::new(internet(site), online())
    }

    async fn call(&self, tool: &str, input: Value) -> Result<Value, String> {
        let reply = self.session.call_tool(tool, input).await;
        let shown = reply.content.clone();
        // Never a path of this machine.
        assert!(!shown.contains(&*self.state.path().to_string_lossy()), "{shown}");
        if reply.is_error { Err(shown) } else { Ok(serde_json::from_str(&shown).unwrap()) }
    }

    async fn open(&self, url: &str) -> Result<Value, String> {
        self.call("browser_navigate", json!({ "url": url })).await
    }

    /// Opens the first page of the site.
    async fn home(&self) {
        assert_eq!(self.open("http://origin.example/").await.unwrap()["status"], 200);
    }

    async fn evaluate(&self, code: &str) -> Result<Value, String> {
        Ok(self.call("browser_evaluate", json!({ "code": code })).await?["result"].take())
    }

    async fn text(&self) -> String {
        let mut text = self.call("browser_extract_text", json!({})).await.unwrap();
        serde_json::from_value(text["text"].take()).unwrap()
    }

    async fn click(&self, selector: &str) -> Result<Value, String> {
        self.call("browser_click", json!({ "selector": selector })).await
    }

    async fn enter(&self, selector: &str, text: &str) -> Result<Value, String> {
        self.call("browser_type", json!({ "selector": selector, "text": text })).await
    }

    /// Runs a script. Returns its result.
    async fn run(&self, code: &str) -> Value {
        self.call("run_sandbox_code", json!({ "code": code })).await.unwrap()["result"].take()
    }
}

fn internet(site: &Site) -> Internet {
    let names = ["origin.example", "other.example"].map(|name| (name.to_owned(), site.at));
    Internet { names: names.into(), ..Internet::default() }
}

fn online() -> Egress {
    Egress { internet: true, ..Egress::default() }
}

#[track_caller]
fn fails(answer: &Result<Value, String>, start: &str) {
    let error = answer.as_ref().expect_err("it fails");
    assert!(error.starts_with(start), "{error}");
}

fn reads() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let site = Site::new(|path, _| match path {
            "/" => html(
                "<!DOCTYPE html><title>Home ü</title><h1>Hello <b>ä</b></h1><p hidden>no</p><svg><text>drawn</text></svg>",
            ),
            _ => ("404 Not Found", String::new(), "<title>Missing</title>nothing".to_owned()),
        });
        let scene = Scene::with(&site);
        fails(&scene.call("browser_extract_text", json!({})).await, "not_found: no page is open");
        assert_eq!(
            scene.open("http://origin.example/to/http://OTHER.example:8080/#part").await.unwrap(),
            json!({ "url": "http://other.example:8080/#part", "title": "Home ü", "status": 200 })
        );
        assert_eq!(scene.text().await.lines().next(), Some("Hello ä"));
        let html =
            async |input: Value| scene.call("browser_extract_html", input).await.unwrap()["html"].take();
        assert_eq!(html(json!({ "selector": "h1" })).await, "Hello <b>ä</b>");
        assert_eq!(html(json!({ "selector": "b", "outer": true })).await, "<b>ä</b>");
        let page = html(json!({})).await;
        let page = page.as_str().unwrap();
        assert!(page.starts_with("<!DOCTYPE html>\n<html><head><title>Home ü"), "{page}");
        let text = scene.call("browser_extract_text", json!({ "selector": "svg text" })).await.unwrap();
        assert_eq!(text, json!({ "text": "drawn" }));
        for (code, value) in [
            ("document.title", json!("Home ü")),
            ("const a = { b: [1, null, 'ü'] }; a", json!({ "b": [1, null, "ü"] })),
            ("const a = 'again'; let b = a; b", json!("again")),
            ("document.querySelector('b')", json!({})),
            ("return [location.hash]", json!(["#part"])),
            ("await Promise.resolve(2)", json!(2)),
            ("const r = await Promise.resolve(3); return r + 1", json!(4)),
            ("new Promise((done) => setTimeout(() => done('later'), 20))", json!("later")),
            ("undefined", json!(null)),
            ("() => 1", json!(null)),
            ("10n", json!("10n")),
            ("new Date(0)", json!("1970-01-01T00:00:00.000Z")),
        ] {
            assert_eq!(scene.evaluate(code).await, Ok(value), "{code}");
        }
        fails(&scene.evaluate("foo bar").await, "invalid_input: the code does not compile: SyntaxError: ");
        fails(
            &scene.evaluate("const a = {}; a.b.c").await,
            "invalid_input: the code failed in the page: TypeError: Cannot read properties of undefined",
        );
        fails(
            &scene.evaluate("return Promise.reject('no')").await,
            "invalid_input: the code failed in the page: ",
        );
        fails(
            &scene.evaluate("const a = {}; a.a = a; a").await,
            "invalid_input: the code failed in the page: TypeError: ",
        );
        // Code that fails while it runs is not run again.
        fails(
            &scene.evaluate("window.ran = (window.ran ?? 0) + 1; JSON.parse('{')").await,
            "invalid_input: ",
        );
        assert_eq!(scene.evaluate("ran").await, Ok(json!(1)));
        let missing = scene.open("http://origin.example/missing").await.unwrap();
        assert_eq!(
            missing,
            json!({ "url": "http://origin.example/missing", "title": "Missing", "status": 404 })
        );
        // The same in a script.
        let code = "const page = await browser.navigate('http://origin.example/', { wait_until: 'networkidle' }); \
                    return [page.title, page.status, await browser.extractText('b'), await browser.extractHtml('b', { outer: true }), \
                    await browser.evaluate('1 + 1'), await browser.click('b'), (await browser.screenshot()).width]";
        assert_eq!(scene.run(code).await, json!(["Home ü", 200, "ä", "<b>ä</b>", 2, null, 1280]));
        let code = "try { await browser.extractText('#none') } catch (error) { return error.message }";
        assert!(scene.run(code).await.as_str().unwrap().starts_with("`#none`: no element"));
    })
}

fn acts() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let site = Site::new(|path, _| match path {
            "/" => html(
                "<title>Form</title><form action=/done target=_blank><input name=a value=old><textarea name=b></textarea>\
                 <select name=c><option value=1>One<option value=2>Two</select><input name=d type=date>\
                 <input name=e type=checkbox><div id=f contenteditable>text</div><button id=go>Go</button></form>\
                 <div style='height: 3000px'></div><a id=far href=/far target=_blank>far</a><script>\
                 f.addEventListener('input', () => document.title = f.textContent);\
                 document.querySelector('select').onchange = (event) => document.title = event.target.value</script>",
            ),
            _ => html(format!("<title>{path}</title>")),
        });
        let scene = Scene::with(&site);
        scene.home().await;
        let title = async || scene.evaluate("document.title").await.unwrap();
        scene.enter("input[name=a]", " new").await.unwrap();
        assert_eq!(scene.evaluate("document.forms[0].a.value").await, Ok(json!("old new")));
        let input = json!({ "selector": "[name=a]", "text": "ä <b>", "clear_first": true });
        scene.call("browser_type", input).await.unwrap();
        scene.enter("textarea", "two\nlines").await.unwrap();
        scene.enter("select", "Two").await.unwrap();
        assert_eq!(title().await, "2");
        scene.enter("[name=d]", "2026-01-31").await.unwrap();
        scene.click("[name=e]").await.unwrap();
        scene.enter("#f", " more").await.unwrap();
        assert_eq!(title().await, "text more");
        // There is one page, so a form is not sent in another one, and the call waits for the answer.
        scene.click("#go").await.unwrap();
        let sent = scene.evaluate("decodeURIComponent(location.search.replaceAll('+', ' '))").await.unwrap();
        assert_eq!(sent, "?a=ä <b>&b=two\r\nlines&c=2&d=2026-01-31&e=on");
        scene.home().await;
        scene.click("#far").await.unwrap();
        assert_eq!(title().await, "/far");
        // A line break is the Enter key in a field of one line.
        scene.home().await;
        scene.enter("[name=a]", "x\n").await.unwrap();
        assert!(title().await.as_str().unwrap().starts_with("/done?a=oldx&"));
    })
}

fn elements() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let site = Site::of(
            "<style>#cover { position: fixed; inset: 0 0 50% 0 }</style><button id=under>under</button><div id=cover></div>\
             <div style='height: 60vh'></div><button id=off disabled>off</button><p id=hidden hidden>hidden</p>\
             <input id=box type=checkbox><input id=fixed readonly><input id=day type=date><p id=plain>plain</p>\
             <select><option>One</select><div style='height: 100vh'></div>\
             <script>setTimeout(() => document.body.insertAdjacentHTML('beforeend', '<a id=late>late</a>'), 300)</script>",
        );
        let scene = Scene::with(&site);
        scene.home().await;
        // Elements that are not there yet are waited for.
        assert_eq!(scene.click("#late").await, Ok(json!({ "ok": true })));
        for (done, start) in [
            (scene.click("#none").await, "not_found: `#none`: no element of the page matches. Read"),
            (scene.click("#[").await, "invalid_input: `#[`: this is not a valid CSS selector"),
            (scene.click("#hidden").await, "not_found: `#hidden`: <p#hidden> matches, but is not visible. "),
            (scene.click("#off").await, "unavailable: `#off`: <button#off> is disabled. "),
            (scene.click("#under").await, "unavailable: `#under`: <div#cover> covers <button#under>. "),
            (scene.enter("#box", "a").await, "invalid_input: `#box`: <input#box> has the type checkbox, "),
            (scene.enter("#fixed", "a").await, "unavailable: `#fixed`: <input#fixed> is read-only. "),
            (
                scene.enter("#day", "soon").await,
                "invalid_input: `#day`: the text is not a valid value for the type date",
            ),
            (scene.enter("#plain", "a").await, "invalid_input: `#plain`: <p#plain> takes no text"),
            (
                scene.enter("select", "Two").await,
                "invalid_input: `select`: <select> has no such option: it has One",
            ),
        ] {
            fails(&done, start);
        }
    })
}

fn waits() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let site = Site::new(|path, _| match path {
            "/" => html("<title>Here</title><img src=/never>"),
            "/idle" => html(
                "<title>Idle</title><script>setTimeout(() => fetch('/later').then(() => document.title = 'Later'), 100)</script>",
            ),
            "/move" => html("<script>location = '/idle'</script>"),
            "/empty" => ("204 No Content", String::new(), String::new()),
            "/file" => (
                "200 OK",
                "Content-Type: application/zip\r\nContent-Disposition: attachment\r\n".into(),
                "zip".into(),
            ),
            _ => html(""),
        });
        let scene = Scene::with(&site);
        let open = async |path: &str, state: &str| {
            let url = format!("http://origin.example{path}");
            scene.call("browser_navigate", json!({ "url": url, "wait_until": state })).await
        };
        // The picture never comes.
        assert_eq!(open("/", "domcontentloaded").await.unwrap()["title"], "Here");
        assert_eq!(open("/idle", "networkidle").await.unwrap()["title"], "Later");
        assert_eq!(open("/move", "load").await.unwrap()["url"], "http://origin.example/idle");
        fails(&open("/idle", "soon").await, "invalid_input: `wait_until`: unknown variant `soon`");
        fails(
            &open("/empty", "load").await,
            "unavailable: the page cannot be opened (net::ERR_ABORTED): the server sent no page",
        );
        fails(
            &open("/file", "load").await,
            "unsupported: the page cannot be opened (net::ERR_ABORTED): the URL is a download",
        );
        assert_eq!(
            scene.evaluate("location.pathname").await,
            Ok(json!("/idle")),
            "the page before is still open"
        );
        fails(&open("/", "load").await, "timeout: the page is open, but did not reach `load` in time");
        assert_eq!(scene.evaluate("document.title").await, Ok(json!("Here")));
        fails(&open("/never", "load").await, "timeout: origin.example sent no page within 25 s");
        assert_eq!(open("/idle", "load").await.unwrap()["status"], 200);
    })
}

fn pictures() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let site = Site::of(
            "<body style='margin: 0'><div style='height: 2000px'></div>\
             <div id=box style='width: 100px; height: 50px; background: red'></div></body>",
        );
        let scene = Scene::with(&site);
        scene.home().await;
        let shape = async |input: Value| {
            let mut picture = scene.call("browser_screenshot", input).await.unwrap();
            let image = data_encoding::BASE64.decode(picture["image"].as_str().unwrap().as_bytes()).unwrap();
            assert!(image.starts_with(b"\x89PNG\r\n"));
            (picture["width"].take(), picture["height"].take())
        };
        assert_eq!(shape(json!({})).await, (json!(1280), json!(720)));
        assert_eq!(shape(json!({ "selector": "#box" })).await, (json!(100), json!(50)));
        assert_eq!(shape(json!({ "full_page": true })).await, (json!(1280), json!(2050)));
        scene.evaluate("document.querySelector('div').style.height = '20000px'").await.unwrap();
        let tall = scene.call("browser_screenshot", json!({ "full_page": true })).await;
        fails(&tall, "too_large: the picture would have 1280 x 20050 pixels");
        fails(&scene.call("browser_screenshot", json!({ "selector": "#none" })).await, "not_found: `#none`");
    })
}

fn off_by_default() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let site = Site::of("");
        let scene = Scene::new(internet(&site), Egress::default());
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

fn policy() -> Result<(), libtest_mimic::Failed> {
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
        let scene = Scene::new(internet, egress);
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

fn nearby() -> Result<(), libtest_mimic::Failed> {
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
        let scene = Scene::new(internet(false), online());
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
        let scene = Scene::new(internet(true), online());
        scene.home().await;
        assert_eq!(scene.evaluate(&requests).await, Ok(json!("asked")));
        assert!(near.accepted.load(Ordering::Acquire) > 10);
    })
}

fn files() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let site = Site::of("<title>Home</title><body></body>");
        let scene = Scene::with(&site);
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
fn certificates() -> Result<(), libtest_mimic::Failed> {
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
            let scene = Scene::new(Internet { names, ..Internet::default() }, egress);
            fails(&scene.open("https://origin.example/").await, start);
        }
    })
}

fn limits() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let site = Site::of("<pre id=a></pre>");
        let scene = Scene::with(&site);
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

fn endless() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let site = Site::of("<title>Home</title>");
        let scene = Scene::with(&site);
        scene.home().await;
        // Code that never ends, and the page stays.
        let other = Scene::on(scene.local.clone(), Arc::clone(&scene.state), online(), "other");
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

fn survives() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let site = Site::of(
            "<title>Home</title><button id=ask onclick=\"document.title = [alert('a'), confirm('b'), prompt('c')]\">ask</button>",
        );
        let scene = Scene::with(&site);
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
fn directory(state: &Path) -> PathBuf {
    let mut all: Vec<_> = std::fs::read_dir(state.join("browsers")).unwrap().flatten().collect();
    assert_eq!(all.len(), 1);
    all.remove(0).path()
}

fn dies() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let site = Site::of("<title>Home</title>");
        let scene = Scene::with(&site);
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

fn shared() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let site = Site::new(|path, head| match path {
            "/" => ("200 OK", "Set-Cookie: seen=yes\r\n".to_owned(), String::new()),
            _ => html(head.lines().find(|line| line.starts_with("Cookie: ")).unwrap_or("none")),
        });
        let scene = Scene::with(&site);
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
        let other = Scene::on(scene.local.clone(), Arc::clone(&scene.state), online(), "other");
        fails(&other.call("browser_extract_text", json!({})).await, "not_found: no page is open");
        other.open("http://origin.example/cookie").await.unwrap();
        assert_eq!(other.text().await, "none");
        // A session of the same agent has the same.
        let same = Scene { session: other.session.clone().with_agent("scripts").unwrap(), ..other };
        assert_eq!(same.text().await, "Cookie: seen=yes");
        // The policy of the project holds at once: the browser starts again with it.
        let none =
            Egress { internet: true, denied_hosts: vec!["origin.example".to_owned()], ..Egress::default() };
        let changed = Scene::on(scene.local.clone(), Arc::clone(&scene.state), none, "scripts");
        fails(&changed.call("browser_extract_text", json!({})).await, "not_found: no page is open");
        fails(&changed.open("http://origin.example/").await, "permission_denied: ");
        // Closing it forgets the cookies.
        scene.home().await;
        assert_eq!(scene.run("await browser.close(); await browser.navigate('http://origin.example/cookie'); return browser.extractText()").await, "none");
    })
}

fn canceled() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let site = Site::of("<title>Home</title>");
        let scene = Scene::with(&site);
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

fn at_once() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let site = Site::new(|path, _| html(format!("<title>{path}</title>")));
        let scene = Scene::with(&site);
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

fn masks() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let site = Site::new(|_, head| html(head.lines().next().unwrap().to_owned()));
        let scene = Scene::with(&site);
        let secrets = Secrets::at(scene.state.path().join("secrets"));
        secrets.set("API_KEY", "k3y-0123456789").unwrap();
        let local = scene.local.clone().with_secrets(secrets);
        let scene = Scene::on(local, Arc::clone(&scene.state), online(), "scripts");
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

fn ends() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let site = Site::of("<title>Home</title>");
        let scene = Scene::with(&site);
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

fn idle() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let site = Site::of("<title>Home</title>");
        let scene = Scene::with(&site);
        let local = scene.local.clone().with_browser_idle(Duration::from_millis(1500));
        let scene = Scene::on(local, Arc::clone(&scene.state), online(), "scripts");
        scene.home().await;
        // A call keeps it alive, however long it takes.
        let code = "new Promise((done) => setTimeout(() => done(document.title), 3000))";
        assert_eq!(scene.evaluate(code).await, Ok(json!("Home")));
        until("the browser has ended", async || !runs(scene.state.path())).await;
        fails(&scene.evaluate("1").await, "not_found: no page is open");
        scene.home().await;
    })
}

fn one_program() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let site = Site::of("<title>Home</title>");
        let scene = Scene::with(&site);
        scene.home().await;
        // As another program on the same state directory.
        let local = Local::with_internet(scene.state.path(), internet(&site)).unwrap();
        let other = Scene::on(local, Arc::clone(&scene.state), online(), "scripts");
        fails(
            &other.open("http://origin.example/").await,
            "unavailable: another koze process on this machine runs the browser",
        );
        scene.call("browser_close", json!({})).await.unwrap();
        other.home().await;
    })
}

/// A client of the server of `koze dev --local`, as the object of an agent is one.
struct Remote {
    socket: WebSocket<TcpStream>,
    id: u32,
}

impl Remote {
    /// Connects. Returns the status and the body of a response without a WebSocket.
    fn connect(objects: &Objects, agent: &str, egress: &Egress) -> Result<Self, (u16, String)> {
        let input = json!({ "egress": egress, "time_ms": 25_000 }).to_string();
        let input =
            percent_encoding::utf8_percent_encode(&input, percent_encoding::NON_ALPHANUMERIC).to_string();
        let url = objects.url();
        let mut request = url.replacen("http:", "ws:", 1).into_client_request().unwrap();
        for (name, value) in [
            ("koze-token", objects.token()),
            ("koze-method", "kozeBrowser"),
            ("koze-agent", agent),
            ("koze-browser", &input),
        ] {
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        let stream = TcpStream::connect(url.trim_start_matches("http://")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        match tungstenite::client(request, stream) {
            Ok((socket, _)) => Ok(Remote { socket, id: 0 }),
            Err(HandshakeError::Failure(tungstenite::Error::Http(response))) => {
                let body = String::from_utf8(response.body().clone().unwrap_or_default()).unwrap();
                Err((response.status().as_u16(), body))
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn next(&mut self) -> Value {
        loop {
            if let Message::Text(text) = self.socket.read().unwrap() {
                return serde_json::from_str(&text).unwrap();
            }
        }
    }

    /// Sends a command. Returns its answer, and what koze said meanwhile.
    fn call(&mut self, method: &str, params: &Value, session: Option<&str>) -> (Value, Vec<Value>) {
        self.id += 1;
        let mut command = json!({ "id": self.id, "method": method, "params": params });
        if let Some(session) = session {
            command["sessionId"] = session.into();
        }
        self.socket.send(Message::text(command.to_string())).unwrap();
        let mut told = Vec::new();
        loop {
            let message = self.next();
            if message["id"] == self.id {
                return (message["result"].clone(), told);
            }
            if message["method"].as_str().is_some_and(|method| method.starts_with("Koze.")) {
                told.push(message);
            }
        }
    }

    /// Opens a page in a new target. Returns the answer, and what koze said.
    fn open(&mut self, url: &str) -> (Value, Vec<Value>) {
        let (target, _) = self.call("Target.createTarget", &json!({ "url": "about:blank" }), None);
        let how = json!({ "targetId": target["targetId"], "flatten": true });
        let (attached, _) = self.call("Target.attachToTarget", &how, None);
        self.call("Page.navigate", &json!({ "url": url }), attached["sessionId"].as_str())
    }
}

fn serves_workers() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let site = Site::new(|_, _| html("<title>Home</title>"));
        let state = tempfile::tempdir().unwrap();
        let local = Local::with_internet(state.path(), internet(&site)).unwrap();
        let objects = Objects::serve(local.clone(), SessionId::new("tests", "dev").unwrap()).unwrap();
        let served = objects;
        tokio::task::spawn_blocking(move || {
            let [agent, other] = ["a", "b"].map(|digit| digit.repeat(64));
            let mut remote = Remote::connect(&served, &agent, &online()).ok().unwrap();
            let (opened, told) = remote.open("http://origin.example/");
            assert!(opened["loaderId"].is_string() && opened["errorText"].is_null(), "{opened}");
            assert!(told.is_empty(), "{told:?}");
            // A refusal comes before the answer that it explains.
            let (refused, told) = remote.open("https://127.0.0.1/");
            assert_eq!(refused["errorText"], "net::ERR_TUNNEL_CONNECTION_FAILED", "{refused}");
            assert_eq!(told[0]["method"], "Koze.refused");
            assert_eq!(told[0]["params"]["host"], "127.0.0.1");
            assert_eq!(told[0]["params"]["code"], "permission_denied");
            // Another agent has another browser, and the next call of this one waits for its turn.
            let mut second = Remote::connect(&served, &other, &online()).ok().unwrap();
            let pages = |remote: &mut Remote| {
                let (targets, _) = remote.call("Target.getTargets", &json!({}), None);
                targets["targetInfos"].as_array().unwrap().iter().filter(|one| one["type"] == "page").count()
            };
            assert_eq!(pages(&mut second), pages(&mut remote) - 2);
            let before = pages(&mut remote);
            drop(remote);
            let mut remote = Remote::connect(&served, &agent, &online()).ok().unwrap();
            assert_eq!(pages(&mut remote), before, "its pages have stayed");
            // It ends, and says so.
            remote.socket.send(Message::text(r#"{"id":900,"method":"Browser.close"}"#)).unwrap();
            let ended = loop {
                let message = remote.next();
                if message["method"] == "Koze.ended" {
                    break message;
                }
            };
            let text = "the browser has ended: navigate again, which starts a new one";
            assert_eq!(ended["params"], json!({ "code": "unavailable", "message": text }));
            // Hosts that cannot be parsed are errors before there is a connection.
            let wrong = Egress { allowed_hosts: vec!["a b".to_owned()], ..Egress::default() };
            let (status, body) = Remote::connect(&served, &agent, &wrong).err().unwrap();
            assert_eq!(status, 503, "{body}");
            assert!(serde_json::from_str::<Value>(&body).unwrap()["message"].is_string(), "{body}");
            let (status, _) = Remote::connect(&served, "../a", &online()).err().unwrap();
            assert_eq!(status, 400);
        })
        .await
        .unwrap();
    })
}
