//! A server that backs the Durable Objects of a local Worker with local sandboxes.
//!
//! `koze dev --local` runs the Worker in workerd with classes that implement the
//! [contract](koze_core::contract) through requests to this server. It listens on 127.0.0.1 and requires a
//! token.
//!
//! Headers describe a request: `koze-token`; `koze-object`, the class and the ID of the object as `Class/id`; and
//! either `koze-operation`, an operation of the contract, whose input and result are encoded as a [`frame`] or as a
//! [`stream`], or `koze-port`, for a client's request to a port of the sandbox. Requests of scripts have an operation, but no
//! object.

mod browser;
mod frame;
mod method;
mod process;
mod reply;
mod script;
mod stream;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, PoisonError, RwLock};

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Request, Response, StatusCode};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tokio::task::JoinHandle;

use koze_egress::accept::{self, MAX_CONNECTIONS};
use koze_egress::http::{self, After, Body, Refusal};
use koze_egress::preview::{Came, Port};

use crate::engine::engine;
use crate::network::preview::SandboxServer;
use crate::{Local, LocalSandbox};
use koze_core::Profiles;
use koze_core::contract::LARGEST_PIECE;
use koze_core::error::{Code, Error, Result};
use koze_core::id::{SandboxId, SandboxName, SessionId};
use koze_core::provider::{Profile, Provider};
use koze_egress::create_token;
use koze_state::Proof;

/// The maximum size of a request: a piece of a file, and its metadata.
const LARGEST_REQUEST: usize = LARGEST_PIECE as usize + (2 << 20);

/// The server. Dropping it stops it; the sandboxes stop with their [`Local`].
#[derive(Debug)]
pub struct Objects {
    shared: Arc<Shared>,
    address: SocketAddr,
    serving: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    provider: Local,
    session: SessionId,
    token: String,
    /// The profile of each class.
    classes: RwLock<BTreeMap<String, Vec<Profile>>>,
}

/// An object as a request names it, with its sandbox.
struct Object {
    class: String,
    id: SandboxId,
}

