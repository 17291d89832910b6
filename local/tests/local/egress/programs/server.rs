//! A server with TLS for real programs: HTTP/1.1 with bodies of any form.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{self, HeaderMap};
use hyper::service::service_fn;
use hyper::{Method, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio_rustls::TlsAcceptor;

use crate::fetch::Authority;

/// A request with its whole body.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) host: &'static str,
    pub(super) method: Method,
    /// The path and the query.
    pub(super) target: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Request {
    /// Returns a header, or an empty text.
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    pub(super) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    pub(super) fn query(&self) -> &str {
        self.target.split_once('?').map_or("", |(_, query)| query)
    }
}

/// A response, whose body is sent in these pieces.
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) pieces: Vec<Vec<u8>>,
}

impl Reply {
    pub(super) fn new(kind: &str, body: impl Into<Vec<u8>>) -> Self {
        Reply {
            status: 200,
            headers: vec![(header::CONTENT_TYPE.to_string(), kind.to_owned())],
            pieces: vec![body.into()],
        }
    }

    pub(super) fn status(status: u16) -> Self {
        Reply { status, headers: Vec::new(), pieces: Vec::new() }
    }

    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    fn into_response(self) -> Response<impl hyper::body::Body<Data = Bytes, Error = Infallible>> {
        let frames = self.pieces.into_iter().map(|piece| Ok(Frame::data(Bytes::from(piece))));
        let mut response = Response::new(StreamBody::new(futures_util::stream::iter(frames)));
        *response.status_mut() = StatusCode::from_u16(self.status).unwrap();
        for (name, value) in self.headers {
            let name = header::HeaderName::from_bytes(name.as_bytes()).unwrap();
            response.headers_mut().append(name, value.parse().unwrap());
        }
        response
    }
}

/// The requests that servers received, in their order.
#[derive(Clone, Default)]
pub(super) struct Record(Arc<Mutex<Vec<Request>>>);

impl Record {
    /// Returns the requests since the last call.
    pub(super) fn take(&self) -> Vec<Request> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    /// Serves HTTPS for a name in tasks of this runtime, and records every request. The function may block.
    pub(super) async fn serve(
        &self,
        authority: &Authority,
        host: &'static str,
        answer: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    ) -> SocketAddr {
        let tls = TlsAcceptor::from(authority.server_config(host));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (record, answer) = (self.clone(), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (tls, record, answer) = (tls.clone(), record.clone(), Arc::clone(&answer));
                tokio::spawn(async move {
                    // A program that does not trust the certificate ends the handshake.
                    let Ok(stream) = tls.accept(stream).await else { return };
                    let service = service_fn(|request| {
                        let (record, answer) = (record.clone(), Arc::clone(&answer));
                        async move { record.answer(host, request, answer).await }
                    });
                    // A program may disconnect at any time.
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        address
    }

    async fn answer(
        self,
        host: &'static str,
        request: hyper::Request<Incoming>,
        answer: Arc<impl Fn(&Request) -> Reply + Send + Sync + 'static>,
    ) -> hyper::Result<Response<impl hyper::body::Body<Data = Bytes, Error = Infallible>>> {
        let (head, body) = request.into_parts();
        let target = head.uri.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string);
        let body = body.collect().await?.to_bytes();
        let request = Request { host, method: head.method, target, headers: head.headers, body };
        self.0.lock().unwrap().push(request.clone());
        let reply = tokio::task::spawn_blocking(move || answer(&request)).await.unwrap();
        Ok(reply.into_response())
    }
}
