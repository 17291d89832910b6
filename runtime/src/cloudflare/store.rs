//! The store of a session on Cloudflare: values in the session's registry, blobs in an R2 bucket.

use std::future::Future;
use std::pin::pin;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::{Stream, TryStreamExt};
use koze_core::error::{Code, Error, Result};
use koze_core::id::SessionId;
use koze_core::maybe_send::MaybeSend;
use koze_core::sandbox::Piece;
use koze_core::store::{Expected, Key, Listed, ListedBlob, Range, Store, Value, check_size};
use worker::send::SendFuture;
use worker::{Bucket, MultipartUpload, Range as R2Range, UploadedPart, console_error};

use super::Cloudflare;
use super::registry::values::{Request, Stored};
use super::registry::{self, Registry};

/// The size of a part of an upload. R2 requires at least 5 MiB, and the same for all parts but the last.
const PART: usize = 8 << 20;

/// The store of a session on Cloudflare.
#[derive(Debug, Clone)]
pub struct CloudflareStore {
    provider: Cloudflare,
    session: SessionId,
    /// The binding of the R2 bucket for blobs.
    bucket: Option<String>,
}

impl CloudflareStore {
    pub(super) fn new(provider: &Cloudflare, session: &SessionId) -> Self {
        let bucket = provider.shared.bucket.clone();
        CloudflareStore { provider: provider.clone(), session: session.clone(), bucket }
    }

    /// Returns the same store with another bucket for blobs.
    pub(super) fn with_bucket(self, binding: &str) -> Self {
        CloudflareStore { bucket: Some(binding.to_owned()), ..self }
    }

    fn registry(&self) -> Result<Registry> {
        self.provider.registry(&self.session).ok_or_else(registry::missing)
    }

    fn bucket(&self) -> Result<Bucket> {
        let Some(binding) = &self.bucket else {
            let message = "this Worker has no bucket for blobs: name one in `snapshot(bucket = \"…\")` for snapshots, or add an \
                R2 bucket to `r2_buckets` and pass its binding to `Cloudflare::with_bucket`";
            return Err(Error::new(Code::Unsupported, message));
        };
        self.provider.shared.env.bucket(binding).map_err(|_| {
            let message =
                format!("the Worker has no R2 bucket `{binding}`: add it to `r2_buckets`, and deploy again");
            Error::new(Code::Unsupported, message)
        })
    }

    /// The start of all R2 keys of the session.
    fn prefix(&self) -> String {
        format!("koze/{}", self.session.key())
    }

    fn object(&self, key: &Key) -> String {
        format!("{}{}", self.prefix(), key.as_str())
    }
}

impl Store for CloudflareStore {
    fn get(&self, key: &Key) -> impl Future<Output = Result<Option<Value>>> + MaybeSend {
        let request = Request::Get { key: key.as_str().to_owned() };
        SendFuture::new(async move {
            let stored: Option<Stored> = self.registry()?.values(request).await?;
            stored.as_ref().map(value).transpose()
        })
    }

    fn put(
        &self,
        key: &Key,
        bytes: Vec<u8>,
        expected: Expected,
    ) -> impl Future<Output = Result<Option<u64>>> + MaybeSend {
        let key = key.as_str().to_owned();
        SendFuture::new(async move {
            check_size(&bytes)?;
            let request = Request::Put { key, bytes: STANDARD.encode(&bytes), expected };
            self.registry()?.values(request).await
        })
    }

    fn delete(&self, key: &Key, expected: Expected) -> impl Future<Output = Result<bool>> + MaybeSend {
        let request = Request::Delete { key: key.as_str().to_owned(), expected };
        SendFuture::new(async move { self.registry()?.values(request).await })
    }

    fn list(&self, range: &Range) -> impl Future<Output = Result<Vec<Listed>>> + MaybeSend {
        let request = Request::List { range: Range { limit: range.bounded(), ..range.clone() } };
        SendFuture::new(async move { self.registry()?.values(request).await })
    }

    fn check_blobs(&self) -> Result<()> {
        self.registry()?;
        self.bucket().map(drop)
    }

    fn put_blob(
        &self,
        key: &Key,
        content: impl Stream<Item = Result<Vec<u8>>> + MaybeSend + 'static,
    ) -> impl Future<Output = Result<u64>> + MaybeSend {
        let object = self.object(key);
        SendFuture::new(async move {
            let bucket = self.bucket()?;
            let mut content = pin!(content);
            let mut part = Vec::new();
            while let Some(bytes) = content.try_next().await? {
                part.extend(bytes);
                if part.len() >= PART {
                    let upload = bucket.create_multipart_upload(object).execute().await.map_err(failed)?;
                    return upload_parts(upload, part, content).await;
                }
            }
            let size = part.len() as u64;
            bucket.put(object, part).execute().await.map_err(failed)?;
            Ok(size)
        })
    }