impl Objects {
    /// Starts a server that backs the objects of a Worker with sandboxes of a session.
    ///
    /// # Errors
    /// [`Code::Unavailable`] if no port is available.
    pub fn serve(provider: Local, session: SessionId) -> Result<Self> {
        let failed = |error: std::io::Error| {
            Error::new(
                Code::Unavailable,
                format!("no port is available for the server of sandboxes: {}", error.kind()),
            )
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let engine = engine()?;
        let registered = engine.enter();
        let listener = tokio::net::TcpListener::from_std(listener).map_err(failed)?;
        drop(registered);
        let shared =
            Arc::new(Shared { provider, session, token: create_token()?, classes: RwLock::default() });
        let served = Arc::clone(&shared);
        let serving =
            engine.spawn(accept::serve_each(listener, MAX_CONNECTIONS, move |stream, proof| {
                let shared = Arc::clone(&served);
                http::serve_connection(stream, move |request, after| {
                    let (shared, proof) = (Arc::clone(&shared), proof.clone());
                    async move {
                        shared.answer(&proof, request, after).await.unwrap_or_else(Refusal::into_response)
                    }
                })
            }));
        Ok(Objects { shared, address, serving })
    }

    /// Returns its URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the required value of `koze-token`.
    pub fn token(&self) -> &str {
        &self.shared.token
    }

    /// Sets the classes and their profiles: one for each image, the default one first. Existing sandboxes are updated to their profiles.
    ///
    /// # Errors
    /// As [`Local::refresh`].
    pub async fn follow(&self, classes: Vec<(String, Profile)>) -> Result<()> {
        let list: Vec<Profile> = classes.iter().map(|(_, profile)| profile.clone()).collect();
        let first = list.first().map(|profile| profile.name.clone());
        let mut profiles: BTreeMap<String, Vec<Profile>> = BTreeMap::new();
        for (class, profile) in classes {
            profiles.entry(class).or_default().push(profile);
        }
        *self.shared.classes.write().unwrap_or_else(PoisonError::into_inner) = profiles;
        match first {
            Some(first) => {
                self.shared.provider.refresh(&self.shared.session, &Profiles::new(list, &first)?).await
            }
            None => Ok(()),
        }
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Shared {
    async fn answer(
        &self,
        proof: &Proof,
        request: Request<Incoming>,
        after: After,
    ) -> std::result::Result<Response<Body>, Refusal> {
        let headers = request.headers();
        let given = header_text(headers, "koze-token").unwrap_or_default();
        if !bool::from(given.as_bytes().ct_eq(self.token.as_bytes())) {
            return Err(Refusal::new(
                StatusCode::UNAUTHORIZED,
                "this server is for the Worker that `koze dev` runs",
            ));
        }
        proof.give();
        match header_text(headers, "koze-operation") {
            Some(browser::CONNECT) => return self.browse(request, after).await,
            Some(browser::CLOSE) => {
                return Ok(framed_response(frame::encode_frame(self.close(headers).await?)));
            }
            _ => {}
        }
        if header_text(headers, "koze-operation") == Some(script::METHOD) {
            let body = read_body(request).await?;
            let (input, _) =
                frame::split_frame(&body).ok_or_else(|| bad_request("the body is not a frame"))?;
            let answer = script::exchange_request(&self.provider, &self.session, input).await;
            return Ok(framed_response(frame::encode_frame(answer)));
        }
        let object = header_text(headers, "koze-object").and_then(|named| self.object(named));
        let object =
            object.ok_or_else(|| bad_request("`koze-object` must be a class and an object: Class/id"))?;
        if let Some(operation) = header_text(headers, "koze-operation").map(str::to_owned) {
            if stream::is_one(&operation) {
                let (head, body) = request.into_parts();
                return Ok(stream::call_streamed(self, &object, &operation, &head.headers, body).await);
            }
            let body = read_body(request).await?;
            let (input, bytes) =
                frame::split_frame(&body).ok_or_else(|| bad_request("the body is not a frame"))?;
            let answer = method::call_operation(self, &object, &operation, input, bytes).await;
            return Ok(framed_response(frame::encode_frame(answer)));
        }
        let port = header_text(headers, "koze-port").and_then(|port| port.parse().ok());
        let port: u16 =
            port.ok_or_else(|| bad_request("the request has neither `koze-operation` nor `koze-port`"))?;
        self.pass(&object, port, request, after).await
    }

    /// Forwards a client's request to a port.
    async fn pass(
        &self,
        object: &Object,
        port: u16,
        mut request: Request<Incoming>,
        after: After,
    ) -> std::result::Result<Response<Body>, Refusal> {
        let gone = || Refusal::new(StatusCode::NOT_FOUND, "the sandbox no longer exists");
        let there = self.find(object).await;
        let there = there.map_err(|error| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error.message))?;
        let LocalSandbox(sandbox) = there.ok_or_else(gone)?;
        let take = |headers: &mut HeaderMap, name| headers.remove(name).ok_or_else(|| bad_request("no host"));
        let headers = request.headers_mut();
        let came = Came { host: take(headers, "koze-host")?, scheme: take(headers, "koze-scheme")? };
        for name in ["koze-token", "koze-object", "koze-port"] {
            headers.remove(name);
        }
        Port::new(SandboxServer::new(sandbox, port)).pass(request, came, after).await
    }

    /// Parses the name of an object. Returns `None` if the project has no such class.
    fn object(&self, named: &str) -> Option<Object> {
        let (class, id) = named.split_once('/')?;
        let classes = self.classes.read().unwrap_or_else(PoisonError::into_inner);
        let hexadecimal = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if id.len() != 64 || !id.bytes().all(hexadecimal) || !classes.contains_key(class) {
            return None;
        }
        // A sandbox name is shorter than an object ID, so a digest is used.
        let digest = Sha256::digest(named.as_bytes());
        let name = digest.iter().take(10).map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
        let id = SandboxId { session: self.session.clone(), name: SandboxName::new(&name).ok()? };
        Some(Object { class: class.to_owned(), id })
    }

    async fn find(&self, object: &Object) -> Result<Option<LocalSandbox>> {
        Ok(self.provider.find(&object.id).await?.map(|opened| opened.sandbox))
    }

    /// Returns whether a class has several images.
    fn has_several_images(&self, object: &Object) -> bool {
        let classes = self.classes.read().unwrap_or_else(PoisonError::into_inner);
        classes.get(&object.class).is_some_and(|profiles| profiles.len() > 1)
    }

    /// Returns the profile of a class with this image, or its first one.
    fn profile(&self, object: &Object, image: Option<&str>) -> Result<Profile> {
        let classes = self.classes.read().unwrap_or_else(PoisonError::into_inner);
        let mut profiles = classes.get(&object.class).into_iter().flatten();
        let found = profiles.find(|profile| image.is_none_or(|image| profile.name == image));
        let gone = || {
            Error::new(Code::NotFound, format!("the project has no class `{}` with this image", object.class))
        };
        found.cloned().ok_or_else(gone)
    }
}

/// Reads the body of a request.
async fn read_body(request: Request<Incoming>) -> std::result::Result<Bytes, Refusal> {
    let body = Limited::new(request.into_body(), LARGEST_REQUEST).collect().await;
    let refused = |_| Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "the request is too large or incomplete");
    Ok(body.map_err(refused)?.to_bytes())
}

fn header_text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

fn bad_request(text: &str) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, text)
}

fn framed_response(bytes: Vec<u8>) -> Response<Body> {
    let body = Full::new(Bytes::from(bytes)).map_err(|never| match never {});
    let mut response = Response::new(body.boxed_unsync());
    let kind = HeaderValue::from_static("application/octet-stream");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
