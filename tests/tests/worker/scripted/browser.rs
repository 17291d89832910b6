//! The browser of scripts in workerd, over a stand-in for the platform's binding with a Chromium of this machine.

use std::thread;
use std::time::{Duration, Instant};

use koze_tests::conformance::http::Http;
use koze_tests::conformance::{Capability, Host as _, ToolResult, origin};
use serde_json::{Value, json};

use super::{LACKS, call, conforms, serve_with, worker_with};
use crate::dev::run::Dev;
use crate::project::Worker;
use crate::served::{Host, TOKEN};

/// Returns whether this machine has Chromium, without which the tests are left out. Continuous integration runs all of them.
fn is_missing() -> bool {
    let Err(missing) = koze_local::check_browser() else { return false };
    assert!(std::env::var_os("CI").is_none(), "the browser cannot be tested: {missing}");
    eprintln!("the tests of the browser in a Worker are left out: {missing}");
    true
}

fn worker(keys: &str) -> Worker {
    worker_with(&format!("{keys}browser = true\n"), "browser", None)
}

#[test]
fn browsers_conform() {
    if is_missing() {
        return;
    }
    let worker = worker("internet = true\n");
    let origin = format!("http://{}", origin::start());
    let host = serve_with(&worker, json!({ "origin": origin, "browser": "BROWSER" }));
    conforms("scripts with a browser in a Worker", host.url(), LACKS);
}

/// Starts a Worker whose browser reaches the site of `site.mjs` under every name.
fn site(worker: &Worker) -> Site {
    Site(serve_with(worker, json!({ "site": true, "browser": "BROWSER" })))
}

struct Site(Host);

impl Site {
    /// Calls a tool of a session, which must succeed.
    fn ok(&self, session: &str, tool: &str, input: &Value) -> Value {
        let (failed, content) = call(&self.0, session, tool, input);
        assert!(!failed, "{tool}: {content}");
        content
    }

    /// Calls a tool of a session, which must fail. Returns the error.
    fn fails(&self, session: &str, tool: &str, input: &Value) -> String {
        let (failed, content) = call(&self.0, session, tool, input);
        assert!(failed, "{tool}: {content}");
        content.as_str().expect("a text").to_owned()
    }

    fn navigate(&self, session: &str, path: &str) {
        self.ok(session, "browser_navigate", &json!({ "url": format!("http://good.example{path}") }));
    }

    /// Asks the site itself.
    fn control(&self, path: &str) -> Value {
        let answer =
            self.ok("control", "fetch_url", &json!({ "url": format!("http://control.example/{path}") }));
        serde_json::from_str(answer["body"].as_str().expect("a body")).expect("JSON")
    }

    /// Returns what the site was asked since the last call.
    fn asked(&self) -> Vec<String> {
        serde_json::from_value(self.control("asked")).expect("a list")
    }

    /// Waits until something holds.
    fn until(&self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !holds(self) {
            assert!(Instant::now() < deadline, "never: {what}");
            thread::sleep(Duration::from_millis(100));
        }
    }
}

#[test]
fn pages_reach_only_what_the_rules_allow() {
    if is_missing() {
        return;
    }
    let worker = worker("internet = true\ndenied_hosts = [\"evil.example\"]\n");
    let site = site(&worker);
    for scheme in ["http", "https"] {
        let opened = json!({ "url": format!("{scheme}://good.example/page") });
        site.ok("a", "browser_navigate", &opened);
        let mut asked = site.asked();
        // What has run proves that the attempts were made.
        let mut ran = vec!["close", "worker", "nesting", "nested", "blob", "shared", "frame"];
        ran.extend((scheme == "https").then_some("service"));
        let is_missing =
            |ran: &&&str, asked: &[String]| !asked.iter().any(|asked| asked.ends_with(&format!("ran-{ran}")));
        let deadline = Instant::now() + Duration::from_secs(30);
        while let Some(missing) = ran.iter().find(|ran| is_missing(ran, &asked)) {
            assert!(Instant::now() < deadline, "{missing} did not run: {asked:#?}");
            thread::sleep(Duration::from_millis(100));
            asked.extend(site.asked());
        }
        // What comes late.
        thread::sleep(Duration::from_secs(1));
        asked.extend(site.asked());
        let is_leak = |asked: &&String| {
            let leaks = ["evil", "leak", "SOCKET", "127.0.0.1", "[::1]"];
            // The browser fetches these outside of the page, where no message stops it: see docs/script.md.
            let is_known = asked.ends_with("/speculated") || asked.contains("/to/");
            !is_known && leaks.iter().any(|leak| asked.contains(leak))
        };
        let leaks: Vec<_> = asked.iter().filter(is_leak).collect();
        assert!(leaks.is_empty(), "{leaks:#?}");
        let failed = site.ok("a", "browser_evaluate", &json!({ "code": "document.body.dataset.failed" }));
        assert_eq!(failed["result"], "", "an attempt that is not made shows nothing");
    }

    // What the address line opens, and where a server leads it.
    for url in
        ["http://evil.example/", "http://127.0.0.1/", "http://[::ffff:10.0.0.1]/", "http://localhost:81/"]
    {
        let error = site.fails("a", "browser_navigate", &json!({ "url": url }));
        assert!(error.starts_with("permission_denied: scripts may not reach "), "{error}");
        let to = format!("http://good.example/to/{url}");
        let error = site.fails("a", "browser_navigate", &json!({ "url": to }));
        assert!(error.starts_with("permission_denied: scripts may not reach "), "{error}");
    }
    let to = json!({ "url": "http://good.example/to/file:///etc/passwd" });
    let error = site.fails("a", "browser_navigate", &to);
    assert!(error.contains("it redirects to a URL that has neither `https:` nor `http:`"), "{error}");
    assert!(site.asked().iter().all(|asked| asked.starts_with("good.example/to/")));
}

