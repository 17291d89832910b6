//! The route `files`: files of a sandbox as the bodies of requests and responses.

use std::fs::File;
use std::io::Write as _;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode};
use koze_core::files::http::{self, Conditions, Head, Refused};
use koze_core::http::{Access, Query};
use koze_core::{Code, Error, Profiles};
use tokio::sync::mpsc;

use super::answer::{Answer, Body, refuse_error, refused, whole};
use super::trees;
use crate::mcp::supervised::Supervised;
use crate::session::files::Writing;

/// How much of a file is read and written at once.
const PIECE: usize = 1 << 20;
/// How many pieces wait for a slow client.
const AHEAD: usize = 2;

/// Answers a request for a path of a sandbox.
pub(super) async fn answer(
    backend: &Supervised,
    place: (&str, &str),
    access: Access,
    query: &Query,
    request: Request<Incoming>,
) -> Answer {
    match handle_request(backend, place, access, query, request).await {
        Ok(answer) => answer,
        Err(Refused::Error(error)) => refuse_error(error),
        Err(Refused::Failed) => refused_as(StatusCode::PRECONDITION_FAILED),
    }
}

async fn handle_request(
    backend: &Supervised,
    (sandbox, path): (&str, &str),
    access: Access,
    query: &Query,
    request: Request<Incoming>,
) -> Result<Answer, Refused> {
    let path = http::file_path(path)?;
    let headers = request.headers();
    let profiles = backend.profiles();
    if let Some(existing) = http::archive(&query.iter().collect::<Vec<_>>())? {
        let directory = trees::Directory { profiles, sandbox: sandbox.to_owned(), path, existing };
        return trees::answer(backend, directory, access, request).await.map_err(Refused::Error);
    }
    let conditions = Conditions {
        if_match: header_text(headers, &header::IF_MATCH)?,
        if_none_match: header_text(headers, &header::IF_NONE_MATCH)?,
    };
    if access == Access::Write {
        if headers.contains_key(header::CONTENT_RANGE) {
            let message = "a file is written as a whole: `Content-Range` is not supported";
            return Err(Error::new(Code::InvalidInput, message).into());
        }
        return write_file(backend, profiles, (sandbox, &path), conditions, request.into_body()).await;
    }
    let is_read = access == Access::Read;
    let range = if is_read { header_text(headers, &header::RANGE)? } else { None };
    let if_range = header_text(headers, &header::IF_RANGE)?;
    let (file, stat) = backend.client().read_file(profiles, sandbox, &path).await?;
    let head = http::read(&conditions, range.as_deref(), if_range.as_deref(), &stat);
    Ok(file_response(head, is_read.then_some(file)))
}

fn header_text(headers: &HeaderMap, name: &HeaderName) -> Result<Option<String>, Error> {
    let wrong = |_| Error::new(Code::InvalidInput, format!("the header `{name}` is not text"));
    headers.get(name).map(|value| value.to_str().map(str::to_owned)).transpose().map_err(wrong)
}

/// Returns a response with the part of the file that its head describes.
fn file_response(Head { status, headers, range }: Head, file: Option<File>) -> Answer {
    let code = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let length = range.end - range.start;
    let mut response = if http::refusal(status).is_some() {
        refused_as(code)
    } else {
        let body = match file {
            Some(file) if length > 0 => file_body(file, range),
            _ => whole(Bytes::new()),
        };
        let mut response = Response::new(body);
        if code != StatusCode::NOT_MODIFIED {
            response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(length));
        }
        response
    };
    *response.status_mut() = code;
    for (name, value) in headers {
        if let (Ok(value), false) = (HeaderValue::from_str(&value), response.headers().contains_key(name)) {
            response.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
    response
}

/// Returns the bytes of a file. If it becomes shorter, the body ends early, and the connection is closed.
fn file_body(file: File, range: Range<u64>) -> Body {
    let (send, mut pieces) = mpsc::channel::<Bytes>(AHEAD);
    tokio::task::spawn_blocking(move || {
        let mut at = range.start;
        while at < range.end {
            let mut piece = vec![0; usize::try_from(range.end - at).unwrap_or(PIECE).min(PIECE)];
            let read = match file.read_at(&mut piece, at) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Ok(0) | Err(_) => break,
                Ok(read) => read,
            };
            piece.truncate(read);
            at += read as u64;
            if send.blocking_send(piece.into()).is_err() {
                break;
            }
        }
    });
    let pieces = stream::poll_fn(move |cx| pieces.poll_recv(cx));
    BodyExt::boxed(StreamBody::new(pieces.map(|piece| Ok(Frame::data(piece)))))
}

async fn write_file(
    backend: &Supervised,
    profiles: Profiles,
    (sandbox, path): (&str, &str),
    conditions: Conditions,
    mut body: Incoming,
) -> Result<Answer, Refused> {
    let writing = backend.client().write_file(profiles, sandbox, path, conditions, None).await?;
    let file = Arc::new(writing.file.try_clone().map_err(|error| write_error(&error))?);
    let (mut collected, mut left) = (Vec::with_capacity(PIECE), writing.room);
    loop {
        let frame = body.frame().await.transpose().map_err(|_| {
            Error::new(Code::InvalidInput, "the body is not complete: the file was not written")
        })?;
        let is_last = frame.is_none();
        if let Some(bytes) = frame.and_then(|frame| frame.into_data().ok()) {
            left = left.checked_sub(bytes.len() as u64).ok_or_else(Writing::full)?;
            collected.extend_from_slice(&bytes);
        }
        if is_last || collected.len() >= PIECE {
            let (file, piece) = (Arc::clone(&file), std::mem::take(&mut collected));
            let written = tokio::task::spawn_blocking(move || (&*file).write_all(&piece)).await;
            written.map_err(std::io::Error::other).flatten().map_err(|error| write_error(&error))?;
        }
        if is_last {
            break;
        }
    }
    let (stat, is_new) = writing.finish().await?;
    let mut answer = Response::new(whole(Bytes::new()));
    *answer.status_mut() = if is_new { StatusCode::CREATED } else { StatusCode::NO_CONTENT };
    if let Some(tag) = http::tag(&stat).and_then(|tag| HeaderValue::from_str(&tag).ok()) {
        answer.headers_mut().insert(header::ETAG, tag);
    }
    Ok(answer)
}

fn write_error(error: &std::io::Error) -> Error {
    match error.kind() {
        kind @ (std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded) => {
            Writing::no_space(kind)
        }
        kind => Error::new(Code::Internal, format!("the file cannot be written: {kind}")),
    }
}

fn refused_as(status: StatusCode) -> Answer {
    let (code, message) = http::refusal(status.as_u16()).unwrap_or_default();
    refused(status, code, message)
}
