//! The files of the page, which `cargo xtask ui` builds from `ui/`. They are committed, so that `cargo install` needs no Node.

use hyper::header::{CONTENT_TYPE, HeaderValue};

use super::super::answer::{Answer, whole};

/// A file of the page.
pub(super) struct Asset {
    path: &'static str,
    content_type: &'static str,
    content: &'static str,
}

const ASSETS: [Asset; 6] = [
    Asset { path: "/", content_type: "text/html; charset=utf-8", content: include_str!("built/index.html") },
    Asset {
        path: "/app.js",
        content_type: "text/javascript; charset=utf-8",
        content: include_str!("built/app.js"),
    },
    Asset {
        path: "/app.css",
        content_type: "text/css; charset=utf-8",
        content: include_str!("built/app.css"),
    },
    // The terminal, which the page loads when one is opened.
    Asset {
        path: "/xterm.js",
        content_type: "text/javascript; charset=utf-8",
        content: include_str!("built/xterm.js"),
    },
    Asset {
        path: "/xterm.css",
        content_type: "text/css; charset=utf-8",
        content: include_str!("built/xterm.css"),
    },
    Asset { path: "/icon.svg", content_type: "image/svg+xml", content: include_str!("built/icon.svg") },
];

/// Finds the file at a path.
pub(super) fn find(path: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.path == path)
}

impl Asset {
    /// Returns the file as a response.
    pub(super) fn answer(&self) -> Answer {
        let mut answer = Answer::new(whole(self.content));
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        answer
    }
}
