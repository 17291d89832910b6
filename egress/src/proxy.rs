//! The proxy: `CONNECT host:port`, and requests with an absolute URL. Each request of a connection is checked.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::http::uri::Authority;
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::inspection;
use super::listening::Tunnel;
use super::reach::{Connected, Reach};
use crate::http::{self, After, Body, Refusal};
use crate::idle::Idle;
use crate::preview::{Came, Port};
use koze_state::Proof;

/// The idle timeout of a connection.
pub(crate) const IDLE: Duration = Duration::from_mins(10);

/// Serves a connection of a program in the sandbox.
pub(crate) async fn serve_program<S>(stream: S, proof: Proof, reach: Arc<Reach>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    http::serve_connection(Idle::new(stream, IDLE), |request, after| {
        // Only programs in the sandbox can connect, so any request counts as proof.
        proof.give();
        let reach = Arc::clone(&reach);
        let asked = request.uri().clone();
        async move {
            let answered = if let Some(found) = reach.preview(request.uri()).await {
                match found {
                    Ok(port) => forward_to_preview(port, request, after).await,
                    Err(refusal) => Err(refusal),
                }
            } else if request.method() == Method::CONNECT {
                open_tunnel(&reach, request, &after).await
            } else {
                forward_request(&reach, request).await
            };
            answered.unwrap_or_else(|refusal| {
                if let Some(refusals) = &reach.refusals {
                    refusals.add_request(&asked, &refusal);
                }
                refusal.into_response()
            })
        }
    })
    .await;
}

async fn open_tunnel(
    reach: &Arc<Reach>,
    mut request: Request<Incoming>,
    after: &After,
) -> Result<Response<Body>, Refusal> {
    let target =
        request.uri().authority().and_then(|authority| Some((authority.host(), authority.port_u16()?)));
    let (host, port) =
        target.ok_or_else(|| bad_request("CONNECT needs a host and a port: `example.com:443`"))?;
    let connected = reach.connect(host, port).await?;
    let client = hyper::upgrade::on(&mut request);
    let reach = Arc::clone(reach);
    after.set(async move {
        let Ok(client) = client.await else { return };
        let Connected { stream, host, entry } = connected;
        Tunnel { reach, host, entry, server: Idle::new(stream, IDLE) }.pass(TokioIo::new(client)).await;
    });
    Ok(http::empty_response(StatusCode::OK))
}

/// Forwards a request to a sandbox, or those in a tunnel to it.
async fn forward_to_preview(
    port: Port,
    mut request: Request<Incoming>,
    after: After,
) -> Result<Response<Body>, Refusal> {
    let came =
        Came::of_url(request.uri()).ok_or_else(|| bad_request("the host of the preview is not valid"))?;
    if request.method() != Method::CONNECT {
        return port.pass(request, came, after).await;
    }
    let client = hyper::upgrade::on(&mut request);
    after.set(async move {
        let Ok(client) = client.await else { return };
        http::serve_connection(TokioIo::new(client), |request, after| {
            let passed = port.clone().pass(request, came.clone(), after);
            async move { passed.await.unwrap_or_else(Refusal::into_response) }
        })
        .await;
    });
    Ok(http::empty_response(StatusCode::OK))
}

async fn forward_request(reach: &Reach, mut request: Request<Incoming>) -> Result<Response<Body>, Refusal> {
    let uri = request.uri();
    let (Some("http"), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return Err(bad_request("this is a proxy: request `http://host/path`, or `CONNECT host:443`"));
    };
    let (host, port) =
        host_and_port(authority).ok_or_else(|| bad_request("the URL's port must be from 1 to 65535"))?;
    let Connected { stream: server, host: checked, mut entry } =
        reach.connect(authority.host(), port).await?;
    let name = authority.host().to_owned();
    let path = uri.path_and_query().cloned().map(Uri::from).unwrap_or_default();
    http::for_the_next(&mut request);
    request.headers_mut().insert(header::HOST, host);
    *request.uri_mut() = path;
    let mut request = request.map(BodyExt::boxed_unsync);
    // Without TLS, nothing is replaced, so that the response needs no mask.
    if let Err(refused) = inspection::decide(reach, false, &checked, port, &mut request).await {
        return Err(reach.refuse(&mut entry, StatusCode::FORBIDDEN, refused).await);
    }
    if let Err(refused) = reach.meter.count_request(&checked) {
        return Err(reach.refuse(&mut entry, StatusCode::TOO_MANY_REQUESTS, refused).await);
    }
    let (mut response, driver) =
        http::forward_request(Idle::new(server, IDLE), request).await.map_err(|error| {
            Refusal::new(StatusCode::BAD_GATEWAY, format!("{name} {}", http::no_answer(&error)))
        })?;
    http::end_to_end(response.headers_mut());
    Ok(http::pass_on(response, driver))
}

/// Returns the value of the `Host` header, a URL's host and port without user information, and the port.
pub(crate) fn host_and_port(authority: &Authority) -> Option<(HeaderValue, u16)> {
    let text = authority.as_str();
    let host = text.rsplit_once('@').map_or(text, |(_, host)| host);
    let port = if host == authority.host() { 80 } else { authority.port_u16()? };
    Some((HeaderValue::from_str(host).ok()?, port))
}

pub(crate) fn bad_request(text: &str) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, text)
}