    fn read_blob(
        &self,
        key: &Key,
        offset: u64,
        limit: u64,
    ) -> impl Future<Output = Result<Option<Piece>>> + MaybeSend {
        let object = self.object(key);
        SendFuture::new(async move {
            let bucket = self.bucket()?;
            let Some(about) = bucket.head(&object).await.map_err(failed)? else { return Ok(None) };
            let size = about.size();
            let length = limit.min(size.saturating_sub(offset));
            // R2 rejects empty ranges.
            if length == 0 {
                return Ok(Some(Piece { bytes: Vec::new(), size }));
            }
            let range = R2Range::OffsetWithLength { offset, length };
            let read = bucket.get(&object).range(range).execute().await.map_err(failed)?;
            let Some(read) = read else { return Ok(None) };
            let size = read.size();
            let body = read.body().ok_or_else(|| failed("the object has no body".into()))?;
            Ok(Some(Piece { bytes: body.bytes().await.map_err(failed)?, size }))
        })
    }

    fn delete_blob(&self, key: &Key) -> impl Future<Output = Result<bool>> + MaybeSend {
        let object = self.object(key);
        SendFuture::new(async move {
            let bucket = self.bucket()?;
            let existed = bucket.head(&object).await.map_err(failed)?.is_some();
            bucket.delete(object).await.map_err(failed)?;
            Ok(existed)
        })
    }

    fn list_blobs(&self, range: &Range) -> impl Future<Output = Result<Vec<ListedBlob>>> + MaybeSend {
        let (prefix, range) = (self.prefix(), range.clone());
        SendFuture::new(async move {
            let bucket = self.bucket()?;
            let mut listed = Vec::new();
            let mut after = range.after.map(|after| format!("{prefix}{after}"));
            let limit = range.limit.min(koze_core::store::MAX_LISTED);
            while listed.len() < limit {
                let left = u32::try_from(limit - listed.len()).unwrap_or(u32::MAX);
                let mut request = bucket.list().prefix(format!("{prefix}{}", range.prefix)).limit(left);
                if let Some(after) = &after {
                    request = request.start_after(after);
                }
                // R2 may return fewer objects than there are.
                let page = request.execute().await.map_err(failed)?;
                let objects = page.objects();
                after = objects.last().map(worker::Object::key);
                listed.extend(objects.iter().map(|object| {
                    let key = object.key()[prefix.len()..].to_owned();
                    ListedBlob { key, size: object.size() }
                }));
                if !page.truncated() || objects.is_empty() {
                    break;
                }
            }
            Ok(listed)
        })
    }
}

/// Uploads the rest of a blob in parts. R2 keeps nothing of an upload that is not completed.
async fn upload_parts(
    upload: MultipartUpload,
    mut part: Vec<u8>,
    mut content: impl Stream<Item = Result<Vec<u8>>> + Unpin,
) -> Result<u64> {
    let mut parts = Vec::new();
    match send_parts(&upload, &mut parts, &mut part, &mut content).await {
        Ok(size) => {
            upload.complete(parts).await.map_err(failed)?;
            Ok(size)
        }
        Err(error) => {
            // R2 aborts it after a week if this fails.
            let _ = upload.abort().await;
            Err(error)
        }
    }
}

async fn send_parts(
    upload: &MultipartUpload,
    parts: &mut Vec<UploadedPart>,
    part: &mut Vec<u8>,
    content: &mut (impl Stream<Item = Result<Vec<u8>>> + Unpin),
) -> Result<u64> {
    let mut size = 0;
    loop {
        let next = content.try_next().await?;
        let ended = next.is_none();
        part.extend(next.unwrap_or_default());
        while part.len() >= PART || (ended && !part.is_empty()) {
            let rest = part.split_off(part.len().min(PART));
            let number = u16::try_from(parts.len() + 1).unwrap_or(u16::MAX);
            size += part.len() as u64;
            parts.push(upload.upload_part(number, std::mem::replace(part, rest)).await.map_err(failed)?);
        }
        if ended {
            return Ok(size);
        }
    }
}

fn value(stored: &Stored) -> Result<Value> {
    let bytes = STANDARD.decode(stored.bytes.as_bytes());
    let bytes = bytes.map_err(|error| {
        Error::new(Code::Internal, format!("the store's reply is invalid: {error}")).with_source(error)
    })?;
    Ok(Value { bytes, version: stored.version })
}

/// The text of the platform's error goes to the log: it may contain names of the account.
#[allow(clippy::needless_pass_by_value, reason = "it is used with `map_err`")]
fn failed(error: worker::Error) -> Error {
    console_error!("koze: R2: {error}");
    Error::new(Code::Unavailable, "the bucket of the store does not answer: try again later")
}