#[test]
fn browsers_end_and_start_again() {
    if is_missing() {
        return;
    }
    let worker =
        worker("allowed_hosts = [\"*.example\", \"good.example:8080\"]\ndenied_hosts = [\"evil.example\"]\n");
    let site = site(&worker);
    let text = |session: &str| {
        site.ok(session, "browser_extract_text", &json!({ "selector": "h1" }))["text"].clone()
    };
    site.navigate("a", "/plain");
    assert_eq!(text("a"), "plain");
    // The platform gets the rules, too, as far as it has them.
    let binding = site.control("binding");
    let guardrails = r#"{"guardrails":{"allowedDomains":["*.example","good.example"]}}"#;
    assert_eq!(binding, json!([format!("POST ?keep_alive=30000 {guardrails}"), "CONNECT /ID"]));

    // Two calls at once, and two agents.
    let slow = json!({ "code": "await new Promise((done) => setTimeout(done, 500)); return window.count = (window.count ?? 0) + 1" });
    thread::scope(|scope| {
        let calls: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| site.ok("a", "browser_evaluate", &slow)["result"].as_u64()))
            .collect();
        let mut counts: Vec<_> = calls.into_iter().map(|call| call.join().expect("it ended")).collect();
        counts.sort();
        assert_eq!(counts, [Some(1), Some(2), Some(3)], "one after another");
    });
    site.navigate("b", "/later");
    assert_eq!(site.control("sessions"), 2);
    assert_eq!(text("a"), "plain");

    // Between calls, pages go on, and the guard does.
    site.asked();
    site.until("it goes on", |site| site.asked().iter().any(|asked| asked.contains("/tick")));
    thread::sleep(Duration::from_millis(500));
    assert!(site.asked().iter().all(|asked| !asked.contains("evil")));

    // The platform ends them, or they crash.
    site.control("end");
    site.until("they have ended", |site| site.control("sessions") == 0);
    // The agent's object learns that later than the platform.
    site.until("its object knows", |site| {
        let error = site.fails("a", "browser_extract_text", &json!({}));
        error == "not_found: no page is open: navigate to a URL first"
    });
    site.navigate("a", "/plain");
    assert_eq!(text("a"), "plain");
    thread::scope(|scope| {
        let call =
            scope.spawn(|| site.fails("a", "browser_evaluate", &json!({ "code": "new Promise(() => {})" })));
        thread::sleep(Duration::from_secs(1));
        site.control("end");
        let error = call.join().expect("it ended");
        assert_eq!(error, "unavailable: the browser has ended: navigate again, which starts a new one");
    });

    // It is closed, and none is left.
    site.navigate("a", "/plain");
    site.ok("a", "browser_close", &json!({}));
    site.ok("b", "browser_close", &json!({}));
    site.until("they are closed", |site| site.control("sessions") == 0);

    // The platform starts none.
    site.control("refuse");
    let error = site.fails("a", "browser_navigate", &json!({ "url": "http://good.example/plain" }));
    assert!(error.starts_with("unavailable: the account runs as many browsers as it may"), "{error}");
    site.control("allow");
    site.navigate("a", "/plain");
}

/// Under `koze dev --local`, the browser is that of this machine, behind koze's proxy.
#[test]
fn browsers_of_koze_dev_conform() {
    if is_missing() {
        return;
    }
    let worker = worker("internet = true\n");
    worker.project.write(".dev.vars", format!("KOZE_TOKEN=\"{TOKEN}\"\n"));
    let dev = Dev::start(&worker);
    let lacks = [LACKS, &[(Capability::Network, "no server has a public address here")]].concat();
    conforms("scripts with a browser of koze dev --local", &dev.url, &lacks);
    let host = Http::new(&dev.url, TOKEN);
    let navigate = |url: &str| host.call("s", "browser_navigate", json!({ "url": url }));
    for url in ["http://127.0.0.1:81/", "http://localhost/", "http://[::ffff:169.254.169.254]/"] {
        let ToolResult { content, is_error } = navigate(url);
        // In the words of this machine's policy.
        assert!(
            is_error && content.contains("scripts cannot reach private or local networks"),
            "{url}: {content}"
        );
    }
    // Tools and scripts share the browser, and it runs one call at a time.
    thread::scope(|scope| {
        let calls: Vec<_> = (0..3).map(|_| scope.spawn(|| navigate("http://127.0.0.1:81/"))).collect();
        for call in calls {
            assert!(call.join().expect("it ended").content.starts_with("permission_denied"));
        }
    });
    for _ in 0..2 {
        let closed = host.call("s", "browser_close", json!({}));
        assert!(!closed.is_error, "{closed:?}");
    }
    let nothing = host.call("s", "browser_extract_text", json!({})).content;
    assert_eq!(nothing, "not_found: no page is open: navigate to a URL first");
}
