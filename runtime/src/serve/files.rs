//! Files of a sandbox, read and written as the bodies of requests.

use std::future::ready;
use std::pin::Pin;

use futures_util::{Stream as _, StreamExt as _, TryStreamExt as _, stream};
use koze_core::files::http::{self, ARCHIVE_HEADERS, Conditions, Head, Refused};
use koze_core::files::{self, Existing, Upload};
use koze_core::http::Access;
use koze_core::path::anywhere;
use koze_core::provider::Provider;
use koze_core::{Sandbox as _, Session};
use worker::send::SendWrapper;
use worker::worker_sys::FixedLengthStream as Fixed;
use worker::{FixedLengthStream, Request, Response, console_error};

use super::answer::{Refusal, head};

/// Handles a request for a file of a sandbox of a session. A write creates the sandbox on first use.
pub(super) async fn answer<P: Provider>(
    request: Request,
    session: &Session<P>,
    sandbox: &str,
    path: &str,
    access: Access,
) -> Result<Response, Refusal> {
    let path = http::file_path(path)?;
    let conditions = Conditions {
        if_match: request.headers().get("if-match")?,
        if_none_match: request.headers().get("if-none-match")?,
    };
    if access == Access::Write {
        return write(request, session.sandbox(sandbox).await?, &path, conditions).await;
    }
    let sandbox = files::existing(session, sandbox).await?;
    let (target, stat) = files::resolve(&sandbox, &path).await?;
    let stat = stat.ok_or_else(|| files::missing(&path))?;
    let range = request.headers().get("range")?.filter(|_| access == Access::Read);
    let if_range = request.headers().get("if-range")?;
    let Head { status, headers, range } =
        http::read(&conditions, range.as_deref(), if_range.as_deref(), &stat);
    if let Some((code, message)) = http::refusal(status) {
        return refused(Refusal::new(status, code, message), &headers);
    }
    let head = head(status, headers.iter().map(|(name, value)| (*name, &**value)))?;
    if status == 304 {
        return Ok(head.empty());
    }
    let length = range.end - range.start;
    if access == Access::Describe {
        return Ok(head.with_header("content-length", &length.to_string())?.empty());
    }
    let bytes = files::download(sandbox, target, stat, range).map_err(cut_off);
    let body: Fixed = FixedLengthStream::wrap(Box::pin(bytes), length).into();
    Ok(head.stream(body.readable()))
}

/// Handles a request for a directory of a sandbox, as an archive.
pub(super) async fn answer_archive<P: Provider>(
    request: Request,
    session: &Session<P>,
    sandbox: &str,
    path: &str,
    (access, existing): (Access, Existing),
) -> Result<Response, Refusal> {
    let path = http::file_path(path)?;
    let names: Vec<String> = request.headers().keys().collect();
    http::check_archive(names.iter().map(String::as_str))?;
    if access == Access::Write {
        return write_archive(request, session.sandbox(sandbox).await?, &path, existing).await;
    }
    let mut tar = files::existing(session, sandbox).await?.archive(anywhere(&path));
    // An error before the first part becomes the response.
    let first = tar.try_next().await?.map(|(bytes, _)| bytes).unwrap_or_default();
    let head = head(200, ARCHIVE_HEADERS)?;
    if access == Access::Describe {
        return Ok(head.empty());
    }
    // The last part may be empty: it only carries the counts.
    let rest = tar.map_ok(|(bytes, _)| bytes).try_filter(|bytes| ready(!bytes.is_empty())).map_err(cut_off);
    Ok(head.from_stream(stream::iter([Ok(first)]).chain(rest))?)
}

/// Aborts a response that has begun. Its reader only learns that it is incomplete.
fn cut_off(error: koze_core::Error) -> worker::Error {
    console_error!("koze: {error}");
    worker::Error::RustError(error.message)
}

async fn write_archive<S: koze_core::Sandbox>(
    mut request: Request,
    sandbox: S,
    path: &str,
    existing: Existing,
) -> Result<Response, Refusal> {
    if request.inner().body().is_none() {
        return Err(Refusal::invalid("the body is empty: send a tar archive"));
    }
    let mut body = SendWrapper::new(request.stream()?);
    let bytes = stream::poll_fn(move |cx| Pin::new(&mut *body).poll_next(cx));
    let cut = |_| {
        let message = "the body is not complete: the directory was not created";
        koze_core::Error::new(koze_core::Code::InvalidInput, message)
    };
    let is_new = files::extract(&sandbox, path, existing, Box::pin(bytes.map_err(cut))).await?;
    Ok(head(if is_new { 201 } else { 204 }, [])?.empty())
}

async fn write<S: koze_core::Sandbox>(
    mut request: Request,
    sandbox: S,
    path: &str,
    conditions: Conditions,
) -> Result<Response, Refusal> {
    if request.headers().has("content-range")? {
        return Err(Refusal::invalid("a file is written as a whole: `Content-Range` is not supported"));
    }
    let mut upload = Upload::begin(sandbox, path, conditions).await.map_err(unmet)?;
    if request.inner().body().is_some() {
        let mut body = request.stream()?;
        while let Some(bytes) = body.next().await {
            let cut = |_| Refusal::invalid("the body is not complete: the file was not written");
            upload.push(&bytes.map_err(cut)?).await?;
        }
    }
    let (stat, is_new) = upload.finish().await.map_err(unmet)?;
    let tag = http::tag(&stat);
    let headers = tag.iter().map(|tag| ("etag", &**tag));
    Ok(head(if is_new { 201 } else { 204 }, headers)?.empty())
}

fn unmet(refused: Refused) -> Refusal {
    match refused {
        Refused::Error(error) => error.into(),
        Refused::Failed => {
            let (code, message) = http::refusal(412).unwrap_or_default();
            Refusal::new(412, code, message)
        }
    }
}

fn refused(refusal: Refusal, headers: &[(&'static str, String)]) -> Result<Response, Refusal> {
    let mut response = refusal.into_response()?;
    for (name, value) in headers.iter().filter(|(name, _)| matches!(*name, "content-range" | "etag")) {
        response.headers_mut().set(name, value)?;
    }
    Ok(response)
}
