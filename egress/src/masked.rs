//! Responses without the values of credentials.

use std::pin::Pin;
use std::task::{Context, Poll};

use http_body_util::BodyExt as _;
use hyper::body::{Bytes, Frame, Incoming, SizeHint};
use hyper::ext::ReasonPhrase;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Response, StatusCode};
use koze_core::egress::{Mask, StreamMask};

use super::inspection::Passed;
use crate::http::{Body, Refusal};

/// Masks the head of a response.
///
/// # Errors
/// If values were sent, and the body is compressed in spite of the request: it may contain them.
pub(crate) fn mask_head<B>(response: &mut Response<B>, passed: &Passed, host: &str) -> Result<(), Refusal> {
    if passed.mask.is_empty() {
        return Ok(());
    }
    let encodings = response.headers().get_all(header::CONTENT_ENCODING).iter();
    let is_plain = |value: &HeaderValue| value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity");
    if !passed.credentials.is_empty() && !encodings.into_iter().all(is_plain) {
        let text = format!(
            "{host} compressed its response to a request with a credential, although the request rules that out: koze cannot check that \
             the response does not contain the value"
        );
        return Err(Refusal::new(StatusCode::BAD_GATEWAY, text));
    }
    // A text of the server, too.
    response.extensions_mut().remove::<ReasonPhrase>();
    mask_headers(response.headers_mut(), &passed.mask);
    Ok(())
}

fn mask_headers(headers: &mut HeaderMap, mask: &Mask) {
    for value in headers.values_mut() {
        if let Some(masked) = mask.mask(value.as_bytes()) {
            // A value of visible characters stays one.
            *value = HeaderValue::from_bytes(&masked).unwrap_or(HeaderValue::from_static("*"));
        }
    }
}

/// Forwards a response whose head is masked, and masks its body. `keep` is held until its last byte has been sent.
pub(crate) fn pass_masked(
    response: Response<Incoming>,
    mask: Mask,
    keep: impl Send + 'static,
) -> Response<Body> {
    response.map(|body| {
        Masked { body, stream: StreamMask::new(mask.clone()), mask, _keep: keep, has_ended: false }
            .boxed_unsync()
    })
}

struct Masked<K> {
    body: Incoming,
    stream: StreamMask,
    mask: Mask,
    _keep: K,
    has_ended: bool,
}

impl<K> Unpin for Masked<K> {}

impl<K> hyper::body::Body for Masked<K> {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        loop {
            if self.has_ended {
                return Poll::Ready(None);
            }
            let frame = match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(Some(Ok(frame))) => frame,
                Poll::Ready(None) => {
                    self.has_ended = true;
                    let rest = self.stream.finish();
                    return Poll::Ready((!rest.is_empty()).then(|| Ok(Frame::data(rest.into()))));
                }
            };
            match frame.into_data() {
                Ok(data) => {
                    let masked = self.stream.push(&data);
                    // All of it may be the beginning of a value.
                    if !masked.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(masked.into()))));
                    }
                }
                Err(other) => {
                    let Ok(mut trailers) = other.into_trailers() else { continue };
                    // Data comes before trailers, which nobody needs: hop-by-hop headers announce them, and those are removed.
                    if self.stream.is_holding() {
                        let rest = self.stream.finish();
                        return Poll::Ready(Some(Ok(Frame::data(rest.into()))));
                    }
                    mask_headers(&mut trailers, &self.mask);
                    return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.has_ended || (self.body.is_end_stream() && !self.stream.is_holding())
    }

    fn size_hint(&self) -> SizeHint {
        // Nothing gets longer or shorter, but some of it may be held back.
        let mut hint = self.body.size_hint();
        let held = u64::try_from(self.stream.held_length()).unwrap_or(u64::MAX);
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper.saturating_add(held));
        }
        let lower = hint.lower().saturating_add(held);
        hint.set_lower(lower);
        hint
    }
}
