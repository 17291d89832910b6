//! The servers that the pages come from, and what the tests do in the browser.

use std::io::{BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use koze_core::Profiles;
use koze_core::script::Egress;
use koze_local::Internet;
use serde_json::{Value, json};

use crate::scripted::{Scene, internet, online};
use crate::server;

/// The answer to a request: status, further headers, body.
pub(super) type Page = (&'static str, String, String);

/// A site, and what it was asked for.
pub(super) struct Site {
    pub(super) at: SocketAddr,
    pub(super) asked: Arc<Mutex<Vec<String>>>,
    pub(super) accepted: Arc<AtomicUsize>,
}

impl Site {
    /// A site whose pages a function makes from the path and the head of a request.
    pub(super) fn new(page: impl Fn(&str, &str) -> Page + Send + Sync + 'static) -> Self {
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
    pub(super) fn of(body: &'static str) -> Self {
        Site::new(move |path, _| match path {
            "/" => html(body),
            _ => ("404 Not Found", String::new(), String::new()),
        })
    }

    pub(super) fn asked(&self) -> Vec<String> {
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

pub(super) fn html(body: impl Into<String>) -> Page {
    ("200 OK", String::new(), body.into())
}

impl Scene {
    /// One whose scripts have a browser.
    pub(super) fn browsing(internet: Internet, egress: Egress) -> Self {
        Scene::of(internet, browser(egress))
    }

    /// One with a browser, and a site by the names `origin.example` and `other.example`.
    pub(super) fn with_site(site: &Site) -> Self {
        Scene::browsing(internet(site.at), online())
    }

    pub(super) async fn open(&self, url: &str) -> Result<Value, String> {
        self.call("browser_navigate", json!({ "url": url })).await
    }

    /// Opens the first page of the site.
    pub(super) async fn home(&self) {
        assert_eq!(self.open("http://origin.example/").await.unwrap()["status"], 200);
    }

    pub(super) async fn evaluate(&self, code: &str) -> Result<Value, String> {
        Ok(self.call("browser_evaluate", json!({ "code": code })).await?["result"].take())
    }

    pub(super) async fn text(&self) -> String {
        let mut text = self.call("browser_extract_text", json!({})).await.unwrap();
        serde_json::from_value(text["text"].take()).unwrap()
    }

    pub(super) async fn click(&self, selector: &str) -> Result<Value, String> {
        self.call("browser_click", json!({ "selector": selector })).await
    }

    pub(super) async fn enter(&self, selector: &str, text: &str) -> Result<Value, String> {
        self.call("browser_type", json!({ "selector": selector, "text": text })).await
    }
}

/// Returns the profiles of a project whose scripts have a browser.
pub(super) fn browser(egress: Egress) -> Profiles {
    Profiles::of_scripts().with_script_egress(egress).with_script_browser(true)
}

#[track_caller]
pub(super) fn fails(answer: &Result<Value, String>, start: &str) {
    let error = answer.as_ref().expect_err("it fails");
    assert!(error.starts_with(start), "{error}");
}
