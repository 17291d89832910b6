//! The methods whose body is a stream: a tree goes through as it comes, a small part of it at a time.

use futures_util::stream::unfold;
use http_body_util::{BodyExt, StreamBody};
use hyper::Response;
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{HeaderMap, HeaderValue};
use percent_encoding::percent_decode_str;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe::{Receiver, Sender};

use super::super::super::files::odd;
use super::super::super::transfer::{self, Outcome};
use super::super::http::Body;
use super::frame::{self, Answer};
use super::method::{answer, failure, read, unopened};
use super::{Object, Shared, framed, text};
use koze_core::contract::{Failure, Pack, Path, Unpack, Unpacked};
use koze_core::error::{Code, Error};

/// The header that has what a method takes beside the stream: JSON, percent-encoded.
const INPUT: &str = "koze-input";
/// What an answer has that is a stream, and not a [`frame`].
const STREAM: &str = "koze-stream";
/// How much goes from a pipe into a body at once.
const PIECE: usize = 64 << 10;

/// Whether a method is one of these.
pub(super) fn is_one(method: &str) -> bool {
    matches!(method, "kozePack" | "kozeUnpack")
}

/// Calls one.
pub(super) async fn call(
    shared: &Shared,
    object: &Object,
    method: &str,
    headers: &HeaderMap,
    mut body: Incoming,
) -> Response<Body> {
    let input = text(headers, INPUT).unwrap_or_default();
    let input: Vec<u8> = percent_decode_str(input).collect();
    if method == "kozePack" {
        let packed = pack(shared, object, &input).await;
        return packed.unwrap_or_else(|failure| framed(frame::write(Err(failure))));
    }
    let done = unpack(shared, object, &input, &mut body).await;
    // A connection that is closed with unread bytes loses its answer. The sender stops then.
    tokio::spawn(async move { while matches!(body.frame().await, Some(Ok(_))) {} });
    framed(frame::write(done))
}

async fn pack(shared: &Shared, object: &Object, input: &[u8]) -> Result<Response<Body>, Failure> {
    let Pack { root, path, except } = read(input)?;
    let sandbox = shared.find(object).await.map_err(failure)?.ok_or_else(unopened)?;
    let from = Path { root, path };
    let (pipe, outcome) = transfer::pack(&sandbox.0, from, except).await.map_err(failure)?;
    let mut pipe = Receiver::from_owned_fd(pipe).map_err(|error| no_pipe(&error))?;
    // Where nothing comes, there is an error and no stream.
    let first = next(&mut pipe).await;
    if first.is_empty() {
        return Err(failure(outcome.packed().await.err().unwrap_or_else(odd)));
    }
    let mut response = Response::new(stream(first, pipe, outcome));
    response.headers_mut().insert(STREAM, HeaderValue::from_static("tree"));
    Ok(response)
}

/// What comes from a pipe, as a body. One that breaks off is noticed by who reads it.
fn stream(first: Bytes, pipe: Receiver, outcome: Outcome) -> Body {
    let parts = unfold((first, pipe, outcome), async |(first, mut pipe, outcome)| {
        let part = if first.is_empty() { next(&mut pipe).await } else { first };
        (!part.is_empty()).then(|| (Ok(Frame::data(part)), (Bytes::new(), pipe, outcome)))
    });
    StreamBody::new(parts).boxed_unsync()
}

/// The next bytes; none at the end.
async fn next(pipe: &mut Receiver) -> Bytes {
    let mut bytes = Vec::with_capacity(PIECE);
    // Of what fails, there is no more.
    let _ = pipe.read_buf(&mut bytes).await;
    bytes.into()
}

async fn unpack(
    shared: &Shared,
    object: &Object,
    input: &[u8],
    body: &mut Incoming,
) -> Result<Answer, Failure> {
    let Unpack { root, path, call: _ } = read(input)?;
    let sandbox = shared.find(object).await.map_err(failure)?.ok_or_else(unopened)?;
    let to = Path { root, path };
    let (pipe, outcome) = transfer::unpack(&sandbox.0, to).await.map_err(failure)?;
    let mut pipe = Sender::from_owned_fd(pipe).map_err(|error| no_pipe(&error))?;
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        if pipe.write_all(&data).await.is_err() {
            // The guest has stopped reading, and says why.
            break;
        }
    }
    drop(pipe);
    let bytes = outcome.unpacked().await.map_err(failure)?;
    answer(&Unpacked { bytes })
}

fn no_pipe(error: &std::io::Error) -> Failure {
    failure(Error::new(Code::Unavailable, format!("no pipe can be created for the copy: {error}")))
}
