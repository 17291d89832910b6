//! The operations whose body is a stream. A tree or archive passes through with bounded buffers.

use std::os::fd::OwnedFd;

use futures_util::stream::unfold;
use http_body_util::{BodyExt, StreamBody};
use hyper::Response;
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{HeaderMap, HeaderValue};
use percent_encoding::percent_decode_str;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe::{Receiver, Sender};

use super::frame::{self, Answer};
use super::reply::{parse_input, to_answer, to_failure, unopened_failure};
use super::{Object, Shared, framed_response, header_text};
use crate::LocalSandbox;
use crate::errors::unexpected_answer;
use crate::sandbox::archive;
use crate::sandbox::transfer::{self, Outcome};
use koze_core::archive::Contents;
use koze_core::contract::{Extracted, Failure, Pack, Path, Unpack, Unpacked};
use koze_core::error::{Code, Error};
use koze_egress::http::Body;

/// The header with the rest of an operation's input: percent-encoded JSON.
const INPUT: &str = "koze-input";
/// The header of a response that is a stream, not a [`frame`].
const STREAM: &str = "koze-stream";
/// The size of one read from a pipe, in bytes.
const PIECE: usize = 64 << 10;

/// Returns whether an operation uses a stream.
pub(super) fn is_one(operation: &str) -> bool {
    matches!(operation, "pack" | "unpack" | "archive" | "extract")
}

/// Runs the operation.
pub(super) async fn call_streamed(
    shared: &Shared,
    object: &Object,
    operation: &str,
    headers: &HeaderMap,
    mut body: Incoming,
) -> Response<Body> {
    let input = header_text(headers, INPUT).unwrap_or_default();
    let input: Vec<u8> = percent_decode_str(input).collect();
    if matches!(operation, "pack" | "archive") {
        let packed = if operation == "pack" {
            pack_tree(shared, object, &input).await
        } else {
            archive_tree(shared, object, &input).await
        };
        return packed.unwrap_or_else(|failure| framed_response(frame::encode_frame(Err(failure))));
    }
    let done = if operation == "unpack" {
        unpack_tree(shared, object, &input, &mut body).await
    } else {
        extract_archive(shared, object, &input, &mut body).await
    };
    // Read the rest, because closing a connection with unread bytes would discard the response. The sender stops once
    // it has the response.
    tokio::spawn(async move { while matches!(body.frame().await, Some(Ok(_))) {} });
    framed_response(frame::encode_frame(done))
}

async fn pack_tree(shared: &Shared, object: &Object, input: &[u8]) -> Result<Response<Body>, Failure> {
    let Pack { root, path, except } = parse_input(input)?;
    let sandbox = shared.find(object).await.map_err(to_failure)?.ok_or_else(unopened_failure)?;
    let from = Path { root, path };
    let (pipe, outcome) = transfer::pack_tree(&sandbox.0, from, except).await.map_err(to_failure)?;
    start_response(pipe, outcome).await
}

async fn archive_tree(shared: &Shared, object: &Object, input: &[u8]) -> Result<Response<Body>, Failure> {
    let from: Path = parse_input(input)?;
    let sandbox = shared.find(object).await.map_err(to_failure)?.ok_or_else(unopened_failure)?;
    let (pipe, outcome) = archive::start_packing(&sandbox.0, from).await.map_err(to_failure)?;
    start_response(pipe, outcome).await
}

/// Returns what comes out of a pipe.
async fn start_response(pipe: OwnedFd, outcome: Outcome) -> Result<Response<Body>, Failure> {
    let mut pipe = Receiver::from_owned_fd(pipe).map_err(|error| no_pipe(&error))?;
    // If nothing arrives, there is an error instead of a stream.
    let first = next_bytes(&mut pipe).await;
    if first.is_empty() {
        return Err(to_failure(outcome.packed().await.err().unwrap_or_else(unexpected_answer)));
    }
    let mut response = Response::new(pipe_body(first, pipe, outcome));
    response.headers_mut().insert(STREAM, HeaderValue::from_static("tree"));
    Ok(response)
}

/// Returns the output of a pipe as a body. Its reader detects an early end.
fn pipe_body(first: Bytes, pipe: Receiver, outcome: Outcome) -> Body {
    let parts = unfold((first, pipe, outcome), async |(first, mut pipe, outcome)| {
        let part = if first.is_empty() { next_bytes(&mut pipe).await } else { first };
        (!part.is_empty()).then(|| (Ok(Frame::data(part)), (Bytes::new(), pipe, outcome)))
    });
    StreamBody::new(parts).boxed_unsync()
}

/// Returns the next bytes; empty at the end.
async fn next_bytes(pipe: &mut Receiver) -> Bytes {
    let mut bytes = Vec::with_capacity(PIECE);
    // An error ends the stream.
    let _ = pipe.read_buf(&mut bytes).await;
    bytes.into()
}

/// Returns the sandbox of an object, and the path at which the files of a stream are to be created.
async fn find_target(
    shared: &Shared,
    object: &Object,
    input: &[u8],
) -> Result<(LocalSandbox, Path), Failure> {
    let Unpack { root, path, call: _ } = parse_input(input)?;
    let sandbox = shared.find(object).await.map_err(to_failure)?.ok_or_else(unopened_failure)?;
    Ok((sandbox, Path { root, path }))
}

async fn unpack_tree(
    shared: &Shared,
    object: &Object,
    input: &[u8],
    body: &mut Incoming,
) -> Result<Answer, Failure> {
    let (sandbox, to) = find_target(shared, object, input).await?;
    let (pipe, outcome) = transfer::unpack_tree(&sandbox.0, to).await.map_err(to_failure)?;
    pour_body(body, pipe).await?;
    let bytes = outcome.unpacked().await.map_err(to_failure)?;
    to_answer(&Unpacked { bytes })
}

async fn extract_archive(
    shared: &Shared,
    object: &Object,
    input: &[u8],
    body: &mut Incoming,
) -> Result<Answer, Failure> {
    let (sandbox, to) = find_target(shared, object, input).await?;
    let (pipe, outcome) = archive::start_unpacking(&sandbox.0, to).await.map_err(to_failure)?;
    pour_body(body, pipe).await?;
    let Contents { entries, bytes, .. } = outcome.extracted().await.map_err(to_failure)?;
    to_answer(&Extracted { entries, bytes })
}

/// Passes a body on to a pipe. Its reader detects an early end.
async fn pour_body(body: &mut Incoming, pipe: OwnedFd) -> Result<(), Failure> {
    let mut pipe = Sender::from_owned_fd(pipe).map_err(|error| no_pipe(&error))?;
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        if pipe.write_all(&data).await.is_err() {
            // The guest has stopped reading, and returns the reason.
            break;
        }
    }
    Ok(())
}

fn no_pipe(error: &std::io::Error) -> Failure {
    to_failure(Error::new(Code::Unavailable, format!("no pipe can be created for the copy: {error}")))
}
