//! The server of `koze ui`: the page, and the routes that it uses. It listens on the loopback interface only.
//!
//! | module | job |
//! |---|---|
//! | `guard` | decides which requests come from the page |
//! | `access` | decides which routes the page may use |
//! | `headers` | the headers that confine the page and what it reads |
//! | `pictures` | the pictures in the results of calls |
//! | `assets` | the files of the page, which `cargo xtask ui` builds |
//! | `remote` | passes requests on to a server, for `--url` |
//! | `shell` | shells in the sandboxes of a server |
//! | `sockets` | the addresses to listen on |

mod access;
mod assets;
mod guard;
mod headers;
mod pictures;
mod remote;
mod shell;
mod sockets;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{HeaderValue, USER_AGENT};
use hyper::{Method, Request, StatusCode};
use koze_core::http::tokens::TENANT;
use serde::Serialize;
use tokio::net::TcpListener;

use self::access::Effect;
use self::guard::Guard;
pub(crate) use self::remote::Remote;
use super::answer::{Answer, json_text, no_content, refuse, refuse_method, refused};
use super::endpoint::Endpoint;
use super::origins::Origins;
use super::tenants::Tenant;
use crate::provider::Proof;

/// The server of the page.
pub(crate) struct UiServer {
    listeners: Vec<TcpListener>,
    site: Arc<Site>,
}

/// The page, and what it shows.
struct Site {
    guard: Guard,
    source: Source,
    is_read_only: bool,
}

/// Where the sandboxes of the page are.
enum Source {
    Machine {
        endpoint: Endpoint,
        /// The file of the journal.
        journal: PathBuf,
    },
    Server(Remote),
}

/// The sandboxes that a page shows.
pub(crate) enum Sandboxes {
    /// Those of this machine.
    Machine(Tenant),
    /// Those of a server.
    Server(Remote),
}

/// What the page can do, as its route `page` answers.
#[derive(Serialize)]
struct Page {
    /// Whether it changes nothing.
    read_only: bool,
    /// Whether it shows previews in frames.
    previews: bool,
}

impl UiServer {
    /// Listens on a port of the loopback interface; 0 chooses a free one.
    ///
    /// # Errors
    /// Returns a message about the port, or that there are no random numbers.
    pub(crate) async fn bind(port: u16, sandboxes: Sandboxes, is_read_only: bool) -> Result<Self, String> {
        let (listeners, port) = sockets::bind_loopback(port).await?;
        let guard = Guard::new(port)?;
        let source = match sandboxes {
            Sandboxes::Machine(tenant) => {
                let journal = tenant.served_sessions().0.journal();
                let tenants = HashMap::from([(TENANT.to_owned(), tenant)]);
                let endpoint = Endpoint::new(guard.tokens(), tenants, Origins::new(&[])?, false);
                Source::Machine { endpoint, journal }
            }
            Sandboxes::Server(remote) => Source::Server(remote),
        };
        Ok(UiServer { listeners, site: Arc::new(Site { guard, source, is_read_only }) })
    }

    /// Returns the URL of the page, with the token that signs in a browser.
    pub(crate) fn url(&self) -> String {
        self.site.guard.url()
    }

    /// Serves until the future is dropped.
    pub(crate) async fn serve(self) {
        let accept = |listener| {
            let site = Arc::clone(&self.site);
            super::accept_connections(listener, move |request, proof| {
                let site = Arc::clone(&site);
                async move { site.answer(request, &proof).await }
            })
        };
        futures_util::future::join_all(self.listeners.into_iter().map(accept)).await;
    }
}

impl Site {
    async fn answer(&self, request: Request<Incoming>, proof: &Proof) -> Answer {
        let mut answer = match self.guard.check_host(request.headers()) {
            Ok(()) => self.answer_browser(request, proof).await,
            Err(why) => refused(StatusCode::FORBIDDEN, "forbidden", &why),
        };
        headers::add_common(answer.headers_mut(), self.has_previews());
        answer
    }

    /// Returns whether the URLs of `browse` lead to this machine, so that the page may show them in frames.
    fn has_previews(&self) -> bool {
        matches!(self.source, Source::Machine { .. })
    }

