//! The route `files` with `archive=tar`: directories of a sandbox as archives.

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode};
use koze_core::archive::foreign;
use koze_core::files::{Existing, http};
use koze_core::http::Access;
use koze_core::{Code, Error, Profiles};
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

use super::answer::{Answer, whole};
use crate::mcp::supervised::Supervised;
use crate::provider::archives;
use crate::session::message::Way;
use crate::session::trees::Copying;

/// The number of pieces that are buffered for a slow client.
const AHEAD: usize = 2;
/// The maximum number of bytes that are still read of a refused body: closing a connection with unread bytes would lose the response.
const REST: usize = 64 << 20;

/// A directory that a request names.
#[derive(Debug)]
pub(super) struct Directory {
    pub(super) profiles: Profiles,
    pub(super) sandbox: String,
    pub(super) path: String,
    pub(super) existing: Existing,
}

impl Directory {
    async fn start_copy(self, backend: &Supervised, way: Way) -> Result<Copying, Error> {
        backend.client().copy_tree(self.profiles, &self.sandbox, &self.path, way).await
    }
}

/// Answers a request for a directory.
pub(super) async fn answer(
    backend: &Supervised,
    directory: Directory,
    access: Access,
    request: Request<Incoming>,
) -> Result<Answer, Error> {
    http::check_archive(request.headers().keys().map(HeaderName::as_str))?;
    if access != Access::Write {
        let copying = directory.start_copy(backend, Way::ArchiveOut).await?;
        return archive_response(copying, access == Access::Describe).await;
    }
    let mut body = request.into_body();
    let way = Way::ArchiveIn(directory.existing);
    let copying = directory.start_copy(backend, way).await;
    let written = match copying {
        Ok(copying) => extract_archive(copying, &mut body).await,
        Err(error) => Err(error),
    };
    if written.is_err() {
        tokio::spawn(drain_body(body));
    }
    written
}

/// Returns the archive. If it fails midway, the connection is closed.
async fn archive_response(copying: Copying, is_head: bool) -> Result<Answer, Error> {
    let (send, mut pieces) = mpsc::channel::<Result<Vec<u8>, Error>>(AHEAD);
    tokio::task::spawn_blocking(move || {
        let read = archives::read(copying.pipe, |piece| send.blocking_send(Ok(piece)).is_ok());
        if let Err(error) = read {
            let _ = send.blocking_send(Err(error));
        }
    });
    // An error before the first piece becomes the response.
    let first = pieces.recv().await.transpose()?.unwrap_or_default();
    let body = if is_head {
        whole(Bytes::new())
    } else {
        let rest = stream::poll_fn(move |cx| pieces.poll_recv(cx));
        let frames = stream::iter([Ok(first)]).chain(rest);
        let frames = frames.map_ok(|piece| Frame::data(piece.into())).map_err(std::io::Error::other);
        BodyExt::boxed(StreamBody::new(frames))
    };
    let mut answer = Response::new(body);
    for (name, value) in http::ARCHIVE_HEADERS {
        answer.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    Ok(answer)
}

/// Creates the directory.
async fn extract_archive(copying: Copying, body: &mut Incoming) -> Result<Answer, Error> {
    let failed = |error: std::io::Error| {
        Error::new(Code::Internal, format!("the archive cannot be passed on: {error}"))
    };
    let pipe = copying.pipe.try_clone().map_err(failed)?;
    let mut pipe = pipe::Sender::from_file(pipe).map_err(failed)?;
    let mut tar = foreign(Box::pin(body_stream(body)));
    let sent = loop {
        match tar.try_next().await {
            // If the sandbox has stopped reading, its answer contains the reason.
            Ok(Some(bytes)) if pipe.write_all(&bytes).await.is_ok() => {}
            Ok(_) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    drop((tar, pipe));
    // An incomplete archive leaves nothing behind.
    let created = copying.finish_archive().await;
    let is_new = match (sent, created) {
        // Only the sender knows why the archive is incomplete.
        (Err(error), Err(Error { code: Code::Unavailable, .. }) | Ok(_)) => return Err(error),
        (_, created) => created?,
    };
    let status = if is_new { StatusCode::CREATED } else { StatusCode::NO_CONTENT };
    let mut answer = Response::new(whole(Bytes::new()));
    *answer.status_mut() = status;
    Ok(answer)
}

/// Returns the bytes of a body.
fn body_stream(body: &mut Incoming) -> impl futures_util::Stream<Item = Result<Vec<u8>, Error>> + Send {
    stream::try_unfold(body, |body| async move {
        loop {
            let Some(frame) = body.frame().await else { return Ok(None) };
            let frame = frame.map_err(|_| {
                Error::new(Code::InvalidInput, "the body is not complete: the directory was not created")
            })?;
            if let Ok(bytes) = frame.into_data() {
                return Ok(Some((bytes.to_vec(), body)));
            }
        }
    })
}

async fn drain_body(mut body: Incoming) {
    let mut left = REST;
    while let Some(Ok(frame)) = body.frame().await {
        let length = frame.data_ref().map_or(0, Bytes::len);
        let Some(now) = left.checked_sub(length) else { return };
        left = now;
    }
}
