//! What the tools of the browser do in pages.

use serde_json::{Value, json};

use super::scene::{Site, fails, html};
use crate::scripted::Scene;
use crate::stage::within;

pub(super) fn reads() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let site = Site::new(|path, _| match path {
            "/" => html(
                "<!DOCTYPE html><title>Home ü</title><h1>Hello <b>ä</b></h1><p hidden>no</p><svg><text>drawn</text></svg>",
            ),
            _ => ("404 Not Found", String::new(), "<title>Missing</title>nothing".to_owned()),
        });
        let scene = Scene::with_site(&site);
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

pub(super) fn acts() -> Result<(), libtest_mimic::Failed> {
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
        let scene = Scene::with_site(&site);
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

pub(super) fn elements() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let site = Site::of(
            "<style>#cover { position: fixed; inset: 0 0 50% 0 }</style><button id=under>under</button><div id=cover></div>\
             <div style='height: 60vh'></div><button id=off disabled>off</button><p id=hidden hidden>hidden</p>\
             <input id=box type=checkbox><input id=fixed readonly><input id=day type=date><p id=plain>plain</p>\
             <select><option>One</select><div style='height: 100vh'></div>\
             <script>setTimeout(() => document.body.insertAdjacentHTML('beforeend', '<a id=late>late</a>'), 300)</script>",
        );
        let scene = Scene::with_site(&site);
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

pub(super) fn waits() -> Result<(), libtest_mimic::Failed> {
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
        let scene = Scene::with_site(&site);
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

pub(super) fn pictures() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let site = Site::of(
            "<body style='margin: 0'><div style='height: 2000px'></div>\
             <div id=box style='width: 100px; height: 50px; background: red'></div></body>",
        );
        let scene = Scene::with_site(&site);
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