    /// Answers a request for the host of the page, which may come from another page.
    async fn answer_browser(&self, request: Request<Incoming>, proof: &Proof) -> Answer {
        let path = request.uri().path();
        if let Some(asset) = assets::find(path) {
            return match *request.method() {
                Method::GET | Method::HEAD => asset.answer(),
                _ => refuse_method("GET, HEAD"),
            };
        }
        if let Err(why) = Guard::check_site(request.headers()) {
            return refused(StatusCode::FORBIDDEN, "forbidden", why);
        }
        match path {
            "/login" if request.method() == Method::POST => self.sign_in(&request),
            "/login" => refuse_method("POST"),
            "/page" => self.describe_page(&request),
            "/sessions" => self.answer_page(request, proof).await,
            path if path.starts_with(pictures::PREFIX) => self.answer_picture(&request).await,
            path if path.starts_with("/sessions/") => self.answer_page(request, proof).await,
            _ => refused(StatusCode::NOT_FOUND, "not_found", "the page has no such file"),
        }
    }

    /// Exchanges the token of the URL for the cookie.
    fn sign_in(&self, request: &Request<Incoming>) -> Answer {
        match self.guard.sign_in(request.headers()) {
            Ok(cookie) => {
                let mut answer = no_content();
                headers::set_cookie(answer.headers_mut(), &cookie);
                answer
            }
            Err(why) => refused(StatusCode::UNAUTHORIZED, "unauthorized", why),
        }
    }

    /// Answers a request of a browser that has to be signed in.
    async fn answer_page(&self, mut request: Request<Incoming>, proof: &Proof) -> Answer {
        let mut answer = if let Some(refusal) = self.refuse_page(&request) {
            refusal
        } else {
            proof.give();
            if request.method() == Method::POST {
                // For the journal: a tool is called by the page, and not by an agent.
                request.headers_mut().insert(USER_AGENT, HeaderValue::from_static("koze ui"));
            }
            let is_terminal = matches!(access::classify(&request), Ok(Effect::Terminal));
            match &self.source {
                Source::Machine { endpoint, .. } => endpoint.answer_tenant(TENANT, request).await,
                Source::Server(remote) if is_terminal => remote.open_terminal(request).await,
                Source::Server(remote) => remote.forward(request).await,
            }
        };
        headers::confine_data(answer.headers_mut());
        answer
    }

    /// Answers a request for a picture in the result of a call.
    async fn answer_picture(&self, request: &Request<Incoming>) -> Answer {
        let mut answer = if let Some(refusal) = self.refuse_unknown(request) {
            refusal
        } else if request.method() != Method::GET {
            refuse_method("GET")
        } else {
            match &self.source {
                Source::Machine { journal, .. } => {
                    pictures::answer_request(journal.clone(), request.uri().path()).await
                }
                Source::Server(_) => pictures::refuse_kept_elsewhere(),
            }
        };
        headers::confine_data(answer.headers_mut());
        answer
    }

    /// Answers what the page can do.
    fn describe_page(&self, request: &Request<Incoming>) -> Answer {
        if let Some(refusal) = self.refuse_unknown(request) {
            return refusal;
        }
        if request.method() != Method::GET {
            return refuse_method("GET");
        }
        let page = Page { read_only: self.is_read_only, previews: self.has_previews() };
        json_text(StatusCode::OK, serde_json::to_vec(&page).expect("it is plain data"))
    }

    /// Returns the response to a browser that is not signed in.
    fn refuse_unknown(&self, request: &Request<Incoming>) -> Option<Answer> {
        let why = "this browser is not signed in: open the URL that `koze ui` printed";
        (!self.guard.is_signed_in(request.headers()))
            .then(|| refused(StatusCode::UNAUTHORIZED, "unauthorized", why))
    }

    /// Returns the response to a request that the page may not send.
    fn refuse_page(&self, request: &Request<Incoming>) -> Option<Answer> {
        if let Some(refusal) = self.refuse_unknown(request) {
            return Some(refusal);
        }
        let why = match access::classify(request) {
            Ok(Effect::Read) => return None,
            Ok(Effect::Write | Effect::Terminal) if self.is_read_only => {
                "this page changes nothing: start `koze ui` without --read-only"
            }
            Ok(Effect::Ask | Effect::Write | Effect::Terminal) => {
                access::check_writer(request.headers()).err()?
            }
            Ok(Effect::Other) => "the page needs no such request: `koze serve` serves all routes",
            Err(refusal) => return Some(refuse(refusal)),
        };
        Some(refused(StatusCode::FORBIDDEN, "forbidden", why))
    }
}
